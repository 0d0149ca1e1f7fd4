"""`labbook search`: entries and notes, by words and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from labbook.commands.options import (
    AskingCommand,
    json_option,
    notebook_option,
    open_notebook,
    print_json,
    warn_of_problems,
)

if TYPE_CHECKING:
    from labbook.index.query import Found, Hit

_EPILOG = """\b
Examples:
  labbook search "loss becomes NaN"
  labbook search "loss 变成 NaN"                       # either language finds both
  labbook search 显存不足 framework:paddle
  labbook search symptom:cuda_oom has:fix since:30d
  labbook search '"mat1 and mat2 shapes"'              # words side by side
  labbook search diverg\\* kind:experiment -n 3 --json

\b
Filters: status experiment framework symptom tag author script host mode kind id has since before path;
key:a,b means a or b, -key:value means not.
"""


@click.command(cls=AskingCommand, epilog=_EPILOG)
@click.option("-n", "--limit", default=10, show_default=True, type=click.IntRange(min=1), help="How many answers.")
@json_option
@notebook_option
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
def command(limit: int, as_json: bool, notebook: str | None, words: tuple[str, ...]) -> None:
    """Search entries and notes, in English or Chinese.

    Answers with path:line, title, the passage, and the run that fixed it. Ends with status 1 when nothing is found.
    """
    from labbook import screen
    from labbook.errors import NothingFoundError
    from labbook.index.query import search

    try:
        with screen.progress("reading notes") as tell:
            found = search(open_notebook(notebook), " ".join(words), limit, tell=tell)
    except NothingFoundError:
        if as_json:
            print_json([])
        raise
    if as_json:
        print_json([_data(hit) for hit in found.hits])
    else:
        _print(found, " ".join(words))
        warn_of_problems(found.refreshed.problems)


def _data(hit: Hit) -> dict[str, object]:
    return {
        "path": hit.path,
        "line": hit.line,
        "title": hit.title,
        "snippet": hit.snippet,
        "kind": hit.kind,
        "all_words": not hit.loose,
        "fix": hit.meta.get("fix") or "",
        "meta": dict(hit.meta),
    }


def _print(found: Found, words: str) -> None:
    from labbook import screen

    if found.hits[0].loose:
        click.echo(f"nothing has all of {words!r}; these have some of it", err=True)
    for hit in found.hits:
        status = str(hit.meta.get("status") or "")
        lead: list[screen.Cell | str] = (
            [screen.status_cell(status), "  "] if status else [screen.Cell(hit.kind, "magenta"), "  "]
        )
        screen.print_line(*lead, *screen.marked(hit.title, found.words, "bold underline"))
        screen.print_line("  ", screen.Cell(f"{hit.path}:{hit.line}", "cyan"))
        if hit.snippet and hit.snippet != hit.title:
            screen.print_line("  ", *screen.marked(hit.snippet, found.words))
        if hit.meta.get("fix"):
            screen.print_line("  ", screen.Cell(f"fixed by {hit.meta['fix']}", "green"))
    if found.total > len(found.hits):
        click.echo(f"{len(found.hits)} of {found.total} notes; `-n {min(found.total, 100)}` shows more", err=True)
