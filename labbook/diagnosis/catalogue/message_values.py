"""Reads the values of a message for the slots of its page, from any sentence of the message.

The template that fits best need not be the one with the numbers: Paddle says a thing in a sentence, says it again with
values behind "But received", and once more in a hint. So every template of the page is asked, those that only read
(`reads:`) too, and what is still missing is read by the grammar in which all such messages compare: "Expected L == R,
but received L:8 != R:10", two shapes, two types, two devices, an index and its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from labbook.diagnosis.catalogue.matcher import Match
from labbook.diagnosis.catalogue.pattern import SLOT, compile_pattern, normalise_text, scalar_type
from labbook.diagnosis.catalogue.renamed_names import find_missing_name
from labbook.diagnosis.toml_data import compile_patterns

_RE = compile_patterns(__file__)

_MOST_LETTERS = 8000
_MOST_TENSORS = 3
_LEAST_WEIGHT = 2
"""A pattern of weight 1 may have matched anything."""
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_OF_SIZES = ("asked", "free", "requested", "reserved", "allocated")


def read_values(match: Match, message: str) -> dict[str, str]:
    """The values of a message, by the names of the slots of the page."""
    symptom = match.symptom
    known = dict(match.values)
    wording = symptom.wording_in("en")
    slots = [slot for text in (wording.says, *wording.why, *wording.attempts) for slot in SLOT.finditer(text)]
    wanted = {slot.group(1) for slot in slots}
    if wanted - set(known) and message:
        text = normalise_text(message[:_MOST_LETTERS])
        for pattern in symptom.patterns:
            if pattern.text and pattern.weight >= _LEAST_WEIGHT and not pattern.differ:
                known = {**(compile_pattern(pattern.text).find(text) or {}), **known}
        read = _GRAMMARS.get(symptom.family)
        if read is not None and wanted - set(known):
            if read is _shapes and any(slot.group(2) for slot in slots):
                read = _sizes
            known = {**_select_fitting(dict(read(text.flat)), wanted, known), **known}
    readable = {name: _readable(name, value) for name, value in known.items()}
    return {name: value for name, value in readable.items() if value}


def _select_fitting(read: Mapping[str, str], wanted: set[str], known: Mapping[str, str]) -> dict[str, str]:
    """The values that the page has slots for; of a pair none that equals the known half."""
    halves = {known.get("a"), known.get("b")}
    return {
        name: value
        for name, value in read.items()
        if name in wanted and (name not in ("a", "b") or ("a" in wanted and value not in halves))
    }


def _shapes(message: str) -> Sequence[tuple[str, str]]:
    """Two shapes that should match; frameworks name the input first."""
    shapes = [found["shape"] for found in _RE["shape"].finditer(message)]
    apart = [shape for shape in shapes[1:] if shape != shapes[0]]
    if apart:
        return (("a", shapes[0]), ("b", apart[0]))
    return _sizes(message) or ((("a", shapes[0]),) if len(shapes) == 1 else ())


def _sizes(message: str) -> Sequence[tuple[str, str]]:
    """The two sizes that differ; they need not be part of a shape, which may be printed before it is flattened."""
    # Paddle prints a condition that it could not split as "0 != true:1".
    for compared in _RE["compared"].finditer(message):
        pair = (compared["a"], compared["b"])
        if compared["sign"] == "!=" and not _RE["ranks"].search(compared.group()) and set(pair) != {"0", "1"}:
            return tuple(zip("ab", pair, strict=True))
    return ()


def _types(message: str) -> Sequence[tuple[str, str]]:
    """The type that was passed, and the other one where the message names it."""
    found = [f.group() for f in _RE["type"].finditer(message) if not _RE["listed"].search(message[: f.start()])]
    kinds = {scalar_type(one): one for one in reversed(found)}
    names = sorted(kinds.values(), key=found.index)
    return tuple(zip(("a", "b"), names, strict=False)) if 0 < len(names) <= 2 else ()


def _devices(message: str) -> Sequence[tuple[str, str]]:
    names = list(dict.fromkeys(found.group().lower() for found in _RE["device"].finditer(message)))
    return (("a", names[0]), ("b", names[1])) if len(names) == 2 else ()


def _limits(message: str) -> Iterator[tuple[str, str]]:
    """An index and its limit."""
    compared = next((c for c in _RE["compared"].finditer(message) if c["sign"] in (">=", ">", "<", "<=")), None)
    if compared is not None:
        yield "v", compared["a"]
        if compared["sign"] in (">=", ">"):
            yield "n", compared["b"]
    limit = _RE["range"].search(message)
    if limit is not None:
        yield "n", limit["n"]


def _names(message: str) -> Iterator[tuple[str, str]]:
    """The name that the message misses."""
    yield "name", find_missing_name(message)


_GRAMMARS: Mapping[str, Callable[[str], Iterable[tuple[str, str]]]] = {
    "shape_mismatch": _shapes,
    "dtype_mismatch": _types,
    "unsupported_op": _types,
    "device_mismatch": _devices,
    "index_out_of_range": _limits,
    "api_version_mismatch": _names,
}
"""Family -> function that reads the quantities that its messages compare."""


def _readable(name: str, value: str) -> str:
    """A value for a sentence: without quotes and full stops of the message, sizes with a unit."""
    plain = _RE["size_of"].sub(r"\1", _RE["behind"].sub("", value.strip())).strip("'\"`").rstrip(".,;:")
    if name not in _OF_SIZES or not _RE["bytes"].fullmatch(plain):
        return _RE["long"].sub(lambda found: f"{float(found[1]):.2f} {found[2]}", plain) if name in _OF_SIZES else plain
    size, unit = float(plain), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.2f} {_UNITS[unit]}" if unit else f"{plain} bytes"


def describe_index(tensors: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """`v`, the first index that an embedding lacks, `at`, its element, `n`, the rows, and `length` of counted ones."""
    tensor = next((one for one in tensors if "outside" in one), None)
    if tensor is None:
        return {}
    place = f"{tensor['name']}[{', '.join(map(str, tensor['at']))}]" if tensor["name"] else ""
    values = {"v": str(tensor["outside"]), "n": str(tensor["rows"])} | ({"at": place} if place else {})
    return values | ({"length": str(tensor["range"][1] + 1)} if tensor["counts"] else {})


def select_tensors(tensors: Sequence[Mapping[str, Any]], family: str, message: str) -> list[Mapping[str, Any]]:
    """The tensors of the failing line that its message is about; at most `_MOST_TENSORS`.

    Args:
        tensors: Each with `name`, `shape`, `dtype`, `device`.
    """
    if family in ("dtype_mismatch", "device_mismatch"):
        quantity = "dtype" if family == "dtype_mismatch" else "device"
        kinds: dict[str, Mapping[str, Any]] = {}
        for tensor in tensors:
            kinds.setdefault(str(tensor.get(quantity)), tensor)
        # Where all are equal, the different one is not among them.
        return list(kinds.values())[:_MOST_TENSORS]
    if family == "index_out_of_range" and any(tensor.get("range") for tensor in tensors):
        return sorted(tensors, key=lambda tensor: not tensor.get("range"))[:_MOST_TENSORS]
    sizes = {number for number in _RE["number"].findall(message) if int(number) > 1}
    shared = [(len(sizes & set(_RE["number"].findall(str(t.get("shape"))))), t) for t in tensors]
    bearing = sorted((pair for pair in shared if pair[0]), key=lambda pair: -pair[0])
    return [tensor for _, tensor in bearing][:_MOST_TENSORS] or list(tensors[:_MOST_TENSORS])
