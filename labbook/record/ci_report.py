"""Reports a failed, unhealthy or hanging run to GitHub Actions (annotation, job summary) and GitLab (Code Quality).

Everything comes from the finished entry, which is masked. Nothing is written to standard output, and nothing raises: a
report that cannot be written changes neither the run nor its exit status.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.model.verdict import STANDSTILL
from labbook.record.end_summary import FinishedRun
from labbook.store.journal import write_atomically

if TYPE_CHECKING:
    from labbook.model.finding import Finding
    from labbook.store.config import Config

_SECTIONS = ("title", "diagnosis", "exception")
"""Blocks of the entry that the job summary shows."""

_MOST_SUMMARY = 64 * 1024
"""Most bytes of one run in a job summary. Source: chosen by us; GitHub allows 1 MiB for all of a step."""

_MOST_MESSAGE = 4000
"""Most characters of an annotation. Source: chosen by us; GitHub cuts messages of 64 KB."""

_ENV_ISSUES = "LABBOOK_CODE_QUALITY_FILE"
"""Names the Code Quality report. No setting: a cloned notebook must not choose a file that is written."""

_MOST_ISSUES = 1000
_RELATIVE_LINK = re.compile(r"\[((?:[^\]\\]|\\.)*)\]\((?![a-z]+:)[^)]*\)")


def report_to_ci(finished: FinishedRun, config: Config, environ: Mapping[str, str], *, quiet: bool = False) -> None:
    """Reports a failed or unhealthy run to the CI service in which labbook runs, if any. Never raises.

    So is one that made no progress when the service stopped it.

    Args:
        finished: The run, with its entry on disk.
        environ: The environment, which names the CI service.
    """
    run = finished.run
    is_bad = run.verdict in ("failed", "unhealthy") or any(one.symptom == STANDSTILL for one in run.findings)
    if not is_bad or finished.commit.status == "withheld":
        return
    if config.ci_report and environ.get("GITHUB_ACTIONS") == "true":
        if not quiet:
            with suppress(Exception):
                print(annotation(finished, environ.get("GITHUB_WORKSPACE", "")), file=sys.stderr, flush=True)
        with suppress(Exception):
            _append_summary(environ.get("GITHUB_STEP_SUMMARY", ""), finished)
    issues = environ.get(_ENV_ISSUES, "")
    if config.ci_report and issues:
        with suppress(Exception):
            _add_issue(Path(issues), finished, environ.get("CI_PROJECT_DIR", ""))


def annotation(finished: FinishedRun, workspace: str) -> str:
    """Returns the workflow command of GitHub Actions that shows the run at its line of code.

    Args:
        workspace: Top folder of the checkout; paths are relative to it.

    Source: docs.github.com, "Workflow commands for GitHub Actions"; `actions/toolkit`, `command.ts`, for the escapes.
    """
    title, *details = _lines(finished)
    place = _place(finished, workspace)
    properties = {"file": place[0], "line": str(place[1])} if place is not None else {}
    properties["title"] = title
    level = "error" if finished.run.verdict == "failed" else "warning"
    given = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    message = "\n".join([*(line.strip() for line in details), finished.shown_path])[:_MOST_MESSAGE]
    return f"::{level} {given}::{_escape(message)}"


def _lines(finished: FinishedRun) -> list[str]:
    """Returns title, evidence, cause and fix as in the summary on the terminal."""
    from labbook.report.entry.diagnosis_section import diagnosis_lines
    from labbook.report.entry.title import verdict_line

    run = finished.run
    lines = diagnosis_lines(run, finished.language, run.cwd)
    return lines if run.findings else [verdict_line(run, finished.language), *lines]


def _place(finished: FinishedRun, top: str) -> tuple[str, int] | None:
    """Returns path, relative to the top folder, and line of the primary finding, without one those of the exception.

    `None` outside of the folder.
    """
    from labbook.report.ending_exception import ending_exception, user_frame

    primary, raised = _primary(finished), ending_exception(finished.run)
    frame = user_frame(raised) if raised is not None else None
    where: Mapping[str, Any] = {"file": frame.file, "line": frame.line} if frame is not None else {}
    where = primary.where if primary is not None else where
    file = str(where.get("file") or "")
    if not file or file.startswith(("<", "In[")):  # `<string>`, a cell of a notebook
        return None
    path = Path(os.path.normpath(Path(finished.run.cwd).expanduser() / Path(file).expanduser()))
    root = Path(top) if top else Path.cwd()
    for folder in dict.fromkeys((root, root.resolve())):
        for candidate in (path, path.resolve()):
            if candidate.is_relative_to(folder):
                return candidate.relative_to(folder).as_posix(), int(where.get("line") or 1)
    return None


def _primary(finished: FinishedRun) -> Finding | None:
    return next(iter(finished.run.findings), None)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _append_summary(path: str, finished: FinishedRun) -> None:
    """Appends title, diagnosis and exception of the entry to the job summary."""
    from labbook.store.text.entry_text import read_text, split_parts

    if not path:
        return
    parts = {part.name: part.text for part in split_parts(read_text(finished.entry))}
    blocks = [re.sub(r"(?m)^<!-- labbook:.*-->\n?", "", parts[name]).strip() for name in _SECTIONS if name in parts]
    # The links lead to files of the notebook; headings are one level lower, below the job's own.
    text = re.sub(r"(?m)^(#{1,5} )", r"#\1", _RELATIVE_LINK.sub(r"\1", "\n\n".join(blocks)))
    data = text.encode("utf-8", "replace")[:_MOST_SUMMARY].decode("utf-8", "ignore")
    fences = len(re.findall(r"(?m)^```", data))
    data += "\n```" if fences % 2 else ""
    with Path(path).open("a", encoding="utf-8") as stream:
        stream.write(f"{data}\n\n`{finished.shown_path}`\n\n")


def _add_issue(path: Path, finished: FinishedRun, top: str) -> None:
    """Adds the run to a report in the format of Code Climate that GitLab reads; a damaged file is begun anew."""
    issues: list[Any] = []
    with suppress(OSError, ValueError):
        before = json.loads(path.read_bytes())
        issues = [issue for issue in before if isinstance(issue, dict)] if isinstance(before, list) else []
    primary = _primary(finished)
    title, *details = _lines(finished)
    file, line = _place(finished, top) or (finished.shown_path, 1)
    name = (primary.symptom or primary.family) if primary is not None else finished.run.status
    issue = {
        "description": "\n".join([title, *(detail.strip() for detail in details)])[:_MOST_MESSAGE],
        "check_name": name,
        "fingerprint": hashlib.sha256(f"{name}\0{file}\0{line}".encode()).hexdigest(),
        "severity": "critical" if finished.run.verdict == "failed" else "major",
        "location": {"path": file, "lines": {"begin": max(1, line)}},
    }
    others = [old for old in issues if old.get("fingerprint") != issue["fingerprint"]]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps([*others, issue][-_MOST_ISSUES:], indent=1).encode(), durable=False)
