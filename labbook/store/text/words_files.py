"""The files of words: texts of a language, as nested tables of TOML, in the folder of the built-in templates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labbook.errors import EntryError
from labbook.store.toml_parser import parse_toml


def builtin_folder() -> Path:
    """Return the folder of the built-in templates, installed or in a checkout."""
    package = Path(__file__).parents[2]
    shipped = package / "_templates"
    return shipped if shipped.is_dir() else package.parent / "templates"


def read_words(path: Path) -> dict[str, Any]:
    """Read a words file.

    Raises:
        EntryError: The file cannot be read or is not TOML; names file and line.
    """
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EntryError(
            "errors.template.not_readable", path=path, reason=error, advice="errors.template.advice"
        ) from error
    except ValueError as error:
        raise EntryError("errors.template.failed", path=path, reason=error, advice="errors.template.advice") from error


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested mappings; values of `above` override the others."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = overlay(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged
