"""`labbook export`: the notebook as a Parquet data set in a folder or an object store."""

from __future__ import annotations

import click

from labbook.commands.options import executor_option, json_option, notebook_option, open_notebook, print_json
from labbook.help_text import HelpCommand

_EPILOG = """\b
Examples:
  labbook export ./dataset                             # runs, params, metrics, series, checks, ...
  labbook export s3://team-bucket/runs                 # any address of fsspec
  labbook export ./dataset --executor dask://10.0.0.5:8786
"""


@click.command(cls=HelpCommand, epilog=_EPILOG)
@click.option(
    "--to", "form", type=click.Choice(["parquet"]), default="parquet", help="Format of the export. Default: parquet."
)
@executor_option
@json_option
@notebook_option
@click.argument("target")
def command(form: str, executor: str, as_json: bool, notebook: str | None, target: str) -> None:
    """Write the notebook as a Parquet data set.

    TARGET is a folder or an address such as s3://bucket/runs. The tables are partitioned by month. Runs that have not
    changed since the last export are not read again; edited ones are replaced, deleted ones removed.
    """
    from pathlib import Path

    from labbook import screen
    from labbook.commands.options import terminal_sentences
    from labbook.dataset.dataset_export import export
    from labbook.errors import UsageError
    from labbook.store.paths import is_run_id

    book = open_notebook(notebook)
    say = terminal_sentences(book)
    if (target == "last" or is_run_id(target)) and not Path(target).exists():
        raise UsageError(say.line("dataset.one_run", name=target), hint=say.line("dataset.one_run_advice"))
    with screen.progress(say.line("dataset.reading")) as tell:
        try:
            done = export(book, target, executor=executor, tell=tell)
        except ImportError as error:
            said = say.line("dataset.not_installed", reason=str(error))
            raise UsageError(said, hint="pip install 'labbook[data]'") from error
    facts = {"runs": done.runs, "read": done.read, "removed": done.removed, "months": list(done.months)}
    if as_json:
        print_json({"target": target, **facts})
        return
    key = "dataset.exported" if done.months else "dataset.unchanged"
    click.echo(say.line(key, address=target, **{**facts, "months": len(done.months)}))
