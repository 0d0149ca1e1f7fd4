"""Earlier runs with the same failure, what cured them, and whether that held."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.index.build import ask, ask_quickly
from labbook.model.finding import Finding, Seen
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    import sqlite3

HELD_MOST = 1000
"""Later runs are counted up to here. Source: chosen by us; a fix that held so often is not doubted any more."""

_COUNTED = 5
"""Of how many of the runs that were seen before it is counted whether their fix held."""


@dataclass(frozen=True)
class Held:
    """Whether a fix held.

    Args:
        runs: Later runs of the same script that finished without the failure, until it came back; at most `HELD_MOST`.
        returned: Run in which it came back first, or "".
    """

    runs: int
    returned: str = ""


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
        place = script or _place(index, run)
        # Of two findings with one symptom the first one counts.
        return {finding.symptom: tuple(_seen(index, finding, run, place, most)) for finding in reversed(findings)}

    return ask_quickly(notebook, question)


def _place(index: sqlite3.Connection, run: str) -> str:
    """The script of a run that shows a failure; "" when it is not known."""
    row = index.execute(
        "SELECT f.place FROM failures f JOIN notes n ON n.id = f.note WHERE n.kind = 'run' AND n.name = ? LIMIT 1",
        (run,),
    ).fetchone()
    return str(row[0]) if row else ""


def _seen(index: sqlite3.Connection, finding: Finding, run: str, place: str, most: int) -> Iterator[Seen]:
    wanted = (
        ("fingerprint", finding.fingerprint, (1, 0)),
        ("symptom", finding.symptom, (1, 0)),
        ("family", finding.family if finding.family != "other" else "", (1,)),
    )
    told = {run}
    for key, value, states in wanted:
        for name, meta, where in (row for fixed in states for row in _with(index, key, value, fixed, most + 1)):
            if name in told:
                continue
            if len(told) > most:
                return
            told.add(name)
            held = None
            if meta.get("fix") and len(told) <= _COUNTED + 1:
                held = held_since(index, name, meta).runs
            text, by = fix_of(meta)
            # The identity of what no exception tells holds no line: in another script only the symptom agrees.
            alike = key == "fingerprint" and not finding.exception and where != place
            yield Seen(name, text, by, "symptom" if alike else key, held)


def _with(
    index: sqlite3.Connection, key: str, value: str, fixed: int, most: int
) -> list[tuple[str, dict[str, Any], str]]:
    if not value:
        return []
    rows = index.execute(
        "SELECT n.name, n.meta, f.place FROM failures f JOIN notes n ON n.id = f.note"
        " WHERE f.key = ? AND f.value = ? AND f.fixed = ? ORDER BY f.started DESC, f.note DESC LIMIT ?",
        (key, value.lower(), fixed, most),
    )
    return [(name, json.loads(meta), place) for name, meta, place in rows.fetchall()]


def fix_of(meta: Mapping[str, Any]) -> tuple[str, str]:
    """The confirmed fix of an entry: in words, and the run that was cured by it; each "" where there is none.

    Args:
        meta: Front matter. `fix` is a run or words; `fix_text` says what changed.
    """
    from labbook.store.paths import is_run_id

    fix, text = str(meta.get("fix") or ""), str(meta.get("fix_text") or "")
    return (text, fix) if is_run_id(fix) else (text or fix, "")


def held_since(index: sqlite3.Connection, name: str, meta: Mapping[str, Any]) -> Held:
    """Whether the fix of a run held in the later runs of its script.

    Args:
        index: The index.
        name: The run that failed.
        meta: Its front matter.
    """
    _, by = fix_of(meta)
    row = index.execute("SELECT started, id FROM notes WHERE kind = 'run' AND name = ?", (by or name,)).fetchone()
    row = row or index.execute("SELECT started, id FROM notes WHERE kind = 'run' AND name = ?", (name,)).fetchone()
    place = _place(index, name)
    if row is None or not place:
        return Held(0)
    since, key = row[0], "fingerprint" if meta.get("fingerprints") else "symptom"
    listed = meta.get("fingerprints") or meta.get("symptoms") or []
    first = str(listed[0] if isinstance(listed, list) and listed else listed).lower()
    back = index.execute(
        "SELECT f.started, n.name FROM failures f JOIN notes n ON n.id = f.note"
        " WHERE f.place = ? AND f.key = ? AND f.value = ? AND f.started > ? ORDER BY f.started LIMIT 1",
        (place, key, first, since),
    ).fetchone()
    until = back[0] if back else float("inf")
    count = index.execute(
        "SELECT count(*) FROM (SELECT 1 FROM outcomes WHERE place = ? AND started > ? AND started < ? LIMIT ?)",
        (place, since, until, HELD_MOST),
    ).fetchone()[0]
    return Held(count, back[1] if back else "")


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

    return ask(notebook, question)[0]


def _name_of(index: sqlite3.Connection, note: int) -> str:
    return str(index.execute("SELECT name FROM notes WHERE id = ?", (note,)).fetchone()[0])


def fixed_runs(notebook: Notebook, symptom: str, most: int = 200) -> list[tuple[str, Mapping[str, Any]]]:
    """Runs with a confirmed fix of a symptom, newest first, each with its front matter."""

    def question(index: sqlite3.Connection) -> list[tuple[str, Mapping[str, Any]]]:
        return [(path, meta) for path, meta, _ in _with(index, "symptom", symptom, 1, most)]

    return ask_quickly(notebook, question)


def newest_run(notebook: Notebook, key: str, value: str, *, before: float) -> str:
    """Id of the newest run that began before some moment, or "".

    Args:
        notebook: Where to look.
        key: A facet of `labbook.index.documents.facets_of`, such as "experiment".
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

    return ask_quickly(notebook, question)


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

    return ask_quickly(notebook, question)
