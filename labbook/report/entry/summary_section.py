"""First sections of an entry: result, exception, changes, health, curves, model."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from labbook.model.run import INTERRUPTS, NOTEBOOK_REPORTS, CaughtException, Change, CheckResult, Run, is_launcher_error
from labbook.model.series import Series, window_of
from labbook.model.signals import optimizer_was_restored
from labbook.report import numbers
from labbook.report.ending_exception import (
    ending_exception,
    find_interrupt,
    place,
    shorten_path,
    shorten_paths,
    user_frame,
)
from labbook.report.entry.diagnosis_section import explained_ids
from labbook.report.entry.gradient_clipping import norm_place
from labbook.report.entry.merged_rows import merge_unobserved
from labbook.report.entry.model_section import count_summed_losses, join_names, loss_names_of_optimizers
from labbook.report.entry.printed_series import printed_otherwise, without_repeats
from labbook.report.entry.section_limits import Limits, shorten_middle
from labbook.report.entry.title import verdict_reason
from labbook.report.gradient_flow_svg import is_worth_drawing
from labbook.report.panels import choose_panels
from labbook.report.series_choice import (
    base_name,
    first_nonfinite_step,
    is_of_batches,
    one_a_name,
    run_best,
)
from labbook.store.paths import NotebookPaths
from labbook.store.text.sentences import Sentences, translate_change, translate_check
from labbook.store.text.templates import words


def title_section(run: Run, title: str, paths: NotebookPaths, language: str = "en") -> dict[str, Any]:
    """Returns title and verdict line: status, result, experiment."""
    interrupted = find_interrupt(run)
    frame = user_frame(interrupted) if interrupted is not None else None
    return {
        "title": title,
        "status": run.status,
        "verdict": run.verdict,
        "reason": verdict_reason(run, words(language)),
        "duration": "" if run.imported_from and not run.duration_s else numbers.duration(run.duration_s),
        "imported": bool(run.imported_from),
        "exit_code": run.exit_code,
        "signal": run.signal,
        "started": format_time(run.started),
        "host": run.host,
        "frameworks": [f"{f.name} {f.version}".strip() for f in run.frameworks],
        "device": device_name(run),
        "experiment": run.experiment,
        "experiment_url": paths.link(run.id, paths.experiments / f"{run.experiment}.md"),
        "notes": [shorten_middle(note, 1000) for note in run.notes[:20]],
        "place": place(frame, run) if frame is not None else "",
        "resumed": run.resumed_from,
        "goes_on": optimizer_was_restored(run.signals),
        "resumed_url": paths.link(run.id, paths.entry(run.resumed_from)) if run.resumed_from else "",
        "batch_end": Sentences(language)(run.facts("ending").get("batch_end")),
        "probe": run.probe.status,
    }


def device_name(run: Run) -> str:
    """Returns the device of the model, "CPU" or "GPU" with its name; "" if unknown."""
    for framework in run.frameworks:
        device = join_names(framework.state.get("device")).lower()
        if not device:
            continue
        if "cpu" in device:
            return "CPU"
        names = [str(d.get("name") or "") for d in framework.devices if str(d.get("kind") or "").lower() != "cpu"]
        return next((name for name in names if name), device)
    return ""


def exception_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns the uncaught exception that ended the run, or `None`."""
    exception = ending_exception(run)
    if exception is None:
        return None
    frame = user_frame(exception) or (exception.frames[-1] if exception.frames else None)
    odd = run.facts("ranks").get("odd") or {}
    module = exception.module if exception.module not in ("", "builtins", "__main__") else ""
    # What the runner of a notebook reports is the exception of its kernel once more.
    hidden = (*INTERRUPTS, *NOTEBOOK_REPORTS)
    others = [e for e in run.exceptions if e is not exception and e.type not in hidden and not _repeats(e, exception)]
    return {
        "type": f"{module}.{exception.type}" if module else exception.type,
        "message": shorten_middle(exception.message, limits.message),
        "step": exception.step,
        "rank": exception.rank,
        "is_first": not odd or (odd.get("kind") in ("failed", "alike") and exception.rank in odd.get("ranks", ())),
        "where": exception.where,
        "thread": exception.thread,
        "place": place(frame, run) if frame is not None else "",
        "function": frame.function if frame is not None else "",
        "source": frame.source.strip() if frame is not None else "",
        "user": bool(frame is not None and frame.user),
        "notes": [shorten_middle(note, 500) for note in exception.notes[:5]],
        "chain": [{"type": t, "message": shorten_middle(m, 500), "relation": r} for t, m, r in exception.chain[:8]],
        "traceback": shorten_middle(_traceback(exception, run, limits), limits.frames * 300),
        "others": [_other_exception(e, run, limits) for e in others[: limits.rows]],
    }


def _repeats(error: CaughtException, exception: CaughtException) -> bool:
    """Whether a launcher's error only quotes an exception of what it started."""
    quoted = exception.message.strip() or exception.type
    return is_launcher_error(error.type) and exception.type in error.type + error.message and quoted in error.message


def _other_exception(exception: CaughtException, run: Run, limits: Limits) -> dict[str, Any]:
    frame = user_frame(exception)
    return {
        "type": exception.type,
        "message": shorten_middle(exception.message.split("\n", 1)[0], limits.cell),
        "place": place(frame, run) if frame is not None else "",
        "where": exception.where,
        "rank": exception.rank,
        "pid": exception.pid,
    }


def _traceback(exception: CaughtException, run: Run, limits: Limits) -> str:
    """Returns the frames as Python prints them, outermost first; long ones lose their middle."""
    frames = exception.frames
    if not frames:
        return ""
    half = limits.frames // 2
    left_out = len(frames) - 2 * half if len(frames) > limits.frames else 0
    lines = ["Traceback (most recent call last):"]
    for number, frame in enumerate(frames):
        if left_out and number == half:
            lines.append(f"  ... {left_out} frames ...")
        if left_out and half <= number < half + left_out:
            continue
        lines.append(f'  File "{shorten_path(frame.file, run)}", line {frame.line}, in {frame.function}')
        if frame.source.strip():
            lines.append(f"    {shorten_middle(frame.source.strip(), 200)}")
    message = shorten_middle(exception.message, limits.message)
    return "\n".join([*lines, f"{exception.type}: {message}" if message else exception.type])


def changes_section(run: Run, paths: NotebookPaths, limits: Limits, say: Sentences) -> dict[str, Any] | None:
    """Returns the changes since the previous run, `None` where there is none."""
    if not run.previous:
        return None
    changes = [translate_change(change, say) for change in run.changes]
    rows = [_change(c, limits) for c in changes[: limits.rows]]
    details = [
        {"what": c.what, "text": _first_lines(c.detail, 60, limits.config_bytes // 2)}
        for c in changes
        if "\n" in c.detail.strip()
    ]
    return {
        "previous": run.previous,
        "previous_url": paths.link(run.id, paths.entry(run.previous)),
        "rows": rows,
        "has_sentences": any(row["sentence"] for row in rows),
        "more": max(0, len(run.changes) - len(rows)),
        "details": [d for d in details if d["text"]][:5],
    }


def _change(change: Change, limits: Limits) -> dict[str, str]:
    """Returns one row; without a value, as for changed code, "now" has a sentence."""
    sentence = change.detail.strip() if "\n" not in change.detail.strip() else ""
    alone = bool(sentence) and not change.before and not change.now
    return {
        "kind": change.kind,
        "what": shorten_middle(change.what, limits.cell),
        "before": shorten_middle(change.before, limits.cell),
        "now": shorten_middle(sentence if alone else change.now, limits.cell),
        "sentence": "" if alone else shorten_middle(sentence, limits.cell),
    }


def _first_lines(text: str, lines: int, n_bytes: int) -> str:
    kept = text.strip("\n").split("\n")
    shown = "\n".join(kept[:lines])[:n_bytes]
    return shown + ("\n..." if len(shown) < len(text.strip("\n")) and shown else "")


def health_section(run: Run, limits: Limits, say: Sentences) -> dict[str, Any] | None:
    """Returns the health checklist, or `None` while nothing was checked.

    `findings` are the rows with evidence that the section on the diagnosis does not have.
    """
    if not run.checks:
        return None
    checks = [translate_check(check, say) for check in run.checks]
    titles = {c.id: c.title for c in checks}
    rows = [
        {
            "id": c.id,
            "title": c.title,
            "expected": c.expected,
            "observed": shorten_middle(c.observed, 2 * limits.cell),
            "verdict": c.verdict,
            "detail": shorten_middle(c.detail, 400),
            "evidence": [shorten_middle(shorten_paths(sentence, run), 400) for sentence in c.evidence[:8]],
            "cause": c.explained_by,
            "cause_title": titles.get(c.explained_by, c.explained_by),
        }
        for c in checks[: max(limits.rows, 40)]
    ]
    explained = explained_ids(run)
    shown = [r for r in rows if (r["verdict"] != "ok" and r["id"] not in explained) or r["id"] == "other_checks"]
    findings = [row for row in shown if row["detail"] or row["evidence"]]
    return {
        "rows": merge_unobserved(rows),
        "passed": sum(_count_passed(check) for check in run.checks),
        "findings": findings,
        "flow": run.id if is_worth_drawing(run) else "",
        "clipped": run.clips_by_call,
    }


def _count_passed(check: CheckResult) -> int:
    """Returns how many checks of a row are ok: the row of the further checks counts many."""
    counted = check.observed_message.values if check.observed_message is not None else {}
    return int(counted.get("passed", 0)) if check.id == "other_checks" else int(check.verdict == "ok")


_MOST_NAMED = 4
_OF_OPTIMIZER = re.compile(r"\.opt\d+")
_MOST_PHASES = 3
"""Phases of which each has rows of its own. Source: chosen by us."""
_FEWEST_PLACED = 3
"""Values from which on the place of the best one is shown. Source: chosen by us."""


def metrics_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns curves and a table of first, best and last values, or `None` without metrics."""
    shown = [
        s
        for s in without_repeats(run, one_a_name(run.series))
        if base_name(s.name) not in ("step_time_s", "grad_scale")
    ]
    shown.sort(key=lambda series: (series.name != run.primary, ".opt" in series.name))
    if not shown:
        return None
    turns = _numbers_in_turn(run, shown)
    every, shown = len(shown), _without_middle_phases(run, shown)
    rows = [_metric_row(run, each, limits) | {"turn": turns.get(each.name)} for each in shown[: limits.rows]]
    return {
        "panels": [panel.title for panel in choose_panels(run.series, run.primary)[0]],
        "rows": rows,
        "more": every - len(rows),
        "phases": run.facts("phases"),
        "trainings": len(run.facts("trainings").get("rows") or ()) if any(s.source != "probe" for s in shown) else 0,
        "restarted": [s.name for s in shown if len(s.starts) > 1 and not run.facts("trainings")][:_MOST_NAMED],
        "mean": _name_ended_by_mean(run, shown),
        "level": _best_level(run, shown),
        "closures": any(facts.get("closure") for framework in run.frameworks for facts in framework.optimizers)
        and any(s.loop.get("backwards", 0) > s.loop.get("steps", 0) for s in run.signals),
        "sums": _summed_losses(run, [s.name for s in shown]),
        "printed": [
            {"name": s.name, "printed": numbers.number(other.last), "measured": numbers.number(s.last)}
            for s in shown
            if (other := printed_otherwise(run, s)) is not None
        ],
        "counted": _counted_by_program(run, shown[: limits.rows]),
        "ranks": sorted({s.rank for s in run.series if s.rank is not None}),
        "from_text": any(s.source == "text" for s in shown),
        "folder": run.id,
    }


def _numbers_in_turn(run: Run, shown: Sequence[Series]) -> dict[str, int]:
    """Returns name -> number of the training or phase of each measured series, where each has one optimizer."""
    measured = {s.name: (*_OF_OPTIMIZER.findall(s.name), "")[0] for s in shown if s.source == "probe"}
    count = len(run.facts("trainings").get("rows") or ()) or run.facts("phases").get("count")
    order = sorted(set(measured.values()), key=lambda suffix: int(suffix[4:] or 0))
    return {name: order.index(suffix) + 1 for name, suffix in measured.items()} if len(order) == count else {}


def _without_middle_phases(run: Run, shown: Sequence[Series]) -> list[Series]:
    """Returns the series without those of optimizers between the first and the last one, where many train in turn."""
    phases = run.facts("phases")
    last = _OF_OPTIMIZER.search(str(phases.get("series") or ""))
    if last is None or int(phases.get("count") or 0) <= _MOST_PHASES:
        return list(shown)
    return [s for s in shown if (found := _OF_OPTIMIZER.search(s.name)) is None or found.group() == last.group()]


def _counted_by_program(run: Run, shown: Sequence[Series]) -> dict[str, Any] | None:
    """Returns the metrics whose steps are more than those of the optimizers, as steps of an environment or batches."""
    beyond = [s for s in shown if s.source != "probe" and run.steps and (s.last_step or 0) > run.steps + 1]
    if not beyond:
        return None
    names = [s.name for s in beyond[:_MOST_NAMED]] + ["..."] * (len(beyond) > _MOST_NAMED)
    return {"names": names, "most": max(s.last_step or 0 for s in beyond), "steps": run.steps}


def _metric_row(run: Run, series: Series, limits: Limits) -> dict[str, Any]:
    """Returns first, best and last value of a metric; of values of single batches, none is called the best."""
    best = None if is_of_batches(series, run) else run_best(run, series)
    digits = numbers.digits_apart(series.first, series.last)
    of_optimizer = loss_names_of_optimizers(run).get(series.name)
    name = f"{series.name} ({of_optimizer})" if of_optimizer else series.name
    return {
        "name": shorten_middle(name, limits.cell),
        "source": series.source,
        "clipping": norm_place(run, series.name)
        if series.name.startswith("grad_norm") and series.source == "probe"
        else "",
        "first": numbers.number(series.first, digits),
        "last": numbers.number(series.last, digits),
        "best": "" if best is None else numbers.number(best, digits),
        "best_at": _place_of_best(series, best),
        "points": numbers.count(series.count or len(series.values)),
        "last_step": "" if series.last_step is None else numbers.count(series.last_step),
        "nonfinite": series.nonfinite,
        "since": None if series.last_step is None else first_nonfinite_step(series),
    }


def _best_level(run: Run, shown: Sequence[Series]) -> dict[str, Any] | None:
    """Returns what lists take as the best value of the main metric, if its values are those of single batches."""
    main = next((s for s in shown if s.name == run.primary), None)
    best = run_best(run, main) if main is not None and is_of_batches(main, run) else None
    if main is None or best is None:
        return None
    return {"name": main.name, "best": numbers.number(best), "window": window_of(main)}


def _place_of_best(series: Series, best: float | None) -> dict[str, str]:
    """Returns the epochs or steps that a program gives its best value, two at most; nothing where they begin anew."""
    at = [str(step) for step, value in zip(series.steps, series.values, strict=True) if value == best]
    is_placed = series.axis in ("epoch", "step") and all(a < b for a, b in pairwise(series.steps))
    if not at or len(series.values) < _FEWEST_PLACED or not is_placed:
        return {}
    return {"axis": series.axis, "at": ", ".join([*at[:2], *(["..."] if len(at) > 2 else [])])}


def _name_ended_by_mean(run: Run, shown: Sequence[Series]) -> str:
    """Returns the series with one value for each training of a program and, as its last value, their mean; or ""."""
    trainings = run.facts("trainings")
    points = len(trainings.get("rows") or ()) + 1
    named = (s.name for s in shown if s.name == trainings.get("metric") and (s.count or len(s.values)) == points)
    return next(named, "") if "mean" in trainings else ""


def _summed_losses(run: Run, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the shown losses that are sums over several backward passes of a step, with how many."""
    found = []
    for facts in (o for framework in run.frameworks for o in framework.optimizers):
        name = f"loss.opt{facts['index']}" if facts.get("index") else "loss"
        if count_summed_losses(facts) and name in names:
            found.append({"name": name, "count": count_summed_losses(facts)})
    return found


def format_time(seconds: float) -> str:
    """Returns a time for people: "2026-11-21 15:30:12 UTC"."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
