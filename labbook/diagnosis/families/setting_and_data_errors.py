"""The family of a sentence that speaks of settings or of data, whoever wrote it.

Every repository words its own checks: "optimizer [adamww] is not found", "no image under data/train". What they have in
common is whom they speak of (a setting, samples, a file's content) and what they say of it (not known, not allowed,
missing, nothing there, not readable). Only both together give a family: neither "invalid" nor "model" does alone.
"""

from __future__ import annotations

import re

from labbook.diagnosis.families.environment_errors import ADDRESS, family_by_surroundings
from labbook.model.evidence import ObservedException

_NAME = (
    r"(?:--[a-z][\w-]{1,60}|`[\w.\[\]' -]{1,80}`|\b[a-z][a-z0-9]{0,40}(?:_[a-z0-9]{1,40}){1,8}\b"
    r"|\b(?:args?|cfg|config|opts?|hparams|FLAGS|params|conf|hyp)\.\w{1,60}(?:\.\w{1,60}){0,6})"
)
"""The name of a setting, by its shape: an option, an identifier of several words, an entry of a configuration."""
_SETTING = (
    r"\b(?:config(?:uration)?s?|cfg|ya?ml|options?|flags?|settings?|hyper-?parameters?|mode|modes|models?|networks?"
    r"|arch(?:itecture)?s?|backbones?|encoders?|decoders?|optimi[sz]ers?|schedulers?|polic(?:y|ies)"
    r"|loss(?: function)?"
    r"|criterion|activations?|norm(?:alization)?(?: layer)?|tasks?|backends?|strateg(?:y|ies)|precision|epochs?"
    r"|(?:global |micro |total |train )?batch[ _-]?sizes?|(?:img|image|patch|crop|window|hidden|kernel|vocab"
    r"|input)[ _]?size"
    r"|learning[ _]rates?|lr|momentum|dropout|world[ _]size|(?:number of |num )(?:gpus?|heads?|workers|epochs"
    r"|steps|classes"
    r"|layers|groups|experts|stages|nodes|processes)|metrics?|samplers?|augmentations?|trainers?|phase|solver"
    r"|tokenizers?|corpus|components?|dataset (?:name|type)|initiali[sz]ation)\b"
)
_FEATURE = (
    r"\b(?:ZeRO(?:[- ]?\d)?(?:[- ]offload)?|deepspeed(?: zero)?(?:[- ]?\d)?|FSDP\d?|DDP|AMP|apex|Q?LoRA|EMA|SWA|PEFT"
    r"|MoE|(?:gradient|activation) "
    r"(?:checkpointing|accumulation(?: \w+)?|clipping)|recompute|offload\w*|quanti[sz]ation"
    r"|(?:pipeline|tensor|sequence|context|expert|model|data) parallel(?:ism)?|mixed[- ]precision|\w+ fusion"
    r"|flash[- _]?attention(?:[- _]?\d)?|(?:sync|distributed|streaming|dynamic|static|packed|fp16|bf16|fp8|int8|8-?bit"
    r"|4-?bit)(?: \w+)? (?:training|mode|sampling|optimi[sz]er|shapes?|graph|loss[- ]scal\w+|quanti[sz]ation)"
    r"|torch[._]compile|beam search|packing|early stopping|mixup|cutmix)\b"
)
"""What a training can be told to do."""
_DATA = (
    r"(?:(?:training|train|validation|valid|val|test|input|label|image|audio|video|text|valid|matching|usable|coco"
    r"|voc) )?"
    r"(?:images?|pictures?|samples?|examples?|data(?! ?(?:type|loader|parallel))|datasets?|labels?|annotations?"
    r"|records?"
    r"|videos?|audios?|clips?|sequences?|sentences?|texts?|utterances|points?|(?:bounding )?boxes|bboxes|objects"
    r"|rows?"
    r"|lines?|columns|masks?|frames?|(?:sub)?folders|class folders?|pairs|instances|entries|shards?|documents|tokens"
    r"|transitions|episodes|trajectories|graphs|scenes|subjects|cases|files?)\b"
)
_NO_PLACE = (
    r"(?!.{0,60}\b(?:cuda|gpus?|cpus?|mps|devices?|python|versions?|torch|pytorch|numpy|linux|windows|ampere"
    r"|volta|hopper"
    r"|compute capabilit\w+|capabilit\w+|tensors?|shapes?|dtypes?|inputs?|installed|driver)\b)"
)
"""Nothing of machines, packages and tensors, which have families of their own."""
_NOT_KNOWN = (
    r"(?:not|n't|never) (?:\w+ly )?(?:be(?:en)? )?(?:a |an |yet |currently )?"
    r"(?:recogni[sz]ed|supported|implemented|defined|valid|known|found|exist\w*|registered|available|allowed"
    r"|permitted"
    r"|understood|included|configured|specified)\b(?! for )"
)


def _any(*forms: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{form})" for form in forms), re.IGNORECASE)


_LABELS = _any(
    r"\b(?:labels?|class(?:es)?|categor(?:y|ies)|targets?|ind(?:ex|ices)|ids?)\b[^.;]{0,50}?\b(?:out of (?:range"
    r"|bounds?)"
    r"|must be (?:in|within|between) [\[(]?0|outside (?:of )?(?:the )?(?:range|\[))"
)
_EMPTY = _any(
    rf"\b(?:no|zero|0) (?:\w+ ){{0,2}}{_DATA}(?! (?:such|module))(?: \S+){{0,3}}? (?:found|left|available"
    rf"|remain\w*|exist\w*"
    r"|loaded|matched|matching|provided|given|in|inside|at|under|for|to|from|with|were|was|is|are)\b",
    rf"\b(?:found|finds?|loaded|load|got|has|have|had|with|contains?|containing|there (?:are|is)|only|of|read) "
    rf"(?:exactly )?(?:0|no|zero) (?:valid |usable |matching )?{_DATA}",
    rf"^\W*(?:0|no|zero) {_DATA}(?: found)?\W*$",
    rf"\b(?:not|n't|never|cannot|could not|unable to) (?:find|found|load|loaded|read|get) (?:any"
    rf"|a single) (?:\w+ ){{0,3}}"
    rf"{_DATA}",
    rf"\b{_DATA}(?: \S+){{0,4}}? (?:is|are|was|were|seems?|appears?|be|became)(?: to be)? empty\b",
    rf"\bempty (?:\w+ )?{_DATA}(?! name)",
    rf"\b(?:length|len|number|size|count) of (?:the |your )?(?:\w+ )?(?:{_DATA}|\w*(?:dataset|loader|samples"
    rf"|images)\w*)"
    r"(?: \S+)? (?:is|was|=|==|equals?) ?0\b",
    r"\bno (?:bounding box|object|annotation|label|sample|image)(?:es)? (?:\w+ )?(?:in|for|from)\b",
    rf"\b{_DATA} ?(?:must|should|can(?:not|'t| not)) (?:not )?be (?:non-?)?empty\b",
    r"\bzero-size array\b|\bnum_samples ?[=:] ?0\b|\bn_samples ?[=:] ?0\b|\blen\(\w+\) ?(?:==|is) ?0\b",
    rf"\b(?:need|needs|require[sd]?|expect\w*|must have|should have) (?:\w+ )?(?:at least (?:one|1)|more than 0)"
    rf" (?:\w+ )?{_DATA}",
    rf"\b{_DATA}(?: \S+){{0,3}}? (?:has|have|contains?|holds?) (?:no|0|zero) ",
    rf"^\W*no (?:valid|usable|matching|suitable|training|validation) {_DATA}",
    r"\b(?:should|must|can)(?: ?not|n't) be (?:an? )?empty\b|\bempty (?:iterable|sequence|iterator|dataset)\b",
    r"\b(?:nothing|no data) (?:to (?:train|load|read|concatenate|iterate)|left)\b",
    r"(?:未找到|没有找到|找不到|没有)(?:任何)?(?:\w{0,6})(?:图片|图像|样本|数据|标签|标注|训练集|文件夹)"
    r"|(?:数据集|样本|列表|数据)(?:为空|是空)",
)
_UNREADABLE = _any(
    r"\b(?:fail(?:ed|ure|s)?|unable|can(?:not|'t| not)|could(?: not|n't)|errors?|problem|exception|not able)"
    r"(?: occurred)? (?:to |in |while |when |during |with )?(?:\w+ ){0,1}"
    r"(?:decod|pars|interpret|deseriali[sz]|unpack|tokeni[sz])(?:e|ing)\b"
    r"(?! (?:the )?(?:dataset type|type|arg\w*|option\w*|config\w*|command))",
    r"\b(?:decod|pars|deseriali[sz])(?:e|ing) (?:\w+ ){0,3}(?:failed|error|failure)\b",
    r"\b(?:fail(?:ed|s)?|unable|could not|cannot|can't|error) (?:to )?(?:load|loading|read|reading) (?:the |an? "
    r"|this )?"
    r"(?:\w+ )?(?:image|picture|video|audio|annotation|record|wav)\b",
    r"\b(?:wrong|unexpected|incorrect|invalid|different|inconsistent|expected) number of (?:\w+ )?(?:fields|columns"
    r"|elements|values|items|entries|coordinates|tokens in)\b",
    r"\b(?:lines?|rows?|labels?|records?|annotations?|samples?) (?:\S+ ){0,6}?(?:requires?|must have|should have"
    r"|expects?"
    r"|needs?|has|have|contains?|does not contain)(?: only| exactly| the expected number of)? (?:(?:\d+|one|two"
    r"|three|four|five|six) )?"
    r"(?:columns|fields|elements|values|items|coordinates)\b",
    r"\b(?:lines?|rows?|records?|annotations?) (?:#?\d+ )?(?:\S+ ){0,5}?(?:is|are) (?:malformed|invalid|broken"
    r"|corrupt\w*"
    r"|wrong|badly formatted|not well-formed)\b",
    r"\bnot (?:a valid|an?) (?:\w+ )?(?:image|picture|json|xml|zip|hdf5|video|audio|wav|parquet|csv|lmdb|tfrecord"
    r"|npy|npz"
    r"|png|jpe?g|tiff?|dicom|nifti|archive)(?: file)?\b",
    r"\b(?:bbox|bounding box|box|boxes|xmin|ymin|xmax|ymax|x_min|x_max|y_min|y_max|polygon|segmentation|key-?points?"
    r"|coordinates?)\b.{0,80}\b(?:less|greater|larger|smaller|out of|outside|invalid|negative|exceeds?"
    r"|in (?:the )?range"
    r"|degenerate|non-?normali[sz]ed|beyond|positive (?:height|width)|malformed)\b",
    r"\bnumbers? of (?:\S+ ){1,8}?(?:is|are|do|does) (?:different|not equal|not (?:the same|match)|unequal"
    r"|inconsistent)",
    r"\b(?:file|list|data|annotation|label|dataset|line)s? (?:list )?(?:format|formatting"
    r"|structure) (?:is )?(?:incorrect|wrong"
    r"|invalid|bad|not (?:correct|valid|right))\b",
    r"\bnot enough (?:image|audio|video|pixel|label) data\b|\btoo much (?:image|pixel) data\b",
    r"\b(?:annotations?|labels?|records?|entries|samples?|json) (?:must|should) (?:have|contain|include)\b",
    r"\b(?:images?|files?|annotations?|labels?) have errors\b|\bunexpected (?:labels?|values?|classes) found in\b",
    r"\b(?:image|mask|picture|label|annotation)s? (?:must|should|has to|have to"
    r"|needs? to) be (?:an? )?(?:\w+[- ])?(?:channel|rgb"
    r"|grayscale|gray|png|jpe?g|8-bit|uint8)\b",
    r"\b(?:sampl(?:e|ing)[ _]rates?|sr)\b.{0,60}\b(?:expected|not match|doesn't match|different|mismatch|should be"
    r"|must be)\b",
    r"\blabel value \d+ in\b",
    r"\binvalid (?:bbox|bounding box|box|polygon|annotation|segmentation|image)\b",
    r"\b(?:unsupported|unknown|unrecogni[sz]ed|invalid) (?:image|audio|video|pixel|colou?r|sample|file|label"
    r"|annotation)"
    r" (?:format|mode|type|extension|encoding)\b",
    r"\bnon-?normali[sz]ed or out of bounds\b|\bcorrupt(?:ed)?\b.{0,30}\b(?:image|picture|jpe?g|png|label"
    r"|annotation|video"
    r"|audio|record)\b|\b(?:image|jpe?g|png|label|annotation|video|audio|record)s?\b.{0,30}\bcorrupt(?:ed)?\b",
    r"(?:解析|解码|读取(?:图片|图像|标注|视频|音频)).{0,12}(?:失败|错误|出错)|(?:图片|图像|标注|标签|视频"
    r"|音频|数据)(?:文件)?(?:已)?(?:损坏|格式错误|格式不正确)",
)
_SETTINGS = _any(
    r"\b(?:num_classes|n_classes|nc|number of classes)\b.{0,80}\b(?:not equal|not match|doesn't match|mismatch"
    r"|differs?|only has"
    r"|exceeds?|larger|inconsistent)\b",
    r"\b(?:config\w*|cfg|ya?ml)\b.{0,40}?\b(?:does not contain|doesn't contain|has no|lacks?|must contain"
    r"|should contain)\b",
    r"\bno (?:\w+ ){0,2}(?:config\w*|model|task|architecture|dataset|optimi[sz]er)(?: file)?(?: was"
    r"| is)? (?:specified|given"
    r"|provided|set|selected|defined)\b",
    rf"\bnot a (?:registered|known|valid|supported|recogni[sz]ed) (?:\w+ ){{0,2}}?{_SETTING}",
    r"\b(?:specified|defined|given|set|provided|present|passed|appears?) (?:\w+ )?(?:in|by|through) both\b"
    r"|^\W*both [^.;]{3,80}? and [^.;]{2,60}? (?:are|were|is) (?:given|set|specified|defined|provided"
    r"|passed|enabled)\b",
    rf"{_SETTING}[^.;]{{0,40}}? ?(?:can ?not|can't|could not|not) be (?:evenly )?(?:divided|divisible)\b"
    rf"|(?:{_NAME}|{_SETTING})[^.;]{{0,40}}? (?:must|should|does not|doesn't) (?:evenly )?divide\b",
    rf"{_SETTING} [`'\"]?[\w./-]{{1,60}}[`'\"]? (?:is )?not in [\[({{]['\"`]",
    r"\bkey [`'\"][\w.]{1,60}[`'\"] (?:is )?not (?:found )?in [`'\"]?\w*(?:config|cfg|options?|args)\w*",
    rf"\bno {_SETTING} (?:was |is |has been )?(?:configured|registered|selected|chosen)\b",
    r"^(?:config|dataset|model) [`'\"]\S* ?error\b",
    r"\bno registered \w+\b|\benv(?:ironment)? \S+ (?:does not|doesn't) exist\b",
    r"\b(?:provide|specify|pass|set|use|forward|leave) (?:either|both|one of|only one of)\b",
    r"\bonly (?:forward|pass|use|set|specify|provide) one of\b|\bcannot (?:leave|forward|pass|set) both\b",
    rf"\byou (?:didn't|did not|should|must|have to) (?:pass|provide|specify|set)\b[^.;]{{0,40}}?(?:{_NAME}"
    rf"|\beither\b)",
    rf"\b(?:requires?|needs?) an? (?:{_NAME})|(?:\bnot compatible|\bincompatible) with (?:\w+ )??(?:{_NAME}"
    rf"|{_SETTING})",
    rf"(?:{_NAME}|{_SETTING}|{_FEATURE})[^.;]{{0,80}}?\b(?:is|are) (?:not (?:yet |currently )?compatible|incompatible"
    rf"|only (?:supported|available|compatible|allowed|valid|possible|implemented)) "
    rf"(?:with|when|if|for|in|on)\b{_NO_PLACE}",
    rf"\b(?:not compatible|incompatible) with (?:\w+ ){{0,2}}?{_FEATURE}",
    rf"(?:{_NAME}|{_FEATURE}) and (?:\w+ )?(?:{_NAME}|{_FEATURE}) (?:are|is) (?:not compatible|incompatible)",
    rf"(?:{_NAME}|{_FEATURE})[^.;]{{0,40}}? (?:requires?|needs?) (?!(?:an? )?version)[^.;]{{0,40}}?"
    rf"(?:{_NAME}|{_SETTING}|{_FEATURE}){_NO_PLACE}",
    r"\benv(?:ironment)? var(?:iable)?s?\b[^.;]{0,80}?\b(?:must|should|expected|invalid|not (?:a )?valid"
    r"|not an? integer)\b",
    r"\b(?:does not|doesn't|do not|don't) support\b(?!.{0,60}\b(?:cuda|gpu|cpu|half|float\d*|int\d*|dtype|ops?"
    r"|operators?|onnx"
    r"|opset|bfloat16|mps|tensors?)\b)",
    r"\b(?:must|should|has to|needs to) be (?:evenly )?divisible by\b(?!.{0,80}\b(?:shape"
    r"|tensor(?![ -]parallel)|capacity)\b)",
    r"\bcan only (?:deal|work|handle|be used|be combined) with\b",
    r"\b(?:could not|couldn't|can ?not|can't|unable to) infer (?!dtype)\w+ ",
    rf"\bcan ?not (?:perform|do|run|train|fine-?tune|evaluate|use)\b[^.;]{{0,60}}? (?:on|with|without|in|when) "
    rf"[^.;]{{0,60}}?(?:{_NAME}|{_SETTING})",
    rf"\b(?:unknown|unrecogni[sz]ed|unsupported|undefined|invalid|illegal|wrong|no such|not supported"
    rf"|not implemented)"
    rf" (?:(?!in |with |at |for |of |to |while |when |during |from )\w+ ){{0,2}}{_SETTING}(?! path| file)",
    rf"{_SETTING}.{{0,60}}?(?:\bis |\bare |\bwas |\bhas |\bdoes |\bdo |\bcould |\bcan|\b)(?:\w+ )?{_NOT_KNOWN}",
    rf"{_SETTING}.{{0,40}}?\b(?:is|was) (?:invalid|unknown|undefined|illegal|unsupported|wrong|missing|incorrect)\b",
    r"\b(?:not|n't)(?: \w+){0,3} (?:in|from|by) (?:the |your )?(?:[\w./-]{0,40})(?:config\w*|cfg|ya?ml|args"
    r"|options|settings)\b",
    r"\b(?:one of|select from|choose from|chosen from|choices are|choices:|expected one of|possible values"
    r"|allowed values"
    r"|valid (?:values|options|choices|modes|names)|available (?:options|choices|models|modes|names|values|types)"
    r"|only supports?|supported (?:values|options|types|modes|models|formats)(?: are| is|:)?)\b[^.\n]{0,40}?"
    r"[\[({<'\"`]",
    rf"\bonly (?:\w+ ){{1,3}}?(?:{_SETTING})?(?: is| are)? ?supported\b",
    r"\b(?:could not|couldn't|can ?not|can't|unable to|failed to) (?:recogni[sz]e|determine|infer|identify) (?:the )?"
    r"(?:\w+ ){0,2}(?:type|mode|model|dataset|backend|task|architecture|scene|name)\b",
    r"\bexpected \{[^}]{1,400}\}?,? but (?:only )?(?:got )?\{",
    r"\b(?:tokeni[sz]er|model|processor)\b.{0,60}\b(?:does not|doesn't) have (?:one|an? )",
    r"\b(?:must|should|has to|needs to) (?:be )?(?:in|within|among) [\[({]['\"]",
    rf"(?:{_NAME}|{_SETTING})[^.;]{{0,80}}?\b(?:must|should|has to|have to|needs? to|ought to|can only|can ?not|can't"
    r"|may not|may only)(?: not| only)? be (?:set|specified|provided|given|passed|defined|supplied|a multiple"
    r"|multiple"
    r"|divisible|greater|larger|less|smaller|bigger|higher|lower|positive|non-?negative|in (?:the )?range|within"
    r"|between"
    r"|one of|either|[<>]|at least|at most|even|odd|used|enabled|disabled|None|zero|0\b|True|False|combined|evenly"
    r"|an? "
    r"(?:power|positive|multiple)|the same as|equal to|configured|specified)",
    rf"\b(?:please|must|should|need to|have to|required to|forgot to|forget to|make sure to|need either"
    rf"|provide either)"
    rf" (?:either )?(?:set|specify|provide|define|choose|select|configure|enable|disable|supply)\b[^.;]{{0,60}}?"
    rf"(?:{_NAME}|{_SETTING})",
    r"\bmutually exclusive\b|\b(?:only|exactly|at most) one of\b[^.;]{1,100}?\b(?:can|may|must|should|is allowed)\b",
    rf"\b(?:can ?not|can't|may not|not allowed to|do not|don't) (?:use|specify|set|combine|pass|provide|enable"
    rf"|be used"
    rf"|be set|be specified|be combined)\b[^.;]{{0,60}}?(?:{_NAME}|{_SETTING}|\bboth\b|\bat the same time\b)",
    rf"(?:{_NAME}|{_SETTING})[^.;]{{0,60}}?\b(?:can ?not|can't|not) be (?:used|set|specified|combined"
    rf"|enabled) (?:together"
    r"|at the same time|with|without|when|while|if|both|simultaneously)\b",
    rf"(?:{_NAME}|{_SETTING})[^;]{{0,80}}?\b(?:divisible by|(?:a )?multiple of|divide evenly|evenly divi)",
    r"\beither\b[^.;]{1,80}? or [^.;]{1,80}?\b(?:must|should|needs? to|has to|have to|required)\b",
    r"\b(?:you )?(?:must|need to|have to|should) (?:specify|provide|define|configure|choose|select|set) (?:either"
    r"|at least"
    r"|one of|exactly|a |an |the )",
    r"\bneeds? (?:either|at least one of)\b[^.;]{1,80}? or\b",
    rf"(?:{_NAME}|{_SETTING}|'[\w.-]{{1,60}}')[^.;]{{0,30}}? (?:is|are) (?:a |an )?(?:required|mandatory|missing"
    rf"|not set|unset"
    r"|not specified|not provided|not given|not defined)\b",
    r"\bmissing (?:the )?(?:required |mandatory )?(?:config\w*|options?|arguments?|parameters?|settings?|fields?)\b",
    r"\b(?:output|save|log|checkpoint|experiment)[ _]?(?:dir\w*|folder|path)\b.{0,80}\balready exists?\b|--overwrite",
    r"\b(?:incompatible|conflicting|inconsistent|contradictory) (?:\w+ ){0,2}(?:config\w*|options?|arguments?"
    r"|settings?|flags?"
    r"|hyper-?parameters?)\b|\b(?:config\w*|options?|arguments?|settings?|flags?) (?:\S+ ){0,4}?(?:conflicts?"
    r"|are incompatible"
    r"|are inconsistent|contradict)\b",
    rf"\b(?:invalid|wrong|bad|illegal|unknown|unexpected) (?:argument|value|parameter|option|setting"
    rf"|key)s?\b.{{0,20}}?"
    rf"(?: for | of |:? )(?:{_NAME}|{_SETTING})",
    r"\bthere should be a (?:sub)?class\b|\bextra fields? not permitted\b|\bextra inputs are not permitted\b",
    r"(?:配置|参数|选项|模式|模型名称?|优化器|学习率|batch_?size)[^，。；]{0,20}(?:不支持|必须|应该|未指定"
    r"|未设置|没有设置|无效|不合法|错误|不正确|不能为)"
    r"|请(?:先)?在[^，。；]{0,12}(?:配置|参数|yaml|yml)[^，。；]{0,8}(?:设置|指定|填写|修改)",
)
ENVIRONMENT = re.compile(r"\benv(?:ironment)? var(?:iable)?\b.{0,60}\bmust be\b", re.IGNORECASE)
"""What a variable of the environment must be is a setting, whatever type it asks for."""
_CHINESE = (
    ("file_not_found", _any(r"(?:文件|路径|目录|文件夹)[^，。；]{0,80}不存在")),
    ("dtype_mismatch", _any(r"(?:数据类型|dtype)不(?:一致|匹配|相同)")),
    ("shape_mismatch", _any(r"(?:形状|维度|尺寸|shape)不(?:一致|匹配|相同|相等)")),
    ("index_out_of_range", _any(r"(?:标签|类别|索引|label|index)\s?(?:值|编号)?(?:超出|越界)")),
    (
        "config_error",
        _any(
            r"不支持的?(?:优化器|模型|参数|模式|配置|损失|数据集|骨干网络|任务|激活函数)",
            r"配置(?:文件)?中?(?:缺少|没有|未(?:找到|指定|设置))",
        ),
    ),
)
"""What Chinese messages say of what; none of their words alone decides."""
_OF_DEVICES = re.compile(
    r"\b(?:CUDA|cuda\w+|cu(?:DNN|BLAS)|NCCL|nccl\w+|c10d?|gloo|MPI)\b[ _]?(?:error|status|kernel)|CUDA_HOME"
)
"""Drivers and the libraries under the frameworks speak of kernels, images and modes in another sense."""
_CHECKPOINT = re.compile(
    r"\b(?:checkpoints?|ckpt|state_dict|weights?|paddle\.load|torch\.load)\b|\.(?:pth?|pdparams|ckpt|safetensors)\b"
)
_OF_CODE = re.compile(
    r"state_dict|\bname '\w+' is not defined|\bforward\b.{0,12}\b(?:function|method)\b|\bKernel size can't be"
    r"|\bonly supports? (?:u?int|float|bfloat|half|double|complex)\d*\b"
)
"""Sentences on code and tensors that sound like those on settings."""


def family_by_wording(sentence: str) -> str | None:
    """The family that a message gives by whom it speaks of and what it says of it, or `None`.

    Args:
        sentence: A message on one line.
    """
    plain = ADDRESS.sub("", sentence[:1500])
    if _OF_DEVICES.search(plain):
        return None
    around = family_by_surroundings(plain) or next((family for family, says in _CHINESE if says.search(plain)), None)
    if around is not None:
        return around
    if _LABELS.search(plain):
        return "index_out_of_range"
    if _EMPTY.search(plain):
        return "data_empty"
    if _UNREADABLE.search(plain):
        return "checkpoint_load_error" if _CHECKPOINT.search(plain) else "data_decode_error"
    return "config_error" if _SETTINGS.search(plain) and not _OF_CODE.search(plain) else None


_DEMANDS = re.compile(
    r"\b(?:must|should|shouldn't|has to|have to|needs? to|can ?not|can't|not allowed|only (?:allows?|accepts?"
    r"|supports?|works?)"
    r"|please|required?|requires|make sure|forgot|invalid|unsupported|not supported|unknown)\b",
    re.IGNORECASE,
)
_CHOSEN = re.compile(
    r"\b(?:loss|norm|activation|optimi[sz]er|scheduler|model|network|dataset|mode|method|backbone|arch|task|init\w*)\b"
    r"[^.;]{0,30}?(?:\btype\b|\bname\b|[`'\"\[:=]| \w+\d\b)",
    re.IGNORECASE,
)
_OF_TENSORS = re.compile(
    r"tensor|shape|\bdims?\b|dimension|\bsizes?\b|\blengths?\b|dtype|device|cuda|gpu|\bgrad|index|\bnan\b"
    r"|\bfiles?\b.{0,30}\bexist"
    r"|download|connect|server|memory|\(Invalid|\[Hint",
    re.IGNORECASE,
)


def is_user_check(raised: ObservedException, sentence: str) -> bool:
    """Whether a check in the program's own Python code asks something of a value, and of no tensor.

    Args:
        raised: Any exception.
        sentence: Its message on one line.
    """
    own = bool(raised.frames) and raised.frames[-1].user
    if not (
        (raised.type in ("AssertionError", "NotImplementedError") and (own or not raised.frames))
        or (own and raised.type == "ValueError")
    ):
        return False
    if raised.type == "NotImplementedError" and 1 <= sentence.count(" ") <= 6:
        return _CHOSEN.search(sentence) is not None and _OF_TENSORS.search(sentence) is None
    enough = sentence.count(" ") >= 4 and not sentence.startswith("assert")
    return enough and _DEMANDS.search(sentence) is not None and _OF_TENSORS.search(sentence) is None
