"""Reads the TOML files of this package that hold patterns as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labbook.store.toml_parser import parse_toml


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file of labbook itself."""
    return parse_toml(path.read_text(encoding="utf-8"))


def join_patterns(table: Mapping[str, Any]) -> str:
    """A choice of regular expressions as one: `before`, the `items`, `after`; `before` and `after` are optional."""
    return f"{table.get('before', '(?:')}{'|'.join(table['items'])}{table.get('after', ')')}"


def compile_patterns(path: Path) -> dict[str, re.Pattern[str]]:
    """The compiled tables of a file, by name.

    Args:
        path: Of tables as `join_patterns` reads them; `flags` may hold i, m and s as in "(?ims)".
    """
    flags = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
    return {
        name: re.compile(join_patterns(table), sum(flags[one] for one in table.get("flags", "")))
        for name, table in read_toml(path).items()
    }
