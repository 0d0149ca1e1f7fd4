"""Writes the entry of a run: the Markdown page of a `Run`, with the text that people added to it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.errors import EntryError
from labbook.model.run import Run
from labbook.report import numbers
from labbook.report.entry.cells_section import cells_section
from labbook.report.entry.configuration_section import (
    code_section,
    configuration_section,
    resources_section,
    unobserved_section,
)
from labbook.report.entry.console_section import console_section
from labbook.report.entry.debug_section import data_section, debug_section
from labbook.report.entry.diagnosis_section import diagnosis_section
from labbook.report.entry.entry_front_matter import entry_meta
from labbook.report.entry.environment_section import environment_section
from labbook.report.entry.files_section import files_section
from labbook.report.entry.imported_section import imported_section
from labbook.report.entry.model_section import model_section
from labbook.report.entry.ranks_section import ranks_section
from labbook.report.entry.requests_section import checked_section, moments_section, profile_section, stopped_line
from labbook.report.entry.section_limits import MAX_ENTRY_BYTES, Limits, bounded, steps
from labbook.report.entry.snapshot_section import snapshot_section
from labbook.report.entry.summary_section import (
    changes_section,
    exception_section,
    health_section,
    metrics_section,
    title_section,
)
from labbook.report.entry.title import run_title
from labbook.report.entry.trials_section import trials_section
from labbook.store.git.remotes import credential_free
from labbook.store.notebook import Notebook
from labbook.store.text import entry_text, escape, frontmatter
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates, finished_text

SECTIONS = (
    "title", "imported", "diagnosis", "exception", "cells", "ranks", "trials", "changes", "metrics", "health",
    "checked", "moments", "model", "data", "debug", "resources", "profile", "console", "configuration", "environment",
    "code", "files", "snapshot", "unobserved",
)  # fmt: skip
"""Generated blocks, in order."""

_BY_HAND = "<!-- title given by hand -->"
_HEADING = re.compile(r"^# (.+?)[ \t\r]*$", re.MULTILINE)


def entry_markdown(run: Run, notebook: Notebook, existing: str | None = None) -> str:
    """Returns the entry of a run; the generated part has at most 64 KiB.

    Text of people in `existing`, outside the markers, is preserved byte for byte, and so are their tags, title and
    other front matter. Sections listed under `leave_out:` in the front matter are omitted.

    Args:
        existing: The entry on disk, read without translating line ends, or `None`.
    """
    before = _meta_of(existing)
    language = notebook.config.language_in_use()
    title, by_hand = _title(run, language, before, existing)
    templates = Templates(notebook.paths.templates, language, {"count": _count})
    say = Sentences(language, notebook.paths.templates)
    left_out = _names(before.get("leave_out"))
    page = ""
    for limits in steps():
        data = _page_data(run, notebook, limits, title, say)
        body = _body(templates, data, say, by_hand=by_hand)
        page = frontmatter.emit(entry_meta(run, title, before)) + "\n" + body
        if existing is not None:
            page = entry_text.merge(existing, page, known=SECTIONS, left_out=left_out)
        if len(page.encode("utf-8", "surrogateescape")) <= MAX_ENTRY_BYTES:
            break
    return page


def _page_data(run: Run, notebook: Notebook, limits: Limits, title: str, say: Sentences) -> dict[str, Any]:
    """Returns plain data for the template, which escapes it for each place."""
    paths = notebook.paths
    store = _display_store(notebook.config.artifact_store)
    makers: dict[str, Callable[[], dict[str, Any] | None]] = {
        "imported": lambda: imported_section(run, limits),
        "diagnosis": lambda: diagnosis_section(run, limits),
        "exception": lambda: exception_section(run, limits),
        "cells": lambda: cells_section(run, limits),
        "ranks": lambda: ranks_section(run, limits, say),
        "trials": lambda: trials_section(run, paths, limits),
        "changes": lambda: changes_section(run, paths, limits, say),
        "health": lambda: health_section(run, limits, say),
        "metrics": lambda: metrics_section(run, limits),
        "model": lambda: model_section(run, limits),
        "data": lambda: data_section(run, limits),
        "debug": lambda: debug_section(run, limits),
        "checked": lambda: checked_section(run, limits, say),
        "moments": lambda: moments_section(run, limits),
        "profile": lambda: profile_section(run, limits),
        "resources": lambda: resources_section(run),
        "console": lambda: console_section(run, limits),
        "environment": lambda: environment_section(run, limits, say),
        "code": lambda: code_section(run, limits, say),
        "files": lambda: files_section(run, paths, store, limits),
        "snapshot": lambda: snapshot_section(run, limits),
    }
    data: dict[str, Any] = {}
    failed: list[tuple[str, str]] = []
    for name, make in makers.items():
        try:
            data[name] = make()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # noqa: PERF203
            # Facts of unexpected shape make their section fail, with a note, never the entry.
            data[name] = None
            failed.append((f"section {name}", f"it could not be written: {type(error).__name__}: {error}"))
    data["head"] = {**title_section(run, title, paths, say.language), "stopped": stopped_line(run)}
    data["configuration"] = configuration_section(run, limits, say)
    data["unobserved"] = unobserved_section(run, limits, failed)
    return {**bounded(data, limits), "shortened": limits != Limits()}


def _display_store(address: str) -> str:
    """Returns the place of kept files without credentials and without the name of the user's home folder."""
    home = str(Path.home())
    shown = credential_free(address)
    return f"~{shown[len(home) :]}" if len(home) > 1 and shown.startswith(f"{home}/") else shown


def _body(templates: Templates, data: Mapping[str, Any], say: Sentences, *, by_hand: bool) -> str:
    """Returns the page below its front matter, with a note on a broken template."""
    tools = {"section": _section(by_hand), "phrase": say, "template_note": ""}
    body, trouble = templates.render_anyway("entry.md.j2", {**data, **tools})
    if trouble:
        body, _ = templates.render_anyway("entry.md.j2", {**data, **tools, "template_note": trouble})
    return entry_text.tidy(body)


def _section(by_hand: bool) -> Callable[..., Any]:
    """Returns the template macro that puts the markers of a block around a section that is not empty."""

    def section(name: str, caller: Callable[[], str]) -> Any:  # noqa: ANN401 - finished text
        content = str(caller())
        if not content.strip():
            return finished_text("")
        if name == "title" and by_hand:
            content += f"\n{_BY_HAND}\n"
        return finished_text(entry_text.block(name, entry_text.tidy(content)))

    return section


def _title(run: Run, language: str, before: Mapping[str, Any], existing: str | None) -> tuple[str, bool]:
    """Returns the title, and whether people set it.

    The generated title changes when the run ends. A title in the front matter or the heading that differs from the
    generated one was set by people and is preserved; a hidden mark next to the heading records that.
    """
    own = run.title or run_title(run, language)
    if existing is None:
        return own, False
    blocks = [p.text for p in entry_text.split_parts(existing) if p.name == "title"]
    heading = _HEADING.search(blocks[0]) if blocks else None
    shown, noted = (heading.group(1) if heading else ""), str(before.get("title") or "")
    if not noted or not blocks:
        return own, False
    if _BY_HAND in blocks[0]:
        return noted, True
    if not shown or html.unescape(shown) == html.unescape(escape.inline(noted)):  # older versions escaped more
        return own, False
    begun = replace(run, status="running", title="", series=(), findings=())  # as when its entry was made
    ours = {own, *(run_title(begun, each) for each in ("en", "zh"))}
    return (shown, True) if noted in ours else (noted, True)


def _meta_of(existing: str | None) -> dict[str, Any]:
    try:
        return frontmatter.parse(existing or "", "entry")[0]
    except EntryError:
        return {}


def _names(listed: object) -> list[str]:
    if isinstance(listed, str):
        listed = [listed]
    return [str(name) for name in listed if str(name) in SECTIONS] if isinstance(listed, list) else []


def _count(value: object) -> str:
    return numbers.count(value) if isinstance(value, int) else str(value if value is not None else "")
