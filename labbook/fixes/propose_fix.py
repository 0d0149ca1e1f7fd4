"""Looks for an earlier failure that a finished run may have fixed; a person confirms it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from labbook.errors import EntryError, LabbookError
from labbook.model.confirmed_fix import Proposal, changed_lines, count_changes
from labbook.model.run import Change, Run
from labbook.store.journal import write_atomically
from labbook.store.newest_runs import newest_run_ids
from labbook.store.paths import NotebookPaths, is_run_id
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import read_text, set_block, to_bytes

if TYPE_CHECKING:
    from labbook.fixes.fix_background import Background
    from labbook.model.symptom import Symptom
    from labbook.probe.redaction.redactor import Redactor
    from labbook.store.notebook import Notebook

_LOOK_BACK = 20
"""Maximum interrupted runs in a row that are skipped to find the failure before them. Source: chosen by us."""

_MOST_ATTEMPTS = 3
"""Maximum earlier attempts that are compared with a failed run. Source: chosen by us."""

_MOST_FILES = 12
"""Maximum files of code that are read to find what reaches the failing line. Source: chosen by us."""

_PRECEDING_BLOCKS = ("title", "diagnosis", "exception")
"""Blocks that precede the section of a fix."""

_SKIPPED = ("interrupted", "lost", "running")


def propose_fix(notebook: Notebook, run: Run) -> Proposal | None:
    """Writes the proposal of a run into its entry and returns it, or `None`; never raises."""
    try:
        proposal = find_proposal(notebook, run)
        if proposal is not None:
            write_proposal(notebook, proposal)
    except Exception:
        # Facts of older runs and a damaged index may have any shape; they must not harm this run, and `labbook fix`
        # tries again and reports the error.
        return None
    return proposal


def propose_trial_fix(notebook: Notebook, trials: Sequence[Run]) -> Proposal | None:
    """Writes the proposal of the first trial in a loop that ran well after one that failed; never raises.

    Trials that a study chose have no proposal: all their options differ.
    """
    from labbook.fixes.fix_candidates import is_unhealthy

    for failed, now in pairwise(trials):
        ran_well = now.status == "finished" and not is_unhealthy(now)
        if not ran_well or failed.script != now.script or now.facts("trial").get("goals"):
            continue
        try:
            proposal = find_cured_failure(notebook, failed.id, now)
            if proposal is not None and proposal.changes:
                write_proposal(notebook, proposal)
                return proposal
        except Exception:
            return None  # as in propose_fix
    return None


def find_proposal(notebook: Notebook, run: Run) -> Proposal | None:
    """Returns an earlier failure that a run no longer shows, with the differences, or `None`.

    The failure is searched in the previous run of the same script, or in the newest run of the experiment. Runs that
    were interrupted without a failure are skipped; a finished run without findings ends the search.

    Args:
        run: The run that has ended, with its findings.

    Returns:
        `None` if there is no such failure, it has another fix, this run was rejected as its fix, or no difference is
        known. `confirmed` is true if this run is its fix already.
    """
    if run.status != "finished":
        return None
    name = run.previous or _newest_of_experiment(notebook, run)
    for _ in range(_LOOK_BACK):
        meta = read_front_matter(notebook.paths, name)
        if meta is None:
            return None
        if meta.get("status") in _SKIPPED and not _was_stopped_for_failure(meta):
            name = str(meta.get("previous") or "")
            continue
        fix = str(meta.get("fix") or "")
        if (meta.get("project") or "") != run.project and name != run.previous:
            return None
        if (fix and fix != run.id) or run.id in read_texts(meta, "fix_rejected"):
            return None
        failure = find_cured_failure(notebook, name, run)
        return None if failure is None or not failure.changes else replace(failure, confirmed=fix == run.id)
    return None


def _was_stopped_for_failure(meta: Mapping[str, Any]) -> bool:
    """Whether a run was interrupted in a failure that was found: it hung, or its loss was no number any more."""
    return meta.get("status") == "interrupted" and meta.get("verdict") in ("failed", "unhealthy")


def find_cured_failure(notebook: Notebook, failed_id: str, now: Run) -> Proposal | None:
    """Returns findings of a failed run that are gone in a later run, with the differences, or `None`."""
    from labbook.fixes.fix_candidates import find_cured
    from labbook.report.run_data import load_run

    failed = load_run(notebook.paths, failed_id)
    if failed is None or _is_withheld(notebook.paths, failed_id):
        return None
    cured = find_cured(failed, now, is_after_loop=lambda: _failed_after_loop(notebook, failed))
    if cured is None:
        return None
    symptoms, fingerprints = cured
    return list_candidates(notebook, failed, now, Proposal(failed.id, now.id, symptoms, fingerprints))


def _failed_after_loop(notebook: Notebook, failed: Run) -> bool:
    """Whether a run failed in code that is in no loop: whoever ends has come past it, in however few steps."""
    from labbook.fixes.backward_slice import is_in_loop

    ended = next((raised for raised in failed.exceptions if raised.ended_process), None)
    frames = list(ended.frames) if ended is not None else []
    while frames and not frames[-1].user:
        frames.pop()
    if not frames or not all(frame.user for frame in frames):
        return False
    code = _read_code(notebook, failed)
    texts = [text for frame in frames for path, text in code.items() if f"/{frame.file}".endswith(f"/{path}")]
    lines = [frame.line for frame in frames]
    return len(texts) == len(lines) and not any(map(is_in_loop, texts, lines))


def _read_code(notebook: Notebook, run: Run) -> dict[str, str]:
    """Returns the text of the Python files that a run used, by path."""
    from labbook.compare.code_diff import read_code

    files = dict.fromkeys([*run.sources, *(f.file for e in run.exceptions for f in e.frames if f.user)])
    return read_code(run.facts("code"), notebook.paths.attachments(run.id), list(files)[:_MOST_FILES])


def _read_background(notebook: Notebook, failed: Run, now: Run, page: Symptom | None = None) -> Background:
    """Returns what earlier runs and the code say about the differences between a failed run and a later one.

    Args:
        page: That of the first symptom that is gone.
    """
    from labbook.fixes.fix_background import Background, slice_failure
    from labbook.fixes.fix_candidates import is_same_place, split_changes
    from labbook.report.run_data import load_run

    attempts: list[list[Change]] = []
    since: list[Change] | None = None
    name = failed.previous
    for _ in range(_LOOK_BACK):
        meta = read_front_matter(notebook.paths, name)
        if meta is None or len(attempts) == _MOST_ATTEMPTS:
            break
        is_bad = meta.get("status") in ("failed", "killed") or meta.get("verdict") in ("failed", "unhealthy")
        run = load_run(notebook.paths, name) if is_bad or meta.get("status") == "finished" else None
        if run is not None and not is_bad:
            since = split_changes(list_differences(notebook, run, failed))
            break
        if run is not None and is_same_place(run, failed):
            attempts.append(split_changes(list_differences(notebook, run, failed)))
        name = str(meta.get("previous") or "")
    # A page says that data are wrong by listing them first.
    is_of_data = page is not None and page.cured_by[:1] == ("input",) and failed.status == "finished"
    codes = [_read_code(notebook, run) for run in (failed, now)]
    return Background(since, attempts, *slice_failure(failed, *codes, is_of_data=is_of_data), is_of_data)


def list_candidates(notebook: Notebook, failed: Run, now: Run, proposal: Proposal) -> Proposal:
    """Returns a proposal with the differences of its two runs that may have cured its symptoms."""
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
    from labbook.fixes.fix_candidates import drop_doubles, find_new_inputs, keep_used, split_changes
    from labbook.fixes.fix_ranking import focus_lines, order_candidates

    known = load_catalogue(notebook.paths.symptoms).symptoms
    differences = list_differences(notebook, failed, now)
    listed = {change.what for change in differences}
    differences += [change for change in find_new_inputs(failed, now) if change.what not in listed]
    changes = keep_used(drop_doubles(differences, failed), failed, now)
    candidates = drop_doubles(split_changes(changes), failed)
    page = known.get(next(iter(proposal.symptoms), ""))
    background = _read_background(notebook, failed, now, page) if len(candidates) > 1 else None
    pieces, touching = order_candidates(candidates, failed, now, proposal.symptoms, known, background)
    shown, lines = focus_lines(pieces[:touching], failed)
    more = lines + sum(map(count_changes, pieces[touching:]))
    files = dict.fromkeys(piece.what for piece in pieces if piece.kind == "code" and "\n@@ " in piece.detail)
    whole = {change.what: change.detail for change in changes if change.kind == "code"}
    return replace(proposal, changes=pieces, shown=shown, more=more, diff="\n".join(whole[name] for name in files))


def _is_withheld(paths: NotebookPaths, run_id: str) -> bool:
    from labbook.store.commit.commit_queue import withheld_files

    return paths.entry(run_id).relative_to(paths.root).as_posix() in withheld_files(paths)


def list_differences(notebook: Notebook, failed: Run, now: Run) -> list[Change]:
    """Returns the differences of two runs, those of code with their changed lines, redacted."""
    from labbook.compare.run_changes import compare_runs, mask_changes
    from labbook.fixes.difference_names import HISTORY
    from labbook.model.run_json import run_to_json
    from labbook.store.recorder_redaction import make_redactor

    redactor = make_redactor(os.environ, (), notebook.redaction_rules())
    if now.previous == failed.id and now.changes:
        changes = list(now.changes)
    else:
        changes = mask_changes(compare_runs(run_to_json(failed), run_to_json(now)), redactor)
    files = [change.what for change in changes if change.kind == "code" and change.what not in HISTORY]
    diffs = _diff_files(notebook, failed, now, files, redactor) if files else {}
    changes = [c for c in changes if c.kind != "code" or c.what not in diffs or any(changed_lines(diffs[c.what]))]
    return [replace(c, detail=diffs[c.what]) if c.kind == "code" and c.what in diffs else c for c in changes]


def _diff_files(
    notebook: Notebook, failed: Run, now: Run, files: Sequence[str], redactor: Redactor
) -> Mapping[str, str]:
    from labbook.compare.code_diff import diff_code

    facts = [run.facts("code") for run in (failed, now)]
    if not all(facts):
        return {}
    folders = [notebook.paths.attachments(run.id) for run in (failed, now)]
    diffs = diff_code(facts[0], folders[0], facts[1], folders[1], files)
    return {path: redactor.text(diff) for path, diff in diffs.items()}


def write_proposal(notebook: Notebook, proposal: Proposal) -> None:
    """Writes the proposal into the entry of the run that may be the fix; text of people stays.

    Raises:
        OSError: The entry cannot be written.
    """
    from labbook.report.entry.fix_section import cures_markdown

    path = notebook.paths.entry(proposal.by)
    page = read_text(path)
    before = read_front_matter(notebook.paths, proposal.by) or {}
    # New keys are inserted after the key that precedes them here.
    meta: dict[str, Any] = {"fix": before.get("fix")}
    if proposal.confirmed:
        meta["cures"] = list(dict.fromkeys([*read_texts(before, "cures"), proposal.failed]))
    else:
        meta["may_cure"] = proposal.failed
    try:
        page = set_section(frontmatter.update(page, meta, path.name), "cures", cures_markdown(notebook, proposal))
    except EntryError:
        return  # somebody broke the front matter by hand meanwhile; the entry itself reports it
    write_atomically(path, to_bytes(page))


def set_section(page: str, name: str, content: str) -> str:
    """Returns a page with one block of fixes set; the block is removed if `leave_out:` names it.

    Raises:
        EntryError: The front matter cannot be read.
    """
    meta, _ = frontmatter.parse(page, "entry")
    return set_block(page, name, "" if name in read_texts(meta, "leave_out") else content, _PRECEDING_BLOCKS)


def read_front_matter(paths: NotebookPaths, run_id: str) -> Mapping[str, Any] | None:
    """Returns the front matter of an entry, `None` if there is none or it cannot be read."""
    if not is_run_id(run_id):
        return None
    try:
        return frontmatter.parse(read_text(paths.entry(run_id)), run_id)[0]
    except (OSError, EntryError):
        return None


def find_open_proposal(paths: NotebookPaths, project: str) -> tuple[str, str] | None:
    """Returns the failed and the fixed run of the newest proposal in a project that nobody confirmed yet."""
    for name in newest_run_ids(paths, trials=True):
        meta = read_front_matter(paths, name) or {}
        failed = str(meta.get("may_cure") or "")
        is_here = str(meta.get("project") or "") == project
        if failed and is_here and read_front_matter(paths, failed) is not None:
            return failed, name
    return None


def read_texts(meta: Mapping[str, Any], key: str) -> list[str]:
    """Returns the texts of a list in a front matter; a single value gives a list of one."""
    value = meta.get(key)
    many = value if isinstance(value, list) else [value] if value else []
    return [str(one) for one in many]


def _newest_of_experiment(notebook: Notebook, run: Run) -> str:
    """Returns the newest earlier run of the same experiment, or ""."""
    if not run.experiment:
        return ""
    from labbook.fixes.fix_history import find_newest_run

    try:
        return find_newest_run(notebook, "experiment", run.experiment, before=run.started)
    except LabbookError:
        return ""
