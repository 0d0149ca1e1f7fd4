"""The quantities of a message that matched: what its page has slots for, whichever sentence of the message says it.

The template that fits best need not be the one with the numbers: Paddle says a thing in a sentence, says it again with
values behind "But received", and once more in a hint. So every template of the page is asked, those that only read
(`reads:`) too, and what is still missing is read by the grammar in which all such messages compare: "Expected L == R,
but received L:8 != R:10", two shapes, two types, two devices, an index and its limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from labbook.diagnosis.catalogue.matcher import Match
from labbook.diagnosis.catalogue.pattern import SLOT, compile_pattern, normalise_text, scalar_type

_MOST_LETTERS = 8000
_MOST_TENSORS = 3
_LEAST_WEIGHT = 2
"""A template that is only a hint may have read anything."""
_VALUE = r"-?\d[\d.]*|\[[\d, -]{1,60}\]"
_COMPARED = re.compile(
    rf"\breceived [^\n]{{1,160}}?[:(](?P<a>{_VALUE})\)? (?P<sign>[!<>=]=?) [^\n]{{1,160}}?[:(](?P<b>{_VALUE})[.\])]"
)
_RANKS = re.compile(r"%|rank|ndim|dims?\.size\(\)|\bof \w*dimensions\b")
"""Counts of axes and remainders, which are no sizes."""
_SHAPE = re.compile(
    r"(?:shape|size|dims?|dimensions?)s?(?:\(s\))?\]?(?: of \S{1,40})?(?: ?[=:]| is| are| was| of)? ?"
    r"(?:(?<=[\s:=])|(?<=size))(?P<shape>(?:torch\.Size\()?[\[(]-?\d[\d, -]{0,60}[\])])",
    re.IGNORECASE,
)
_TYPE = re.compile(
    r"(?<![\w.])(?:torch\.|paddle\.|phi::|VarType\.|DataType\.)?(?:cuda\.)?(?:(?:Half|Float|Double|Long|Int|Byte|Char"
    r"|Short|Bool|BFloat16)(?:Tensor)?|(?:float|bfloat|u?int|complex)(?:8|16|32|64|128)|FP(?:16|32|64)|INT(?:8|16|32"
    r"|64)"
    r"|bool)\b"
)
_LISTED = re.compile(r"\b(?:support\w*|one of|following)\b[^\n.]{0,160}$|\bor $|\bmust be (?:\w+ )?$", re.IGNORECASE)
"""In front of a type that is only among those that would do."""
_DEVICE = re.compile(
    r"\bPlace\((?:gpu|cpu|xpu|npu)[:\d]*\)|\b(?:cuda|gpu|xpu|npu|mps):\d+|\b(?:CUDA|CPU|GPU)Place(?:\(\d*\))?"
    r"|\b(?:cpu|cuda|gpu|mps|xpu|npu)\b(?! (?:memory|kernel))"
)
_RANGE = re.compile(r"\b(?:range|in) (?:of )?\[ ?-?\d+, ?(?P<n>\d+) ?[)\]]")
_BEHIND = re.compile(r"\.? ?(?:\[Hint|\((?:run with|at /)).*", re.DOTALL)
"""What messages put behind what they say."""
_SIZE_OF = re.compile(r"(?:torch|paddle)\.Size\((\[.*\])\)")
_LONG = re.compile(r"(\d+\.\d{3,}) ?([A-Za-z]+)")
_BYTES = re.compile(r"\d+")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_NUMBER = re.compile(r"\d+")
_OF_SIZES = ("asked", "free", "requested", "reserved", "allocated")


def read_values(match: Match, message: str) -> dict[str, str]:
    """What a message says, by the names that the page of its symptom uses.

    Args:
        match: The symptom, with what its own template captured.
        message: The whole message or line.
    """
    symptom = match.symptom
    known = dict(match.values)
    said = symptom.said("en")
    slots = [slot for text in (said.says, *said.why, *said.attempts) for slot in SLOT.finditer(text)]
    asked = {slot.group(1) for slot in slots}
    if asked - set(known) and message:
        text = normalise_text(message[:_MOST_LETTERS])
        for pattern in symptom.patterns:
            if pattern.text and pattern.weight >= _LEAST_WEIGHT and not pattern.differ:
                known = {**(compile_pattern(pattern.text).find(text) or {}), **known}
        read = _GRAMMARS.get(symptom.family)
        if read is not None and asked - set(known):
            if read is _shapes and any(slot.group(2) for slot in slots):
                read = _sizes
            known = {**_fitting(dict(read(text.flat)), asked, known), **known}
    readable = {name: _readable(name, value) for name, value in known.items()}
    return {name: value for name, value in readable.items() if value}


def _fitting(read: Mapping[str, str], asked: set[str], known: Mapping[str, str]) -> dict[str, str]:
    """Of what the grammar read what the page asks for; of a pair nothing that repeats the half that is known."""
    halves = {known.get("a"), known.get("b")}
    return {
        name: value
        for name, value in read.items()
        if name in asked and (name not in ("a", "b") or ("a" in asked and value not in halves))
    }


def _shapes(message: str) -> Sequence[tuple[str, str]]:
    """Two shapes that should be alike; frameworks name the input first."""
    shapes = [found["shape"] for found in _SHAPE.finditer(message)]
    apart = [shape for shape in shapes[1:] if shape != shapes[0]]
    if apart:
        return (("a", shapes[0]), ("b", apart[0]))
    return _sizes(message) or ((("a", shapes[0]),) if len(shapes) == 1 else ())


def _sizes(message: str) -> Sequence[tuple[str, str]]:
    """The two sizes that differ, which a shape need not hold: it may be written before it is flattened."""
    # A condition that Paddle could not take apart is said as "0 != true:1".
    signed = (c for c in _COMPARED.finditer(message) if c["sign"] == "!=" and not _RANKS.search(c.group()))
    compared = next((c for c in signed if {c["a"], c["b"]} != {"0", "1"}), None)
    return (("a", compared["a"]), ("b", compared["b"])) if compared is not None else ()


def _types(message: str) -> Sequence[tuple[str, str]]:
    """The type that came, and the other one where one is named."""
    found = [f.group() for f in _TYPE.finditer(message) if not _LISTED.search(message[: f.start()])]
    kinds = {scalar_type(one): one for one in reversed(found)}
    names = sorted(kinds.values(), key=found.index)
    return tuple(zip(("a", "b"), names, strict=False)) if 0 < len(names) <= 2 else ()


def _devices(message: str) -> Sequence[tuple[str, str]]:
    names = list(dict.fromkeys(found.group().lower() for found in _DEVICE.finditer(message)))
    return (("a", names[0]), ("b", names[1])) if len(names) == 2 else ()


def _limits(message: str) -> Iterator[tuple[str, str]]:
    """An index and the number that it has to stay below."""
    compared = next((c for c in _COMPARED.finditer(message) if c["sign"] in (">=", ">", "<", "<=")), None)
    if compared is not None:
        yield "v", compared["a"]
        if compared["sign"] in (">=", ">"):
            yield "n", compared["b"]
    limit = _RANGE.search(message)
    if limit is not None:
        yield "n", limit["n"]


_GRAMMARS: Mapping[str, Callable[[str], Iterable[tuple[str, str]]]] = {
    "shape_mismatch": _shapes,
    "dtype_mismatch": _types,
    "unsupported_op": _types,
    "device_mismatch": _devices,
    "index_out_of_range": _limits,
}
"""Family -> what reads the quantities that its messages compare."""


def _readable(name: str, value: str) -> str:
    """A value as a sentence says it: without the quotes and full stops of the message, sizes with a unit."""
    plain = _SIZE_OF.sub(r"\1", _BEHIND.sub("", value.strip())).strip("'\"`").rstrip(".,;:")
    if name not in _OF_SIZES or not _BYTES.fullmatch(plain):
        return _LONG.sub(lambda found: f"{float(found[1]):.2f} {found[2]}", plain) if name in _OF_SIZES else plain
    size, unit = float(plain), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.2f} {_UNITS[unit]}" if unit else f"{plain} bytes"


def select_tensors(tensors: Sequence[Mapping[str, Any]], family: str, message: str) -> list[Mapping[str, Any]]:
    """The few tensors of the failing line that bear on its message; at most `_MOST_TENSORS`.

    Args:
        tensors: Each with `name`, `shape`, `dtype`, `device`.
        family: Of the failure.
        message: The whole message.
    """
    if family in ("dtype_mismatch", "device_mismatch"):
        quantity = "dtype" if family == "dtype_mismatch" else "device"
        kinds: dict[str, Mapping[str, Any]] = {}
        for tensor in tensors:
            kinds.setdefault(str(tensor.get(quantity)), tensor)
        # Where all are alike, the odd one is not among them.
        return list(kinds.values())[:_MOST_TENSORS]
    sizes = {number for number in _NUMBER.findall(message) if int(number) > 1}
    shared = [(len(sizes & set(_NUMBER.findall(str(t.get("shape"))))), t) for t in tensors]
    bearing = sorted((pair for pair in shared if pair[0]), key=lambda pair: -pair[0])
    return [tensor for _, tensor in bearing][:_MOST_TENSORS] or list(tensors[:_MOST_TENSORS])
