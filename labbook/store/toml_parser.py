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
