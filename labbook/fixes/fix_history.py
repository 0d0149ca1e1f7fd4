"""Earlier runs with the same failure, what fixed them, and whether the fix held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.index.build import query_index, query_without_refresh
from labbook.index.fix_outcomes import confirmed_fix, fix_outcome, runs_with, script_of_run
from labbook.model.finding import Finding, Seen
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    import sqlite3

_COUNTED = 5
"""For how many of the earlier runs it is counted whether their fix held."""


@dataclass(frozen=True)
class SymptomCount:
    """How often a symptom was seen in a notebook.

    Args:
        runs: How many runs show it.
        fixed: How many of them have a confirmed fix.
        last: The newest of them.
    """

    runs: int
    fixed: int
    last: str


def seen_before(
    notebook: Notebook, findings: Sequence[Finding], *, run: str = "", script: str = "", most: int = 20
) -> Mapping[str, tuple[Seen, ...]]:
    """Earlier runs with the same failures.

    Args:
        notebook: Where to look.
        findings: What a run shows.
        run: Its id: it is no earlier run of itself.
        script: Its script as its title names it, "" where the index may know it.
        most: How many are named for each finding.

    Returns:
        Symptom, "" of a finding of which only the family is known -> runs with the same fingerprint, then with the
        same symptom, then with a fix for the same family; of each those with a confirmed fix first, newest first.

    Cost: 100,000 entries, of which 5,000 show the symptom: some milliseconds.
    """
    if not findings:
        return {}

    def question(index: sqlite3.Connection) -> dict[str, tuple[Seen, ...]]:
        place = script or script_of_run(index, run)
        # Of two findings with one symptom the first one counts.
        return {finding.symptom: tuple(_seen(index, finding, run, place, most)) for finding in reversed(findings)}

    return query_without_refresh(notebook, question)


def _seen(index: sqlite3.Connection, finding: Finding, run: str, place: str, most: int) -> Iterator[Seen]:
    wanted = (
        ("fingerprint", finding.fingerprint, (1, 0)),
        ("symptom", finding.symptom, (1, 0)),
        ("family", finding.family if finding.family != "other" else "", (1,)),
    )
    told = {run}
    for key, value, states in wanted:
        for name, meta, where in (row for fixed in states for row in runs_with(index, key, value, fixed, most + 1)):
            if name in told:
                continue
            if len(told) > most:
                return
            told.add(name)
            held = None
            if meta.get("fix") and len(told) <= _COUNTED + 1:
                held = fix_outcome(index, name, meta).runs
            text, by = confirmed_fix(meta)
            # The identity of what no exception tells holds no line: in another script only the symptom agrees.
            alike = key == "fingerprint" and not finding.exception and where != place
            yield Seen(name, text, by, "symptom" if alike else key, held)


def symptom_counts(notebook: Notebook) -> Mapping[str, SymptomCount]:
    """How often each symptom was seen in the notebook, by its id."""

    def question(index: sqlite3.Connection) -> dict[str, SymptomCount]:
        rows = index.execute(
            "SELECT value, count(*), sum(fixed), max(started), note FROM failures WHERE key = 'symptom' GROUP BY value"
        )
        # With a maximum, the other columns are those of its row.
        return {
            value: SymptomCount(runs, fixed, _name_of(index, note)) for value, runs, fixed, _, note in rows.fetchall()
        }

    return query_index(notebook, question)[0]


def _name_of(index: sqlite3.Connection, note: int) -> str:
    return str(index.execute("SELECT name FROM notes WHERE id = ?", (note,)).fetchone()[0])


def fixed_runs(notebook: Notebook, symptom: str, most: int = 200) -> list[tuple[str, Mapping[str, Any]]]:
    """Runs with a confirmed fix of a symptom, newest first, each with its front matter."""

    def question(index: sqlite3.Connection) -> list[tuple[str, Mapping[str, Any]]]:
        return [(path, meta) for path, meta, _ in runs_with(index, "symptom", symptom, 1, most)]

    return query_without_refresh(notebook, question)


def newest_run(notebook: Notebook, key: str, value: str, *, before: float) -> str:
    """Id of the newest run that began before some moment, or "".

    Args:
        notebook: Where to look.
        key: A facet of `labbook.index.documents.note_facets`, such as "experiment".
        value: Its value.
        before: Unix seconds.
    """

    def question(index: sqlite3.Connection) -> str:
        row = index.execute(
            "SELECT n.name FROM facets f JOIN notes n ON n.id = f.note"
            " WHERE f.key = ? AND f.value = ? AND n.kind = 'run' AND n.started < ?"
            " ORDER BY n.started DESC, n.name DESC LIMIT 1",
            (key, value.lower(), before),
        ).fetchone()
        return str(row[0]) if row else ""

    return query_without_refresh(notebook, question)


def later_runs(notebook: Notebook, run: str, most: int = 20) -> list[str]:
    """Ids of runs of the same script, else of the same experiment, that finished after a run, the first one first."""

    def question(index: sqlite3.Connection) -> list[str]:
        row = index.execute("SELECT id, started FROM notes WHERE kind = 'run' AND name = ?", (run,)).fetchone()
        if row is None:
            return []
        found: list[str] = []
        for key in ("script", "experiment"):
            rows = index.execute(
                "SELECT n.name FROM facets mine"
                " JOIN facets f ON f.key = mine.key AND f.value = mine.value JOIN notes n ON n.id = f.note"
                " WHERE mine.note = ? AND mine.key = ? AND n.kind = 'run' AND n.started > ?"
                " AND EXISTS (SELECT 1 FROM outcomes o WHERE o.note = n.id)"
                " ORDER BY n.started, n.name LIMIT ?",
                (row[0], key, row[1], most),
            )
            found += [name for (name,) in rows.fetchall()]
        return list(dict.fromkeys(found))

    return query_without_refresh(notebook, question)
