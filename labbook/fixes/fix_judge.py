"""Marks which fixes of earlier runs are fixes for a failure of now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from labbook.fixes.difference_names import map_modules, normalize_name
from labbook.fixes.fix_applicability import (
    Circumstances,
    can_apply,
    diff_changes,
    differ_in_framework,
    is_description,
    is_for_other_value,
    is_same_failure,
    read_circumstances,
    sets_named_number,
    sets_refused_value,
    touches_failure,
)
from labbook.fixes.fix_candidates import drop_doubles, find_new_inputs, keep_used, split_changes
from labbook.fixes.fix_ranking import order_candidates
from labbook.fixes.unknown_failure import describe_exception
from labbook.model.confirmed_fix import changed_lines, describe_changes
from labbook.model.finding import EarlierRun, Finding
from labbook.model.message import message
from labbook.model.run import Change, Run
from labbook.model.run_json import run_to_json
from labbook.store.notebook import Notebook
from labbook.store.text.sentences import Sentences

_MOST = 6
"""Maximum earlier fixes of one failure that are looked at; each costs the reading of two runs, some milliseconds."""


class FixJudge:
    """Judges earlier fixes for one run.

    Args:
        now: The run of now; `None` if only the text of a failure is known.
    """

    def __init__(self, notebook: Notebook, now: Run | None) -> None:
        self._notebook = notebook
        self._now = now
        self._here = read_circumstances(now) if now is not None else None
        self._sentences = Sentences(notebook.config.language_in_use(), notebook.paths.templates)

    def judge(self, finding: Finding, seen: Sequence[EarlierRun]) -> tuple[EarlierRun, ...]:
        """Returns the earlier runs with `fits` set for those whose fix is one for this failure."""
        left = _MOST
        judged = []
        for one in seen:
            if one.fix and one.same != "family" and left:
                left -= 1
                judged.append(self._judge(finding, one))
            else:
                judged.append(one)
        return tuple(judged)

    def _judge(self, finding: Finding, seen: EarlierRun) -> EarlierRun:
        """Returns an earlier run with `fits`, and its fix without the differences that are no fix here."""
        from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
        from labbook.report.run_data import load_run

        failed = load_run(self._notebook.paths, seen.run)
        if failed is None:
            return seen
        # A failure that no page describes has no finding until a fix for it is known.
        there = next((f for f in failed.findings if f.symptom == finding.symptom), None)
        there = there or (None if finding.symptom else describe_exception(failed))
        if there is None:
            return seen
        cure = load_run(self._notebook.paths, seen.by) if seen.by else None
        whole = self._list_changes(failed, cure) if cure is not None else []
        known = split_changes(whole)
        here = self._here
        refused = [one for one in known if here is not None and sets_refused_value(one, there, finding, here)]
        is_check = any(check.id == finding.symptom and check.verdict in ("fail", "warn") for check in failed.checks)
        if not refused and not is_same_failure(finding, there, is_check=is_check):
            return seen
        is_very_same = bool(finding.exception) and finding.fingerprint == there.fingerprint
        catalogue = load_catalogue(self._notebook.paths.symptoms).symptoms
        if is_very_same and is_description(seen.fix, known):
            # Somebody said in words what to do about this very failure; where that was done, it has another cause.
            main: Sequence[Change] = ()
            if cure is not None and here is not None:
                ordered, count = order_candidates(drop_doubles(known, failed), failed, cure, failed.symptoms, catalogue)
                main = ordered[: count or 1]
            return replace(seen, fits=not main or here is None or not all(_is_made(one, here) for one in main))
        page = catalogue.get(finding.symptom)
        is_portable = self._now is None or not (
            differ_in_framework(failed, self._now)
            or (is_check and _differ_in_cause(finding.symptom, failed, self._now))
        )
        changes = [
            change
            for change in known
            if change in refused
            or (not is_for_other_value(change, there, finding) and (is_portable or change.kind != "code"))
        ]

        def can_be_made(change: Change) -> bool:
            return here is None or change in refused or can_apply(change, here, finding)

        modules = map_modules(cure) if cure is not None else {}
        fitting = [
            change
            for change in changes
            if change in refused
            or (is_very_same and self._say([change]) in seen.fix)
            or touches_failure(change, finding, page)
            or any(touches_failure(replace(change, what=name), finding, page) for name in modules.get(change.what, ()))
            or (here is not None and sets_named_number(change, there, finding, here))
        ]
        fitting = list(filter(can_be_made, fitting))
        if fitting and cure is not None:
            # What most likely cured the run is the cure of all that was found in it, as long as it is still to be made.
            ordered, count = order_candidates(drop_doubles(changes, failed), failed, cure, failed.symptoms, catalogue)
            listed = [change for change in ordered if self._say([change]) in seen.fix] or ordered[: count or 1]
            # A variable that the program reads as an option is listed as both.
            alike = {self._say([change]): change for change in filter(can_be_made, listed)}
            main = list(alike.values())
            fitting = [change for change in main if change in fitting] or main[:1]
        return replace(seen, fits=bool(fitting), fix=self._describe(fitting, [*whole, *known], seen.fix))

    def _describe(self, fitting: Sequence[Change], known: Sequence[Change], fix: str) -> str:
        """Returns the differences that fit, where a fix is nothing but a list of differences; else the fix as it is."""
        rest = fix
        for change in known:
            rest = rest.replace(self._say([change]), "")
        for count in re.findall(r"\d+", rest):
            rest = rest.replace(self._sentences(message("capture.change.more", count=int(count))), "")
        return self._say(fitting) if fitting and not rest.strip(" ;；") else fix

    def _say(self, changes: Sequence[Change]) -> str:
        return self._sentences(describe_changes(changes))

    def _list_changes(self, failed: Run, cure: Run) -> list[Change]:
        """Returns the differences that may have cured the earlier run."""
        from labbook.compare.run_changes import compare_settings

        before, after = (run_to_json(replace(run, series=())) for run in (failed, cure))
        changes = [*compare_settings(before, after), *diff_changes(self._read_entry(failed.id))]
        return [*keep_used(changes, failed, cure), *find_new_inputs(failed, cure)]

    def _read_entry(self, run_id: str) -> str:
        from labbook.store.text.entry_text import read_text

        try:
            return read_text(self._notebook.paths.entry(run_id))
        except OSError:
            return ""


def _is_made(change: Change, here: Circumstances) -> bool:
    """Whether a run that failed has what a difference put in: its lines, or the value of its option."""
    if change.kind not in ("code", "config"):
        values = {"argument": here.options, "environment": here.environment, "package": here.packages}
        name = normalize_name(change.what) if change.kind == "argument" else change.what
        return bool(change.now) and values.get(change.kind, {}).get(name) == change.now
    lines = {line.strip() for text in (here.code, *here.configs) for line in text.splitlines()}
    old, new = map(set, changed_lines(change.detail))
    if not (old or new) or can_apply(change, here):
        return False
    return lines.issuperset(new) and lines.isdisjoint(old - new)


def _differ_in_cause(symptom: str, failed: Run, now: Run) -> bool:
    """Whether the check of a symptom failed because of another one in one of the runs, and not in the other."""
    there, here = ({check.explained_by for check in run.checks if check.id == symptom} - {""} for run in (failed, now))
    return there != here and there.isdisjoint(now.symptoms)
