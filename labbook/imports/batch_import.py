"""Writes imported runs as entries, one commit a batch; runs that were imported before are updated or skipped."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from labbook.errors import GitError, NothingFoundError, UsageError
from labbook.frozen import dataclass
from labbook.imports.imported_run import NO_STATUS, NO_TIMES, ImportedRun, Reader
from labbook.imports.logged_content import LEFT_OUT, TRUNCATED
from labbook.imports.neutral_run import id_tail, join_series, new_id, picture_names, to_run
from labbook.model.message import Message
from labbook.model.run import Run
from labbook.probe.redaction.redactor import Redactor
from labbook.store.notebook import Notebook
from labbook.store.text.entry_text import read_head

_ONLY = "it has only #, which labbook does not import"
_BATCH = 200
_HEAD_BYTES = 32768
_DIGEST = re.compile(r"^imported_from:.*digest: *['\"]?([0-9a-f]{16})", re.MULTILINE)


@dataclass(frozen=True)
class ImportOutcome:
    """What became of one run of the tool.

    Args:
        action: "added", "updated" or "unchanged".
        path: Path of the entry, relative to the notebook.
    """

    action: str
    id: str
    name: str
    experiment: str
    title: str
    path: str
    series: int
    points: int


@dataclass(frozen=True)
class Import:
    """The outcome of an import.

    Args:
        problems: Runs that cannot be read, as (path, reason).
        uncommitted: Why a batch was not committed, one sentence each.
    """

    runs: tuple[ImportOutcome, ...]
    problems: tuple[tuple[str, str], ...]
    uncommitted: tuple[Message | str, ...]


def import_runs(
    notebook: Notebook,
    reader: Reader,
    path: Path,
    *,
    experiment: str = "",
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Import:
    """Writes an entry for each run at a path and commits them.

    Args:
        experiment: Experiment of the runs, created if there is none; "" for the experiment or folder in the tool.
        progress: Gets the number of runs that are done.

    Raises:
        UsageError: The path has another format.
        NothingFoundError: There is no run.
    """
    if not path.exists():
        raise UsageError("terminal.import.no_path", path=path)
    if not reader.recognizes(path):
        _refuse_other_format(reader, path)
    batches = _Batches(notebook, dry_run=dry_run)
    reading = _RunReader(reader, path, notebook.paths.notes)
    for count, imported in enumerate(reading.runs(), 1):
        batches.add(imported, experiment or imported.experiment or imported.tool)
        progress(count, count + 1)
    batches.commit()
    if not batches.runs and not reading.problems:
        raise NothingFoundError("terminal.import.no_runs", path=path, tool=reader.title)
    return Import(tuple(batches.runs), tuple(reading.problems), tuple(batches.uncommitted))


def _refuse_other_format(reader: Reader, path: Path) -> None:
    """Raises an error if the path is empty or of another format; what is damaged is found when it is read."""
    from labbook.imports.formats import FORMATS, likely_formats

    if path.is_dir() and not any(path.iterdir()):
        raise NothingFoundError("terminal.import.empty", path=path)
    likely = [name for name in likely_formats(path) if name != reader.name]
    if likely:
        titles = [FORMATS[name].title for name in likely]
        raise UsageError("terminal.import.wrong_format", path=path, tool=reader.title, likely=titles, name=likely[0])


class _RunReader:
    """Reads runs until the end; a run that cannot be read is a problem."""

    def __init__(self, reader: Reader, path: Path, notes: Path) -> None:
        self._reader = reader
        self._notes = notes.resolve()
        self._path = path
        self.problems: list[tuple[str, str]] = []

    def runs(self) -> Iterator[ImportedRun]:
        """Yields the runs that can be read, with points or parameters."""
        try:
            for run in self._reader.runs(self._path):
                if run.path.resolve().is_relative_to(self._notes):
                    continue  # `metrics.csv` of an entry
                if run.series or run.params or run.texts or run.pictures:
                    yield run
                else:
                    is_one_of_several = run.path.is_file() and run.name != run.path.name
                    place = f"{run.path} ({run.name})" if is_one_of_several else str(run.path)
                    self.problems.append((place, _why_empty(run)))
        except (OSError, ValueError) as error:
            self.problems.append((str(getattr(error, "filename", None) or self._path), str(error)))


def _why_empty(run: ImportedRun) -> str:
    """Returns why a run has no values: what is wrong with its files, or what else it has logged."""
    reasons = dict(reversed([each for each in run.unobserved if each not in (NO_STATUS, NO_TIMES)]))
    for what, why in reasons.items():
        if why == LEFT_OUT:
            return _ONLY.replace("#", f"`{what}`")
        return "it ends in the middle of a record" if (what, why) == TRUNCATED else why
    return "it has no values"


class _Batches:
    """Writes entries and commits them in batches."""

    def __init__(self, notebook: Notebook, *, dry_run: bool) -> None:
        from labbook.store.commit.branch_checkout import restore_before_writing
        from labbook.store.recorder_redaction import make_redactor

        self.runs: list[ImportOutcome] = []
        self.uncommitted: list[Message | str] = []
        self._notebook = notebook
        self._dry_run = dry_run
        self._redactor: Redactor = make_redactor(os.environ, (), notebook.redaction_rules())
        self._experiments: dict[str, str] = {}
        self._waiting: list[Run] = []
        self._files: list[Path] = []
        self._seen: Counter[str] = Counter()
        if not dry_run:
            restore_before_writing(notebook, notebook.paths.runs)
        self._known = {page.stem.rpartition("-")[2]: page.stem for page in notebook.paths.runs.glob("*/*/*/*.md")}

    def add(self, imported: ImportedRun, experiment: str) -> None:
        """Writes the entry of a run, unless it has not changed since it was imported."""
        tail = id_tail(imported, self._seen[imported.identity])
        self._seen[imported.identity] += 1
        run_id = self._known.get(tail, "")
        entry = self._notebook.paths.entry(run_id) if run_id else None
        digest = _digest_on(entry) if entry is not None else ""
        is_same = digest == imported.digest()
        if digest and not is_same:
            imported, is_same = self._with_stored_points(imported, run_id)
        if is_same:
            self._note("unchanged", imported, run_id, experiment, imported.name)
            return
        action = "updated" if run_id else "added"
        run_id = run_id or new_id(imported, tail)
        if self._dry_run:
            self._note(action, imported, run_id, experiment, imported.name)
            return
        run = self._write(imported, run_id, self._slug(experiment))
        self._note(action, imported, run_id, run.experiment, run.title)
        if len(self._waiting) >= _BATCH:
            self.commit()

    def _with_stored_points(self, imported: ImportedRun, run_id: str) -> tuple[ImportedRun, bool]:
        """Returns a run with the points that only its entry has, and whether the entry has all of its points."""
        from labbook.report.run_data import load_run

        stored = load_run(self._notebook.paths, run_id)
        joined = join_series(imported.series, stored.series) if stored is not None else imported.series
        if stored is None or joined == imported.series:
            return imported, False
        ends = [{each.name: (each.count, each.steps[-1:]) for each in listed} for listed in (joined, stored.series)]
        return replace(imported, series=joined), ends[0] == ends[1]

    def _note(self, action: str, imported: ImportedRun, run_id: str, experiment: str, title: str) -> None:
        points = sum(each.count for each in imported.series)
        page = self._notebook.paths.relative(self._notebook.paths.entry(run_id))
        self.runs.append(
            ImportOutcome(action, run_id, imported.name, experiment, title, page, len(imported.series), points)
        )

    def _slug(self, name: str) -> str:
        """Returns the experiment of this name, id or number; creates it once."""
        if name not in self._experiments:
            from labbook.store.experiment_creation import new_experiment
            from labbook.store.experiment_of_script import choose_experiment
            from labbook.store.experiments import experiments, slug_part

            part = re.escape(slug_part(name))
            same = [e.slug for e in experiments(self._notebook) if re.fullmatch(rf"exp\d+_{part}(_\w+)?", e.slug)]
            if same and part:
                slug = same[0]
            elif re.fullmatch(r"exp\d+(_.*)?|\d+", name):
                slug = choose_experiment(self._notebook, "", name)
            else:
                slug = new_experiment(self._notebook, name if part else "imported", commit=False)
                self._files.append(self._notebook.paths.experiments / f"{slug}.md")
            self._experiments[name] = slug
        return self._experiments[name]

    def _write(self, imported: ImportedRun, run_id: str, experiment: str) -> Run:
        from labbook.record.run_entry import add_findings, write_entry
        from labbook.store.journal import write_atomically

        run = add_findings(self._notebook, to_run(imported, run_id, experiment, self._redactor))
        folder = self._notebook.paths.attachments(run_id)
        folder.mkdir(parents=True, exist_ok=True)
        names = picture_names(imported.pictures)
        for picture, name in zip(imported.pictures, names, strict=True):
            write_atomically(folder / name, picture.content, durable=False)
        entry = write_entry(self._notebook, run)
        self._waiting.append(replace(run, series=(), checks=(), imported_from={}))
        self._files += [entry, *sorted(file for file in folder.iterdir() if file.is_file())]
        return run

    def commit(self) -> None:
        """Commits what was written since the last commit; texts that may be secrets are masked first."""
        from labbook.store.commit.masked_commit import commit_masked

        if not self._files:
            return
        outcome = commit_masked(self._notebook, self._files, self._message(), self._redactor)
        if outcome.status == "failed":
            raise GitError("commit.failed", reason=outcome.cause)
        if outcome.status in ("queued", "withheld"):
            self.uncommitted.append(outcome.cause)
        self._waiting, self._files = [], []

    def _message(self) -> str:
        names = [run.title or run.id for run in self._waiting]
        shown = "\n".join(f"- {name}"[:200] for name in names[:20])
        more = f"\n- and {len(names) - 20} more" if len(names) > 20 else ""
        return f"Import {len(names)} {'run' if len(names) == 1 else 'runs'}\n\n{shown}{more}\n"


def _digest_on(entry: Path) -> str:
    """Returns the digest in the front matter of an entry, "" without one."""
    try:
        head = read_head(entry, _HEAD_BYTES)
    except OSError:
        return ""
    found = _DIGEST.search(head)
    return found[1] if found else ""
