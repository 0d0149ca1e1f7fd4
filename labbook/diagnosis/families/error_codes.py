"""Error codes in messages: of the system, of Windows, of OpenCV, of CUDA and of Paddle.

Programs put their own words around such an error, or translate them; the code remains. Which family a code shows is in
`[codes]` of the family's table.

Source: errno.h of Linux, winerror.h, opencv2/core/base.hpp; driver_types.h of CUDA 9 and 12, cuda.h, cudnn.h,
cublas_api.h; paddle/phi/core/errors.h and error_codes.proto of Paddle 1.8 to 3.3.
"""

from __future__ import annotations

import re

from labbook.diagnosis.families.family_tables import load_tables

_NUMBERS = (
    ("errno", re.compile(r"\[Errno (\d{1,3})\]")),
    ("winerror", re.compile(r"\[WinError (\d{1,5})\]")),
    ("opencv", re.compile(r"\bOpenCV\b.{0,400}?\((-\d{1,3}):?[^)]{0,60}\)", re.DOTALL)),
)
_OPENCV_SAYS = (
    ("file_not_found", re.compile(r"\bCan't open [\"']")),
    # The package for servers, which cannot show windows.
    ("missing_dependency", re.compile(r"Rebuild the library with|libgtk2?\.0-dev|\bThe function is not implemented\b")),
)
_CUDA_NAME = re.compile(r"(?<![A-Za-z])(?:cudaError|CUDA_ERROR_|CUDNN_STATUS_|CUBLAS_STATUS_)([A-Z][A-Za-z_]{3,40})")
_CUDA_NUMBER = re.compile(
    r"\bcuda\w*\b[^.\n]{0,60}?\b(?:error|failure|code|status|errno)\s?(?:code|number)?\s?[=:(#（]?\s?(\d{1,3})\b"
    r"|\bTHCudaCheck FAIL\b[^\n]{0,200}?\berror=(\d{1,3})\b|\bcudaSuccess\b\W{1,4}(\d{1,3}) vs\.? 0\b",
    re.IGNORECASE,
)
_PADDLE = re.compile(
    r"\((?P<a>InvalidArgument|NotFound|OutOfRange|ResourceExhausted|PermissionDenied|ExecutionTimeout|Unimplemented"
    r"|InvalidType)\) |\b(?P<b>InvalidArgument|OutOfRange|ResourceExhausted|PermissionDenied|ExecutionTimeout"
    r"|Unimplemented|InvalidType)Error\b"
)
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
"""A tensor that never got a value."""
_LOADING = re.compile(r"\b(?:Invoke )?operator <? ?load(?:_combine)? >? ?error\b", re.IGNORECASE)
"""The operators that read the parameters of a model."""
_GPU = re.compile(r"\b(?:gpu|cuda|device)\b", re.IGNORECASE)
_OPERATOR = re.compile(r"\b(?:operator|kernel|op)\b", re.IGNORECASE)
_COMPARED = re.compile(
    r"Expected (?P<wanted>[^\n]{3,160}?), but received |[Ee]nforce (?P<enforced>[^\n]{3,160}?) failed[,.]"
    r"|^Check failed: (?P<checked>[^\n]{3,160})"
)
_RECEIVED_NAN = re.compile(r"but (?:received|got|was) [\w.\[\]()]{0,40}[:= ]{1,2}[-+]?(?:nan|inf)\b", re.IGNORECASE)


def family_of_number(sentence: str) -> str | None:
    """The family of an error number of the system, of Windows or of OpenCV, or `None`.

    Args:
        sentence: A message on one line.
    """
    for kind, pattern in _NUMBERS:
        found = pattern.search(sentence)
        if found is None:
            continue
        stated = kind == "opencv" and next((family for family, says in _OPENCV_SAYS if says.search(sentence)), None)
        return stated or load_tables().codes[kind].get(int(found[1]))
    return None


def family_of_cuda(sentence: str) -> str | None:
    """The family of a number or name of a CUDA error, or `None`.

    Args:
        sentence: A message on one line.
    """
    named = _CUDA_NAME.search(sentence)
    if named is not None:
        return load_tables().family_of_name("cuda", named[1])
    found = _CUDA_NUMBER.search(sentence)
    return load_tables().codes["cuda"].get(int(found[1] or found[2] or found[3])) if found else None


def family_of_paddle_code(kind: str, sentence: str) -> str | None:
    """The family of a code of Paddle, "(OutOfRange) ..." or "OutOfRangeError: ...", or `None`.

    Args:
        kind: Class of the exception.
        sentence: Its message on one line.
    """
    if _LOADING.search(sentence):
        return "checkpoint_load_error"
    if _UNSET.search(sentence):
        return "type_error_user_code"
    found = _PADDLE.search(f"{kind}: {sentence}")
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
    return load_tables().codes["paddle"].get(code)


def family_of_paddle_check(sentence: str) -> str | None:
    """The family of what a check of Paddle compares, or `None`: "Expected x_dims[0] == 4, but received x_dims[0]:8".

    Args:
        sentence: A message on one line.
    """
    if _RECEIVED_NAN.search(sentence):
        return "nan_or_inf"
    found = _COMPARED.search(sentence)
    if found is None:
        return None
    return load_tables().family_of_row("checks", found["wanted"] or found["enforced"] or found["checked"])
