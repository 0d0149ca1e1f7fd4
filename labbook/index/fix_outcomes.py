"""Confirmed fixes in the index, and whether the failure came back in later runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass

if TYPE_CHECKING:
    import sqlite3

HELD_MOST = 1000
"""Most later runs that are counted. Source: chosen by us."""


@dataclass(frozen=True)
class FixOutcome:
    """Later runs of a fix.

    Args:
        runs: Later runs of the same script that finished without the failure, until it came back; at most `HELD_MOST`.
        returned: First run in which it came back, or "".
    """

    runs: int
    returned: str = ""


def confirmed_fix(meta: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the confirmed fix of an entry in words and as a run id, each "" if there is none.

    Args:
        meta: Front matter. `fix` is a run id or words, `fix_text` describes the change.
    """
    from labbook.store.paths import is_run_id

    fix, text = str(meta.get("fix") or ""), str(meta.get("fix_text") or "")
    return (text, fix) if is_run_id(fix) else (text or fix, "")


def fix_outcome(index: sqlite3.Connection, name: str, meta: Mapping[str, Any]) -> FixOutcome:
    """Returns the outcome of the fix of a run in later runs of its script."""
    _, by = confirmed_fix(meta)
    row = index.execute("SELECT started, id FROM notes WHERE kind = 'run' AND name = ?", (by or name,)).fetchone()
    row = row or index.execute("SELECT started, id FROM notes WHERE kind = 'run' AND name = ?", (name,)).fetchone()
    place = script_of_run(index, name)
    if row is None or not place:
        return FixOutcome(0)
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
    return FixOutcome(count, back[1] if back else "")


def script_of_run(index: sqlite3.Connection, run: str) -> str:
    """Returns the script of a run that has a failure, "" if unknown."""
    row = index.execute(
        "SELECT f.place FROM failures f JOIN notes n ON n.id = f.note WHERE n.kind = 'run' AND n.name = ? LIMIT 1",
        (run,),
    ).fetchone()
    return str(row[0]) if row else ""


def runs_with(
    index: sqlite3.Connection, key: str, value: str, fixed: int, most: int
) -> list[tuple[str, dict[str, Any], str]]:
    """Returns id, front matter and script of the runs with a failure, newest first.

    Args:
        key: "fingerprint", "symptom" or "family".
        value: Its value; "" finds nothing.
        fixed: 1 for runs with a confirmed fix, 0 for the others.
    """
    if not value:
        return []
    rows = index.execute(
        "SELECT n.name, n.meta, f.place FROM failures f JOIN notes n ON n.id = f.note"
        " WHERE f.key = ? AND f.value = ? AND f.fixed = ? ORDER BY f.started DESC, f.note DESC LIMIT ?",
        (key, value.lower(), fixed, most),
    )
    return [(name, json.loads(meta), place) for name, meta, place in rows.fetchall()]


def runs_of_experiment(index: sqlite3.Connection, experiment: str, most: int) -> list[dict[str, Any]]:
    """Returns the front matter of the runs of an experiment, newest first, at most so many."""
    rows = index.execute(
        "SELECT n.meta FROM facets f JOIN notes n ON n.id = f.note"
        " WHERE f.key = 'experiment' AND f.value = ? AND n.kind = 'run' ORDER BY n.started DESC LIMIT ?",
        (experiment.lower(), most),
    )
    return [json.loads(meta) for (meta,) in rows.fetchall()]
