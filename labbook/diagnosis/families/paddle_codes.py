"""The family behind the code in front of a message of Paddle: "(OutOfRange) ...", "OutOfRangeError: ...".

Source: paddle/phi/core/errors.h and error_codes.proto, of Paddle 1.8 to 3.3.
"""

from __future__ import annotations

import re

_CODE = re.compile(
    r"\((?P<a>InvalidArgument|NotFound|OutOfRange|ResourceExhausted|PermissionDenied|ExecutionTimeout|Unimplemented"
    r"|InvalidType)\) |\b(?P<b>InvalidArgument|OutOfRange|ResourceExhausted|PermissionDenied|ExecutionTimeout"
    r"|Unimplemented|InvalidType)Error\b"
)
_PLAIN = {
    "OutOfRange": "index_out_of_range",
    "PermissionDenied": "permission_error",
    "ExecutionTimeout": "timeout",
    "Unimplemented": "unsupported_op",
    "InvalidType": "type_error_user_code",
}
_SHAPES = re.compile(
    r"\b(?:dims?|dimensions?|shapes?|rank|numel|channels?|width|height|axis)\b|_dims?\b|dims\(", re.IGNORECASE
)
_TYPES = re.compile(r"\b(?:data ?types?|dtype)\b|dtype\(", re.IGNORECASE)
_UNSET = re.compile(
    r"\b\w+ should not be null\b|\bTensor (?:holds no memory|not initialized)\b"
    r"|\b(?:variable|tensor)\b.{0,40}\b(?:has not been|hasn't been|is not) initialized\b"
    r"|\bInput(?: \w+)? ?\(\w+\) ?(?:of \w+ )?is not initialized\b",
    re.IGNORECASE,
)
"""A tensor that was made and never given a value."""
_LOADING = re.compile(r"\b(?:Invoke )?operator <? ?load(?:_combine)? >? ?error\b", re.IGNORECASE)
"""The operators that read the parameters of a model."""
_GPU = re.compile(r"\b(?:gpu|cuda|device)\b", re.IGNORECASE)
_HINT = re.compile(
    r"Expected (?P<wanted>[^\n]{3,160}?), but received |[Ee]nforce (?P<enforced>[^\n]{3,160}?) failed[,.]"
    r"|^Check failed: (?P<checked>[^\n]{3,160})"
)
_RECEIVED_NAN = re.compile(r"but (?:received|got|was) [\w.\[\]()]{0,40}[:= ]{1,2}[-+]?(?:nan|inf)\b", re.IGNORECASE)
_HINTED = (
    (
        "index_out_of_range",
        re.compile(r"\b(?:\w+_)?(?:ids?|idx|index|indices|label|lbl|cls|class_id)\w*(?:\[\w+\])? ?(?:<|>=|<=) "),
    ),
    ("checkpoint_load_error", re.compile(r"^version\b")),
    ("device_mismatch", re.compile(r"place\b|place[.()_]|AllocationType|backend\(\)", re.IGNORECASE)),
    ("dtype_mismatch", re.compile(r"dtype|data_type|(?<![a-z])type\(\)")),
    (
        "shape_mismatch",
        re.compile(
            r"dims?\b|dims?[_.\[(]|_dim|shape|numel|channels?|width|height|product\(|(?:[.>]|\bget)size\(",
            re.IGNORECASE,
        ),
    ),
)
"""What a hint of Paddle compares: "[Hint: Expected x_dims[0] == 4, but received x_dims[0]:8 != 4:4.]"."""
_OPERATOR = re.compile(r"\b(?:operator|kernel|op)\b", re.IGNORECASE)


def family_by_code(kind: str, sentence: str) -> str | None:
    """The family, or `None` where neither class nor message has a code that says enough.

    Args:
        kind: Class of the exception.
        sentence: Its message on one line.
    """
    if _LOADING.search(sentence):
        return "checkpoint_load_error"
    if _UNSET.search(sentence):
        return "type_error_user_code"
    found = _CODE.search(f"{kind}: {sentence}")
    if found is None:
        return None
    code = found["a"] or found["b"]
    if code == "ResourceExhausted":
        return "cuda_oom" if _GPU.search(sentence) else "host_oom_killed"
    if code == "NotFound":
        return "unsupported_op" if _OPERATOR.search(sentence) else None
    if code == "InvalidArgument":
        if _SHAPES.search(sentence):
            return "shape_mismatch"
        return "dtype_mismatch" if _TYPES.search(sentence) else None
    return _PLAIN[code]


def family_by_hint(sentence: str) -> str | None:
    """The family of what a check of Paddle compares, whatever its code, or `None`.

    Args:
        sentence: A message on one line.
    """
    if _RECEIVED_NAN.search(sentence):
        return "nan_or_inf"
    hint = _HINT.search(sentence)
    if hint is None:
        return None
    compared = hint["wanted"] or hint["enforced"] or hint["checked"]
    return next((family for family, asks in _HINTED if asks.search(compared)), None)
