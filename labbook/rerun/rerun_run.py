"""Runs a recorded run again, and records it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.compare.run_settings import as_recorded, captured_facts
from labbook.errors import LabbookError, NotebookError, UsageError
from labbook.frozen import dataclass
from labbook.index.query import find_run
from labbook.model.message import Message
from labbook.rerun.rebuilt_environment import rebuild_environment
from labbook.rerun.recorded_code import RecordedCode, recorded_code
from labbook.rerun.recorded_command import rerun_command
from labbook.rerun.recorded_container import Container, container_launcher, recorded_container
from labbook.rerun.recorded_environment import compare_environment, project_sources, recorded_variables, set_environment
from labbook.rerun.recorded_inputs import input_paths, prepare_inputs
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    from labbook.record.child.supervisor import ChildEnd

Notify = Callable[[Message], None]


@dataclass(frozen=True)
class Rerun:
    """A run that was run again.

    Args:
        code: Exit status of the command.
        stopped: Whether labbook got SIGINT or SIGTERM meanwhile, and passed it on to the command.
    """

    run: str
    code: int
    stopped: bool

    def check_not_stopped(self) -> None:
        """Ends a series of runs that the user has stopped.

        Raises:
            UsageError: It was stopped in this run.
        """
        if self.stopped:
            raise UsageError("errors.rerun.stopped", run=self.run, exit_code=130)


def read_run(notebook: Notebook, word: str) -> dict[str, Any]:
    """Returns the `run.json` of a run.

    Args:
        word: "last", an id, or its beginning or end.

    Raises:
        NothingFoundError: There is no such run.
        UsageError: Its data is missing or damaged.
    """
    entry = find_run(notebook, word)
    path = notebook.paths.attachments(entry.id) / "run.json"
    if entry.meta.get("status") == "running":  # its data is written when it ends
        raise UsageError("errors.rerun.not_ended", run=entry.id)
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError("errors.rerun.data_not_readable", run=entry.id, path=path) from error
    if not isinstance(data, dict):
        raise UsageError("errors.rerun.data_not_readable", run=entry.id, path=path)
    return data


@dataclass(frozen=True)
class RerunRequest:
    """How a run is run again.

    Args:
        more: Further words of the command.
        incomplete: Whether code is accepted of which the entry lacks a part.
        rebuild: Whether it runs in the recorded container image, or in an environment with the recorded packages.
        keep: Whether the worktree remains.
        requests: Requests to the probe, see `labbook.record.program_requests`; by default the one that stopped the
            recorded run, if any.
        change: Called with the folder of the code before the command starts.
        variables: Environment variables besides the recorded ones.
        tag: Tag of the new entry.
        quiet: Whether neither the recorder nor a comparison of the environments prints anything.
    """

    more: Sequence[str] = ()
    incomplete: bool = False
    rebuild: bool = False
    keep: bool = False
    requests: Mapping[str, object] | None = None
    change: Callable[[RecordedCode], None] = lambda code: None
    variables: Mapping[str, str] = field(default_factory=dict)
    tag: str = "rerun"
    quiet: bool = False


def rerun(
    notebook: Notebook,
    run: Mapping[str, Any],
    request: RerunRequest,
    *,
    print_line: Callable[[str], None],
    notify: Notify,
) -> Rerun:
    """Runs a recorded command again in a worktree, and records it.

    Args:
        notebook: The notebook of the run; the new run is recorded there, in the same experiment.
        run: The `run.json`.
        notify: Called with what differs before the command starts.

    Raises:
        UsageError: The code cannot be restored, or the command was masked or is missing.
        NotebookError: The environment cannot be built, or the run cannot be recorded.
    """
    from labbook.record.record_request import RecordRequest
    from labbook.record.session import record

    run = as_recorded(run, _first_recorded(notebook, run))
    created: list[str] = []
    started_in = Path.cwd()
    report = partial(_notify_each, notify)
    with recorded_code(notebook, run, incomplete=request.incomplete, keep=request.keep) as code:
        report([*code.notes, *prepare_inputs(run, code)])
        request.change(code)
        variables = {**recorded_variables(run, code), **request.variables}
        container, why = recorded_container(run) if request.rebuild else (None, [])
        report(why)
        packages = rebuild_environment(notebook, run, code) if request.rebuild and container is None else None
        report(packages.notes if packages is not None else ())
        programs = packages.programs if packages is not None else None
        sources = packages.sources if packages is not None else () if container else project_sources(run, code)
        command = rerun_command(run, code, request.more, programs)
        launcher = _container_launcher(notebook, run, container, code, variables) if container is not None else ()
        facts: dict[str, object] = {"rerun_of": run.get("id"), "rerun_in": str(run.get("cwd") or "")}
        facts |= {"container": container.facts} if container is not None else {}
        with set_environment(variables, programs, sources), _working_folder(code.cwd):
            report(compare_environment(run, command, code) if container is None and not request.quiet else ())
            end = record(
                RecordRequest(
                    tuple(command),
                    notebook.paths.root,
                    str(run.get("experiment") or ""),
                    tags=tuple(dict.fromkeys([*map(str, run.get("tags") or ()), request.tag])),
                    quiet=request.quiet,
                    requests=request.requests or _recorded_stop(run),
                    on_created=created.append,
                    started_in=started_in,
                    launcher=tuple(launcher),
                    facts=facts,
                ),
                print_line,
            )
    if not created or not notebook.paths.entry(created[0]).is_file():
        raise NotebookError("errors.rerun.no_entry")
    return Rerun(created[0], _status(end), bool(end.stopped))


def _notify_each(notify: Notify, notes: Iterable[Message]) -> None:
    for note in notes:
        notify(note)


def _container_launcher(
    notebook: Notebook, run: Mapping[str, Any], container: Container, code: RecordedCode, variables: Mapping[str, str]
) -> list[str]:
    has_gpus = bool(captured_facts(run, "hardware").get("gpus"))
    inputs = input_paths(run)
    return container_launcher(container, code, notebook.paths.root, variables, inputs, with_gpus=has_gpus)


def _first_recorded(notebook: Notebook, run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the run that a rerun of reruns began with: the worktree of a rerun is gone, and had links to its data."""
    seen = {run.get("id")}
    while (earlier := str(run.get("rerun_of") or "")) and earlier not in seen:
        seen.add(earlier)
        try:
            run = read_run(notebook, earlier)
        except LabbookError:
            break
    return run


def _recorded_stop(run: Mapping[str, Any]) -> dict[str, object]:
    """Returns the request that stopped the recorded run; empty if it ended by itself."""
    from labbook.record.program_requests import parse_requests

    stopped = (run.get("asked") or {}).get("stopped") or {}
    if stopped.get("option") == "max-steps" and isinstance(stopped.get("step"), int):
        return parse_requests(max_steps=stopped["step"])
    if stopped.get("option") == "stop-on" and stopped.get("expression"):
        return parse_requests(stop_on=[str(stopped["expression"])])
    return {}


def _status(end: ChildEnd) -> int:
    """Returns the exit status as a shell shows it."""
    if end.code is not None:
        return end.code
    return 128 + getattr(signal, end.signal, 0)


@contextlib.contextmanager
def _working_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(before)


@contextlib.contextmanager
def program_on_stderr() -> Iterator[None]:
    """Sends the output of programs to standard error, so that standard output has the result alone."""
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
