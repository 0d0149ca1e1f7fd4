"""Search records of the site: fixes, symptoms, runs, experiments, reports and notes. Pure.

Console output and tables of numbers are left out; they would be most of the index.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.frozen import dataclass
from labbook.model.entry import Entry
from labbook.model.symptom import Symptom
from labbook.publish.pages.symptom_view import SymptomView, symptom_path
from labbook.report.run_row import RunRow
from labbook.store.text.entry_text import split_parts

MOST_CHARACTERS = 4000
"""Searched part of the text of an entry. Source: chosen by us; notes of people are far shorter."""

MOST_FIXES = 400
"""Most fixes in the first shard; older ones are found with their failed run. Source: chosen by us; the first shard is
loaded before anything is found."""

_MOST_LINE = 180
_FENCED = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]{0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_LEFT_OUT = re.compile(r"<!--.*?(?:-->|\Z)|<details>.*?(?:</details>|\Z)|^[ \t]*\|[^\n]*$", re.MULTILINE | re.DOTALL)
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,200}>|!?\[|\]\([^()\s]{0,300}\)|[`*|\]]+|^#{1,6}[ \t]|^>[ \t]", re.MULTILINE)
_HEADINGS = re.compile(r"^#{1,6}[ \t][^\n]*$", re.MULTILINE)
_SLOT = re.compile(r"\{[^{}]{0,80}\}|\.\.\.")
_EVIDENCE = re.compile(r"^- \*\*(?:Evidence\.|证据[。：:]?)\*\*([^\n]*)$", re.MULTILINE)


@dataclass(frozen=True)
class SearchRecord:
    """One search record.

    Args:
        kind: "fix", "symptom", "run" or "note"; experiments and reports are notes.
        path: Path of its page below `notes/`, with an anchor for a part of a page.
        title: One line of plain text.
        line: Line below the title: the fix, the first advice, or the error.
        text: More words to find it by; repeated words count more.
        facets: "framework", "symptom", "status", "experiment", "author" -> values.
        month: `2026-11` for a run, else "".
        when: Day, or "".
        status: Status of a run, or "".
        fixed: Whether `line` is a confirmed fix.
        phrases: Titles and search phrases of a symptom; a question that is nearly one of them is about it.
    """

    kind: str
    path: str
    title: str
    line: str = ""
    text: str = ""
    facets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    month: str = ""
    when: str = ""
    status: str = ""
    fixed: bool = False
    phrases: Sequence[str] = field(default_factory=list)


def run_record(entry: Entry, row: RunRow, symptoms: Mapping[str, Symptom]) -> SearchRecord:
    """Returns the record of a run."""
    error, texts = "", []
    for part in split_parts(entry.body):
        if part.name == "exception":
            paragraphs = map(_plain_words, _HEADINGS.sub("", part.text).split("\n\n"))
            error = next((text for text in paragraphs if text), "").replace(" : ", ": ", 1)
        elif part.name == "diagnosis":
            texts += [_plain_words(evidence) for evidence in _EVIDENCE.findall(part.text)]
        elif not part.name:
            texts.append(_plain_words(_HEADINGS.sub("", part.text)))
    fix = str(entry.meta.get("fix_text") or "") if row.fix else ""
    known = [name for name in row.symptoms if name in symptoms]
    titles = [wording.title for name in known for wording in symptoms[name].wording.values()]
    parts = row.path.split("/")
    names = [row.author, row.project]
    words = " ".join(texts)[:MOST_CHARACTERS]
    return SearchRecord(
        "run",
        row.path.removeprefix("notes/"),
        _line(row.title),
        _line(fix or error or next(filter(None, texts), "")),
        " ".join([error, *row.symptoms, *titles, *row.tags, row.experiment, row.script, *names, fix, words]),
        record_facets(row),
        f"{parts[2]}-{parts[3]}" if len(parts) >= 5 and parts[2].isdigit() and parts[3].isdigit() else "",
        f"{parts[2]}-{parts[3]}-{parts[4]}" if len(parts) >= 6 else "",
        row.status,
        bool(fix),
    )


def symptom_records(view: SymptomView) -> Iterator[SearchRecord]:
    """Returns a record for each symptom of catalogue and notebook, in the language of the site."""
    language = view.source.language
    for name in sorted({*view.source.symptoms, *view.paged}):
        known = view.source.symptoms.get(name)
        runs, fixes = view.runs.get(name, ()), view.fixes.get(name, ())
        cure = next((fix.text for fix in fixes if fix.text), "")
        attempt = (
            _remove_values(known.wording_in(language).attempts[0])
            if known and known.wording_in(language).attempts
            else ""
        )
        facets = {"symptom": [name], "framework": list(known.frameworks) if known else []}
        yield SearchRecord(
            "symptom",
            symptom_path(name) if name in view.paged else f"symptoms/index.md#{name}",
            _line(view.title(name)),
            _line(cure or attempt),
            _catalogue_words(name, known) + f" {cure}" * bool(cure),
            facets,
            when=_day(runs[0]) if runs else "",
            fixed=bool(cure),
            phrases=_phrases(name, known),
        )


def fix_records(view: SymptomView, errors: Mapping[str, str]) -> Iterator[SearchRecord]:
    """Returns records of the newest `MOST_FIXES` confirmed fixes.

    Args:
        errors: Path of an entry -> `SearchRecord.text` of the failed run.
    """
    for fix in view.source.fixes[:MOST_FIXES]:
        failed = view.rows.get(fix.run)
        if failed is None:
            continue
        cured = view.cured_symptoms(fix) or failed.symptoms
        titles = [view.title(name) for name in cured]
        yield SearchRecord(
            "fix",
            failed.path.removeprefix("notes/"),
            _line(fix.text or failed.title),
            _line(" · ".join(titles) or failed.title),
            " ".join([_cured_words(view, cured), failed.title, errors.get(fix.run, "")]),
            record_facets(failed),
            when=_day(view.by_id.get(fix.by, failed)),
            fixed=True,
        )


def note_record(path: str, title: str, body: str, kind: str = "note") -> SearchRecord:
    """Returns the record of an experiment, a report or a note; `path` is below `notes/`."""
    own = [_plain_words(part.text) for part in split_parts(body) if not part.name]
    texts = [_plain_words(_HEADINGS.sub("", part.text)) for part in split_parts(body) if not part.name]
    facets = {"experiment": [path.rsplit("/", 1)[-1].removesuffix(".md")]} if kind == "experiment" else {}
    return SearchRecord(
        "note", path, _line(title), _line(next(filter(None, texts), "")), " ".join(own)[:MOST_CHARACTERS], facets
    )


def record_facets(row: RunRow) -> dict[str, list[str]]:
    """Returns the known facets of a run."""
    frameworks = [name.split()[0] for name in row.frameworks if name.split()]
    found = {
        "framework": list(dict.fromkeys(frameworks)),
        "symptom": list(row.symptoms),
        "status": [row.status],
        "experiment": [row.experiment],
        "author": [row.author],
    }
    return {key: kept for key, values in found.items() if (kept := [value for value in values if value])}


def _catalogue_words(name: str, known: Symptom | None) -> str:
    """Returns the words of a symptom in both languages: names, phrases, descriptions, messages without values."""
    if known is None:
        return name
    titles = [wording.title for wording in known.wording.values()]
    patterns = [_SLOT.sub(" ", pattern.text) for pattern in known.patterns[:6]]
    types = {kind for pattern in known.patterns for kind in pattern.types}
    return " ".join([name, *titles, *known.words, *known.asked, *patterns, *sorted(types)])


def _phrases(name: str, known: Symptom | None) -> list[str]:
    """Returns the titles, names of the check and search phrases of a symptom."""
    titles = [text for wording in known.wording.values() for text in (wording.title, wording.check)] if known else []
    return list(dict.fromkeys(text for text in (*titles, *(known.words if known else ()), name) if text))


def _cured_words(view: SymptomView, symptoms: Sequence[str]) -> str:
    kept: list[str] = []
    for name in symptoms:
        known = view.source.symptoms.get(name)
        titles = [wording.title for wording in known.wording.values()] if known else []
        kept += [name, *titles, *(known.words if known else ())]
    return " ".join(kept)


def _remove_values(text: str) -> str:
    """Returns a sentence of the catalogue without backticks and values of a run."""
    return " ".join((fill_slots(text, {}) or text).replace("`", "").replace("**", "").split())


def _plain_words(text: str) -> str:
    """Returns Markdown as plain words, without code blocks, folds, tables and comments."""
    kept = _LEFT_OUT.sub(" ", _FENCED.sub(" ", text[:200_000]))
    return " ".join(html.unescape(_MARKUP.sub(" ", kept)).split())


def _line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_LINE else flat[: _MOST_LINE - 1].rstrip() + "…"


def _day(row: RunRow) -> str:
    return f"{row.id[:4]}-{row.id[4:6]}-{row.id[6:8]}" if row.id[:8].isdigit() else ""
