"""What cured a failure, as sections of entries and of the notebook's page of a symptom."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.model.fix import Fix, Proposal, in_words, line_counts, sides
from labbook.model.message import message
from labbook.model.run import Change
from labbook.report.entry.entry_page import tidy
from labbook.report.entry.section_limits import shorten_middle
from labbook.store.paths import is_run_id
from labbook.store.sentences import Sentences
from labbook.store.templates import Templates, words

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook

_MOST_ROWS = 12
_CELL = 160
_DIFF_LINES = 80
_DIFF_LETTERS = 6000
"""Of the changed code. Source: chosen by us: a screen or two; all of it is in the patches beside the two entries."""


def fix_markdown(notebook: Notebook, fix: Fix) -> str:
    """The section *Fix* of the entry of the run that failed."""
    shown, whole = shortened(fix.diff)
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
    return _rendered(notebook, "entry/fix.md.j2", data)


def cures_markdown(notebook: Notebook, proposal: Proposal) -> str:
    """The section of the entry of the run that may have cured another one, or has, as somebody confirmed."""
    data = {
        "state": "cures" if proposal.confirmed else "proposed",
        "text": "",
        "other": proposal.failed,
        "other_url": _url(notebook, proposal.by, proposal.failed),
        "symptoms": list(proposal.symptoms),
        **_rows(proposal.changes, _sentences(notebook)),
        "diff": "",
        "whole": True,
    }
    return _rendered(notebook, "entry/fix.md.j2", data)


def proposal_line(proposal: Proposal, language: str = "en") -> str:
    """The proposal in one line for the terminal."""
    said = words(language)["fix"]
    return shorten_middle(str(said["line"]).format(run=proposal.failed, changes=in_words(proposal.changes)), 300)


def symptom_fixes_markdown(notebook: Notebook, page: Path, runs: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The confirmed fixes of one symptom, as a table.

    Args:
        notebook: Gives language and places.
        page: The page that the table goes to.
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
    return _rendered(notebook, "entry/fixes.md.j2", {"rows": rows})


def shortened(diff: str) -> tuple[str, bool]:
    """A diff cut at some lines and letters, and whether it is whole."""
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
    counts = line_counts(change)
    if counts is not None:
        return before, say(message("capture.lines", added=counts[0], removed=counts[1]))
    if (before, now) != (change.before, change.now):
        return before, now  # the one changed line of a file says more than "changed"
    return say(change.messages.get("before"), before), say(change.messages.get("now"), now)


def _rows(changes: Sequence[Change], say: Sentences) -> dict[str, Any]:
    rows = []
    for change in changes[:_MOST_ROWS]:
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


def _rendered(notebook: Notebook, template: str, data: Mapping[str, Any]) -> str:
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
