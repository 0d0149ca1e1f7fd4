"""Moves the entry of a run, with its figures, files and data, from one notebook to another.

Nothing is removed before the other notebook has it: a move that is killed leaves the run in both notebooks, and the
same call finishes it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from labbook.artifacts.inventory import list_kept
from labbook.errors import EntryError, GitError, LabbookError, NothingFoundError, UsageError
from labbook.frozen import dataclass
from labbook.index.query import find_run, list_notes
from labbook.model.entry import Entry
from labbook.store.commit.branch_checkout import restore_before_writing, restore_missing
from labbook.store.commit.commit_queue import withheld_files
from labbook.store.commit.entry_commit import CommitOutcome, commit_files
from labbook.store.commit.last_look import secret_error, secrets_in
from labbook.store.git.fast_import import FileChange, read_changes
from labbook.store.journal import open_journals, write_atomically
from labbook.store.notebook import Notebook, not_writable
from labbook.store.paths import check_stays_inside, checked_run_id, is_run_id
from labbook.store.recorder_redaction import make_redactor


@dataclass(frozen=True)
class MovedRun:
    """The result of a move.

    Args:
        files: Number of files that were moved.
        experiment: The experiment whose page was created in the other notebook, or "".
        other: The run that the fix of this one names and that stays in the first notebook, or "".
        fixed: The runs that stay there and name this one as their fix.
        added: The commit in the other notebook.
        removed: The commit in the first notebook.
    """

    run: str
    files: int
    experiment: str
    other: str
    fixed: tuple[str, ...]
    added: CommitOutcome
    removed: CommitOutcome


def move_run(source: Notebook, word: str, target: Notebook) -> MovedRun:
    """Move a run to another notebook: written and committed there first, then removed here by a commit.

    Args:
        word: "last", an id, or the first or last characters of an id.

    Raises:
        NothingFoundError: There is no such run.
        UsageError: It is in the target already, or several runs match.
        EntryError: The run goes on, is withheld or has kept files, or the target has a different run of this id, or the
            target's secret scan objects.
        GitError: The entry could not be committed to the target, or not be removed here; nothing is lost.
        NotebookError: A notebook cannot be written.
    """
    entry = _find(source, word, target)
    run = checked_run_id(entry.id)
    if source.paths.root.resolve() == target.paths.root.resolve():
        raise UsageError("sync.error.same_notebook", run=run)
    _check_movable(source, entry, run)
    for below in (source.paths.entry(run), source.paths.attachments(run)):
        restore_before_writing(source, below)
    contents = _read(source, run)
    _commit_edits(source, run, contents)
    page = _experiment_page(source, target, str(entry.meta.get("experiment") or ""))
    fixed = tuple(each.id for each in list_notes(source, f"fix:{run}").entries if each.id != run)
    added = _add(target, run, contents, page)
    removed = _remove(source, run, contents)
    return MovedRun(
        run=run,
        files=len(contents),
        experiment=next((Path(name).stem for name in page), ""),
        other=_other_run(source, entry),
        fixed=fixed,
        added=added,
        removed=removed,
    )


def _find(source: Notebook, word: str, target: Notebook) -> Entry:
    """Return the run, also one whose removal was interrupted before its commit."""
    try:
        return find_run(source, word)
    except NothingFoundError:
        if is_run_id(word.strip()) and target.paths.entry(word.strip()).exists():
            with contextlib.suppress(GitError):
                if restore_missing(source, source.paths.entry(word.strip())):
                    return find_run(source, word)
            raise UsageError("sync.error.same_notebook", run=word.strip()) from None
        raise


def is_going_on(notebook: Notebook, entry: Entry) -> bool:
    """Whether a run has not ended, or its entry is not written yet."""
    running = entry.meta.get("status") == "running"
    return running or any(journal.paths.root.name == entry.id for journal in open_journals(notebook.paths))


def _check_movable(source: Notebook, entry: Entry, run: str) -> None:
    if is_going_on(source, entry):
        raise EntryError("sync.error.not_a_run", run=run)
    folder = source.paths.relative(source.paths.attachments(run))
    withheld = withheld_files(source.paths)
    if any(file in (folder, f"{folder}.md") or file.startswith(f"{folder}/") for file in withheld):
        raise EntryError("sync.error.withheld_run", run=run)
    kept = [file.artifact.name for file in list_kept(source, run) if file.artifact.digest]
    if kept:
        raise EntryError("sync.error.kept_files", run=run, count=len(kept), first=kept[0])


def _read(source: Notebook, run: str) -> dict[str, bytes]:
    """Return the files of the run, path relative to the notebook -> content; the entry is the last."""
    files = [path for path in (source.paths.attachments(run), source.paths.entry(run)) if os.path.lexists(path)]
    try:
        changes = read_changes(source.paths, files)
    except OSError as error:
        raise EntryError("errors.file.not_readable", path=str(error.filename), reason=error) from error
    return {os.fsdecode(change.path): change.data for change in changes if change.data is not None}


def _commit_edits(source: Notebook, run: str, contents: Mapping[str, bytes]) -> None:
    """Commit what was edited since: a removal that is killed before its commit is undone from the branch."""
    outcome = commit_files(source, [source.paths.root / name for name in contents], f"{run}: edited before it moves\n")
    if outcome.status not in ("committed", "unchanged", "off"):
        raise EntryError("sync.error.not_committed", run=run, reason=outcome.cause)


def _experiment_page(source: Notebook, target: Notebook, slug: str) -> dict[str, bytes]:
    """Return the page of the run's experiment if the target has none."""
    page, there = source.paths.experiments / f"{slug}.md", target.paths.experiments / f"{slug}.md"
    if not slug or Path(slug).name != slug:
        return {}
    restore_before_writing(source, page)
    restore_before_writing(target, there)
    if not page.is_file() or page.is_symlink() or os.path.lexists(there):
        return {}
    return {source.paths.relative(page): page.read_bytes()}


def _add(target: Notebook, run: str, contents: Mapping[str, bytes], page: Mapping[str, bytes]) -> CommitOutcome:
    """Write and commit the files in the target; files that are there already must be the same."""
    root = target.paths.root
    message = f"{run}: moved from another notebook\n"
    for below in (target.paths.entry(run), target.paths.attachments(run)):
        restore_before_writing(target, below)
    new = {**page, **contents}
    for name in new:
        check_stays_inside(root / name, root)
        if os.path.lexists(root / name) and _content(root / name) != new[name]:
            raise EntryError("sync.error.exists", run=run)
    # Before a byte of it lies in the other notebook, whose site may be published.
    judge = make_redactor(os.environ, (), target.redaction_rules())
    found = secrets_in([FileChange(os.fsencode(name), data) for name, data in new.items()], message, judge)
    if found:
        raise _failure(run, target, secret_error(found), EntryError)
    try:
        for name, data in new.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(root / name):
                write_atomically(root / name, data)
    except OSError as error:
        raise not_writable(root, error) from error
    outcome = commit_files(target, [root / name for name in new], message)
    if outcome.status not in ("committed", "unchanged", "off"):
        raise _failure(run, target, outcome.cause, GitError)
    return outcome


def _remove(source: Notebook, run: str, contents: Mapping[str, bytes]) -> CommitOutcome:
    """Remove the files that the target has, unless one was edited since, and commit that."""
    root = source.paths.root
    if any(_content(root / name) != data for name, data in contents.items()):
        raise EntryError("sync.error.edited", run=run)
    delete_files(source, [root / name for name in contents])
    outcome = commit_files(source, [root / name for name in contents], f"{run}: moved to another notebook\n")
    if outcome.status in ("failed", "withheld"):
        raise GitError("sync.error.not_removed", run=run, reason=outcome.cause)
    return outcome


def delete_files(notebook: Notebook, files: Iterable[Path]) -> None:
    """Delete files of entries from the disk, and the folders of runs that are empty then.

    Raises:
        NotebookError: They cannot be deleted.
    """
    folders: set[Path] = set()
    try:
        for file in files:
            file.unlink(missing_ok=True)
            folders.update(parent for parent in file.parents if notebook.paths.runs in parent.parents)
    except OSError as error:
        raise not_writable(notebook.paths.root, error) from error
    for folder in sorted(folders, key=lambda each: -len(each.parts)):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _content(file: Path) -> bytes | None:
    try:
        return None if file.is_symlink() else file.read_bytes()
    except OSError:
        return None


def _other_run(source: Notebook, entry: Entry) -> str:
    """Return the run that the fix of the moved one names, if it stays."""
    named = re.findall(r"\b\d{8}-\d{6}-\w+", str(entry.meta.get("fix") or ""))
    return next((run for run in named if is_run_id(run) and source.paths.entry(run).exists()), "")


def _failure(run: str, target: Notebook, reason: object, kind: type[LabbookError]) -> LabbookError:
    return kind("sync.error.move_failed", run=run, target=str(target.paths.root), reason=reason)
