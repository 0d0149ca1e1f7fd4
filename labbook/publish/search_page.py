"""What pages need of the search: the words of its interface. And the search of a finished site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labbook.publish.page import SiteSource
from labbook.publish.search_shards import SearchReport, search_problem, write_shards
from labbook.publish.search_source import notebook_shards
from labbook.publish.symptom_view import symptom_view
from labbook.store.notebook import Notebook
from labbook.store.templates import Templates

SCRIPTS = ("assets/search_words.js", "assets/search.js")


def interface(templates: Templates) -> dict[str, Any]:
    """What the theme's template gives to the scripts of every page: `search` and `copy`, words in the site's language.

    Returns:
        `search` is `None` when the site is built without search.
    """
    words = templates.words
    search = {key: str(word) for key, word in words["site_search"].items()}
    search |= {f"status_{key}": str(word) for key, word in words["status"].items()}
    curves = {key: str(word) for key, word in words["site_curves"].items()}
    return {"search": None if search_problem() else search, "scripts": SCRIPTS, "curves": curves}


def write_site_search(
    notebook: Notebook, source: SiteSource, site: Path, *, directory_urls: bool = False
) -> SearchReport:
    """Writes the search of a site that was built from a notebook; the same notebook gives the same files.

    Args:
        notebook: Whose site.
        source: What its pages were made of.
        site: The site's folder.
        directory_urls: Whether pages are `runs/x/` in place of `runs/x.html`.
    """
    problem = search_problem()
    if problem:
        return SearchReport(problem=problem)
    cache = notebook.paths.private / "search"
    shards = notebook_shards(notebook, symptom_view(source), cache, directory_urls=directory_urls)
    return write_shards(site, shards, cache, directory_urls=directory_urls)
