"""Writes the files of a site that are made after its pages: `.nojekyll` and the search."""

from __future__ import annotations

from pathlib import Path

from labbook.publish.pages.page import SiteSource
from labbook.publish.search.search_page import write_site_search
from labbook.store.notebook import Notebook

POST_BUILD_FOLDERS: tuple[str, ...] = ("search/",)
"""Folders of the site that are written here."""


def finish_site(
    notebook: Notebook,
    source: SiteSource,
    site: Path,
    *,
    directory_urls: bool = False,
    state: Path | None = None,
) -> str:
    """Writes files made from the whole notebook.

    Args:
        directory_urls: Whether pages are `runs/x/` instead of `runs/x.html`.
        state: Folder of cached data; default: the private folder of the notebook.

    Returns:
        Why the site has no search, or "".

    Raises:
        OSError: It cannot be written.
    """
    # Hosts with Jekyll would leave out files that begin with an underscore.
    site.mkdir(parents=True, exist_ok=True)
    (site / ".nojekyll").touch()
    return write_site_search(notebook, source, site, directory_urls=directory_urls, state=state).problem
