"""The family of an exception that no page describes, by its class, its message and the line that raised it.

Each step below reads one kind of evidence, the most specific first; the first family wins. What the steps look for is
data, in `tables/`. No single word decides: the least is two words that belong together ("shapes ... do not match").
"""

from __future__ import annotations

import re

from labbook.diagnosis.families.error_codes import (
    family_of_cuda,
    family_of_number,
    family_of_paddle_check,
    family_of_paddle_code,
)
from labbook.diagnosis.families.family_tables import load_tables
from labbook.diagnosis.families.raise_site import (
    family_of_import,
    family_of_native_file,
    family_of_site,
    reads_checkpoint,
    reads_setting,
)
from labbook.frozen import dataclass
from labbook.model.evidence import ObservedException

_GENERAL_CLASS = re.compile(
    r"^(?:Type|Attribute|Name|Import|ModuleNotFound|Index|ZeroDivision|OS|IO|FileNotFound|Permission|Memory"
    r"|Recursion)Error$|^(?:Keyboard|System|Generator|Stop)\w+$"
)
"""Classes of Python that pages read by their message; words about settings or data decide nothing there."""
_URL = re.compile(r"\w+://\S+")
_CLASS_INSIDE = re.compile(r"([A-Z]\w{2,40}(?:Error|Exception))\s?: ")
_STORED = re.compile(r"\b(?:checkpoints?|ckpt|pre-?trained|state_dict|loaded (?:param\w*|weights?))\b", re.IGNORECASE)
_COMPARISON = re.compile(r"[=!<>]=|[<>]|\bin\b|%")
_TWO_COUNTS = re.compile(r"^\W{0,2}[A-Za-z_]\w*: ?(\d+),? (?:and |vs\.? )?[A-Za-z_]\w*: ?(?!\1\b)\d+\W{0,2}$")
_TENSOR_FAMILIES = ("shape_mismatch", "dtype_mismatch", "device_mismatch")
_MOST_LETTERS = 4000


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


def family_of_message(exception: ObservedException) -> FamilyReading | None:
    """The family of an exception, or `None` when nothing shows it.

    Args:
        exception: The innermost one of a chain.
    """
    sentence = " ".join(exception.message[:_MOST_LETTERS].split())
    if _GENERAL_CLASS.match(exception.type):
        family = _family_of_system_error(exception, sentence) or family_of_import(exception)
        return FamilyReading(family, 2, sentence) if family else None
    if reads_checkpoint(exception):
        return FamilyReading("checkpoint_key_mismatch", 2, sentence)
    if exception.type == "KeyError" and sentence.count(" ") < 2:
        # The message is the key that is missing.
        return None
    family = _family_of_steps(exception, sentence)
    if family == "shape_mismatch" and _STORED.search(sentence):
        family = "checkpoint_size_mismatch"
    if family == "config_error" and sentence.startswith("Check failed: "):
        family = None  # native code checks no settings
    if family is None and not sentence and exception.frames and "__version__" in exception.frames[-1].source:
        # A version that is converted to a number, and is none.
        family = "api_version_mismatch"
    if family is not None:
        return FamilyReading(family, 2, sentence or (exception.frames[-1].source if exception.frames else ""))
    return FamilyReading("config_error", 3, sentence) if is_user_check(exception, sentence) else None


def family_of_line(line: str) -> FamilyReading | None:
    """The family of a line of output in which a program reports an error without a class, or `None`.

    Args:
        line: Outside of exceptions.
    """
    sentence = " ".join(line[:_MOST_LETTERS].split())
    family = family_of_cuda(sentence) or load_tables().family_of_row("native", _URL.sub("", sentence))
    return FamilyReading(family, 3, sentence) if family else None


def family_of_class(module: str, name: str) -> str | None:
    """The family that the class of an exception always stands for, or `None`.

    Args:
        module: Of the class, "" where it is not known.
        name: Of the class.
    """
    if _GENERAL_CLASS.match(name):
        return None
    tables = load_tables()
    return tables.family_of_name("classes", name) or (tables.family_of_module("modules", module) if module else None)


def is_user_check(exception: ObservedException, sentence: str) -> bool:
    """Whether a check in the program's own Python code rejects a value that is no tensor: mostly a setting.

    Args:
        exception: Any exception.
        sentence: Its message on one line.
    """
    own = bool(exception.frames) and exception.frames[-1].user
    if exception.type in ("AssertionError", "NotImplementedError"):
        applies = own or not exception.frames
    else:
        applies = own and exception.type == "ValueError"
    if not applies:
        return False
    words = sentence.count(" ")
    if exception.type == "NotImplementedError" and 1 <= words <= 6:
        return load_tables().family_of_row("choices", sentence) is not None
    enough = words >= 4 and not sentence.startswith("assert")
    return enough and load_tables().family_of_row("demands", sentence) is not None


def _family_of_steps(exception: ObservedException, sentence: str) -> str | None:
    tables = load_tables()
    plain = _URL.sub("", sentence)
    inside = _CLASS_INSIDE.match(sentence)
    return (
        ("config_error" if reads_setting(exception) else None)
        or tables.family_of_row("native", plain)
        or family_of_number(sentence)
        or family_of_class(exception.module, exception.type)
        or (family_of_class("", inside[1]) if inside else None)
        or _family_of_words(sentence, plain)
        or _family_of_assert(exception, sentence)
        or family_of_paddle_code(exception.type, sentence)
        or family_of_native_file(sentence)
        or family_of_site(exception.frames)
        or tables.family_of_name("usual_classes", exception.type)
        or tables.family_of_module("usual_modules", exception.module)
        or family_of_import(exception)
    )


def _family_of_words(sentence: str, plain: str) -> str | None:
    """The family of what a message says; `plain` is the message without addresses of web pages."""
    tables = load_tables()
    return (
        tables.family_of_row("quantities", sentence)
        or family_of_paddle_check(sentence)
        or family_of_cuda(sentence)
        or tables.family_of_row("messages", plain)
    )


def _family_of_system_error(exception: ObservedException, sentence: str) -> str | None:
    """The family of an error of the operating system, by its number, its message or the file that raised it."""
    family = family_of_number(sentence)
    if family is not None:
        return family
    quantities = load_tables().family_of_row("quantities", sentence)
    of_tensors = quantities if quantities in _TENSOR_FAMILIES else None
    if exception.type not in ("OSError", "IOError"):
        return of_tensors if exception.type == "TypeError" else None
    plain = _URL.sub("", sentence)
    return load_tables().family_of_row("messages", plain, system=True) or of_tensors or family_of_site(exception.frames)


def _family_of_assert(exception: ObservedException, sentence: str) -> str | None:
    """The family of an `assert` whose message says nothing, by what its line compares."""
    if exception.type != "AssertionError":
        return None
    if _TWO_COUNTS.match(sentence):
        return "shape_mismatch"
    source = exception.frames[-1].source if exception.frames else ""
    for line in (sentence, source):
        if line.startswith("assert") or (line is sentence and _COMPARISON.search(line)):
            family = load_tables().family_of_row("asserts", line)
            if family or line is source:
                return family
    return None
