"""`labbook search`: entries and notes, by words and filters, by symptom, or by a pasted error."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from labbook.commands.options import (
    AskingCommand,
    json_option,
    notebook_option,
    open_notebook,
    print_json,
    warn_of_problems,
)

if TYPE_CHECKING:
    from labbook.diagnosis.service import Diagnoser
    from labbook.index.hit import Hit
    from labbook.index.query import SearchResult
    from labbook.index.query_symptoms import QuerySymptoms
    from labbook.model.symptom import Symptom
    from labbook.store.notebook import Notebook

_EPILOG = """\b
Examples:
  labbook search "loss becomes NaN"
  labbook search "loss 变成 NaN"                       # either language finds both
  labbook search 显存不足 framework:paddle
  labbook search "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"
  python train.py 2>&1 | tail -50 | labbook search -   # a pasted error, with its traceback
  labbook search symptom:cuda_out_of_memory has:fix since:30d
  labbook search '"mat1 and mat2 shapes"'              # words side by side
  labbook search diverg\\* kind:experiment -n 3 --json

\b
Filters: status experiment framework symptom family fingerprint tag author script host mode kind id has since before
path; key:a,b means a or b, -key:value means not.
"""
_MOST_PASTED = 256 * 1024
_MOST_WORDS = 12
_ERROR = re.compile(r"\b\w*(?:Error|Exception|Traceback|NotMet)\b")
_PAGES = 3


@click.command(cls=AskingCommand, epilog=_EPILOG)
@click.option("-n", "--limit", default=10, show_default=True, type=click.IntRange(min=1), help="How many answers.")
@json_option
@notebook_option
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
def command(limit: int, as_json: bool, notebook: str | None, words: tuple[str, ...]) -> None:
    """Search entries and notes, in English or Chinese.

    WORDS are words, filters, the id of a symptom, or a pasted error; - reads it from standard input. First comes the
    same failure, then the same symptom with a confirmed fix, the same symptom, the same family, and notes with the
    words. Answers with path:line, title, the passage, and what fixed it. Ends with status 1 when nothing is found.
    """
    from labbook import screen
    from labbook.errors import NothingFoundError
    from labbook.index.query import search

    typed = sys.stdin.buffer.read(_MOST_PASTED).decode("utf-8", "replace") if words == ("-",) else " ".join(words)
    book = open_notebook(notebook)
    asked, meant = understood_by(book, typed)
    try:
        with screen.progress("reading notes") as tell:
            found = search(book, asked, limit, meant=meant, tell=tell)
    except NothingFoundError:
        if as_json:
            print_json([])
        raise
    if as_json:
        print_json([_data(hit) for hit in found.hits])
    else:
        _print(found, asked)
        warn_of_problems(found.refreshed.problems)


def understood_by(book: Notebook, typed: str) -> tuple[str, QuerySymptoms]:
    """The words to look for, and the failures that they are about, for whatever was typed or pasted."""
    from labbook.diagnosis.service import Diagnoser
    from labbook.index.query_parser import parse_query
    from labbook.index.query_symptoms import match_symptoms

    diagnoser = Diagnoser(book)
    catalogue = diagnoser.catalogue
    pasted = "\n" in typed.strip() or _ERROR.search(typed) is not None
    if not pasted:
        meant = match_symptoms(typed, catalogue.symptoms.values())
        question = parse_query(typed)
        if not meant.whole and len(question.terms) > _PAGES and not question.filters:
            # It may be a message without its class.
            _, read = _of_paste(diagnoser, typed)
            meant = read if read.symptoms else meant
    else:
        # Filters beside a message stay; in a report of many lines nothing is meant as one.
        filters = [] if "\n" in typed.strip() else [word for word in typed.split() if _is_filter(word)]
        message = typed if not filters else " ".join(word for word in typed.split() if word not in filters)
        words, meant = _of_paste(diagnoser, message)
        if "\n" in typed.strip() or meant.whole:
            typed = " ".join([words, *filters])
        question = parse_query(typed)
    if question.terms and not question.filters and question.since is None and question.before is None:
        language = book.config.language_in_use()
        pages = [_page(catalogue.symptoms[name], language) for name in meant.symptoms[:_PAGES]]
        meant = replace(meant, pages=tuple(pages))
    return typed, meant


def _is_filter(word: str) -> bool:
    from labbook.index.query_parser import FILTERS

    return re.match(r"-?([a-z]+):\S", word) is not None and word.lstrip("-").partition(":")[0] in FILTERS


def _of_paste(diagnoser: Diagnoser, text: str) -> tuple[str, QuerySymptoms]:
    """The words of a pasted error's message, and the failures that it shows."""
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
    """Words of a message in which nothing is taken for a filter, a phrase or a minus; values in it are left out."""
    words = re.findall(r"[^\W\d]\w*", message.partition("\n")[0])
    kept = [word for word in words if not re.search(r"\d", word)] or words
    return " ".join(list(dict.fromkeys(kept))[:_MOST_WORDS]) or "error"


def _page(symptom: Symptom, language: str) -> Hit:
    """A page of the catalogue among the answers: what it advises first."""
    from labbook.index.hit import Hit

    said = symptom.said(language)
    meta = {"id": symptom.id, "family": symptom.family, "tier": symptom.tier}
    advice = re.sub(r"\{[\w.-]+\|?([^{}]*)\}", r"\1", said.attempts[0]) if said.attempts else said.title
    title, snippet = said.title.replace("`", ""), advice.replace("`", "")
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


def _print(found: SearchResult, words: str) -> None:
    from labbook import screen
    from labbook.index.ranking import COUNTED

    if found.hits[0].loose:
        click.echo(f"nothing has all of {words!r}; these have some of it", err=True)
    for hit in found.hits:
        status = str(hit.meta.get("status") or "")
        lead: list[screen.Cell | str] = (
            [screen.status_cell(status), "  "] if status else [screen.Cell(hit.kind, "magenta"), "  "]
        )
        screen.print_line(*lead, *screen.highlight(hit.title, found.words, "bold underline"))
        if hit.kind == "catalogue":
            screen.print_line("  ", screen.Cell(f"labbook explain {hit.symptom}", "cyan"))
            screen.print_line("  ", hit.snippet)
            continue
        why = [screen.Cell(f"  {_why(hit)}", "dim")] if hit.why.startswith("same") else []
        screen.print_line("  ", screen.Cell(f"{hit.path}:{hit.line}", "cyan"), *why)
        if hit.snippet and hit.snippet != hit.title:
            screen.print_line("  ", *screen.highlight(hit.snippet, found.words))
        for line in _fix(hit):
            screen.print_line("  ", screen.Cell(line, "green"))
    if found.total > len(found.hits):
        total = f"{found.total}" if found.total < COUNTED else f"more than {COUNTED}"
        click.echo(f"{len(found.hits)} of {total} notes; `-n {min(found.total, 100)}` shows more", err=True)


def _why(hit: Hit) -> str:
    return {"same fingerprint": "the same failure"}.get(hit.why, hit.why)


def _fix(hit: Hit) -> Iterator[str]:
    """What cured it, and whether that held."""
    if not hit.fix and not hit.by:
        return
    said = f"fixed by {hit.fix}" if hit.fix else ""
    said += f" (in {hit.by})" if said and hit.by else f"fixed by {hit.by}" if hit.by else ""
    if hit.returned:
        said += f"; it came back in {hit.returned}"
    elif hit.held:
        said += f"; it held in {hit.held} later {'run' if hit.held == 1 else 'runs'}"
    yield said
