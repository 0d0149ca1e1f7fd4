"""`labbook watch`: rebuilds the site whenever a note changes."""

from __future__ import annotations

import click

from labbook import screen
from labbook.commands.options import notebook_option, open_notebook, terminal_sentences
from labbook.commands.serve import polling_option
from labbook.errors import LabbookError
from labbook.help_text import HelpCommand


@click.command(cls=HelpCommand)
@polling_option
@notebook_option
def command(polling: bool, notebook: str | None) -> None:
    """Rebuild the site whenever a note changes.

    Watches notes/, templates/ and the settings until interrupted with Ctrl-C. If a build fails, the error is printed
    and the next change starts another build. To view the site in a browser, use `labbook serve`.
    """
    from labbook.commands.site import print_site
    from labbook.publish.site.file_watch import changes
    from labbook.publish.site.site_build import build_site

    book = open_notebook(notebook)
    say = terminal_sentences(book)
    print_site(build_site(book), say)
    for changed in changes(book, polling=polling, yield_start=True):
        if not changed:
            # Notes that were written during the first build.
            build_site(book)
            click.echo(say.line("terminal.watch.watching", folder=str(book.paths.notes)))
            continue
        if len(changed) > 1:
            click.echo(say.line("terminal.watch.changed_many", file=str(changed[0]), count=len(changed) - 1))
        else:
            click.echo(say.line("terminal.watch.changed", file=str(changed[0])))
        try:
            print_site(build_site(book), say)
        except LabbookError as error:
            screen.print_error(*say.error(error))
