"""`labbook site`: builds or serves the site of the notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from labbook.commands.options import notebook_option, open_notebook
from labbook.commands.serve import serve_notebook, serve_options, site_options

if TYPE_CHECKING:
    from pathlib import Path

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
@site_options
@click.option("--all", "everything", is_flag=True, help="Render pages that did not change, too.")
@click.option(
    "--engine",
    type=click.Choice(["mkdocs", "zensical"]),
    default="mkdocs",
    help="What makes the pages; Zensical (pip install zensical) makes all of them each time.",
)
@notebook_option
def build(everything: bool, engine: str, notebook: str | None, site_dir: Path | None, trust: bool) -> None:
    """Build the site into the notebook's folder site/.

    Pages that would not differ stay as they are. Pages that no longer belong to the site are removed; files that
    labbook did not write stay. A notebook is data: hooks, plugins and templates that it brings are used with --trust
    only.
    """
    from labbook.publish.site import build_site

    say_built(build_site(open_notebook(notebook), everything=everything, engine=engine, folder=site_dir, trusted=trust))


@command.command(epilog="\b\nExample:\n  labbook site serve --port 8123\n")
@serve_options
def serve(port: int | None, polling: bool, notebook: str | None, site_dir: Path | None, trust: bool) -> None:
    """Serve the site on this machine, and bring it up to date whenever a note changes; the same as `labbook serve`."""
    serve_notebook(port, notebook, polling=polling, site_dir=site_dir, trusted=trust)


def say_built(site: BuiltSite) -> None:
    """Prints what was built, and the first things that the notes made MkDocs warn of."""
    anew = "" if site.rendered == site.pages else f", {site.rendered} of them anew,"
    click.echo(f"{site.pages} pages{anew} in {site.seconds:.1f} s: {site.folder}/index.html")
    for message in site.warnings[:10]:
        from labbook.screen import harmless

        click.echo(f"  {harmless(message)}", err=True)
    if len(site.warnings) > 10:
        click.echo(f"  and {len(site.warnings) - 10} more", err=True)
