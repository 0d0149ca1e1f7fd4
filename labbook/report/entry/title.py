"""Writes the title of a run, for its entry, lists, the terminal and the commit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from labbook.model.finding import Finding
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.report.ending_exception import ending_exception, place, user_frame
from labbook.report.entry.diagnosis_section import user_location
from labbook.report.numbers import count, duration, pair
from labbook.report.series_choice import find_primary_series, first_nonfinite_step, primary_series
from labbook.store.templates import words

__all__ = ["primary_series", "run_title", "verdict_line"]

_MAX_NAME = 60
_LIKELY = 2
"""Last tier of certainty for a title, which excludes hints."""

_NO_MARKUP = re.compile(r"[^\w\s.,:;()'/%+=，。；：（）、“”-]+")


def run_title(run: Run, language: str = "en") -> str:
    """Returns the title of the entry of a run as plain text: "train.py: finished, loss 2.31 -> 0.08 in 240 steps".

    Names chosen by the program are reduced to letters, digits and `. _ - / : #`, since titles are on every page.

    Args:
        run: The run.
        language: "en" or "zh".
    """
    said = words(language)["title"]
    verdict = verdict_line(run, language)
    if run.status == "finished":
        fault = _worst_fault(run)
        if find_primary_series(run) is None:
            sentence = _plain(said["finished"])
        elif fault is None:
            sentence = _plain(said["finished_with"], verdict=verdict)
        else:
            sentence = _plain(said["finished_but"], verdict=_of_finding(fault, run, words(language)["verdict"]))
    elif run.status == "failed":
        told = ending_exception(run) is not None or find_primary_series(run) is not None
        sentence = verdict if told else _plain(said["failed_with"], verdict=verdict)
    else:
        signal = _named(run.signal or "SIGKILL")
        sentence = _plain(said[run.status], signal=signal, duration=duration(run.duration_s))
    return _plain(said["title"], script=script_name(run), verdict=sentence)


def verdict_line(run: Run, language: str = "en") -> str:
    """Returns the result besides the status: "loss is NaN since step 412", "ValueError at model.py:31".

    Args:
        run: The run.
        language: "en" or "zh".
    """
    said = words(language)["verdict"]
    exception = ending_exception(run)
    crash = next((f for f in run.findings[:1] if f.symptom and f.severity == "error"), None)
    if crash is not None and run.status == "failed":
        return _of_finding(crash, run, said)
    if exception is not None:
        frame = user_frame(exception)
        kind = _named(exception.type) or "exception"
        return kind if frame is None else _plain(said["at"], type=kind, place=_named(place(frame, run)))
    series = find_primary_series(run)
    if run.status == "failed" and (series is None or first_nonfinite_step(series) is None):
        if run.signal:
            return _plain(said["signal"], signal=_named(run.signal))
        return _plain(said["code"], code=str(run.exit_code))
    if series is None:
        return _plain(said["unknown" if run.status == "lost" else "none"])
    return _metric(series, said)


def _worst_fault(run: Run) -> Finding | None:
    """Returns the worst error finding of a finished run; `None` without one, or if its loss is not finite.

    Causes come before their consequences.
    """
    series = find_primary_series(run)
    if series is not None and first_nonfinite_step(series) is not None:
        return None
    wrong = [f for f in run.findings if f.symptom and f.severity == "error" and f.tier <= _LIKELY]
    return min(wrong, key=lambda finding: (bool(finding.follows_from), finding.tier), default=None)


def _of_finding(finding: Finding, run: Run, said: Mapping[str, Any]) -> str:
    """Returns title and location of a finding: "input width does not match in_features, at model.py:31"."""
    title = " ".join(_NO_MARKUP.sub(" ", finding.title.replace("`", "")).split())
    # "DataLoader" and "NaN" are names, "Exploding" is a word.
    first = title.partition(" ")[0]
    if first[1:] == first[1:].lower():
        title = title[:1].lower() + title[1:]
    place = user_location(finding, run)
    return _plain(said["found"], title=title, place=_named(place)) if place else title


def script_name(run: Run) -> str:
    """Returns the short name of the script, or of the program if the command has no script."""
    name = run.script or (run.argv[0].rsplit("/", 1)[-1] if run.argv else "run")
    return _named(name)


def _metric(series: Series, said: Mapping[str, Any]) -> str:
    name = _named(series.name)
    since = first_nonfinite_step(series)
    if since is not None and series.last is not None:
        value = "NaN" if math.isnan(series.last) else "inf"
        return _plain(said["nonfinite"], metric=name, value=value, step=count(since))
    first, last = pair(series.first, series.last)
    if len(series.values) == 1:
        return _plain(said["one"], metric=name, last=last)
    steps = series.last_step or len(series.values)
    return _plain(said["metric"], metric=name, first=first, last=last, steps=count(steps))


def _plain(sentence: str, **values: str) -> str:
    return str.format(str(sentence), **values)


def _named(text: str) -> str:
    """Returns a name of the program without markup; a long one is cut at its beginning."""
    clean = re.sub(r"[^\w./:#-]+", "_", text)
    return clean if len(clean) <= _MAX_NAME else "..." + clean[-(_MAX_NAME - 3) :]
