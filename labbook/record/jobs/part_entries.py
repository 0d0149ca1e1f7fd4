"""Joins the entries of nodes without a shared file system: parts with the same job in their front matter."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from labbook.capture.job_identity import is_single_launch
from labbook.model.run import Console, Run
from labbook.model.run_json import line_by_line, run_to_json
from labbook.record.run_entry import move_long_console
from labbook.record.run_from_journal.odd_rank import name_odd, note_separation
from labbook.record.run_from_journal.rank_differences import SHOWN_COMMIT, Known, compare_ranks, is_of_a_rank
from labbook.report.entry.entry_page import entry_markdown
from labbook.report.entry.title import run_title
from labbook.report.run_data import load_run
from labbook.store.journal import write_atomically
from labbook.store.notebook import Notebook
from labbook.store.text.entry_text import read_text, split_parts, to_bytes

_JOB = re.compile(r"^job: *[\"']?([^\"'\n]+)", re.MULTILINE)
_MISSING = re.compile(r"^ranks_missing: *\[\d", re.MULTILINE)
_WORDS = re.compile(r"<!--.*?-->|^#.*$", re.DOTALL | re.MULTILINE)
_FRONT_MATTER_BYTES = 8192
_LINES_OF_OTHERS = 40
_APART_S = 60.0
"""Longest time between the end of one part and the start of another of the same launch. Source: chosen by us; ranks
that talk to each other run at the same time, and clocks of a cluster differ by less."""
_DECIDES = ("failed", "alike", "killed", "lost")


def join_jobs(notebook: Notebook, *, is_complete: bool = False) -> list[str]:
    """Joins and commits the entries of jobs whose nodes had no shared file system; returns the ids of the entries.

    Args:
        is_complete: Only jobs of which all ranks are there. Of others, two notebooks could join different parts, and
            a merge of the two would lack some.

    Raises:
        OSError: An entry cannot be written.
    """
    from labbook.store.commit.entry_commit import commit_files

    joined = []
    for job, run_ids in find_parts(notebook, is_complete=is_complete):
        run_id = join_parts(notebook, job, run_ids)
        if run_id:
            paths = notebook.paths
            files = [path for each in run_ids for path in (paths.entry(each), paths.attachments(each))]
            commit_files(notebook, files, f"Join the parts of the job {job}\n\nRun: {run_id}\n")
            joined.append(run_id)
    return joined


def find_parts(notebook: Notebook, *, is_complete: bool = False) -> list[tuple[str, list[str]]]:
    """Returns the jobs whose entries lack ranks and that have several entries: name and run ids of each launch.

    Args:
        is_complete: Only launches of which all ranks are there.
    """
    found: dict[str, list[str]] = {}
    parts: set[str] = set()
    for path, head in _heads(notebook):
        match = _JOB.search(head)
        if match is not None:
            found.setdefault(match[1].strip(), []).append(path.stem)
            parts.update([match[1].strip()] if _MISSING.search(head) else [])
    several = []
    for job in sorted(job for job, ids in found.items() if len(ids) > 1 and job in parts):
        runs = [run for run in (load_run(notebook.paths, each) for each in found[job]) if run is not None]
        for launch in _launches(runs, math.inf if is_single_launch(job) else _APART_S):
            world = max(int(run.facts("ranks").get("world") or 0) for run in launch)
            if len(launch) > 1 and (not is_complete or len(_ranks(*launch)) == world):
                several.append((job, sorted(run.id for run in launch)))
    return several


def _launches(runs: Sequence[Run], apart_s: float) -> list[list[Run]]:
    """Returns the parts of each launch: a launcher gives the same id again when a job of the same name is sent again.

    Parts belong together if they have no rank in common and ran at the same time; the nearest in time come first. Where
    the same rank ran twice at the same time, two launches share the id and cannot be separated: neither is joined.

    Args:
        apart_s: Longest time between the end of one part and the start of another; clocks of nodes may differ.
    """
    launches = {run.id: [run] for run in runs}
    pairs = sorted(combinations(runs, 2), key=lambda pair: (_started_apart_s(*pair), pair[0].id, pair[1].id))
    twice = {run.id for pair in pairs if _ranks(pair[0]) & _ranks(pair[1]) and _idle_s(*pair) < 0.0 for run in pair}
    for one, other in pairs:
        left, right = launches[one.id], launches[other.id]
        if left is not right and not _ranks(*left) & _ranks(*right) and _idle_s(one, other) <= apart_s:
            left += right
            launches.update((run.id, left) for run in right)
    return [
        launch
        for run_id, launch in launches.items()
        if launch[0].id == run_id and not any(run.id in twice for run in launch)
    ]


def _started_apart_s(one: Run, other: Run) -> float:
    return abs(one.started - other.started)


def _idle_s(one: Run, other: Run) -> float:
    """Returns the time between the end of one run and the start of the other; negative while both ran."""
    return max(one.started, other.started) - min(run.ended or run.started for run in (one, other))


def join_parts(notebook: Notebook, job: str, run_ids: Sequence[str]) -> str:
    """Joins the parts of one job into the entry of its lowest rank; returns its run id, "" if there is nothing to join.

    The joined entry has the roll-call, the exceptions, the series and the processes of all parts, and the status and
    diagnosis of the part whose rank failed first. The other parts are deleted, unless people wrote something in them.
    The result does not depend on the order of the parts, and joining again changes nothing. The caller commits: changed
    and deleted are the files of `run_ids`.

    Args:
        job: Names the job, as in the front matter.
        run_ids: Ids of its entries, at least two.

    Raises:
        OSError: An entry cannot be written.
    """
    parts = [run for run in (load_run(notebook.paths, run_id) for run_id in sorted(run_ids)) if run is not None]
    parts = [run for run in parts if run.facts("ranks").get("job") == job]
    if len(parts) < 2:
        return ""
    parts.sort(key=lambda run: (min((int(row["rank"]) for row in _rows(run)), default=0), run.id))
    joined = _join(parts, notebook.config.language_in_use())
    entry = notebook.paths.entry(joined.id)
    page = entry_markdown(joined, notebook, read_text(entry))
    folder = notebook.paths.attachments(joined.id)
    facts = line_by_line(run_to_json(move_long_console(joined, folder)))
    write_atomically(folder / "run.json", facts.encode("utf-8"))
    write_atomically(entry, to_bytes(page))
    for run in parts[1:]:
        _remove(notebook, run.id)
    return joined.id


def _join(parts: Sequence[Run], language: str) -> Run:
    first = parts[0]
    rows: dict[int, dict[str, Any]] = {}
    for run in parts:
        for row in _rows(run):
            rows.setdefault(int(row["rank"]), dict(row))
    world = max(int((run.captured["ranks"]).get("world") or 0) for run in parts)
    ordered = [rows[rank] for rank in sorted(rows)]
    missing = (
        sorted(set(range(world)) - set(rows)) if any(run.captured["ranks"].get("missing") for run in parts) else []
    )
    odd = name_odd(ordered, missing)
    deciding = next(
        (run for run in parts if odd.get("kind") in _DECIDES and any(r["rank"] in odd["ranks"] for r in _rows(run))),
        next((run for run in parts if run.status != "finished"), first),
    )
    ranks = {**first.captured["ranks"], "world": world, "rows": ordered, "missing": missing, "odd": odd}
    ranks["differences"] = _differences(parts)
    note_separation(odd, ordered, ranks["differences"])
    ranks["joined_by_clock"] = not is_single_launch(ranks["job"])
    captured = {name: facts for name, facts in first.captured.items() if name != "ending"}
    captured.update({"ending": deciding.captured["ending"]} if deciding.captured.get("ending") else {})
    known = {(series.name, series.rank) for series in first.series}
    run = replace(
        deciding,
        id=first.id,
        experiment=first.experiment,
        started=min(run.started for run in parts),
        ended=max((run.ended for run in parts if run.ended is not None), default=None),
        exceptions=tuple(sorted((e for run in parts for e in run.exceptions), key=lambda e: e.t)),
        processes=tuple(process for run in parts for process in run.processes),
        series=first.series + tuple(s for run in parts[1:] for s in run.series if (s.name, s.rank) not in known),
        console=_console(deciding, parts),
        captured={**captured, "ranks": {name: value for name, value in ranks.items() if value}},
        title="",
    )
    return replace(run, title=run_title(run, language))


def _differences(parts: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns what is not the same on all ranks: within a part, and between the parts, whose nodes are unlike."""
    facts = {rank: dict(_facts_of_node(run)) for run in parts for rank in sorted(_ranks(run))}
    within = [one for run in parts for one in run.captured["ranks"].get("differences", [])]
    return compare_ranks(facts) + within


def _facts_of_node(run: Run) -> Iterator[tuple[str, Known]]:
    code, python, command = (run.facts(name) for name in ("code", "python", "command"))
    commit, packages = str(code.get("commit") or ""), python.get("packages") or {}
    yield "commit", (commit, commit[:SHOWN_COMMIT])
    versions = {"Python": python.get("version"), **{name: packages.get(name) for name in python.get("loaded") or ()}}
    variables = {n: value for n, value in (command.get("environment") or {}).items() if not is_of_a_rank(n)}
    yield from ((name, (str(value or ""), str(value))) for name, value in {**versions, **variables}.items())


def _console(deciding: Run, parts: Sequence[Run]) -> Console:
    text = deciding.console.text
    for run in parts:
        if run is not deciding:
            text += "".join(f"{line}\n" for line in run.console.text.splitlines()[-_LINES_OF_OTHERS:])
    return replace(deciding.console, text=text, lines=sum(run.console.lines for run in parts))


def _rows(run: Run) -> list[dict[str, Any]]:
    return [row for row in run.facts("ranks").get("rows") or () if isinstance(row, dict)]


def _ranks(*runs: Run) -> set[int]:
    return {int(row["rank"]) for run in runs for row in _rows(run)}


def _remove(notebook: Notebook, run_id: str) -> None:
    """Removes a part that only has generated text."""
    entry = notebook.paths.entry(run_id)
    with suppress(OSError):
        own = "".join(part.text for part in split_parts(_body(read_text(entry))) if not part.name)
        if _WORDS.sub("", own).strip():
            return
        from shutil import rmtree

        rmtree(notebook.paths.attachments(run_id), ignore_errors=True)
        entry.unlink()


def _body(page: str) -> str:
    return page.split("\n---\n", 1)[-1] if page.startswith("---\n") else page


def _heads(notebook: Notebook) -> Iterator[tuple[Path, str]]:
    """Yields the entries with the first part of their text."""
    for folder, _, names in os.walk(notebook.paths.runs):
        for name in names:
            if name.endswith(".md"):
                path = Path(folder) / name
                with suppress(OSError), path.open(encoding="utf-8", errors="replace") as stream:
                    yield path, stream.read(_FRONT_MATTER_BYTES).partition("\n---\n")[0]
