"""Converts an imported run to a `Run`, redacted, and chooses its id."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labbook.imports.imported_run import ImportedRun
from labbook.imports.logged_content import Picture
from labbook.model.downsampling import downsample
from labbook.model.run import Arguments, ProbeReport, Run
from labbook.model.series import Series
from labbook.probe.redaction.redactor import Redactor

SERIES_POINTS = 2000
"""Points of a series that the checks see and the files have; as for recorded runs."""

_ALPHABET = "23456789abcdefghijkmnpqrstuvwxyz"
_YEAR_10000 = 253_402_300_800
"""Unix time from which Python has no dates."""
_TAIL = 12
"""Characters of the part of an id that the identity of a run gives: 60 bits."""


def id_tail(imported: ImportedRun, repeat: int = 0) -> str:
    """Returns the part of an id that represents the run of the tool.

    Args:
        repeat: Number of runs of the same identity before it in one import.
    """
    text = f"{imported.tool}\0{imported.identity}\0{repeat or ''}"
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big")
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in range(_TAIL))


def new_id(imported: ImportedRun, tail: str) -> str:
    """Returns the id of a run that was not imported before."""
    try:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(imported.started))
    except (ValueError, OverflowError, OSError):
        stamp = ""
    return f"{stamp if re.fullmatch('[0-9]{8}-[0-9]{6}', stamp) else '19700101-000000'}-{tail}"


def picture_names(pictures: tuple[Picture, ...]) -> list[str]:
    """Returns a file name for each picture, without the characters of its tag that file names lack."""
    return [
        f"image-{number:02d}-{_slug(picture.tag)}{picture.step}{picture.suffix}"
        for number, picture in enumerate(pictures)
    ]


def _slug(tag: str) -> str:
    plain = re.sub("[^A-Za-z0-9]+", "-", tag)[:40].strip("-")
    return f"{plain}-" if plain else ""


def to_run(imported: ImportedRun, run_id: str, experiment: str, redactor: Redactor) -> Run:
    """Returns the run of an entry: all texts redacted, long series downsampled."""
    params: dict[str, Any] = redactor.data(_json_value(imported.params))

    def clean(text: str) -> str:
        return str(redactor.text(_printable(text)))

    name = clean(imported.name) or imported.tool
    names = picture_names(imported.pictures)
    source = {
        "tool": imported.tool,
        # Links are kept as people know them.
        "path": clean(os.path.abspath(imported.path)),  # noqa: PTH100
        "run": name,
        "digest": imported.digest(),
        "description": clean(imported.description),
        "texts": [{"tag": clean(text.tag), "step": text.step, "text": clean(text.text)} for text in imported.texts],
        "pictures": [
            {"tag": clean(picture.tag), "step": picture.step, "file": file}
            | ({"caption": clean(picture.caption)} if picture.caption else {})
            for picture, file in zip(imported.pictures, names, strict=True)
        ],
    }
    started = imported.started if 0 <= imported.started < _YEAR_10000 else 0.0
    ended = started if imported.ended is None else max(started, min(imported.ended, _YEAR_10000))
    return Run(
        id=run_id,
        status=imported.status,
        argv=tuple(redactor.text(word) for word in imported.argv),
        cwd="",
        started=started,
        ended=ended,
        exit_code=imported.exit_code,
        experiment=experiment,
        script=clean(imported.script),
        host=imported.host,
        author=imported.author,
        arguments=(Arguments(imported.tool, "", params),) if params else (),
        series=tuple(downsample(each, SERIES_POINTS) for each in imported.series),
        probe=ProbeReport("imported", unobserved=imported.unobserved),
        tags=tuple(map(clean, imported.tags)),
        imported_from=source,
    )


def join_series(found: tuple[Series, ...], stored: Sequence[Series]) -> tuple[Series, ...]:
    """Returns series with the points that only the stored ones have; `found` if the two differ at a step.

    An earlier checkpoint, or a log of which the begin is gone, lacks points. A run that was restarted has other values.
    """
    joined = {each.name: each for each in found}
    for old in stored:
        new = joined.get(old.name)
        if new is None:
            joined[old.name] = old
            continue
        known: dict[int, set[str]] = {}
        for step, value in zip(new.steps, new.values, strict=True):
            known.setdefault(step, set()).add(repr(value))
        points = zip(old.steps, old.values, strict=True)
        if any(step in known and repr(value) not in known[step] for step, value in points):
            return found
        if more := [at for at, step in enumerate(old.steps) if step not in known]:
            joined[old.name] = _add_points(new, old, more)
    return tuple(joined.values())


def _add_points(new: Series, old: Series, places: list[int]) -> Series:
    """Returns a series with some points of another one."""
    rows = list(zip(new.steps, new.values, new.low, new.high, strict=True))
    rows += [(old.steps[at], old.values[at], old.low[at], old.high[at]) for at in places]
    steps, values, low, high = zip(*sorted(rows, key=lambda row: row[0]), strict=True)
    count, nonfinite = max(old.count, len(rows)), max(old.nonfinite, new.nonfinite)
    return replace(new, steps=steps, values=values, low=low, high=high, count=count, nonfinite=nonfinite)


def _printable(text: str) -> str:
    """Returns a text without lone surrogates, which names that are not UTF-8 have, and without control characters."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c for c in clean if c >= " " or c in "\n\t")


def _json_value(value: Any) -> Any:  # noqa: ANN401 - any of the tool's values
    if isinstance(value, dict):
        return {_printable(str(key)): _json_value(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(part) for part in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _printable(str(value))
