"""Options and arguments that several commands share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from labbook.store.notebook import Notebook

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

_SHOWN_PROBLEMS = 3
_TURNED = re.compile(r"-[a-z]+:")


class AskingCommand(click.Command):
    """A command whose arguments are filters; one that begins with a minus (`-status:failed`) is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts the filters with a minus behind a `--`."""
        turned = [arg for arg in args if _TURNED.match(arg)]
        if turned:
            rest = [arg for arg in args if arg not in turned]
            args = [*rest, *([] if "--" in rest else ["--"]), *turned]
        return super().parse_args(ctx, args)


def notebook_option(function: _Decorated) -> _Decorated:
    """Adds `--notebook PATH`; the value goes to `open_notebook`."""
    return click.option(
        "--notebook",
        type=click.Path(file_okay=True, dir_okay=True),
        metavar="PATH",
        help="Use this notebook instead of the one found above the working folder.",
    )(function)


def json_option(function: _Decorated) -> _Decorated:
    """Adds `--json`: data for programs instead of text for people."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def run_argument(*, required: bool = False) -> Callable[[_Decorated], _Decorated]:
    """Adds the argument RUN, whose ids the shell completes; "last" when it is left out."""
    default = None if required else "last"
    return click.argument("run", default=default, required=required, shell_complete=_complete_runs)


def open_notebook(chosen: str | Path | None) -> Notebook:
    """The notebook that is meant, after runs whose recorder died were finished and waiting commits made.

    Raises:
        NotebookError: There is none, or its settings are broken.
    """
    notebook = _notebook(chosen)
    from labbook.record.recover import recover_pending

    recover_pending(notebook, lambda line: click.echo(f"labbook: {line}", err=True))
    return notebook


def _notebook(chosen: str | Path | None) -> Notebook:
    from labbook.store.notebook import find_notebook

    return find_notebook(Path.cwd(), chosen=Path(chosen) if chosen else None, environ=os.environ)


def print_json(data: object) -> None:
    """Prints JSON that every reader takes: numbers that are not finite are the strings "nan", "inf" and "-inf"."""
    import json

    text = json.dumps(strict(data), ensure_ascii=False, indent=2, default=str)
    click.echo(text.encode("utf-8", "replace").decode("utf-8"))


def strict(data: object) -> object:
    """`data` with numbers that are not finite as strings."""
    if isinstance(data, float) and (data != data or data in (float("inf"), float("-inf"))):
        return str(data)
    if isinstance(data, dict):
        return {str(key): strict(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [strict(value) for value in data]
    return data


def warn_of_problems(problems: Sequence[tuple[str, str]]) -> None:
    """Names, on standard error, the notes that cannot be read; everything else works without them."""
    from labbook.screen import harmless

    for _, reason in problems[:_SHOWN_PROBLEMS]:
        click.echo(f"labbook: {harmless(reason)}", err=True)
    if len(problems) > _SHOWN_PROBLEMS:
        more = len(problems) - _SHOWN_PROBLEMS
        click.echo(f"         and {more} more; `labbook list has:problem --kind note` names them", err=True)


def warn_of_pages(problems: Sequence[str]) -> None:
    """Names, on standard error, pages of symptoms that cannot be read; all others are used."""
    from labbook.screen import harmless

    for reason in problems[:_SHOWN_PROBLEMS]:
        click.echo(f"labbook: {harmless(reason)}; this page is left out", err=True)
    if len(problems) > _SHOWN_PROBLEMS:
        click.echo(f"         and {len(problems) - _SHOWN_PROBLEMS} more", err=True)


def _complete_runs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from labbook.errors import LabbookError
    from labbook.index.query import run_names

    try:
        names = run_names(_notebook(context.params.get("notebook")), incomplete)
    except LabbookError:
        return []
    return [CompletionItem(name, help=title) for name, title in [*names, ("last", "")] if name.startswith(incomplete)]
