"""Builds one `Run` from a journal: events of the probes, the end of the command, its output."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from labbook.model.events.process_kinds import (
    Bye,
    Config,
    Event,
    Files,
    Hello,
    LinkedException,
    Note,
    ProbeError,
    PythonWarning,
    Sources,
    UncaughtException,
    UnobservedSignal,
)
from labbook.model.events.training_kinds import FrameworkImported, Optimizer, State, Step
from labbook.model.run import (
    INTERRUPTS,
    CaughtException,
    ConfigFile,
    Console,
    Frame,
    Framework,
    ProbeReport,
    Process,
    Run,
)
from labbook.record.run_from_journal.option_events import read_options
from labbook.record.run_from_journal.ranks import exceptions_of, rank_of_process
from labbook.record.run_from_journal.request_events import fold_requests, was_stopped
from labbook.record.run_from_journal.series_events import fold_series, usual_passes
from labbook.record.run_from_journal.signal_events import fold_signals
from labbook.record.run_from_journal.training_order import steps_in_all
from labbook.store.journal import ProcessEvents, events_of_kind
from labbook.store.text.escape import terminal

Facts = Mapping[str, Any]

_GIVES_UP_S = 60.0
"""Time in which a command that was asked to end does so. Source: chosen by us."""

_MAX_EXCEPTIONS = 20
_MAX_SOURCES = 400
_MAX_WARNINGS = 50
_MAX_MEMBERS = 16
_DEEPEST_GROUP = 6


def build_run(start: Facts, end: Facts, processes: Sequence[ProcessEvents], console: Console) -> Run:
    """Returns the run of a journal, without captured facts, changes and checks.

    Args:
        start: Content of `run.json`.
        end: Content of `end.json`; empty when the recorder died before the command ended.
    """
    code = end.get("code")
    run = Run(
        id=str(start.get("id", "")),
        status=run_status(end, processes, child_pid(start)),
        argv=tuple(start.get("argv") or ()),
        cwd=str(start.get("cwd", "")),
        started=float(start.get("started") or 0.0),
        ended=_end_time(start, end, processes),
        exit_code=code if isinstance(code, int) else None,
        signal=str(end.get("signal") or ""),
        experiment=str(start.get("experiment", "")),
        sweep=str(start.get("sweep") or ""),
        script=str(start.get("script", "")),
        project=str(start.get("project", "")),
        author=str(start.get("author", "")),
        host=str(start.get("host", "")),
        console=console,
        notes=(
            *map(str, start.get("notes") or ()),
            *(note.get("text", "") for note in events_of_kind(processes, Note)),
        ),
        tags=tuple(start.get("tags") or ()),
        rerun_of=str(start.get("rerun_of") or ""),
    )
    return _add_observations(run, processes, child_pid(start))


def child_pid(start: Facts) -> int:
    """Returns the process id of the command, 0 if it is unknown."""
    pid = start.get("child_pid")
    return pid if isinstance(pid, int) else 0


def run_status(end: Facts, processes: Sequence[ProcessEvents], pid: int) -> str:
    """Returns the status of a run: finished, failed, interrupted, killed or lost.

    Without `end` the recorder died. If the command's probe started and wrote no `bye`, the command was killed as well;
    otherwise its end is unknown, and the run is lost.
    """
    if end.get("status"):
        return str(end["status"])  # of a job whose first task to fail lost its recorder
    if not end:
        main = next((p for p in processes if p.hello.get("pid") == pid), None)
        return "killed" if main is not None and not main.events_of_kind(Bye) else "lost"
    code, signal = end.get("code"), str(end.get("signal") or "")
    if signal == "SIGKILL" or code == 137:
        return "killed"
    if signal in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") or code in (130, 143):
        return "interrupted"
    if _ended_by_signal(end, processes, pid) or (code != 0 and was_stopped(processes)):
        return "interrupted"
    return "finished" if code == 0 else "failed"


def _ended_by_signal(end: Facts, processes: Sequence[ProcessEvents], pid: int) -> bool:
    """Whether the command got a Ctrl-C or SIGTERM and ended with a status of its own, be it 0, not by an error."""
    stopped, ended = end.get("stopped") or 0.0, end.get("ended") or 0.0
    main = next((process for process in processes if process.hello.get("pid") == pid), None)
    raised = main.events_of_kind(UncaughtException) if main is not None else []
    return bool(stopped) and ended - stopped < _GIVES_UP_S and all(e.get("type") in INTERRUPTS for e in raised)


def _end_time(start: Facts, end: Facts, processes: Sequence[ProcessEvents]) -> float:
    if end.get("ended"):
        return float(end["ended"])
    last = [process.events[-1].get("t", 0.0) for process in processes if process.events]
    return max([float(start.get("started") or 0.0), float(start.get("last_seen") or 0.0), *last])


def _add_observations(run: Run, processes: Sequence[ProcessEvents], pid: int) -> Run:
    frameworks = _frameworks(processes)
    return replace(
        run,
        frameworks=frameworks,
        mode=next((str(f.state["mode"]) for f in frameworks if f.state.get("mode")), "dynamic" if frameworks else ""),
        arguments=read_options(processes),
        configs=_configs(processes),
        sources=_first_names(file for event in events_of_kind(processes, Sources) for file in event.get("files", [])),
        packages=modules_used(processes)[1],
        series=fold_series(processes),
        asked=fold_requests(processes),
        signals=fold_signals(processes),
        exceptions=_exceptions(processes),
        warnings=_warnings(processes),
        processes=_processes(processes, pid),
        probe=_probe_report(processes),
    )


def _processes(processes: Sequence[ProcessEvents], pid: int) -> tuple[Process, ...]:
    found = []
    for process in processes:
        hello = process.hello
        if not hello:
            continue
        bye = next(reversed(process.events_of_kind(Bye)), Bye())
        number = hello.get("pid", 0)
        role = "fork" if hello.get("role") == "fork" else ("main" if number == pid else "child")
        found.append(
            Process(
                pid=number,
                ppid=hello.get("ppid", 0),
                argv=tuple(hello.get("argv", [])),
                role=role,
                executable=hello.get("executable", ""),
                version=hello.get("version", ""),
                rank=rank_of_process(process),
                steps=steps_in_all(process),
                elapsed_s=bye.get("elapsed_s"),
            )
        )
    return tuple(found)


def _exceptions(processes: Sequence[ProcessEvents]) -> tuple[CaughtException, ...]:
    found = [_exception(event, p.hello, rank_of_process(p)) for p in processes for event in exceptions_of(p)]
    found.sort(key=lambda e: e.t)
    return tuple(found[:_MAX_EXCEPTIONS])


def _raising_source(source: str, function: str) -> str:
    """Returns the line of a frame; "" for the first one of its own function, which a compiler gives for all."""
    return "" if re.match(rf"\s*(?:async\s+)?def\s+{re.escape(function.rpartition('.')[2])}\b", source) else source


def _exception(event: UncaughtException, hello: Hello, rank: int | None) -> CaughtException:
    return CaughtException(
        where=event.get("where") or "main",
        type=event.get("type", ""),
        module=event.get("module", ""),
        message=terminal(event.get("message", "")),  # Ray and others color theirs
        frames=tuple(
            Frame(
                file=f.get("file", ""),
                line=f.get("line", 0),
                function=f.get("function", ""),
                source=_raising_source(f.get("source", ""), f.get("function", "")),
                user=f.get("user", False),
            )
            for f in event.get("frames", [])
        ),
        chain=tuple(
            (c.get("type", ""), c.get("message", ""), c.get("relation", ""))
            for c in (*event.get("chain", []), *_members(event.get("group", [])))
        ),
        notes=tuple(event.get("notes", [])),
        thread=event.get("thread", ""),
        pid=hello.get("pid", 0),
        rank=rank,
        step=event.get("step"),
        t=event.get("t", 0.0),
        ended_process=event.get("exit", False),
        tensors=tuple(event.get("tensors", [])),
        names=event.get("names") or {},
    )


def _members(group: Sequence[LinkedException], depth: int = 0) -> list[LinkedException]:
    """Returns the exceptions of an exception group and of the groups inside it."""
    members: list[LinkedException] = []
    for one in group if depth < _DEEPEST_GROUP else ():
        members += _members(one.get("group", []), depth + 1) or [{**one, "relation": "member"}]
    return members[:_MAX_MEMBERS]


def _frameworks(processes: Sequence[ProcessEvents]) -> tuple[Framework, ...]:
    merged: dict[str, Framework] = {}
    # Processes that trained come last and win: an evaluation process sets no seeds and has no optimizer.
    for process in sorted(processes, key=lambda p: bool(p.events_of_kind(Step))):
        for imported in process.events_of_kind(FrameworkImported):
            name = imported.get("name", "")
            merged.setdefault(name, _framework(name, imported))
        for state in process.events_of_kind(State):
            name = state.get("framework", "")
            if name in merged:
                merged[name] = replace(merged[name], state=_merge_state(merged[name].state, state))
        losses = _losses_by_optimizer(process.events_of_kind(Step))
        for optimizer in process.events_of_kind(Optimizer):
            name = optimizer.get("framework", "")
            if name in merged:
                more = losses.get(optimizer.get("index", 0), {})
                merged[name] = _add_optimizer(merged[name], optimizer, more)
    merged = {name: _add_devices(framework) for name, framework in merged.items()}
    # A framework with an optimizer comes first: a program may import both and train with one.
    return tuple(sorted(merged.values(), key=lambda f: not f.optimizers))


def _framework(name: str, event: FrameworkImported) -> Framework:
    return Framework(
        name=name,
        version=event.get("version", ""),
        build=event.get("build", {}) | ({"threads": event["threads"]} if event.get("threads") else {}),
        devices=tuple(event.get("devices", [])),
        declined=event.get("declined", {}),
    )


def _add_devices(framework: Framework) -> Framework:
    """Adds devices and cuDNN from the state: they are known only after the program has initialized CUDA."""
    devices, cudnn = framework.state.get("devices"), framework.state.get("cudnn")
    if not framework.devices and isinstance(devices, (list, tuple)):
        framework = replace(framework, devices=tuple(d for d in devices if isinstance(d, Mapping)))
    return replace(framework, build={**framework.build, "cudnn": cudnn}) if cudnn else framework


def _merge_state(state: Facts, event: Facts) -> dict[str, Any]:
    merged = dict(state)
    for key, value in event.items():
        if key in Event.__annotations__:
            continue
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = {**merged[key], **value} if both else value
    return merged


def _losses_by_optimizer(steps: Sequence[Step]) -> dict[int, dict[str, Any]]:
    """Returns index of an optimizer -> what is known of the losses of its steps.

    `summed`: how many backward passes a loss usually adds up, where that is more than one; `losses`: their names in the
    program, where these are known.
    """
    names: dict[int, dict[str, None]] = {}
    for event in steps:
        names.setdefault(event.get("opt", 0), {}).update(dict.fromkeys(event.get("parts", {})))
    passes = usual_passes(steps)
    return {
        opt: ({"summed": passes[opt]} if passes[opt] > 1 else {}) | ({"losses": list(found)} if found else {})
        for opt, found in names.items()
    }


def _add_optimizer(framework: Framework, event: Optimizer, losses: Facts) -> Framework:
    facts = {key: value for key, value in event.items() if key not in Event.__annotations__} | dict(losses)
    known = [dict(o) for o in framework.optimizers]
    # The same optimizer on several ranks is one optimizer of the run.
    if any(o.get("index") == facts.get("index") and o.get("type") == facts.get("type") for o in known):
        return framework
    return replace(framework, optimizers=(*framework.optimizers, facts))


def _configs(processes: Sequence[ProcessEvents]) -> tuple[ConfigFile, ...]:
    """Returns the configuration files that were read, without results that another process of the run wrote before."""
    found: dict[tuple[str, str], ConfigFile] = {}
    written: dict[str, float] = {}
    for files in events_of_kind(processes, Files):
        for item in files.get("items", []):
            if "w" in item.get("mode", ""):
                written.setdefault(item.get("path", ""), files.get("t", 0.0))
    for event in events_of_kind(processes, Config):
        path, text = event.get("path", ""), event.get("text", "")
        if written.get(path, math.inf) >= event.get("t", 0.0):
            config = ConfigFile(path, event.get("format", ""), text, event.get("truncated", False))
            found.setdefault((path, text), config)
    return tuple(found.values())


def _first_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))[:_MAX_SOURCES]


def modules_used(processes: Sequence[ProcessEvents]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the installed modules that the user's code imports, and all that were loaded."""
    events = events_of_kind(processes, Sources)
    imported = _first_names(name for event in events for name in event.get("imported", []))
    return imported, _first_names(name for event in events for name in event.get("packages", []))


def variables_read(processes: Sequence[ProcessEvents]) -> dict[str, str]:
    """Returns the environment variables that the program and its packages read, by name."""
    read = [event.get("environment", {}) for event in events_of_kind(processes, Sources)]
    return {name: value for variables in read for name, value in variables.items()}


def _warnings(processes: Sequence[ProcessEvents]) -> tuple[Facts, ...]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for event in events_of_kind(processes, PythonWarning):
        key = (event.get("category"), event.get("message"), event.get("file"), event.get("line"))
        found.setdefault(key, {k: event.get(k) for k in ("category", "message", "file", "line", "own")})
    return tuple(list(found.values())[:_MAX_WARNINGS])


def _probe_report(processes: Sequence[ProcessEvents]) -> ProbeReport:
    if not any(process.hello for process in processes):
        return ProbeReport("absent")
    unobserved: dict[tuple[str, str], None] = {}
    errors: dict[tuple[str, str], int] = {}
    stepped = any(process.events_of_kind(Step) for process in processes)
    for process in processes:
        for event in process.events_of_kind(UnobservedSignal):
            if not (stepped and event.get("what") == "training steps"):  # the parent of processes that train
                unobserved[(event.get("what", ""), event.get("reason", ""))] = None
        latest: dict[tuple[str, str], int] = {}
        for error in process.events_of_kind(ProbeError):
            latest[(error.get("where", ""), error.get("error", ""))] = error.get("count") or 1
        for key, count in latest.items():
            errors[key] = errors.get(key, 0) + count
    broken = sum(process.broken_lines for process in processes)
    if broken:
        errors[("journal", "damaged lines; the last line of a killed process may be incomplete")] = broken
    return ProbeReport(
        status="partial" if errors or unobserved else "ok",
        **_overhead(processes),
        unobserved=tuple(unobserved),
        errors=tuple((where, error, count) for (where, error), count in errors.items()),
    )


def _overhead(processes: Sequence[ProcessEvents]) -> dict[str, float]:
    """Returns the probe's overhead in the process with the most steps, as fields of `ProbeReport`."""
    byes = events_of_kind(processes, Bye)
    if not byes:
        return {}
    busiest = max(byes, key=lambda bye: (bye.get("steps", 0), bye.get("elapsed_s", 0.0)))
    spent, elapsed = busiest.get("overhead_s", 0.0), busiest.get("elapsed_s", 0.0)
    if elapsed <= 0:
        return {}
    overhead = {"overhead_fraction": spent / elapsed}
    sustained = busiest.get("sustained", {})
    if sustained.get("elapsed_s", 0.0) > 0:
        later = sustained.get("overhead_s", 0.0)
        overhead |= {"setup_s": max(spent - later, 0.0), "sustained_s": later}
        overhead["sustained_fraction"] = later / sustained["elapsed_s"]
    return overhead
