"""The family of an exception that no page describes, by its class, its message and the line that raised it.

Each step below reads one kind of evidence, the most specific first; the first family wins. What the steps look for is
data, in `tables/`. No single word decides: the least is two words that belong together ("shapes ... do not match").
Programs put their own words around an error of the system or of CUDA, or translate them; its code remains.

Source of the codes: errno.h of Linux, winerror.h, opencv2/core/base.hpp; driver_types.h of CUDA 9 and 12, cuda.h,
cudnn.h, cublas_api.h; paddle/phi/core/errors.h and error_codes.proto of Paddle 1.8 to 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from labbook.diagnosis.families.family_tables import load_tables
from labbook.diagnosis.toml_data import compile_patterns
from labbook.frozen import dataclass
from labbook.model.evidence import ObservedException
from labbook.model.run import Frame

_RE = compile_patterns(__file__)

_COMPILER = "compile_error"
_TENSOR_FAMILIES = ("shape_mismatch", "dtype_mismatch", "device_mismatch")
_MOST_LETTERS = 4000
_CODES = ("errno", "winerror", "opencv")
_OF_NAMES_AND_CALLS = ("TypeError", "AttributeError", "NameError", "KeyError", "SyntaxError", "ValueError")


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
    """The family of an exception, or `None` when nothing shows it."""
    sentence = _RE["possible_causes"].sub("", " ".join(exception.message[:_MOST_LETTERS].split()))
    if _RE["general_class"].match(exception.type):
        family = family_of_source(exception) or _family_of_system_error(exception, sentence)
        family = family or family_of_import(exception) or family_of_lookup(exception)
        return FamilyReading(family, 2, sentence) if family else None
    if exception.type == "KeyError" and sentence.count(" ") < 2:
        # The message is the key that is missing; only the line, or the library that raised it, may say of what.
        family = family_of_source(exception) or family_of_lookup(exception)
        return FamilyReading(family, 2, sentence) if family else None
    family = _family_of_steps(exception, sentence)
    if family == "shape_mismatch" and _RE["stored"].search(sentence):
        family = "checkpoint_size_mismatch"
    if family == "config_error" and sentence.startswith("Check failed: "):
        family = None  # native code checks no settings
    is_asserted = (family, exception.type) == ("config_error", "AssertionError")
    if is_asserted and _family_of_site(exception.frames) == _COMPILER:
        family = _COMPILER  # which asserts its own state, no setting
    if family is None and not sentence and "__version__" in exception.failing_line:
        # A version that is converted to a number, and is none.
        family = "api_version_mismatch"
    if family is not None:
        return FamilyReading(family, 2, sentence or exception.failing_line)
    family = "config_error" if is_user_check(exception, sentence) else _family_of_rejection(exception, sentence)
    family = family or _family_of_checker(exception)
    return FamilyReading(family, 3, sentence or exception.failing_line) if family else None


def family_of_line(line: str) -> FamilyReading | None:
    """The family of a line of output in which a program reports an error without a class, or `None`."""
    sentence = " ".join(line[:_MOST_LETTERS].split())
    tables, plain = load_tables(), _RE["url"].sub("", sentence)
    family = _family_of_cuda(sentence) or tables.family_of_row("native", plain)
    family = family or tables.family_of_row("checks", _capture("compared", sentence))
    return FamilyReading(family, 3, sentence) if family else None


def family_of_class(module: str, name: str) -> str | None:
    """The family that the class of an exception always represents, or `None`."""
    if _RE["general_class"].match(name):
        return None
    tables = load_tables()
    return tables.family_of_name("classes", name) or (tables.family_of_module("modules", module) if module else None)


def family_of_source(raised: ObservedException) -> str | None:
    """The family that the line which raised an error shows: it converts a setting, or reads a part of a checkpoint."""
    if not raised.failing_line:
        return None
    tables, line = load_tables(), f"{raised.type}: {raised.failing_line}"
    own = raised.frames[-1].user
    return tables.family_of_row("sources", line) or (None if own else tables.family_of_row("library_sources", line))


def family_of_import(raised: ObservedException) -> str | None:
    """The family of what a library raised while a program imported it, or `None` where it was raised later."""
    frames = raised.frames
    own = next((place for place in reversed(range(len(frames))) if frames[place].user), None)
    if own is None or own == len(frames) - 1 or not _RE["imports"].match(frames[own].source):
        return None
    if frames[-1].source.startswith("raise "):
        return None  # a check of the library: only its message says what it asks for
    # Python's own errors come from code that does not fit another package; others come from native code.
    return "api_version_mismatch" if raised.type in _OF_NAMES_AND_CALLS else "import_abi_mismatch"


def family_of_lookup(raised: ObservedException) -> str | None:
    """The family of a failed lookup inside a library, whose message is only a key or place, or `None`."""
    return _family_of_site(raised.frames) if raised.type in ("KeyError", "IndexError") else None


def names_nothing(exception: ObservedException) -> bool:
    """Whether an exception says only that something failed: native code without a message, an operator of Paddle."""
    message = exception.message.strip()
    return bool(_RE["operator"].match(message)) if message else "::" in exception.type


def is_user_check(exception: ObservedException, sentence: str) -> bool:
    """Whether a check in the program's own Python code rejects a value that is no tensor: mostly a setting."""
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


def _family_of_rejection(exception: ObservedException, sentence: str) -> str | None:
    """The family of a value that a check written in Python rejects; native code mostly checks tensors."""
    source = exception.failing_line
    is_python = source.startswith(("raise ", "assert ")) if source else exception.type == "ValueError"
    if not is_python:
        return None
    # The first sentence says what is wrong, those behind it what to do.
    known, first = load_tables().family_of_row("rejections", sentence), _RE["first_sentence"].match(sentence)
    return known or (load_tables().family_of_row("rejections", first[0]) if first else None)


def _family_of_checker(exception: ObservedException) -> str | None:
    """The family of what the function that raised checks, by its name: `validate_args`, `check_config`."""
    checks = exception.failing_line.startswith(("raise ", "assert "))
    return load_tables().family_of_name("own_functions", exception.frames[-1].function) if checks else None


def _family_of_steps(exception: ObservedException, sentence: str) -> str | None:
    tables = load_tables()
    plain = _RE["url"].sub("", sentence)
    inside, native = _capture("class_inside", sentence), _capture("native_file", sentence).replace("\\", "/")
    return (
        family_of_source(exception)
        or tables.family_of_row("native", plain)
        or _family_of_number(sentence)
        or family_of_class(exception.module, exception.type)
        or family_of_class("", inside)
        or tables.family_of_row("quantities", sentence)
        or tables.family_of_row("checks", _capture("compared", sentence))
        or _family_of_cuda(sentence)
        or tables.family_of_row("messages", plain)
        or _family_of_assert(exception, sentence)
        or tables.family_of_row("paddle", f"{exception.type}: {sentence}")
        or tables.family_of_name("native_files", native)
        or _family_of_site(exception.frames)
        or tables.family_of_name("usual_classes", exception.type)
        or tables.family_of_module("usual_modules", exception.module)
        or family_of_import(exception)
    )


def _capture(name: str, sentence: str) -> str:
    """What the group of a pattern holds that fits somewhere in a sentence, or ""."""
    found = _RE[name].search(sentence)
    return next(filter(None, found.groups()), "") if found else ""


def _family_of_system_error(exception: ObservedException, sentence: str) -> str | None:
    """The family of an error of the operating system, by its number, its message or the file that raised it."""
    if (family := _family_of_number(sentence)) is not None:
        return family
    quantities = load_tables().family_of_row("quantities", sentence)
    of_tensors = quantities if quantities in _TENSOR_FAMILIES else None
    if exception.type not in ("OSError", "IOError"):
        return of_tensors if exception.type == "TypeError" else None
    plain = _RE["url"].sub("", sentence)
    return (
        load_tables().family_of_row("messages", plain, system=True) or of_tensors or _family_of_site(exception.frames)
    )


def _family_of_assert(exception: ObservedException, sentence: str) -> str | None:
    """The family of an `assert` whose message says nothing, by what its line compares."""
    if exception.type != "AssertionError":
        return None
    if _RE["two_counts"].match(sentence):
        return "shape_mismatch"
    source = exception.failing_line
    for line in (sentence, source):
        if line.startswith("assert") or (line is sentence and _RE["comparison"].search(line)):
            family = load_tables().family_of_row("asserts", line)
            if family or line is source:
                return family
    return None


def _family_of_number(sentence: str) -> str | None:
    """The family of an error number of the system, of Windows or of OpenCV, or `None`."""
    tables = load_tables()
    for kind in _CODES:
        if (found := _RE[kind].search(sentence)) is not None:
            return tables.family_of_row("coded", sentence) or tables.codes[kind].get(int(found[1]))
    return None


def _family_of_cuda(sentence: str) -> str | None:
    """The family of a name or number of a CUDA error, or `None`."""
    if (named := _RE["cuda_name"].search(sentence)) is not None:
        return load_tables().family_of_name("cuda", named[1])
    found = _RE["cuda_number"].search(sentence)
    return load_tables().codes["cuda"].get(int(found[1] or found[2] or found[3])) if found else None


def _family_of_site(frames: Sequence[Frame]) -> str | None:
    """The family of the library file or function that raised, or `None`; its callers say nothing."""
    if not frames or (frames[-1].user and not _RE["source_build"].search(frames[-1].file)):
        return None
    file = frames[-1].file.replace("\\", "/")
    tables = load_tables()
    return tables.family_of_name("functions", f"{file}:{frames[-1].function}") or tables.family_of_name("files", file)
