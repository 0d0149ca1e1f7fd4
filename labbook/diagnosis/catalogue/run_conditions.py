"""Conditions of a run or a message that make one cause likelier than another: the names of `when:` on a page.

Their meanings are in `conditions.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product

from labbook.diagnosis.catalogue.renamed_names import (
    ADDED,
    MISSPELT,
    RENAMED,
    find_misspelling,
    find_rename,
    is_library,
    listed_packages,
    usual_imports,
)
from labbook.model.evidence import Evidence, ObservedException, OutputLine

_SIMILAR, _OWN, _COUNTED, _NOT_COUNTED, _MANY = "similar_name", "own_code", "counted", "not_counted", "many_parameters"
_SAID, _LED_THROUGH, _RAISED_IN = "message: ", "frames: ", "raised in: "
OBSERVED = "observed: "
"""Begins a condition that a check met in one of several ways: the last part of the key of a message of its row."""
_UNLIKE, _OWN_PART, _UNLISTED = "unlike_keys", "own_part", "unlisted_name"
_PRIVATE = re.compile(r"No module named '?(\w+)(?:\.\w+)*\._\w+'?$")
_KEYS, _KEY = (
    re.compile(r'(?:Missing|Unexpected) key\(s\) in state_dict: ((?:"[^"\n]+"(?:, )?)+)'),
    re.compile(r'"([^"]+)"'),
)
_OF_PARAMETER, _SEVERAL = "size mismatch for ", 4
"""Parameters of two heads, each with weight and bias. Source: chosen by us."""
_LATER = 10
_NEAR = 6  # frames from the line of a model in transformers to the call of torch in its `nn.Embedding`
MARK = 255
"""Label of pixels and tokens that do not count. Source: Cityscapes and Pascal VOC; ignore_index of mmsegmentation."""
_ABSURD_BYTES = 64 * 2**30
_RESERVED_SHARE = 0.2
_SIZES = ("requested", "reserved", "allocated")
_UNITS = {"b": 1, "bytes": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40, "pb": 2**50}
_ASSERTED = {
    "labels_asserted": re.compile(r"n_classes|label|target"),
    "values_asserted": re.compile(r"input_val|input [<>]|prob|\bval [<>]|\bsum [<>]"),
    "index_asserted": re.compile(r"ind(?:ex|\b)|idx|\bid\b", re.IGNORECASE),
}
"""What the condition of a kernel's assertion is about: the first that fits. Source: kernels of torch and Paddle."""
_FUNCTION = re.compile(r"([a-z]\w*)\(\) (?:got|takes|missing) ")
_MODULE = re.compile(r"(?:partially initialized )?module '(\w+)[\w.]*' has no attribute ")
_OF_OBJECT = re.compile(r"^'\w+' object has no attribute '(\w+)'")
_SIZE = re.compile(r"(-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?)\s?([KMGTP]?i?B|bytes)?", re.IGNORECASE)


def find_conditions(values: Mapping[str, str], evidence: Evidence, raised: ObservedException | None) -> frozenset[str]:
    """The conditions that are met by the run and by the numbers of the message.

    Args:
        values: What the template captured; sizes are called `requested`, `reserved` and `allocated`, memory of another
            process `neighbour`, a label `v`, what a kernel asserts `condition`; and facts of the run (`label_low`,
            `label_high`, `classes`).
        raised: The exception, or `None`.
    """
    step = raised.step if raised is not None else None
    requested, reserved, allocated = (parse_bytes(values.get(n, "")) or 0.0 for n in _SIZES)
    holds = {
        "first_step": step is not None and step <= 1,
        "later": step is not None and step > _LATER,
        "absurd_request": requested > _ABSURD_BYTES,
        "reserved_large": reserved > _RESERVED_SHARE * (reserved + allocated),
        "neighbour": bool(values.get("neighbour")),
        "located": bool(evidence.ending.facts.get("where")),
        "first_axis": _differ_in_first_axis(values),
        "later_axis": _agree_in_first_axis(values, evidence.framework),
        "table_too_short": _exceeds_table(values),
        "channels_last": _lie_in_last_axis(values),
        "of_other_axis": _is_vector_of_other_axis(values),
        "few_axes": re.match(r"[\[({]\s*\d+(?:\s*,\s*\d+)?\s*,?\s*[\])}]", values.get("a", "")) is not None,
        "negative_index": values.get("v", "").startswith("-"),
    }
    met = {name for name, is_met in holds.items() if is_met} | _label_conditions(values)
    asserted = [name for name, names in _ASSERTED.items() if names.search(values.get("condition", ""))]
    return evidence.conditions | met | set(asserted[:1])


def observed_cases(
    when: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]],
) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Case that a check may observe -> the numbers of its causes and of its fixes on a page.

    Args:
        when: Conditions of a page; see `Symptom.when`.
    """
    return {name.removeprefix(OBSERVED): numbers for name, numbers in when.items() if name.startswith(OBSERVED)}


def conditions_said(keys: Iterable[str], raised: ObservedException | None, line: OutputLine | None) -> set[str]:
    """The conditions about what a message says and about the code that led to it.

    `message: words|other words` holds where some of them are in the message or in the source lines that led to it,
    `frames: torch/onnx/|find_class` where a file or function of the traceback has some of them, `raised in: ` where the
    last one has. Of several parts, joined by ` & `, each must have one; a part may be of another kind. `renamed` holds
    where a library removed or renamed the name that the message misses, `added` where only newer versions have it,
    `misspelt` where it did not and the name is
    nearly one that exists, `similar_name` where the recorder found a similar one, `own_code` where it found that what
    lacks the name is of the project, or where a line of the program calls a function by its bare name, no usual one.
    `counted` holds where an embedding lacks one of the indices 0, 1, 2 ..., which are positions, `not_counted` where
    others; `many_parameters` where more parameters differ in size than two heads have; `unlike_keys` where no key that
    a checkpoint lacks is one of its other keys with or without a prefix; `own_part` where a file of a package imports a
    private module of this package that does not exist; `unlisted_name` where a line of the program misses a name of a
    package of which most removed names are known, and it is none of them.
    """
    keys = set(keys)
    frames = raised.frames if raised else ()
    said = [one for one in (raised and raised.message, line and line.text) if one]
    message = said[0] if said else ""
    own = [frame for frame in frames[:-_NEAR] if frame.user][-1:]  # Ray calls itself more often than that
    source = "\n".join(frame.source for frame in (*own, *frames[-_NEAR:]))
    places = [f"{frame.file}:{frame.function}".replace("\\", "/").lower() for frame in frames]
    read = {
        _SAID: "\n".join((*said, source)).lower(),
        _LED_THROUGH: "\n".join(places),
        _RAISED_IN: "".join(places[-1:]),
    }
    about_name = (
        _conditions_of_name(message, source, raised)
        if keys & {RENAMED, ADDED, MISSPELT, _SIMILAR, _OWN, _UNLISTED}
        else set()
    )
    lacking = [one for one in (raised.tensors if raised else ()) if "outside" in one]
    met = {_COUNTED if one["counts"] else _NOT_COUNTED for one in lacking}
    met |= {_MANY} if message.count(_OF_PARAMETER) > _SEVERAL else set()
    met |= {_OWN_PART} if _OWN_PART in keys and raised and _lacks_private_part(raised) else set()
    met |= {_UNLIKE} if _UNLIKE in keys and _has_unlike_keys(message) else set()
    return about_name | met | {key for key in keys if key.startswith(tuple(read)) and _is_said(key, read)}


def _lacks_private_part(raised: ObservedException) -> bool:
    found, last = _PRIVATE.match(raised.message), raised.frames[-1:]
    imports = last and last[0].source.lstrip().startswith(("import ", "from "))
    return bool(found and imports and found[1] in last[0].file.replace("\\", "/").split("/")[:-1])


def _has_unlike_keys(message: str) -> bool:
    lists = [_KEY.findall(keys) for keys in _KEYS.findall(message)]
    pairs = product(*lists) if len(lists) > 1 else ()
    return len(lists) > 1 and not any(
        one.endswith(f".{other}") or other.endswith(f".{one}") for one, other, *_ in pairs
    )


def is_about_place(condition: str) -> bool:
    """Whether a condition is about the code that raised an exception."""
    return _LED_THROUGH in condition or _RAISED_IN in condition


def _conditions_of_name(message: str, source: str, raised: ObservedException | None) -> set[str]:
    """What holds of the name that a message misses."""
    near = list(map(str, raised.names.get("near", ()))) if raised and raised.names else None
    similar = {_SIMILAR} if near else set()
    if known := find_rename(message, source):
        return {RENAMED if "now" in known else ADDED} | similar
    own = {_OWN} if raised and _is_of_project(message, raised) else set()
    asks = raised and raised.frames and raised.frames[-1].user and (module := _MODULE.match(message))
    unlisted = {_UNLISTED} if asks and module and module[1] in listed_packages() else set()
    return similar | own | unlisted | ({MISSPELT} if find_misspelling(message, near) else set())


def _is_of_project(message: str, raised: ObservedException) -> bool:
    """Whether what lacks the name is of the project: the recorder found it, or, in a log, the line that misses it.

    Such a line calls the function by its bare name, asks `self` for the name, or a module of no known library.
    """
    if raised.names or not raised.frames or not raised.frames[-1].user:
        return bool(raised.names.get("own"))
    source = raised.frames[-1].source
    if called := _FUNCTION.match(message):
        return called[1] not in usual_imports() and re.search(rf"(?<![\w.]){called[1]}\(", source) is not None
    if module := _MODULE.match(message):
        return not is_library(module[1])
    lacking = _OF_OBJECT.search(message)
    return lacking is not None and re.search(rf"\bself\.{lacking[1]}\b", source) is not None


def _is_said(condition: str, read: Mapping[str, str]) -> bool:
    """Whether each part of a condition has one of its words in the text of its kind, or none if it begins with `!`."""
    kind = ""
    for part in condition.split(" & "):
        kind = next((prefix for prefix in read if part.startswith(prefix)), kind)
        words = part.removeprefix(kind)
        if any(word in read[kind] for word in words.removeprefix("!").split("|")) == words.startswith("!"):
            return False
    return True


def _differ_in_first_axis(values: Mapping[str, str]) -> bool:
    """Whether a message names a size of the batch, or `a` and `b` (sizes of axis `d`, or shapes) differ in it alone."""
    if "batch" in values:
        return True
    one, other = (re.findall(r"\d+", values.get(name, "")) for name in ("a", "b"))
    if len(one) == len(other) == 1:
        return values.get("d") == "0" and one != other
    return len(one) == len(other) > 1 and one[0] != other[0] and one[1:] == other[1:]


def _exceeds_table(values: Mapping[str, str]) -> bool:
    """Whether two shapes of three axes differ in the second one, and one of them is the same for all samples."""
    shapes = [[int(n) for n in re.findall(r"\d+", values.get(name, ""))] for name in ("a", "b")]
    if any(len(shape) != 3 for shape in shapes):
        return False
    (batch, length, width), (other_batch, other_length, other_width) = shapes
    return length != other_length and width == other_width and min(batch, other_batch) == 1 < max(batch, other_batch)


def _lie_in_last_axis(values: Mapping[str, str]) -> bool:
    """Whether the shape `a` of a batch of images has the expected channels `c` in its last axis, not in the second."""
    shape, channels = re.findall(r"\d+", values.get("a", "")), values.get("c")
    return len(shape) > 3 and shape[-1] == channels != shape[1]


def _is_vector_of_other_axis(values: Mapping[str, str]) -> bool:
    """Whether one of the shapes `a` and `b` has one axis, and its length is that of an earlier axis of the other."""
    vector, other = sorted((re.findall(r"\d+", values.get(name, "")) for name in ("a", "b")), key=len)
    return len(vector) == 1 < len(other) and vector != ["1"] and vector[0] in other[:-1] and vector[0] != other[-1]


def _agree_in_first_axis(values: Mapping[str, str], framework: str) -> bool:
    """Whether the shapes `a` and `b` of one rank differ, but not in the axis of outputs, the first.

    In the weights of a linear layer of PaddlePaddle it is the last.
    """
    one, other = (re.findall(r"\d+", values.get(name, "")) for name in ("a", "b"))
    is_known = len(one) > 2 or framework == "torch"
    return is_known and len(one) == len(other) > 1 and one != other and one[0] == other[0]


def read_label_mark(values: Mapping[str, str]) -> dict[str, str]:
    """`{"label_mark": label}` where the label of a message seems to mark ignored pixels or tokens; else empty."""
    return {"label_mark": values["v"]} if "labels_marked" in _label_conditions({"v": values.get("v", "")}) else {}


def _label_conditions(values: Mapping[str, str]) -> set[str]:
    low, high, classes, met = (_parse_int(values.get(name)) for name in ("label_low", "label_high", "classes", "v"))
    marked = (low is not None and low < 0) or MARK in (high, met) or (met is not None and met < 0)
    if marked and (classes is None or classes <= MARK):
        return {"labels_marked"}
    if classes is None or high is None or high < classes:
        return set()
    return {"labels_from_zero"} if low == 0 else {"labels_from_one"} if low == 1 and high == classes else set()


def _parse_int(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\s*[+-]?\d+\s*", text) else None


def parse_bytes(text: str) -> float | None:
    """A size as frameworks print it ("2.50 GiB", "512 MB", "1048576"), in bytes; `None` when it is none."""
    found = _SIZE.search(text)
    if found is None:
        return None
    unit = (found.group(2) or "b").lower().replace("ib", "b")
    return float(found.group(1).replace(",", "")) * _UNITS[unit]
