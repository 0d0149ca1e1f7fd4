"""`labbook symptoms`: the catalogue, with how often each symptom was seen here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json, warn_of_pages

if TYPE_CHECKING:
    from labbook.fixes.fix_history import SymptomCount
    from labbook.model.symptom import Symptom

_EPILOG = """\b
Examples:
  labbook symptoms                    # those that were seen in this notebook, most often first
  labbook symptoms --all              # the whole catalogue
  labbook symptoms memory             # those whose id, title, family or words have this word
  labbook symptoms --json | jq '.[] | select(.runs > 0)'

\b
`labbook explain ID` shows one of them. A notebook's own pages stand in notes/symptoms/.
"""


@click.command(epilog=_EPILOG)
@click.option("--all", "everything", is_flag=True, help="Those too that were not seen here.")
@json_option
@notebook_option
@click.argument("words", nargs=-1)
def command(everything: bool, as_json: bool, notebook: str | None, words: tuple[str, ...]) -> None:
    """List known symptoms, with how often each was seen in this notebook and how often it was cured.

    Ends with status 1 when none fits.
    """
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
    from labbook.errors import NothingFoundError
    from labbook.fixes.fix_history import count_symptoms

    book = open_notebook(notebook)
    catalogue = load_catalogue(book.paths.symptoms)
    counts = count_symptoms(book)
    language = book.config.language_in_use()
    rows = [
        symptom
        for symptom in catalogue.symptoms.values()
        if all(word.lower() in _text(symptom) for word in words) and (everything or words or symptom.id in counts)
    ]
    rows.sort(key=lambda s: (-counts[s.id].runs if s.id in counts else 0, s.family, s.id))
    if as_json:
        print_json([_data(symptom, counts.get(symptom.id), language) for symptom in rows])
    if not rows:
        asked = f"no symptom has {' '.join(words)!r}" if words else "no symptom was seen in this notebook yet"
        raise NothingFoundError(asked, hint=f"`labbook symptoms --all` lists all {len(catalogue.symptoms)}")
    if not as_json:
        _print(rows, counts, language)
        warn_of_pages(catalogue.problems)


def _text(symptom: Symptom) -> str:
    titles = [wording.title for wording in symptom.wording.values()]
    return " ".join([symptom.id, symptom.family, symptom.class_, *titles, *symptom.words]).lower()


def _data(symptom: Symptom, count: SymptomCount | None, language: str) -> dict[str, object]:
    return {
        "id": symptom.id,
        "title": symptom.said(language).title,
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


def _print(rows: list[Symptom], counts: Mapping[str, SymptomCount], language: str) -> None:
    from labbook import screen

    columns = [
        screen.Column("symptom", keep=9),
        screen.Column("family", keep=2),
        screen.Column("what", flexible=True, keep=8),
        screen.Column("runs", right=True, keep=7),
        screen.Column("cured", right=True, keep=6),
        screen.Column("last seen in", keep=3),
    ]
    table: list[list[screen.Cell | str]] = []
    for symptom in rows:
        count = counts.get(symptom.id)
        table.append(
            [
                screen.Cell(symptom.id, "bold"),
                screen.Cell(symptom.family, "dim"),
                symptom.said(language).title.replace("`", ""),
                str(count.runs) if count else "",
                str(count.fixed) if count else "",
                screen.Cell(count.last if count else "", "dim"),
            ]
        )
    screen.print_table(columns, table)
