"""Reads the TOML files of this package that hold patterns as data."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file of labbook itself."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return content


def join_patterns(table: Mapping[str, Any]) -> str:
    """A choice of regular expressions as one: `before`, the `items`, `after`; `before` and `after` are optional."""
    return f"{table.get('before', '(?:')}{'|'.join(table['items'])}{table.get('after', ')')}"


def compile_patterns(path: Path) -> dict[str, re.Pattern[str]]:
    """The compiled tables of a file, by name.

    Args:
        path: Of tables as `join_patterns` reads them; `flags` may hold i (ignore case) and m (multiline).
    """
    flags = {"i": re.IGNORECASE, "m": re.MULTILINE}
    return {
        name: re.compile(join_patterns(table), sum(flags[one] for one in table.get("flags", "")))
        for name, table in read_toml(path).items()
    }
