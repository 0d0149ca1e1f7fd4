"""The family of a message that no page knows, by the grammar that torch and paddle write their errors in.

Both say what they wanted and what they got: "expected <quantity> <value> but got <value>". What kind of quantity that
is (sizes, types, devices) gives the family; the particular operation does not matter. A single word never does: two
words that belong together are the least ("shapes ... do not match", "argument ... is not supported any more"). Of an
`assert` without a message its line is read in the same way.
"""

from __future__ import annotations

import itertools
import re

from labbook.diagnosis.families.assertions import family_of_assert
from labbook.diagnosis.families.environment_errors import ADDRESS, family_by_surroundings
from labbook.diagnosis.families.error_codes import family_by_cuda, family_by_number
from labbook.diagnosis.families.exception_classes import family_by_class, family_by_habit, is_general
from labbook.diagnosis.families.model_files import family_of_model_file
from labbook.diagnosis.families.paddle_codes import family_by_code, family_by_hint
from labbook.diagnosis.families.raise_site import (
    family_by_native_place,
    family_by_place,
    family_of_import,
    reads_checkpoint,
    reads_setting,
)
from labbook.diagnosis.families.setting_and_data_errors import ENVIRONMENT, family_by_wording, is_user_check
from labbook.frozen import dataclass
from labbook.model.evidence import ObservedException

_SIZES = re.compile(r"torch\.Size\(\[[\d, ]{0,60}\]\)|[\[(][\d, x-]{1,60}[\])]|\d+(?:\s?[x×]\s?\d+)+")
_TYPES = re.compile(
    r"\b(?:torch\.)?(?:cuda\.)?(?:Half|Float|Double|Long|Int|Byte|Char|Short|Bool|BFloat16|float16|float32|float64|"
    r"int8|int16|int32|int64|uint8|bool|bfloat16|complex64|complex128)(?:Tensor)?\b"
)
_SAME_TYPE = re.compile(
    r"\b(?:must|should|needs? to|has to) (?:all )?(?:have|be of|share) the same (?:dtype|data ?type)\b"
    r"|\btensors? (?:must|should|needs? to|has to) have the same type as\b"
    r"|\b(?:uniform|same|single) (?:dtype|data ?type)s?\b.{0,40}\bbut got\b"
    r"|\bdata ?type\b.{0,20}\bactual\b.{0,60}\bexpected\b",
    re.IGNORECASE,
)
_OF_SO_MANY = re.compile(
    r"\binvalid (?:dimensions?|shapes?|ranks?|sizes?) for\b"
    r"|\bdimensions? of \S+ (?:must|should|has to) be \d|\bexpect\w* (?:\w+ ){0,3}with \d+ (?:channels"
    r"|features|dim\w*)\b"
    r"|\b(?:predictions?|targets?|labels?|outputs?|inputs?)\b.{0,40} differs?: \d+ (?:vs\.?|and|!=) \d",
    re.IGNORECASE,
)
"""So many were wanted, whatever came."""
_DEVICES = re.compile(r"\b(?:cuda(?::\d+)?|cpu|CPU|CUDA|GPU|gpu(?::\d+)?|mps|xpu|npu|CPUPlace|CUDAPlace|GPUPlace)\b")
_ON_DEVICE = re.compile(
    r"\b(?:on|in) (?:the )?(?:device |Place\()(?P<device>cuda(?::\d+)?|cpu|gpu(?::\d+)?|mps|xpu|npu)\b", re.I
)
_CANNOT = re.compile(r"\b(?:can ?not|can't|could not|must|should)\b", re.IGNORECASE)
_WANTED = re.compile(
    r"\b(?:expect(?:ed|s)?|only (?:supports?|accepts?|allows?)|supports? only|should|must|requires?|required|needs?"
    r"|needed|supposed)\b",
    re.IGNORECASE,
)
_GOT = re.compile(r"\b(?:got|received|found|was|were|but|has|have|given|instead|actual)\b", re.IGNORECASE)
_AGAINST = re.compile(r"\b(?:and|vs|with|against|versus)\b|!=|<->", re.IGNORECASE)
_COUNTED = re.compile(
    r"\b(?:sizes?|shapes?|dims?|dimensions?|ranks?|channels?|width|height|lengths?|elements?|ndim|broadcast)\b",
    re.IGNORECASE,
)
_CLASH = re.compile(
    r"mis-?match|(?:not|n't|not be|cannot be|can't be) (?:match|equal|the same|identical|compatible|consistent"
    r"|aligned)"
    r"|\b(?:incompatible|inconsistent|unequal|differs?|different|wrong)\b|\((?:the )?same\)|\bshould have the same\b",
    re.IGNORECASE,
)
_SHAPES = re.compile(
    r"\b(?:(?:tensor|input|output|image|batch|feature|hidden|embedding|label|target|array|mask)s? (?:size|dim"
    r"|length)s?"
    r"|shapes?|dimensions?|ndims?|number of channels|resolutions?|torch\.Size)\b",
    re.IGNORECASE,
)
_UNLIKE = re.compile(
    r"\b(?:have|has|are of|with|of|got) different (?:\w+ )?(?:lengths?|sizes?|shapes?|dimensions?"
    r"|numbers? of (?:channels"
    r"|dimensions|elements|features|points))\b"
    r"|\b(?:must|should|need to) (?:all )?have (?:the )?(?:same|equal) (?:\w+ )?(?:lengths?|sizes?|shapes?"
    r"|dimensions?)\b|\b(?:lengths?|sizes?|shapes?) (?:\S+ ){1,6}?(?:are"
    r"|is) not (?:the )?(?:same|equal)",
    re.IGNORECASE,
)
_NAMED_INSIDE = re.compile(r"([A-Z]\w{2,40}(?:Error|Exception))\s?: ")
_STORED = re.compile(r"\b(?:checkpoints?|ckpt|pre-?trained|state_dict|loaded (?:param\w*|weights?))\b", re.IGNORECASE)
"""What was saved, against what the model has."""
_WIDE = 60
_NO_VERSION = re.compile(
    r"\b(?:arguments?|keywords?|parameter|options?|methods?|functions?|attributes?|api|syntax|class|module|calling"
    r"|use of|support for|passing|property)\b[^.\n]{0,80}?"
    r"\b(?:(?:is|are|was|were|has|have)(?: been)? (?:removed|dropped)"
    r"|(?:is|are) not supported any ?more)\b"
    r"|\b(?:is|are|was|were) deprecated (?:in|since|and|as of)\b"
    r"|\b(?:is|are) no longer (?:supported|valid|accepted|part of)\b",
    re.IGNORECASE,
)
_OF_TYPE = re.compile(
    r"\b(?:expected|must|should|needs?|has|have|required) (?:to )?be (?:of type |an instance of |either )?(?:an? )?"
    r"[`'<]?(?:scalar|bool(?:ean)?|str(?:ing)?|int(?:eger)?|float|list|tuple|dict(?:ionary)?|callable|tensor|(?:torch"
    r"|paddle)\.Tensor"
    r"|number|ndarray|nn\.Module|iterable)s?\b"
    r"|\b(?:must|should|has to|needs to|not) (?:inherit from|be (?:an? )?(?:subclass|instance|scalar)|derive from)\b"
    r"|\byou (?:should|must|need to) (?:supply|provide|pass|give) [^.;]{1,160}? but (?:you )?"
    r"(?:provided|passed|gave|got)\b"
    r"|\breturn(?:s|ed)? (?:an? )?(?:incorrect|invalid|wrong|unexpected) (?:number|type) of\b",
    re.IGNORECASE,
)
_NO_FILE = re.compile(
    r"(?:not found|(?:does|do)(?: not|n't) exist|not exists?|can ?not find|(?:not able|unable"
    r"|failed) to find (?:the )?(?:\w+ )?(?:file|path|dir\w*|folder)|can't find|could not find|no such file"
    r"|(?:cannot|can't|fail(?:ed)? to|unable to|could not) (?:open|access|locate) (?:the )?(?:file|path|dir\w*"
    r"|folder)"
    r"|missing|\b(?:incorrect|invalid|wrong) (?:\w+ )?path\w*\b|there is no (?:such )?(?:file|dir\w*|folder)"
    r"|\bno (?:file|dir\w*|folder) named)[^\n]{0,160}",
    re.IGNORECASE,
)
_PATH = re.compile(
    r"(?:[\w~.-]+)?(?:[/\\][\w.@-]+){2,}|[\w.-]+/__\w+__|\b[\w-]+\.(?:json|jsonl|yaml|yml|txt|csv|pth?|pkl|npy"
    r"|npz|h5|ckpt"
    r"|jpe?g|png|xml|bin|tsv|mat|tif|pdmodel|pdiparams|pdparams|pdopt|onnx|nb|model|params?|weights|caffemodel"
    r"|prototxt|engine|tflite|mnn|gguf|safetensors|so|dll)\b"
)
_COUNT = re.compile(r"\b\d+D?\b")
_CHOICE = re.compile(
    r"(?:must|should|needs to|has to|can only) be (?:one of|either|in \[|in \(|among)"
    r"|\b(?:is|are) (?:not|n't) (?:among|one of|in the list|a valid|an allowed|a known|a supported|available in)\b"
    r"|\b(?:unknown|unrecogni[sz]ed|unsupported|undefined|invalid|not supported|not implemented|illegal)"
    r" (?:\w+ ){0,2}(?:name|type|mode|option|choice|model|arch(?:itecture)?|backbone|dataset|optimi[sz]er|scheduler"
    r"|loss|metric|activation|norm(?:alization)?|backend|task|config(?:uration)?|setting|key|strategy|policy)\b"
    r"|\b(?:mode|model|architecture|backbone|dataset|optimi[sz]er|scheduler|loss|metric|activation|task|backend)"
    r" (?:[`'\[<(]?[\w./-]+[`'\])>]? )?(?:is |was )?"
    r"(?:not (?:recogni[sz]ed|supported|implemented|known|found in)|unknown)\b",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"(?:^|[\s'`(])--[a-z][\w-]{2,}[^.\n]{0,80}\b(?:requires?|must|cannot|can't|should|only|needs?|invalid|not"
    r"|expected)\b"
    r"|\b(?:please|must|should|need to|have to|forgot to) (?:set|specify|provide|pass|use|add|give)\b[^.\n]{0,40}"
    r"(?:^|[\s'`(])--[a-z][\w-]{2,}"
)
_MALFORMED = re.compile(
    r"\b(?:incorrect|invalid|bad|wrong|corrupt(?:ed)?|malformed|truncated|broken|damaged|unreadable)"
    r" (?:\w+ ){0,2}(?:format|file|header|image|picture|annotation|json|record|archive|line|row|csv|video|audio)\b"
    r"|\b(?:file|image|header|annotation|record|archive|video|audio|row|line)s? (?:\S+ )?(?:is|are|seems?|appears?"
    r"|looks?)(?: to be)? (?:corrupt(?:ed)?|malformed|truncated|broken|damaged|invalid|incomplete)\b",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"\b(?:found no|found 0|no) (?:\w+ ){0,2}(?:samples?|images?|files?|data|examples?|annotations?|labels?|videos?"
    r"|sequences?|sentences?|clips?)(?: (?:were|was|could be|are|is))? (?:found|left|available)\b",
    re.IGNORECASE,
)
_TOO_FLAT = re.compile(
    r"\b(?:must|should|has to|needs to|expected|expects?|requires?)(?: to)?(?: be)?(?: an?)? ?\d ?-? ?d\b|"
    r"\bexpects? (?:\w+ ){0,3}at least (?:an? )?\w+[- ]?d(?:im(?:ension)?s?(?:al)?)?\b",
    re.IGNORECASE,
)
_ONLY = r"\bonly (?:supports?|accepts?|takes?|works with|allows?|handles?) (?:[^.;]|\.(?=\w)){0,80}?"
_ONLY_SHAPES = re.compile(_ONLY + r"(?:\b\d ?-?d\b|\bdim\w*\b|\brank\b|\bshapes?\b|\bvectors?\b)", re.IGNORECASE)
_ONLY_TENSORS = re.compile(
    _ONLY
    + r"(?:\b|(?<=[a-z]))(?:[Tt]ensors?|arrays?|ndarrays?|lists?|tuples?|dicts?|(?:float|int|bool|long)\w* type)\b",
    re.IGNORECASE,
)
_NO_KERNEL = re.compile(
    r"\b(?:kernels?|operators?|ops?)\b.{0,100}\b(?:not (?:found|registered)|(?:is|are) not (?:supported"
    r"|implemented) (?:for|on))\b"
    r"|\bcan(?:'t|not| not) find an? \w+ kernel\b|\bno kernels? (?:which are |is |are )?registered\b|\b(?:operator|pass"
    r"|op)\b.{0,60}\bhas not be(?:en)? registered\b|\bno OP.s grad_op_maker\b|\bno \w+ kernel (?:on|for)\b",
    re.IGNORECASE,
)
_NO_GRADIENT = re.compile(r"(?:stop_gradient\W.{0,20}True|requires_grad\W.{0,20}False).{0,60}\bbackward", re.IGNORECASE)
_NOT_STATIC = re.compile(
    r"\b(?:dynamic_to_static|dy2static|to_static|torch\.compile|torch\.jit|torchscript)\b.{0,60}"
    r"\b(?:failed|fails|cannot|can't|unable|unsupported)\b",
    re.IGNORECASE,
)
_EXCEEDS = (
    r"(?:exceeds?|exceeded|exceeding|(?:is|are|was) (?:larger|longer|greater|bigger|smaller|shorter|less) than"
    r"|(?:must|should|can(?:not|'t| not))(?: not)? be (?:larger|longer|greater|bigger|smaller|shorter|less) than)\b"
)
_TOO_BIG_SETTING = re.compile(
    rf"\b(?:(?:batch|parallel|world|group)[ _]?size|crop\w*|roi|window|kernel|patch|stride|padding|num_\w+"
    rf"|\w+_size)\b[^.;]{{0,60}}?\b{_EXCEEDS}"
    rf"|\b{_EXCEEDS}[^.;]{{0,30}}?\b(?:max\w*|vocab_?size|limit|num_\w+)\b|\bvalues? must be [<>]=?"
    r"|\boutside (?:of )?(?:the )?(?:given|valid|allowed|expected) (?:space|range|bounds|interval)",
    re.IGNORECASE,
)
_TOO_BIG = re.compile(
    rf"\b(?:lengths?|sizes?|dims?|dimensions?|width|height|channels?"
    rf"|tokens)\b[^.;]{{0,60}}?\b{_EXCEEDS}",
    re.IGNORECASE,
)
"""One size against another one, without numbers that could be compared."""
_NEAR = 240


@dataclass(frozen=True)
class FamilyReading:
    """A family with what shows it.

    Args:
        family: One of `labbook.model.symptom.CRASH_FAMILIES`.
        tier: 2 likely, 3 a hint.
        sentence: The message or line of code, on one line.
    """

    family: str
    tier: int
    sentence: str


def family_of_message(raised: ObservedException) -> FamilyReading | None:
    """The family of an exception, or `None` when nothing shows it.

    Args:
        raised: The exception.
    """
    sentence = " ".join(raised.message[:4000].split())
    if is_general(raised.type):
        family = _of_system(raised, sentence) or family_of_import(raised)
        return None if family is None else FamilyReading(family, 2, sentence)
    if reads_checkpoint(raised):
        return FamilyReading("checkpoint_key_mismatch", 2, sentence)
    if raised.type == "KeyError" and sentence.count(" ") < 2:
        # The key that is missing, and no sentence.
        return None
    named = _NAMED_INSIDE.match(sentence)
    family = (
        ("config_error" if reads_setting(raised) else None)
        or family_of_model_file(ADDRESS.sub("", sentence), sure=True)
        or family_by_number(sentence)
        or family_by_class(raised.module, raised.type)
        or (family_by_class("", named[1]) if named else None)
        or _family(sentence)
        or family_of_assert(raised, sentence)
        or family_by_code(raised.type, sentence)
        or family_by_native_place(sentence)
        or family_by_place(raised.frames)
        or family_by_habit(raised.module, raised.type)
        or family_of_import(raised)
    )
    if family == "shape_mismatch" and _STORED.search(sentence):
        family = "checkpoint_size_mismatch"
    if family == "config_error" and sentence.startswith("Check failed: "):
        family = None  # what native code checks is no setting
    if family is None and not sentence and raised.frames and "__version__" in raised.frames[-1].source:
        # A version that is read as a number, and is none.
        family = "api_version_mismatch"
    tier = 2
    if family is None and is_user_check(raised, sentence):
        # What a program checks beyond tensors and data is mostly how it was set up.
        family, tier = "config_error", 3
    if family is None:
        return None
    shown = sentence or (raised.frames[-1].source if raised.frames else "")
    return FamilyReading(family, tier, shown)


def _of_system(raised: ObservedException, sentence: str) -> str | None:
    """The family of what the system reports, by its number, by what it speaks of, or by who asked."""
    family = family_by_number(sentence)
    if family is not None or raised.type not in ("OSError", "IOError"):
        return family
    plain = ADDRESS.sub("", sentence)
    if _names_missing_file(plain):
        return "file_not_found"
    malformed = "data_decode_error" if _MALFORMED.search(plain) else None
    of_tensors = _family(sentence)
    return (
        family_by_surroundings(plain)
        or malformed
        or (of_tensors if of_tensors in ("shape_mismatch", "dtype_mismatch", "device_mismatch") else None)
        or family_by_place(raised.frames)
    )


def _names_missing_file(plain: str) -> bool:
    missing = _NO_FILE.search(plain)
    return missing is not None and _PATH.search(plain[max(0, missing.start() - 160) : missing.end()]) is not None


def _family(sentence: str) -> str | None:
    if _COUNTED.search(sentence) and (_differ(sentence, _SIZES) or _compared(sentence)):
        return "shape_mismatch"
    if _differ(sentence, _TYPES) or _SAME_TYPE.search(sentence):
        return "dtype_mismatch"
    if _differ(sentence, _DEVICES) or _apart(sentence):
        return "device_mismatch"
    if (
        _UNLIKE.search(sentence)
        or _OF_SO_MANY.search(sentence)
        or _close(sentence, _SHAPES, _CLASH)
        or (_COUNTED.search(sentence) and _counts_differ(sentence))
    ):
        return "shape_mismatch"
    hinted = family_by_hint(sentence)
    if hinted:
        return hinted
    of_cuda = family_by_cuda(sentence)
    if of_cuda is not None:
        return of_cuda
    if _NO_VERSION.search(sentence):
        return "api_version_mismatch"
    plain = ADDRESS.sub("", sentence)
    if _names_missing_file(plain):
        return "file_not_found"
    worded = (
        ("shape_mismatch", _ONLY_SHAPES),
        ("type_error_user_code", _ONLY_TENSORS),
        ("unsupported_op", _NO_KERNEL),
        ("no_grad_path", _NO_GRADIENT),
        ("compile_error", _NOT_STATIC),
        ("shape_mismatch", _TOO_FLAT),
        ("config_error", _TOO_BIG_SETTING),
        ("shape_mismatch", _TOO_BIG),
        ("data_empty", _NOTHING),
        ("config_error", _OPTION),
        ("config_error", ENVIRONMENT),
        ("type_error_user_code", _OF_TYPE),
        ("config_error", _CHOICE),
        ("data_decode_error", _MALFORMED),
    )
    return next((family for family, words in worded if words.search(plain)), None) or family_by_wording(sentence)


def _counts_differ(sentence: str) -> bool:
    """Whether it says that so many were wanted and so many came: "expected 3 dimensions, got 2", in any order."""
    for first, second in itertools.pairwise(_COUNT.finditer(sentence)):
        if first.group() == second.group() or second.start() - first.end() > _WIDE:
            continue
        before, between = (
            sentence[max(0, first.start() - _WIDE) : first.start()],
            sentence[first.end() : second.start()],
        )
        if not _COUNTED.search(f"{before} {between} {sentence[second.end() : second.end() + 20]}"):
            continue
        if (_WANTED.search(before) and _GOT.search(between)) or re.search(r"expect", between, re.IGNORECASE):
            return True
    return False


def _close(sentence: str, first: re.Pattern[str], second: re.Pattern[str]) -> bool:
    """Whether the two are said of each other: near, and no full stop between them."""
    for one in first.finditer(sentence):
        before = re.split(r"[.;!?]\s", sentence[max(0, one.start() - _WIDE) : one.start()])[-1]
        after = re.split(r"[.;!?]\s", sentence[one.end() : one.end() + _WIDE])[0]
        if second.search(before) or second.search(after):
            return True
    return False


def _differ(sentence: str, quantity: re.Pattern[str]) -> bool:
    """Whether it says that one value was wanted and another one came."""
    values = list(quantity.finditer(sentence))
    for first, second in itertools.pairwise(values):
        if first.group() == second.group() or second.start() - first.end() > _NEAR:
            continue
        before = sentence[max(0, first.start() - _NEAR) : first.start()]
        if _WANTED.search(before) and _GOT.search(sentence, first.end(), second.start()):
            return True
    return False


def _apart(sentence: str) -> bool:
    """Whether it places two things on devices that are not the same: "on device cuda:0 ... on device cpu"."""
    places = [found["device"].lower() for found in _ON_DEVICE.finditer(sentence)]
    return len(set(places)) > 1 and _CANNOT.search(sentence) is not None


def _compared(sentence: str) -> bool:
    """Whether it sets two shapes against each other: "(4, 8) and (10, 2)"."""
    values = list(_SIZES.finditer(sentence))
    return any(
        first.group() != second.group()
        and second.start() - first.end() <= _NEAR // 3
        and _AGAINST.search(sentence, first.end(), second.start())
        for first, second in itertools.pairwise(values)
    )
