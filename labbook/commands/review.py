"""`labbook review`: reads training code without running it and names what is wrong with it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, print_json

if TYPE_CHECKING:
    from labbook.review.reviewer import Review
    from labbook.review.violation import Violation

_EPILOG = """\b
Examples:
  labbook review train.py
  labbook review src/ study.ipynb
  labbook review --fail-on error .        # status 1 when there is an error: for hooks and CI
  labbook review --rules                  # what it looks for
  labbook review train.py --json | jq -r '.[].symptom'

\b
`# labbook: ok` at the end of a line silences it, `# labbook: ok RULE` silences one rule there.
"""
_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "dim"}
_MOST_PROBLEMS = 5


@click.command(epilog=_EPILOG)
@json_option
@click.option("--rules", "list_rules", is_flag=True, help="List the rules instead.")
@click.option(
    "--fail-on", type=click.Choice(["error", "warning", "note"]), help="End with status 1 from this severity on."
)
@click.option("--language", type=click.Choice(["en", "zh"]), help="Of what is said; default: settings, else locale.")
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
def command(as_json: bool, list_rules: bool, fail_on: str | None, language: str | None, paths: tuple[str, ...]) -> None:
    """Read torch and paddle training code and notebooks, without running them, and name what is wrong.

    Each finding has its file and line, the symptom, and what to do. What cannot be followed in the text is not judged.
    """
    from labbook.errors import UsageError
    from labbook.review.reviewer import at_least, review, rule_rows

    language = language or _language()
    if list_rules:
        rows = rule_rows(language)
        if as_json:
            print_json(rows)
        else:
            _print_rules(rows)
        return
    if not paths:
        raise UsageError("there is nothing to review", hint="give Python files, notebooks or folders")
    done = review([Path(path) for path in paths], language)
    if as_json:
        print_json([violation_json(remark) for remark in done.remarks])
    else:
        _print(done)
    for problem in done.problems[:_MOST_PROBLEMS]:
        click.echo(f"labbook: {problem}; it is left out", err=True)
    if len(done.problems) > _MOST_PROBLEMS:
        click.echo(f"         and {len(done.problems) - _MOST_PROBLEMS} more", err=True)
    if fail_on and any(at_least(remark.severity, fail_on) for remark in done.remarks):
        sys.exit(1)


def violation_json(remark: Violation) -> dict[str, object]:
    """A remark as data for programs."""
    return {
        "file": remark.file,
        "line": remark.line,
        "cell": remark.cell or None,
        "source": remark.text,
        "rule": remark.rule,
        "symptom": remark.symptom or None,
        "severity": remark.severity,
        "tier": remark.tier,
        "what": remark.what,
        "do": remark.advice,
    }


def _language() -> str:
    """The language of the notebook here, else that of the locale: a review needs no notebook."""
    import os

    from labbook.errors import LabbookError
    from labbook.store.notebook import find_notebook

    try:
        return find_notebook(Path.cwd(), chosen=None, environ=os.environ).config.language_in_use()
    except LabbookError:
        from labbook.store.config import Config

        return Config().language_in_use()


def _print(done: Review) -> None:
    from labbook import screen

    for remark in done.remarks:
        style = _STYLES[remark.severity]
        named = f"{remark.rule}" + (f" ({remark.symptom})" if remark.symptom else "")
        screen.print_line(screen.Cell(remark.place, "cyan"), "  ", screen.Cell(remark.severity, style), f"  {named}")
        screen.print_line("    ", screen.Cell(remark.text, "dim"))
        screen.print_line("    ", _plain(remark.what))
        screen.print_line("    ", screen.Cell("-> ", "bold"), _plain(remark.advice))
    counts = Counter(remark.severity for remark in done.remarks)
    said = ", ".join(f"{counts[one]} {one}{'s' if counts[one] != 1 else ''}" for one in _STYLES if counts[one])
    files = f"{done.files} file{'s' if done.files != 1 else ''}"
    click.echo(f"labbook: {said or 'nothing found'} in {files}", err=True)


def _print_rules(rows: list[dict[str, object]]) -> None:
    from labbook import screen

    for row in rows:
        screen.print_line(
            screen.Cell(str(row["rule"]), "bold"),
            "  ",
            screen.Cell(str(row["severity"]), _STYLES[str(row["severity"])]),
            f"  {row['symptom']}",
        )
        screen.print_line("    ", _plain(str(row["what"])))


def _plain(sentence: str) -> str:
    return sentence.replace("`", "")
