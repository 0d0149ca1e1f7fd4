"""A query that cannot be answered as it is: the message and the advice, for each language."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from labbook.errors import UsageError
from labbook.model.message import Message, message
from labbook.store.sentences import Sentences

_SHOWN = 40
_ALIKE = 0.6


class QueryError(UsageError):
    """A query with an unknown name or value.

    Args:
        said: What is wrong.
        advice: What to write instead.
    """

    def __init__(self, said: Message, advice: Message | None = None) -> None:
        self.said, self.advice = said, advice
        say = Sentences("en")
        super().__init__(say(said), hint=say(advice))


@contextlib.contextmanager
def query_language(language: str) -> Iterator[None]:
    """Raises the query errors of a block in a language.

    Raises:
        UsageError: The query has an unknown name or value.
    """
    try:
        yield
    except QueryError as error:
        say = Sentences(language)
        error.message, error.hint = say(error.said), say(error.advice)
        raise


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Returns the known names that are written like a name, the nearest first."""
    by_lower = {one.lower(): one for one in known}
    return [by_lower[low] for low in get_close_matches(name.lower(), by_lower, n=most, cutoff=_ALIKE)]


def unknown(key: str, name: str, known: Iterable[str], write: Callable[[str], str] = str, **values: str) -> QueryError:
    """Returns the error for an unknown name or value, with the nearest one and a list of the known ones.

    Args:
        key: Key of the message.
        name: What is unknown.
        known: What is known, the most important first.
        write: Formats a known name for a query.
        **values: More values of the message.
    """
    names = list(dict.fromkeys(known))
    listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    near = [write(one) for one in nearest(name, names)]
    parts = [message("terminal.query.near", names=near)] if near else []
    parts += [message("terminal.query.known", known=listed)] if listed else []
    return QueryError(message(key, name=name, **values), message("terminal.query.advice", parts=parts))
