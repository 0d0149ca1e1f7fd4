"""`labbook site`: builds or serves the site of the notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from labbook.commands.options import notebook_option, open_notebook

if TYPE_CHECKING:
    from labbook.publish.site import BuiltSite

_EPILOG = """\b
Examples:
  labbook site build                # into site/, for any web server or pages host
  labbook site serve                # look at it on this machine
  labbook site serve --port 8123
"""


@click.group(epilog=_EPILOG)
def command() -> None:
    """Build or serve the site of the notebook.

    The site is static: home, runs, experiments and reports with search. `mkdocs build` in the notebook does the same.
    """


@command.command(epilog="\b\nExample:\n  labbook site build && rsync -a site/ host:/var/www/notebook/\n")
@notebook_option
def build(notebook: str | None) -> None:
    """Build the site into the notebook's folder site/."""
    from labbook.publish.site import build_site

    say_built(build_site(open_notebook(notebook)))


@command.command(epilog="\b\nExample:\n  labbook site serve --port 8123\n")
@click.option("--port", type=click.IntRange(1, 65535), help="Where to listen; the first free one from 8000 by default.")
@notebook_option
def serve(port: int | None, notebook: str | None) -> None:
    """Serve the site on this machine, and build it again whenever a note changes.

    Listens on 127.0.0.1 only. To show the site to others, publish the folder that `labbook site build` writes.
    """
    from labbook.publish.site import serve_site

    serve_site(open_notebook(notebook), port, click.echo)


def say_built(site: BuiltSite) -> None:
    """Prints what was built, and the first things that the notes made MkDocs warn of."""
    from labbook.screen import harmless

    click.echo(f"{site.pages} pages in {site.seconds:.1f} s: {site.folder}/index.html")
    for message in site.warnings[:10]:
        click.echo(f"  {harmless(message)}", err=True)
    if len(site.warnings) > 10:
        click.echo(f"  and {len(site.warnings) - 10} more", err=True)
