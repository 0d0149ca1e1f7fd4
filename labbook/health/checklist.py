"""The health checklist of a run: runs every check once, puts effects under their causes, keeps rows worth reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module

from labbook.health import rules
from labbook.health.causes import explanations
from labbook.health.evidence.measurements import has_trained, measured_series, missing_reason, unobserved
from labbook.health.evidence.training_kind import hardly_learns, has_fallen
from labbook.health.rules import first_nonfinite, precision, updates
from labbook.model.check import Check, CheckPages, CheckWording, Outcome, cases_of
from labbook.model.message import Message, message
from labbook.model.metric_kinds import metric_kind
from labbook.model.run import CheckResult, Run
from labbook.model.signals import Signals
from labbook.store.text.sentences import Sentences

_MODULE_NAMES = (
    "coverage initial schedule wiring optimizer_parameters loaded_states loss_graph gradient updates frozen_layers "
    "activation normalisation layer_axes numeric precision data.input_data data.splits data.sequence_targets "
    "data.image_scale data.labels data.padding data.batch_order partial_passes loop model_mode static_graphs "
    "learning_targets convergence loss_spikes validation logged_metrics memory_use performance distributed "
    "requested_settings"
)
"""Modules of `health/rules/`, in the order of their rows: those that steps and losses need first."""

_CLASSIC_WORDS = (
    "steps_counted loss_seen init_loss_off loss_nonfinite param_never_gets_grad gradient_all_zero nonfinite_gradient "
    "grad_not_cleared step_changed_nothing update_too_large activation_collapse nonfinite_input input_not_normalised "
    "label_out_of_head class_imbalance amp_scale_collapse learning_rate_seen eval_in_train_mode memory_graph_retained "
    "dataloader_bottleneck seeds_set determinism probe_overhead"
)
CLASSIC = tuple(_CLASSIC_WORDS.split())
"""Rows that are always shown, in their order; the others only when they found something."""

CHECKS = tuple(
    value
    for name in _MODULE_NAMES.split()
    for value in vars(import_module(f"{rules.__name__}.{name}")).values()
    if isinstance(value, Check)
)
"""All checks, in the order of the modules and of the functions in them."""

_WORST, _NOTES = ("fail", "warn", "note", "ok", "not observed"), 6
_ALPHA = 0.01
"""Family-wise error rate: the chance that any of the tests with a stated null fires on a healthy run."""

_RAISED_BY_EFFECT = ("accumulation_not_scaled", "frozen_at_random", "input_double_normalised")
"""Hints that are findings where an effect of theirs is found: all are right in other programs."""

_FLAT = frozenset({"loss_at_chance", "loss_not_decreasing"})
_COLLAPSED = frozenset({"dead_relu", "activation_collapse"})
"""What first steps that are too large leave behind, beside a flat loss."""

_LARGE = ("update_too_large", "exploding_gradient", "input_not_normalised")
_BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_ENGLISH = Sentences("en")
_CHECK_FAILED = "health.not_observed.check_failed"
_MOST_NAMES = 8
_OTHERS_TITLE = message("health.other_checks.title")


def checklist(run: Run, pages: CheckPages, of_code: Sequence[tuple[Check, Outcome]] = ()) -> list[CheckResult]:
    """Returns the rows of the checklist: findings first, causes before effects; then the classic rows, then notes.

    Empty for a run that trained nothing. A check that fails itself becomes a row that says so: it must not cost the
    entry. The last row counts the checks that have none.

    Args:
        pages: What the symptom pages say of the checks.
        of_code: What the code of the run shows; a check of the same id that found nothing has no row then. Code
            that is "ok" does on purpose what a check of the same id warns of.
    """
    if not has_trained(run):
        return []
    answers = [(check, answer(check, run)) for check in CHECKS]
    outcomes = [(check, outcome) for check, outcome in correct_significance(answers) if outcome is not None]
    found = {check.id for check, outcome in outcomes if outcome.verdict in ("fail", "warn")}
    of_code = [one for one in of_code if one[0].id not in found or one[1].verdict == "ok"]
    outcomes = [one for one in outcomes if one[0].id not in {check.id for check, _ in of_code}] + of_code
    rows = _raise_corroborated([_row(check, outcome, pages) for check, outcome in outcomes], run, pages)
    rows = _add_causes(rows, _causes_of(run, pages.causes_of))
    shown = _select_worth_reading(rows)
    # By identity: comparing 100 rows field by field takes a fifth of the time of an imported run.
    known = {id(row) for row in shown}
    rest = [row for row in rows if id(row) not in known]
    if not rest or not run.signals:
        return shown
    idle = tuple(check.id for check, outcome in answers if outcome is None)
    return [*shown, _other_checks(rest, idle)]


def answer(check: Check, run: Run) -> Outcome | None:
    """Returns the worst answer of one check over the processes that trained; `None` when it does not apply."""
    processes = run.signals or (Signals(""),)
    if check.whole:
        return _run_check(check, run, processes[0])
    found = [(each, outcome) for each in processes if (outcome := _run_check(check, run, each)) is not None]
    if not found:
        return None
    signals, worst = min(found, key=lambda pair: _WORST.index(pair[1].verdict))
    is_of_all = len(found) == len(processes) > 1 and len({outcome.verdict for _, outcome in found}) == 1
    if signals.rank is not None and worst.verdict in ("fail", "warn", "note") and not is_of_all:
        return replace(worst, where={**worst.where, "rank": signals.rank})
    return worst


def _run_check(check: Check, run: Run, signals: Signals) -> Outcome | None:
    try:
        for need in check.needs:
            reason = missing_reason(run, Signals("") if check.whole else signals, need)
            if reason is not None:
                return unobserved(reason)
        return check.run(run, signals)
    except _BROKEN as error:
        return unobserved(message(_CHECK_FAILED, type=type(error).__name__, error=str(error)))


def correct_significance(answers: Iterable[tuple[Check, Outcome | None]]) -> list[tuple[Check, Outcome | None]]:
    """Returns the same answers; tests that are not significant among so many become ok.

    Source: Holm 1979, family-wise at `_ALPHA`.
    """
    results = list(answers)
    tests = sorted(
        (o.p, i) for i, (_, o) in enumerate(results) if o is not None and o.p is not None and o.verdict != "ok"
    )
    for place, (p, _) in enumerate(tests):
        if p > _ALPHA / (len(tests) - place):
            for _, weak in tests[place:]:
                check, outcome = results[weak]
                if outcome is not None:
                    results[weak] = (check, replace(outcome, verdict="ok"))
            break
    return results


def _row(check: Check, outcome: Outcome, pages: CheckPages) -> CheckResult:
    verdict = outcome.verdict
    if check.tier == 3 and verdict in ("fail", "warn") and check.family != "record":
        verdict = "note"
    wording = pages.wording.get(check.id, {})
    english = wording.get("en", CheckWording(check.id.replace("_", " ")))
    evidence = tuple(outcome.evidence) if verdict in ("fail", "warn", "note") else ()
    row = CheckResult(
        id=check.id,
        title=english.title,
        expected=_ENGLISH(outcome.expected, english.expected),
        observed=_ENGLISH(outcome.observed),
        verdict=verdict,
        tier=check.tier,
        family=check.family,
        evidence=tuple(map(_ENGLISH, evidence)),
        where={key: value for key, value in outcome.where.items() if value not in ("", None)},
        observed_message=outcome.observed,
        evidence_messages=evidence,
        page_words={
            language: {"title": words.title, "expected": words.expected}
            for language, words in wording.items()
            if language != "en"
        },
        run_messages={"expected": outcome.expected} if outcome.expected is not None else {},
    )
    return _add_advice(row, outcome, wording) if verdict in ("fail", "warn") else row


def _add_advice(row: CheckResult, outcome: Outcome, wording: Mapping[str, CheckWording]) -> CheckResult:
    cases = cases_of(row)
    english = wording["en"].first_advice(cases) if "en" in wording else ""
    page_words = {
        language: {**words, "detail": wording[language].first_advice(cases)}
        for language, words in row.page_words.items()
    }
    messages = row.run_messages if outcome.advice is None else {**row.run_messages, "detail": outcome.advice}
    return replace(row, detail=_ENGLISH(outcome.advice, english), page_words=page_words, run_messages=messages)


def _raise_corroborated(rows: Sequence[CheckResult], run: Run, pages: CheckPages) -> list[CheckResult]:
    """Returns the rows, in which hints that steps are too small are verdicts where the loss is flat as well.

    So are the first steps, where they moved most matrices by a good part of their norm (also where units are dead
    since), and the hints of `_RAISED_BY_EFFECT`. Two observations that are weak alone, and that one cause explains, are
    a statistical finding together (tier 2).
    """
    rows = [_raise_hint(row, rows, run, pages) for row in rows]
    wrong = {row.id for row in rows if row.verdict in ("fail", "warn")}
    least = updates.DOUBLED if wrong.isdisjoint(_FLAT | _COLLAPSED) else updates.SHATTERED
    if least == updates.DOUBLED and "below_trivial_baseline" not in wrong:
        return rows
    by_id = {row.id: row for row in rows}
    first = [o for each in run.signals if (o := updates.begins_too_large(run, each, least)) is not None]
    large = by_id.get("update_too_large")
    if first and large is not None and large.verdict not in ("fail", "warn"):
        check = next(check for check in CHECKS if check.id == large.id)
        by_id[large.id] = _row(check, first[0], pages)
        return list(by_id.values())
    if wrong.isdisjoint(_FLAT):
        return rows
    clipped = by_id.get("clip_always_active")
    is_clipped = clipped is not None and clipped.verdict == "note"
    found = [o for each in run.signals if (o := updates.hardly_moved(each, is_clipped)) is not None]
    if not found or len(found) < len(run.signals):
        return rows
    small = next(check for check in CHECKS if check.id == "update_too_small")
    by_id[small.id] = _raise_row(_row(small, found[0], pages), found[0], pages)
    if clipped is not None and is_clipped and clipped.observed_message is not None:
        by_id[clipped.id] = _raise_row(clipped, Outcome("warn", clipped.observed_message), pages)
    return list(by_id.values())


def _raise_hint(row: CheckResult, rows: Sequence[CheckResult], run: Run, pages: CheckPages) -> CheckResult:
    """Returns the row; as a finding where it is a hint of `_RAISED_BY_EFFECT`, and one of its effects was found.

    So is a regression loss on whole numbers, where the program computes an accuracy of them, steps so small that
    nothing moved, or that the loss hardly falls, as a limit of the gradient may make them, and frozen random layers
    where it falls by less than a tenth. A squared error on probabilities that falls below a fifth does its work.
    """
    if row.verdict != "note" or row.observed_message is None:
        return row
    effects = pages.causes_of.get(row.id, ()) if row.id in _RAISED_BY_EFFECT else ()
    found = any(other.id in effects and other.verdict in ("fail", "warn") for other in rows)
    if row.id == "update_too_small":
        found = found or all(updates.stands_still(run, one) or updates.crawls(run, one) for one in run.signals)
    if row.id == "clip_always_active":
        found = all(precision.clipping_slows(run, one) for one in run.signals)
    if row.id == "frozen_at_random":
        found = found or all(hardly_learns(run, one) for one in run.signals)
    if row.id == "regression_loss_for_classes":
        found = any(s.source != "probe" and metric_kind(s.name).quantity == "accuracy" for s in run.series)
        fits = row.observed_message.key.endswith("binary") and all(has_fallen(run, one, 0.2) for one in run.signals)
        found = found and not fits
    return _raise_row(row, Outcome("warn", row.observed_message), pages) if found else row


def _raise_row(row: CheckResult, outcome: Outcome, pages: CheckPages) -> CheckResult:
    """Returns the row of a hint as a statistical finding, with its advice."""
    return replace(_add_advice(row, outcome, pages.wording.get(row.id, {})), verdict="warn", tier=2)


def _causes_of(run: Run, causes_of: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Returns what follows from what: large steps and inputs explain no value that the loss made of finite ones.

    A loss that the program only wrote explains no gradient where all losses that were differentiated were finite.
    """
    losses = measured_series(run, "loss")
    if losses and not any(series.nonfinite for series in losses):
        effects = causes_of.get("loss_nonfinite", ())
        causes_of = {**causes_of, "loss_nonfinite": tuple(e for e in effects if e != "nonfinite_gradient")}
    if not any(first_nonfinite.is_of_loss(signals.flight) for signals in run.signals):
        return causes_of
    kept = {cause: tuple(e for e in causes_of.get(cause, ()) if "nonfinite" not in e) for cause in _LARGE}
    return {**causes_of, **kept}


def _add_causes(rows: Sequence[CheckResult], causes_of: Mapping[str, tuple[str, ...]]) -> list[CheckResult]:
    wrong = {row.id: _step(row) for row in rows if row.verdict in ("fail", "warn")}
    hints = {row.id: _step(row) for row in rows if row.verdict == "note" and row.tier > 1}
    # A hint that explains an effect must not hide a finding that does.
    causes = explanations(wrong | hints, causes_of) | explanations(wrong, causes_of)
    return [replace(row, explained_by=causes[row.id]) if causes.get(row.id) in wrong else row for row in rows]


def _step(row: CheckResult) -> int | None:
    step = row.where.get("step")
    return step if isinstance(step, int) else None


def _select_worth_reading(rows: Sequence[CheckResult]) -> list[CheckResult]:
    wrong = [row for row in rows if row.verdict in ("fail", "warn")]
    causes = [row for row in wrong if not row.explained_by]
    effects = [row for row in wrong if row.explained_by]
    first = sorted(causes, key=lambda row: (_WORST.index(row.verdict), row.tier))
    findings: list[CheckResult] = []
    for cause in first:
        findings += [cause, *(row for row in effects if row.explained_by == cause.id)]
    classic = [row for name in CLASSIC for row in rows if row.id == name and row not in findings]
    others = [row for row in rows if row.verdict == "note" and row.id not in CLASSIC and not row.explained_by]
    broken = [row for row in rows if _has_failed(row) and row.id not in CLASSIC]
    return [*findings, *classic, *others[:_NOTES], *broken]


def _has_failed(row: CheckResult) -> bool:
    """Whether the check itself failed."""
    reason = _reason(row)
    return isinstance(reason, Message) and reason.key == _CHECK_FAILED


def _reason(row: CheckResult) -> object:
    """Returns why a row was not observed: a message, or the words of the probe."""
    return row.observed_message.values.get("reason") if row.observed_message is not None else None


def _left_out(rows: Sequence[CheckResult]) -> Message:
    """Returns which checks were not observed, and why; of many the first ones."""
    names, reason = [row.id for row in rows], _reason(rows[0])
    if len(names) <= _MOST_NAMES + 1:
        return message("health.other_checks.reason", checks=names, reason=reason)
    more = len(names) - _MOST_NAMES
    return message("health.other_checks.some", checks=names[:_MOST_NAMES], more=more, reason=reason)


def _other_checks(rest: Sequence[CheckResult], idle: tuple[str, ...]) -> CheckResult:
    """Returns one row for all that are not shown, so that silence is not read as health.

    Args:
        rest: Rows that are not shown.
        idle: Ids of the checks that did not apply.
    """
    passed = sum(row.verdict == "ok" for row in rest)
    unseen = [row for row in rest if row.verdict == "not observed"]
    by_reason: dict[str, list[CheckResult]] = {}
    for row in unseen:
        by_reason.setdefault(row.observed, []).append(row)
    evidence = tuple(_left_out(rows) for rows in by_reason.values())
    observed = message("health.other_checks.counts", passed=passed, unseen=len(unseen))
    return CheckResult(
        id="other_checks",
        title=_ENGLISH(_OTHERS_TITLE),
        expected="",
        observed=_ENGLISH(observed),
        verdict="ok",
        family="record",
        evidence=tuple(map(_ENGLISH, evidence)),
        observed_message=observed,
        evidence_messages=evidence,
        run_messages={"title": _OTHERS_TITLE},
        passed=(*(row.id for row in rest if row.verdict == "ok"), *idle),
    )
