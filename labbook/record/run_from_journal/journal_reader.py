"""Builds one `Run` from a journal: events of the probes, the end of the command, its output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labbook.model.run import (
    Arguments,
    CaughtException,
    ConfigFile,
    Console,
    Frame,
    Framework,
    ProbeReport,
    Process,
    Run,
)
from labbook.probe.events import protocol
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.record.run_from_journal.request_events import fold_requests, was_stopped
from labbook.record.run_from_journal.series_events import fold_series
from labbook.record.run_from_journal.signal_events import fold_signals
from labbook.store.journal import ProcessEvents

Event = Mapping[str, Any]

_MAX_EXCEPTIONS = 20
_MAX_WARNINGS = 50
_MAX_MEMBERS = 16
_DEEPEST_GROUP = 6


def build_run(start: Event, end: Event, processes: Sequence[ProcessEvents], console: Console) -> Run:
    """Returns the run of a journal, without captured facts, changes and checks.

    Args:
        start: Content of `run.json`.
        end: Content of `end.json`; empty when the recorder died before the command ended.
        processes: Events of all processes of the run.
        console: The stored output.
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
        script=str(start.get("script", "")),
        author=str(start.get("author", "")),
        host=str(start.get("host", "")),
        console=console,
        notes=tuple(str(n) for n in (start.get("notes") or ())) + _notes(processes),
        tags=tuple(start.get("tags") or ()),
    )
    return _add_observations(run, processes, child_pid(start))


def child_pid(start: Event) -> int:
    """Returns the process id of the command, 0 if it is unknown."""
    pid = start.get("child_pid")
    return pid if isinstance(pid, int) else 0


def run_status(end: Event, processes: Sequence[ProcessEvents], pid: int) -> str:
    """Returns the status of a run: finished, failed, interrupted, killed or lost.

    Without `end` the recorder died. If the command's probe started and wrote no `bye`, the command was killed as well;
    otherwise its end is unknown, and the run is lost.
    """
    if not end:
        main = next((p for p in processes if p.hello.get("pid") == pid), None)
        return "killed" if main is not None and not main.of_kind(protocol.BYE) else "lost"
    code, signal = end.get("code"), str(end.get("signal") or "")
    if signal == "SIGKILL" or code == 137:
        return "killed"
    if signal in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") or code in (130, 143):
        return "interrupted"
    if code != 0 and was_stopped(processes):
        return "interrupted"
    return "finished" if code == 0 else "failed"


def _end_time(start: Event, end: Event, processes: Sequence[ProcessEvents]) -> float:
    if end.get("ended"):
        return float(end["ended"])
    last = [float(process.events[-1].get("t") or 0.0) for process in processes if process.events]
    return max([float(start.get("started") or 0.0), float(start.get("last_seen") or 0.0), *last])


def _add_observations(run: Run, processes: Sequence[ProcessEvents], pid: int) -> Run:
    frameworks = _frameworks(processes)
    return replace(
        run,
        frameworks=frameworks,
        mode=next((str(f.state["mode"]) for f in frameworks if f.state.get("mode")), "dynamic" if frameworks else ""),
        arguments=_arguments(processes),
        configs=_configs(processes),
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
        bye = (process.of_kind(protocol.BYE) or [{}])[-1]
        number = int(hello.get("pid") or 0)
        role = "fork" if hello.get("role") == "fork" else ("main" if number == pid else "child")
        elapsed = bye.get("elapsed_s")
        found.append(
            Process(
                pid=number,
                ppid=int(hello.get("ppid") or 0),
                argv=tuple(str(a) for a in hello.get("argv") or ()),
                role=role,
                executable=str(hello.get("executable") or ""),
                version=str(hello.get("version") or ""),
                rank=rank_of_process(process),
                steps=max([int(e.get("step") or 0) for e in process.of_kind(protocol.STEP)], default=0),
                elapsed_s=float(elapsed) if isinstance(elapsed, (int, float)) else None,
            )
        )
    return tuple(found)


def _exceptions(processes: Sequence[ProcessEvents]) -> tuple[CaughtException, ...]:
    found = [
        _exception(event, p.hello, rank_of_process(p)) for p in processes for event in p.of_kind(protocol.EXCEPTION)
    ]
    found.sort(key=lambda e: e.t)
    return tuple(found[:_MAX_EXCEPTIONS])


def _exception(event: Event, hello: Event, rank: int | None) -> CaughtException:
    step = event.get("step")
    return CaughtException(
        where=str(event.get("where") or "main"),
        type=str(event.get("type") or ""),
        module=str(event.get("module") or ""),
        message=str(event.get("message") or ""),
        frames=tuple(
            Frame(
                file=str(f.get("file") or ""),
                line=int(f.get("line") or 0),
                function=str(f.get("function") or ""),
                source=str(f.get("source") or ""),
                user=bool(f.get("user")),
            )
            for f in event.get("frames") or ()
        ),
        chain=tuple(
            (str(c.get("type") or ""), str(c.get("message") or ""), str(c.get("relation") or ""))
            for c in (*(event.get("chain") or ()), *_members(event.get("group") or ()))
        ),
        notes=tuple(str(n) for n in event.get("notes") or ()),
        thread=str(event.get("thread") or ""),
        pid=int(hello.get("pid") or 0),
        rank=rank,
        step=step if isinstance(step, int) else None,
        t=float(event.get("t") or 0.0),
        ended_process=bool(event.get("exit")),
        tensors=tuple(dict(one) for one in event.get("tensors") or () if isinstance(one, Mapping)),
    )


def _members(group: Sequence[Event], depth: int = 0) -> list[Event]:
    """Returns the exceptions of an exception group and of the groups inside it."""
    members: list[Event] = []
    for one in group if depth < _DEEPEST_GROUP else ():
        members += _members(one.get("group") or (), depth + 1) or [{**one, "relation": "member"}]
    return members[:_MAX_MEMBERS]


def _frameworks(processes: Sequence[ProcessEvents]) -> tuple[Framework, ...]:
    merged: dict[str, Framework] = {}
    # Processes that trained come last and win: an evaluation process sets no seeds and has no optimizer.
    for process in sorted(processes, key=lambda p: bool(p.of_kind(protocol.STEP))):
        for event in process.of_kind(protocol.FRAMEWORK):
            name = str(event.get("name") or "")
            merged.setdefault(name, _framework(name, event))
        for event in process.of_kind(protocol.STATE):
            name = str(event.get("framework") or "")
            if name in merged:
                merged[name] = replace(merged[name], state=_merge_state(merged[name].state, event))
        losses = _losses_by_optimizer(process.of_kind(protocol.STEP))
        for event in process.of_kind(protocol.OPTIMIZER):
            name = str(event.get("framework") or "")
            if name in merged:
                merged[name] = _add_optimizer(merged[name], {**event, **losses.get((name, event.get("index")), {})})
    merged = {name: _add_devices(framework) for name, framework in merged.items()}
    # A framework with an optimizer comes first: a program may import both and train with one.
    return tuple(sorted(merged.values(), key=lambda f: not f.optimizers))


def _framework(name: str, event: Event) -> Framework:
    return Framework(
        name=name,
        version=str(event.get("version") or ""),
        build=dict(event.get("build") or {}) | ({"threads": event["threads"]} if event.get("threads") else {}),
        devices=tuple(event.get("devices") or ()),
        declined=dict(event.get("declined") or {}),
    )


def _add_devices(framework: Framework) -> Framework:
    """Adds devices and cuDNN from the state: they are known only after the program has initialized CUDA."""
    devices, cudnn = framework.state.get("devices"), framework.state.get("cudnn")
    if not framework.devices and isinstance(devices, (list, tuple)):
        framework = replace(framework, devices=tuple(d for d in devices if isinstance(d, Mapping)))
    return replace(framework, build={**framework.build, "cudnn": cudnn}) if cudnn else framework


def _merge_state(state: Mapping[str, Any], event: Event) -> dict[str, Any]:
    merged = dict(state)
    for key, value in event.items():
        if key in ("v", "n", "t", "k", "framework") or value is None:
            continue
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = {**merged[key], **value} if both else value
    return merged


def _losses_by_optimizer(steps: Sequence[Event]) -> dict[tuple[str, Any], dict[str, Any]]:
    """Returns (framework, index of an optimizer) -> what is known of the losses of its steps.

    `summed`: how many backward passes a loss usually adds up, where that is more than one; `losses`: their names in the
    program, where these are known.
    """
    found: dict[tuple[str, Any], tuple[Counter[int], dict[str, None]]] = {}
    for event in steps:
        key = (str(event.get("framework") or ""), event.get("opt"))
        counts, names = found.setdefault(key, (Counter(), {}))
        summed, parts = event.get("summed"), event.get("parts")
        counts[summed if isinstance(summed, int) else 1] += 1
        names.update(dict.fromkeys(map(str, parts)) if isinstance(parts, Mapping) else {})
    told: dict[tuple[str, Any], dict[str, Any]] = {}
    for key, (counts, names) in found.items():
        usual = counts.most_common(1)[0][0]
        told[key] = ({"summed": usual} if usual > 1 else {}) | ({"losses": list(names)} if names else {})
    return told


def _add_optimizer(framework: Framework, event: Event) -> Framework:
    facts = {key: value for key, value in event.items() if key not in ("v", "n", "t", "k", "framework")}
    known = [dict(o) for o in framework.optimizers]
    # The same optimizer on several ranks is one optimizer of the run.
    if any(o.get("index") == facts.get("index") and o.get("type") == facts.get("type") for o in known):
        return framework
    return replace(framework, optimizers=(*framework.optimizers, facts))


def _arguments(processes: Sequence[ProcessEvents]) -> tuple[Arguments, ...]:
    found: list[Arguments] = []
    for process in processes:
        for event in process.of_kind(protocol.ARGUMENTS):
            values = event.get("values")
            if isinstance(values, Mapping) and values:
                parsed = Arguments(str(event.get("source") or ""), str(event.get("name") or ""), dict(values))
                if not any(a.source == parsed.source and a.values == parsed.values for a in found):
                    found.append(parsed)
    return tuple(found)


def _configs(processes: Sequence[ProcessEvents]) -> tuple[ConfigFile, ...]:
    found: dict[tuple[str, str], ConfigFile] = {}
    for process in processes:
        for event in process.of_kind(protocol.CONFIG):
            path, text = str(event.get("path") or ""), str(event.get("text") or "")
            found.setdefault(
                (path, text), ConfigFile(path, str(event.get("format") or ""), text, bool(event.get("truncated")))
            )
    return tuple(found.values())


def _warnings(processes: Sequence[ProcessEvents]) -> tuple[Event, ...]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for process in processes:
        for event in process.of_kind(protocol.WARNING):
            key = (event.get("category"), event.get("message"), event.get("file"), event.get("line"))
            found.setdefault(key, {k: event.get(k) for k in ("category", "message", "file", "line")})
    return tuple(list(found.values())[:_MAX_WARNINGS])


def _notes(processes: Sequence[ProcessEvents]) -> tuple[str, ...]:
    return tuple(str(e.get("text") or "") for process in processes for e in process.of_kind(protocol.NOTE))


def _probe_report(processes: Sequence[ProcessEvents]) -> ProbeReport:
    if not any(process.hello for process in processes):
        return ProbeReport("absent")
    unobserved: dict[tuple[str, str], None] = {}
    errors: dict[tuple[str, str], int] = {}
    for process in processes:
        for event in process.of_kind(protocol.UNOBSERVED):
            unobserved[(str(event.get("what") or ""), str(event.get("reason") or ""))] = None
        latest: dict[tuple[str, str], int] = {}
        for event in process.of_kind(protocol.PROBE_ERROR):
            latest[(str(event.get("where") or ""), str(event.get("error") or ""))] = int(event.get("count") or 1)
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
    byes = [bye for process in processes for bye in process.of_kind(protocol.BYE)]
    if not byes:
        return {}
    busiest = max(byes, key=lambda bye: (int(bye.get("steps") or 0), float(bye.get("elapsed_s") or 0.0)))
    spent, elapsed = float(busiest.get("overhead_s") or 0.0), float(busiest.get("elapsed_s") or 0.0)
    if elapsed <= 0:
        return {}
    overhead = {"overhead_fraction": spent / elapsed}
    sustained = busiest.get("sustained")
    if isinstance(sustained, Mapping) and float(sustained.get("elapsed_s") or 0.0) > 0:
        later = float(sustained.get("overhead_s") or 0.0)
        overhead |= {"setup_s": max(spent - later, 0.0), "sustained_s": later}
        overhead["sustained_fraction"] = later / float(sustained["elapsed_s"])
    return overhead
