"""Reads the TOML files of this package that hold patterns as data."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from labbook.store.toml_parser import parse_toml

_WORD = re.compile(r"\{([a-z_]+)\}")
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file of labbook itself."""
    return parse_toml(path.read_text(encoding="utf-8"))


def join_patterns(table: Mapping[str, Any]) -> str:
    """A choice of regular expressions as one: `before`, the `items`, `after`; `before` and `after` are optional."""
    return f"{table.get('before', '(?:')}{'|'.join(table['items'])}{table.get('after', ')')}"


def take_words(tables: MutableMapping[str, Any]) -> dict[str, str]:
    """Removes the table `vocabulary` and returns it: word -> regular expression, which may use earlier words."""
    words: dict[str, str] = {}
    for word, value in tables.pop("vocabulary", {}).items():
        words[word] = insert_words(value if isinstance(value, str) else join_patterns(value), words)
    return words


def insert_words(pattern: str, words: Mapping[str, str]) -> str:
    """A pattern with the expression of each `{word}` in its place."""
    return _WORD.sub(lambda found: f"(?:{words[found[1]]})" if found[1] in words else found[0], pattern)


def compile_patterns(module: str, file: str = "") -> dict[str, re.Pattern[str]]:
    """The compiled tables of a file beside a module, by name.

    Args:
        module: `__file__` of the module.
        file: Of tables as `join_patterns` reads them; "" for the one named like the module. `flags` of a table may hold
            i, m, s and x as in "(?imsx)".
    """
    tables = read_toml(Path(module).with_name(file) if file else Path(module).with_suffix(".toml"))
    words = take_words(tables)
    return {
        name: re.compile(insert_words(join_patterns(table), words), sum(_FLAGS[one] for one in table.get("flags", "")))
        for name, table in tables.items()
    }


def fits_any(patterns: Mapping[str, re.Pattern[str]], text: str, *names: str) -> bool:
    """Whether one of these patterns fits somewhere in a text."""
    return any(patterns[name].search(text) for name in names)
