"""Failures that a sentence names by their usual term: "it stops with an illegal memory access".

A term is of several words that belong together; it counts only in a sentence that says something was met, printed or
ended by it. Terms are those of the frameworks, of CUDA and of the system, in English and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_HAPPENED = re.compile(
    r"\b(?:stop(?:s|ped)?|fail(?:s|ed|ing|ure)?|crash\w*|die[sd]?|errors?|exception|rais(?:e|es|ed|ing)|thr(?:ow|ows"
    r"|ew|own)"
    r"|get(?:s|ting)?|got|giv(?:es|en|ing)|gave|says?|said|show(?:s|ed)?|report(?:s|ed)?|complain\w*|hit(?:s|ting)?"
    r"|encounter\w*|r[au]n(?:s|ning)? into|end(?:s|ed)?|exit(?:s|ed)?|sees?|seeing|saw|fac(?:e|es|ed|ing)|met|receiv\w+"
    r"|returns?|prints?|keeps?|because of|due to|caused by|problem|issue|abort\w*|trigger\w*|caught|killed)\b"
    r"|报|提示|出现|遇到|显示|出错|错误|抛|崩|退出|中断|失败|说|爆|卡|挂|异常|不了|不行|跑不|一[^，。]{1,12}就",
    re.IGNORECASE | re.ASCII,
)
_TERMS = (
    (
        "illegal_memory_access",
        r"illegal memory(?: access(?:es)?| address| encounter\w*)|misaligned address|unspecified launch failure"
        r"|illegal address|非法(?:的)?(?:内存|显存|地址)访问|(?:非法)?访问非法(?:内存|地址)|内存访问(?:错误|越界"
        r"|违规|冲突)",
    ),
    ("cuda_device_assert", r"device[- ]side assert|设备端断言"),
    (
        "cuda_driver_mismatch",
        r"no kernel image|driver (?:version )?(?:is )?(?:too old|insufficient|outdated)"
        r"|no cuda(?:-capable)? (?:gpus?|devices?)|not (?:been )?compiled with (?:cuda|gpu)|sm_\d+ is not compatible"
        r"|(?:driver|cuda) and runtime versions?|(?:can ?not|can't|does not|doesn't|unable to) (?:find|see|detect"
        r"|use|recogni[sz]e) "
        r"(?:the |my |any |a )?(?:gpu|cuda|graphics card)|驱动(?:版本)?(?:过低|太低|太旧|过旧|不匹配|不兼容|不支持"
        r"|太老)"
        r"|(?:算力|架构)(?:不支持|不匹配|太低|过低|不兼容)|(?:检测|找|识别|用)不[到了]\s?(?:gpu|显卡|cuda)"
        r"|没有?(?:检测|识别|找)到\s?(?:gpu|显卡|cuda)",
    ),
    (
        "cudnn_error",
        r"(?:cudnn|cublas)\w* (?:errors?|fail\w*|execution failed|init\w* (?:error|failed)|not initiali[sz]ed|status)"
        r"|(?:cudnn|cublas)\s?(?:的)?(?:报错|错误|初始化失败|执行失败|异常)",
    ),
    (
        "shared_memory",
        r"\bbus error|(?:insufficient|not enough|out of|lack of|too little|running out of) shared memory"
        r"|shared memory (?:is )?(?:full|too small|exhausted|limit|not enough|insufficient)|too many open files"
        r"|共享内存(?:不[足够]|溢出|太小|耗尽|满)|打开的?文件(?:数|太|过)+多?|文件描述符(?:不够|耗尽|用完)|总线错误",
    ),
    (
        "disk_full",
        r"no space left|disk (?:space )?(?:is |was |ran )?(?:full|exhausted|out)|(?:disk )?quota exceeded"
        r"|(?:run|ran|running) out of (?:disk|storage)(?: space)?|(?:磁盘|硬盘|存储)(?:空间)?(?:满|不够|不足|爆)",
    ),
    (
        "permission_error",
        r"permissions? (?:errors?|issues?|problems?|denied)|no (?:write|read|access) permissions?|access (?:is "
        r"|was )?denied"
        r"|not permitted|没有?(?:读写?|写入?|访问|执行)?权限|权限(?:的)?(?:错误|问题|不足|不够|被拒)|拒绝访问",
    ),
    (
        "ddp_unused_parameters",
        r"unused parameters|parameters? (?:that )?(?:were |was |are )?(?:not"
        r"|un)[- ]?used in (?:producing )?(?:the )?loss"
        r"|did not receive grad\w*|finished reduction",
    ),
    (
        "nccl_or_collective",
        r"nccl (?:errors?|fail\w*|timeout|problem|crash\w*|unhandled)|unhandled (?:system|cuda) error"
        r"|process group|nccl\s?(?:的)?(?:报错|错误|超时|异常|问题|通信失败)|(?:多卡|多机|集合)通信(?:失败|错误|超时"
        r"|异常)",
    ),
    (
        "backward_twice",
        r"backward (?:through the graph )?(?:a )?second time|backward twice|retain_graph"
        r"|(?:第二次|两次|重复)反向(?:传播)?|计算图(?:已经?)?(?:被)?释放",
    ),
    (
        "inplace_modification",
        r"in-?place (?:operations?|modifications?|changes?)|modified (?:by an )?in-?place"
        r"|(?:原地|就地|inplace)\s?(?:操作|修改|运算)",
    ),
    ("non_scalar_backward", r"only for scalar outputs?|grad can be implicitly"),
    (
        "no_grad_path",
        r"does(?: not|n't) require grad|(?:no|without|not have a|has no) grad_fn|没有?梯度(?!(?:爆炸|消失))|梯度为空"
        r"|没有\s?grad_fn",
    ),
    (
        "device_mismatch",
        r"(?:same|different|two) devices?\b|on (?:the )?cpu and [^.]{0,30}(?:gpu|cuda)|(?:不在|不是)同一(?:个)?设备"
        r"|设备不(?:一致|匹配|相同|统一)",
    ),
    (
        "index_out_of_range",
        r"(?:index|ind(?:ices|exes)|labels?|targets?|subscript|token ids?) (?:is |are "
        r"|was )?out of (?:the )?(?:range|bounds?)"
        r"|(?:标签|索引|下标|数组|列表|类别)\s?(?:值|编号)?(?:越界|超出(?:了)?(?:范围|边界)?)",
    ),
    (
        "pickling_error",
        r"(?:can(?:not|'t| not)|unable to|failed to) (?:be )?pickled?|pickl(?:e|ing) (?:errors?|fail\w*|problem|issue)"
        r"|(?:序列化|pickle)\s?(?:的)?(?:错误|失败|报错|异常)",
    ),
    (
        "import_abi_mismatch",
        r"undefined symbols?|dll (?:load )?fail\w*|glibc(?:xx)?[_ ]?[\d.]* (?:is |was )?not found|binary incompatib\w+"
        r"|未定义(?:的)?符号|dll\s?(?:文件)?(?:加载失败|找不到|缺失|丢失)|动态(?:链接)?库(?:加载失败|不兼容)",
    ),
    (
        "missing_dependency",
        r"no module (?:named|called)|module (?:is |was )?not found|(?:找不到|没有|缺少)\s?[\w.-]{0,30}\s?(?:这个"
        r"|该)?(?:模块|module)",
    ),
    (
        "checkpoint_size_mismatch",
        r"(?:size|shape)s? mismatch\w*[^.]{0,30}(?:load\w*|checkpoint|pre-?trained|weights)"
        r"|(?:加载|载入|读取|恢复|load)[^，。]{0,12}(?:权重|模型|参数|预训练|checkpoint|ckpt)[^。]{0,40}?(?:shape"
        r"|形状|维度|尺寸|大小|类别数)[^，。]{0,10}"
        r"(?:对不上|不匹配|不一致|不符|不同|不对|不一样)",
    ),
    (
        "checkpoint_load_error",
        r"(?:corrupt\w*|broken|damaged|truncated|incomplete) (?:checkpoint|model|weights?|ckpt)(?: file)?"
        r"|(?:checkpoint|模型|权重|参数)\s?(?:文件)?(?:损坏|不完整|坏了)|(?:模型|权重|checkpoint"
        r"|ckpt)[^，。]{0,8}(?:加载|载入|读取)(?:失败|报错|出错|不了|不进去|不上)"
        r"|(?:加载|载入|读取)[^，。]{0,8}(?:模型|权重|checkpoint|ckpt|预训练\w*)(?:的时候|时)?[^，。]{0,6}(?:失败"
        r"|报错|出错|不了|不进去|不上)",
    ),
    (
        "dataloader_worker_died",
        r"(?:worker|data ?loader)s?\b[^.，。]{0,20}?(?:exited unexpectedly|was killed|died|意外退出|被杀|挂了|崩)",
    ),
    ("data_empty", r"(?:dataset|数据集?|样本|训练集|验证集)\s?(?:is |was |are |为|是)?(?:empty|空的?)(?!间|白|格)"),
    (
        "unsupported_op",
        r"(?:does not|doesn't|not) support(?:ed)? (?:the |this )?(?:op|operator|layer|kernel)s?\b"
        r"|(?:op|operator|算子|层)\s?[`'\"]?[\w:.<>]{0,40}[`'\"]?\s?(?:is |was |are )?(?:not supported|unsupported"
        r"|not implemented|不支持|未实现|未注册)",
    ),
    (
        "port_in_use",
        r"address already in use|port (?:is |was )?(?:already )?(?:in use|occupied|taken)|端口(?:被|已被"
        r"|冲突)(?:占用)?",
    ),
    ("timeout", r"timed[ -]?out\b|times out\b|(?:连接|请求|下载|读取|等待|任务|通信)[^，。]{0,6}超时"),
)
"""Family, and terms that stand for it; the surer ones first."""
_NAMES = tuple(
    (family, re.compile(rf"(?<![A-Za-z])(?:{terms})(?!s?\s?[:=]\s?(?:0|no|none)\b)", re.IGNORECASE | re.ASCII))
    for family, terms in _TERMS
)
_TURNED = re.compile(
    r"\b(?:no|not|never|without|n't|isn't|fixed|solved|gone|resolved|avoid\w*|prevent\w*|instead of|rather than"
    r"|than)\b[^.,]{0,24}$"
    r"|(?:没有|不会|不再|未|不是|并非|解决了?|避免|防止)[^，]{0,6}$",
    re.IGNORECASE,
)
"""In front of a term that is said not to be."""


def family_of_keywords(sentences: Iterable[str]) -> tuple[str, str] | None:
    """The family whose term the first such sentence uses, with that sentence; `None` where none does.

    Args:
        sentences: Statements of a report, without suppositions and questions.
    """
    for sentence in sentences:
        if _HAPPENED.search(sentence) is None:
            continue
        for family, names in _NAMES:
            found = names.search(sentence)
            if found is not None and _TURNED.search(sentence[: found.start()]) is None:
                return family, sentence
    return None
