"""Removes runs and experiments from a notebook, by one commit: `labbook sync` removes them for everybody."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from labbook.artifacts.inventory import list_kept
from labbook.errors import EntryError, GitError, UsageError
from labbook.frozen import dataclass
from labbook.index.query import find_run, list_notes
from labbook.sharing.move_run import delete_files, is_going_on
from labbook.store.commit.branch_checkout import restore_before_writing
from labbook.store.commit.commit_queue import QUEUE, WITHHELD, pending_commits, remove_commit
from labbook.store.commit.entry_commit import CommitOutcome, commit_files
from labbook.store.experiments import find_experiment
from labbook.store.journal import Journal
from labbook.store.notebook import Notebook
from labbook.store.paths import checked_run_id, is_trial_id
from labbook.store.text.entry_text import read_text, split_parts

_EXPERIMENT = re.compile(r"exp\d+(_.+)?")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True)
class Removal:
    """What a removal takes away.

    Args:
        runs: The runs, with the trials inside of them.
        title: Title of the first one.
        experiment: The experiment whose page goes too, or "".
        written: The experiment that has no run any more and stays, because people wrote on its page; or "".
        kept: Number of files that the runs have kept: `labbook artifact prune` can delete them afterwards.
        named: Other runs that name one of these as their fix.
    """

    runs: tuple[str, ...]
    title: str
    experiment: str
    written: str
    kept: int
    named: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The experiment if it goes with several runs, else the run."""
        return self.experiment if self.experiment and len(self.runs) != 1 else self.runs[0]


def plan_removal(notebook: Notebook, word: str) -> Removal:
    """Return what would be removed; changes nothing.

    Args:
        word: A run as `find_run` knows it, or an experiment: its whole name or `exp003`.

    Raises:
        NothingFoundError: There is no such run.
        UsageError: There is no such experiment, or several match.
        EntryError: A run goes on.
    """
    word = word.strip()
    named_page = _EXPERIMENT.fullmatch(word) is not None
    notes = list_notes(notebook).entries
    if named_page:
        slug = find_experiment(notebook, word).slug
        if not slug.startswith(word):  # part of a name is too little for a removal
            raise UsageError(
                "errors.experiment.unknown", chosen=word, near=slug, advice="errors.experiment.near_advice"
            )
        entries = [each for each in notes if each.meta.get("experiment") == slug]
    else:
        found = find_run(notebook, word)
        run, slug = checked_run_id(found.id), str(found.meta.get("experiment") or "")
        entries = [each for each in notes if each.id == run or (is_trial_id(each.id) and each.id.startswith(run))]
    for entry in entries:
        if is_going_on(notebook, entry):
            raise EntryError("sync.error.not_a_run", run=entry.id, advice="sync.rm.running_advice")
    runs = {entry.id for entry in entries}
    others = [each for each in notes if each.id not in runs]
    is_empty = bool(slug) and not any(each.meta.get("experiment") == slug for each in others)
    written = is_empty and not named_page and _has_text_of_people(notebook.paths.experiments / f"{slug}.md")
    return Removal(
        runs=tuple(sorted(runs)),
        title=str(entries[0].meta.get("title") or "") if entries else "",
        experiment=slug if is_empty and not written else "",
        written=slug if written else "",
        kept=sum(bool(file.artifact.digest) for run in runs for file in list_kept(notebook, run)),
        named=tuple(each.id for each in others if any(run in str(each.meta.get("fix") or "") for run in runs)),
    )


def remove_runs(notebook: Notebook, removal: Removal) -> CommitOutcome:
    """Delete entries, their folders, journals and the page of the experiment, and commit that.

    Older versions stay in the history of git.

    Raises:
        NotebookError: Files cannot be deleted.
        GitError: The removal could not be committed; the files are written again from the branch.
    """
    paths = notebook.paths
    named = [path for run in removal.runs for path in (paths.attachments(run), paths.entry(run))]
    if removal.experiment:
        named.append(paths.experiments / f"{removal.experiment}.md")
    # Files of the branch that are not on this disk, too: they would come back.
    restore_before_writing(notebook, paths.notes)
    files = [file for path in named if os.path.lexists(path) for file in _files(path)]
    delete_files(notebook, files)
    gone = {paths.relative(path) for path in (*named, *files)}
    for queue in (QUEUE, WITHHELD):
        for item in pending_commits(paths, queue=queue):
            if set(item.files) <= gone:
                remove_commit(item)
    outcome = commit_files(notebook, files, f"Remove {removal.subject}\n")
    if outcome.status in ("failed", "withheld"):
        restore_before_writing(notebook, paths.notes)
        raise GitError("sync.rm.not_committed", reason=outcome.cause)
    for run in removal.runs:
        Journal(paths.journal(run)).discard()
    return outcome


def _files(path: Path) -> list[Path]:
    if path.is_symlink() or not path.is_dir():
        return [path]
    return [file for file in path.rglob("*") if file.is_symlink() or not file.is_dir()]


def _has_text_of_people(page: Path) -> bool:
    """Whether the page of an experiment has more than headings, prompts and generated blocks."""
    with contextlib.suppress(OSError):
        body = "".join(part.text for part in split_parts(read_text(page).split("\n---", 1)[-1]) if not part.name)
        lines = _COMMENT.sub("", body).splitlines()
        return any(any(c.isalnum() for c in line) for line in lines if not line.startswith("#"))
    return False
