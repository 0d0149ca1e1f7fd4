"""Sentences of native loaders on a file of a model that they cannot read, and of converters on what they do not know.

Every runtime words it in its own way: "Load model from m.onnx failed:Protobuf parsing failed.", "parse magic failed",
"Engine deserialization failed.", "No importer registered for op: GridSampler". What they have in common is the file or
operator they speak of, and that reading or finding it failed.
"""

from __future__ import annotations

import re


def _any(*forms: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{form})" for form in forms), re.IGNORECASE)


_MODEL = (
    r"(?:models?|networks?|engines?|weights|checkpoints?|ckpt|onnx|program_desc|program desc\w*|graph ?def|NetParameter"
    r"|tensor ?desc|\w*Proto|state[_ ]dict|gguf|magic(?: number)?|plan file|params?)\b"
)
_FAILED = r"(?:fail(?:s|ed|ure)?|error|unsuccessful)\b"
_CAN_NOT = r"(?:fail(?:ed|s|ure)?|unable|not able|can ?not|can't|could not|couldn't|error)"
_BROKEN = _any(
    rf"\b{_CAN_NOT} (?:to |while |when |in )?(?:pars|deseriali[sz]|decod|recogni[sz])(?:e|ing)"
    r" (?:the |an? |this |your )?"
    rf"(?:[\w.]+ )?{_MODEL}",
    rf"\b(?:pars|deseriali[sz]|decod)(?:e|ing) (?:of )?(?:the )?(?:[\w.]+ )?{_MODEL}.{{0,60}}? ?{_FAILED}",
    r"\bprotobuf (?:pars|deseriali[sz])\w+ (?:fail|error)|\b(?:can't|cannot|failed to) parse message of type\b",
    rf"\b(?:model|engine|core engine|weights?) deseriali[sz]ation {_FAILED}|\bSerialization (?:Error in|assertion)\b",
    r"\bthe model (?:file )?format (?:\S+ ){0,4}?(?:recogni[sz]ed|supported|valid|correct)"
    r"|\bthis model file is not supported\b",
    r"\b(?:invalid|bad|wrong|unknown|unexpected) magic (?:numbers?|characters?|bytes?|words?|header)\b",
    r"\bengine plan file is (?:not compatible|generated on an incompatible)\b|\bmodel IR version\b"
    r"|\bparam is too old\b|\bonly version 0 is supported\b"
    r"|\bparam_?\w* (?:is )?(?:too old|too new)\b",
    r"\breader->ReachEnd\(\)|\bcaffe2/serialize/(?!.*(?:unexpected pos|[Ww]rit))|\bFile footer has wrong record type\b",
    rf"\bINVALID_PROTOBUF\b|\bInvalidProtobuf\b|\b(?:read|load)ing model: .{{0,80}}{_FAILED}",
)
"""What is said of content that was read and is no model, or one of another version."""
_NOT_LOADED = _any(
    rf"\b{_CAN_NOT} (?:to |while |when |in )?(?:load|restor|read|import)(?:e|ing)? (?:the |an? |this |your )?"
    r"(?:\w+ ){0,2}(?:models?|engines?|weights|checkpoints?)\b",
    rf"\b(?:load|restor|read)(?:e|ing)?[ _](?:the )?(?:\w+ )?(?:models?|engines?|weights|checkpoints?|param)\b"
    rf".{{0,80}}? ?{_FAILED}",
    r"(?:加载|读取|解析|导入)(?:[^，。\s]{0,6})(?:模型|权重|参数文件)[^，。\s]{0,6}(?:失败|出错|报错|错误)"
    r"|(?:模型|权重)(?:文件)?(?:加载|读取|解析)(?:失败|出错|报错|错误)",
)
"""What is said where no reason is given."""
_NO_OPERATOR = _any(
    r"\bUNSUPPORTED_NODE\b|\bPlugin not found, are the plugin name\b|\bNo importer registered for op\b"
    r"|\bcould not find plugin\b",
    r"\bunsupport(?:ed)? (?:onnx )?(?:op|ops|operator|operators|layer|node|opset)(?: types?| version)?\s?[:=]\s?\S",
    r"\bno (?:ops?|operators?|kernels?|converter|importer)\b.{0,20}\b(?:found|registered) for\b"
    r"|\bkernel_?: kernel null\b",
    r"\b(?:ops?|operators?|layers?)\b (?:\S+ ){0,3}?(?:are|is) not supported(?: yet)?\b",
    r"\b(?:layer|op|node) type not supported\b|\bconverter not found\b|'aten::\w+' (?:is )?not (?:found|supported)",
    r"\bopset(?:[ _]version)?\b.{0,40}?\b(?:not supported|unsupported|must be between|is too (?:low|old))"
    r"|\brequires the minimal opset version\b|\bunsupported (?:onnx )?opset\b",
)
_OF_A_FILE = re.compile(
    r"\b(?:no such file|not found|does(?: not|n't) exist|not exist|open(?:ing)? file)\b", re.IGNORECASE
)


def family_of_model_file(sentence: str, *, sure: bool = False) -> str | None:
    """The family that a sentence on loading or converting a model gives, or `None`.

    Args:
        sentence: On one line.
        sure: Only what names a reason; that something was not loaded says nothing of why.
    """
    if _NO_OPERATOR.search(sentence):
        return "unsupported_op"
    if _OF_A_FILE.search(sentence):
        return None
    if _BROKEN.search(sentence) or (not sure and _NOT_LOADED.search(sentence)):
        return "checkpoint_load_error"
    return None
