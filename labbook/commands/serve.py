"""`labbook serve`: shows the site on this machine and keeps it up to date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labbook.commands.options import notebook_option, open_notebook

if TYPE_CHECKING:
    from labbook.publish.site import BuiltSite

_EPILOG = """\b
Examples:
  labbook serve                     # look at the site on this machine
  labbook serve --port 8123
  labbook serve --polling           # when the notebook lies on a network file system
"""


def site_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of building and serving."""
    folder = click.option(
        "--site-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Write the site here, also outside the notebook; site_dir in mkdocs.yml must lie inside.",
    )
    trust = click.option(
        "--trust",
        is_flag=True,
        help="Run the code that the notebook brings: hooks, plugins, templates of the theme.",
    )
    return folder(trust(function))


def serve_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of serving."""
    port = click.option(
        "--port", type=click.IntRange(1, 65535), help="Where to listen; the first free one from 8000 by default."
    )
    polling = click.option(
        "--polling", is_flag=True, help="Look at the files again and again; for network file systems."
    )
    return port(polling(site_options(notebook_option(function))))


@click.command(epilog=_EPILOG)
@serve_options
def command(port: int | None, polling: bool, notebook: str | None, site_dir: Path | None, trust: bool) -> None:
    """Serve the site on this machine, and bring it up to date whenever a note changes.

    Pages that are open in a browser follow. Listens on 127.0.0.1 only: to show the site to others, publish the folder
    that `labbook site build` writes.
    """
    serve_notebook(port, notebook, polling=polling, site_dir=site_dir, trusted=trust)


def serve_notebook(
    port: int | None, notebook: str | None, *, polling: bool, site_dir: Path | None, trusted: bool
) -> None:
    """Serves until it is interrupted."""
    from labbook.publish.site import serve_site

    serve_site(
        open_notebook(notebook), port, click.echo, polling=polling, told=_say_changed, site=site_dir, trusted=trusted
    )


def _say_changed(site: BuiltSite) -> None:
    """One line for each build that changed pages."""
    from labbook.screen import harmless

    click.echo(f"{site.rendered} of {site.pages} pages in {site.seconds:.1f} s")
    for message in site.warnings[:3]:
        click.echo(f"  {harmless(message)}", err=True)
