"""Facts that do not depend on the framework: plain options, the NVIDIA driver, variables that decide results."""

import os

_DETERMINISM_VARIABLES = (
    "PYTHONHASHSEED",
    "CUBLAS_WORKSPACE_CONFIG",
    "MKL_CBWR",
    "OMP_NUM_THREADS",
    "FLAGS_cudnn_deterministic",
    "FLAGS_embedding_deterministic",
    "NVIDIA_TF32_OVERRIDE",
)
_MAX_GROUPS = 16


def plain_options(options):
    """The options of an optimizer that are numbers, texts, truth values, or short lists of these."""
    return {str(name): _plain(value) for name, value in options.items() if _plain(value) is not _OTHER}


_OTHER = object()


def _plain(value):
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple) and len(value) <= 8:
        items = [_plain(item) for item in value]
        return _OTHER if _OTHER in items else items
    return _OTHER


def shortened(groups):
    """The first parameter groups of an optimizer; a last one says how many more there are."""
    if len(groups) <= _MAX_GROUPS:
        return groups
    return [*groups[:_MAX_GROUPS], {"more": len(groups) - _MAX_GROUPS}]


def determinism_variables():
    """Environment variables that decide whether two runs give the same numbers, as they are set now."""
    return {name: os.environ[name] for name in _DETERMINISM_VARIABLES if name in os.environ}


def nvidia_driver():
    """Version of the NVIDIA kernel driver, "" without one. Starts nothing."""
    try:
        with open("/proc/driver/nvidia/version") as stream:
            words = stream.readline().split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit() and "." in word), "")
