"""Rows of the checklist for faults that a training hides and its code shows: an attention without scale, a leak."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from labbook.health.evidence.measurements import place_of
from labbook.model.check import Check, Outcome
from labbook.model.message import Message, message
from labbook.model.run import Run

if TYPE_CHECKING:
    from labbook.review.violation import Violation

_SECONDS = 0.5
_MOST_FILES = 30
_MOST_BYTES = 200_000
_VERDICTS = {"error": "fail", "warning": "warn", "note": "note"}


def check_code(run: Run) -> list[tuple[Check, Outcome]]:
    """Returns what the rules with a row find in the files that a training loaded; the first place of each symptom.

    Empty if the code cannot be read. Cost: the time of parsing, at most about `_SECONDS`.
    """
    files = [path for name in run.sources[:_MOST_FILES] if _is_small(path := Path(name).expanduser())]
    if not run.signals or not files:
        return []
    from labbook.review.reviewer import RULES, review_files

    rules = [rule for rule in RULES if rule.row]
    by_name = {rule.name: rule for rule in rules}
    try:
        violations = review_files(files, seconds=_SECONDS, rules=rules).violations
    except Exception:
        # Unreadable code costs its rows, never the entry.
        return []
    found: dict[str, tuple[Check, Outcome]] = {}
    for one in violations:
        rule = by_name[one.rule]
        check = Check(rule.symptom, rule.row, rule.tier, (), lambda _run, _signals: None)
        outcome = Outcome(
            _VERDICTS[one.severity],
            Message(rule.message_key("what"), one.values),
            (message("health.in_code", line=_place(one)),),
            place_of(_place(one)),
            advice=Message(rule.message_key("advice"), one.values),
        )
        found.setdefault(rule.symptom, (check, outcome))
    return list(found.values())


def _is_small(path: Path) -> bool:
    try:
        return path.suffix in (".py", ".ipynb") and path.stat().st_size <= _MOST_BYTES
    except OSError:
        return False


def _place(one: Violation) -> str:
    return f"{Path(one.file).name}[{one.cell}]:{one.line}" if one.cell else f"{Path(one.file).name}:{one.line}"
