"""Words of the search interface, and the search index of a finished site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labbook.publish.pages.page import SiteSource
from labbook.publish.pages.symptom_view import symptom_view
from labbook.publish.search.search_shards import SearchReport, search_problem, write_shards
from labbook.publish.search.search_source import notebook_shards
from labbook.store.notebook import Notebook
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates

SCRIPTS = ("assets/search_words.js", "assets/search_conditions.js", "assets/search_fields.js", "assets/search.js")


def interface(templates: Templates) -> dict[str, Any]:
    """Returns words that a page without a note needs, in the language of the site: `search`, `curves`, `not_found`.

    Returns:
        `search` is `None` if the site has no search.
    """
    words = templates.words
    search = {key: str(word) for key, word in words["site_search"].items()}
    search |= {f"status_{key}": str(word) for key, word in words["status"].items()}
    search |= {key: str(word) for key, word in words["site_runs"].items() if key.startswith("query_")}
    curves = {key: str(word) for key, word in words["site_curves"].items()}
    not_found = {**words["site_not_found"], "all_runs": words["site"]["all_runs"]}
    return {
        "search": None if search_problem() else search,
        "scripts": SCRIPTS,
        "curves": curves,
        "not_found": not_found,
    }


def write_site_search(
    notebook: Notebook,
    source: SiteSource,
    site: Path,
    *,
    directory_urls: bool = False,
    state: Path | None = None,
) -> SearchReport:
    """Writes the search index of a built site; equal notebooks give equal files.

    Args:
        directory_urls: Whether pages are `runs/x/` instead of `runs/x.html`.
        state: Folder of cached data; default: the private folder of the notebook.
    """
    say = Sentences(notebook.config.language_in_use())
    problem = search_problem(say)
    if problem:
        return SearchReport(problem=problem)
    cache = (state or notebook.paths.private) / "search"
    shards = notebook_shards(notebook, symptom_view(source), cache, directory_urls=directory_urls)
    return write_shards(site, shards, cache, directory_urls=directory_urls, say=say)
