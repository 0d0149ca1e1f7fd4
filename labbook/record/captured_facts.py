"""Captures what is left after the command has ended, and adds all captured facts to the run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.capture.code.code_at_start import write_code_at_start
from labbook.capture.code.working_tree import PATCH_FILE
from labbook.capture.context import CaptureContext
from labbook.findings.watched_metric import trainer_goal
from labbook.model.events.process_kinds import FileItem
from labbook.model.events.training_kinds import FrameworkImported, Step
from labbook.model.message import as_data, message
from labbook.model.run import Facts, Frame, Framework, Process, Run
from labbook.model.run_code import source_path
from labbook.model.run_files import Artifact, FileUse
from labbook.probe.redaction.redactor import Redactor
from labbook.record.kept_files import file_items, keep_files
from labbook.record.run_from_journal.journal_reader import modules_used, variables_read
from labbook.record.run_from_journal.ranks import launched_job
from labbook.record.run_from_journal.successive_trainings import (
    join_logged_series,
    successive_trainings,
    training_phases,
)
from labbook.store.journal import Journal, ProcessEvents
from labbook.store.notebook import Notebook
from labbook.store.paths import check_stays_inside


def add_code_at_start(run: Run, journal: Journal, attachments: Path, redactor: Redactor) -> Run:
    """Adds copies of the source files as they were at the start, and quotes lines of tracebacks from these.

    Args:
        attachments: Folder of the patch of its code.
    """
    code = journal.read(journal.paths.before).get("code") or {}
    sources = {Path(name).expanduser(): name for name in run.sources}
    copies = write_code_at_start(sources, code, attachments / PATCH_FILE, run.started, journal.paths.code)
    if not copies:
        return run
    run = replace(run, copies={sources[file]: str(copy) for file, copy in copies.items()})
    exceptions = tuple(
        replace(one, frames=tuple(_quote_at_start(frame, run, redactor) for frame in one.frames))
        for one in run.exceptions
    )
    return replace(run, exceptions=exceptions)


def _quote_at_start(frame: Frame, run: Run, redactor: Redactor) -> Frame:
    if frame.file not in run.copies:
        return frame
    lines: list[str] = []
    with suppress(OSError):
        lines = source_path(run, frame.file).read_text("utf-8", "replace").splitlines()
    line = lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ""
    return replace(frame, source=redactor.text(line))


def add_captured(
    notebook: Notebook,
    journal: Journal,
    start: Facts,
    run: Run,
    processes: Sequence[ProcessEvents],
    redactor: Redactor,
    recorded: Sequence[ProcessEvents] = (),
) -> Run:
    """Adds the facts of the capture sources; `after.json` stores those of the end for a later recovery.

    Args:
        processes: Events of its processes, without those of its trials.
        recorded: All events as they are in the journal, by which calls of `labbook.keep()` are known.
    """
    from labbook.capture.processes import find_unobserved
    from labbook.capture.reproducibility import judge_reproducibility
    from labbook.capture.resources import read_resources

    before = journal.read(journal.paths.before)
    after: dict[str, Any] = journal.read(journal.paths.after)
    items = file_items(processes)
    journal.mask(_learn_from_files(items, redactor))
    if not after:
        context = capture_context(notebook, journal, start, redactor, _main_python(processes))
        linked_from = Path(start["rerun_in"]) if start.get("rerun_in") else None
        after = _capture_end(context, processes, items, linked_from)
        after["artifacts"] = keep_files(notebook, journal, context, run, recorded or processes)
        journal.write(journal.paths.after, after, durable=False)
        after = journal.read(journal.paths.after)  # as written: bytes that are not UTF-8 are replaced
    file_uses = tuple(FileUse(**f) for f in after.get("files") or ())
    artifacts = tuple(Artifact(**one) for one in after.pop("artifacts", ()))
    captured = {**before, **{k: v for k, v in after.items() if k not in ("files", "snapshot")}}
    captured = _add_variables(captured, redactor.data(variables_read(processes)))
    if start.get("container"):  # the recorder was outside of it
        captured["container"] = {**(captured.get("container") or {}), **start["container"]}
    parts = journal.parts()
    captured["resources"] = read_resources(parts[0].paths.resources)
    captured["reproducibility"] = judge_reproducibility(captured)
    run = join_logged_series(run, processes)
    facts = {**_rank_facts(journal, parts, start, run, processes), **_training_facts(run, processes)}
    captured |= redactor.data({name: value for name, value in facts.items() if value})
    if "watched" in run.captured:
        captured["watched"] = run.captured["watched"]
    if captured.get("trainings"):
        run = replace(run, frameworks=tuple(map(_without_earlier_models, run.frameworks)))
    if start.get("attempt_before"):
        captured["attempt"] = {"before": start["attempt_before"]}
    unobserved = [one for part in parts for one in find_unobserved(part.paths.resources)]
    return _add_unobserved(replace(run, files=file_uses, artifacts=artifacts, captured=captured), unobserved)


def _capture_end(
    context: CaptureContext, processes: Sequence[ProcessEvents], items: Sequence[FileItem], linked_from: Path | None
) -> dict[str, Any]:
    """Returns the facts of the sources that answer at the end, and the files that the run has used."""
    from labbook.capture.python_env import add_used_packages
    from labbook.capture.sources import capture_after
    from labbook.capture.used_files import summarize_files

    after: dict[str, Any] = dict(capture_after(context))
    after["python"] = add_used_packages(after.get("python") or {}, modules_used(processes), context.python)
    files = summarize_files(items, context.cwd, context.config, linked_from)
    after["files"] = [context.redactor.data(vars(file)) for file in files]
    return after


def _rank_facts(
    journal: Journal, parts: Sequence[Journal], start: Facts, run: Run, processes: Sequence[ProcessEvents]
) -> Facts:
    """Returns what the ranks did (`ranks`), and why and how the run ended (`ending`)."""
    from labbook.record.jobs.job_journal import JobJournal
    from labbook.record.run_from_journal.ending_events import standstill_facts
    from labbook.record.run_from_journal.rank_hangs import add_hang_at_stop
    from labbook.record.run_from_journal.roll_call import roll_call

    job = journal if isinstance(journal, JobJournal) else None
    whole = (job.tasks(), job.world, job.key) if job else ((), *launched_job(processes))
    ranks = roll_call(processes, *whole, stopped=run.status == "interrupted", console=run.console.text)
    ranks = add_hang_at_stop(ranks, processes, _first_stop(parts))
    ending = {**_explain_ending(journal, parts, start, run), **standstill_facts(run, processes, ranks)}
    return {"ranks": ranks, "ending": {**ending, **lost_node(ranks)}}


def _training_facts(run: Run, processes: Sequence[ProcessEvents]) -> Facts:
    """Returns the several trainings of the program (`trainings`), else the phases of its one training (`phases`)."""
    if goal := trainer_goal(run):
        run = replace(run, primary=goal.metric, direction=goal.direction)
    trainings = successive_trainings(run, processes)
    if trainings and not any(row["params"] for row in trainings["rows"]):
        trainings = successive_trainings(run, processes, _read_script(run))
    return {"trainings": trainings} if trainings else {"phases": training_phases(processes)}


def separate_results_of_code(run: Run, before: Mapping[str, Any]) -> Run:
    """Adds which changed files in the code's folder this run did not read, or are results of it or the previous one.

    Args:
        before: The `run.json` of the previous run of the script, empty if there is none.
    """
    from labbook.capture.code.untracked_files import separate_results
    from labbook.capture.reproducibility import judge_reproducibility
    from labbook.compare.run_settings import files_below_top, files_used
    from labbook.model.run_json import run_to_json

    code = run.facts("code")
    if not (code.get("untracked") or code.get("files_changed")):
        return run
    now = run_to_json(run)
    results = files_below_top(now, "written") | (files_below_top(before, "written") - files_below_top(now, "read"))
    captured = {**run.captured, "code": separate_results(code, results, files_used(now))}
    return replace(run, captured={**captured, "reproducibility": judge_reproducibility(captured)})


def _explain_ending(journal: Journal, parts: Sequence[Journal], start: Facts, run: Run) -> Facts:
    """Returns why the command ended, from the journals of its tasks, the deciding one first."""
    from labbook.capture.exit_cause import explain_exit

    end, lost = journal.read_ending(), None
    slurm: Facts = next(filter(None, (part.read_ending().get("slurm") for part in parts)), {})
    if not end or end.get("status"):  # the recorder died
        lost = {
            "stopped": _first_stop(parts),
            "last_seen": end.get("ended") or start.get("last_seen") or 0.0,
        }
    limits = (part.read(part.paths.start).get("time_limit") for part in parts)
    end = {**end, "slurm": slurm} if end else end
    return explain_exit(end, parts[0].paths.resources, run.started, next(filter(None, limits), {}), lost)


def _first_stop(parts: Sequence[Journal]) -> float:
    """Returns when a signal asked a task of a run to end first, Unix time (s); 0 if none did."""
    stops = (part.read(part.paths.stopped).get("t") for part in parts)
    return float(min(filter(None, stops), default=0.0))


def lost_node(ranks: Facts) -> Facts:
    """Returns `lost_node`, the evidence that a node was lost with all its ranks; empty without one."""
    from labbook.capture.slurm import read_node_state

    odd = ranks.get("odd") or {}
    if not odd.get("node"):
        return {}
    signs = [float(row.get("failed_at") or 0.0) for row in ranks["rows"] if row["rank"] in odd["ranks"]]
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(max(signs)))
    state = read_node_state(os.environ, odd["node"])
    key = "capture.ending.lost_node_state" if state else "capture.ending.lost_node"
    return {"lost_node": as_data(message(key, node=odd["node"], clock=clock, count=len(signs), state=state))}


def _read_script(run: Run) -> str:
    """Returns the text of the program, "" if it was edited since the run began."""
    from labbook.capture.command import find_program_file

    with suppress(OSError, ValueError):
        path = find_program_file(run.argv, Path(run.cwd)).path
        if path is not None and path.stat().st_mtime <= run.started:
            return path.read_text("utf-8")
    return ""


def _without_earlier_models(framework: Framework) -> Framework:
    """Returns a framework whose state has the elements of one model; those of earlier trainings may be alive, too."""
    sizes = {name: (framework.optimizers or ({},))[-1].get(name) for name in ("parameters", "trainable")}
    return replace(framework, state={**framework.state, **{n: v for n, v in sizes.items() if v is not None}})


def _add_variables(captured: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Returns the facts with the variables that the program read among those of the command."""
    command = captured.get("command")
    if not variables or not isinstance(command, Mapping) or "unavailable" in command:
        return dict(captured)
    known = command.get("environment")
    both = {**variables, **(known if isinstance(known, Mapping) else {})}
    return {**captured, "command": {**command, "environment": dict(sorted(both.items()))}}


def _add_unobserved(run: Run, pythons: Sequence[Mapping[str, Any]]) -> Run:
    """Adds the Python processes without a probe, so that missing events are not read as health."""
    if not pythons:
        return run
    missed = tuple(("Python process " + " ".join(p["argv"])[:200], str(p["reason"])) for p in pythons)
    unseen = tuple(
        Process(int(p["pid"]), int(p.get("ppid") or 0), tuple(p["argv"]), "unobserved", probed=False) for p in pythons
    )
    status = "absent" if run.probe.status == "absent" else "partial"
    probe = replace(run.probe, status=status, unobserved=run.probe.unobserved + missed)
    return replace(run, probe=probe, processes=run.processes + unseen)


def _main_python(processes: Sequence[ProcessEvents]) -> dict[str, Any]:
    """Returns the hello event of the process that trained, or of the command's own interpreter."""
    trained = next((p for p in processes if p.events_of_kind(Step)), None)
    imported = next((p for p in processes if p.events_of_kind(FrameworkImported)), None)
    chosen = trained or imported or next((p for p in processes if p.hello), None)
    return dict(chosen.hello) if chosen is not None else {}


def _learn_from_files(items: Sequence[Facts], redactor: Redactor) -> list[str]:
    """Makes the secrets in environment files that the program read known: it may have printed them without a name."""
    from labbook.store.recorder_redaction import secrets_in_file

    found = []
    for path in sorted({str(item.get("path")) for item in items}):
        with suppress(OSError, RuntimeError):
            found += secrets_in_file(Path(path).expanduser())
    redactor.learn(found)
    return found


def capture_context(
    notebook: Notebook, journal: Journal, start: Facts, redactor: Redactor, python: dict[str, Any]
) -> CaptureContext:
    """Returns what the capture sources read: command, folders, settings, the Python of the program.

    Raises:
        NotebookError: The folder of the entry leads out of the notebook.
    """
    from labbook.capture.context import CaptureContext

    attachments = notebook.paths.attachments(journal.run_id)
    check_stays_inside(attachments, notebook.paths.root)
    attachments.mkdir(parents=True, exist_ok=True)
    return CaptureContext(
        argv=tuple(start.get("argv") or ()),
        cwd=_working_folder(start, redactor),
        environ=dict(os.environ),
        config=notebook.config,
        attachments=attachments,
        python=python,
        notebook=notebook,
        redactor=redactor,
        in_container=bool(start.get("container")),
    )


def _working_folder(start: Facts, redactor: Redactor) -> Path:
    """Returns the command's working folder; the journal has only the masked path."""
    masked = str(start.get("cwd") or ".")
    here = Path.cwd()
    return here if redactor.text(str(here)) == masked else Path(masked).expanduser()
