"""`labbook search`: entries and notes, by words and filters, by symptom, or by a pasted error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from labbook import screen
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
from labbook.commands.word_completion import complete_keys
from labbook.errors import NothingFoundError

if TYPE_CHECKING:
    from labbook.index.hit import Hit
    from labbook.index.query import SearchResult
    from labbook.store.text.sentences import Sentences

_MOST_PASTED = 256 * 1024
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


@click.command(cls=FilterCommand)
@click.option(
    "-n", "--limit", metavar="N", default=10, type=click.IntRange(min=1), help="Maximum number of results. Default: 10."
)
@json_option
@notebook_option
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_keys)
def command(limit: int, as_json: bool, notebook: str | None, words: tuple[str, ...]) -> None:
    """Search entries, notes and known symptoms.

    WORDS are words in English or Chinese, "exact phrases", conditions, the id of a symptom, or a pasted error message;
    - reads standard input.

    Results are in this order: the same failure, confirmed fixes of the same symptom, the page of the symptom, other
    runs with it, the same family, then notes with the words. Each has its path:line, the matching passage and the fix.
    Exits with status 1 if nothing is found.
    """
    from labbook.findings.search_question import interpret_search
    from labbook.index.query import search

    typed = sys.stdin.buffer.read(_MOST_PASTED).decode("utf-8", "replace") if words == ("-",) else " ".join(words)
    book = open_notebook(notebook)
    say = terminal_sentences(book)
    query, symptoms = interpret_search(book, typed)
    try:
        with screen.progress(say.line("terminal.progress.reading_notes")) as report_progress:
            found = search(book, query, limit, subject=symptoms, notify=report_progress)
    except NothingFoundError:
        if as_json:
            print_json([])
        raise
    if as_json:
        print_json([_data(hit) for hit in found.hits])
    else:
        _print(found, query, say)
        warn_of_notes(found.refreshed.problems, say)


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
