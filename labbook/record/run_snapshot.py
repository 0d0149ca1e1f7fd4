"""Takes the snapshot of a run: by the setting `snapshot` when it ends, or later by `labbook snapshot`."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.errors import NotebookError, UsageError
from labbook.model.events.process_kinds import FileItem
from labbook.model.events.training_kinds import Scalars
from labbook.model.metric_kinds import direction_of
from labbook.model.run import Facts, Run
from labbook.model.run_files import Artifact
from labbook.probe.redaction.redactor import Redactor
from labbook.record.captured_facts import capture_context
from labbook.record.kept_files import file_items
from labbook.store.commit.entry_commit import CommitOutcome
from labbook.store.journal import Journal, ProcessEvents, write_atomically
from labbook.store.notebook import Notebook

_AFTER_S = 0.05
"""A metric that is logged so soon after a checkpoint was written belongs to it."""


def add_snapshot(
    notebook: Notebook, journal: Journal, start: Facts, run: Run, processes: Sequence[ProcessEvents], redactor: Redactor
) -> Run:
    """Keeps the snapshot that the setting asks for; `after.json` stores which, so that a recovery gives the same.

    An error of the file system leaves the entry without it.
    """
    which = notebook.config.snapshot
    if not which or (which == "failed" and run.status != "failed"):
        return run
    from labbook.artifacts.keep_files import FileKeeper, artifact_facts
    from labbook.artifacts.snapshots import keep_snapshot

    after = journal.read(journal.paths.after)
    stored = after.get("snapshot")
    if stored is None:
        keeper = FileKeeper(
            notebook, journal.paths, capture_context(notebook, journal, start, redactor, {}).cwd, redactor
        )
        directed = replace(run, direction=run.direction or direction_of(run.primary))
        try:
            artifacts, facts = keep_snapshot(
                keeper, directed, file_items(processes), which, _value_at(run.primary, processes)
            )
        except (OSError, ValueError):
            return run
        stored = {"files": artifact_facts(artifacts), "facts": facts}
        journal.write(journal.paths.after, {**after, "snapshot": stored}, durable=False)
    return _add_snapshot(run, [Artifact(**one) for one in stored["files"]], stored["facts"])


def _value_at(name: str, processes: Sequence[ProcessEvents]) -> Callable[[float], float | None]:
    """Returns the function that gives the last value of a logged metric at a Unix time."""
    points = sorted(
        (event.get("t", 0.0), value)
        for process in processes
        for event in process.events_of_kind(Scalars)
        if isinstance(value := event.get("values", {}).get(name), (int, float)) and value == value
    )
    times = [time for time, _ in points]

    def value_at(time: float) -> float | None:
        at = bisect_right(times, time + _AFTER_S)
        return float(points[at - 1][1]) if at else None

    return value_at


def _add_snapshot(run: Run, files: Sequence[Artifact], facts: Mapping[str, Any]) -> Run:
    """Returns the run with the files of a snapshot in place of those with the same names."""
    names = {one.name for one in files if one.via == "snapshot"}
    others = [one for one in run.artifacts if one.via != "snapshot" or one.name not in names]
    return replace(run, artifacts=(*others, *files), captured={**run.captured, "snapshot": dict(facts)})


def snapshot_recorded_run(
    notebook: Notebook, data: Mapping[str, Any], which: str, note: str
) -> tuple[Run, CommitOutcome]:
    """Keeps a snapshot of a run that has ended earlier, adds it to its entry and commits that.

    Only checkpoints are kept that are still where the run has written them, and that nobody has changed since.

    Args:
        data: The `run.json`.
        which: "best" or "last".
        note: A sentence for the entry, or "".

    Returns:
        The run, with the snapshot; and the commit.

    Raises:
        UsageError: The note may contain a secret.
        NotebookError: The files or the entry cannot be written.
    """
    from labbook.artifacts.keep_files import FileKeeper
    from labbook.artifacts.snapshots import keep_snapshot
    from labbook.model.run_json import line_by_line, run_from_json, run_to_json
    from labbook.report.entry.entry_page import entry_markdown
    from labbook.store.commit.entry_commit import commit_files
    from labbook.store.recorder_redaction import make_redactor
    from labbook.store.text import entry_text, frontmatter

    redactor = make_redactor(os.environ, (), notebook.redaction_rules())
    if redactor.text(note) != note:
        raise UsageError("errors.snapshot.secret")
    run = run_from_json(data)
    keeper = FileKeeper(notebook, notebook.paths.journal(run.id), Path(run.cwd).expanduser(), redactor)
    directed = replace(run, direction=run.direction or direction_of(run.primary))
    entry, folder = notebook.paths.entry(run.id), notebook.paths.attachments(run.id)
    try:
        files, facts = keep_snapshot(keeper, directed, _written_items(run), which, lambda _: None)
        run = _add_snapshot(run, files, {**facts, "note": note})
        stored = run_to_json(run)
        changed = {**data, "artifacts": stored["artifacts"], "captured": stored["captured"]}
        page = entry_text.read_text(entry)
        made = entry_markdown(run, notebook, None)
        text = next((part.text for part in entry_text.split_parts(made) if part.name == "snapshot"), "")
        inside = "\n".join(text.strip().split("\n")[1:-1])
        page = entry_text.set_block(page, "snapshot", inside, ("files", "code", "environment"))
        page = frontmatter.update(page, {"artifacts": sum(bool(one.digest) for one in run.artifacts)}, run.id)
        write_atomically(folder / "run.json", line_by_line(changed).encode("utf-8"))
        write_atomically(entry, entry_text.to_bytes(page))
    except (OSError, ValueError) as error:
        raise NotebookError("errors.snapshot.not_written", run=run.id, reason=error) from error
    message = f"Snapshot of {run.id}\n\nRun: {run.id}\n"
    return run, commit_files(notebook, [entry, folder / "run.json"], message)


def _written_items(run: Run) -> list[FileItem]:
    """Returns the written files of a run in the form of the probe's events."""
    cwd = Path(run.cwd).expanduser()
    items: list[FileItem] = []
    for use in run.files:
        if use.mode != "read":
            with suppress(RuntimeError):
                path = Path(use.path).expanduser()
                items.append({"path": str(cwd / path), "mode": "w", "folder": use.members > 1})
    return items
