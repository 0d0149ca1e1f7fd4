"""`labbook search`: entries and notes, by words and filters, by symptom, or by a pasted error."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from labbook.commands.options import (
    FilterCommand,
    json_option,
    notebook_option,
    open_notebook,
    print_json,
    status_label,
    terminal_sentences,
    verdict_label,
    warn_of_notes,
)

if TYPE_CHECKING:
    from labbook.diagnosis.service import Diagnoser
    from labbook.index.hit import Hit
    from labbook.index.query import SearchResult
    from labbook.index.query_symptoms import QuerySymptoms
    from labbook.model.symptom import Symptom
    from labbook.store.notebook import Notebook
    from labbook.store.sentences import Sentences

_EPILOG = """\b
Examples:
  labbook search "loss becomes NaN"                    # English and Chinese find the same
  labbook search 显存不足 framework:paddle
  labbook search "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"
  python train.py 2>&1 | tail -50 | labbook search -   # a pasted error
  labbook search symptom:cuda_out_of_memory has:fix since:30d
  labbook search '"mat1 and mat2 shapes"' -n 3 --json  # an exact phrase

\b
Filters (key:a,b means a or b; -key:value means not):
  status experiment framework symptom family fingerprint tag author script host mode kind id path has
  since, before: a date (2026-11-21, 2026-11, 2026-W47, today) or an age (12h, 7d, 2w)
"""
_MOST_PASTED = 256 * 1024
_MOST_WORDS = 12
_ERROR = re.compile(r"\b\w*(?:Error|Exception|Traceback|NotMet)\b")
_PAGES = 3
_MATCHES = {
    "same fingerprint": "terminal.search.same_failure",
    "same symptom": "terminal.search.same_symptom",
    "same family": "terminal.search.same_family",
}
_KINDS = {
    "run": "terminal.kinds.run",
    "experiment": "terminal.kinds.experiment",
    "symptom": "terminal.kinds.symptom",
    "report": "terminal.kinds.report",
    "note": "terminal.kinds.note",
    "catalogue": "terminal.kinds.catalogue",
}


@click.command(cls=FilterCommand, epilog=_EPILOG)
@click.option(
    "-n", "--limit", metavar="N", default=10, type=click.IntRange(min=1), help="Maximum number of results. Default: 10."
)
@json_option
@notebook_option
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
def command(limit: int, as_json: bool, notebook: str | None, words: tuple[str, ...]) -> None:
    """Search entries, notes and known symptoms.

    WORDS are words in English or Chinese, "exact phrases", filters, the id of a symptom, or a pasted error message; -
    reads standard input.

    Results are in this order: the same failure, the same symptom with a confirmed fix, the same symptom, the same
    family, then notes with the words. Each has its path:line, the matching passage and the fix. Exits with status 1 if
    nothing is found.
    """
    from labbook import screen
    from labbook.errors import NothingFoundError
    from labbook.index.query import search

    typed = sys.stdin.buffer.read(_MOST_PASTED).decode("utf-8", "replace") if words == ("-",) else " ".join(words)
    book = open_notebook(notebook)
    say = terminal_sentences(book)
    query, symptoms = interpret(book, typed)
    try:
        with screen.progress(say.line("terminal.progress.reading_notes")) as report_progress:
            found = search(book, query, limit, meant=symptoms, tell=report_progress)
    except NothingFoundError:
        if as_json:
            print_json([])
        raise
    if as_json:
        print_json([_data(hit) for hit in found.hits])
    else:
        _print(found, query, say)
        warn_of_notes(found.refreshed.problems, say)


def interpret(book: Notebook, typed: str) -> tuple[str, QuerySymptoms]:
    """Returns the query, and the failures that typed or pasted text is about."""
    from labbook.diagnosis.service import Diagnoser
    from labbook.index.query_parser import parse_query
    from labbook.index.query_symptoms import match_symptoms

    diagnoser = Diagnoser(book)
    catalogue = diagnoser.catalogue
    pasted = "\n" in typed.strip() or _ERROR.search(typed) is not None
    if not pasted:
        symptoms = match_symptoms(typed, catalogue.symptoms.values())
        question = parse_query(typed)
        if not symptoms.whole and len(question.terms) > _PAGES and not question.filters:
            # It may be a message without its class.
            _, of_message = _interpret_paste(diagnoser, typed)
            symptoms = of_message if of_message.symptoms else symptoms
    else:
        # Filters next to a message are filters; a text of many lines has none.
        filters = [] if "\n" in typed.strip() else [word for word in typed.split() if _is_filter(word)]
        message = typed if not filters else " ".join(word for word in typed.split() if word not in filters)
        words, symptoms = _interpret_paste(diagnoser, message)
        if "\n" in typed.strip() or symptoms.whole:
            typed = " ".join([words, *filters])
        question = parse_query(typed)
    if question.terms and not question.filters and question.since is None and question.before is None:
        language = book.config.language_in_use()
        pages = [_page(catalogue.symptoms[name], language) for name in symptoms.symptoms[:_PAGES]]
        symptoms = replace(symptoms, pages=tuple(pages))
    return typed, symptoms


def _is_filter(word: str) -> bool:
    from labbook.index.query_parser import FILTERS

    return re.match(r"-?([a-z]+):\S", word) is not None and word.lstrip("-").partition(":")[0] in FILTERS


def _interpret_paste(diagnoser: Diagnoser, text: str) -> tuple[str, QuerySymptoms]:
    """Returns the words of the message of a pasted error, and its failures."""
    from labbook.diagnosis.service import list_fingerprints
    from labbook.diagnosis.text.log_reader import read_text
    from labbook.index.query_symptoms import QuerySymptoms

    evidence = read_text(text)
    diagnosis = diagnoser.diagnose(evidence)
    primary = diagnosis.primary
    message = (
        primary.message if primary else evidence.exceptions[-1].message if evidence.exceptions else _last_line(text)
    )
    names = [f.symptom for f in diagnosis.findings if f.symptom and not f.follows_from]
    families = [primary.family] if primary is not None and primary.family != "other" else []
    own = [f.fingerprint for f in diagnosis.findings[:1] if f.exception]
    fingerprints = tuple(dict.fromkeys([*own, *list_fingerprints(evidence)]))
    return _plain_words(message), QuerySymptoms(
        fingerprints, tuple(names[:_PAGES]), tuple(families), whole=bool(primary)
    )


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _plain_words(message: str) -> str:
    """Returns the words of a message without its values and without what a query would read as a filter."""
    words = re.findall(r"[^\W\d]\w*", message.partition("\n")[0])
    names = [word for word in words if not re.search(r"\d", word)] or words
    return " ".join(list(dict.fromkeys(names))[:_MOST_WORDS]) or "error"


def _page(symptom: Symptom, language: str) -> Hit:
    """Returns a page of the catalogue as a search result, with its first advice."""
    from labbook.index.hit import Hit

    wording = symptom.said(language)
    meta = {"id": symptom.id, "family": symptom.family, "tier": symptom.tier}
    advice = re.sub(r"\{[\w.-]+\|?([^{}]*)\}", r"\1", wording.attempts[0]) if wording.attempts else wording.title
    title, snippet = wording.title.replace("`", ""), advice.replace("`", "")
    return Hit(symptom.origin, 1, title, snippet, meta, "catalogue", False, "same symptom", symptom.id)


def _data(hit: Hit) -> dict[str, object]:
    return {
        "path": hit.path,
        "line": hit.line,
        "title": hit.title,
        "snippet": hit.snippet,
        "kind": hit.kind,
        "all_words": not hit.loose,
        "symptom": hit.symptom,
        "why": hit.why,
        "fix": hit.meta.get("fix") or "",
        "fix_text": hit.fix,
        "held": hit.held,
        "returned": hit.returned,
        "meta": dict(hit.meta),
    }


def _print(found: SearchResult, words: str, say: Sentences) -> None:
    from labbook.index.ranking import COUNTED

    if found.hits[0].loose:
        click.echo(say.line("terminal.search.some_words", words=words), err=True)
    for hit in found.hits:
        _print_hit(hit, found.words, say)
    shown, most = len(found.hits), min(found.total, 100)
    if shown < found.total < COUNTED:
        click.echo(say.line("terminal.search.shown", shown=shown, total=found.total, most=most), err=True)
    elif shown < found.total:
        click.echo(say.line("terminal.search.shown_of_many", shown=shown, total=COUNTED, most=most), err=True)


def _print_hit(hit: Hit, words: tuple[str, ...], say: Sentences) -> None:
    from labbook import screen

    status = str(hit.meta.get("status") or "")
    kind = say.line(_KINDS[hit.kind]) if hit.kind in _KINDS else hit.kind
    verdict = str(hit.meta.get("verdict") or "")
    if status == "finished" and verdict:
        lead = screen.status_cell(verdict, verdict_label(verdict, say))
    else:
        lead = screen.status_cell(status, status_label(status, say)) if status else screen.Cell(kind, "magenta")
    screen.print_line(lead, "  ", *screen.highlight(hit.title, words, "bold underline"))
    if hit.kind == "catalogue":
        screen.print_line("  ", screen.Cell(f"labbook explain {hit.symptom}", "cyan"))
        screen.print_line("  ", hit.snippet)
        return
    match = [screen.Cell(f"  {say.line(_MATCHES[hit.why])}", "dim")] if hit.why in _MATCHES else []
    screen.print_line("  ", screen.Cell(f"{hit.path}:{hit.line}", "cyan"), *match)
    if hit.snippet and hit.snippet != hit.title:
        screen.print_line("  ", *screen.highlight(hit.snippet, words))
    if hit.fix or hit.by:
        screen.print_line("  ", screen.Cell(_fix_line(hit, say), "green"))


def _fix_line(hit: Hit, say: Sentences) -> str:
    """Returns what fixed the failure, and whether it came back."""
    both = bool(hit.fix and hit.by)
    line = say.line("terminal.search.fixed_in" if both else "terminal.search.fixed", fix=hit.fix or hit.by, by=hit.by)
    if hit.returned:
        return line + say.line("terminal.search.returned", run=hit.returned)
    return line + say.line("terminal.search.held", count=hit.held) if hit.held else line
