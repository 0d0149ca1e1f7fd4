"""`labbook redact`: masks secrets in files, or lists them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from labbook.commands.options import json_option, notebook_option, print_json
from labbook.errors import NotebookError, UsageError
from labbook.help_text import HelpCommand, terminal_language


@click.command(cls=HelpCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--check", is_flag=True, help="Print line and rule of each secret, not its value.")
@click.option(
    "--rules", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="TOML file with your own rules."
)
@json_option
@notebook_option
@click.pass_context
def command(
    context: click.Context, files: tuple[str, ...], check: bool, rules: str | None, as_json: bool, notebook: str | None
) -> None:
    """Mask secrets and personal paths in files.

    Prints FILES (- for standard input) as an entry would contain them: secrets become [REDACTED:rule], your home folder
    becomes ~, and names of other users in paths become [USER]. Secrets are recognised by their format, by the names
    next to them, and by value if they are in your environment.
    """
    from labbook.store.recorder_redaction import make_redactor

    if as_json and not check:
        raise UsageError("errors.redaction.json_needs_check")
    redactor = make_redactor(os.environ, [], _rules_file(rules, notebook))
    if not check:
        for name in files:
            click.echo(redactor.text(_read(name)), nl=False)
        return
    secrets = [
        {"file": name, "line": line, "rule": rule} for name in files for line, rule in redactor.find(_read(name))
    ]
    if as_json:
        print_json(secrets)
    else:
        _print(secrets, len(files))
    context.exit(1 if secrets else 0)


def _print(secrets: Sequence[Mapping[str, object]], files: int) -> None:
    from labbook.store.text.escape import terminal
    from labbook.store.text.sentences import Sentences

    for secret in secrets:
        click.echo(f"{terminal(str(secret['file']))}:{secret['line']}: {secret['rule']}")
    key = "terminal.redact.found" if secrets else "terminal.redact.nothing"
    click.echo(Sentences(terminal_language()).line(key, count=len(secrets), files=files), err=True)


def _rules_file(rules: str | None, notebook: str | None) -> Path | None:
    """Returns the file of own rules: the given one, else that of the notebook, else `None`."""
    from labbook.store.notebook_finder import find_notebook

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
