"""`labbook explain`: one symptom of the catalogue, as a page to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json, warn_of_pages

if TYPE_CHECKING:
    from labbook.diagnosis.catalogue.symptom_catalogue import Catalogue
    from labbook.model.symptom import Symptom

_EPILOG = """\b
Examples:
  labbook explain grad_not_cleared
  labbook explain cuda_out_of_memory --language zh
  labbook explain loss_nonfinite --json
"""


@click.command(epilog=_EPILOG)
@json_option
@click.option("--language", type=click.Choice(["en", "zh"]), help="Default: the settings.")
@notebook_option
@click.argument("symptom")
def command(as_json: bool, language: str | None, notebook: str | None, symptom: str) -> None:
    """Explain a symptom: what you see, why it happens, what to try, and the runs that had it.

    SYMPTOM is an id, as `labbook symptoms` lists them.
    """
    from labbook import screen
    from labbook.diagnosis.catalogue.page_text import render_page_markdown
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue

    book = open_notebook(notebook)
    language = language or book.config.language_in_use()
    catalogue = load_catalogue(book.paths.symptoms)
    warn_of_pages(catalogue.problems)
    page = _page(catalogue, symptom)
    runs = _runs(notebook, page.id)
    if as_json:
        print_json({**_data(page, language), "runs": runs})
        return
    text = render_page_markdown(page, language, runs)
    if screen.is_terminal():
        screen.print_markdown(text)
    else:
        click.echo(screen.harmless(text), nl=False)


def _page(catalogue: Catalogue, wanted: str) -> Symptom:
    """The symptom that is meant.

    Raises:
        NothingFoundError: There is none; the nearest ids, or all of a family, are named.
    """
    from difflib import get_close_matches

    from labbook.errors import NothingFoundError

    known = catalogue.symptoms.get(wanted)
    if known is not None:
        return known
    of_family = [symptom.id for symptom in catalogue.symptoms.values() if symptom.family == wanted]
    if of_family:
        raise NothingFoundError(f"{wanted} is a family of symptoms", hint=f"explain one of {', '.join(of_family)}")
    near = get_close_matches(wanted, catalogue.symptoms, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "`labbook symptoms --all` lists them"
    raise NothingFoundError(f"there is no symptom {wanted!r}", hint=hint)


def _runs(notebook: str | None, symptom: str) -> list[dict[str, object]]:
    """Runs of the notebook that had it, newest first, with the fix where one is known."""
    from labbook.errors import NothingFoundError
    from labbook.index.query import list_notes

    try:
        found = list_notes(open_notebook(notebook), f"symptom:{symptom}", limit=10)
    except NothingFoundError:
        return []
    return [
        {"run": e.id, "title": str(e.meta.get("title") or ""), "fix": e.meta.get("fix") or None} for e in found.entries
    ]


def _data(symptom: Symptom, language: str) -> dict[str, object]:
    said = symptom.said(language)
    return {
        "id": symptom.id,
        "title": said.title,
        "family": symptom.family,
        "class": symptom.class_,
        "tier": symptom.tier,
        "severity": symptom.severity,
        "see": said.see,
        "why": list(said.why),
        "try": list(said.attempts),
        "source": list(symptom.source),
        "page": symptom.origin,
    }
