"""Says how a rerun compares with its run, on the terminal and in both entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.message import Message, message
from labbook.rerun.reproduction import Reproduction
from labbook.store.commit.entry_commit import CommitOutcome, commit_files
from labbook.store.notebook import Notebook
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import change_entry, set_block
from labbook.store.text.escape import inline
from labbook.store.text.sentences import Sentences

BLOCK = "reproduction"
_HEADS = {
    "identical": "rerun.identical",
    "within_noise": "rerun.within_noise",
    "different": "rerun.different",
    "unknown": "rerun.unknown",
}
_MAX_SERIES = 6


def reproduction_lines(found: Reproduction) -> list[Message]:
    """Returns the verdict with its evidence, in sentences."""
    head = message("rerun.printed_alike" if found.verdict == "identical" and found.printed else _HEADS[found.verdict])
    if found.verdict == "identical" and found.end is not None:
        return [found.end]
    lines = [head, *([found.end] if found.end is not None else [])]
    if found.values:
        names = list(found.series[:_MAX_SERIES])
        rest = len(found.series) - len(names)
        lines.append(
            message("rerun.compared_more", values=found.values, names=names, more=rest)
            if rest
            else message("rerun.compared", values=found.values, names=names)
        )
    if found.files:
        lines.append(message("rerun.equal_files", count=found.files))
    if found.first is not None:
        first = found.first
        at = {"series": first.series, "step": first.step}
        if first.before is None:
            lines.append(message("rerun.first_only_now", **at))
        elif first.now is None:
            lines.append(message("rerun.first_only_before", **at))
        else:
            lines.append(message("rerun.first", before=repr(first.before), now=repr(first.now), **at))
    if found.noise is not None:
        lines.append(found.noise)
    if found.verdict in ("different", "within_noise"):
        lines += found.reasons
    return lines


def write_verdict(
    notebook: Notebook, original: str, reruns: Sequence[str], found: Reproduction, language: str
) -> CommitOutcome:
    """Writes the verdict into the entries of a run and of its reruns, and commits them.

    Args:
        reruns: Ids of its reruns.

    Raises:
        NotebookError: An entry cannot be written.
    """
    say = Sentences(language, notebook.paths.templates)
    lines = [inline(say(line)) for line in reproduction_lines(found)]
    files = []
    for run_id in (original, *reruns):
        others = reruns if run_id == original else [original]
        key = "rerun.in_original" if run_id == original else "rerun.in_rerun"
        beside = say.line(key, runs=[f"[{other}]({_link(run_id, other)})" for other in others])
        text = "\n".join([f"## {say.line('rerun.heading')}", "", beside, "", *(f"- {line}" for line in lines)])

        def add_verdict(page: str, run_id: str = run_id, text: str = text) -> str:
            page = frontmatter.update(page, {"reproduction": found.verdict}, run_id)
            return set_block(page, BLOCK, f"\n{text}\n", ("summary", "title"))

        files.append(change_entry(notebook.paths, run_id, add_verdict))
    return commit_files(notebook, files, f"Reproduce {original}: {found.verdict}\n\nRun: {original}\n")


def _link(of_run: str, other: str) -> str:
    """Returns the address of the entry of another run, as seen from the entry of a run."""
    day, other_day = of_run[:8], other[:8]
    if day == other_day:
        return f"{other}.md"
    return f"../../../{other_day[:4]}/{other_day[4:6]}/{other_day[6:]}/{other}.md"


def verdict_data(found: Reproduction, say: Sentences) -> dict[str, Any]:
    """Returns the verdict as JSON data."""
    first: Mapping[str, Any] | None = None
    if found.first is not None:
        first = {**vars(found.first), "relative": found.first.relative}
    return {
        "verdict": found.verdict,
        "values": found.values,
        "series": list(found.series),
        "files": found.files,
        "first_difference": first,
        "text": [say(line) for line in reproduction_lines(found)],
    }
