"""Records one command: all steps of a run, from the command line to the committed entry."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.capture.exit_cause import read_oom_counters, read_time_limit
from labbook.capture.slurm import read_job_end
from labbook.errors import NotebookError, UsageError
from labbook.probe.events.protocol import RULES_FILE
from labbook.record.child.start_errors import describe_error
from labbook.record.run_owner import run_experiment
from labbook.store.journal import Journal, create_journal, readable_text
from labbook.store.paths import new_run_id
from labbook.store.process_identity import start_ticks
from labbook.store.text.sentences import Sentences

if TYPE_CHECKING:
    from labbook.artifacts.keep_files import KeepWatcher
    from labbook.capture.resources import ResourceSampler
    from labbook.probe.redaction.redactor import Redactor
    from labbook.record.child.supervisor import ChildEnd
    from labbook.record.end_summary import FinishedRun
    from labbook.record.jobs.hang_watch import HangWatch
    from labbook.record.jobs.job_place import JobPlace, Member
    from labbook.store.notebook import Notebook

PrintLine = Callable[[str], None]


@dataclass(frozen=True)
class RecordRequest:
    """The command to record, and the options of `labbook record`.

    Args:
        argv: The command, never empty.
        notebook: Path of a notebook, or `None` to find one.
        experiment: Slug of an experiment, or "" for the experiment of the script.
        flags: Settings from the command line, by the name of their field in `Config`.
        full_pty: Whether the command gets a terminal of its own, as curses programs need.
        requests: Actions of the probe inside the program, see `program_requests.parse_requests`.
        on_created: Called with the id of the run before the command starts.
        on_finished: Called when the entry is written; a failure of it is printed.
        started_in: Folder that printed paths begin at; `None`: where the command runs.
        launcher: Words that start the command in a container; they are no part of the recorded command.
        facts: Further facts of the start: `rerun_of`, `rerun_in` (the folder whose files a rerun has links to) and
            `container`.
    """

    argv: tuple[str, ...]
    notebook: Path | None = None
    experiment: str = ""
    flags: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    full_pty: bool = False
    quiet: bool = False
    requests: Mapping[str, object] = field(default_factory=dict)
    on_created: Callable[[str], None] | None = None
    on_finished: Callable[[FinishedRun], None] | None = None
    started_in: Path | None = None
    launcher: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)


def record(request: RecordRequest, print_line: PrintLine) -> ChildEnd:
    """Runs the command, writes and commits its entry, and returns how the command ended.

    Raises nothing once the command has started: failures of labbook are reported through `print_line`.

    Args:
        print_line: Prints one line to the user, on standard error; never raises.

    Raises:
        UsageError: The command does not exist or cannot be executed; nothing was started.
        Exception: The run cannot be recorded; nothing was started. `unrecorded.record_or_exec` handles it.
    """
    from labbook.record.child.signal_relay import restore_stops
    from labbook.record.child.supervisor import find_program

    find_program((*request.launcher, *request.argv)[0], os.environ, Path.cwd())
    session = open_session(request, print_line)
    try:
        end = session.run(request)
    except BaseException:
        session.discard()
        raise
    try:  # a call of `suppress` could fail as well, and the command would start a second time
        write_entry(session, request, end, print_line)
        restore_stops()
    except BaseException:
        pass  # not even Ctrl-C may change the status of a command that has ended
    return end


def write_entry(session: _Session, request: RecordRequest, end: ChildEnd, print_line: PrintLine) -> None:
    """Writes the entry and shows how the run ended; if that fails, `labbook recover` can repeat it."""
    from labbook.record.ci_report import report_to_ci
    from labbook.record.recovery import recover_pending

    sentences = session.sentences
    if end.trouble:
        print_line(sentences.line("record.incomplete", error=end.trouble))
    try:
        finished = session.finish(end)
    except (Exception, KeyboardInterrupt) as error:
        print_line(sentences.line("record.entry_failed", error=describe_error(error)))
        print_line(sentences.line("record.entry_retry", journal=str(session.journal.paths.root)))
        return
    if finished is None:
        return  # another task of the job writes the entry
    try:
        from labbook.record.end_summary import end_lines

        finished, book = finished.seen_from(request.started_in), session.notebook
        for line in end_lines(finished, sentences, book, quiet=session.quiet, is_fallback=session.is_fallback):
            session.print_line(line)
        if session.notebook.config.artifact_store:
            from labbook.artifacts.upload import start_upload

            start_upload(session.notebook)
        report_to_ci(finished, session.notebook.config, os.environ, quiet=request.quiet)
        recover_pending(session.notebook, print_line)
        if request.on_finished is not None:
            request.on_finished(finished)
    except Exception as error:
        print_line(sentences.line("record.later_step_failed", error=describe_error(error)))


@dataclass
class _Session:
    """One recording: the notebook, the journal, and the background threads."""

    notebook: Notebook
    journal: Journal
    redactor: Redactor
    start: dict[str, Any]
    quiet: bool
    print_line: PrintLine
    sentences: Sentences
    sampler: ResourceSampler | None = None
    watcher: KeepWatcher | None = None
    threads: list[threading.Thread] = field(default_factory=list)
    ended: bool = False
    counters: dict[str, Any] = field(default_factory=dict)  # kernel counters before the command
    member: Member | None = None  # the task of a job, whose entry the last task writes
    place: JobPlace | None = None
    hang_watch: HangWatch | None = None
    is_fallback: bool = False  # the requested notebook cannot be used

    def discard(self) -> None:
        """Removes all traces of a run that did not start."""
        self.journal.discard()
        if self.member is not None and self.place is not None:
            with suppress(OSError):
                (self.place.root / "ranks" / str(self.member.rank)).unlink()

    @property
    def writes_start(self) -> bool:
        """Whether the facts of the start are taken from this run: of a job, from its first task."""
        return self.place is None or self.place.lead() == self.journal.run_id

    def run(self, request: RecordRequest) -> ChildEnd:
        """Runs the command with the probe's folder first on its `PYTHONPATH`."""
        from labbook.capture.console.console_sink import ConsoleSink
        from labbook.record.child.probe_environment import inject_environment, keep_probe
        from labbook.record.child.supervisor import run_child
        from labbook.record.notebook_command import ENV_FOLDER, FOLDER, is_notebook_run

        config = self.notebook.config
        environ, argv = dict(os.environ), list(request.argv)
        if config.probe:
            environ = inject_environment(environ, self.probe_settings(request))
            argv = keep_probe(argv, environ)
        if is_notebook_run(argv):
            environ[ENV_FOLDER] = str(self.journal.paths.root / FOLDER)
        # Its own redactor: the entry shows how many secrets were masked in the console alone.
        redactor = copy(self.redactor)
        redactor.counts = {}
        sink = ConsoleSink(self.journal.paths.console, redactor, config.console_head_bytes, config.console_tail_bytes)
        self.counters = read_oom_counters()
        end = run_child(
            [*request.launcher, *argv],
            env=environ,
            cwd=Path.cwd(),
            sink=sink,
            full_pty=request.full_pty,
            on_start=self.on_start,
            on_stop=lambda t: self.journal.write(self.journal.paths.stopped, {"t": t}, durable=False),
            lock_descriptors=self.journal.lock_descriptors(),
        )
        self.ended = True
        return end

    def _write_end(self, end: ChildEnd) -> None:
        """Writes `end.json`: how the command ended, which only the recorder knows."""
        names = ("code", "signal", "ended", "output_open", "stopped", "core_dump")
        facts: dict[str, Any] = {name: getattr(end, name) for name in names}
        if end.code != 0:
            with suppress(Exception):
                facts["counters"] = {"before": self.counters, "after": read_oom_counters()}
        self.journal.write_end(facts)
        if end.code != 0 and self.writes_start and (slurm := read_job_end(os.environ)):
            self.journal.write_end({**facts, "slurm": slurm})

    def probe_settings(self, request: RecordRequest) -> dict[str, object]:
        config = self.notebook.config
        return {
            "dir": str(self.journal.paths.root),
            "run": self.journal.run_id,
            "level": config.level,
            "budget": config.probe_budget,
            "config_max_bytes": config.config_max_bytes,
            **({"asked": dict(request.requests)} if request.requests else {}),
            **({"state": state} if (state := config.state_request()) else {}),
        }

    def on_start(self, pid: int) -> None:
        """Writes the command's process id; starts the resource sampler and the background threads."""
        from labbook.capture.resources import ResourceSampler

        self.start["child_pid"] = pid
        self.start["child_ticks"] = start_ticks(pid)
        self.journal.write(self.journal.paths.start, self.start, durable=False)
        interval_s = self.notebook.config.resources_interval_s
        self.sampler = ResourceSampler(pid, self.journal.paths.resources, interval_s, self.redactor)
        self.sampler.start()
        if not self.quiet:
            self._watch_hangs()
        works = (self._watch_calls_of_keep, self._capture, self._load)
        for work in works if self.writes_start else works[:2]:
            thread = threading.Thread(target=work, name=f"labbook{work.__name__}", daemon=True)
            thread.start()
            self.threads.append(thread)

    def _watch_calls_of_keep(self) -> None:
        """Starts the watcher of `labbook.keep()`, in a thread because of its imports; failures are ignored."""
        with suppress(Exception):
            from labbook.artifacts.keep_files import FileKeeper, KeepWatcher

            watcher = KeepWatcher(FileKeeper(self.notebook, self.journal.paths, Path.cwd(), copy(self.redactor)))
            if not self.ended:
                watcher.start()
                self.watcher = watcher

    def _watch_hangs(self) -> None:
        """Starts to watch for a hang of several ranks."""
        from labbook.record.jobs.hang_watch import HangWatch

        rank = self.member.rank if self.member is not None else 0
        self.hang_watch = HangWatch(self.journal, self.place, rank, self.sentences, self.print_line)
        self.hang_watch.start()

    def _capture(self) -> None:
        """Captures the start and writes the running entry, in a thread; failures are ignored."""
        from labbook.record.finalize import capture_start, write_running_entry
        from labbook.record.jobs.join_as_task import note_commit
        from labbook.store.git.git_identity import run_author

        with suppress(Exception):
            self.start["author"] = run_author(self.notebook.paths.root, self.notebook.config.author)
            self.start["time_limit"] = read_time_limit(os.environ, ask=self.writes_start)
            note_commit(self.start)
        with suppress(Exception):
            # Synced in this thread, so that the command does not wait for the disk.
            self.journal.write(self.journal.paths.start, self.start)
        if not self.writes_start:
            return
        with suppress(Exception):
            capture_start(self.notebook, self.journal, self.start, self.redactor)
        with suppress(Exception):
            if not self.ended:
                write_running_entry(self.notebook, self.journal)

    def _load(self) -> None:
        """Imports the modules of `finalize` while the command runs."""
        from labbook.record.finalize import preload_modules

        with suppress(Exception):
            preload_modules(self.notebook, lambda: self.ended)

    def finish(self, end: ChildEnd) -> FinishedRun | None:
        """Writes the end, builds the entry from the journal and commits it; `None` if another task of the job will."""
        from labbook.record.finalize import finalize

        self._write_end(end)
        for watching in (one for one in (self.sampler, self.hang_watch) if one is not None):
            watching.stop()
        for thread in self.threads:
            thread.join()
        if self.watcher:
            self.watcher.stop()
        if self.journal.is_deleted():
            # The command has deleted the journal; what this process knows makes an entry all the same.
            self.print_line(self.sentences.line("record.journal_deleted"))
            self.journal.write(self.journal.paths.start, self.start)
        try:
            if self.member is not None and self.place is not None:
                from labbook.record.jobs.job_entry import leave_job

                return leave_job(self.notebook, self.place, self.member, self.redactor)
            return finalize(self.notebook, self.journal, self.redactor)
        finally:
            self.journal.release()


def open_session(request: RecordRequest, print_line: PrintLine) -> _Session:
    """Opens a session in the requested notebook, or in the personal one if that fails.

    Raises:
        NotebookError: Neither can be used; the message has both reasons.
    """
    from labbook.store.config import unknown_settings
    from labbook.store.notebook_finder import find_notebook

    requested = partial(find_notebook, Path.cwd(), chosen=request.notebook, environ=dict(os.environ))
    personal = partial(find_notebook, Path("/"), chosen=None, environ={**os.environ, "LABBOOK_NOTEBOOK": ""})
    errors: list[Exception] = []
    for find in (requested, personal):
        try:
            notebook = find(flags=dict(request.flags))
            session = _create_session(notebook, request, print_line)
        except UsageError:
            raise  # a mistyped experiment: nothing has started, so the user can correct it
        except Exception as error:
            errors.append(error)
            continue
        for failure in errors:
            known = {"notebook": str(notebook.paths.root), "error": describe_error(failure)}
            print_line(session.sentences.line("record.personal_fallback", **known))
        session.is_fallback = bool(errors)
        for problem in unknown_settings(notebook.paths.root):
            print_line(session.sentences(problem))
        return session
    reasons = [describe_error(error) for error in errors]
    raise NotebookError("errors.record.no_notebook", reasons=reasons[:1] if reasons[0] == reasons[-1] else reasons)


def _create_session(notebook: Notebook, request: RecordRequest, print_line: PrintLine) -> _Session:
    """Creates the journal with everything known before the command starts."""
    from labbook.capture.command import find_program_file
    from labbook.capture.project import find_project
    from labbook.probe.redaction.structures import redact_argv
    from labbook.record.jobs.join_as_task import join_as_task
    from labbook.store.recorder_redaction import load_rules, make_redactor

    now = time.time()
    argv, notes, tags = (list(map(readable_text, words)) for words in (request.argv, request.notes, request.tags))
    own_rules = notebook.redaction_rules()
    redactor = make_redactor(dict(os.environ), argv, own_rules)
    program = find_program_file(request.argv, Path.cwd())
    script = redactor.text(readable_text(program.script))
    project = find_project(argv, Path.cwd(), notebook.paths.root)
    root = redactor.text(project.root)
    name, is_missing = redactor.text(project.name), program.is_missing and not request.launcher
    experiment = run_experiment(notebook, script, request.experiment, name, root, is_missing=is_missing)
    day = notebook.paths.entry(new_run_id(now)).parent
    journal = create_journal(notebook.paths, now, [path.stem for path in day.glob("*.md")])
    start: dict[str, Any] = {
        "schema": 1,
        "id": journal.run_id,
        "argv": redact_argv(argv, redactor),
        "cwd": redactor.text(readable_text(str(Path.cwd()))),
        "script": script,
        "experiment": experiment,
        "sweep": redactor.text(notebook.config.sweep),
        "project": root,
        "host": socket.gethostname(),
        "started": now,
        "recorder_pid": os.getpid(),
        **{name: list(map(redactor.text, words)) for name, words in (("notes", notes), ("tags", tags))},
        **request.facts,
    }
    try:
        member, place = join_as_task(notebook.paths, journal, start)
        if own_rules is not None:
            journal.write(journal.paths.root / RULES_FILE, load_rules(own_rules))
        journal.write(journal.paths.start, start, durable=False)
    except BaseException:
        journal.discard()
        raise
    if request.on_created is not None:
        request.on_created(journal.run_id)
    if not request.quiet and (place is None or place.lead() == journal.run_id):
        print_line(f"{journal.run_id}  {experiment}".rstrip())
    sentences = Sentences(notebook.config.language_in_use())
    sentences.prepare("record")  # before anything can fail: a full disk or too many open files
    known = (notebook, journal, redactor, start, request.quiet, print_line, sentences)
    return _Session(*known, member=member, place=place)
