"""`labbook site`: builds or serves the site of the notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.commands.options import notebook_option, open_notebook, terminal_sentences
from labbook.commands.serve import serve_notebook, serve_options, site_options
from labbook.help_text import HelpGroup
from labbook.screen import harmless, progress

if TYPE_CHECKING:
    from labbook.publish.site.site_build import BuiltSite
    from labbook.store.text.sentences import Sentences

_MAX_WARNINGS = 10


@click.group(cls=HelpGroup)
def command() -> None:
    """Build or serve the site of the notebook.

    The site is static: home, runs, experiments, symptoms and reports, with search. `mkdocs build` in the notebook
    builds the same site.
    """


@command.command()
@site_options
@click.option("--all", "everything", is_flag=True, help="Render every page, including unchanged ones.")
@click.option(
    "--engine",
    type=click.Choice(["mkdocs", "zensical"]),
    default="mkdocs",
    help="Site generator. Zensical (pip install zensical) renders every page each time. Default: mkdocs.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep the site and the record of its build in FOLDER, for the cache of a CI job. The site is in FOLDER/site.",
)
@click.option(
    "--executor",
    default="",
    metavar="EXECUTOR",
    help="Where new notes are read for the index: processes, threads, ray://ADDRESS or dask://ADDRESS. Pages are "
    "rendered by processes of this machine.",
)
@notebook_option
def build(
    everything: bool,
    engine: str,
    cache: Path | None,
    executor: str,
    notebook: str | None,
    site_dir: Path | None,
    trust: bool,
) -> None:
    """Build the site.

    Only changed pages are rendered. Pages of deleted notes are removed; files that labbook did not write are not
    touched. Code of the notebook (MkDocs hooks, plugins, theme templates) runs only with --trust.
    """
    from labbook.executors import check_choice
    from labbook.index.build import query_index
    from labbook.publish.site.site_build import build_site

    book = open_notebook(notebook)
    say = terminal_sentences(book)
    if executor:
        check_choice(executor)
    if executor or cache is None:  # a cache has the index, too
        with progress(say.line("terminal.progress.reading_notes")) as notify:
            query_index(book, lambda _: None, executor=executor, notify=notify)
    with progress(say.line("terminal.progress.rendering_pages")) as notify:
        site = build_site(
            book, everything=everything, engine=engine, folder=site_dir, trusted=trust, cache=cache, notify=notify
        )
    print_site(site, say)


@command.command()
@serve_options
def serve(port: int | None, polling: bool, notebook: str | None, site_dir: Path | None, trust: bool) -> None:
    """Serve the site on this machine.

    The same as `labbook serve`: rebuilds the site when a note changes and reloads open pages.
    """
    serve_notebook(port, notebook, polling=polling, site_dir=site_dir, trusted=trust)


def print_site(site: BuiltSite, say: Sentences) -> None:
    """Prints how many pages were built, and the first warnings."""
    key = "terminal.site.built" if site.rendered == site.pages else "terminal.site.updated"
    index = f"{site.folder}/index.html"
    click.echo(say.line(key, pages=site.pages, rendered=site.rendered, seconds=site.seconds, index=index))
    for message in site.warnings[:_MAX_WARNINGS]:
        click.echo(f"  {harmless(message)}", err=True)
    if len(site.warnings) > _MAX_WARNINGS:
        more = say.line("terminal.problems.more", count=len(site.warnings) - _MAX_WARNINGS)
        click.echo(f"  {more}", err=True)
