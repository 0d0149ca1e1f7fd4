"""The family behind the number of an error: of the system, of Windows, of OpenCV, of CUDA.

Programs put their own words around such an error, or translate them; the number stays.

Source: errno.h of Linux, winerror.h, opencv2/core/base.hpp.
"""

from __future__ import annotations

import re

_ERRNO = re.compile(r"\[Errno (?P<number>\d{1,3})\]")
_SYSTEM = {
    **dict.fromkeys((1, 13, 30), "permission_error"),
    **dict.fromkeys((2, 20, 21), "file_not_found"),
    **dict.fromkeys((5, 16, 36, 39, 100, 101, 103, 107, 111, 112, 113, 116, 121), "other"),
    8: "import_abi_mismatch",
    12: "host_oom_killed",
    **dict.fromkeys((23, 24), "shared_memory"),
    **dict.fromkeys((27, 28, 122), "disk_full"),
    32: "dataloader_worker_died",
    **dict.fromkeys((98, 99), "port_in_use"),
    104: "nccl_or_collective",
    110: "timeout",
}
_WINERROR = re.compile(r"\[WinError (?P<number>\d{1,5})\]")
_WINDOWS = {
    **dict.fromkeys((2, 3, 53, 123, 161, 267), "file_not_found"),
    **dict.fromkeys((5, 19, 32, 33, 1314), "permission_error"),
    **dict.fromkeys((8, 14, 1450, 1455), "host_oom_killed"),
    **dict.fromkeys((39, 112), "disk_full"),
    **dict.fromkeys((109, 232, 233), "dataloader_worker_died"),
    **dict.fromkeys((126, 127, 182, 193, 216, 1114), "import_abi_mismatch"),
    **dict.fromkeys((10048, 10013), "port_in_use"),
    **dict.fromkeys((121, 258, 10060), "timeout"),
    **dict.fromkeys((206, 1117, 10051, 10053, 10054, 10061, 10065, 11001), "other"),
}
_OPENCV = re.compile(r"\bOpenCV\b.{0,400}?\((?P<number>-\d{1,3}):?[^)]{0,60}\)", re.DOTALL)
_PICTURES = {
    -4: "host_oom_killed",
    **dict.fromkeys((-5, -8, -27, -206), "type_error_user_code"),
    **dict.fromkeys((-13, -15, -17, -201, -208, -209), "shape_mismatch"),
    **dict.fromkeys((-205, -210), "dtype_mismatch"),
    **dict.fromkeys((-213, -216, -217), "unsupported_op"),
    -211: "index_out_of_range",
    -212: "data_decode_error",
    -214: "type_error_user_code",
}
_NOT_OPENED = re.compile(r"\bCan't open [\"']")
_NO_WINDOW = re.compile(r"Rebuild the library with|libgtk2?\.0-dev|\bThe function is not implemented\b")
"""OpenCV without what it shows windows with: the package for servers is installed."""

_CUDA_CODE = re.compile(
    r"\bcuda\w*\b[^.\n]{0,60}?\b(?:error|failure|code|status|errno)\s?(?:code"
    r"|number)?\s?[=:(#（]?\s?(?P<code>\d{1,3})\b"
    r"|\bTHCudaCheck FAIL\b[^\n]{0,200}?\berror=(?P<old>\d{1,3})\b|\bcudaSuccess\b\W{1,4}(?P<other>\d{1,3}) vs\.? 0\b",
    re.IGNORECASE,
)
_CUDA_CODES = {
    **dict.fromkeys((2,), "cuda_oom"),
    **dict.fromkeys((8, 30, 48, 98, 209, 35, 38, 100, 101, 222, 802, 803, 804, 999), "cuda_driver_mismatch"),
    **dict.fromkeys((59, 710), "cuda_device_assert"),
    **dict.fromkeys((4, 73, 74, 77, 700, 714, 715, 716, 717, 718, 719), "illegal_memory_access"),
}
"""Numbers of CUDA's errors, of version 10 and before it. Source: driver_types.h of CUDA 9 and 12."""


_CUDA_NAME = re.compile(
    r"(?<![A-Za-z])(?:cudaError|CUDA_ERROR_|CUDNN_STATUS_|CUBLAS_STATUS_)(?P<name>[A-Z][A-Za-z_]{3,40})"
)
_CUDA_NAMES = (
    ("cuda_oom", "MemoryAllocation|OutOfMemory|OUT_OF_MEMORY|ALLOC_FAILED"),
    (
        "cuda_driver_mismatch",
        "NoKernelImage|InsufficientDriver|NoDevice|InvalidDevice|UnsupportedPtx|SystemDriver|CompatNotSupported"
        "|Unknown$|InitializationError|NO_DEVICE|INVALID_DEVICE|NO_BINARY|SYSTEM_DRIVER|COMPAT_NOT|UNKNOWN$"
        "|UNSUPPORTED_PTX|ARCH_MISMATCH",
    ),
    ("cuda_device_assert", "Assert|ASSERT"),
    (
        "illegal_memory_access",
        "IllegalAddress|MisalignedAddress|LaunchFailure|ILLEGAL_ADDRESS|MISALIGNED|LAUNCH_FAILED",
    ),
    (
        "cudnn_error",
        "NOT_INITIALIZED|EXECUTION_FAILED|MAPPING_ERROR|BAD_PARAM|INTERNAL_ERROR|NOT_SUPPORTED|INVALID_VALUE",
    ),
)
"""Names of errors as CUDA, cuDNN and cuBLAS write them. Source: driver_types.h, cuda.h, cudnn.h, cublas_api.h."""


def family_by_cuda(sentence: str) -> str | None:
    """The family behind a number or a name of CUDA's, or `None`.

    Args:
        sentence: A message on one line.
    """
    named = _CUDA_NAME.search(sentence)
    if named is not None:
        return next((family for family, names in _CUDA_NAMES if re.match(names, named["name"])), None)
    found = _CUDA_CODE.search(sentence)
    return _CUDA_CODES.get(int(found["code"] or found["old"] or found["other"])) if found else None


def family_by_number(sentence: str) -> str | None:
    """The family, or `None` where the message has no number that says enough.

    Args:
        sentence: A message on one line.
    """
    for asks, known in ((_ERRNO, _SYSTEM), (_WINERROR, _WINDOWS)):
        found = asks.search(sentence)
        if found is not None:
            return known.get(int(found["number"]))
    found = _OPENCV.search(sentence)
    if found is None:
        return None
    if _NOT_OPENED.search(sentence):
        return "file_not_found"
    if _NO_WINDOW.search(sentence):
        return "missing_dependency"
    return _PICTURES.get(int(found["number"]))
