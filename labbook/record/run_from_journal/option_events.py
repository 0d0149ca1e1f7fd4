"""Reads the options of a run: what its parsers returned and what its variables held, each fact once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labbook.model.events import process_kinds
from labbook.model.run import Arguments
from labbook.store.journal import ProcessEvents, events_of_kind

_VARIABLES = ("dict", "constants", "attributes")
"""Sources that are plain variables of the program, not parsers."""
_LOOSE = ("constants", "attributes")
"""Those of which each value is judged alone."""
OF_EACH_TRAINING = ("skorch", "lightning", "transformers")
"""Sources that give the settings of each training, as of each candidate of a search."""


def read_options(processes: Sequence[ProcessEvents]) -> tuple[Arguments, ...]:
    """Returns the options of all parsers: what was parsed before plain variables, constants last.

    A plain variable that holds just what a parser returned, as `args = vars(parser.parse_args())`, or a part of another
    one, as `optimizer = config["optimizer"]`, is left out. If it has all names of a parser and half of the values, its
    values are those that the program trained with, as in `args.lr = args.lr or 0.1`.
    """
    found: list[Arguments] = []
    for event in events_of_kind(processes, process_kinds.Arguments):
        if event.get("values"):
            unchanged = tuple(event.get("unchanged", ()))
            parsed = Arguments(event.get("source", ""), event.get("name", ""), event["values"], unchanged)
            if not any(a.source == parsed.source and a.values == parsed.values for a in found):
                found.append(parsed)
    found = _as_run(_without_variables(found))
    found = [a for a in found if not any(_wraps_command(a, b) for b in found)]
    kept = [a for a in found if not any(_is_part_of(a, b) for b in found if b is not a)]
    # A program parses twice when a first parser only finds the configuration file.
    kept = [
        a
        for n, a in enumerate(kept)
        if not any(_includes_options(b, a, is_later=m > n) for m, b in enumerate(kept) if m != n)
    ]
    return tuple(sorted(kept, key=lambda a: _VARIABLES.index(a.source) + 1 if a.source in _VARIABLES else 0))


def _without_variables(found: Sequence[Arguments]) -> list[Arguments]:
    """Returns options without those variables of a script or an object that are no constants of their own.

    They had several values, as `lr` in `for lr in (0.1, 0.01):` or in the candidates of a search, or are copies of
    options, as `lr = args.lr`.
    """
    judged = (*_LOOSE, *OF_EACH_TRAINING)
    constants = [a for a in found if a.source in judged]
    options = [a.values for a in found if a.source not in _LOOSE]

    def is_constant(of: Arguments, name: str) -> bool:
        value = of.values[name]
        alike = (a for a in constants if (a.source, a.name) == (of.source, of.name))
        changed = any(a.values.get(name, value) != value for a in alike)
        known = [values[name] for values in options if name in values]
        is_copy = of.source in _LOOSE and (value in known or (bool(known) and len(name) == 1))  # another `n`: a helper
        return not changed and not is_copy

    rows = [
        replace(a, values={name: value for name, value in a.values.items() if is_constant(a, name)})
        if a.source in judged
        else a
        for a in found
    ]
    return [a for a in rows if a.values]


def _wraps_command(whole: Arguments, parsed: Arguments) -> bool:
    """Whether a parser returned the options of its sub-command, which has returned them too, under its name."""
    return whole.source == parsed.source not in _VARIABLES and parsed.values in whole.values.values()


def _is_part_of(one: Arguments, other: Arguments) -> bool:
    """Whether options are those of another parser, or a part of other ones."""
    whole = one.source in _VARIABLES and other.source not in _VARIABLES
    return one.values in _parts(other.values, whole=whole)


def _includes_options(other: Arguments, parsed: Arguments, is_later: bool) -> bool:
    """Whether all options of a parser have the same values in another one of its kind, of two alike the later one.

    The same parser that parses again, with the defaults of a file that the first result named, has the values in use.
    """
    if other.source != parsed.source or not other.values.keys() >= parsed.values.keys():
        return False
    if is_later and other.name == parsed.name and other.source not in _VARIABLES:
        return True
    same = other.values.items() >= parsed.values.items()
    return same and (is_later or len(other.values) > len(parsed.values))


def _as_run(found: Sequence[Arguments]) -> list[Arguments]:
    """Returns parsed options with the values of a variable that has all their names; it keeps what else it has.

    A variable that holds the result of a parser says nothing about that of another one.
    """
    variables = [a for a in found if a.source in _VARIABLES]
    results = [a.values for a in found if a.source not in _VARIABLES]
    changed_later = [a for a in variables if a.values not in results]
    rows: list[Arguments] = []
    used: set[tuple[int, str]] = set()
    for parsed in (a for a in found if a.source not in _VARIABLES):
        later = next((v for v in changed_later if _is_made_of(v.values, parsed.values)), None)
        if later is None:
            rows.append(parsed)
            continue
        changed = {name for name, value in parsed.values.items() if later.values[name] != value}
        unchanged = tuple(name for name in parsed.unchanged if name not in changed)
        rows.append(replace(parsed, values={name: later.values[name] for name in parsed.values}, unchanged=unchanged))
        used |= {(id(later), name) for name in parsed.values}
    rest = [replace(v, values={n: value for n, value in v.values.items() if (id(v), n) not in used}) for v in variables]
    return [*rows, *(v for v in rest if v.values)]


def _is_made_of(values: Mapping[str, Any], parsed: Mapping[str, Any]) -> bool:
    """Whether a variable has all names of a parser, and the values of at least half of them."""
    same = sum(name in values and values[name] == value for name, value in parsed.items())
    return parsed.keys() <= values.keys() and 2 * same >= len(parsed)


def _parts(values: Mapping[str, Any], *, whole: bool) -> list[Mapping[str, Any]]:
    """Returns the groups in nested values, and with `whole` the values themselves."""
    parts = [part for value in values.values() if isinstance(value, Mapping) for part in _parts(value, whole=True)]
    return [values, *parts] if whole else parts
