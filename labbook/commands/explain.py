"""`labbook explain`: one symptom of the catalogue, as a page to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from labbook import screen
from labbook.commands.options import json_option, language_option, print_json, warn_of_pages, with_notebook
from labbook.commands.word_completion import complete_symptoms
from labbook.errors import NothingFoundError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.diagnosis.catalogue.symptom_catalogue import Catalogue
    from labbook.model.symptom import Symptom
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


@click.command(cls=HelpCommand)
@json_option
@language_option
@with_notebook
@click.argument("symptom", shell_complete=complete_symptoms)
def command(as_json: bool, language: str | None, book: Notebook, say: Sentences, symptom: str) -> None:
    """Explain a symptom: signs, causes, fixes, and runs with it.

    SYMPTOM is an id from `labbook symptoms`, for example loss_nonfinite.
    """
    from labbook.diagnosis.catalogue.page_text import render_page_markdown
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue

    language = language or book.config.language_in_use()
    catalogue = load_catalogue(book.paths.symptoms, language=book.config.language_in_use())
    warn_of_pages(catalogue.problems, say)
    page = _find_page(catalogue, symptom)
    runs = _list_runs(book, page.id)
    if as_json:
        print_json({**_data(page, language), "runs": runs})
        return
    text = render_page_markdown(page, language, runs)
    if screen.is_terminal():
        screen.print_markdown(text)
    else:
        click.echo(screen.harmless(text), nl=False)


def _find_page(catalogue: Catalogue, wanted: str) -> Symptom:
    """Returns the symptom with this id.

    Raises:
        NothingFoundError: There is none; names the nearest ids, or all of a family.
    """
    from difflib import get_close_matches

    known = catalogue.symptoms.get(wanted)
    if known is not None:
        return known
    of_family = [symptom.id for symptom in catalogue.symptoms.values() if symptom.family == wanted]
    if of_family:
        raise NothingFoundError("terminal.explain.family", family=wanted, symptoms=of_family)
    near = [symptom for symptom in sorted(catalogue.symptoms) if wanted.lower() in symptom.split("_")]
    near = near or get_close_matches(wanted, catalogue.symptoms, n=3, cutoff=0.5)
    advice = "terminal.did_you_mean" if near else ""
    raise NothingFoundError("terminal.explain.unknown", symptom=wanted, names=near, advice=advice)


def _list_runs(book: Notebook, symptom: str) -> list[dict[str, object]]:
    """Returns runs of the notebook that had the symptom, newest first, with their fix."""
    from labbook.index.query import list_notes

    try:
        found = list_notes(book, f"symptom:{symptom}", limit=10)
    except NothingFoundError:
        return []
    return [
        {"run": e.id, "title": str(e.meta.get("title") or ""), "fix": e.meta.get("fix") or None} for e in found.entries
    ]


def _data(symptom: Symptom, language: str) -> dict[str, object]:
    wording = symptom.wording_in(language)
    return {
        "id": symptom.id,
        "title": wording.title,
        "family": symptom.family,
        "class": symptom.class_,
        "tier": symptom.tier,
        "severity": symptom.severity,
        "see": wording.see,
        "why": list(wording.why),
        "try": list(wording.attempts),
        "source": list(symptom.source),
        "page": symptom.origin,
    }
