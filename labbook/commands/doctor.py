"""`labbook doctor`: what works here and what does not."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from labbook.commands.options import json_option, notebook_option, print_json

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(epilog="\b\nExamples:\n  labbook doctor\n  labbook doctor --json\n")
@json_option
@notebook_option
@click.pass_context
def command(context: click.Context, as_json: bool, notebook: str | None) -> None:
    """Say what works here and what does not, and what to do about it.

    Ends with status 3 when something that recording needs fails; a warning is something that an entry will lack.
    """
    from labbook import screen
    from labbook.installation_check import check_installation

    rows = check_installation(Path.cwd(), Path(notebook) if notebook else None, os.environ)
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        for row in rows:
            screen.print_line(screen.Cell(f"{row.verdict:4}", _STYLES[row.verdict]), f"  {row.name:14} {row.told}")
            if row.advice:
                screen.print_line(screen.Cell(f"{'':20} {row.advice}", "dim"))
    if any(row.verdict == "fail" for row in rows):
        context.exit(3)
