"""The family of a sentence that speaks of what a program needs around it: packages, versions, memory, disk, time.

Programs put the errors of the system and of other packages in words of their own. Each form here is of several words
that belong together, so that none of them decides alone.
"""

from __future__ import annotations

import re

from labbook.diagnosis.families.model_files import family_of_model_file


def _any(*forms: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{form})" for form in forms), re.IGNORECASE)


ADDRESS = re.compile(r"\w+://\S+")
"""Of a page or file of the web: its words say nothing of a failure."""
_VERSION = r"v?\d+\.\d+(?:\.\w+)*"
_APART = (
    r"(?:nccl|gloo|ddp|dist(?:ributed)?(?:\.\w+)?|(?:multi|multiple|several|many)[- ]?(?:gpu|node|card)s?"
    r"|多\s?(?:GPU|显卡|机器)|(?:多|[两几\d] ?)[张块]\s?(?:卡|显卡|gpu)|\d (?:gpus|nodes)"
    r"|accelerate launch"
    r"|barrier|all_?reduce|all_?gather"
    r"|init_process_group"
    r"|rendezvous|collectives?|fleet|torchrun|[多双两]卡|[多双两]机|分布式|集合通信)"
)
_HANGS = (
    r"(?:\b(?:hangs?|hanging|hung|stuck|deadlock(?:s|ed)?|freez(?:es|ing) (?:at|after|during|when|before)"
    r"|(?:to freeze|freezes|froze)(?=\W*$)"
    r"|(?:waits?|waiting|blocks?"
    r"|blocked) forever)\b"
    r"|卡住|卡死|卡在|卡着|挂起|挂住|不动|不训练|没有?反应|无响应|停住|停滞|死机)"
)
HANGS = re.compile(rf"{_APART}[^。;；]{{0,80}}?{_HANGS}|{_HANGS}[^。;；]{{0,80}}?{_APART}", re.IGNORECASE)
"""Words of processes that wait for each other and of their waiting, near each other."""
_FORMS = (
    (
        "api_version_mismatch",
        _any(
            rf"\b(?:requires?|needs?|expects?|supports? only|only supports?) (?:an? |the )?[\w.-]+ ?(?:version )?"
            rf"(?:[<>=]=?|==|at least|or) ?{_VERSION}",
            rf"\b(?:requires?|needs?|depends on) (?:an? |the )?[\w.-]+ ?(?:version )?{_VERSION}\+?"
            rf"(?: or (?:newer|higher|later|above|greater)| and above|\+)?",
            rf"\b[\w.-]+ ?(?:[<>=]=|==) ?{_VERSION}\S* (?:is|are) (?:required|needed|necessary)",
            rf"\b(?:version|installed)\b[^.;]{{0,40}}?{_VERSION}[^;]{{0,60}}?\b(?:is|are) (?:too old|outdated"
            rf"|not supported"
            r"|incompatible|not compatible|unsupported)",
            r"\bpip3? install (?:-U|--upgrade)\b",
            r"\bversion of (?:the )?\w+ is (?:newer|older|lower|higher) than\b",
            r"\bversions? mis-?match\b|\bmis-?match\w* versions?\b",
            r"\b(?:need|needs|have|has|want) to (?:upgrade|downgrade)\b",
            r"\bplease (?:upgrade|update|downgrade) (?:your |the )?[\w.-]+(?: version)?(?: to|$|[.,])",
            r"\b(?:is|are|was) deprecated and (?:has been |was |will be )?removed\b",
        ),
    ),
    (
        "missing_dependency",
        _any(
            r"\b(?:pip3?|conda|apt(?:-get)?|brew) install\b",
            r"\bplease (?:first )?install\b(?! (?:the )?(?:newer|latest|older|correct))",
            r"\b(?:need|needs|have|has|must) to (?:be )?install(?:ed)?\b",
            r"\bmake sure (?:that )?(?:you have )?\S+ (?:is )?installed\b|\b(?:is|are) not installed\b"
            r"|\bnot been installed\b",
            r"(?:请先?安装|未安装|没有安装)",
        ),
    ),
    (
        "nan_or_inf",
        _any(
            r"\b(?:loss|losses|gradients?|grad(?:ient)?[ _]norms?|norm|values?|outputs?|inputs?|weights?|logits"
            r"|tensor"
            r"|reward|parameters?)\b[^.;]{0,30}?\b(?:is|are|was|became|becomes|contains?|has|have|went|==?) (?:a "
            r"|an )?"
            r"(?:nan|inf|infinite|infinity|not finite|non-?finite)\b",
            r"\b(?:nans?|infs?|infinit\w+|non-?finite)\b[^.;]{0,30}?\b(?:encountered|detected|found|occurred"
            r"|appeared|in (?:the )?"
            r"(?:loss|gradients?|outputs?|inputs?|logits))\b",
            r"(?:损失|梯度|loss).{0,8}(?:为|是|出现|变成)\s?(?:nan|inf)",
        ),
    ),
    (
        "disk_full",
        _any(
            r"\[Errno (?:28|122)\b",
            r"\bdisk (?:is |was )?full\b",
            r"\bno space left\b",
            r"\bquota exceeded\b",
            r"磁盘(?:空间)?(?:已满|不足)",
        ),
    ),
    (
        "file_not_found",
        _any(r"\[Errno 2\b"),
    ),
    (
        "permission_error",
        _any(
            r"\[Errno 13\b|\bperm\w{0,2}i\w{0,3}on denied\b|\bpermi?s?s?(?:i|it)?ion error\b|\bperm[is]*t?ion error\b",
            r"\bpermission denied\b",
            r"\baccess is denied\b",
            r"\bread-only file system\b",
            r"权限不够|拒绝访问|没有(?:读取?|写入?|访问|执行)?权限|无权(?:限|访问)",
        ),
    ),
    (
        "nccl_or_collective",
        _any(
            HANGS.pattern,
            r"(?:报错|错误|出错|看样子)[^。]{0,20}?(?:是|为|\()\s?nccl|nccl[^。，]{0,6}(?:报错|错误|出错|的问题)",
            r"\b(?:nccl|gloo|mpi|rendezvous|barrier|process ?group|c10d|tcpstore|allreduce|all_reduce|allgather"
            r"|broadcast)\b.{0,80}\b(?:tim(?:ed?) ?-?out|timeout|failed|aborted)\b",
            r"\btim(?:ed?) ?-?out\b.{0,60}\b(?:nccl|gloo|rendezvous|barrier|process ?group|other ranks?|all ranks"
            r"|peers?)\b",
        ),
    ),
    (
        "shared_memory",
        _any(r"\b(?:create|open|allocate|map|resize) (?:\w+ )?shared memory\b|/dev/shm\b"),
    ),
    (
        "timeout",
        _any(
            r"\btimed[ -]?out\b",
            r"\btime-?out(?: of \S+)?(?: \w+)? (?:after|reached|exceeded|expired|while|waiting)\b",
            r"\btime limit (?:exceeded|reached)\b|\bexceeded (?:the )?time limit\b",
            r"超时",
        ),
    ),
    (
        "cuda_oom",
        _any(
            r"\b(?:gpu|cuda|device|vram|video)\b.{0,60}\b(?:out of memory|(?:not enough|insufficient) memory)\b",
            r"\b(?:out of memory|(?:not enough|insufficient) (?:gpu |video |device )?memory)\b.{0,60}\b(?:gpu|cuda"
            r"|vram)\b",
            r"\b(?:not enough|insufficient|out of) (?:gpu|video|cuda|device) memory\b",
        ),
    ),
    (
        "host_oom_killed",
        _any(
            r"\b(?:cannot|can't|could not|unable to|failed to) allocate (?:\S+ ){0,3}(?:memory|bytes)\b",
            r"\b(?:not enough|insufficient|out of) (?:system |host |cpu |virtual )?(?:memory|ram)\b",
            r"(?<!共享)内存(?:不足|溢出|不够)",
        ),
    ),
    (
        "checkpoint_load_error",
        _any(
            r"\b(?:cannot|can ?not|can't|could not|couldn't|failed to|unable to|error|errors) (?:in |while |when )?"
            r"(?:load|loading|read|reading|restore|restoring|open|opening|resume|resuming"
            r"|deseriali[sz]\w+)\b[^.;]{0,60}?"
            r"\b(?:checkpoints?|ckpt|weights|state[ _]dict|pre-?trained(?: model)?|model (?:parameters|file"
            r"|weights))\b",
            r"\b(?:checkpoint|ckpt)\b[^.;]{0,30}?(?:does not|doesn't) (?:contain|have|include)\b"
            r"|\b(?:missing|not found|not present) (?:in|from) (?:the )?(?:checkpoint|ckpt)\b",
            r"\bnot a valid (?:state[ _]?dict|checkpoint|weights?|model) file\b",
            r"\b(?:checkpoints?|ckpt|weights? file|model file)\b[^.;]{0,40}?\b(?:is|are|seems?|may be"
            r"|appears?)(?: to be)? (?:corrupt\w*"
            r"|broken|damaged|invalid|incomplete|truncated)\b",
        ),
    ),
    (
        "other",
        _any(
            r"\bcheck (?:that )?(?:your |the )?(?:network|internet|proxy)\b|\b(?:no|without|lost) (?:internet|network) "
            r"(?:connection|access)\b|\b(?:network|proxy|internet) (?:is |was )?(?:unreachable|error|down|problem)\b",
            r"\b(?:cannot|can ?not|can't|could not|couldn't|failed to|unable to) (?:connect|reach|access|resolve)\b"
            r"[^.;]{0,40}?\b(?:hub|host|server|url|site|proxy|internet|endpoint|mirror)\b",
            r"检查(?:您的|你的)?网络|网络(?:连接)?(?:失败|错误|异常|不通|中断)|无法(?:连接|访问)(?:到)?(?:网络"
            r"|服务器|外网)",
        ),
    ),
)


def family_by_surroundings(sentence: str) -> str | None:
    """The family that a message gives by what it says of packages, versions, memory, disk or time, or `None`.

    Args:
        sentence: A message on one line, without addresses.
    """
    family = next((family for family, words in _FORMS if words.search(sentence)), None)
    return family or family_of_model_file(sentence)
