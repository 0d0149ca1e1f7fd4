"""Parses TOML with the standard library, or with tomli on Python 3.10."""

from __future__ import annotations

import sys
from typing import Any


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document to plain data.

    Raises:
        ValueError: The text is not TOML; the message contains the line.
    """
    # Imported here: most commands read no TOML.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    document: dict[str, Any] = tomllib.loads(text)
    return document


def repeated_key(text: str, error: str) -> tuple[str, int, int] | None:
    """Return a key that is set twice in one table, and its lines, if the parser stopped at the second one."""
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("["):
            lines.clear()
        key, equals, _ = line.partition("=")
        if equals and f"line {number}," in error and key.strip() in lines:
            return key.strip(), lines[key.strip()], number
        if equals:
            lines.setdefault(key.strip(), number)
    return None
