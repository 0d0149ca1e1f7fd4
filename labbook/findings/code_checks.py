"""Rows of the checklist for faults that a training hides and its code shows: an attention without scale, a leak."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.health.evidence.measurements import place_of
from labbook.model.check import Check, Outcome
from labbook.model.events.inspection_kinds import LoadedState
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.run_code import source_path
from labbook.model.signals import Signals

if TYPE_CHECKING:
    from labbook.findings.nan_exits import NanExit
    from labbook.review.violation import Rule, Violation

_SECONDS = 0.5
_MOST_FILES = 30
_MOST_BYTES = 200_000
_MOST_CAUSES = 3
_NONFINITE = "loss_nonfinite"
_INSIDE_FORWARDS = {"dropout_active_in_eval": "loop-bug"}
"""Symptoms inside of a forward, which nothing measures in a compiled model, and the classes of their rows."""

_TESTS_NAN = re.compile(r"isnan|isinf|isfinite|(\b[\w.()]+) [!=]= \1")
_VERDICTS = {"error": "fail", "warning": "warn", "note": "note"}


def check_code(run: Run) -> list[tuple[Check, Outcome]]:
    """Returns what the rules with a row find in the files that a training loaded; the first place of each symptom.

    Empty if the code cannot be read. Cost: the time of parsing, at most about `_SECONDS`.
    """
    files = source_files(run)
    if not files:
        return []
    from labbook.review.reviewer import RULES, review_files

    try:
        nan_exit = _find_nan_exit(run, files)
        loaded = {one.get("what") for signals in run.signals for one in signals.loaded if _begins(signals, one)}
        is_resumed = "model" in loaded and "optimizer" not in loaded
        inside = _INSIDE_FORWARDS if any(signals.mode == "compiled" for signals in run.signals) else {}
        has_row = [rule for rule in RULES if rule.row or rule.symptom in inside] if run.signals else []
        shown = [rule for rule in has_row if is_resumed or not rule.resumed]
        rules = [*shown, *(rule for rule in RULES if nan_exit and rule.symptom == _NONFINITE)]
        violations = review_files(files, seconds=_SECONDS, rules=rules).violations if rules else ()
    except Exception:
        # Unreadable code costs its rows, never the entry.
        return []
    by_name = {rule.name: rule for rule in rules}
    found: dict[str, tuple[Check, Outcome]] = {}
    for one in violations:
        rule = by_name[one.rule]
        if family := rule.row or inside.get(rule.symptom, ""):
            place = _place(one.file, one.cell, one.line)
            what, advice = _sentences(rule, one)
            in_code = message("health.in_code", line=place)
            verdict = "ok" if rule.explains else _VERDICTS[one.severity]
            outcome = Outcome(verdict, what, (in_code,), place_of(place), advice=advice)
            found.setdefault(rule.symptom, (_check(rule.symptom, family, rule.tier), outcome))
    if nan_exit is not None:
        causes = [(by_name[one.rule], one) for one in violations if not by_name[one.rule].row]
        found[_NONFINITE] = (_check(_NONFINITE, "numeric", 1), _judge_nan_exit(*nan_exit, causes))
    return list(found.values())


def _begins(signals: Signals, state: LoadedState) -> bool:
    """Whether a state was loaded before a training: the first one, or one with an optimizer of its own later on."""
    time, spans = state.get("t", 0.0), signals.spans.values()
    is_between = any(begin > time for begin, _ in spans) and not any(begin <= time <= end for begin, end in spans)
    return is_between or not state.get("step")


def source_files(run: Run) -> list[Path]:
    """Returns the source files that a program loaded, as they were at its start, as far as they are small."""
    return [path for name in run.sources[:_MOST_FILES] if _is_small(path := source_path(run, name))]


def _check(symptom: str, family: str, tier: int) -> Check:
    return Check(symptom, family, tier, (), lambda _run, _signals: None)


def _sentences(rule: Rule, found: Violation) -> tuple[Message, Message]:
    """Returns what a violation is, and what to do about it."""
    return Message(rule.message_key("what"), found.values), Message(rule.message_key("advice"), found.values)


def _find_nan_exit(run: Run, files: Sequence[Path]) -> tuple[Path, NanExit] | None:
    """Returns the file and branch in which the program itself found a value that is not finite, and left."""
    from labbook.findings.nan_exits import find_nan_exit, find_only_exit
    from labbook.review.source_file import Unreadable, read_source

    printed = run.console.text.splitlines()
    backwards = max((one.loop.get("backwards", 0) for one in run.signals), default=0)
    is_orderly = run.status == "finished" and not run.exceptions
    for path in files:
        with suppress(OSError, Unreadable):
            if _TESTS_NAN.search(path.read_text(encoding="utf-8", errors="replace")):
                source = read_source(path, path.name)
                found = find_nan_exit(source, printed)
                if found is None and is_orderly and len(files) == 1:
                    found = find_only_exit(source, backwards)
                if found is not None:
                    return path, found
    return None


def _judge_nan_exit(path: Path, found: NanExit, causes: Sequence[tuple[Rule, Violation]]) -> Outcome:
    """Returns the row on a loss of which the program itself found that it is not finite.

    Args:
        causes: Operations in the code that may have made it so.
    """
    place = _place(str(path), found.cell, found.line)
    evidence = [message("health.loss_nonfinite.tested", line=place, printed=found.printed)]
    if found.count:
        evidence = [message("health.loss_nonfinite.only_end", line=place, count=found.count)]
    for rule, cause in causes[:_MOST_CAUSES]:
        evidence.append(message("health.in_code", line=_place(cause.file, cause.cell, cause.line)))
        evidence.append(_sentences(rule, cause)[0])
    advice = _sentences(*causes[0])[1] if causes else None
    observed = message("health.loss_nonfinite.left", value=found.value)
    return Outcome("fail", observed, tuple(evidence), place_of(place), advice=advice)


def _is_small(path: Path) -> bool:
    try:
        return path.suffix in (".py", ".ipynb") and path.stat().st_size <= _MOST_BYTES
    except OSError:
        return False


def _place(file: str, cell: int, line: int) -> str:
    return f"{Path(file).name}[{cell}]:{line}" if cell else f"{Path(file).name}:{line}"
