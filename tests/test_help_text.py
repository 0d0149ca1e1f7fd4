"""`--help` of every command: complete in both languages, formatted for a terminal of 80 columns."""

import re

import click
from order_of_tests import in_one_test

from labbook.cli import COMMANDS, labbook
from labbook.help_text import command_words, help_words, option_help
from labbook.screen import display_width

CHINESE = re.compile("[\u4e00-\u9fff]")


def walk(command, path=()):
    """Yields (path, command) of a command and of all commands below it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), (*path, name))


ALL = dict(walk(labbook))


def options_of(command):
    return [one for one in command.get_params(click.Context(command)) if isinstance(one, click.Option)]


@in_one_test("path", ALL)
def test_help_is_complete_sentences(path):
    command = ALL[path]
    texts = [command.help.partition("\n\n")[0], *(option.help for option in options_of(command))]
    assert [text for text in texts if not re.fullmatch(r"(?s)[A-Z].*\.", text.strip())] == []
    examples = command_words(help_words("en"), path)["epilog"]
    assert len(re.findall(r"^  .*labbook .*", examples, re.MULTILINE)) >= 2, "two examples"


def test_the_summary_in_the_command_list_is_the_first_line_of_the_help():
    first = {name: " ".join(ALL[(name,)].help.partition("\n\n")[0].split()) for name in COMMANDS}
    assert first == {name: summary for name, (_, summary) in COMMANDS.items()}


@in_one_test("path", ALL)
def test_chinese_help_has_every_text(path):
    words = help_words("zh")
    texts = command_words(words, path)
    command = ALL[path]
    parts = [texts["text"], texts["epilog"], *([texts["summary"]] if path else [])]
    parts += [option_help(words, texts, option) for option in options_of(command)]
    assert [part for part in parts if not CHINESE.search(part)] == []
    # The same examples, and no text of an option that is gone.
    assert texts["epilog"].count("\n") == command_words(help_words("en"), path)["epilog"].count("\n")
    assert set(texts.get("options", {})) <= {option.name for option in options_of(command)}


@in_one_test("language", ["en", "zh"])
def test_help_has_no_command_that_is_gone(language):
    tables = {name for name in help_words(language) if name.startswith("labbook")}
    assert tables == {" ".join(("labbook", *path)) for path in ALL}


def show_help(monkeypatch, path, language):
    monkeypatch.setenv("LABBOOK_LANGUAGE", language)
    context = click.Context(labbook, info_name="labbook", terminal_width=80)
    for name in path:
        context = click.Context(ALL[(*context.command_path.split()[1:], name)], parent=context, info_name=name)
    return context.command.get_help(context)


@in_one_test("path", ALL)
@in_one_test("language", ["en", "zh"])
def test_help_fits_the_terminal(monkeypatch, path, language):
    text = show_help(monkeypatch, path, language)
    # Examples are shown as they are.
    wrapped = re.split(r"\n  (?:Examples|示例)", text)[0]
    assert [line for line in wrapped.splitlines() if display_width(line) > 80] == []
    assert bool(CHINESE.search(text.replace("显存不足", "").replace("学习率扫描", ""))) == (language == "zh")
    assert "\b" not in text


def test_help_of_a_broken_notebook_is_shown(monkeypatch, tmp_path):
    (tmp_path / "labbook.toml").write_text("titel = 'x'\n")
    monkeypatch.chdir(tmp_path)
    assert "Usage: labbook list" in show_help(monkeypatch, ("list",), "en")
