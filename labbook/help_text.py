"""The help of a command in the language of the notebook.

English help is in docstrings and options, where Click expects it, apart from the examples. All other help is data:
`templates/words/help/<language>*.toml` has a table for each command, with its `text`, its `epilog` and its `options`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import click

from labbook.errors import LabbookError

_COLUMN_GAP = 2
_FIRST_COLUMN = 30
"""Width and gap of the column of options, as Click's `write_dl` has them."""
_PATH_KINDS = ("file", "directory", "path")
_UNBREAKABLE = re.compile(r"(?:[!-~]+|.)[，。、；：！？）》”]*")
"""Words of ASCII stay whole; a line may end after any Chinese character, but begins with no punctuation mark."""


class HelpCommand(click.Command):
    """A command whose `--help` and errors speak the language of the notebook."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - whatever the command returns
        """Runs the command; an error gets the language in which it is printed."""
        try:
            return super().invoke(ctx)
        except LabbookError as error:
            chosen = ctx.params.get("language")
            error.language = error.language or chosen or terminal_language(ctx.params.get("notebook"))
            raise

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the help; in English as Click does."""
        language = terminal_language()
        if language == "en":
            super().format_help(ctx, formatter)
        else:
            _write_help(self, ctx, formatter, help_words(language))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples."""
        texts = command_words(help_words(terminal_language()), ctx.command_path.split()[1:])
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(str(texts["epilog"]).rstrip())


class HelpGroup(HelpCommand, click.Group):
    """A group of commands whose `--help` speaks the language of the notebook."""

    command_class = HelpCommand


def terminal_language(chosen: str | None = None) -> str:
    """Returns the language of the notebook here, or of a chosen one, "en" or "zh"; without one, that of the system."""
    from labbook.store.notebook_finder import language_here

    return language_here(chosen)


@cache
def help_words(language: str) -> Mapping[str, Any]:
    """Returns the help texts of a language; in English only the examples."""
    from labbook.store.text.words_files import builtin_folder, read_words

    words: dict[str, Any] = {}
    for path in sorted((builtin_folder() / "words" / "help").glob(f"{language}*.toml")):
        words |= read_words(path)
    return words


def translate_click() -> None:
    """Lets Click format its errors in the language of the notebook; it asks gettext, which has no Chinese for it."""
    from importlib import import_module

    def translate_text(text: str) -> str:
        if text in _PATH_KINDS:
            return _PathKind(text)
        return translate_sentence(text)

    def translate_sentence(text: str) -> str:
        chinese: Mapping[str, str] = help_words(terminal_language()).get("click", {})
        return chinese.get(text, text)

    class _PathKind(str):
        """A kind of path: Click asks for it when a command is imported, and prints it in errors, as a title."""

        def title(self) -> str:
            return translate_sentence(str(self)).title()

    def translate_plural(text: str, plural: str, count: int) -> str:
        return translate_sentence(text if count == 1 else plural)

    for name in ("exceptions", "types", "parser", "formatting"):
        vars(import_module(f"click.{name}")).update(_=translate_text, ngettext=translate_plural)
    # Not `_`: it would look for the notebook before each command.
    vars(import_module("click.core"))["ngettext"] = translate_plural


def command_words(words: Mapping[str, Any], path: Iterable[str]) -> Mapping[str, Any]:
    """Returns the texts of one command.

    Args:
        words: From `help_words`.
        path: The words behind `labbook` that call it: ("site", "build").
    """
    texts: Mapping[str, Any] = words.get(" ".join(("labbook", *path)), {})
    return texts


def option_help(words: Mapping[str, Any], texts: Mapping[str, Any], option: click.Option) -> str:
    """Returns the text of an option or "": that of the command, else that of all commands."""
    # The name of Click's own option depends on its release.
    name = "help" if "--help" in option.opts else str(option.name)
    return str(texts.get("options", {}).get(name) or words["options"].get(name) or "")


def _write_help(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter, words: Mapping[str, Any]
) -> None:
    from copy import copy

    path = ctx.command_path.split()[1:]
    texts = command_words(words, path)
    formatter.write_usage(ctx.command_path, " ".join(command.collect_usage_pieces(ctx)), words["headings"]["usage"])
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(_wrap_paragraphs(str(texts["text"]), formatter.width - formatter.current_indent))
    options = []
    for option in command.get_params(ctx):
        if isinstance(option, click.Option):
            translated = copy(option)
            translated.help = option_help(words, texts, option)
            row = translated.get_help_record(ctx)
            options.append(row and (row[0], row[1].replace("[required]", words["click"]["[required]"])))
    _write_rows(formatter, words["headings"]["options"], [row for row in options if row])
    if isinstance(command, click.Group):
        names = command.list_commands(ctx)
        rows = [(name, str(command_words(words, (*path, name))["summary"])) for name in names]
        _write_rows(formatter, words["headings"]["commands"], rows)
    command.format_epilog(ctx, formatter)


def _write_rows(formatter: click.HelpFormatter, heading: str, rows: list[tuple[str, str]]) -> None:
    first = min(max(len(name) for name, _ in rows), _FIRST_COLUMN) + _COLUMN_GAP
    formatter.write_paragraph()
    formatter.write(f"{heading}\n")
    with formatter.indentation():
        width = formatter.width - formatter.current_indent - first - _COLUMN_GAP
        formatter.write_dl([(name, _wrap_paragraphs(text, width)) for name, text in rows])


def _wrap_paragraphs(text: str, width: int) -> str:
    """Returns paragraphs with their lines broken for wide characters, marked so that Click leaves them alone."""
    return "\n\n".join("\b\n" + "\n".join(_lines(paragraph, width)) for paragraph in text.strip().split("\n\n"))


def _lines(paragraph: str, width: int) -> list[str]:
    from labbook.screen import display_width

    lines, line = [], ""
    for part in _UNBREAKABLE.findall(paragraph.replace("\n", "")):
        if line and display_width(line + part) > width:
            lines.append(line.rstrip())
            line = ""
        line += part if line else part.lstrip()
    return [*lines, line.rstrip()]
