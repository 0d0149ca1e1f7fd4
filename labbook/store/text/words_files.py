"""The files of words: texts of a language, as nested tables of TOML, in the folder of the built-in templates.

In a text, `{name}` is replaced by a value, and `{count:run|runs}` by the first word where the count is 1, else by the
second.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.errors import EntryError
from labbook.store.toml_parser import parse_toml


class WordsFormatter(string.Formatter):
    """Fills the placeholders of a text; those of a notebook's own words cannot read attributes of the values."""

    def format_field(self, value: Any, format_spec: str) -> Any:  # noqa: ANN401 - as the class it extends
        """Return a value as text, or the word that fits a count."""
        one, is_counted, many = format_spec.partition("|")
        if is_counted:
            return one if str(value) == "1" else many
        return super().format_field(value, format_spec)

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Return the value of a placeholder.

        Raises:
            ValueError: The placeholder is more than a name.
        """
        if not field_name.isidentifier():
            raise ValueError(f"{{{field_name}}} is not a name")
        return super().get_field(field_name, args, kwargs)


def fill(sentence: object, **values: object) -> str:
    """Return a text with its values, not escaped for Markdown."""
    return WordsFormatter().vformat(str(sentence), (), values)


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
