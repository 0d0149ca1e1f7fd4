"""One recording: runs the command beside the threads that capture and watch it, and writes its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.capture.exit_cause import read_oom_counters, read_time_limit
from labbook.capture.slurm import read_job_end
from labbook.store.journal import Journal
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
    from labbook.record.record_request import RecordRequest
    from labbook.store.notebook import Notebook

PrintLine = Callable[[str], None]


@dataclass
class Recording:
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
        names = ("code", "signal", "ended", "output_open", "core_dump")
        facts: dict[str, Any] = {"stopped": end.heeded, **{name: getattr(end, name) for name in names}}
        if end.code != 0:
            with suppress(Exception):
                facts["counters"] = {"before": self.counters, "after": read_oom_counters()}
        self.journal.write_end(facts)
        if end.code != 0 and self.writes_start and (slurm := read_job_end(os.environ)):
            self.journal.write_end({**facts, "slurm": slurm})

    def probe_settings(self, request: RecordRequest) -> dict[str, object]:
        """Returns the settings that the probe gets: see `labbook.probe.events.protocol`."""
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
