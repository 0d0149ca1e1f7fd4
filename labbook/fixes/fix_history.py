"""Finds earlier runs with the same failure, their fixes, and whether each fix still worked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labbook.fixes.fix_judge import FixJudge
from labbook.frozen import dataclass
from labbook.index.build import query_index, query_without_refresh
from labbook.index.fix_outcomes import confirmed_fix, fix_outcome, runs_with, script_of_run
from labbook.model.finding import EarlierRun, Finding
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    import sqlite3

    from labbook.model.run import Run

_MAX_OUTCOMES = 5
"""Maximum earlier runs whose fix is followed in later runs."""
_MOST_RUNS, _MOST_FIXED = 20, 200
"""Maximum runs of a finding, and runs that a symptom page lists as fixed."""


@dataclass(frozen=True)
class SymptomCount:
    """Counts of one symptom in a notebook.

    Args:
        runs: Number of runs that show it.
        fixed: Number of them with a confirmed fix.
        last: The newest of them.
    """

    runs: int
    fixed: int
    last: str


def find_earlier_runs(
    notebook: Notebook,
    findings: Sequence[Finding],
    *,
    run: str = "",
    script: str = "",
    now: Run | None = None,
) -> Mapping[str, tuple[EarlierRun, ...]]:
    """Returns earlier runs with the same failures.

    Args:
        run: Id of that run, which is left out.
        script: Project and script of that run (`labbook.index.documents.script_key`), "" to look it up in the index.
        now: That run, to tell whether an earlier fix is still to be made in it; `None` if only a text is known.

    Returns:
        Symptom, or family of a finding without one -> runs with the same fingerprint, then with the same symptom,
        then with a fix for the same family; each with confirmed fixes first, then newest first. `fits` returns whether
        the fix is one for this failure.

    Cost: a few milliseconds for 100,000 entries of which 5,000 show the symptom.
    """
    if not findings:
        return {}

    by_name = {finding.symptom or finding.family: finding for finding in reversed(findings)}

    def run_query(index: sqlite3.Connection) -> dict[str, tuple[EarlierRun, ...]]:
        place = script or script_of_run(index, run)
        # Of two findings with one symptom the first one counts.
        return {name: tuple(_find_runs(index, finding, run, place)) for name, finding in by_name.items()}

    seen = query_without_refresh(notebook, run_query)
    if not any(one.fix for runs in seen.values() for one in runs):
        return seen
    judge = FixJudge(notebook, now)
    judged = {name: judge.judge(by_name[name], runs) for name, runs in seen.items()}
    return {name: tuple(_with_consequences(name, runs, by_name, judged)) for name, runs in judged.items()}


def _with_consequences(
    name: str,
    runs: Sequence[EarlierRun],
    findings: Mapping[str, Finding],
    judged: Mapping[str, Sequence[EarlierRun]],
) -> Iterator[EarlierRun]:
    """Yields the earlier runs of a finding; what fixed a consequence of it in one of them fits here, too."""
    following = [other for other, finding in findings.items() if finding.follows_from == name]
    fixed = {one.run for other in following for one in judged[other] if one.fits}
    for one in runs:
        yield replace(one, fits=True) if one.run in fixed and one.same != "family" else one


def _find_runs(index: sqlite3.Connection, finding: Finding, run: str, place: str) -> Iterator[EarlierRun]:
    wanted = (
        ("fingerprint", finding.fingerprint, (1, 0)),
        ("symptom", finding.symptom, (1, 0)),
        ("family", finding.family if finding.family != "other" else "", (1,)),
    )
    named = {run}
    for key, value, states in wanted:
        for name, meta, where in (
            row for fixed in states for row in runs_with(index, key, value, fixed, _MOST_RUNS + 1)
        ):
            if name in named or (key == "symptom" and _is_consequence_there(finding, meta)):
                continue
            if len(named) > _MOST_RUNS:
                return
            named.add(name)
            still_fixed = None
            if meta.get("fix") and len(named) <= _MAX_OUTCOMES + 1:
                still_fixed = fix_outcome(index, name, meta).runs
            text, by = confirmed_fix(meta)
            # The fingerprint of a finding without an exception has no line: in another script only the symptom agrees.
            alike = key == "fingerprint" and not finding.exception and where != place
            yield EarlierRun(name, text, by, "symptom" if alike else key, still_fixed)


def _is_consequence_there(finding: Finding, meta: Mapping[str, Any]) -> bool:
    """Whether an earlier run crashed of another symptom, which caused the exception of this finding there."""
    reason = meta.get("verdict_reason")
    is_crash = bool(finding.exception) and not finding.follows_from and meta.get("status") == "failed"
    return is_crash and reason != finding.symptom and reason in (meta.get("symptoms") or ())


def count_symptoms(notebook: Notebook) -> Mapping[str, SymptomCount]:
    """Returns the counts of each symptom in the notebook, by its id."""

    def run_query(index: sqlite3.Connection) -> dict[str, SymptomCount]:
        rows = index.execute(
            "SELECT value, count(*), sum(fixed), max(started), note FROM failures WHERE key = 'symptom' GROUP BY value"
        )
        # With `max()`, SQLite takes the other columns from the row of the maximum.
        return {
            value: SymptomCount(runs, fixed, _name_of(index, note)) for value, runs, fixed, _, note in rows.fetchall()
        }

    return query_index(notebook, run_query)[0]


def _name_of(index: sqlite3.Connection, note: int) -> str:
    return str(index.execute("SELECT name FROM notes WHERE id = ?", (note,)).fetchone()[0])


def list_fixed_runs(notebook: Notebook, symptom: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns runs with a confirmed fix of a symptom and their front matter, newest first."""

    def run_query(index: sqlite3.Connection) -> list[tuple[str, Mapping[str, Any]]]:
        return [(path, meta) for path, meta, _ in runs_with(index, "symptom", symptom, 1, _MOST_FIXED)]

    return query_without_refresh(notebook, run_query)


def find_newest_run(notebook: Notebook, key: str, value: str, *, before: float) -> str:
    """Returns the id of the newest run that started before a moment, or "".

    Args:
        key: A facet of `labbook.index.documents.note_facets`, such as "experiment".
        value: Value of the facet.
        before: Unix time, s.
    """

    def run_query(index: sqlite3.Connection) -> str:
        row = index.execute(
            "SELECT n.name FROM facets f JOIN notes n ON n.id = f.note"
            " WHERE f.key = ? AND f.value = ? AND n.kind = 'run' AND n.started < ?"
            " ORDER BY n.started DESC, n.name DESC LIMIT 1",
            (key, value.lower(), before),
        ).fetchone()
        return str(row[0]) if row else ""

    return query_without_refresh(notebook, run_query)


def find_later_runs(notebook: Notebook, run: str) -> list[str]:
    """Returns finished later runs of the same script and project, then of the same experiment, oldest first."""

    def run_query(index: sqlite3.Connection) -> list[str]:
        row = index.execute("SELECT id, started, meta FROM notes WHERE kind = 'run' AND name = ?", (run,)).fetchone()
        if row is None:
            return []
        project = json.loads(row[2]).get("project")
        names: list[str] = []
        for key in ("script", "experiment"):
            rows = index.execute(
                "SELECT n.name, n.meta FROM facets mine"
                " JOIN facets f ON f.key = mine.key AND f.value = mine.value JOIN notes n ON n.id = f.note"
                " WHERE mine.note = ? AND mine.key = ? AND n.kind = 'run' AND n.started > ?"
                " AND EXISTS (SELECT 1 FROM outcomes o WHERE o.note = n.id)"
                " ORDER BY n.started, n.name LIMIT ?",
                (row[0], key, row[1], _MOST_RUNS),
            )
            names += [name for name, meta in rows.fetchall() if json.loads(meta).get("project") == project]
        return list(dict.fromkeys(names))

    return query_without_refresh(notebook, run_query)
