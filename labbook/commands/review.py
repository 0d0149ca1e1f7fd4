"""`labbook review`: checks training code without running it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook import screen
from labbook.commands.options import json_option, language_option, print_json, print_problems
from labbook.errors import UsageError
from labbook.help_text import HelpCommand, terminal_language

if TYPE_CHECKING:
    from labbook.review.reviewer import Review
    from labbook.review.violation import Violation
    from labbook.store.text.sentences import Sentences

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "dim"}
_COUNTS = {
    "error": "terminal.review.errors",
    "warning": "terminal.review.warnings",
    "note": "terminal.review.notes",
}
_MOST_PROBLEMS = 5


@click.command(cls=HelpCommand)
@json_option
@click.option("--rules", "list_rules", is_flag=True, help="List the rules and exit.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note"]),
    help="Exit with status 1 if there is a finding of this severity or a higher one.",
)
@language_option
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
def command(as_json: bool, list_rules: bool, fail_on: str | None, language: str | None, paths: tuple[str, ...]) -> None:
    """Check training code for mistakes without running it.

    Reads PyTorch and PaddlePaddle code in Python files, Jupyter notebooks and folders. Each finding has its file and
    line, the symptom it causes, and the fix. Code that cannot be followed statically is not judged.
    """
    from labbook.review.reviewer import is_at_least, review, rule_rows
    from labbook.store.text.sentences import Sentences

    say = Sentences(language or terminal_language())
    if list_rules:
        rows = rule_rows(say.language)
        if as_json:
            print_json(rows)
        else:
            _print_rules(rows)
        return
    if not paths:
        raise UsageError("terminal.review.no_path")
    result = review([Path(path) for path in paths], say.language)
    if as_json:
        print_json([violation_json(violation) for violation in result.violations])
    else:
        _print(result, say)
    skipped = [say.line("terminal.review.skipped", problem=problem) for problem in result.problems]
    print_problems(skipped, say, most=_MOST_PROBLEMS)
    if fail_on and any(is_at_least(violation.severity, fail_on) for violation in result.violations):
        sys.exit(1)


def violation_json(violation: Violation) -> dict[str, object]:
    """Returns a violation as data for programs."""
    return {
        "file": violation.file,
        "line": violation.line,
        "cell": violation.cell or None,
        "source": violation.text,
        "rule": violation.rule,
        "symptom": violation.symptom or None,
        "severity": violation.severity,
        "tier": violation.tier,
        "what": violation.what,
        "do": violation.advice,
    }


def _print(result: Review, say: Sentences) -> None:
    for violation in result.violations:
        style = _STYLES[violation.severity]
        named = f"{violation.rule}" + (f" ({violation.symptom})" if violation.symptom else "")
        severity = screen.Cell(violation.severity, style)
        screen.print_line(screen.Cell(violation.place, "cyan"), "  ", severity, f"  {named}")
        screen.print_line("    ", screen.Cell(violation.text, "dim"))
        screen.print_line("    ", _without_marks(violation.what))
        screen.print_line("    ", screen.Cell("-> ", "bold"), _without_marks(violation.advice))
    counts = Counter(violation.severity for violation in result.violations)
    parts = [say.line(key, count=counts[severity]) for severity, key in _COUNTS.items() if counts[severity]]
    found = say.line("terminal.review.found", counts=parts, files=result.files)
    nothing = say.line("terminal.review.nothing", files=result.files)
    click.echo(f"labbook: {found if parts else nothing}", err=True)


def _print_rules(rows: list[dict[str, object]]) -> None:
    for row in rows:
        screen.print_line(
            screen.Cell(str(row["rule"]), "bold"),
            "  ",
            screen.Cell(str(row["severity"]), _STYLES[str(row["severity"])]),
            f"  {row['symptom']}",
        )
        screen.print_line("    ", _without_marks(str(row["what"])))


def _without_marks(sentence: str) -> str:
    return sentence.replace("`", "")
