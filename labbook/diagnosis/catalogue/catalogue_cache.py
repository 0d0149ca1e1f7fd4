"""Caches the built-in catalogue as one file in the user's cache folder.

Reading 290 pages of YAML and Markdown takes a quarter of a second at the end of a failed run, reading the cache a tenth
of that. It is written again when a page changes, and everything works without it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from labbook import __version__
from labbook.model.symptom import Pattern, Symptom, Wording
from labbook.store.journal import write_atomically

Part = TypeVar("Part", Wording, Pattern)

_FORM = 8
"""Version of the file format; a file of another version is ignored."""
_NAMES: Mapping[type, Sequence[str]] = {kind: [field.name for field in fields(kind)] for kind in (Wording, Pattern)}
_UNKEPT = ("matches", "misses")
"""Examples are for tests and for readers of the page."""


def compute_stamp(pages: Iterable[Path]) -> list[Any]:
    """Identifies a set of pages: names, sizes and times, and the version of labbook."""
    seen = [(path.name, (status := path.stat()).st_size, status.st_mtime_ns) for path in sorted(pages)]
    return [_FORM, __version__, *map(list, seen)]


def read_cache(stamp: Sequence[Any]) -> tuple[list[Symptom], list[str]] | None:
    """The cached symptoms and problems of a stamp, or `None`."""
    try:
        data = json.loads(_file().read_text(encoding="utf-8"))
        if data["stamp"] != list(stamp):
            return None
        return [_symptom(one) for one in data["symptoms"]], list(data["problems"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_cache(stamp: Sequence[Any], symptoms: Iterable[Symptom], problems: Sequence[str]) -> None:
    """Caches symptoms and problems under a stamp; does nothing where the folder cannot be written."""
    data = {"stamp": list(stamp), "symptoms": [_data(symptom) for symptom in symptoms], "problems": list(problems)}
    file = _file()
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(file, json.dumps(data, ensure_ascii=False).encode(), durable=False)


def _file() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with contextlib.suppress(RuntimeError):
        folder = folder.expanduser()
    return folder / "labbook" / "symptoms.json"


def _data(symptom: Symptom) -> dict[str, Any]:
    data: dict[str, Any] = {f.name: getattr(symptom, f.name) for f in fields(symptom) if f.name not in _UNKEPT}
    data["wording"] = {language: list(vars(wording).values()) for language, wording in symptom.wording.items()}
    data["patterns"] = [list(vars(pattern).values()) for pattern in symptom.patterns]
    return data


def _symptom(data: Mapping[str, Any]) -> Symptom:
    plain: dict[str, Any] = {key: _load_part(value) for key, value in data.items()}
    plain["wording"] = {language: _build_part(Wording, values) for language, values in data["wording"].items()}
    plain["patterns"] = tuple(_build_part(Pattern, values) for values in data["patterns"])
    plain["when"] = {condition: tuple(map(tuple, pair)) for condition, pair in data["when"].items()}
    return Symptom(**plain)


def _build_part(kind: type[Part], values: Sequence[Any]) -> Part:
    """A wording or a pattern. There are thousands; the constructor of a frozen class takes five times as long."""
    made = kind.__new__(kind)
    made.__dict__.update(zip(_NAMES[kind], map(_load_part, values), strict=True))
    return made


def _load_part(value: Any) -> Any:  # noqa: ANN401 - JSON data
    return tuple(value) if isinstance(value, list) else value
