from __future__ import annotations

import json
import subprocess
import sys

import pytest
from order_of_tests import further

from labbook.dataset.dataset_tables import TABLES
from labbook.dataset.notebook_query import run_query
from labbook.errors import UsageError
from labbook.store.notebook_finder import find_notebook


def test_sql_over_the_notebook_sees_new_and_edited_runs(book):
    assert run_query(book, "SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 41}]
    path = min(book.paths.runs.rglob("*.md"))
    path.unlink()
    assert run_query(book, "SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 40}]
    best = "SELECT max(m.last) AS best FROM metrics m JOIN runs r USING (run) WHERE m.name = 'val_accuracy'"
    assert run_query(book, best).to_pylist() == [{"best": 0.94}]


def test_a_notebook_without_runs_has_all_tables(tmp_path):
    (tmp_path / "labbook.toml").write_text('commit = "off"\n')
    empty = find_notebook(tmp_path, chosen=tmp_path, environ={})
    for table, columns in TABLES.items():
        answer = run_query(empty, f'SELECT * FROM "{table}"')
        assert answer.num_rows == 0
        assert answer.column_names == [*(column.name for column in columns), "month"]


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("SELECT rum FROM runs", "no column rum", "did you mean run"),
        ("SELECT r.verdikt FROM runs r", "no column verdikt", "did you mean verdict"),
        ("SELECT * FROM metrik", "no table metrik", "did you mean metrics"),
        ("SELECT * FROM zzzz", "no table zzzz", "runs, params, metrics"),
        ("SELEKT 1", "syntax error", "--schema"),
        ("DROP TABLE runs", "one SELECT", "--schema"),
        ("SELECT 1; SELECT 2", "one SELECT", "--schema"),
        ("COPY runs TO 'x.csv'", "one SELECT", "--schema"),
        ("SET enable_external_access = true", "one SELECT", "--schema"),
        ("ATTACH 'x.db'", "one SELECT", "--schema"),
        ("INSTALL httpfs", "one SELECT", "--schema"),
        ("SELECT * FROM read_text('/etc/hostname')", "disabled by configuration", "--schema"),
        ("SELECT * FROM read_csv('labbook.toml')", "disabled by configuration", "--schema"),
        ("SELECT * FROM glob('/*')", "disabled by configuration", "--schema"),
        ("SELECT * FROM '/etc/hostname'", "no table", "runs, params"),
        ("SELECT * FROM sys", "no table sys", "runs, params"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_plain_words(book, sql, message, hint, tmp_path):
    with pytest.raises(UsageError) as refused:
        run_query(book, sql)
    assert message in refused.value.message
    assert hint in refused.value.hint
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.process
@pytest.mark.parametrize("form", ["table", "arrow", *further("csv", "json", "markdown")])
def test_the_command_prints_every_format(book, form):
    sql = "SELECT run, metric_last, frameworks, started FROM runs WHERE script LIKE 'examples%'"
    done = subprocess.run(
        [sys.executable, "-m", "labbook", "query", sql, "--format", form], cwd=book.paths.root, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    if form == "arrow":
        import pyarrow

        rows = pyarrow.ipc.open_stream(done.stdout).read_all().to_pylist()
        assert rows[0]["metric_last"] > 0
    elif form == "json":
        assert json.loads(done.stdout)[0]["frameworks"][0].startswith("torch")
    else:
        assert "torch 2" in done.stdout.decode()


@pytest.mark.process
def test_the_schema_is_shown_without_a_notebook(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "labbook", "query", "--schema"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "metric_best" in done.stdout


def test_a_query_exports_only_if_the_index_changed(book, monkeypatch):
    from labbook.dataset import dataset_export

    exports = []
    export = dataset_export.export
    monkeypatch.setattr(dataset_export, "export", lambda *args, **named: exports.append(1) or export(*args, **named))
    pages = sorted(book.paths.notes.rglob("2*.md"))

    def count() -> tuple[int, int]:
        return run_query(book, "SELECT count(*) AS n FROM runs").to_pylist()[0]["n"], len(exports)

    assert count() == count() == (len(pages), 1)
    pages[0].unlink()
    assert count() == count() == (len(pages) - 1, 2)
    book.paths.index.unlink()
    assert count() == (len(pages) - 1, 3), "another index, whose marks mean something else"
    pages[1].write_text(pages[1].read_text("utf-8").replace("title: ", "title: edited ", 1), "utf-8")
    assert count() == count() == (len(pages) - 1, 4)
