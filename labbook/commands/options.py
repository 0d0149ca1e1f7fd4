"""Options, arguments and messages that several commands share."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from labbook import screen
from labbook.commands.word_completion import complete_runs
from labbook.help_text import HelpCommand
from labbook.screen import harmless

if TYPE_CHECKING:
    from labbook.model.message import Message
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

_NEGATED_FILTER = re.compile(r"-[A-Za-z_][\w./-]*(?:[:=<>]|!=)")
_OPTION_NAME = re.compile(r"(--[A-Za-z][\w.-]*)(?:[=<>!].*| .*)?", re.DOTALL)
_LIKE_OPTION = 0.75
"""Similarity from which an unknown option is a mistyped one of labbook. Source: chosen by us: `--jsn`, `--limt`."""


class FilterCommand(HelpCommand):
    """A command whose arguments are a query: `-status:failed` and `--lr=0.1` are conditions, not options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Moves conditions that begin with a minus behind a `--`."""
        own = [name for parameter in self.get_params(ctx) for name in parameter.opts if name.startswith("--")]
        before = args[: args.index("--")] if "--" in args else args
        conditions = [arg for arg in before if _NEGATED_FILTER.match(arg) or _is_recorded_option(arg, own)]
        if conditions:
            rest = [arg for arg in args if arg not in conditions]
            args = [*rest, *([] if "--" in rest else ["--"]), *conditions]
        return super().parse_args(ctx, args)


def _is_recorded_option(arg: str, own: Sequence[str]) -> bool:
    """Whether an argument is an option of a recorded command, neither one of labbook nor a mistyped one."""
    from difflib import get_close_matches

    named = _OPTION_NAME.fullmatch(arg)
    return named is not None and not get_close_matches(named.group(1), own, n=1, cutoff=_LIKE_OPTION)


def notebook_option(function: _Decorated) -> _Decorated:
    """Adds `--notebook PATH`; the value goes to `open_notebook`."""
    return click.option(
        "--notebook",
        type=click.Path(file_okay=True, dir_okay=True),
        metavar="PATH",
        help="Use this notebook instead of the one found above the working folder.",
    )(function)


def with_notebook(function: Callable[..., None]) -> Callable[..., None]:
    """Adds `--notebook PATH`; opens that notebook as `book`, and passes the sentences of its language as `say`."""

    @functools.wraps(function)
    def call_with_notebook(*context: click.Context, notebook: str | None, **values: Any) -> None:  # noqa: ANN401 - parameters
        book = open_notebook(notebook)
        function(*context, book=book, say=terminal_sentences(book), **values)

    return notebook_option(call_with_notebook)


def json_option(function: _Decorated) -> _Decorated:
    """Adds `--json`: data for programs instead of text for people."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)


def executor_option(function: _Decorated) -> _Decorated:
    """Adds `--executor`: where work over many entries runs, see `labbook.executors`."""
    return click.option(
        "--executor",
        default="processes",
        metavar="EXECUTOR",
        help="Where the work runs: processes, threads, ray://ADDRESS or dask://ADDRESS. Default: processes.",
    )(function)


def language_option(function: _Decorated) -> _Decorated:
    """Adds `--language`; `None` means the language of the notebook."""
    choice = click.Choice(["en", "zh"])
    return click.option("--language", type=choice, help="Language of the answer. Default: that of the notebook.")(
        function
    )


def run_argument(*, required: bool = False) -> Callable[[_Decorated], _Decorated]:
    """Adds the argument RUN with shell completion of run ids; the default is "last"."""
    default = None if required else "last"
    return click.argument("run", default=default, required=required, shell_complete=complete_runs)


def open_notebook(chosen: str | Path | None, *, resume_upload: bool = True) -> Notebook:
    """Returns the notebook to work in; first finishes runs whose recorder died and commits what is queued.

    An interrupted upload of kept files goes on in the background, unless `resume_upload` is false.
    Entries that were fetched, or that a fresh clone lacks on disk, are brought in first.

    Raises:
        NotebookError: There is none, or its settings are broken.
    """
    from labbook.store.notebook_finder import find_notebook

    notebook = find_notebook(Path.cwd(), chosen=Path(chosen) if chosen else None, environ=os.environ)
    warn_of_settings(notebook)
    from labbook.record.recovery import recover_pending

    if resume_upload and notebook.config.artifact_store:
        from labbook.artifacts.upload import start_upload

        start_upload(notebook)
    recover_pending(notebook, lambda line: click.echo(f"labbook: {line}", err=True))
    _follow_remote(notebook)
    return replace(notebook, notify=functools.partial(_print_note, terminal_sentences(notebook)))


def _print_note(say: Sentences, note: Message) -> None:
    """Prints which run a command works on, on standard error."""
    click.echo(f"labbook: {say(note)}", err=True)


def warn_of_settings(notebook: Notebook) -> None:
    """Prints, on standard error, which settings of the notebook this labbook does not know."""
    from labbook.store.config import unknown_settings

    for problem in unknown_settings(notebook.paths.root):
        click.echo(f"labbook: {terminal_sentences(notebook)(problem)}", err=True)


def _follow_remote(notebook: Notebook) -> None:
    from labbook.model.message import message_of
    from labbook.sharing.follow_remote import follow_remote
    from labbook.store.commit.sync_state import take_failure

    for done in follow_remote(notebook):
        click.echo(f"labbook: {terminal_sentences(notebook)(done)}", err=True)
    failure = take_failure(notebook)
    if failure is not None:
        say = terminal_sentences(notebook)
        screen.print_error(say.line("sync.background_failed", reason=message_of(failure)), say.error(failure)[1])


def terminal_sentences(notebook: Notebook) -> Sentences:
    """Returns the sentences of the terminal in the language of a notebook."""
    from labbook.store.text.sentences import Sentences

    return Sentences(notebook.config.language_in_use())


def print_recorder_line(line: str) -> None:
    """Prints a line of the recorder of a rerun, on standard error."""
    click.echo(line if line.startswith(" ") else f"labbook  {line}", err=True)


def message_printer(say: Sentences) -> Callable[[Message], None]:
    """Returns a function that prints a message about a rerun, on standard error."""
    return lambda note: click.echo(f"labbook  {say(note)}", err=True)


def status_label(status: str, say: Sentences) -> str:
    """Returns the status of a run in the language of `say`."""
    from labbook.store.text import templates

    return templates.status_label(status, say.language)


def verdict_label(verdict: str, say: Sentences) -> str:
    """Returns the verdict on a run in the language of `say`."""
    from labbook.store.text.templates import words

    return str(words(say.language)["run_verdict"].get(verdict, verdict))


def print_json(data: object) -> None:
    """Prints JSON that every parser reads: numbers that are not finite are the strings "nan", "inf" and "-inf"."""
    text = json.dumps(strict_json(data), ensure_ascii=False, indent=2, default=str)
    click.echo(text.encode("utf-8", "replace").decode("utf-8"))


def strict_json(data: object) -> object:
    """Returns `data` with numbers that are not finite as strings."""
    if isinstance(data, float) and (data != data or data in (float("inf"), float("-inf"))):
        return str(data)
    if isinstance(data, dict):
        return {str(key): strict_json(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [strict_json(value) for value in data]
    return data


def warn_of_notes(problems: Sequence[tuple[str, str]], say: Sentences) -> None:
    """Prints, on standard error, which notes cannot be read; the command works without them."""
    print_problems([harmless(reason) for _, reason in problems], say, more="terminal.problems.more_notes")


def warn_of_pages(problems: Sequence[str], say: Sentences) -> None:
    """Prints, on standard error, which symptom pages cannot be read; all others are used."""
    print_problems([say.line("terminal.problems.page", reason=harmless(reason)) for reason in problems], say)


def print_problems(
    lines: Sequence[str], say: Sentences, *, most: int = 3, more: str = "terminal.problems.more"
) -> None:
    """Prints the first problems on standard error, and the number of the others with the sentence `more`."""
    for line in lines[:most]:
        click.echo(f"labbook: {line}", err=True)
    if len(lines) > most:
        click.echo(f"         {say.line(more, count=len(lines) - most)}", err=True)
