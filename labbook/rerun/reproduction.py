"""Compares a run with its rerun: is the result the same, and if not, since when and why?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from labbook.compare.run_changes import compare_runs
from labbook.compare.run_settings import captured_facts, list_rows
from labbook.frozen import dataclass
from labbook.model.confirmed_fix import describe_changes
from labbook.model.message import Message, message
from labbook.model.run import Change
from labbook.report.best_runs import least_significant

VERDICTS = ("identical", "within_noise", "different", "unknown")

_OF_THE_CLOCK = ("step_time", "time", "throughput", "speed", "per_second", "per_sec", "memory", "duration", "eta")
"""Parts of names of series that differ in every run: times, speeds and memory."""
_KINDS = {
    "code": "rerun.kind_code",
    "input": "rerun.kind_input",
    "argument": "rerun.kind_argument",
    "config": "rerun.kind_config",
    "command": "rerun.kind_command",
    "environment": "rerun.kind_environment",
    "package": "rerun.kind_package",
    "hardware": "rerun.kind_hardware",
}
"""Kinds of differences, the likeliest reason for another result first -> key of their name."""
_OF_EACH_STEP = frozenset({"loss", "lr"})
_SAME_LENGTH = 0.9
"""Two runs made other numbers of steps if the last step with a loss of one is below this share of the other's. Source:
chosen by us; the last step that the probe looked at varies by less."""
_FEW = 3
_FEWEST_REPEATS = 3
"""Fewest runs that measure a noise. Source: chosen by us; the interval of two runs is 13 standard deviations wide."""


@dataclass(frozen=True)
class FirstDifference:
    """Where two runs first differ.

    Args:
        before: The value in the recorded run, `None` if it has none at this step.
        now: The value in the rerun, likewise.
    """

    series: str
    step: int
    before: float | None
    now: float | None

    @property
    def relative(self) -> float:
        """Difference divided by the larger magnitude; infinite if one value is missing or not finite."""
        if self.before is None or self.now is None or not (math.isfinite(self.before) and math.isfinite(self.now)):
            return math.inf
        largest = max(abs(self.before), abs(self.now))
        return abs(self.before - self.now) / largest if largest else 0.0


@dataclass(frozen=True)
class Reproduction:
    """The verdict on a rerun.

    Args:
        verdict: One of `VERDICTS`.
        files: Number of written files with equal contents.
        printed: Whether all that was compared are printed numbers, which are rounded.
        first: The first difference, or `None`.
        reasons: The likeliest reasons, the likeliest first.
        noise: How the noise was measured, or `None`.
        end: How the rerun ended, if it ended otherwise, made another number of steps, or failed alike without results.
    """

    verdict: str
    values: int = 0
    series: tuple[str, ...] = ()
    files: int = 0
    printed: bool = False
    first: FirstDifference | None = None
    reasons: tuple[Message, ...] = ()
    noise: Message | None = None
    end: Message | None = None


def compare_results(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    repeats: Sequence[Mapping[str, Any]] = (),
    possible: Sequence[Message] = (),
) -> Reproduction:
    """Compares the results of two runs.

    Args:
        before: The `run.json` of the recorded run.
        now: The `run.json` of its rerun.
        repeats: Further runs of the same configuration; they measure the noise.
        possible: What in the code can give another result in each run, see `varying_code`.

    Returns:
        "identical" if both ended alike and every compared value is equal, as exactly as it is known; "within_noise" if
        the primary metric differs by no more than repeats do (95 %); "different" otherwise; "unknown" if nothing can be
        compared.
        Times, speeds and memory are not compared. The probe looks at some steps only, chosen by their cost: of its
        series the steps are compared that both runs have.
    """
    series = _compare_series(before, now)
    end = _other_end(before, now)
    same_end = end is None or end.key == "rerun.other_steps"
    equal_files, other_files = _compare_files(before, now)
    if not series.values and not equal_files and end is None:
        failure = _failure(now)
        if failure and failure == _failure(before):
            return Reproduction("identical", end=message("rerun.same_failure", failure=failure))
        return Reproduction("unknown")
    if end is None and series.first is None and not series.missing and not other_files:
        is_printed = series.printed and not equal_files
        return Reproduction("identical", series.values, series.names, equal_files, is_printed)
    noise = _judge_noise(before, now, repeats) if same_end else None
    verdict = "within_noise" if noise is not None else "different"
    reasons = tuple(_reasons(before, now, possible))
    return Reproduction(
        verdict, series.values, series.names, equal_files, series.printed, series.first, reasons, noise, end
    )


class _ComparedSeries(NamedTuple):
    """The series of two runs compared.

    Args:
        values: Number of values at steps that both have.
        names: Names of the series that both have.
        missing: Whether the rerun lacks a series that the program wrote.
        printed: Whether all that both have are printed numbers.
        first: The first difference, or `None`.
    """

    values: int
    names: tuple[str, ...]
    missing: bool
    printed: bool
    first: FirstDifference | None


def _compare_series(before: Mapping[str, Any], now: Mapping[str, Any]) -> _ComparedSeries:
    values, names = 0, []
    differences: list[tuple[bool, int, FirstDifference]] = []
    theirs = dict(_series(now))
    missing, printed = False, True
    for key, points in _series(before):
        name, source, _ = key
        sampled = source == "probe"
        if key not in theirs:
            missing = missing or not sampled
            continue
        names.append(name)
        printed = printed and source == "text"
        count, difference = _compare_points(name, points, theirs[key], sampled=sampled)
        values += count
        if difference is not None:
            # The probe counts steps of the optimizer; what the program logs may count epochs, from 0.
            differences.append((not sampled, difference.step, difference))
    first = min(differences, key=lambda one: one[:2])[2] if differences else None
    return _ComparedSeries(values, tuple(dict.fromkeys(names)), missing, printed, first)


def _other_end(before: Mapping[str, Any], now: Mapping[str, Any]) -> Message | None:
    """Returns how a rerun ended if the run ended otherwise or computed another number of losses."""
    if any(before.get(key) != now.get(key) for key in ("status", "exit_code", "signal")):
        return message("rerun.other_end", before=_end(before), now=_end(now))
    was, present = (
        {
            (row.get("function"), row.get("line")): row.get("calls")
            for row in list_rows(run.get("health") or {}, "losses")
        }
        for run in (before, now)
    )
    for key, calls in was.items():
        if calls and present.get(key) and present[key] != calls:
            return message("rerun.other_steps", function=str(key[0]), before=calls, now=present[key])
    return None


def _end(run: Mapping[str, Any]) -> Message:
    """Returns how a run ended, in words."""
    if run.get("status") == "finished":
        return message("rerun.end_finished")
    symptoms = [str(name) for name in run.get("symptoms") or ()]
    if symptoms:
        return message("rerun.end_symptom", symptom=symptoms[0])
    return message("rerun.end_failed", code=str(run.get("signal") or run.get("exit_code")))


def _failure(run: Mapping[str, Any]) -> str:
    """Returns the exception that ended a run, with its message, without the folder of the run; "" if none did."""
    raised = next((row for row in reversed(list_rows(run, "exceptions")) if row.get("ended_process")), None)
    return f"{raised.get('type')}: {raised.get('message')}".replace(f"{run.get('cwd')}/", "") if raised else ""


def _series(run: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, Any], list[tuple[int, float]]]]:
    for row in list_rows(run, "series"):
        name = str(row.get("name") or "")
        if any(part in name.lower() for part in _OF_THE_CLOCK):
            continue
        steps, values = row.get("steps") or (), row.get("values") or ()
        points = [(int(step), float(value)) for step, value in zip(steps, values, strict=False)]
        if points:
            yield (name, str(row.get("source") or ""), row.get("rank")), points


def _compare_points(
    name: str, before: Sequence[tuple[int, float]], now: Sequence[tuple[int, float]], *, sampled: bool
) -> tuple[int, FirstDifference | None]:
    """Returns the number of values at common steps, and the first difference; long series are stored in part."""
    theirs = dict(now)
    common = [(step, value, theirs[step]) for step, value in before if step in theirs]
    for number, (step, one, other) in enumerate(common):
        if one != other and not (one != one and other != other):
            return number + 1, FirstDifference(name, step, one, other)
    alone = {step for step, _ in before} ^ {step for step, _ in now}
    last, other = sorted(max(step for step, _ in points) for points in (before, now))
    if alone and (not sampled or (name in _OF_EACH_STEP and last < _SAME_LENGTH * other)):
        step = min(alone)
        return len(common), FirstDifference(name, step, dict(before).get(step), theirs.get(step))
    return len(common), None


def _compare_files(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the numbers of written files with equal and with other contents, of those fingerprinted whole.

    Only model weights count against a rerun: logs and archives have times in them.
    """
    theirs = {_path_in_code(now, row): row.get("fingerprint") for row in list_rows(now, "files")}
    equal = other = 0
    for row in list_rows(before, "files"):
        digest, path = str(row.get("fingerprint") or ""), _path_in_code(before, row)
        if "written" not in str(row.get("mode")) or not digest.startswith("sha256:") or path not in theirs:
            continue
        if theirs[path] == digest:
            equal += 1
        elif path.endswith((".safetensors", ".npy", ".pdparams")):
            other += 1
    return equal, other


def _path_in_code(run: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Returns the path of a file from the working folder of its run, which a rerun has elsewhere."""
    path = str(row.get("path") or "")
    return path.removeprefix(f"{run.get('cwd')}/")


def _primary(run: Mapping[str, Any]) -> float | None:
    """Returns the last finite value of the primary metric."""
    name = run.get("primary")
    for row in list_rows(run, "series"):
        if row.get("name") == name and row.get("rank") in (None, 0):
            values = [float(value) for value in row.get("values") or () if math.isfinite(float(value))]
            return values[-1] if values else None
    return None


def _judge_noise(
    before: Mapping[str, Any], now: Mapping[str, Any], repeats: Sequence[Mapping[str, Any]]
) -> Message | None:
    """Returns how the noise was measured, `None` if it is unknown or the difference is larger."""
    one, other = _primary(before), _primary(now)
    known = [value for run in repeats if (value := _primary(run)) is not None]
    if one is None or other is None or len(known) < _FEWEST_REPEATS or before.get("primary") != now.get("primary"):
        return None
    least = least_significant(statistics.stdev(known), len(known) - 1)
    if abs(one - other) > least:
        return None
    return message(
        "rerun.noise", metric=str(before.get("primary")), before=one, now=other, least=least, count=len(known)
    )


def _reasons(before: Mapping[str, Any], now: Mapping[str, Any], possible: Sequence[Message] = ()) -> Iterator[Message]:
    """Yields what can explain another result, the likeliest first; at most one of a kind."""
    imported = {str(name).lower().replace("_", "-") for run in (before, now) for name in run.get("packages") or ()}
    changes = [
        change
        for change in compare_runs(before, now)
        if change.kind in _KINDS and change.kind != "input" and not _is_unused_package(change, imported)
    ]
    inputs = _changed_inputs(before, now)
    for kind, name in _KINDS.items():
        of_kind = tuple(change for change in changes if change.kind == kind)
        what = ", ".join(inputs[:_FEW]) if kind == "input" else describe_changes(of_kind, _FEW)
        if what:
            yield message("rerun.reason_difference", kind=message(name), what=what)
    state = _state(now)
    if _state(before).get("seeded", True):
        # A rerun that fails before it sets its seed has the seed of the recorded program.
        state.pop("seeded", None)
    if not state.get("seeded", True):
        yield message("rerun.reason_seed")
    if state.get("nondeterministic"):
        yield message("rerun.reason_nondeterministic", what=str(state["nondeterministic"]))
    yield from possible
    if not changes and not inputs and not state and not possible:
        yield message("rerun.reason_unknown")


def _is_unused_package(change: Change, imported: set[str]) -> bool:
    """Whether a package came or went that neither run imported."""
    return change.kind == "package" and not (change.before and change.now) and change.what not in imported


def _changed_inputs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the inputs of a run whose content its rerun did not read; their paths may differ.

    A rerun that ended otherwise may not have come to a file: then one of the same name counts.
    """
    reached = {PurePosixPath(str(row.get("path"))).name for row in list_rows(now, "files")}
    is_cut = now.get("status") != before.get("status")
    theirs = {row.get("fingerprint") for row in list_rows(now, "files")} | {
        row.get("before") for row in list_rows(now, "files")
    }
    return [
        str(row.get("path"))
        for row in list_rows(before, "files")
        if str(row.get("mode")).startswith("read")
        and (digest := row.get("before") or row.get("fingerprint"))
        and digest not in theirs
        and (not is_cut or PurePosixPath(str(row.get("path"))).name in reached)
    ]


def _state(run: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the probe saw of seeds and of operations that are not deterministic."""
    found: dict[str, Any] = {}
    for framework in list_rows(run, "frameworks"):
        state = framework.get("state")
        if not isinstance(state, Mapping):
            continue
        if "seeds" in state and (state["seeds"] or {}).get(framework.get("name")) is None:
            found["seeded"] = False
        flags = state.get("deterministic")
        flags = flags if isinstance(flags, Mapping) else {}
        if flags.get("cudnn.benchmark"):
            found["nondeterministic"] = "cudnn.benchmark = True"
        elif captured_facts(run, "hardware").get("gpus") and not flags.get("use_deterministic_algorithms", True):
            found["nondeterministic"] = "use_deterministic_algorithms(False)"
    return found
