"""The reference pages: commands from the tree of Click, settings from `Config`, exported Python, review rules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields

import click

import labbook
from labbook.cli import COMMANDS
from labbook.cli import labbook as command_table
from labbook.dataset.dataset_tables import TABLES
from labbook.help_text import command_words, help_words
from labbook.review.reviewer import rule_rows
from labbook.store.config import Config, environment_name, setting_help, settings_text
from labbook.store.text.sentences import Sentences


def reference_pages() -> dict[str, str]:
    """Path in the site -> Markdown of the reference pages."""
    return {
        "reference/commands.md": _commands(),
        "reference/settings.md": _settings("en"),
        "zh/reference/settings.md": _settings("zh"),
        "reference/python.md": _python(),
        "reference/dataset.md": _dataset(),
        "reference/review.md": _review_rules(),
    }


_COMMANDS_LEAD = """\
# Commands

`labbook --help` lists the commands, `labbook COMMAND --help` describes one, with examples. Commands that answer a
question print JSON with `--json`. `NO_COLOR` switches colors off.

| exit status | meaning |
|---|---|
| 0 | success |
| 1 | nothing found |
| 2 | wrong usage of the command line |
| 3 | the notebook or its settings cannot be used |
| 4 | git failed |
| 70 | a bug in labbook; the message names the file with the report |

`labbook record` ends with the exit status of the recorded command.
"""


def _commands() -> str:
    parts = [_COMMANDS_LEAD, "| command | |\n|---|---|"]
    parts += [f"| [`labbook {name}`](#labbook-{name}) | {summary} |" for name, (_, summary) in COMMANDS.items()]
    context = click.Context(command_table, info_name="labbook")
    for name in command_table.list_commands(context):
        found = command_table.get_command(context, name)
        assert found is not None
        parts += list(_command(found, click.Context(found, info_name=name, parent=context)))
    return "\n".join(parts) + "\n"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    """The section of a command, and one for each of its subcommands."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"\n## `{context.command_path}`\n"
    yield f"```text\n{usage}\n```\n"
    yield f"{_paragraphs(command.help or '')}\n"
    rows = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    if rows:
        yield "| option | |\n|---|---|"
        yield from (f"| `{name}` | {text.replace('|', '&#124;')} |" for name, text in rows)
    epilog = str(command_words(help_words("en"), context.command_path.split()[1:])["epilog"])
    yield "".join(_epilog(block) for block in re.split(r"\n\s*\n", epilog.replace("\b\n", "")))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _command(found, click.Context(found, info_name=name, parent=context))


def _paragraphs(text: str) -> str:
    cleaned = inspect.cleandoc(text).replace("\f", "").replace("\b\n", "")
    return "\n\n".join(" ".join(block.split()) for block in re.split(r"\n\s*\n", cleaned))


def _epilog(block: str) -> str:
    """A block below the options: examples as code, anything else as a paragraph."""
    heading, _, rest = block.strip("\n").partition("\n")
    if heading.rstrip(":") in ("Example", "Examples"):
        return f"\n**{heading}**\n\n```sh\n{inspect.cleandoc(rest)}\n```\n"
    return f"\n{' '.join(block.split())}\n" if block.strip() else ""


_DATASET_LEAD = """\
# Tables of the data set

The tables of [`labbook export` and `labbook query`](../dataset.md). Each table is partitioned by `month`
(`2026-11`), in which the run began (UTC); it is a column in most readers. Every column may be null, apart from `run`.
"""

_PARQUET_TYPES = {
    "text": "string",
    "texts": "list of string",
    "int": "int64",
    "float": "double",
    "bool": "boolean",
    "time": "timestamp, microseconds, UTC",
}


def _dataset() -> str:
    parts = [_DATASET_LEAD]
    for table, columns in TABLES.items():
        parts.append(f"\n## `{table}`\n\n| column | type | |\n|---|---|---|")
        parts += [f"| `{each.name}` | {_PARQUET_TYPES[each.kind]} | {each.meaning} |" for each in columns]
    return "\n".join(parts) + "\n"


_REVIEW_LEAD = """\
# Rules of the code review

What [`labbook review`](../review.md) looks for, by severity. `{words}` are names from the code that is reviewed. Each
[symptom](../symptoms/index.md) has a page with its causes and fixes.
"""


def _review_rules() -> str:
    parts = [_REVIEW_LEAD]
    rows = rule_rows("en")
    for severity in ("error", "warning", "note"):
        parts.append(f"\n## {severity.capitalize()}s\n\n| rule | finds | symptom |\n|---|---|---|")
        for row in sorted((one for one in rows if one["severity"] == severity), key=lambda one: str(one["rule"])):
            what = str(row["what"]).replace("|", r"\|")
            symptom = f"`{row['symptom']}`" if row["symptom"] else ""
            parts.append(f"| `{row['rule']}` | {what} | {symptom} |")
    return "\n".join(parts) + "\n"


_SETTINGS_LEADS = {
    "en": """\
# Settings

[中文](../zh/reference/settings.md)

Settings are read from `labbook.toml` at the root of the notebook, or from `[tool.labbook]` in `pyproject.toml`.
An environment variable overrides the file; list items are separated by commas. An option of a command overrides both.
An unknown setting is skipped, with a warning that names the nearest one; if that keeps something private, nothing is
committed or shared until it is corrected.

| setting | default | environment variable | |
|---|---|---|---|""",
    "zh": """\
# 设置

[English](../../reference/settings.md)

设置从记录本根目录的 `labbook.toml` 或 `pyproject.toml` 的 `[tool.labbook]` 读取。环境变量优先于文件，\
列表的各项用逗号分隔；命令的选项优先于两者。不认识的设置会被忽略，\
并有警告给出最接近的名称；如果那个设置关系到隐私，改正之前不会提交，也不会共享。

| 设置 | 默认值 | 环境变量 | |
|---|---|---|---|""",
}
_SETTINGS_FILE = {
    "en": "## A file with all defaults\n\n`labbook init` writes this file:",
    "zh": "## 含全部默认值的文件\n\n`labbook init` 写入的文件：",
}


def _settings(language: str) -> str:
    say = Sentences(language)
    rows = [
        f"| `{each.name}` | `{_toml_value(each.default)}` | `{environment_name(each)}` | {say(setting_help(each))} |"
        for each in fields(Config)
    ]
    file = f"```toml\n{settings_text(Config(), say).strip()}\n```\n"
    return "\n".join([_SETTINGS_LEADS[language], *rows, "", _SETTINGS_FILE[language], "", file])


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return str(list(value)) if isinstance(value, tuple) else str(value)


_PYTHON_LEAD = """\
# Python interface

Recording needs no change to a program. These calls are for programs that want to add something to their entry, check a
model before a long training, or explain an exception that nobody recorded.

## In any program

`labbook.log`, `labbook.note`, `labbook.keep` and `labbook.trial` do nothing outside a recorded run, so they can stay in
the program.
"""

_CHECKS_LEAD = """
## Checks: `labbook.checks`

The same calls take a PyTorch model or a PaddlePaddle layer. [Health](../health.md#checks-in-your-program) describes
what they examine and what they restore.
"""


def _python() -> str:
    names = [name for name in labbook.__all__ if name not in ("__version__", "checks")]
    parts = [_PYTHON_LEAD, *(_described(f"labbook.{name}", getattr(labbook, name)) for name in names), _CHECKS_LEAD]
    checks = labbook.checks
    parts += [_described(f"labbook.checks.{name}", getattr(checks, name)) for name in checks.__all__]
    return "\n".join(parts)


def exported_names() -> dict[str, str]:
    """Name of a definition -> name by which `labbook` exports it, where the two differ."""
    exported = {getattr(getattr(labbook, name), "__name__", name): name for name in labbook.__all__}
    return {defined: name for defined, name in exported.items() if defined not in (name, f"labbook.{name}")}


def _described(shown: str, found: object) -> str:
    """The block that mkdocstrings replaces: where the object is defined, under the name by which it is exported."""
    path = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}"
    label = shown.removeprefix("labbook.")
    return f'\n::: {path}\n    options:\n      heading: "{shown}"\n      toc_label: "{label}"\n'
