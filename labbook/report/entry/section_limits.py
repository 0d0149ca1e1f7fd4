"""Limits of each section, so that an entry stays readable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labbook.frozen import dataclass

MAX_ENTRY_BYTES = 64 * 1024
"""Source: chosen by us; git hosts render a page of this size without delay."""


@dataclass(frozen=True)
class Limits:
    """Limits of an entry.

    Args:
        console_lines: Last lines of the output.
        console_head: First lines of the output, if lines in between are left out.
        console_bytes: Text of the console section.
        cell: Characters of a cell.
        config_bytes: Text of all configuration files together.
        frames: Frames of a traceback.
        message: Characters of an exception's message.
        text: Characters of any other text.
    """

    console_lines: int = 60
    console_head: int = 10
    console_bytes: int = 12_000
    rows: int = 40
    cell: int = 160
    config_bytes: int = 8_000
    frames: int = 40
    message: int = 2_000
    text: int = 4_000


def steps() -> list[Limits]:
    """Returns limits from generous to narrow; the console is shortened first, then the tables.

    With the last ones, any entry stays under `MAX_ENTRY_BYTES`. Source: escaping makes a cell of punctuation 6 times as
    long; 12 tables of 6 rows with 4 cells of 20 characters stay under 35 KiB.
    """
    full = Limits()
    short = replace(full, console_lines=30, console_head=3, console_bytes=5_000, config_bytes=4_000, text=1_000)
    tight = replace(
        short, console_lines=15, console_head=0, console_bytes=2_000, rows=20, config_bytes=2_000, frames=20, text=500
    )
    small = replace(tight, console_bytes=1_000, rows=12, cell=60, config_bytes=0, frames=10, message=500, text=300)
    least = replace(small, console_bytes=500, rows=6, cell=20, frames=4, message=100, text=60)
    return [full, short, tight, small, least]


def shorten_middle(text: str, limit: int) -> str:
    """Returns `text`, shortened in the middle to at most `limit` characters."""
    if len(text) <= limit:
        return text
    keep = max(2, limit - 5)
    return f"{text[: keep - keep // 3]} ... {text[-(keep // 3) :]}" if keep >= 12 else text[:keep] + "..."


_BOUNDED_ELSEWHERE = frozenset({"last", "head", "trouble", "text", "traceback", "command"})
"""Keys of code blocks, which have their own limits."""


def bounded(data: Any, limits: Limits, key: str = "") -> Any:  # noqa: ANN401 - plain data of a page
    """Returns the data of a page with texts cut to `limits.text` and lists to a few more than `limits.rows`."""
    if isinstance(data, str):
        return shorten_middle(data, limits.text if key not in _BOUNDED_ELSEWHERE else max(12_000, limits.console_bytes))
    if isinstance(data, Mapping):
        return {name: bounded(value, limits, str(name)) for name, value in data.items()}
    if isinstance(data, list):
        return [bounded(value, limits, key) for value in data[: limits.rows + 20]]
    return data
