"""What is known of a name that a message misses: that a library removed, renamed or added it, or that it is misspelt.

`missing_names.toml` has the messages that say which name is missing, `renamed_names.toml` the names of other versions,
`usual_imports.toml` names that programs use often.
"""

from __future__ import annotations

import builtins
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from pathlib import Path

from labbook.diagnosis.toml_data import compile_patterns, read_toml

RENAMED = "renamed"
"""The condition that a library removed or renamed the name that a message misses."""
ADDED = "added"
"""The condition that the name is newer than some versions of its library."""
MISSPELT = "misspelt"
"""The condition that the name differs by a letter or two from one that exists or is usual."""
_FORMS = compile_patterns(__file__, "missing_names.toml")
_TABLE = Path(__file__).with_suffix(".toml")
_USUAL = Path(__file__).with_name("usual_imports.toml")
_SHORTEST, _ALIKE = 5, 0.87
"""Source: chosen by us: `n_neighbor` and `n_neighbors` are alike, `evaluation_strategy` and `eval_strategy` are not."""
_MOSTLY_LISTED = 20
"""Removed names of a package. Source: chosen by us; torch, NumPy, scikit-learn and TensorFlow have more."""
_SUGGESTED = re.compile(r"Did you mean:? '(\w+)'")
_WITHIN = re.compile(r"\._api\.v2|_bindings\b|\.tensorrt(?=\.)")  # modules that programs do not name
_CALLED = re.compile(r"(\w+)\(")
_OF_FRAMEWORK = re.compile(r"\b(?P<root>paddle|torch)(?:\.\w+)*\.(?P<callee>\w+)\(")
_FRAMEWORKS = {"paddle": "PaddlePaddle", "torch": "PyTorch"}


def find_rename(message: str, source: str = "") -> dict[str, str]:
    """`since` (package and version), `name` and `now` of what a message misses; empty where nothing is known.

    Of a name that is newer than some versions of its library: `needs`, the first version that has it.

    Args:
        source: The line that failed: older messages name `__init__()` only, and the line the class.
    """
    found = _find_missing(message)
    if not found:
        return {}
    owner = _WITHIN.sub("", found["owner"])
    keys = (
        _call_keys(owner, found.get("name") or "*", source)
        if "callee" in found
        else _name_keys(owner, found["name"], is_there=f"module '{owner}' has no attribute" in message)
    )
    table = _load_table()
    key = next((key for key in keys if key in table), "")
    calls = [call for call in _OF_FRAMEWORK.finditer(source) if key.startswith(f"{call['callee']}(")]
    if any(not table[key].get("since", "").startswith(_FRAMEWORKS[call["root"]]) for call in calls):
        return {}  # Of a function of this name in another library.
    # Of `paddle.fluid.core` the module in the middle was removed.
    part = {"name": key.rpartition(": ")[2]} if ": " in key else {}
    return {**table[key], **part} if key else {}


def find_misspelling(message: str, existing: Sequence[str] | None = None) -> dict[str, str]:
    """`missing`, the name that a message misses, and `near`, what it was meant to be; empty where none is so similar.

    Args:
        existing: Names that exist where the program looked for it; `None` if that is not known, then usual names count.
    """
    found = _find_missing(message)
    name = found.get("name", "")
    owner = found.get("owner", "")
    built_in = getattr(builtins, owner, None)
    package = owner.partition(".")[0]
    usual = dir(built_in) if isinstance(built_in, type) else _usual_names(found.get("kind", ""), package)
    if f"module '{owner}'" in message and not is_library(package):
        usual = []  # what its members are called is not known
    if len(name) < _SHORTEST or (existing is None and name in usual):
        return {}
    names = [*_SUGGESTED.findall(message), *(usual if existing is None else existing)]
    letters = [one for one in names if _differs_by_a_letter(name, one)]
    meant = letters or get_close_matches(name, names, n=1, cutoff=_ALIKE)
    return {"missing": name, "near": meant[0]} if meant else {}


def _differs_by_a_letter(name: str, other: str) -> bool:
    """Whether one letter was exchanged, added, left out or moved, or only the case of letters differs."""
    shorter = [{word, *(word[:at] + word[at + 1 :] for at in range(len(word)))} for word in (name, other)]
    return name.casefold() == other.casefold() or not shorter[0].isdisjoint(shorter[1])


@functools.lru_cache(maxsize=1)
def usual_imports() -> Mapping[str, str]:
    """Name -> the line by which programs import it."""
    return {line.split()[-1]: line for line in read_toml(_USUAL)["imports"]}


@functools.lru_cache
def is_library(module: str) -> bool:
    """Whether a module of that name is known to be of a library or of Python."""
    imported = {line.split()[1].partition(".")[0] for line in usual_imports().values()}
    return module in {*imported, *read_toml(_USUAL)["libraries"], *sys.stdlib_module_names}


@functools.lru_cache
def _usual_names(kind: str, package: str) -> list[str]:
    """The names that programs use often where a message of that kind misses one of a package."""
    lists = read_toml(_USUAL)
    names = {"imported": usual_imports(), "attribute": lists["members"]}.get(kind)
    return sorted([*names, *lists.get(package, ())] if names is not None else lists["arguments"])


def find_missing_name(message: str) -> str:
    """The name that a message misses, "" where it misses none."""
    return _find_missing(message).get("name", "")


def _find_missing(message: str) -> dict[str, str]:
    """`kind`, `owner` and `name` of what a message misses, `callee` of an argument; empty where it misses nothing."""
    forms = ((kind, form.search(message)) for kind, form in _FORMS.items())
    return next(({**match.groupdict(""), "kind": kind} for kind, match in forms if match), {})


def _call_keys(callee: str, argument: str, source: str) -> Iterator[str]:
    """The keys of an argument: with the callee as messages name it, and without its class or `__init__`."""
    plain = callee.removesuffix(".__init__")
    callees = _CALLED.findall(source) if plain == "__init__" else (plain, plain.rpartition(".")[2])
    yield from (f"{one}({argument})" for one in callees)


def _name_keys(owner: str, name: str, *, is_there: bool) -> Iterator[str]:
    """The keys of an attribute, class or module, and of the modules that contain it unless they are there."""
    parts = f"{owner}.{name}".split(".")
    last = len(parts) - 1
    yield from (f"{'.'.join(parts[:n])}: {parts[n]}" for n in range(last, last - 1 if is_there else 0, -1))
    yield f"*: {name}"


@functools.lru_cache(maxsize=1)
def _load_table() -> Mapping[str, Mapping[str, str]]:
    return {
        key: {"since": version, "now": now[0]} if now else {"needs": version}
        for package, rows in read_toml(_TABLE).items()
        for row, (number, *now) in rows.items()
        for version in (f"{package} {number}".strip(),)
        for key in _split_row(row)
    }


@functools.lru_cache(maxsize=1)
def listed_packages() -> frozenset[str]:
    """The packages of which so many removed names are listed that another one is hardly a removed one."""
    counts = Counter(key.partition(": ")[0].partition(".")[0] for key in _load_table() if ": " in key)
    return frozenset(package for package, count in counts.items() if count >= _MOSTLY_LISTED)


def _split_row(row: str) -> Iterator[str]:
    """`A: x`, `A: y`, `B: x` and `B: y` of `A|B: x|y`, and in the same way of `f|g(x|y)`."""
    between, end = ("(", ")") if row.endswith(")") else (": ", "")
    owners, _, names = row.removesuffix(end).partition(between)
    yield from (f"{owner}{between}{name}{end}" for owner, name in product(owners.split("|"), names.split("|")))
