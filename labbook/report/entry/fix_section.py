"""Sections on the fix of a failure, in entries and in the symptom page of the notebook."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.model.confirmed_fix import (
    Fix,
    Proposal,
    describe_changes,
    describe_move,
    describe_proposal,
    line_counts,
    sides,
)
from labbook.model.message import message
from labbook.model.run import Change
from labbook.report.entry.section_limits import shorten_middle
from labbook.store.notebook import Notebook
from labbook.store.paths import is_run_id
from labbook.store.text.entry_text import tidy
from labbook.store.text.sentences import Sentences, translate_change
from labbook.store.text.templates import Templates, words
from labbook.store.text.words_files import fill

_MOST_ROWS = 12
_CELL = 160
_DIFF_LINES = 80
_DIFF_LETTERS = 6000
"""Shown part of the code changes. Source: chosen by us, one or two screens; the patches are complete."""


def fix_markdown(notebook: Notebook, fix: Fix) -> str:
    """Returns the section *Fix* for the entry of the failed run."""
    shown, whole = shorten_diff(fix.diff)
    data = {
        "state": "fixed",
        "text": fix.text,
        "other": fix.by,
        "other_url": _url(notebook, fix.run, fix.by),
        "symptoms": list(fix.symptoms),
        **_rows(fix.changes, _sentences(notebook)),
        "diff": shown,
        "whole": whole,
    }
    return _render(notebook, "entry/fix.md.j2", data)


def cures_markdown(notebook: Notebook, proposal: Proposal) -> str:
    """Returns the section for the entry of a run that is a possible or confirmed fix."""
    data = {
        "state": "cures" if proposal.confirmed else "proposed",
        "is_evident": proposal.is_evident(),
        "text": "",
        "other": proposal.failed,
        "other_url": _url(notebook, proposal.by, proposal.failed),
        "symptoms": list(proposal.symptoms),
        **_rows(proposal.changes, _sentences(notebook)),
        "diff": "",
        "whole": True,
    }
    return _render(notebook, "entry/fix.md.j2", data)


def proposal_line(proposal: Proposal, language: str = "en") -> str:
    """Returns the proposal in one line for the terminal."""
    labels = words(language)["fix"]
    line = labels["line" if proposal.is_evident() else "line_unknown"]
    changes = Sentences(language)(describe_proposal(proposal))
    # Not "last": the clock of this machine may be behind that of another one with the same notebook.
    return shorten_middle(fill(line, run=proposal.failed, changes=changes, by=proposal.by), 300)


def list_differences(changes: Sequence[Change], language: str = "en") -> list[str]:
    """Returns the first differences for the terminal, one a line, likeliest first."""
    more = words(language)["changes"]["more"]
    say = Sentences(language)
    lines = [shorten_middle(say(describe_changes((change,))), _CELL) for change in changes[:_MOST_ROWS]]
    rest = len(changes) - len(lines)
    return [*lines, fill(more, count=rest)] if rest > 0 else lines


def symptom_fixes_markdown(notebook: Notebook, page: Path, runs: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Returns the confirmed fixes of one symptom as a table.

    Args:
        runs: Id and front matter of each run with a fix, newest first.
    """
    rows = []
    for name, meta in runs:
        by, text = str(meta.get("fix") or ""), str(meta.get("fix_text") or "")
        is_run = is_run_id(by)
        rows.append(
            {
                "run": name,
                "run_url": _link(notebook, page.parent, name),
                "title": shorten_middle(str(meta.get("title") or ""), _CELL),
                "text": shorten_middle(text if is_run else text or by, 2 * _CELL),
                "by": by if is_run else "",
                "by_url": _link(notebook, page.parent, by) if is_run else "",
            }
        )
    return _render(notebook, "entry/fixes.md.j2", {"rows": rows})


def shorten_diff(diff: str) -> tuple[str, bool]:
    """Returns a diff shortened to some lines and characters, and whether it is complete."""
    lines = [line[:400] for line in diff.split("\n")]
    kept: list[str] = []
    size = 0
    for line in lines[:_DIFF_LINES]:
        size += len(line) + 1
        if size > _DIFF_LETTERS:
            break
        kept.append(line)
    text = "\n".join(kept)
    return text, text == diff


def _sides(change: Change, say: Sentences) -> tuple[str, str]:
    before, now = sides(change)
    if (move := describe_move(change)) is not None:
        return "", say(move)
    counts = line_counts(change)
    if counts is not None:
        return before, say(message("capture.lines", added=counts[0], removed=counts[1]))
    if (before, now) != (change.before, change.now):
        # The changed line, or the part in which two long values differ.
        return before, now
    translated = translate_change(change, say)
    return translated.before, translated.now


def _rows(changes: Sequence[Change], say: Sentences) -> dict[str, Any]:
    rows = []
    for change in changes[:_MOST_ROWS]:
        change = translate_change(change, say) if "\n@@ " not in change.detail else change
        detail = change.detail.strip()
        alone = bool(detail) and "\n" not in detail and not change.before and not change.now
        before, now = _sides(change, say)
        rows.append(
            {
                "what": shorten_middle(change.what, _CELL),
                "before": shorten_middle(before, _CELL),
                "now": shorten_middle(detail if alone else now, _CELL),
            }
        )
    return {"rows": rows, "more": max(0, len(changes) - len(rows))}


def _render(notebook: Notebook, template: str, data: Mapping[str, Any]) -> str:
    templates = Templates(notebook.paths.templates, notebook.config.language_in_use())
    page, _ = templates.render_anyway(template, {"fix": data, "phrase": _sentences(notebook)})
    return tidy(page)


def _sentences(notebook: Notebook) -> Sentences:
    return Sentences(notebook.config.language_in_use(), notebook.paths.templates)


def _url(notebook: Notebook, here: str, there: str) -> str:
    return _link(notebook, notebook.paths.entry(here).parent, there) if is_run_id(there) else ""


def _link(notebook: Notebook, folder: Path, run_id: str) -> str:
    if not is_run_id(run_id):
        return ""
    return os.path.relpath(notebook.paths.entry(run_id), folder).replace(os.sep, "/")
