"""What the line that raised an exception shows: the file of a library, an import, the reading of a setting.

`torch/serialization.py` raises errors of checkpoints and `PIL/Image.py` errors of pictures, whatever the message says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from labbook.diagnosis.families.family_tables import load_tables
from labbook.model.evidence import ObservedException
from labbook.model.run import Frame

_SOURCE_BUILD = re.compile(r"[\\/](?:torch|paddle)[\\/](?:jit|onnx|_\w+|distributed)[\\/]")
"""The frameworks when they run from a source checkout, outside of the package folders."""
_NATIVE = re.compile(r"\bINTERNAL ASSERT FAILED at [\"'](?P<file>[^\"'\n]{3,300})")
_IMPORTS = re.compile(r"^(?:import|from) [\w.]")
_SETTING_READ = re.compile(
    r"\b(?:int|float|bool|eval|literal_eval|str(?:to|2)bool|loads)\((?:[^()]|\([^()]*\)){0,60}?"
    r"(?:environ\b|getenv\(|sys\.argv|\b(?:args|opts?|cfg|conf|config|FLAGS|hparams)[.\[])"
)
_OF_NAMES_AND_CALLS = ("TypeError", "AttributeError", "NameError", "KeyError", "SyntaxError", "ValueError")


def family_of_import(raised: ObservedException) -> str | None:
    """The family of what a library raised while a program imported it, or `None` where it was raised later.

    Args:
        raised: Any exception.
    """
    frames = raised.frames
    own = next((place for place in reversed(range(len(frames))) if frames[place].user), None)
    if own is None or own == len(frames) - 1 or not _IMPORTS.match(frames[own].source):
        return None
    # Python's own errors come from code that does not fit another package; others come from native code.
    return "api_version_mismatch" if raised.type in _OF_NAMES_AND_CALLS else "import_abi_mismatch"


def reads_setting(raised: ObservedException) -> bool:
    """Whether it was raised while a value of the environment, command line or configuration was converted.

    Args:
        raised: Any exception.
    """
    return raised.type == "ValueError" and bool(raised.frames) and bool(_SETTING_READ.search(raised.frames[-1].source))


_CHECKPOINT_READ = re.compile(
    r"\b\w*(?:state_?dicts?|checkpoints?|ckpts?|pretrained\w*|weights_dict"
    r"|saved)\w*(?:\[[^\]]{1,60}\]){0,2}\[[^\]]{1,60}\]",
    re.IGNORECASE,
)


def reads_checkpoint(raised: ObservedException) -> bool:
    """Whether a key was missing in a line that reads a part of a checkpoint.

    Args:
        raised: Any exception.
    """
    if raised.type != "KeyError" or not raised.frames:
        return False
    return _CHECKPOINT_READ.search(raised.frames[-1].source) is not None


def family_of_native_file(sentence: str) -> str | None:
    """The family of the file in which a check of torch's native code failed, or `None`.

    Args:
        sentence: A message on one line.
    """
    found = _NATIVE.search(sentence)
    return load_tables().family_of_name("native_files", found["file"].replace("\\", "/")) if found else None


def family_of_site(frames: Sequence[Frame]) -> str | None:
    """The family of the library file or function that raised, or `None`.

    Only the innermost frame counts: what the callers of a library do says nothing.

    Args:
        frames: Of the exception, outermost first.
    """
    if not frames or (frames[-1].user and not _SOURCE_BUILD.search(frames[-1].file)):
        return None
    file = frames[-1].file.replace("\\", "/")
    tables = load_tables()
    return tables.family_of_name("functions", f"{file}:{frames[-1].function}") or tables.family_of_name("files", file)
