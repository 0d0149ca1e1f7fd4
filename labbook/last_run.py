"""`labbook.last()`: the newest run of the notebook, as text and in a Jupyter notebook as HTML."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labbook.errors import NothingFoundError
from labbook.model.run import Run


@dataclass(frozen=True)
class LastRun:
    """A recorded run that shows itself.

    Args:
        text: Its summary, as `labbook record` prints it.
        columns: Names of the columns of the table of metrics in the language of the notebook.
        axes: Names of the axes of its curves, likewise.
    """

    run: Run
    entry: Path
    text: str
    columns: tuple[str, ...]
    axes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Returns the summary as `labbook record` prints it."""
        return self.text

    def __repr__(self) -> str:
        """Returns the summary, because consoles show an object so."""
        return self.text

    def _repr_html_(self) -> str:
        """Returns title, summary, metrics and curves as HTML without scripts and outside files."""
        from labbook.kernel_front_end import file_link
        from labbook.report.curves import curves_svg, drawable
        from labbook.report.numbers import number

        run = self.run
        rows = [
            f"<tr><td>{html.escape(series.name)}</td><td>{html.escape(number(series.values[0]))}</td>"
            f"<td>{html.escape(number(series.values[-1]))}</td><td>{'' if end is None else end}</td></tr>"
            for series in run.series
            if series.values
            for end in [series.last_step]
        ]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        table = f"<table><tr>{head}</tr>{''.join(rows)}</table>" if rows else ""
        picture = ""
        if drawable(run.series):
            import base64

            picture_of_curves = curves_svg(run.series, run.title, run.primary, self.axes)
            data = base64.b64encode(picture_of_curves.encode("utf-8", "replace")).decode()
            picture = f'<p><img alt="" style="max-width:100%" src="data:image/svg+xml;base64,{data}"></p>'
        shown = os.path.relpath(self.entry)
        summary = html.escape(self.text).replace(html.escape(shown), file_link(shown) or html.escape(shown))
        return f"<div><p><b>{html.escape(run.title or run.id)}</b></p><pre>{summary}</pre>{table}{picture}</div>"


def last(notebook: str | os.PathLike[str] | None = None) -> LastRun:
    """Returns the newest run of the notebook.

    Args:
        notebook: The notebook; by default the one above the working folder.

    Raises:
        NothingFoundError: There is no run, or the newest one has not ended.
        NotebookError: There is no notebook.
    """
    from labbook.index.query import find_run
    from labbook.record.end_summary import FinishedRun
    from labbook.report.run_data import load_run
    from labbook.store.commit.entry_commit import CommitOutcome
    from labbook.store.journal import Journal
    from labbook.store.notebook_finder import find_notebook
    from labbook.store.text.templates import words

    book = find_notebook(Path.cwd(), chosen=Path(notebook) if notebook else None, environ=os.environ)
    found = find_run(book, "last")
    run = load_run(book.paths, found.id)
    if run is None:
        raise NothingFoundError("errors.run.not_ended_ask", run=found.id)
    journal = Journal(book.paths.journal(run.id))
    done = journal.read(journal.paths.done)
    commit = CommitOutcome(
        str(done.get("status") or "off"), str(done.get("commit") or ""), str(done.get("ref") or ""),
        str(done.get("reason") or ""),
    )  # fmt: skip
    entry, language = book.paths.root / found.path, book.config.language_in_use()
    shown = os.path.relpath(entry)
    columns = tuple(words(language)["metrics"][name] for name in ("metric", "first", "last", "last_step"))
    summary = "\n".join(FinishedRun(run, entry, commit, shown, language).summary())
    return LastRun(run, entry, summary, columns, words(language)["curves"])
