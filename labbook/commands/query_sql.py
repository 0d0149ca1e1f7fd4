"""`labbook query`: SQL over the runs of the notebook."""

from __future__ import annotations

import sys
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import click

from labbook import screen
from labbook.commands.options import notebook_option, open_notebook, print_json, strict_json, terminal_sentences
from labbook.errors import UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    import pyarrow

    from labbook.store.text.sentences import Sentences


@click.command(cls=HelpCommand)
@click.option("--schema", is_flag=True, help="Show the tables and columns.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "arrow", "markdown"]),
    default="table",
    help="Format of the answer; arrow is the stream format of Apache Arrow. Default: table.",
)
@click.option(
    "-n",
    "--limit",
    metavar="N",
    default=1000,
    type=click.IntRange(min=0),
    help="Maximum number of rows of a table, 0 for all. Default: 1000.",
)
@notebook_option
@click.argument("sql", required=False)
def command(schema: bool, form: str, limit: int, notebook: str | None, sql: str | None) -> None:
    """Answer a SQL query over the runs of the notebook.

    DuckDB answers one SELECT statement. It reads the tables of `labbook export` and nothing else; it changes nothing.
    `-` reads it from standard input. Exits with status 1 if the answer has no rows.
    """
    if schema:
        _print_schema(form)
        return
    book = open_notebook(notebook)
    say = terminal_sentences(book)
    if sql == "-":
        sql = sys.stdin.read()
    if not sql or not sql.strip():
        raise UsageError("dataset.no_sql", advice="dataset.syntax_advice")
    from labbook.dataset.notebook_query import run_query

    with screen.progress(say.line("dataset.reading")) as notify:
        answer = run_query(book, sql, notify=notify)
    _print(answer, form, limit, say)
    if not answer.num_rows:
        sys.exit(1)


def _print(answer: pyarrow.Table, form: str, limit: int, say: Sentences) -> None:
    if form == "arrow":
        import pyarrow

        with pyarrow.ipc.new_stream(sys.stdout.buffer, answer.schema) as arrow:
            arrow.write_table(answer)
        return
    names = answer.column_names
    if form == "json":
        rows = list(zip(*(column.to_pylist() for column in answer.columns), strict=True))
        print_json([dict(zip(names, map(_json_value, row), strict=True)) for row in rows])
        return
    if form == "csv":
        import csv

        from labbook.store.text.escape import csv_cell

        numbers = [_is_number(field) for field in answer.schema]
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(map(csv_cell, names))
        writer.writerows(
            [cell if number else csv_cell(cell) for cell, number in zip(row, numbers, strict=True)]
            for row in _texts(answer)
        )
        return
    if not answer.num_rows:
        click.echo(f"labbook: {say.line('dataset.no_rows')}", err=True)
        return
    shown = answer.slice(0, limit) if limit else answer
    _print_rows(names, _texts(shown), form, [_is_number(field) for field in answer.schema])
    if shown.num_rows < answer.num_rows:
        click.echo(say.line("dataset.more_rows", shown=shown.num_rows, total=answer.num_rows), err=True)


def _print_rows(names: list[str], rows: list[list[str]], form: str, right: list[bool]) -> None:
    if form == "markdown":
        from labbook.store.text.escape import table_cell

        lines = [[table_cell(name) for name in names], ["---:" if each else "---" for each in right]]
        lines += [[table_cell(text) for text in row] for row in rows]
        click.echo("\n".join(f"| {' | '.join(line)} |" for line in lines))
        return
    columns = [
        screen.Column(name, right=each, keep=len(names) - number)
        for number, (name, each) in enumerate(zip(names, right, strict=True))
    ]
    screen.print_table(columns, rows)


def _texts(answer: pyarrow.Table) -> list[list[str]]:
    columns = [[_text(value) for value in column.to_pylist()] for column in answer.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(_json_value(value))


def _json_value(value: Any) -> Any:  # noqa: ANN401 - a value of an answer

    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def _is_number(field: pyarrow.Field) -> bool:
    import pyarrow.types as types

    kinds = (types.is_integer, types.is_floating, types.is_decimal)
    return any(each(field.type) for each in kinds)


def _print_schema(form: str) -> None:
    from labbook.dataset.dataset_tables import TABLES

    rows = [[table, each.name, each.kind, each.meaning] for table, columns in TABLES.items() for each in columns]
    names = ["table", "column", "type", "meaning"]
    if form == "json":
        print_json(strict_json([dict(zip(names, row, strict=True)) for row in rows]))
    else:
        _print_rows(names, rows, "markdown" if form == "markdown" else "table", [False] * 4)
