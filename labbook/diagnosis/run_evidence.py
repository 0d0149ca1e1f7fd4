"""Collects the evidence of a recorded run: exceptions, output, health checks, its end, and the conditions it meets."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.diagnosis.catalogue.run_conditions import MARK
from labbook.diagnosis.cell_names import describe_missing_name
from labbook.diagnosis.finding_builder import locate_exception
from labbook.diagnosis.program_traits import both_ways, iter_traits, read_program_text
from labbook.diagnosis.text.ipynb import Cell, read_cells_until
from labbook.diagnosis.toml_data import compile_patterns
from labbook.model.events.data_kinds import Loader
from labbook.model.evidence import Evidence, ObservedException, ProcessEnd
from labbook.model.run import INTERRUPTS, CaughtException, Run, is_launcher_error, reports_child

_RE = compile_patterns(__file__)
_FAILED = ("failed", "killed", "lost")
_BROKEN = (
    *("ConnectionRefusedError", "ConnectionResetError", "ConnectionAbortedError"),
    *("BrokenPipeError", "EOFError", "FileNotFoundError"),
)
_LATER_STEPS = 10
_PYTHON, _SOURCES = (".py", "/*.py", "/*/*.py"), (".pyx", ".c", ".cc", ".cpp", ".cu")
"""What follows the path of a module that is written in Python, and of the source of one that must be compiled."""
_MOST_NOTEBOOK = 64 << 20


def _is_of_launcher(one: CaughtException | ObservedException) -> bool:
    worker = one.message.startswith("DataLoader worker") and "exited unexpectedly" in one.message
    return worker or one.type == "SystemExit" or is_launcher_error(one.type)


def collect_run_evidence(run: Run) -> Evidence:
    """The evidence of a run; only its health checks where it did not fail."""
    framework = next((f.name for f in run.frameworks if f.optimizers), "") or next((f.name for f in run.frameworks), "")
    is_wrong = any(check.verdict in ("fail", "warn") for check in run.checks)
    facts, code = _facts(run), read_program_text(run) if is_wrong or run.status in _FAILED else ""
    conditions = both_ways(iter_traits(run, code)).union(name for name, holds in _iter_conditions(run) if holds)
    if run.status not in _FAILED and not is_standstill(run):
        return Evidence(
            checks=run.checks, conditions=conditions, facts=facts, framework=framework, clean_end=True, code=code
        )
    odd = run.facts("ranks").get("odd") or {}
    # Where a rank was killed or crashed, the errors of all others only say that it has gone, and so do their ends.
    gone = odd.get("ranks", ()) if odd.get("kind") in ("killed", "lost") or _has_crashed(odd) else ()
    ending = _end_of_process(run, odd, gone)
    caught = [e for e in run.exceptions if e.type not in INTERRUPTS]
    if run.status == "interrupted":
        # Errors while a program is being stopped are no cause; a thread that died before may be.
        died = [e for e in caught if e.where == "thread" and ending.facts.get("reader_died")]
        raised = tuple(map(read_caught_exception, died))
        waits = _read_text(_lines_on_resources(run)).lines
        # Some libraries abort at the signal that stops the program.
        ending = replace(ending, signal="") if ending.signal == "SIGABRT" else ending
        return Evidence(raised, waits, ending, run.checks, conditions, facts, framework, code=code)
    raised = tuple(map(read_caught_exception, _exceptions_in_order(caught, odd, gone)))
    if raised and ending.facts.get("child_signal"):
        # The exception is about the child, or a consequence of its death.
        ending = replace(ending, facts={k: v for k, v in ending.facts.items() if k != "child_signal"})
    by_launcher = all(_is_of_launcher(one) and _is_of_launcher(one.inner or one) for one in raised)
    printed = _printed_evidence(run, by_launcher=by_launcher)
    if by_launcher and not gone:
        # What the child printed says more than its exit status.
        known = {(one.type, one.message[:200]) for one in raised}
        raised = (*(one for one in printed.exceptions if (one.type, one.message[:200]) not in known), *raised)
    elif odd.get("kind") in ("aborted", "apart", "broke", "killed"):
        # A library that aborted a rank printed why: the errors of all others only say that it has gone.
        order = min((one.order for one in raised), default=0.0)
        places = [locate_exception(one) for one in raised if one.rank is not None]
        is_one_place = len({(place.get("file"), place.get("line")) for place in places}) == 1
        frames = raised[0].frames if is_one_place else ()
        shape = _RE["enforced" if odd["kind"] == "killed" else "of_library"]
        thrown = (one for one in printed.exceptions if shape.search(one.type))
        raised = (*(replace(one, order=order, frames=frames or one.frames) for one in thrown), *raised)
    facts |= describe_missing_name(_cells(run) or _cells_of_tool(run, raised), raised)
    return Evidence(
        # An exception that the probe captured has more detail than its printed text.
        exceptions=raised,
        lines=printed.lines,
        ending=ending,
        checks=run.checks,
        conditions=conditions,
        facts=facts,
        framework=framework or printed.framework,
        code=code,
    )


def _end_of_process(run: Run, odd: Mapping[str, Any], gone: Sequence[int]) -> ProcessEnd:
    """How the command ended, or the rank that has gone before the others where that is known."""
    facts = {key: value for key, value in run.facts("ending").items() if value}
    if not gone or not (odd.get("signal") or odd.get("code")):
        return ProcessEnd(run.exit_code, run.signal, facts)
    place = {"where": {**odd["where"], "rank": gone[0]}} if odd.get("where") else {}
    return ProcessEnd(odd.get("code"), str(odd.get("signal") or ""), {**facts, **place})


def _exceptions_in_order(
    caught: Sequence[CaughtException], odd: Mapping[str, Any], gone: Sequence[int]
) -> list[CaughtException]:
    """The exceptions that may have ended a run, the first one first."""
    # An exception of a thread may be the reason why the main thread waits.
    ended = [e for e in caught if e.ended_process or e.where == "thread"] or caught
    if all(_is_of_launcher(e) or reports_child(e) for e in ended):
        # The notebook runner goes on after the error of a cell, then fails because of it. What reports the failure of
        # a task, or was raised from that report, comes behind the error of the task.
        ended = [replace(e, ended_process=True, t=0.0 if reports_child(e) else e.t) for e in caught]
        # The runner repeats the traceback of the cell, which would be evidence of another failure.
        said = [f"{e.type}: {e.message}" for e in ended if not is_launcher_error(e.type)]
        ended = [e for e in ended if e.type != "CellExecutionError" or not any(text in e.message for text in said)]
    of_gone = [e for e in ended if not gone or e.rank is None or e.rank in gone]
    if not of_gone or odd.get("signal") or odd.get("code") or not all(map(_is_of_launcher, of_gone)):
        # Else nothing shows how the rank ended: that the others miss it says more than their launcher.
        ended = of_gone
    # Where all ranks gave up waiting, that of the odd one counts as the first.
    apart = odd.get("ranks", ()) if odd.get("kind") in ("apart", "crossed") else ()
    ended = [replace(e, t=min(one.t for one in ended) - 1.0) if e.rank in apart else e for e in ended]
    return sorted(ended, key=lambda e: e.t)


def _printed_evidence(run: Run, *, by_launcher: bool) -> Evidence:
    """The evidence of what a run printed; of a notebook that fails, only of what its failed cells printed."""
    cells = run.facts("notebook").get("cells") or ()
    own = "\n".join(row["output"] for row in cells if by_launcher and row["state"] == "failed")
    return _read_text(own or run.console.text) if run.console.text.strip() else Evidence()


def _cells(run: Run) -> list[Cell]:
    """The cells of a recorded notebook; those that ran did so from the top to the bottom."""
    rows = run.facts("notebook").get("cells") or ()
    return [
        Cell(
            row["cell"],
            row.get("source", ""),
            None if row["state"] == "not_run" else row["cell"],
            row["state"] == "failed",
        )
        for row in rows
    ]


def _cells_of_tool(run: Run, raised: Sequence[ObservedException]) -> list[Cell]:
    """The cells of a notebook that another tool executed, as `jupyter execute`; empty where its file has changed."""
    path = Path(run.cwd, run.script)
    places = ((_RE["cell_place"].match(one.frames[-1].file), one.frames[-1].source) for one in raised if one.frames)
    place, line = next((pair for pair in places if pair[0]), (None, ""))
    if place is None or path.suffix != ".ipynb":
        return []
    with suppress(OSError):
        if path.stat().st_size <= _MOST_NOTEBOOK:
            return read_cells_until(path.read_bytes(), int(place[1]), line)
    return []


def _has_crashed(odd: Mapping[str, Any]) -> bool:
    """Whether the rank that failed first was ended by a signal, without an error of its own."""
    return odd.get("kind") in ("failed", "alike") and bool(odd.get("signal")) and not odd.get("error")


def is_standstill(run: Run) -> bool:
    """Whether a run made no progress when it was ended from outside: a standstill has a cause to find."""
    ended = run.facts("ending")
    known = any(map(ended.get, ("stalled", "reader_died", "time_limit")))
    return run.status == "interrupted" and bool(known or _lines_on_resources(run))


def _lines_on_resources(run: Run) -> str:
    """The lines in which a cluster says that it has not what a program asks for, of one that made no step."""
    lines = () if run.steps else run.console.text.splitlines()
    return "\n".join(line for line in lines if _RE["no_resources"].search(line))


def read_caught_exception(caught: CaughtException) -> ObservedException:
    """An exception that the probe captured; what its message quotes of another process becomes `inner`."""
    inner, message = split_quoted_exception(caught.type, caught.message)
    return ObservedException(
        type=caught.type,
        message=message,
        module=caught.module,
        frames=caught.frames,
        inner=inner,
        context=tuple((_read_link(caught, kind, text), relation) for kind, text, relation in _chain(caught)),
        rank=caught.rank,
        thread=caught.thread if caught.where == "thread" else "",
        order=caught.t,
        step=caught.step,
        ended_process=caught.ended_process or caught.where == "thread",
        tensors=caught.tensors,
        names=caught.names,
    )


def _read_link(caught: CaughtException, kind: str, text: str) -> ObservedException:
    """An exception of a chain; one that was raised again with the same message misses the same name."""
    again = (kind, text) == (caught.type, caught.message)
    return ObservedException(kind, text, names=caught.names if again else {})


def _chain(caught: CaughtException) -> tuple[tuple[str, str, str], ...]:
    """The chain of an exception, without the broken connections that reveal a dead worker."""
    if not caught.message.startswith("DataLoader worker"):
        return caught.chain
    return tuple(link for link in caught.chain if link[0] not in _BROKEN)


def split_quoted_exception(kind: str, message: str) -> tuple[ObservedException | None, str]:
    """The exception that a message quotes with its traceback, and the message without it."""
    if message[:1] in "'\"" and "\\n" in message:
        # The text of a KeyError is the repr of its key; here the key is the text of another error.
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            message = str(ast.literal_eval(message))
    if "Traceback (most recent call last)" not in message and " with message:" not in message:
        return None, message
    read = _read_text(f"{kind}: {message}").exceptions
    if whole := next((r for r in read if r.inner is not None), None):
        return whole.inner, whole.message
    return next((r for r in reversed(read) if r.message.strip() and r.type != kind), None), message


def _read_text(text: str) -> Evidence:
    # Only a failed run needs the log reader; loading it takes 0.1 s.
    from labbook.diagnosis.text.log_reader import read_text

    return read_text(text)


def _iter_conditions(run: Run) -> Iterator[tuple[str, bool]]:
    """The names of conditions, each with whether it is met."""
    states = [framework.state for framework in run.frameworks]
    wrong = {check.id for check in run.checks if check.verdict in ("fail", "warn")}
    changed = {change.kind for change in run.changes}
    hardware = run.facts("hardware")
    yield from (("first_step", bool(run.frameworks) and run.steps <= 1), ("later", run.steps > _LATER_STEPS))
    yield "memory_free", bool(run.facts("ending").get("memory_free"))
    yield "memory_rising", bool(wrong & {"memory_graph_retained", "host_memory_growth_workers"})
    yield "gpu_visible", bool(hardware.get("gpus"))
    yield "no_gpu", "gpus" in hardware and not hardware["gpus"]
    yield "container", bool(run.facts("container").get("kind"))
    yield "workers", any(loader.get("workers", 0) > 0 for loader in _loaders(run))
    odd = run.facts("ranks").get("odd") or {}
    waited_for = bool(odd.get("others")) and odd.get("kind") in ("elsewhere", "differs", "behind", "ended", "apart")
    yield from (("waited_for", waited_for), ("ended_early", waited_for and odd.get("kind") == "ended"))
    yield "one_rank", odd.get("kind") == "failed" and len(odd.get("ranks") or ()) == 1 and bool(odd.get("others"))
    at_once = any(check.id == "replica_divergence" and check.where.get("step") == 1 for check in run.checks)
    yield "began_apart", at_once and not any(signals.loop.get("wrapper", "") for signals in run.signals)
    yield "not_arrived", odd.get("kind") == "elsewhere"
    yield "other_call", bool(odd.get("places")) or odd.get("kind") in ("differs", "apart", "crossed")
    yield (
        "hung",
        waited_for or odd.get("kind") in ("scattered", "crossed") or bool(run.facts("ending").get("stalled")),
    )
    yield "compiled", run.mode == "compiled" or any(state.get("compiled") for state in states)
    yield from (("changed_code", "code" in changed), ("changed_packages", "package" in changed))
    yield "validation", run.steps > 0 and _is_evaluating(run)
    yield "smaller_batch", run.status in _FAILED and not _is_evaluating(run) and _is_at_smaller_batch(run)
    yield "fine_tune", any(_frozen(state) for state in states)
    flights = [signals.flight for signals in run.signals if signals.flight]
    missing, folders = list(_missing_modules(run)), _project_folders(run)
    yield "module_in_project", any(_lies_in(folders, _PYTHON, one.partition(".")[0]) for one in missing)
    yield "module_not_built", any(_lies_in(folders, _SOURCES, one.replace(".", "/")) for one in missing)
    yield "bad_batch", "nonfinite_input" in wrong
    on_gpu = any(device.get("kind") == "cuda" for framework in run.frameworks for device in framework.devices)
    yield "arrived_late", (late := on_gpu and any(flight.get("trigger") == "parameter" for flight in flights))
    yield "never_finite", any(flight.get("step") == 1 and flight.get("trigger") == "loss" for flight in flights)
    yield "known_at_once", bool(flights) and not late


def _missing_modules(run: Run) -> Iterator[str]:
    """The names of the modules whose import failed."""
    return (one[1] for raised in run.exceptions if (one := _RE["missing_module"].match(raised.message)))


def _project_folders(run: Run) -> list[Path]:
    """The folders of the run's project that exist on this machine: where it ran, the top of its code, `src` in both."""
    tops = [run.cwd, str(run.facts("code").get("top") or "")]
    folders = [Path(top).expanduser() for top in dict.fromkeys(tops) if top]
    return [part for folder in folders for part in (folder, folder / "src")]


def _lies_in(folders: Iterable[Path], endings: Iterable[str], module: str) -> bool:
    """Whether one of the folders has a file of a module: its path with one of the endings."""
    with suppress(OSError, RuntimeError, ValueError):
        return any(any(folder.glob(module + ending)) for folder in folders for ending in endings)
    return False


def _loaders(run: Run) -> Iterator[Loader]:
    for signals in run.signals:
        yield from signals.loaders


def _is_at_smaller_batch(run: Run) -> bool:
    """Whether the batch that failed is smaller than those before: a tensor of its line is, or it ends an epoch."""
    inputs = {
        tuple(leaf.get("shape", ()))
        for signals in run.signals
        for batch in signals.batches
        if batch.get("phase") == "train"
        for leaf in batch.get("leaves", [])
    }
    failed = [tuple(tensor.get("shape", ())) for raised in run.exceptions for tensor in raised.tensors]
    if any(
        one[1:] == usual[1:] and one[0] < usual[0]
        for one in failed
        for usual in inputs
        if min(len(one), len(usual)) > 1
    ):
        return True
    shuffled = [loader for loader in _loaders(run) if loader.get("shuffle") and not loader.get("drop_last")]
    sizes = [(loader.get("share") or loader.get("length") or 0, loader.get("batch_size") or 0) for loader in shuffled]
    return any(size and length % size and (run.steps + 1) % (length // size + 1) == 0 for length, size in sizes)


def _is_evaluating(run: Run) -> bool:
    """Whether a validation phase was under way when an exception ended its process: then it was written later."""
    ended = {e.pid: e.t for e in run.exceptions if e.where == "main" and e.ended_process}
    last = ((signals.pid, signals.evaluations[-1]) for signals in run.signals if signals.evaluations)
    return any(pid in ended and phase.get("t", 0.0) >= ended[pid] for pid, phase in last)


def _frozen(state: Mapping[str, Any]) -> bool:
    total, trainable = state.get("parameters"), state.get("trainable")
    return isinstance(total, int) and isinstance(trainable, int) and 0 < trainable < total


def _facts(run: Run) -> dict[str, Any]:
    """Values that the texts of fixes may use."""
    found: dict[str, Any] = {"script": run.script} if run.script else {}
    for loader in _loaders(run):
        if "batch_size" in loader:
            found.setdefault("batch_size", loader["batch_size"])
    rates = [value for one in run.series if (one.name, one.source) == ("lr", "probe") for value in one.values]
    options = [optimizer.get("options") or {} for framework in run.frameworks for optimizer in framework.optimizers]
    # A schedule, or the program, may change the rate that the optimizer was created with.
    if highest := [max(rates)] if rates else [o["lr"] for o in options if isinstance(o.get("lr"), (int, float))]:
        found["lr"] = f"{highest[0]:g}"
    return found | _label_facts(run)


def _label_facts(run: Run) -> dict[str, int]:
    """Labels and number of classes of the first loss with a label out of range."""
    losses = [loss for signals in run.signals for loss in signals.losses if loss.get("outside")]
    for loss in sorted(losses, key=lambda loss: loss.get("training") is False):
        target, classes = loss.get("target", {}), loss.get("classes")
        low, high = _as_int(target.get("min")), _as_int(target.get("max"))
        if low is None or high is None or classes is None:
            continue
        found = {"classes": classes, "label_low": low, "label_high": high}
        if low < 0 or high == MARK:
            return found | {"label_mark": low if low < 0 else MARK}
        # Where labels do not start at 0, the largest is not their number.
        return found | ({"classes_needed": high + 1} if low == 0 and high >= classes else {})
    return {}


def _as_int(number: float | None) -> int | None:
    return int(number) if number is not None and number == int(number) else None
