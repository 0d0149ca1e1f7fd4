"""A query that cannot be answered as it is, with the nearest known names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from labbook.errors import UsageError
from labbook.model.message import message
from labbook.model.run_fields import as_number

_SHOWN = 40
_ALIKE = 0.6


class QueryError(UsageError):
    """A query with an unknown name or value."""


def nearest_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Returns the known names that are written like a name, the nearest first; none for a number."""
    if as_number(name) is not None:
        return []
    by_lower = {one.lower(): one for one in known}
    return [by_lower[low] for low in get_close_matches(name.lower(), by_lower, n=most, cutoff=_ALIKE)]


def unknown(
    key: str, name: str, known: Iterable[str], write: Callable[[str], str] = str, *, field: str = ""
) -> QueryError:
    """Returns the error for an unknown name or value, with the nearest one and a list of the known ones.

    Args:
        known: What is known, the most important first.
        write: Formats a known name for a query.
        field: The field that has no such value, if it is a value.
    """
    names = list(dict.fromkeys(known))
    listed = names[:_SHOWN] + ["..."] * (len(names) > _SHOWN)
    near = [write(one) for one in nearest_names(name, names)]
    parts = [message("terminal.query.near", names=near)] if near else []
    parts += [message("terminal.query.known", known=listed)] if listed else []
    return QueryError(key, name=name, parts=parts, field=field, advice="terminal.query.advice")
