"""`labbook doctor`: checks the installation and the notebook."""

from __future__ import annotations

import os
from pathlib import Path

import click

from labbook import screen
from labbook.commands.options import json_option, notebook_option, print_json
from labbook.help_text import HelpCommand, terminal_language

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(cls=HelpCommand)
@json_option
@notebook_option
@click.pass_context
def command(context: click.Context, as_json: bool, notebook: str | None) -> None:
    """Check the installation and the notebook.

    Tests git, the settings, the notebook, the probe, PyTorch, PaddlePaddle, GPU access and the site builder, and
    prints what to do about each problem. Exits with status 3 if runs cannot be recorded; a warning means that entries
    will lack something.
    """
    from labbook.installation_check import check_installation
    from labbook.store.text.sentences import Sentences

    rows = check_installation(Path.cwd(), Path(notebook) if notebook else None, os.environ)
    say = Sentences("en" if as_json else terminal_language())
    texts = [{"name": r.name, "verdict": r.verdict, "found": say(r.found), "advice": say(r.advice)} for r in rows]
    if as_json:
        print_json(texts)
    else:
        for row in texts:
            mark = screen.Cell(f"{row['verdict']:4}", _STYLES[row["verdict"]])
            screen.print_line(mark, f"  {row['name']:14} {row['found']}")
            if row["advice"]:
                screen.print_line(screen.Cell(f"{'':20} {row['advice']}", "dim"))
    if any(row.verdict == "fail" for row in rows):
        context.exit(3)
