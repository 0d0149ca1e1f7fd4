"""An exception while it is parsed from text."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from labbook.diagnosis.text.log_lines import LogLine
from labbook.diagnosis.toml_data import compile_patterns
from labbook.model.evidence import ObservedException
from labbook.model.run import Frame

_RE = compile_patterns(__file__)

MAX_CHAIN = 12
"""Length of a chain, and depth of quotations within quotations."""
_MOST_FRAMES = 200


@dataclass
class ParsedException:
    """An exception while it is parsed.

    Args:
        at: Its first line.
        end: Place of the line after its last one.
        bare: Whether it has no traceback.
    """

    at: LogLine
    end: int = 0
    type: str = ""
    module: str = ""
    message: str = ""
    frames: list[Frame] = field(default_factory=list)
    inner: ParsedException | None = None
    context: list[tuple[ParsedException, str]] = field(default_factory=list)
    thread: str = ""
    ended: bool = True
    bare: bool = False

    def to_observed(self) -> ObservedException:
        """The exception as plain data, quoted exceptions up to a depth of `MAX_CHAIN`."""
        chain = [self]
        while chain[-1].inner is not None and len(chain) < MAX_CHAIN:
            chain.append(chain[-1].inner)
        for outer, inner in itertools.pairwise(chain):
            if not inner.type and not inner.message and _RE["caught"].match(outer.message):
                # The end of the quotation is cut off; the outer exception has the same class.
                inner.type, inner.module = outer.type, outer.module
        made = _only_named(chain[-1])
        for one in reversed(chain):
            made = replace(one._observed_unchained(), inner=made, context=one._context())
        assert made is not None
        return made

    def _context(self) -> tuple[tuple[ObservedException, str], ...]:
        linked = []
        for one, kind in self.context[:MAX_CHAIN]:
            inner = one.inner._observed_unchained() if one.inner is not None else None
            linked.append((replace(one._observed_unchained(), inner=inner), kind))
        return tuple(linked)

    def _observed_unchained(self) -> ObservedException:
        frames = self.frames
        if len(frames) > _MOST_FRAMES:
            frames = frames[: _MOST_FRAMES // 4] + frames[-_MOST_FRAMES * 3 // 4 :]
        when = self.at.time if self.at.time is not None else float(self.at.number)
        kind, message = self.type, self.message.strip("\n").rstrip()
        if not kind and not message and self.inner is None and frames:
            kind, message = _parse_raise(frames[-1].source)
        return ObservedException(
            kind,
            message,
            self.module,
            tuple(frames),
            rank=self.at.rank,
            thread=self.thread,
            order=when,
            ended_process=self.ended,
            line=self.at.number,
        )


def _only_named(one: ParsedException) -> ObservedException | None:
    """The exception of a worker of which only the class is left, or `None`."""
    found = _RE["caught"].match(one.message)
    if found is None or one.inner is not None:
        return None
    return ObservedException(found[1], "", frames=(), rank=one.at.rank, order=float(one.at.number), line=one.at.number)


def _parse_raise(source: str) -> tuple[str, str]:
    """Class and message of the `raise` in the last line of a cut traceback, with ? for inserted values."""
    found = _RE["raises"].match(source)
    if found is None:
        return "", ""
    kind = "AssertionError" if found["asserts"] else found["type"].rpartition(".")[2]
    return kind, _RE["hole"].sub("?", found["text"] or "")


def has_same_start(one: ParsedException, other: ParsedException) -> bool:
    """Whether two tracebacks start in the same function."""
    starts = {(first.file, first.function) for first in (*one.frames[:1], *other.frames[:1])}
    return bool(one.frames and other.frames) and len(starts) == 1


def is_remote(one: ParsedException) -> bool:
    """Whether it only quotes the exception of a pool worker."""
    return one.type.endswith("RemoteTraceback")


def find_operator_error(found: list[ParsedException]) -> ParsedException | None:
    """The exception of Paddle Fluid that names only its operator; its place and its message follow below."""
    for place in (-1, -2):
        if len(found) < -place or not _RE["operator"].match(found[place].message):
            continue
        if place == -2:
            made = found[-1]
            if made.type or made.message:
                return None
            found[-2].frames += made.frames
            found.pop()
        return found[-1]
    return None


def drop_display_failure(one: ParsedException) -> ParsedException:
    """The exception that a notebook failed to display, instead of the one that this failure raised.

    When a program exits within a cell, IPython fails in its own traceback; neither is the cause.
    """
    for _ in range(MAX_CHAIN):
        displayed = bool(one.frames and _RE["display"].search(one.frames[-1].file)) or one.type == "SystemExit"
        if not displayed or not one.context:
            return one
        behind, rest = one.context[0][0], one.context[1:]
        behind.context = [*behind.context, *rest]
        one = behind
    return one


def unwrap_remote(one: ParsedException) -> None:
    """Moves the exception that a pool worker quoted into `inner`, as for other quotations."""
    if one.context and is_remote(one.context[0][0]) and one.inner is None:
        one.inner = one.context[0][0].inner
        one.context = one.context[1:]
