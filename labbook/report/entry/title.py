"""Writes the title of a run, for its entry, lists, the terminal and the commit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from labbook.model.finding import Finding
from labbook.model.metric_kinds import metric_kind
from labbook.model.run import Run
from labbook.model.series import Series, unequal_steps
from labbook.model.verdict import worst_fault
from labbook.report.best_runs import BROKEN
from labbook.report.ending_exception import ending_exception, place, shorten_path, user_frame
from labbook.report.entry.diagnosis_section import user_location
from labbook.report.entry.model_section import loss_names_of_optimizers
from labbook.report.numbers import count, duration, number, pair
from labbook.report.series_choice import (
    find_primary_series,
    find_training_loss,
    first_nonfinite_step,
    run_best,
    run_series,
)
from labbook.store.text.templates import words
from labbook.store.text.words_files import fill

_MAX_NAME = 60
_MAX_OPTIONS = 3
_MASK = "[REDACTED"
_SENTENCE_END = re.compile(r"(?<=\S) \(|[.;!](?:\s|$)|[。；！]")
_NO_MARKUP = re.compile(r"[^\w\s.,:;()'/%+=，。；：（）、“”-]+")


def run_title(run: Run, language: str = "en") -> str:
    """Returns the title of the entry of a run as plain text: "train.py: finished, loss 2.31 -> 0.08 in 240 steps".

    Names chosen by the program are reduced to letters, digits, spaces and `. _ - / : #`, and `@` in `Acc@1`: titles are
    on every page.
    """
    labels = words(language)["title"]
    verdict = verdict_line(run, language)
    if run.status == "finished":
        if _worst_fault(run) is not None:
            sentence = fill(labels["finished_but"], verdict=verdict)
        elif find_primary_series(run) is None and not run.captured.get("trials"):
            sentence = fill(labels["finished"])
        else:
            sentence = fill(labels["finished_with"], verdict=verdict)
        cells = [row.get("state") for row in run.facts("notebook").get("cells") or ()]
        if "failed" in cells:  # of a live session that went on
            failed = str(cells.count("failed"))
            sentence = fill(labels["cells_failed"], verdict=sentence, failed=failed, count=str(len(cells)))
    elif run.status == "failed":
        has_result = ending_exception(run) is not None or find_primary_series(run) is not None
        sentence = verdict if has_result else fill(labels["failed_with"], verdict=verdict)
    elif run.status == "running" and find_primary_series(run) is not None:
        sentence = fill(labels["running_with"], verdict=verdict)
    elif run.status == "lost" and run.imported_from:
        sentence = fill(labels["lost_import"])
    else:
        signal = _display_name(run.signal or "SIGKILL")
        key = "stalled" if run.status == "interrupted" and run.verdict_reason == "stalled_no_progress" else run.status
        sentence = fill(labels[key], signal=signal, duration=duration(run.duration_s))
    trial = run.captured.get("trial")
    name = f"{script_name(run)}#{trial['number']}" if trial else script_name(run)
    return fill(labels["title"], script=name, verdict=sentence)


def verdict_line(run: Run, language: str = "en") -> str:
    """Returns the result besides the status: "loss is NaN since step 412", "ValueError at model.py:31"."""
    labels = words(language)["verdict"]
    exception = ending_exception(run)
    crash = next((f for f in run.findings[:1] if f.symptom and f.severity == "error"), None)
    if crash is not None and run.status == "failed":
        return _first_rank_phrase(crash, run, labels) or _finding_phrase(crash, run, labels)
    if exception is not None:
        frame = user_frame(exception)
        kind = _display_name(exception.type) or "exception"
        text = _first_words(exception.message)
        shown = f"{kind}: {text}" if text else kind
        if frame is None:
            return shown
        at = _display_name(place(frame, run))
        return fill(labels["found"], title=shown, place=at) if text else fill(labels["at"], type=kind, place=at)
    fault = _worst_fault(run) if run.status != "failed" else None
    if fault is not None:
        return _finding_phrase(fault, run, labels)
    trainings = run.captured.get("trainings")
    series = _broken_series(run) or find_primary_series(run)
    if trainings and run.status == "finished":
        phrase = _reported_phrase(run, series, trainings, labels) if trainings["metric"] == "loss" else ""
        return phrase or _trials_phrase(trainings, labels, "trainings")
    trials = run.facts("trials")
    if trials.get("together") and run.status == "finished":
        return _trials_phrase(trials, labels, "trials")
    if run.status == "failed" and (series is None or first_nonfinite_step(series) is None):
        if run.signal:
            return fill(labels["signal"], signal=_display_name(run.signal))
        return fill(labels["failure"]) if run.exit_code is None else fill(labels["code"], code=str(run.exit_code))
    if series is None and trials:
        return _trials_phrase(trials, labels, "trials")
    if series is None:
        return fill(labels["unknown" if run.status == "lost" else "none"])
    return _metric(series, run, labels)


def verdict_reason(run: Run, labels: Mapping[str, Any]) -> str:
    """Returns why a run got its verdict, as the title of a symptom or a short sentence; "" for a healthy run."""
    reason = run.verdict_reason
    if reason in labels["verdict_reason"]:
        return str(labels["verdict_reason"][reason])
    finding = next((f for f in run.findings if reason and reason in (f.symptom, f.family)), None)
    check = next((c for c in run.checks if c.id == reason), None)
    return finding.title.replace("`", "") if finding is not None else check.title if check is not None else ""


def _trials_phrase(trials: Mapping[str, Any], labels: Mapping[str, Any], kind: str) -> str:
    """Returns what `_best_trial_phrase` does, with the number of those that failed: "...; 2 failed"."""
    errors = [str(row.get("error") or "") for row in trials.get("rows") or () if row.get("state") in BROKEN]
    phrase = _best_trial_phrase(trials, labels, kind)
    if not errors:
        return phrase
    alike = len(errors) > 1 and len(set(errors)) == 1 and errors[0]
    values = {"phrase": phrase, "count": str(len(errors)), "error": _first_words(errors[0])}
    return fill(labels["trials_failed_alike" if alike else "trials_failed"], **values)


def _reported_phrase(run: Run, series: Series | None, trainings: Mapping[str, Any], labels: Mapping[str, Any]) -> str:
    """Returns the one result, or the best of a search, of a metric whose values are of no known training; else ""."""
    is_one = series is not None and len(series.values) == 1
    if series is None or series.source == "probe" or not (is_one or "best" in trainings):
        return ""
    value = series.last if is_one else run_best(run, series)
    if value is None or not math.isfinite(value):
        return ""
    name = series.name if is_one else series.name.removeprefix("best_")
    key = "trainings_one" if is_one else "trainings_metric"
    total = str(len(trainings.get("rows") or ()))
    return fill(labels[key], count=total, metric=_display_name(name), value=number(value))


def _best_trial_phrase(trials: Mapping[str, Any], labels: Mapping[str, Any], kind: str) -> str:
    """Returns the number of trials and the best one, if there is one: "12 trials, best val_acc 0.93 (trial 4)".

    Repeated trainings have the mean of all: "5 trainings, RMSE 0.71 on average (0.65 to 0.75)".
    """
    total = str(len(trials.get("rows") or ()))
    if "mean" in trials:
        low, high = pair(trials["low"], trials["high"])
        metric, value = _display_name(str(trials["metric"])), number(trials["mean"])
        is_last = kind == "trainings" and not trials.get("once", True)  # each has several, of which the last counts
        key = f"{kind}_loss" if metric == "loss" else f"{kind}_last" if is_last else f"{kind}_mean"
        return fill(labels[key], count=total, metric=metric, value=value, low=low, high=high)
    if "best" not in trials:
        return fill(labels[kind], count=total)
    metric = _display_name(str(trials["metric"]).removeprefix("best_"))  # "best validation accuracy" at the end of each
    value, best = number(trials["value"]), trials["best"]
    params = next((row.get("params") or {} for row in trials.get("rows") or () if row.get("number") == best), {})
    named = [f"{_display_name(str(name))}={_option(given)}" for name, given in params.items()][:_MAX_OPTIONS]
    # Tools number their trials from 0; people count trainings from 1.
    shown = best + 1 if kind == "trainings" else best
    which = ": ".join(filter(None, (str(shown), ", ".join(named))))
    return fill(labels[f"{kind}_best"], count=total, metric=metric, value=value, number=which)


def _broken_series(run: Run) -> Series | None:
    """Returns the training loss or the primary series if it ends as NaN or infinity."""
    candidates = (find_training_loss(run), find_primary_series(run))
    return next((s for s in candidates if s is not None and first_nonfinite_step(s) is not None), None)


def _worst_fault(run: Run) -> Finding | None:
    """Returns the worst error finding of a finished run; `None` without one, or if its loss is not finite.

    Causes come before their consequences.
    """
    if _broken_series(run) is not None:
        return None
    worst = worst_fault(run)
    return next((finding for finding in run.findings if finding.symptom == worst and worst), None)


def _first_rank_phrase(finding: Finding, run: Run, labels: Mapping[str, Any]) -> str:
    """Returns which rank failed first, and of what, if a finding is only that another rank lost it; else ""."""
    odd = run.facts("ranks").get("odd") or {}
    own, ranks = finding.where.get("rank"), list(odd.get("ranks") or ())
    if finding.family != "nccl_or_collective" or odd.get("kind") not in ("failed", "killed"):
        return ""
    if own is None or own in ranks or len(ranks) != 1:
        return ""
    error = _display_name(str(odd.get("error") or odd.get("signal") or "").partition(":")[0])
    kind = error or (fill(labels["code"], code=str(odd["code"])) if odd.get("code") else "")
    where = odd.get("where") or {}
    if kind and where.get("file"):
        place = f"{shorten_path(str(where['file']), run)}:{where.get('line')}"
        kind = fill(labels["at"], type=kind, place=_display_name(place))
    return fill(labels["rank_first"], rank=str(ranks[0]), failure=kind) if kind else ""


def _finding_phrase(finding: Finding, run: Run, labels: Mapping[str, Any]) -> str:
    """Returns title and location of a finding: "input width does not match in_features, at model.py:31"."""
    title = " ".join(_NO_MARKUP.sub(" ", finding.title.replace("`", "")).split())
    # "DataLoader" and "NaN" are names, "Exploding" is a word.
    first = title.partition(" ")[0]
    if first[1:] == first[1:].lower():
        title = title[:1].lower() + title[1:]
    place = user_location(finding, run)
    return fill(labels["found"], title=title, place=_display_name(place)) if place else title


def script_name(run: Run) -> str:
    """Returns the short name of the script, or of the program if the command has no script."""
    imported = str(run.imported_from.get("run") or "")
    name = imported or run.script or (run.argv[0].rsplit("/", 1)[-1] if run.argv else "run")
    return _display_name(name)


def _metric(series: Series, run: Run, labels: Mapping[str, Any]) -> str:
    name = _display_name(_name_in_program(series, run))
    since = first_nonfinite_step(series)
    if since is not None and series.last is not None:
        value = "NaN" if math.isnan(series.last) else "inf"
        if series.last_step is None:  # of epochs
            return fill(labels["one"], metric=name, last=value)
        return fill(labels["nonfinite"], metric=name, value=value, step=count(since))
    first, last = pair(series.first, series.last)
    # A best value is printed when it is reached, and once more at the end. Epochs that begin anew are no one course.
    is_repeated = metric_kind(series.name).running_best and series.first == series.last
    if len(series.values) == 1 or len(series.starts) > 1 or is_repeated:
        return fill(labels["one"], metric=name, last=last)
    # What the program logs is numbered as it likes, by episodes or epochs; numbers in text are no steps of a run.
    steps = series.last_step if series.source == "probe" or run.imported_from else run.steps
    if steps and series.source == "probe":  # the last one may have no loss that compares with the others
        rate = (series.name.replace("loss", "lr"), series.rank)
        steps = max([steps, *(s.last_step or 0 for s in run_series(run) if (s.name, s.rank) == rate)])
    if not steps and not series.is_from_text:
        steps = series.last_step
    phases = run.captured.get("phases")
    if (phases and series.is_from_text) or unequal_steps(run.series, run.steps):
        steps = 0  # it may be that of one phase, and is that of one optimizer
    if not steps:
        return fill(labels["span"], metric=name, first=first, last=last)
    shown = fill(labels["metric"], metric=name, first=first, last=last, steps=count(steps))
    if phases and series.source == "probe":
        return fill(labels["phase"], text=shown, count=str(phases["count"]))
    return shown


def _name_in_program(series: Series, run: Run) -> str:
    """Returns the name of a series; of one of several losses of one training that of the program: `lossD` of a GAN."""
    name = "" if run.trains_in_turn else loss_names_of_optimizers(run).get(series.name, "")
    return name if name.isidentifier() else series.name


def _option(value: object) -> str:
    return number(value) if isinstance(value, float) else _display_name(str(value))


def _first_words(message: str) -> str:
    """Returns the first words of a message without markup, up to a bracket or the end of a sentence.

    Nothing of a line with a masked secret: without its brackets the mask would look like the secret.
    """
    first = next((line for line in message.splitlines() if line.strip(" -=*")), "")
    if _MASK in first:
        return ""
    clean = " ".join(_NO_MARKUP.sub(" ", _SENTENCE_END.split(first.strip(), maxsplit=1)[0]).split())
    return clean if len(clean) <= _MAX_NAME else clean[: _MAX_NAME - 3].rpartition(" ")[0] + "..."


def _display_name(text: str) -> str:
    """Returns a name of the program without markup, `In[3]` as "cell 3"; a long one is cut at its beginning."""

    def harmless(found: re.Match[str]) -> str:
        return f"cell {found[1]}" if found[1] else "@" if found[0] == "@" else "_"

    clean = re.sub(r"\bIn\[(\d+)\]|(?<=[^\W_])@(?=\d)|[^\w./:# -]+", harmless, text)
    clean = " ".join(clean.split())
    return clean if len(clean) <= _MAX_NAME else "..." + clean[-(_MAX_NAME - 3) :]
