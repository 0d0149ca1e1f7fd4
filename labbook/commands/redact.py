"""`labbook redact`: what would be masked in a text, or the masked text."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, notebook_option, print_json

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor

_EPILOG = """\b
Exit status of --check, so that it can guard a commit:
  0  nothing was found
  1  something was found
  2  a file or the rules cannot be read

\b
Examples:
  labbook redact --check notes/runs/2026/11/21/*.md
  labbook redact train.log > train.clean.log
  git diff --cached | labbook redact --check -

\b
Your own rules: `redact_rules` in labbook.toml, or --rules, names a TOML file:
  allow = ["text that is no secret"]
  names = ["house_code"]          # further names whose values are secret
  [[rules]]
  id = "intranet_token"
  keywords = ["itk-"]             # one of them stands in every match
  pattern = 'itk-[0-9a-f]{32}'
  yes = ["itk-{hex:32}"]          # examples that it must mask
  no = ["itk-short"]              # and that it must leave
"""


@click.command(epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--check", is_flag=True, help="Report rule and line of each finding instead; the value is never printed.")
@click.option("--rules", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="A file of your own rules.")
@json_option
@notebook_option
@click.pass_context
def command(
    context: click.Context, files: tuple[str, ...], check: bool, rules: str | None, as_json: bool, notebook: str | None
) -> None:
    """Mask secrets and personal paths in FILES (- for the standard input).

    Prints the text as an entry would hold it: secrets become [REDACTED:rule], your home folder ~, other people's names
    in paths [USER]. Secrets are known by format, by the names beside them, and by value: those in the environment.
    """
    from labbook.store.redact import make_redactor

    if as_json and not check:
        raise click.UsageError("--json tells what --check found; add --check")
    redactor = make_redactor(os.environ, [], _rules_file(rules, notebook))
    if not check:
        for name in files:
            click.echo(redactor.text(_read(name)), nl=False)
        return
    found = [
        {"file": name, "line": line, "rule": rule} for name in files for line, rule in _findings(redactor, _read(name))
    ]
    if as_json:
        print_json(found)
    else:
        from labbook.store.escape import terminal

        for finding in found:
            click.echo(f"{terminal(str(finding['file']))}:{finding['line']}: {finding['rule']}")
        what = f"{len(found)} found" if found else "nothing found"
        click.echo(f"{what} in {len(files)} file{'s' if len(files) > 1 else ''}", err=True)
    context.exit(1 if found else 0)


def _rules_file(rules: str | None, notebook: str | None) -> Path | None:
    """The file of own rules: the one that is named, else that of the notebook, where there is one."""
    from labbook.errors import NotebookError
    from labbook.store.notebook import find_notebook

    if rules:
        return Path(rules)
    chosen = Path(notebook) if notebook else None
    try:
        found = find_notebook(Path.cwd(), chosen=chosen, environ=os.environ, create_personal=False)
    except NotebookError:
        if chosen:
            raise
        return None
    return found.paths.root / found.config.redact_rules if found.config.redact_rules else None


def _read(name: str) -> str:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return data.decode("utf-8", "replace")


def _findings(redactor: Redactor, text: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = redactor.find(text)
    return found
