"""Looks, when a run has ended well, for a failure that it may have cured. Nothing is asserted: somebody confirms it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labbook.errors import EntryError, LabbookError
from labbook.model.fix import Proposal
from labbook.model.run import Change, Run
from labbook.store import frontmatter
from labbook.store.entry_text import read_text, to_bytes, with_block
from labbook.store.journal import write_atomically
from labbook.store.paths import NotebookPaths, is_run_id

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor
    from labbook.store.notebook import Notebook

LOOK_BACK = 20
"""How many interrupted runs in a row are passed over to find the failure before them. Source: chosen by us."""

BEHIND = ("title", "diagnosis", "exception")
"""Blocks that the section of a fix stands behind."""

_PASSED_OVER = ("interrupted", "lost", "running")


def propose(notebook: Notebook, run: Run) -> Proposal | None:
    """The proposal of a run, written into its entry; `None` where there is none. Never raises: a run comes first."""
    try:
        proposal = find_proposal(notebook, run)
        if proposal is not None:
            note_proposal(notebook, proposal)
    except Exception:
        # Facts of older runs may have any shape, and so may a damaged index; nothing of this run hangs on them, and
        # `labbook fix` looks again and says what is in its way.
        return None
    return proposal


def find_proposal(notebook: Notebook, run: Run) -> Proposal | None:
    """The failure that a run which has just ended does not show any more, and where the two runs differ.

    It is looked for in the run of the same script before this one, else in the newest of its experiment. A run that
    was interrupted is passed over; one that ended well, and in which nothing was found, ends the search.

    Args:
        notebook: Where to look.
        run: The run, judged.

    Returns:
        `None` where there is no such failure, it has another fix, this run was rejected as one, or no difference is
        known. `confirmed` where this run is its fix already.
    """
    if run.status != "finished":
        return None
    name = run.previous or _newest_of_experiment(notebook, run)
    for _ in range(LOOK_BACK):
        meta = read_front_matter(notebook.paths, name)
        if meta is None:
            return None
        if meta.get("status") in _PASSED_OVER:
            name = str(meta.get("previous") or "")
            continue
        fix = str(meta.get("fix") or "")
        if (fix and fix != run.id) or run.id in as_texts(meta, "fix_rejected"):
            return None
        found = compare_failure(notebook, name, run)
        return None if found is None or not found.changes else replace(found, confirmed=fix == run.id)
    return None


def compare_failure(notebook: Notebook, failed_id: str, now: Run) -> Proposal | None:
    """What a failed run showed and a later one does not, with their differences; `None` where nothing is gone."""
    from labbook.fixes.fix_candidates import find_cured, list_failing_files, rank_changes
    from labbook.report.run_data import load_run

    failed = load_run(notebook.paths, failed_id)
    if failed is None or _is_withheld(notebook.paths, failed_id):
        return None
    symptoms, fingerprints = find_cured(failed, now)
    if not symptoms and not fingerprints:
        return None
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue

    known = load_catalogue(notebook.paths.symptoms).symptoms
    changes = rank_changes(differences(notebook, failed, now), symptoms, known, list_failing_files(failed))
    return Proposal(failed.id, now.id, symptoms, fingerprints, changes, by_title=now.title)


def _is_withheld(paths: NotebookPaths, run_id: str) -> bool:
    from labbook.store.commit_queue import withheld_files

    return paths.entry(run_id).relative_to(paths.root).as_posix() in withheld_files(paths)


def differences(notebook: Notebook, failed: Run, now: Run) -> list[Change]:
    """Where two runs differ; those of code with their changed lines, in which secrets are masked."""
    from labbook.compare.run_changes import changes_between, masked_changes
    from labbook.fixes.fix_candidates import HISTORY
    from labbook.model.run_json import run_to_json
    from labbook.store.redact import make_redactor

    redactor = make_redactor(os.environ, (), notebook.redaction_rules())
    if now.previous == failed.id and now.changes:
        changes = list(now.changes)
    else:
        changes = masked_changes(changes_between(run_to_json(failed), run_to_json(now)), redactor)
    files = [change.what for change in changes if change.kind == "code" and change.what not in HISTORY]
    diffs = _diffs(notebook, failed, now, files, redactor) if files else {}
    return [replace(c, detail=diffs[c.what]) if c.kind == "code" and c.what in diffs else c for c in changes]


def _diffs(notebook: Notebook, failed: Run, now: Run, files: Sequence[str], redactor: Redactor) -> Mapping[str, str]:
    from labbook.compare.code_diff import code_between

    facts = [dict(run.captured.get("code") or {}) for run in (failed, now)]
    if any(not one or "unavailable" in one for one in facts):
        return {}
    folders = [notebook.paths.attachments(run.id) for run in (failed, now)]
    diffs = code_between(facts[0], folders[0], facts[1], folders[1], files)
    return {path: redactor.text(diff) for path, diff in diffs.items()}


def note_proposal(notebook: Notebook, proposal: Proposal) -> None:
    """Writes the proposal into the entry of the run that may be the cure; what people wrote in it stays.

    Raises:
        OSError: The entry cannot be written.
    """
    from labbook.report.entry.fix_section import cures_markdown

    path = notebook.paths.entry(proposal.by)
    page = read_text(path)
    before = read_front_matter(notebook.paths, proposal.by) or {}
    # New keys come behind the one that precedes them here.
    meta: dict[str, Any] = {"fix": before.get("fix")}
    if proposal.confirmed:
        meta["cures"] = list(dict.fromkeys([*as_texts(before, "cures"), proposal.failed]))
    else:
        meta["may_cure"] = proposal.failed
    try:
        page = with_section(frontmatter.update(page, meta, path.name), "cures", cures_markdown(notebook, proposal))
    except EntryError:
        return  # its front matter was broken by hand while it was written; the entry itself says so
    write_atomically(path, to_bytes(page))


def with_section(page: str, name: str, content: str) -> str:
    """A page with one block of fixes set, or taken out; none where people left it out with `leave_out:`.

    Raises:
        EntryError: The front matter cannot be read.
    """
    meta, _ = frontmatter.parse(page, "entry")
    return with_block(page, name, "" if name in as_texts(meta, "leave_out") else content, BEHIND)


def read_front_matter(paths: NotebookPaths, run_id: str) -> Mapping[str, Any] | None:
    """Front matter of an entry, `None` where there is none that can be read."""
    if not is_run_id(run_id):
        return None
    try:
        return frontmatter.parse(read_text(paths.entry(run_id)), run_id)[0]
    except (OSError, EntryError):
        return None


def as_texts(meta: Mapping[str, Any], key: str) -> list[str]:
    """The texts of a list in a front matter; a single value is a list of one."""
    value = meta.get(key)
    many = value if isinstance(value, list) else [value] if value else []
    return [str(one) for one in many]


def _newest_of_experiment(notebook: Notebook, run: Run) -> str:
    """The newest run of the same experiment before this one, or ""."""
    if not run.experiment:
        return ""
    from labbook.fixes.fix_history import newest_run

    try:
        return newest_run(notebook, "experiment", run.experiment, before=run.started)
    except LabbookError:
        return ""
