"""The health checklist of a run: every check once, effects under their causes, and only rows worth reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from labbook.health import (
    activation,
    batch_order,
    convergence,
    coverage,
    distributed,
    gradient,
    initial,
    input_data,
    labels,
    loop,
    memory_use,
    numeric,
    performance,
    precision,
    requested_settings,
    schedule,
    updates,
    validation,
    wiring,
)
from labbook.health.causes import explanations
from labbook.health.measurements import missing, said, trained, unobserved
from labbook.model.check import Check, Outcome
from labbook.model.run import CheckResult, Run
from labbook.model.signals import Signals

_MODULES = (
    coverage,
    initial,
    schedule,
    wiring,
    gradient,
    updates,
    activation,
    numeric,
    precision,
    input_data,
    labels,
    batch_order,
    loop,
    convergence,
    validation,
    memory_use,
    performance,
    distributed,
    requested_settings,
)

CLASSIC = (
    "steps_counted",
    "loss_seen",
    "init_loss_off",
    "loss_nonfinite",
    "param_never_gets_grad",
    "gradient_all_zero",
    "nonfinite_gradient",
    "grad_not_cleared",
    "step_changed_nothing",
    "update_too_large",
    "activation_collapse",
    "nonfinite_input",
    "input_not_normalised",
    "label_out_of_head",
    "class_imbalance",
    "amp_scale_collapse",
    "learning_rate_seen",
    "eval_in_train_mode",
    "memory_graph_retained",
    "dataloader_bottleneck",
    "seeds_set",
    "determinism",
    "probe_overhead",
)
"""Rows that are always there, in their order; the others only when there is something to say."""

CHECKS: tuple[Check, ...] = tuple(check for module in _MODULES for check in module.CHECKS)
"""All checks."""

_WORST = ("fail", "warn", "note", "ok", "not observed")
_ALPHA = 0.01
"""Chance that any of the tests with a stated probability fires on a healthy run, all of them together."""

_NOTES = 6
_BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def checklist(run: Run) -> list[CheckResult]:
    """Rows of the checklist: what is wrong first, causes before effects; then the classic rows, then notes.

    Empty for a run that trained nothing. A check that fails itself becomes a row that says so: it must not cost the
    entry. The last row counts the checks that have none.
    """
    if not trained(run):
        return []
    answers = [(check, answer(check, run)) for check in CHECKS]
    asked = [(check, outcome) for check, outcome in corrected(answers) if outcome is not None]
    rows = _explained(_corroborated([_row(check, outcome) for check, outcome in asked], run))
    shown = _worth_reading(rows)
    rest = [row for row in rows if row not in shown]
    return [*shown, _other_checks(rest)] if rest and run.signals else shown


def answer(check: Check, run: Run) -> Outcome | None:
    """The worst answer of one check over the processes that trained; `None` when its question does not arise."""
    processes = run.signals or (Signals(""),)
    if check.whole:
        return _guarded(check, run, processes[0])
    found = [(each, outcome) for each in processes if (outcome := _guarded(check, run, each)) is not None]
    if not found:
        return None
    signals, worst = min(found, key=lambda pair: _WORST.index(pair[1].verdict))
    if signals.rank is not None and worst.verdict in ("fail", "warn", "note"):
        return replace(worst, where={**worst.where, "rank": signals.rank})
    return worst


def _guarded(check: Check, run: Run, signals: Signals) -> Outcome | None:
    try:
        for need in check.needs:
            reason = missing(run, Signals("") if check.whole else signals, need)
            if reason is not None:
                return unobserved(reason)
        return check.run(run, signals)
    except _BROKEN as error:
        return unobserved(f"the check failed ({type(error).__name__}: {error})")


def corrected(answers: Iterable[tuple[Check, Outcome | None]]) -> list[tuple[Check, Outcome | None]]:
    """The same answers; tests that do not stand against so many of them at once become ok.

    Source: Holm 1979, family-wise at `_ALPHA`.
    """
    told = list(answers)
    tests = sorted((o.p, i) for i, (_, o) in enumerate(told) if o is not None and o.p is not None and o.verdict != "ok")
    for place, (p, _) in enumerate(tests):
        if p > _ALPHA / (len(tests) - place):
            for _, weak in tests[place:]:
                check, outcome = told[weak]
                if outcome is not None:
                    told[weak] = (check, replace(outcome, verdict="ok"))
            break
    return told


def _row(check: Check, outcome: Outcome) -> CheckResult:
    verdict = outcome.verdict
    if check.tier == 3 and verdict in ("fail", "warn") and check.family != "record":
        verdict = "note"
    return CheckResult(
        id=check.id,
        title=check.title,
        expected=outcome.expected or check.expected,
        observed=outcome.observed,
        verdict=verdict,
        detail=check.advice if verdict in ("fail", "warn") else "",
        tier=check.tier,
        family=check.family,
        evidence=tuple(e for e in outcome.evidence if e) if verdict in ("fail", "warn", "note") else (),
        where={key: value for key, value in outcome.where.items() if value not in ("", None)},
    )


def _corroborated(rows: Sequence[CheckResult], run: Run) -> list[CheckResult]:
    """The rows, in which hints that steps are too small are verdicts where the loss stands still as well.

    Two observations that are weak alone, and that one cause explains, are a statistical finding together (tier 2).
    """
    flat = any(row.id in ("loss_at_chance", "loss_not_decreasing") and row.verdict in ("fail", "warn") for row in rows)
    found = [o for each in run.signals if (o := updates.hardly_moved(run, each)) is not None] if flat else []
    if not found or len(found) < len(run.signals):
        return list(rows)
    kept = {row.id: row for row in rows}
    small = next(check for check in CHECKS if check.id == "update_too_small")
    told = replace(_row(small, found[0]), verdict="warn", tier=2, detail=small.advice)
    clipped = kept.get("clip_always_active")
    if clipped is not None and clipped.verdict == "note":
        advice = next(check.advice for check in CHECKS if check.id == clipped.id)
        kept[clipped.id] = replace(clipped, verdict="warn", tier=2, detail=advice)
    kept[small.id] = told
    return list(kept.values())


def _explained(rows: Sequence[CheckResult]) -> list[CheckResult]:
    wrong = {row.id: _step(row) for row in rows if row.verdict in ("fail", "warn")}
    causes = explanations(wrong | {row.id: _step(row) for row in rows if row.verdict == "note" and row.tier > 1})
    return [replace(row, explained_by=causes[row.id]) if causes.get(row.id) in wrong else row for row in rows]


def _step(row: CheckResult) -> int | None:
    step = row.where.get("step")
    return step if isinstance(step, int) else None


def _worth_reading(rows: Sequence[CheckResult]) -> list[CheckResult]:
    wrong = [row for row in rows if row.verdict in ("fail", "warn")]
    causes = [row for row in wrong if not row.explained_by]
    effects = [row for row in wrong if row.explained_by]
    first = sorted(causes, key=lambda row: (_WORST.index(row.verdict), row.tier))
    told: list[CheckResult] = []
    for cause in first:
        told += [cause, *(row for row in effects if row.explained_by == cause.id)]
    classic = [row for name in CLASSIC for row in rows if row.id == name and row not in told]
    others = [row for row in rows if row.verdict == "note" and row.id not in CLASSIC and not row.explained_by]
    broken = [row for row in rows if "the check failed" in row.observed and row.id not in CLASSIC]
    return [*told, *classic, *others[:_NOTES], *broken]


def _other_checks(rest: Sequence[CheckResult]) -> CheckResult:
    """One row for all that are not shown, so that silence is not read as health."""
    passed = [row for row in rest if row.verdict == "ok"]
    unseen = [row for row in rest if row.verdict == "not observed"]
    reasons: dict[str, list[str]] = {}
    for row in unseen:
        reasons.setdefault(row.observed.partition(": ")[2], []).append(row.id)
    told = tuple(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    observed = f"{said(len(passed))} ok, {said(len(unseen))} not observed"
    return CheckResult("other_checks", "further checks", "", observed, "ok", tier=0, family="record", evidence=told)
