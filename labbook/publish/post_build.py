"""What a site gets once its pages stand: the mark for pages hosts, and the search."""

from __future__ import annotations

from pathlib import Path

from labbook.publish.page import SiteSource
from labbook.publish.search_page import write_site_search
from labbook.store.notebook import Notebook
from labbook.store.templates import Templates

KEPT_BY_OTHERS: tuple[str, ...] = ("search/",)
"""Folders of the site that are written here, and not page by page."""


def finish_site(
    notebook: Notebook, source: SiteSource, site: Path, templates: Templates, *, directory_urls: bool = False
) -> str:
    """Writes what is made from the whole notebook.

    Args:
        notebook: Whose site.
        source: What its pages were made of.
        site: The site's folder.
        templates: Of the site's language.
        directory_urls: Whether pages are `runs/x/` in place of `runs/x.html`.

    Returns:
        Why the site has no search, or "".

    Raises:
        OSError: It cannot be written.
    """
    # Pages hosts that run Jekyll would leave out what begins with an underscore.
    site.mkdir(parents=True, exist_ok=True)
    (site / ".nojekyll").touch()
    return write_site_search(notebook, source, site, directory_urls=directory_urls).problem
