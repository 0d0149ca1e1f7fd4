"""`labbook record train.ipynb`: the command that executes a notebook, and the facts of its cells for the entry."""

from __future__ import annotations

import base64
import html
import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.errors import UsageError
from labbook.model.run import Run
from labbook.store.journal import Journal, write_atomically

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor

RUNNER = "labbook.execute_notebook"
FOLDER = "notebook"
"""Folder below the journal into which the runner writes."""

ENV_FOLDER = "LABBOOK_EXECUTED"
CELLS_FILE = "cells.json"
NOTEBOOK_FILE = "executed.ipynb"

_MOST_BYTES = 100 * 1024 * 1024
_MOST_FACTS = 32 * 1024 * 1024
_MOST_ROWS = 200
_MOST_CELL = 4000
_MOST_TEXT = 256 * 1024
"""Most cells, characters of one and of all of them in `run.json`. Source: the folder of an entry stays under 1 MiB."""

_MOST_SHOWN = 20_000
_MOST_FIGURE = 256 * 1024
_MOST_FIGURES = 20
_FIGURES = {"image/png": ".png", "image/jpeg": ".jpg"}

READABLE = ("text/markdown", "text/latex")
"""Forms of an output that people read, where its plain text is only the name of its class."""

_OBJECT = re.compile(r"<[\w.]+(?: object)?(?: at 0x\w+)?>")
_UNSEEN = re.compile(r"<(style|script)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_CELL_END = re.compile(r"</t[dh]>\s*(?=<t[dh]\b)", re.IGNORECASE)
_LINE_END = re.compile(r"<(?:br|/tr|/p|/div|/li|/h\d|/caption)\b[^>]*>", re.IGNORECASE)

_STATES = ("done", "failed", "running", "not_run")


def as_command(command_line: Sequence[str]) -> tuple[str, ...]:
    """Returns the command that executes a notebook, or `command_line` if it does not begin with one.

    Raises:
        UsageError: The notebook cannot be read, or what executes it is not installed.
    """
    if not command_line or not command_line[0].endswith(".ipynb"):
        return tuple(command_line)
    path = Path(command_line[0])
    if len(command_line) > 1:
        raise UsageError("errors.record.notebook_arguments", words=" ".join(command_line[1:]), path=path)
    missing = [name for name in ("nbclient", "nbformat") if find_spec(name) is None]
    if missing:
        raise UsageError("errors.record.notebook_library", path=path, missing=missing[0])
    _check(path)
    return (sys.executable, "-m", RUNNER, str(path))


def is_notebook_run(argv: Sequence[str]) -> bool:
    """Whether a command is one of `as_command`."""
    return list(argv[1:3]) == ["-m", RUNNER]


def _check(path: Path) -> None:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError("errors.record.notebook_large", path=path)
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError("errors.record.notebook_not_readable", path=path, reason=error) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            "errors.record.not_a_notebook", path=path, reason=error, advice="errors.record.notebook_advice"
        ) from error
    cells = data.get("cells") if isinstance(data, dict) and data.get("nbformat") == 4 else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) and "source" in cell for cell in cells):
        raise UsageError("errors.record.not_format_4", path=path, advice="errors.record.notebook_advice")


def add_cells(run: Run, journal: Journal, folder: Path, redactor: Redactor) -> Run:
    """Returns the run with the facts of its cells; figures and the executed notebook go to the entry's folder.

    Args:
        journal: Journal with what the runner wrote.
        redactor: Masks what became known as secret during the run.
    """
    source = journal.paths.root / FOLDER
    rows: list[dict[str, Any]] = []
    with suppress(OSError, ValueError, RecursionError):
        if (source / CELLS_FILE).stat().st_size <= _MOST_FACTS:
            rows = [_row(row, redactor) for row in json.loads((source / CELLS_FILE).read_bytes())]
    if not rows:
        return run
    folder.mkdir(parents=True, exist_ok=True)
    for name in [name for row in rows for name in row["figures"]]:
        with suppress(OSError):
            write_atomically(folder / name, (source / name).read_bytes(), durable=False)
    facts: dict[str, Any] = {
        "cells": _bounded(rows),
        "total": len(rows),
        "file": "",
        "order": _pairs_out_of_order(rows),
    }
    with suppress(OSError):
        text = (source / NOTEBOOK_FILE).read_text("utf-8", "replace")
        write_atomically(folder / NOTEBOOK_FILE, redactor.text(text).encode(), durable=False)
        facts["file"] = NOTEBOOK_FILE
    return replace(run, captured={**run.captured, "notebook": facts})


def write_cells(folder: Path, rows: Sequence[Mapping[str, Any]], redactor: Redactor) -> None:
    """Writes the rows of the cells, masked, and their figures, for `add_cells`.

    Args:
        folder: Where they are written; it exists.
        rows: One a cell: "cell", "state", "source", "outputs" in the form of nbformat, perhaps "duration_s", "before",
            "count": the number of the execution, as in `In[3]`.

    Raises:
        OSError: The folder cannot be written.
    """
    written: list[dict[str, Any]] = []
    figures = 0
    for row in rows:
        outputs = row.get("outputs") or ()
        names: list[str] = []
        for output in outputs:
            name, data = _figure_of(output, f"cell-{int(row['cell']):03d}-{len(names) + 1}")
            if data and figures < _MOST_FIGURES:
                write_atomically(folder / name, data, durable=False)
                names.append(name)
                figures += 1
        # `<Figure size 640x480 with 1 Axes>` says nothing next to the figure.
        printed = "".join(text_of(output) for output in outputs if not (names and _is_figure(output)))
        texts = {
            "source": redactor.text(str(row["source"])[:_MOST_SHOWN]),
            "output": redactor.text(printed[-_MOST_SHOWN:]),
        }
        written.append({**{key: row[key] for key in row if key != "outputs"}, **texts, "figures": names})
    write_atomically(folder / CELLS_FILE, json.dumps(written).encode("utf-8", "replace"), durable=False)


def printed_by_cells(run: Run) -> str:
    """Returns what the cells of the notebooks printed that a command such as `jupyter nbconvert` has written."""
    if run.facts("command").get("kind") != "notebook":
        return ""
    texts: list[str] = []
    for use in run.files:
        path = Path(run.cwd).expanduser() / Path(use.path).expanduser()
        if use.path.endswith(".ipynb") and use.mode != "read" and use.size_bytes <= _MOST_FACTS:
            with suppress(OSError, ValueError, RecursionError, AttributeError, TypeError):
                outputs = [one for cell in json.loads(path.read_bytes())["cells"] for one in cell.get("outputs", ())]
                texts += [text_of(one) for one in outputs if one.get("output_type") == "stream"]
    return "".join(texts)


def text_of(output: Mapping[str, Any]) -> str:
    """Returns the text of an output, in the form of nbformat."""
    if output.get("output_type") == "stream":
        return _join_text(output.get("text"))
    if output.get("output_type") == "error":
        return f"{output.get('ename')}: {output.get('evalue')}\n"
    data = output.get("data") or {}
    text = _join_text(data.get("text/plain"))
    if _OBJECT.fullmatch(text):
        readable = [_join_text(data.get(kind)) for kind in READABLE]
        text = next(filter(None, [*readable, _text_of_html(_join_text(data.get("text/html")))]), text)
    return text and text.rstrip("\n") + "\n"


def _text_of_html(page: str) -> str:
    """Returns what people read of an HTML output, such as a table: a line for each row; "" if that is nothing."""
    page = _CELL_END.sub("  ", re.sub(r"\s+", " ", _UNSEEN.sub("", page)))
    lines = html.unescape(re.sub(r"<[^>]*>", "", _LINE_END.sub("\n", page))).split("\n")
    return "\n".join(line.strip() for line in lines if line.strip())


def _join_text(text: Any) -> str:  # noqa: ANN401 - text or a list of lines
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")


def _is_figure(output: Mapping[str, Any]) -> bool:
    return not _FIGURES.keys().isdisjoint(output.get("data") or {})


def _figure_of(output: Mapping[str, Any], stem: str) -> tuple[str, bytes]:
    """Returns name and bytes of the figure of an output, or ("", b"")."""
    data = output.get("data") or {}
    for kind, suffix in _FIGURES.items():
        if kind in data:
            with suppress(ValueError):
                content = base64.b64decode(_join_text(data[kind]))
                if 0 < len(content) <= _MOST_FIGURE:
                    return stem + suffix, content
    return "", b""


def _bounded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows for `run.json`: those of failed cells, the last one and the first ones; later texts are cut."""
    failed = [row for row in rows if row["state"] in ("failed", "running")]
    chosen = {row["cell"]: row for row in [*failed[:_MOST_ROWS], rows[-1], *rows[:_MOST_ROWS]]}
    left = _MOST_TEXT
    kept = []
    for row in chosen.values():
        texts = {"source": row["source"][: min(left, _MOST_CELL)], "output": row["output"][-_MOST_CELL:]}
        left = max(0, left - sum(map(len, texts.values())))
        kept.append({**row, **(texts if left else {"source": "", "output": ""})})
    return sorted(kept, key=lambda row: int(row["cell"]))


def _row(row: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    duration, before, count = row.get("duration_s"), row.get("before"), row.get("count")
    return {
        "cell": int(row["cell"]),
        "state": row["state"] if row.get("state") in _STATES else "not_run",
        "duration_s": float(duration) if isinstance(duration, (int, float)) else None,
        "before": before if isinstance(before, int) else None,
        "count": count if isinstance(count, int) else None,
        "source": redactor.text(str(row.get("source") or "")),
        "output": redactor.text(str(row.get("output") or "")),
        "cut": bool(row.get("cut")),
        "figures": [Path(str(name)).name for name in row.get("figures") or ()],
    }


def _pairs_out_of_order(rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Returns up to five pairs of cells in the order in which they had run, if the second is above the first."""
    pairs: list[list[int]] = []
    latest: Mapping[str, Any] | None = None
    for row in rows:
        if row["before"] is None:
            continue
        if latest is not None and row["before"] < latest["before"]:
            pairs.append([row["cell"], latest["cell"]])
        else:
            latest = row
    return pairs[:5]
