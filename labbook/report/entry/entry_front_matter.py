"""The front matter of an entry."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from labbook.model.run import Arguments, Run
from labbook.model.run_fields import flatten
from labbook.model.run_files import is_checkpoint, short_fingerprint
from labbook.report.entry.model_section import library_optimizer
from labbook.report.entry.printed_series import without_repeats
from labbook.report.numbers import listed_value, without_noise
from labbook.report.series_choice import (
    MEASURED_BY_PROBE,
    base_name,
    find_primary_series,
    is_of_batches,
    primary_direction,
    run_best,
    run_series,
)

ENTRY_SCHEMA = 1
_MAX_METRICS = 12
_MAX_COMMAND = 500
_MAX_NAME = 100
_MAX_TAGS = 50
_MAX_OUTPUTS = 32
_MAX_PARAMS = 40
_MAX_VALUE = 80
_IMPORTANT = re.compile(
    r"(?:^|[._-])(?:lr|bs|learning_?rate|batch_?size|epochs?|seed|optim\w{0,20}|opt|weight_?decay|wd|momentum|dropout"
    r"|model\w{0,20}|arch)(?:$|[._-])",
    re.IGNORECASE,
)
"""Names of options that people compare runs by."""


def entry_meta(run: Run, title: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the front matter with its keys in order.

    Args:
        before: Front matter of the entry on disk; tags, a fix and an author that people set are preserved.
    """
    code = run.facts("code")
    commit = str(code.get("commit") or "")
    overhead = run.probe.overhead_fraction
    return {
        "schema": ENTRY_SCHEMA,
        "id": run.id,
        "title": title,
        "experiment": run.experiment or None,
        **({"sweep": run.sweep} if run.sweep else {}),
        **_trial(run),
        **({"project": run.project} if run.project else {}),
        "status": run.status,
        "verdict": run.verdict or None,
        "verdict_reason": run.verdict_reason or None,
        "exit_code": run.exit_code,
        **_job(run, before),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.started)),
        "duration_s": round(run.duration_s, 1 if run.duration_s >= 1 else 3) if run.duration_s is not None else None,
        "command": shlex.join(run.argv)[:_MAX_COMMAND],
        "frameworks": [f"{f.name} {f.version}".strip() for f in run.frameworks],
        "mode": run.mode or None,
        **_optimizers(run),
        "host": run.host or None,
        "author": run.author or before.get("author") or None,
        "tags": _merge_lists(run.tags, before.get("tags")),
        "symptoms": list(run.symptoms),
        "families": list(run.families),
        "fingerprints": list(run.fingerprints),
        "fix": run.fix or before.get("fix") or None,
        "params": _params(run),
        "metric": run.primary or None,
        "direction": primary_direction(run) or None if run.primary else None,
        "metrics": _metrics(run),
        "code": {"commit": commit[:12], "dirty": bool(code.get("dirty")), "branch": str(code.get("branch") or "")}
        if commit or code.get("branch")
        else None,
        "previous": run.previous or None,
        **({"rerun_of": run.rerun_of} if run.rerun_of else {}),
        **_files(run),
        **({"imported_from": _source(run)} if run.imported_from else {}),
        "probe": {"status": run.probe.status if run.status != "running" else "running"}
        | ({"overhead_fraction": listed_value(overhead)} if overhead is not None else {}),
    }


def _files(run: Run) -> dict[str, Any]:
    """Returns what connects runs by their files, without empty values.

    `artifacts` counts the kept files, `outputs` has short fingerprints of what the run wrote, checkpoints and large
    files first, `parents` the runs that wrote what it read. Empty files are left out: they are all alike.
    """
    written = [use for use in run.files if use.mode != "read" and use.members == 1 and use.size_bytes > 0]
    written.sort(key=lambda use: (not is_checkpoint(use.path), -use.size_bytes, use.path))
    outputs = [short_fingerprint(text) for use in written for text in (use.fingerprint, use.samples) if text]
    # The state that labbook saved at the end was not written by the program.
    outputs += [short_fingerprint(one.digest) for one in run.artifacts if one.digest and is_checkpoint(one.path)]
    found = {
        "artifacts": sum(bool(artifact.digest) for artifact in run.artifacts),
        "outputs": list(dict.fromkeys(outputs))[:_MAX_OUTPUTS],
        "parents": list(dict.fromkeys(parent.run for parent in run.parents)),
        "resumed_from": run.resumed_from,
    }
    return {key: value for key, value in found.items() if value}


def _optimizers(run: Run) -> dict[str, Any]:
    """Returns types and learning rates of the optimizers, each once, by which runs are found; empty without any.

    The rate is the highest that was used: with a warm-up or OneCycleLR neither the first one nor that of the
    constructor says how the model was trained. Where no step was measured it is that of the constructor.
    """
    found = [library_optimizer(run, optimizer) for framework in run.frameworks for optimizer in framework.optimizers]
    types = dict.fromkeys(kind[:_MAX_NAME] for one in found if (kind := str(one.get("type") or "")))
    options = [facts for one in found if isinstance(facts := one.get("options"), Mapping)]
    used = [s for s in run.series if s.source == "probe" and base_name(s.name) == "lr"]
    given: list[Any] = [listed_value(max(s.high or s.values)) for s in used] or [
        facts[key] for facts in options for key in ("lr", "learning_rate") if key in facts
    ]
    rates = dict.fromkeys(without_noise(r) for r in given if isinstance(r, (int, float)) and math.isfinite(r))
    lists = {"optimizer": list(types)[:_MAX_TAGS], "lr": list(rates)[:_MAX_TAGS]}
    return {name: values for name, values in lists.items() if values}


def _job(run: Run, before: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the job of a run with several ranks, by which parts of it are found, and the attempt before a requeue.

    `ranks_missing` is empty where ranks were missing before.
    """
    ranks = run.facts("ranks")
    facts = {
        "job": ranks.get("job"),
        "ranks": ranks.get("world"),
        "ranks_missing": list(ranks.get("missing") or ()),
        "attempt_before": run.facts("attempt").get("before"),
    }
    return {name: value for name, value in facts.items() if value or (name == "ranks_missing" and name in before)}


def _trial(run: Run) -> dict[str, Any]:
    """Returns the run that a trial belongs to and its number there, or how many trials a run has."""
    trial, trials = run.captured.get("trial"), run.captured.get("trials")
    of = {"trial_of": trial["run"], "trial": trial["number"]} if trial else {}
    return of | ({"trials": len(trials["rows"])} if trials else {})


def _source(run: Run) -> dict[str, str]:
    """Returns where an imported run comes from; the digest shows whether it has grown since."""
    return {key: str(run.imported_from.get(key) or "") for key in ("tool", "path", "run", "digest")}


def _merge_lists(own: tuple[str, ...], theirs: object) -> list[str]:
    own = tuple(tag[:_MAX_NAME] for tag in own[:_MAX_TAGS])
    added = [str(t) for t in theirs if isinstance(t, (str, int, float))] if isinstance(theirs, list) else []
    if isinstance(theirs, str):
        added = [theirs]
    return list(dict.fromkeys([*added, *own] if set(own) <= set(added) else [*own, *added]))


def _params(run: Run) -> dict[str, float | int | str | bool | None]:
    """Returns the parsed options with defaults, for tables of runs; of two parsers, the first value.

    Of several trainings those that differ are those of the best one, which lists and comparisons show.

    Only values that fit a column: lists and paths are in the text of the entry. Of too many, those without a value and
    those that have their default are left out, learning rate, batch size and the like never.
    """
    found: dict[str, tuple[int, float | int | str | bool | None]] = {}
    of_library = names_of_library(run.arguments)
    for arguments in run.arguments:
        for name, value in flatten(arguments.values):
            if value is None or isinstance(value, (str, int, float)):
                is_own = bool(of_library) and name not in of_library
                rank = parameter_rank(name, value, arguments.is_default(name) and not is_own)
                if found.get(name[:_MAX_NAME], (0, None))[1] is None:
                    found[name[:_MAX_NAME]] = rank, _param(value)
    trainings = run.facts("trainings")
    rows, best = trainings.get("rows") or (), trainings.get("best")
    for name in {name for row in rows for name in row["params"] if name in found}:
        rank, _ = found.pop(name)
        if best is not None and name in rows[best]["params"]:
            found[name] = rank, _param(rows[best]["params"][name])
    kept = set(found)
    if len(found) > _MAX_PARAMS:
        chosen = [name for name in found if found[name][0] < UNCHANGED]
        kept = set(sorted(chosen, key=lambda name: found[name][0])[:_MAX_PARAMS])
    return {name: value for name, (_, value) in found.items() if name in kept}


UNCHANGED = 2
"""Rank of an option that has its default."""


def names_of_library(arguments: Sequence[Arguments]) -> set[str]:
    """Returns the names of the options that Transformers declares: a parser adds those of the program to them."""
    return {name for one in arguments if one.source == "transformers" for name in one.values}


def parameter_rank(name: str, value: object, is_default: bool) -> int:
    """Returns how little an option is missed if there are too many: 0 never, 3 first."""
    if value is None:
        return 3
    if _IMPORTANT.search(name[:_MAX_NAME]) and not isinstance(value, bool):
        return 0
    return UNCHANGED if is_default else 1


def _param(value: float | int | str | None) -> float | int | str | bool | None:
    if isinstance(value, str):
        return value[:_MAX_VALUE]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else without_noise(value)


def _metrics(run: Run) -> dict[str, Any]:
    """Returns first, best and last value of each metric, without step times and learning rates."""
    primary = find_primary_series(run)
    quiet = set(MEASURED_BY_PROBE) - {"loss"}
    chosen = [s for s in without_repeats(run, run_series(run)) if base_name(s.name) not in quiet]
    chosen.sort(key=lambda s: primary is None or s.name != primary.name)
    rows = {
        s.name[:_MAX_NAME]: {
            "first": _value(s.first),
            "best": _value(None if s is not primary and is_of_batches(s, run) else run_best(run, s)),
            "last": _value(s.last),
            "steps": s.count or len(s.values),
        }
        for s in chosen[:_MAX_METRICS]
    }
    trainings = run.facts("trainings")
    if primary is not None and primary.name == trainings.get("metric"):
        rows[primary.name[:_MAX_NAME]] |= _result_of_trainings(trainings)
    return rows


def _result_of_trainings(trainings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns first, best and last value of the best training, or of equal ones, as folds, their means."""
    result = trainings.get("mean", trainings.get("value"))
    if result is None:
        return {}
    chosen = trainings["rows"] if "mean" in trainings else [trainings["rows"][trainings["best"]]]
    values = {at: [row[at] for row in chosen if row.get(at) is not None] for at in ("first", "best", "last")}
    return {"best": _value(result)} | {at: _value(fmean(found)) for at, found in values.items() if found}


def _value(value: float | None) -> float | int | str | None:
    if value is None:
        return None
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    return listed_value(value)
