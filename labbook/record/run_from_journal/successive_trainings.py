"""Compares several trainings that a program did, one after another or in a pool of processes. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import fmean, median_high
from typing import Any, cast

from labbook.model.events import KIND_NAMES
from labbook.model.events.data_kinds import Loader
from labbook.model.events.process_kinds import Arguments, Event, UncaughtException
from labbook.model.events.training_kinds import Optimizer, Scalars, Step
from labbook.model.metric_kinds import choose_metric, metric_kind
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.record.run_from_journal.option_events import OF_EACH_TRAINING
from labbook.record.run_from_journal.script_loops import REPEATS, repeated_values
from labbook.record.run_from_journal.training_order import Phase, Training, count_steps, find_trainings, phases_in_turn
from labbook.record.run_from_journal.trial_parts import TrialPart, split_labelled
from labbook.report.numbers import listed_value
from labbook.report.series_choice import ends_with_mean, find_primary_series, primary_direction, run_best
from labbook.store.journal import ProcessEvents

_MOST = 1000
_OPTIMIZER, _EXCEPTION = KIND_NAMES[Optimizer], KIND_NAMES[UncaughtException]
_ARGUMENTS, _SETTINGS = KIND_NAMES[Arguments], ("dict", "attributes", "omegaconf", *OF_EACH_TRAINING)
_SIZES_OF_A_LOADER = 2
_LARGER = 1.1
"""Ratio of sizes of models or batches from which they differ on purpose, not by the data of a fold. Source: chosen by
us."""


def successive_trainings(run: Run, processes: Sequence[ProcessEvents], script: str = "") -> dict[str, Any]:
    """Returns the trainings of a program that trained several models; empty for any other.

    The optimizers of a GAN or of an actor and its critic take turns, and fine-tuning goes on with the same model: these
    are one training. With several ranks, those of the first process that trained count.

    Args:
        run: The run with its series.
        script: Text of the program.

    Returns:
        `metric`: what the program reports of each training, else "loss"; `once`: whether that is one value a training.
        `second`: the name of the series with the loss of the second one.
        `rows`, one a training: `number`, `params` (options of the optimizer, dropout, sizes of model and batch, values
        of loops around it that differ), `steps`, `first`, `best`, `last`, `duration_s`. If they differ, `best`: the
        number of the best training, `value`: its value, `series`: the name of the series with its loss. Equal ones
        (folds, seeds) have `mean`, `low` and `high`.
    """
    found = find_trainings(processes)[:_MOST]
    if not found:
        return {}
    is_pool = found[0].is_of_thread or any(one.process is not found[0].process for one in found)
    options = _differing_options(found, "" if is_pool else script, in_turn=not is_pool)
    losses = {series.name: series for series in run.series if series.source == "probe"}
    # A pool reports its results in any order.
    nothing: tuple[str, list[Series], float | None] = ("", [], None)
    metric, reported, mean = nothing if is_pool else _find_reported_metric(run, _logged_in_each(found), len(found))
    is_once = bool(reported) and all(len(series.values) == 1 for series in reported)
    rows: list[dict[str, Any]] = []
    for number, one in enumerate(found):
        own, counts = reported[number] if reported else losses.get(one.loss_name), count_steps(one.process)
        rows.append(
            {
                "number": number,
                "params": options[number],
                "steps": sum(max(counts.get(o.get("index", 0), 0) for o in phase.optimizers) for phase in one.phases),
                "first": own.first if own is not None else None,
                "best": None if own is None else own.last if is_once else run_best(run, own),
                "last": own.last if own is not None else None,
                "duration_s": max(0.0, one.phases[-1].end - one.begin),
            }
        )
    is_search = any(options) and all(row["best"] is not None for row in rows)
    results: list[float | None] = [row["best" if is_search or not reported else "last"] for row in rows]
    values = [value for value in results if value is not None and math.isfinite(value)]
    facts = {"metric": metric or "loss", "once": is_once, "second": found[1].loss_name, "rows": rows}
    if len(values) < len(rows):
        return facts
    if not any(options):
        return {**facts, "mean": fmean(values) if mean is None else mean, "low": min(values), "high": max(values)}
    direction = primary_direction(run) if reported else "min"
    if not direction:
        return facts
    best = (max if direction == "max" else min)(range(len(values)), key=lambda at: listed_value(values[at]))
    return {**facts, "best": best, "value": values[best], "series": found[best].loss_name}


def join_logged_series(run: Run, processes: Sequence[ProcessEvents]) -> Run:
    """Returns the run with what several trainings logged under the same steps as the values of one after another."""
    found = find_trainings(processes)[:_MOST]
    if not found or found[0].is_of_thread or any(one.process is not found[0].process for one in found):
        return run
    logged = _logged_in_turn(found)

    def join(series: Series) -> Series:
        parts = [] if series.source in ("probe", "text") else logged.get(series.name, [])
        values = [value for part in parts for value in part]
        if len(values) <= len(series.values) or sum(map(bool, parts)) < 2:
            return series
        starts = tuple(accumulate(map(len, parts[:-1]), initial=0))
        steps = range(1, len(values) + 1)
        joined = Series.of_values(series.name, series.source, steps, values, starts=starts, axis="number")
        return replace(joined, rank=series.rank)

    return replace(run, series=tuple(map(join, run.series)))


def _differing_options(trainings: Sequence[Training], script: str, *, in_turn: bool) -> list[dict[str, Any]]:
    """Returns the options of each training that are not those of all.

    Args:
        script: Text of the program, by which the values of its loops are known; "" if they are not those of the
            trainings in their order.
        in_turn: Whether one training ends before the next one begins, so that its settings are known by their time.
    """
    options = [{"model": one.last_optimizer.get("root", ""), **_plain_options(one.last_optimizer)} for one in trainings]
    measured = {"parameters": _model_sizes, "batch_size": _batch_sizes, "samples": _data_sizes}
    for name, sizes in ((name, measure(trainings)) for name, measure in measured.items()):
        if min(sizes) > 0 and max(sizes) > _LARGER * min(sizes):
            options = [{**each, name: size} for each, size in zip(options, sizes, strict=True)]
    kinds = {one.last_optimizer.get("type", "") for one in trainings}
    looped = repeated_values(script, min(kinds), len(trainings)) if script and len(kinds) == 1 else []
    if looped:
        options = [{**ours, **each} for each, ours in zip(options, looped, strict=True)]
    differing = _differing_names(options)
    if in_turn and differing:  # settings alone, as the number of a fold or a path, make no trial
        settings = _settings_of_each(trainings)
        options = [
            {**each, **{n: own[n] for n in own if n not in each}} for each, own in zip(options, settings, strict=True)
        ]
        differing = _differing_names(options)
    return [{name: each[name] for name in differing if name in each} for each in options]


def _differing_names(options: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for name in dict.fromkeys(name for each in options for name in each) if _is_differing(name, options)]


def _settings_of_each(trainings: Sequence[Training]) -> list[dict[str, Any]]:
    """Returns the plain values of the settings at the end of each training; what did not change is not in an event."""
    events = [event for event in trainings[0].process.events if event.get("k") == _ARGUMENTS]
    found: list[dict[str, Any]] = []
    for one in trainings:
        sources: dict[tuple[str, str], Mapping[str, Any]] = {}
        for event in (cast("Arguments", each) for each in events if each.get("t", 0.0) <= one.phases[-1].end):
            if event.get("source") in _SETTINGS:
                sources[event.get("source", ""), event.get("name", "")] = event.get("values", {})
        own = {name: value for values in sources.values() for name, value in values.items()}
        found.append({name: value for name, value in own.items() if _is_option(name, value)})
    return found


def _is_option(name: str, value: object) -> bool:
    """Whether a setting may say how a model is trained: not a seed, the number of a fold or a path."""
    is_path = isinstance(value, str) and "/" in value
    return isinstance(value, (int, float, str)) and not is_path and REPEATS.fullmatch(name) is None


def _is_differing(name: str, options: Sequence[Mapping[str, Any]]) -> bool:
    """Whether trainings have other values of an option; what only one kind of optimizer has says no more than its kind.

    Args:
        options: The options of each training.
    """
    has_it = [each for each in options if each.get(name, False) is not False]  # a state that is loaded adds defaults
    is_of_kind = len({each["optimizer"] for each in options}) > 1
    return len({str(each[name]) for each in has_it}) > 1 or (0 < len(has_it) < len(options) and not is_of_kind)


def trainings_as_trials(run: Run, processes: Sequence[ProcessEvents]) -> list[TrialPart]:
    """Returns the trainings of a program that tried several options, each with the events that are known to be its own.

    These are its steps and what was logged during them. Folds and seeds, whose options are alike, are no trials. An
    error of a process is of its last one if that made fewer steps than any other.

    Args:
        run: The run with its `trainings`.
    """
    facts = run.facts("trainings")
    rows: Sequence[Mapping[str, Any]] = facts.get("rows") or ()
    if not any(row["params"] for row in rows):
        return []
    found = find_trainings(processes)[: len(rows)]
    last = {id(one.process): at for at, one in enumerate(found)}
    has_ended = [
        at not in last.values()
        or run.status == "finished"
        or rows[at]["steps"] >= min(row["steps"] for row in rows if row is not rows[at])
        for at in range(len(found))
    ]
    parts = {at: one.process for at, one in enumerate(found) if one.is_whole}
    for process in {id(one.process): one.process for one in found if not one.is_whole}.values():
        own = {at: one for at, one in enumerate(found) if one.process is process}
        parts.update(_split(process, own, has_ended[last[id(process)]]))
    is_reported = facts["metric"] != "loss"
    return [
        TrialPart(
            ("", "", at + 1),  # as the table of trainings counts them
            rows[at]["params"],
            "complete" if has_ended[at] else "",
            (rows[at]["last"] if rows[at]["best"] is None else rows[at]["best"],) if is_reported else (),
            (),
            one.begin,
            one.phases[-1].end,
            (parts[at],),
            together=one.is_of_thread,
            result=facts["metric"],
        )
        for at, one in enumerate(found)
    ]


def _split(process: ProcessEvents, own: Mapping[int, Training], has_ended: bool) -> dict[int, ProcessEvents]:
    """Returns the events of each training of a process; an error is of the last one unless that has ended."""
    labels = {at: label for label, at in enumerate(own, 1)}
    of_optimizer = {o.get("index", 0): labels[at] for at, one in own.items() for p in one.phases for o in p.optimizers}
    is_in_turn = not any(one.is_of_thread for one in own.values())
    during = _logged_during(process, [one.phases for one in own.values()]) if is_in_turn else ()
    logged = {id(event): label for label, events in enumerate(during, 1) for event in events}
    marked: list[Event] = []
    for event in process.events:
        label = logged.get(id(event), 0)
        if event.get("k") == _OPTIMIZER:
            label = of_optimizer.get(cast(Optimizer, event).get("index", -1), 0)
        elif event.get("k") == _EXCEPTION and not has_ended:
            label = len(own)
        marked.append(cast(Event, {**event, "trial": label}) if label else event)
    _, parts = split_labelled(replace(process, events=tuple(marked)), labels.values())
    return {at: parts[label] for at, label in labels.items()}


def _logged_during(process: ProcessEvents, trainings: Sequence[Sequence[Phase]]) -> list[list[Scalars]]:
    """Returns for each training what was logged from its first step until the next training.

    What was also logged before the first training may be the state in which each one begins: between two trainings it
    is left out.
    """
    begins = [phases[0].optimizers[0].get("t", 0.0) for phases in trainings]
    found: list[list[Scalars]] = [[] for _ in trainings]
    early: set[str] = set()
    for event in process.events_of_kind(Scalars):
        t, names = event.get("t", 0.0), set(event.get("values", {}))
        at = bisect_right(begins, t) - 1
        if at < 0:
            early |= names
        elif t <= trainings[at][-1].end or not names & early:
            found[at].append(event)
    return found


def _logged_in_turn(trainings: Sequence[Training]) -> dict[str, list[list[float]]]:
    """Returns name -> what each training logged under it; all are of one process."""
    found: dict[str, list[list[float]]] = {}
    for at, events in enumerate(_logged_during(trainings[0].process, [one.phases for one in trainings])):
        for name, value in (pair for event in events for pair in event.get("values", {}).items()):
            found.setdefault(name, [[] for _ in trainings])[at].append(value)
    return found


def _logged_in_each(trainings: Sequence[Training]) -> dict[str, list[list[float]]]:
    return {name: values for name, values in _logged_in_turn(trainings).items() if all(values)}


def _model_sizes(trainings: Sequence[Training]) -> list[int]:
    """Returns the number of parameters of each training, 0 where unknown."""
    return [sum(o.get("parameters", 0) for o in one.phases[-1].optimizers) for one in trainings]


def _batch_sizes(trainings: Sequence[Training]) -> list[int]:
    """Returns the usual number of samples of a step of each training, 0 where unknown.

    It is unknown where it is none that a loader was given: of data that are fewer than a batch, or of several forwards.
    """
    sizes: list[int] = []
    given: set[int] = set()
    for one in trainings:
        index = one.last_optimizer.get("index", 0)
        steps = one.process.events_of_kind(Step)
        found = [size for step in steps if step.get("opt", 0) == index and (size := step.get("samples", 0))] or [0]
        # Of two sizes the smaller one is that of the last batch of each epoch.
        sizes.append(int(max(found) if len(set(found)) <= _SIZES_OF_A_LOADER else median_high(found)))
        given |= {size for loader in one.process.events_of_kind(Loader) if (size := loader.get("batch_size", 0))}
    return [size if not given or size in given else 0 for size in sizes]


def _data_sizes(trainings: Sequence[Training]) -> list[int]:
    """Returns the samples of the loader that each training began with, 0 where unknown.

    A loader is known by its first iteration, just before the first step.
    """
    sizes: list[int] = []
    after = -math.inf
    for one in trainings:
        loaders = one.process.events_of_kind(Loader)
        own = [loader for loader in loaders if after < loader.get("t", 0.0) <= one.begin]
        sizes.append(own[-1].get("length", 0) if own else 0)
        after = one.begin
    return sizes


def training_phases(processes: Sequence[ProcessEvents]) -> dict[str, Any]:
    """Returns the phases of a program that trains with one optimizer after another; empty for any other.

    Returns:
        `count`: how many, at least 2. `series`: the name of the series with the loss of the last one. `several`:
        whether a later one trains another model than the first one.
    """
    trained = next((process for process in processes if process.events_of_kind(Step)), None)
    phases = phases_in_turn(trained) if trained is not None else []
    if len(phases) < 2:
        return {}
    several = any(phase.models - phases[0].models for phase in phases)
    return {"count": len(phases), "series": "loss" + phases[-1].suffix, "several": several}


def _find_reported_metric(
    run: Run, logged: Mapping[str, Sequence[Sequence[float]]], count: int
) -> tuple[str, list[Series], float | None]:
    """Returns the name of the metric that the program reports of each training, its values there, and its printed mean.

    That is the primary metric, or where that has several values a training, the best one of held-out data that has one,
    else the primary one, logged, or printed where its epochs begin anew, in each training. The last value of a training
    is its result. `logged` has what was logged in each training: equal steps are one point of a series.
    """
    primary = find_primary_series(run)
    if primary is None or primary.source == "probe":
        return "", [], None
    kinds = {s.name: metric_kind(s.name) for s in run.series}
    printed = {
        s.name: s
        for s in run.series
        if s.source == "text" and (kinds[s.name].running_best or not kinds[s.name].is_training)
    }
    others = [name for name, series in printed.items() if len(series.values) == count]
    others = others or [
        s.name
        for s in run.series
        if s.source == "text" and kinds[s.name].split != "train" and len(s.values) == count + 1 and ends_with_mean(s)
    ]
    printed |= {s.name: s for s in run.series if s.name in others}
    for series in (primary, printed.get(choose_metric(others), primary)):
        own, mean = logged.get(series.name, []), None
        values = [each[0] for each in own] if own and all(len(each) == 1 for each in own) else list(series.values)
        if len(values) == count + 1 and ends_with_mean(series):
            mean = values.pop()
        if len(values) == count and all(map(math.isfinite, values)):
            return series.name, [_take_part(series, (value,)) for value in values], mean
    printed_in_turn = [primary.values[a:b] for a, b in pairwise((*primary.starts, len(primary.values)))]
    parts = [_take_part(primary, values) for values in logged.get(primary.name, printed_in_turn)]
    is_each = len(parts) == count and all(math.isfinite(part.values[-1]) for part in parts)
    return (primary.name, parts, None) if is_each else ("", [], None)


def _take_part(series: Series, values: Sequence[float]) -> Series:
    """Returns the part of a series that is of one training."""
    return Series(series.name, series.source, tuple(range(1, len(values) + 1)), tuple(values))


def _plain_options(optimizer: Optimizer) -> dict[str, Any]:
    options: dict[str, Any] = {"optimizer": optimizer.get("type", ""), **(optimizer.get("options") or {})}
    if rates := optimizer.get("dropout"):
        options["dropout"] = rates[0] if len(rates) == 1 else ", ".join(f"{rate:g}" for rate in rates)
    return {name: value for name, value in options.items() if isinstance(value, (bool, int, float, str))}
