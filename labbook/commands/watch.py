"""`labbook watch`: builds the site again whenever an entry changes."""

from __future__ import annotations

import click

from labbook.commands.options import notebook_option, open_notebook

_EPILOG = """\b
Examples:
  labbook watch                     # beside a web server that shows site/
  labbook watch --polling           # on a network file system
"""


@click.command(epilog=_EPILOG)
@click.option("--polling", is_flag=True, help="Look at the files again and again; for network file systems.")
@notebook_option
def command(polling: bool, notebook: str | None) -> None:
    """Build the site again whenever an entry changes.

    Watches notes/, templates/ and the settings until it is interrupted. A build that fails is told and tried again
    with the next change. To look at the site while you write, use `labbook site serve`.
    """
    from labbook.commands.site import say_built
    from labbook.errors import LabbookError
    from labbook.publish.site import build_site
    from labbook.publish.watch import changes

    book = open_notebook(notebook)
    say_built(build_site(book))
    for changed in changes(book, polling=polling, tell_start=True):
        if not changed:
            # What was written during the first build.
            build_site(book)
            click.echo(f"watching {book.paths.notes}  (Ctrl-C ends it)")
            continue
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        click.echo(f"changed: {changed[0]}{more}")
        try:
            say_built(build_site(book))
        except LabbookError as error:
            click.echo(f"labbook: {error.message}\n         {error.hint}", err=True)
