"""The section *Diagnosis* of an entry, and its short form for the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.finding import EarlierRun, Finding
from labbook.model.run import Run
from labbook.report.ending_exception import shorten_path, shorten_paths
from labbook.report.entry.section_limits import Limits, shorten_middle
from labbook.screen import display_width
from labbook.store.text.templates import words
from labbook.store.text.words_files import fill

_MOST_WHOLE = 4
"""Most findings with causes and fixes; more are listed by title."""
_MOST_SEEN = 5
_WIDTH = 200


def diagnosis_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns findings with causes and fixes, or `None` without a diagnosis."""
    primary_findings = _primary(run)
    follow = [finding for finding in run.findings if finding.follows_from]
    if not primary_findings and not run.unsure:
        return None
    return {
        "unsure": run.unsure if not primary_findings else "",
        "findings": [_finding(finding, follow, run, limits) for finding in primary_findings[:_MOST_WHOLE]],
        "further": [_name_finding(finding) for finding in primary_findings[_MOST_WHOLE:]],
    }


def explained_ids(run: Run) -> list[str]:
    """Returns the ids of the findings whose evidence is shown in the section."""
    return [_id(finding) for finding in _primary(run)[:_MOST_WHOLE]]


def _primary(run: Run) -> list[Finding]:
    """Returns the findings that follow from no other one."""
    return [finding for finding in run.findings if not finding.follows_from]


def _id(finding: Finding) -> str:
    return finding.symptom or finding.family


def _finding(finding: Finding, follow: Sequence[Finding], run: Run, limits: Limits) -> dict[str, Any]:
    where = finding.where
    return {
        **_name_finding(finding),
        "place": user_location(finding, run),
        "function": str(where.get("function") or "") if where.get("function") != "<module>" else "",
        "source": shorten_middle(str(where.get("source") or ""), limits.cell),
        "at": [
            {"kind": key, "value": str(where[key])}
            for key in ("module", "parameter", "operation", "step", "after_step", "rank", "thread")
            if where.get(key) not in (None, "")
        ],
        "evidence": [shorten_middle(shorten_paths(sentence, run), limits.text) for sentence in finding.evidence],
        "causes": [shorten_middle(sentence, limits.text) for sentence in finding.causes],
        "fixes": [shorten_middle(sentence, limits.text) for sentence in finding.fixes],
        "consequences": [_name_finding(other) for other in follow if other.follows_from == _id(finding)],
        "seen": [_seen_row(seen) for seen in _best_seen(finding.seen_before)],
        "times": len(same_failures(finding)),
    }


def _name_finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": _id(finding),
        "title": finding.title,
        "tier": finding.tier,
        "severity": finding.severity,
    }


def _best_seen(seen: Sequence[EarlierRun]) -> list[EarlierRun]:
    """Returns earlier runs, those with a fix for this failure first, then those with another fix.

    Other failures of the family are left out beside the same one.
    """
    own = [one for one in seen if one.same != "family"] or seen
    return sorted(own, key=lambda one: (not one.fits, not one.fix))[:_MOST_SEEN]


def _seen_row(seen: EarlierRun) -> dict[str, Any]:
    # The fix of another failure is a link to its run, not an advice.
    fix = seen.fix if seen.fits else ""
    return {"run": seen.run, "fix": fix, "by": seen.by, "same": seen.same, "held": seen.held or 0}


def user_location(finding: Finding, run: Run) -> str:
    """Returns file and line in the user's code: "model.py:31"; "" if unknown."""
    file, line = finding.where.get("file"), finding.where.get("line")
    if not file:
        return ""
    shown = shorten_path(str(file), run)
    return f"{shown}:{line}" if line else shown


def diagnosis_lines(run: Run, language: str = "en", base: str = "") -> list[str]:
    """Returns the primary finding for the terminal: title, location, cause, fixes, earlier fix.

    Args:
        run: A run with findings.
        base: Folder to which paths are relative.
    """
    labels = words(language)["diagnosis"]
    primary = next(iter(run.findings), None)
    if primary is None:
        return [fill(labels["unsure_line"], reason=run.unsure)] if run.unsure else []
    lines = [headline(primary, labels)]
    place = user_location(primary, run)
    if base and place.startswith(base + os.sep):
        place = place[len(base) + 1 :]
    source = str(primary.where.get("source") or "")
    if place:
        lines.append(shorten_middle(f"{place}  {source}".rstrip(), _WIDTH))
    lines += [shorten_middle(shorten_paths(sentence, run), _WIDTH) for sentence in primary.evidence[:1]]
    if primary.causes:
        why = labels["why_line" if len(primary.causes) == 1 and primary.tier == 1 else "why_line_one_of"]
        lines.append(shorten_middle(fill(why, cause=strip_markdown(primary.causes[0])), 2 * _WIDTH))
    fixed = next((seen for seen in primary.seen_before if seen.fits), None)
    label = fill(labels["try_line"], fix="")
    if fixed is not None:
        lines.append(shorten_middle(fill(labels["cured_line"], run=fixed.run, fix=strip_markdown(fixed.fix)), _WIDTH))
    lines += [
        shorten_middle(
            (" " * display_width(label) if number else label) + strip_markdown(fix),
            2 * _WIDTH,
        )
        for number, fix in enumerate(primary.fixes[: 2 if fixed is None else 1])
    ]
    seen = seen_line(primary, labels)
    return [*lines, seen] if seen and fixed is None else lines


def seen_line(finding: Finding, labels: Mapping[str, Any]) -> str:
    """Returns how often the failure was seen before, else others with its symptom, and the last run; "" if none was."""
    same = [seen for seen in finding.seen_before if seen.same == "fingerprint"]
    runs = same or same_failures(finding)
    words = labels[("seen_line" if same else "symptom_line") + ("_one" if len(runs) == 1 else "")]
    return fill(words, count=len(runs), run=runs[0].run) if runs else ""


def same_failures(finding: Finding) -> list[EarlierRun]:
    """Returns the earlier runs with the failure; one with another symptom of its family had another failure."""
    return [seen for seen in finding.seen_before if seen.same != "family"]


def headline(finding: Finding, labels: Mapping[str, Any]) -> str:
    """Returns title, id and certainty of a finding on one line; the title alone if its kind is not known."""
    if not finding.symptom and finding.family == "other":
        return strip_markdown(finding.title)
    certainty = labels["tiers"][str(finding.tier)]
    name = finding.symptom or finding.family
    return fill(labels["headline"], title=strip_markdown(finding.title), name=name, certainty=certainty)


def strip_markdown(sentence: str) -> str:
    """Returns a sentence of the catalogue without backticks."""
    return sentence.replace("`", "")
