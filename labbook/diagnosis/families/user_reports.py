"""What people say happened, in sentences that quote no message: "the loss turns to NaN after an epoch", "显存一直涨".

Each form is a subject and what is said of it, near each other in one sentence. Questions about how things are done, and
what a sentence only supposes, say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from labbook.diagnosis.families.environment_errors import ADDRESS, HANGS, family_by_surroundings
from labbook.diagnosis.families.error_codes import family_by_cuda
from labbook.diagnosis.families.failure_keywords import family_of_keywords
from labbook.diagnosis.families.model_files import family_of_model_file
from labbook.diagnosis.text.hedging import SENTENCES, without_speculation
from labbook.diagnosis.text.statements import is_statement

_INSIDE = re.compile(
    r"\b(?:not(?! enough)|never|no longer|without|nor)\b|n't\b|没有|不会|不再|不为|并未|从未|不足时|不够时|溢出时",
    re.IGNORECASE,
)
_OF_BEING = ("nan_or_inf", "cuda_oom", "host_oom_killed", "port_in_use", "illegal_instruction_or_segfault")
"""Families that are something being so: a "not" among their words turns them round."""
_STANDS = re.compile(
    r"\bstuck (?:at|around|in|on) (?:[\d.]+|local|how)|卡在\s?[\d.]+"
    r"|\b(?:accuracy|acc|m?AP|reward|loss)\b[^.]{0,20}?(?:stuck|卡|不动)|(?:精度|准确率|损失)[^。]{0,10}?(?:卡|不动)"
    r"|\b(?:fix(?:e[sd])?|gone|no longer|solved|resolve[sd]?)\b",
    re.IGNORECASE,
)
"""What stands still is a number, or it was mended: no process waits."""
_DENIED = re.compile(
    r"\b(?:no|not|never|without|n't|fixed|solved|gone|resolved)\b[^.]{0,24}$|(?:没有|不会|不再|未|不是"
    r"|并非)[^，]{0,8}$",
    re.IGNORECASE,
)
_ABSENT = r"(?:NaNs?|nan|infs?|INF|Inf|infinity|无穷)"
_QUANTITY = (
    r"(?:loss(?:es)?|\w*_loss|grad(?:ient)?s?(?:[ _]norm)?|logits|weights|outputs?|actions?|observations?|rewards?"
    r"|predictions?|embeddings?|features?|activations?|scores?|parameters?|values?|损失|梯度|输出|权重|精度)"
)
_GROWS = (
    r"(?:(?:keeps?|kept|is|was|continu\w+|constantly|slowly|steadily"
    r"|gradually) (?:\w+ )?(?:grow|increas|ris|climb|go)ing"
    r"|\b(?:goes|going|went) up(?: and up|,? (?:until|every|each|with)\b)|(?:grows?|increases?|rises?|climbs?) "
    r"(?:\w+ ){0,3}(?:until|every|each|with|over|continuously|linearly|steadily|slowly|gradually)|fills? up|leaks?\b"
    r"|(?:keeps?|kept) (?:on )?(?:grow|increas|rise|climb)\w*|(?:reach\w*|hits?|at) 100\s?%|(?:is|are|gets?|too) full\b"
    r"|(?:一直|一路|持续|线性|不断|逐渐|慢慢|越来越|缓慢)[^，。]{0,6}(?:涨|增|升|高|大)|[涨飙增升]到|上涨|暴涨"
    r"|飙升|占满|吃[满光完]|用[光完]|爆满|泄[漏露]|耗尽|爆了|炸了)"
)
_ENDS = (
    r"(?:crash\w*|kill\w*|(?:goes|went) down|OOM|dies?|died|out of memory|崩|被?杀|退出|报错|中断|溢出|卡死|死机"
    r"|挂了|不足)"
)
_MEDIA = r"\S+\.(?:jpe?g|png|bmp|tiff?|gif|webp|avi|mp4|mkv|mov|webm|wav|flac|mp3|ogg|npy|npz|h5|mat|nii(?:\.gz)?)\b"
_FORMS = (
    (
        "nan_or_inf",
        (
            rf"{_QUANTITY}[^.，。]{{0,30}}?(?:\b(?:is|are|was|were|be|becom\w+|became|turn\w*|go(?:es|ing)?"
            rf"|went|gets?|got"
            rf"|giv\w+|gave|return\w*|print\w*|show\w*|equals?|keeps?|kept|stays?|remain\w*|to|into|as)\b"
            rf"|[变为成是出冒得到全])[^.，。]{{0,12}}?"
            rf"(?<![A-Za-z]){_ABSENT}(?![A-Za-z])",
            rf"{_QUANTITY}[^.，。]{{0,12}}?(?:突然|直接|一直|总是|全部?|都|就|又)[^.，。]{{0,6}}?{_ABSENT}(?![A-Za-z])",
            rf"{_QUANTITY}\s?{_ABSENT}(?![A-Za-z])(?=\W*$|\s?[,，。]| (?:when|after|at|during|while|from"
            rf"|problem|issue)\b)",
            rf"(?:\b(?:get|got|getting|gives?|gave|see|seeing|produces?|returns?|have|having)|出现了?|变成了?"
            rf"|得到|全是|都是)"
            rf"\s?(?:an? |all |only |the )?(?<![A-Za-z]){_ABSENT}(?![A-Za-z])"
            rf"\s?(?:[^.，。]{{0,16}}{_QUANTITY}|$|[,.，。])",
            rf"(?:训|跑)[^。]{{0,40}}?(?:就|又|老是|总是|一直)\s?(?:是|变成|出现)?\s?{_ABSENT}(?![A-Za-z])",
            rf"(?<![A-Za-z]){_ABSENT}(?![A-Za-z]) (?:in |for )?(?:the |my )?(?:training |train )?{_QUANTITY}",
            rf"(?<![A-Za-z]){_ABSENT}(?![A-Za-z])[^.，。]{{0,20}}\bin (?:the |my )?{_QUANTITY}",
        ),
    ),
    (
        "cuda_oom",
        (
            rf"(?:显存|\b(?:gpu|cuda|video) (?:memory|ram)|\bvram)[^.。]{{0,30}}?{_GROWS}",
            r"\b(?:run|runs|ran|running) out of (?:the )?(?:gpu|cuda|video|vram)\b|\bout of (?:gpu|cuda"
            r"|video) (?:memory|ram)\b",
            r"\b(?:not enough|insufficient|too little|lack of|no more|short of) (?:gpu|cuda|video"
            r"|graphics?(?: card)?)[ -]?"
            r"(?:memory|ram)\b|\b(?:gpu|cuda|video) (?:memory|ram)\b[^.。]{0,12}? (?:is |was )?(?:not enough"
            r"|insufficient)\b"
            r"|显[卡存][^，。]{0,12}?申请[^，。]{0,16}?(?:不[够足]|失败)|显存[^，。]{0,6}?(?:只剩|不太够|还差)",
            r"(?:还是|仍然?|依然|直接|一直|总是|报)\s?OOM(?![A-Za-z_-])|\b(?:still|always|gets?|got|hits?"
            r"|keeps? getting) OOM\b",
            r"(?:gpu|cuda|显卡|设备)\s?内存(?:不足|不够|溢出|爆|耗尽)|显存(?:不足|不够|溢出|爆|超|占满)|爆显存"
            r"|\bout[ -]of[ -]memory\b",
        ),
    ),
    (
        "host_oom_killed",
        (
            r"\b(?:process|python|script|training|program|job|it|train)\b"
            r"[^.]{0,20}? (?:gets?|getting|got|is|was|being) killed\b"
            r"|^(?!.*\b(?:nothing|nobody|none|no|not|never)\b)[^.,;]{3,80} killed\W{0,3}$"
            r"|\b(?:ends? (?:with|in)|still|always|keeps?(?: getting| being)?) killed\b",
            r"(?:程序|进程|训练|脚本|python)[^，。]{0,8}被(?:系统)?(?:杀|kill)",
            r"(?<!显)(?<!gpu)(?<!cuda)(?<!显卡)(?<!设备)(?<!共享)内存(?:不足|不够|溢出|爆|耗尽|占满|被?吃满)",
        ),
    ),
    (
        "no_grad_path",
        (
            r"\b(?:grads?|gradients?|\.grad|梯度)['\"`]?[^.，。]{0,40}?(?:\b(?:is|are|was|were|be|being|stays?"
            r"|remains?|all"
            r"|returns?|gives?|as|=|==)\b|[都全为是])[^.，。]{0,8}?['\"`]?\bNone\b",
            r"\b(?:got|get|getting|returns?|have|has) None (?:for |as |in )?(?:the |all )?(?:grads?|gradients?)\b"
            r"|\bNone (?:grads?|gradients?)\b|\b(?:grads?|gradients?) (?:do(?:es)? not|don't|doesn't|can ?not|can't) "
            r"(?:flow|propagate|backpropagate|reach)|梯度(?:无法|不能|没有|没法)(?:回传|传播|反传|传递)",
        ),
    ),
    (
        "ddp_unused_parameters",
        (
            r"^(?!.*did not find any unused).*(?:\b(?:error|errors|claims?|says?|complain\w*|wants?|asks?|told|tells?"
            r"|fail\w*|freez\w*|hangs?|crash\w*)\b|提示|报错|错误|要求|要设|卡住"
            r"|卡死)[^。]{0,80}?\bfind_unused_parameters\b",
            r"^(?!.*did not find any unused).*\bfind_unused_parameters\b[^。]{0,60}?(?:\b(?:error|errors|fail\w*"
            r"|freez\w*|hangs?"
            r"|crash\w*)\b|报错|错误|一样的错|卡住|卡死)",
            r"\bunused parameters\b[^.。]{0,40}?\b(?:error|problem|issue)\b|(?:未使用|没有?用到|没参与)(?:的"
            r"|过的)?参数[^，。]{0,10}"
            r"(?:报错|错误|问题)",
        ),
    ),
    (
        "interrupted",
        (
            r"^\W*\^C\W*$|\b(?:with|by|prints?|shows?|says?|and|only|just) (?:an? )?[`'\"]?\^C(?=\W|$)"
            r"|(?:出现|显示|打印|只有|自动)[^，。]{0,6}\^C(?=\W|$)",
            r"(?:关[了掉闭]?|断开?了?|退出|一关)[^，。]{0,6}(?:xshell|终端|ssh|putty|mobaxterm|窗口|会话"
            r"|terminal)[^。]{0,20}?(?:停|中断|退出"
            r"|断了|终止|没了|结束)",
            r"(?:xshell|终端|ssh|putty|mobaxterm|会话|terminal)[^，。]{0,10}?(?:一?关[了掉闭]?"
            r"|断开?)[^。]{0,20}?(?:停|中断|退出|断了|终止"
            r"|没了|结束)",
            r"\b(?:clos\w+|disconnect\w*|exit\w*|log(?:ging)? ?out of|lose|losing|lost)\b[^.]{0,16}?\b(?:terminal"
            r"|ssh|putty|session|tmux"
            r"|shell|connection|laptop)\b[^.]{0,40}?\b(?:stop\w*|dies?|died|killed|terminat\w+|interrupt\w*|ends?"
            r"|ended)\b",
        ),
    ),
    (
        "compile_error",
        (
            r"(?:编译|\b编)[^，。吗]{0,24}?(?:失败|报错|出错|不过(?!程)|通不过|不通过|不成功|不了|装不上|卡住)"
            r"|\bmake\b[^，。]{0,8}?(?:过不去|报错|失败)",
            r"\b(?:compil(?:e|ing|ation)|build(?:ing)?)\b[^.]{0,40}?\b(?:fails?|failed|failing|failure|errors?"
            r"|breaks?|broke)\b",
        ),
    ),
    (
        "pickling_error",
        (
            r"\b(?:can ?not|can't|could not|couldn't|unable to|fail\w* to) (?:be )?(?:pickle|unpickle)d?\b"
            r"|无法(?:被)?(?:pickle|序列化)",
        ),
    ),
    (
        "port_in_use",
        (
            r"\b(?:port|address|prot)\b[^.，。]{0,24}?\b(?:is |was )?(?:already |being )?"
            r"(?:in use|used|occupied|taken|bound)\b",
            r"端口[^，。]{0,10}?(?:被?占用|冲突|已用|监听错误|监听失败)|占[着用]端口",
        ),
    ),
    (
        "data_decode_error",
        (
            r"\b[1-9]\d* corrupt(?:ed)?\b(?! per)",
            rf"\b(?:error|fail\w*|unable|cannot|can't|could not) (?:to |when |while |in )?(?:load|read|decod|open|pars)"
            rf"(?:e|ing)? "
            rf"(?:\w+ ){{0,3}}['\"]?{_MEDIA}",
            r"(?:读不[到出了]|打不开|无法读取|不能读取)(?:任何)?(?:视频|图片?|图像|音频|标注)|图是?[^。]{0,24}读不了",
            r"(?:视频|图片|图像|音频|标注)(?:文件)?[^，。]{0,6}(?:读不了|读不出|打不开|读取失败|无法读取"
            r"|解码失败|损坏)",
        ),
    ),
    (
        "unsupported_op",
        (
            r"\b(?:\d+ )?(?:ops?|operators?|op type|optype|kernels?)\b[^.\n]{0,60}?\b(?:(?:is|are|was) )?"
            r"(?:not (?:yet )?(?:supported|implemented|registered)|unsupported|not found in this op store)\b",
            r"(?:类型|算子|操作|设备)没有实现|没有实现[^，。]{0,4}['\"“`][\w:.]+['\"”`]",
            r"(?:算子|操作|\bop\b)[^，。]{0,12}(?:不支持|未实现|没有实现|未注册)|(?:不支持|没有)(?:该|此"
            r"|这个)?(?:算子|op\b)|不支持[^，。是否能吗]{0,24}?(?:算子|操作符|\bop\b)",
        ),
    ),
    (
        "checkpoint_size_mismatch",
        (r"\b(?:size|shape)s? mismatch\w*[^.]{0,30}?\b(?:load\w*|checkpoints?|pre-?trained|weights)\b",),
    ),
    (
        "checkpoint_key_mismatch",
        (r"\b(?:missing|unexpected)\s+keys?\b(?! (?:in|from) (?:the )?(?:config|dict|json|yaml|data|batch))",),
    ),
    (
        "shape_mismatch",
        (
            r"\b(?:shape|size|dimension|dim|channel)s? (?:error|mismatch\w*|problem|issue|incompatib\w+)\b",
            r"报[^，。]{0,6}?(?:通道数?|形状|维度|尺寸|shape)\w{0,3}的?错",
            r"(?:形状|维度|尺寸|通道数?|shape|size)[^，。]{0,20}?(?:对不上|不对(?!称)|不匹配|不一致|不符"
            r"|不相同|不一样|错误|有误|冲突)",
        ),
    ),
    (
        "dtype_mismatch",
        (
            r"\b(?:dtype|data ?type|type)s? mismatch\w*\b"
            r"|(?:数据类型|dtype|精度类型)[^，。]{0,12}?(?:对不上|不对|不匹配|不一致|不符)",
        ),
    ),
    (
        "dataloader_worker_died",
        (
            r"\bdata ?loader\b[^.，。]{0,30}?(?:\b(?:died|dies|killed|crash\w*|exited|hangs?|hung|stuck|freezes?"
            r"|deadlock\w*)\b"
            r"|卡死|卡住|崩|挂了|退出)",
            r"\bnum_workers\b[^.，。]{0,24}?(?:[>1-9]|大于)[^.。]{0,24}?(?:\b(?:hangs?|hung|stuck|freezes?"
            r"|deadlock\w*)\b"
            r"|卡死|卡住|卡在|死锁|不动)|\b(?:hangs?|hung|stuck|freezes?"
            r"|deadlocks?)\b[^.。]{0,40}?\bnum_workers ?(?:>|!=|=) ?\d",
            r"\b(?:background|loader|data|child|preprocess\w*) (?:workers?|process(?:es)?)\b[^.;]{0,30}"
            r"\b(?:died|dead|no longer alive|not alive|(?:was|were|been|got) (?:killed|terminated)|exited|crashed)\b",
        ),
    ),
    (
        "file_not_found",
        (
            r"[\w/-]+\.(?:txt|json|bin|pth?|pdparams|ckpt|ya?ml|pkl|npy|csv|h5|onnx|model)\b[^，。,;]{0,6}?"
            r"(?:缺失|丢失|不存在|找不到|没找到|\b(?:is|are) (?:missing|not there|not found))",
            r"(?:缺少?|少了|找不到|没找到)[^，。]{0,4}?[\w/-]+\.(?:txt|json|bin|pth?|pdparams|ckpt|ya?ml|pkl"
            r"|npy|csv|h5|onnx)\b",
        ),
    ),
    (
        "nccl_or_collective",
        (
            HANGS.pattern,
            r"(?:从|子|主|其他|两台|多台)?(?:节点|机器|服务器|rank)[^，。]{0,10}(?:无法|不能|没法)(?:相互"
            r"|互相)?(?:连接|通信|通讯)"
            r"|多机[^，。]{0,12}(?:连不上|连接失败|无法通信|通信失败)",
            r"\bNCCL WARN (?!.{0,60}(?:iommu|NUMA|nvidia_peermem|plugin|unused|ignor|falling back"
            r"|performance|\bnot set))\S",
            r"\bnccl\b[^.，。]{0,20}?(?:\b(?:issue|error|problem|failure|timeout|bug)s?\b|报错|错误|问题|超时)",
        ),
    ),
    (
        "cuda_driver_mismatch",
        (
            r"\bis_available\(?\)?['\"`]?[^.。]{0,24}?\b(?:returns?|is|was|gives?|=|==|prints?|返回|为|是"
            r"|输出)?[^.。\w]{0,3}\bFalse\b",
            r"(?:torch|paddle(?:paddle)?)[^，。]{0,8}(?:是|成)了?\s?cpu\s?版",
        ),
    ),
    ("disk_full", (r"(?:磁盘|硬盘)(?:空间)?(?:已?满|不足|不够|占满|写满)|\bdisk (?:is |was |got )?full\b",)),
    ("api_version_mismatch", (r"\b[\w.-]+ ?(?:[<>=]=|==) ?\d+\.\d[\w.]* (?:is )?required\b",)),
    (
        "data_empty",
        (r"(?:没有找到|未找到)(?:任何|有效的?)?(?:训练|测试|验证)?(?:图片|图像|样本|标注)(?!路径|文件夹|目录)",),
    ),
    ("missing_dependency", (r"(?:缺少|找不到)(?:模块|依赖|库\b|包\b|第三方库)",)),
    ("file_not_found", (r"\bFileNotFoundError\b",)),
    ("permission_error", (r"\bPermissionError\b",)),
    ("host_oom_killed", (r"(?<![\w.])MemoryError\b",)),
    ("data_decode_error", (r"\b(?:UnicodeDecodeError|JSONDecodeError|UnidentifiedImageError)\b",)),
    ("index_out_of_range", (r"(?:数组|索引|下标|标签|label|index|报了?)\s?(?:值)?越界",)),
    (
        "illegal_instruction_or_segfault",
        (
            r"\b(?:seg(?:mentation)? ?faults?|segfaults?|core dump(?:s|ed)?|SIGSEGV|SIGILL)\b|段错误|核心已转储"
            r"|^#\d\d\s+pc [0-9a-f]{6,16}\s+\S|^\s*backtrace:\s*$|\bFatal signal \d"
            r"|(?:出现?了?|会|就|直接) ?core(?:掉|了)?(?![A-Za-z_ ])"
            r"|\bcore ?dump(?=[^a-z])|\b__GI_(?:abort|raise) \(\)",
        ),
    ),
)
_IMPORTS = (
    (
        "api_version_mismatch",
        (r"\bfrom [\w.]+ import \w+[^，。]{0,8}?(?:报错|出错|失败|不了|\b(?:error|fails?|failed)\b)",),
    ),
    (
        "config_error",
        (r"(?:\b(?:config|cfg|ya?ml)|配置(?:文件)?)(?:里面?|中)?(?:少了|缺少?|漏了|没写|写错)",),
    ),
    (
        "missing_dependency",
        (
            r"(?:说|提示|报错?)缺少?\s?[A-Za-z][\w-]{2,40}(?![\w-]*\s?(?:这个|该)?\s?(?:hook|key|参数|字段|属性|文件"
            r"|列))",
        ),
    ),
    (
        "api_version_mismatch",
        (
            r"(?:退|降级?|回退)[到回为至]\s?v?\d+\.\d[\w.]*[^。]{0,8}?(?:就?(?:好|可以|行|正常)|没(?:有)?(?:问题|了)"
            r"|解决)",
            r"\b(?:downgrad\w+|going back|rolling back|revert\w+) (?:\w+ )?to v?\d+\.\d[\w.]*[^.]{0,16}\b(?:works?"
            r"|worked|fixe[sd]|solve[sd]?"
            r"|helps?|helped|fine)\b",
        ),
    ),
    (
        "missing_dependency",
        (r"\bimport [\w.]+[^，。]{0,8}?(?:报错|出错|失败|不了|\b(?:error|fails?|failed)\b)|\bModuleNotFoundError\b",),
    ),
)
"""What does not work when it is imported, and why is not said: only where nothing else is told."""
_Forms = tuple[tuple[str, tuple[re.Pattern[str], ...]], ...]


def _compiled(forms: tuple[tuple[str, tuple[str, ...]], ...]) -> _Forms:
    # ASCII: a Chinese letter beside an English word ends it.
    return tuple((family, tuple(re.compile(one, re.IGNORECASE | re.ASCII) for one in each)) for family, each in forms)


_OF, _WEAK = _compiled(_FORMS), _compiled(_IMPORTS)


_HOST_GROWS = re.compile(
    rf"(?:(?<!显)内存|(?<!gpu )(?<!cuda )(?<!video )\b(?:memory|ram)\b)[^.。]{{0,40}}?{_GROWS}", re.IGNORECASE
)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_ENDED = re.compile(_ENDS, re.IGNORECASE)


def family_of_report(lines: Iterable[str]) -> tuple[str, str] | None:
    """The family of what the first telling sentence says happened, with that sentence; `None` where none does.

    Args:
        lines: Of a report that holds no message of a program.
    """
    told = [sentence.strip() for line in lines for sentence in SENTENCES.split(without_speculation(line[:2000]))]
    told = [sentence for sentence in told if is_statement(sentence)]
    found = _of_cuda(told) or _first(told, _OF) or _of_model_files(told, sure=True)
    if found is not None:
        return found
    # Growing memory is no failure until the program ends of it.
    grows = next((sentence for sentence in told if _HOST_GROWS.search(sentence)), None)
    if grows is not None and any(_ENDED.search(sentence) for sentence in told):
        return "host_oom_killed", grows
    if any(map(_is_chinese, told)):
        # An English sentence among Chinese ones is a program's.
        for sentence in told:
            family = None if _is_chinese(sentence) else family_by_surroundings(ADDRESS.sub("", sentence))
            if family is not None:
                return family, sentence
    return family_of_keywords(told) or _first(told, _WEAK) or _of_model_files(told, sure=False)


def _of_model_files(told: Sequence[str], *, sure: bool) -> tuple[str, str] | None:
    for sentence in told:
        family = family_of_model_file(ADDRESS.sub("", sentence), sure=sure)
        if family is not None:
            return family, sentence
    return None


def _of_cuda(told: Sequence[str]) -> tuple[str, str] | None:
    found = ((family_by_cuda(sentence), sentence) for sentence in told)
    return next(((family, sentence) for family, sentence in found if family is not None), None)


def _first(told: Sequence[str], forms: _Forms) -> tuple[str, str] | None:
    for sentence in told:
        for family, patterns in forms:
            for pattern in patterns:
                found = pattern.search(sentence)
                if found is None or _DENIED.search(sentence[: found.start()]):
                    continue
                if family == "nccl_or_collective" and _STANDS.search(sentence):
                    continue
                if family not in _OF_BEING or not _INSIDE.search(sentence, found.start(), found.end() + 1):
                    return family, sentence
    return None


def _is_chinese(sentence: str) -> bool:
    return _CHINESE.search(sentence) is not None
