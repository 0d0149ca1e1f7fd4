"""The identity of a failure: the same in another run, folder, shape and machine, another for another failure.

A fingerprint is `v1:` and sixteen hexadecimal digits. The number of the version changes with the algorithm, so that
older entries remain in their group. The values that are removed from the message here are in `Finding.values`.

Source: grouping by class, message and the innermost frame of one's own code is what error trackers do; which parts of
the messages of torch and paddle vary was read from their messages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from labbook.diagnosis.toml_data import compile_patterns
from labbook.model.evidence import ObservedException
from labbook.model.run import Frame

_RE = compile_patterns(__file__)

VERSION = "v1"

_MOST_LETTERS = 4000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MOST_UNITS = 3
"""Sentences of a message that count. Source: chosen by us; after the third come advice and lists of values."""
_UNIT_LETTERS = 240
_DEEPEST = 20

_NAMED_BY = frozenset({"ModuleNotFoundError", "ImportError", "AttributeError", "NameError", "UnboundLocalError"})
"""Classes whose quoted name is the missing thing, even with dots and digits."""

_INSTEAD = {"number": "#", "nothing": "", "same": r"<\1>"}
_VALUES = compile_patterns(__file__, "message_quantities.toml")


def fingerprint_exception(raised: ObservedException, framework: str) -> str:
    """The fingerprint of an exception; of one that raises another one again, the inner one counts."""
    return _digest(fingerprint_parts(raised, framework))


def fingerprint_fault(symptom: str, place: str = "") -> str:
    """The fingerprint of a silent fault.

    Args:
        place: Name of the module that shows it ("Linear"), or of the framework.
    """
    return _digest(("fault", symptom, place, ""))


def fingerprint_parts(raised: ObservedException, framework: str) -> tuple[str, str, str, str]:
    """The parts of an exception's fingerprint: framework, class, message without values, place in the code."""
    chain = list(_inwards(raised))
    innermost = chain[-1]
    kind = innermost.type.rpartition(".")[2]
    place = next((place for one in reversed(chain) if (place := _place(one.frames))), "")
    return framework, kind, normalise_message(innermost.message, kind), place


def normalise_message(message: str, kind: str = "") -> str:
    """A message in lower case without values that differ between runs of the same failure.

    Args:
        kind: Class of the exception; for some classes the quoted name counts.
    """
    text = _RE["escapes"].sub("", message[:_MOST_LETTERS]).strip()
    summary = _RE["summary"].search(text)
    if summary is not None:
        text = text[summary.end() :]
    text = _RE["tails"].sub(" ", text)
    units: list[str] = []
    for raw in _RE["units"].split(text):
        plain = _RE["rank"].sub("", raw).strip()
        if _RE["stops"].match(plain):
            break
        if not plain.strip("-=*~ ") or (units and _RE["advice"].match(plain)):
            continue
        unit = _parameterised(plain[: 4 * _UNIT_LETTERS], kind, within=text)[:_UNIT_LETTERS]
        if unit and unit not in units:
            units.append(unit)
        if len(units) == _MOST_UNITS:
            break
    return " / ".join(units)


def _parameterised(text: str, kind: str, *, within: str) -> str:
    """One sentence without its values; `within` is the message, which shows whether quoted words name parameters."""
    names: list[str] = []
    of_parameters = kind == "ValueError" or (
        kind not in _NAMED_BY and kind != "KeyError" and _RE["of_parameters"].search(within) is not None
    )

    def replace_quoted(match: re.Match[str]) -> str:
        inside = match.group(2).strip()
        is_name = kind in _NAMED_BY and not {"/", "\\"} & set(inside)
        if not is_name and (of_parameters or _RE["plain_word"].match(inside) is None):
            return "<q>"
        # Protected while values are removed from the rest.
        names.append(inside)
        return f"\x00{_LETTERS[len(names) % len(_LETTERS)]}\x00"

    text = _RE["quoted"].sub(replace_quoted, text)
    for name, pattern in _VALUES.items():
        kind_of_value = name.partition("_")[0]
        text = pattern.sub(_INSTEAD.get(kind_of_value, f"<{kind_of_value}>"), text)
    text = _RE["listed"].sub("<q>", text)
    for number, inside in enumerate(names, 1):
        text = text.replace(f"\x00{_LETTERS[number % len(_LETTERS)]}\x00", f"'{inside}'", 1)
    return _RE["spaces"].sub(" ", text).strip(" .:,;!").lower()


def _inwards(raised: ObservedException) -> Iterator[ObservedException]:
    """The exception, and those that it re-raises, the innermost last."""
    one: ObservedException | None = raised
    for _ in range(_DEEPEST):
        if one is None:
            return
        yield one
        one = one.inner


def _place(frames: Sequence[Frame]) -> str:
    """Module, function and cleaned line of the innermost frame in the user's code; of a library's without the line."""
    own = next((frame for frame in reversed(frames) if frame.user), None)
    if own is not None:
        return f"{_module(own.file)}:{own.function}:{normalise_source(own.source)}"
    return f"{_module(frames[-1].file)}:{frames[-1].function}" if frames else ""


def _module(file: str) -> str:
    return "notebook" if _RE["notebook"].search(file) else PurePosixPath(file.replace("\\", "/")).stem


def normalise_source(source: str) -> str:
    """A line of code without comment, spaces, numbers and the text of its strings."""
    bare = _RE["string"].sub("''", source[:500]).partition("#")[0]
    return re.sub(r"\s+", "", _RE["number"].sub("0", bare))


def _digest(what: Sequence[str]) -> str:
    content = "\x1f".join(what).encode("utf-8", "replace")
    return f"{VERSION}:{hashlib.sha256(content).hexdigest()[:16]}"
