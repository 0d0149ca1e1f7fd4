"""`labbook serve`: serves the site on this machine and rebuilds it on changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labbook.commands.options import notebook_option, open_notebook, terminal_sentences
from labbook.help_text import HelpCommand
from labbook.screen import harmless, progress

if TYPE_CHECKING:
    from labbook.publish.site.site_build import BuiltSite
    from labbook.store.text.sentences import Sentences


def site_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that building and serving share."""
    folder = click.option(
        "--site-dir",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help="Write the site to this folder. Default: site/ in the notebook.",
    )
    trust = click.option(
        "--trust",
        is_flag=True,
        help="Run code of the notebook: MkDocs hooks, plugins and theme templates. Only for notebooks you trust.",
    )
    return folder(trust(function))


def serve_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of serving."""
    port = click.option(
        "--port",
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="Port to listen on. Default: the first free one from 8000 on.",
    )
    return port(polling_option(site_options(notebook_option(function))))


def polling_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--polling`."""
    return click.option("--polling", is_flag=True, help="Poll for changes (needed on network file systems).")(function)


@click.command(cls=HelpCommand)
@serve_options
def command(port: int | None, polling: bool, notebook: str | None, site_dir: Path | None, trust: bool) -> None:
    """Serve the site on this machine.

    Rebuilds the site when a note changes and reloads open pages. The page of a run that goes on shows its curves and
    its last lines of output, new every two seconds. Listens on 127.0.0.1 only; to share the site, publish
    the folder that `labbook site build` writes.
    """
    serve_notebook(port, notebook, polling=polling, site_dir=site_dir, trusted=trust)


def serve_notebook(
    port: int | None, notebook: str | None, *, polling: bool, site_dir: Path | None, trusted: bool
) -> None:
    """Serves the site until it is interrupted."""
    from labbook.publish.site.site_build import serve_site
    from labbook.record.running_run import RunningRuns

    book = open_notebook(notebook)
    view = RunningRuns(book).view
    say = terminal_sentences(book)

    def on_build(site: BuiltSite) -> None:
        _print_build(site, say)

    with progress(say.line("terminal.progress.rendering_pages")) as notify:
        serve_site(
            book,
            port,
            click.echo,
            polling=polling,
            on_build=on_build,
            site=site_dir,
            trusted=trusted,
            notify=notify,
            view=view,
        )


def _print_build(site: BuiltSite, say: Sentences) -> None:
    """Prints one line for each build that changed pages."""
    click.echo(say.line("terminal.site.rebuilt", rendered=site.rendered, pages=site.pages, seconds=site.seconds))
    for message in site.warnings[:3]:
        click.echo(f"  {harmless(message)}", err=True)
