"""`labbook symptoms`: the catalogue, with how often each symptom was seen in this notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from labbook import screen
from labbook.commands.options import json_option, print_json, warn_of_pages, with_notebook
from labbook.errors import NothingFoundError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.fixes.fix_history import SymptomCount
    from labbook.model.symptom import Symptom
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


@click.command(cls=HelpCommand)
@click.option("--all", "everything", is_flag=True, help="Also list symptoms never seen in this notebook.")
@json_option
@with_notebook
@click.argument("words", nargs=-1)
def command(everything: bool, as_json: bool, book: Notebook, say: Sentences, words: tuple[str, ...]) -> None:
    """List known symptoms and how often they occurred.

    Shows the symptoms seen in this notebook, with the number of runs that had them and of those that were fixed. With
    WORDS, searches the whole catalogue. Exits with status 1 if no symptom matches.
    """
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
    from labbook.fixes.fix_history import count_symptoms

    catalogue = load_catalogue(book.paths.symptoms, language=book.config.language_in_use())
    counts = count_symptoms(book)
    rows = [
        symptom
        for symptom in catalogue.symptoms.values()
        if all(word.lower() in _text(symptom) for word in words) and (everything or words or symptom.id in counts)
    ]
    rows.sort(key=lambda s: (-counts[s.id].runs if s.id in counts else 0, s.family, s.id))
    if as_json:
        print_json([_data(symptom, counts.get(symptom.id), say.language) for symptom in rows])
    if not rows:
        key = "terminal.symptoms.no_match" if words else "terminal.symptoms.none_seen"
        count = len(catalogue.symptoms)
        raise NothingFoundError(key, words=" ".join(words), count=count, advice="terminal.symptoms.list_all")
    if not as_json:
        _print(rows, counts, say)
        warn_of_pages(catalogue.problems, say)


def _text(symptom: Symptom) -> str:
    titles = [wording.title for wording in symptom.wording.values()]
    return " ".join([symptom.id, symptom.family, symptom.class_, *titles, *symptom.words]).lower()


def _data(symptom: Symptom, count: SymptomCount | None, language: str) -> dict[str, object]:
    return {
        "id": symptom.id,
        "title": symptom.wording_in(language).title,
        "family": symptom.family,
        "class": symptom.class_,
        "tier": symptom.tier,
        "severity": symptom.severity,
        "frameworks": list(symptom.frameworks),
        "runs": count.runs if count else 0,
        "fixed": count.fixed if count else 0,
        "last": count.last if count else None,
        "page": symptom.origin,
    }


def _print(rows: list[Symptom], counts: Mapping[str, SymptomCount], say: Sentences) -> None:
    columns = [
        screen.Column(say.line("terminal.columns.symptom"), keep=9),
        screen.Column(say.line("terminal.columns.family"), keep=2),
        screen.Column(say.line("terminal.columns.title"), flexible=True, keep=8),
        screen.Column(say.line("terminal.columns.runs"), right=True, keep=7),
        screen.Column(say.line("terminal.columns.fixed"), right=True, keep=6),
        screen.Column(say.line("terminal.columns.last_run"), keep=3),
    ]
    table: list[list[screen.Cell | str]] = []
    for symptom in rows:
        count = counts.get(symptom.id)
        table.append(
            [
                screen.Cell(symptom.id, "bold"),
                screen.Cell(symptom.family, "dim"),
                symptom.wording_in(say.language).title.replace("`", ""),
                str(count.runs) if count else "",
                str(count.fixed) if count else "",
                screen.Cell(count.last if count else "", "dim"),
            ]
        )
    screen.print_table(columns, table)
