"""The query language of the table of runs is that of the terminal: `query.js` against `query_parser.py`."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from labbook.index.query import list_notes
from labbook.index.query_error import QueryError
from labbook.publish.pages.run_table_data import columns
from labbook.report.run_row import run_row
from labbook.store.text.sentences import Sentences
from labbook.store.text.words_files import builtin_folder

ASSETS = builtin_folder() / "site" / "assets"
A, B, C, D = (f"2026112{n}-100000-aaaa" for n in range(4))
SCRIPT = """
global.document = { documentElement: { lang: "en" } };
global.window = {};
const fs = require("fs");
const read = (name) => fs.readFileSync(`${process.argv[1]}/${name}`, "utf8");
for (const name of ["rows.js", "query.js", "runs_rules.js"]) eval(read(name));
const { columns, queries } = JSON.parse(fs.readFileSync(0, "utf8"));
const runs = window.labbook.runs(columns);
const names = (list) => [...new Set(runs.flatMap((run) => Object.keys(run[list])))];
const known = { runs, titles: {}, metrics: names("metrics"), params: names("params") };
const { parse } = window.labbook.questions(known, (key, values) => `${key} ${JSON.stringify(values ?? {})}`);
process.stdout.write(JSON.stringify(queries.map((query) => {
  const { tests, problem } = parse(query);
  return [runs.filter((run) => tests.every((test) => test(run))).map((run) => run.id), problem];
})));
"""
QUERIES = (
    "lr<0.02", "lr < 0.02", "lr>=0.01", "lr=1e-2", "lr==0.01", "lr!=0.01", "-lr:0.01", "not lr:0.01", "--lr",
    "--lr=0.01", "--warmup-steps", "warmup_steps>5", "optimizer:adam", "optimizer=adam", "optimizer:*w",
    "amp:true", "width:32",
    "val_acc>0.9", "val/acc>0.9", "val_acc.best>=0.5", "loss:nan", "loss<0.5", "duration>1h", "duration<1m",
    "verdict:unhealthy",
    "verdict:unknown", "verdict:healthy,unknown", "-verdict:unknown", "status:failed OR val_acc<0.5", "status:fin",
    "status:finished OR status:failed lr<0.005", "host=gpu-01", "host:gpu", "tag:swe", "-since:2026-11-22",
    "started<2026-11-21",
    "2026-11-21", "2026-11", "2026-W47", "2026-11-20 lr:0.01",
    "since:2026-W47", "check:dead OR tag:nightly", "has:symptom", "framework:torch", "experiment:exp2",
    "project:seg", "project=segmentation", "-project:seg",
)  # fmt: skip
REFUSED = ("staus:failed", "status:finishd", "verdict:helthy", "optimiser:adamw", "val_ac>0.9", "foo:bar", "zzz<3",
           "准确率>0.8", "status<3", "lr<high", "lr>0.1 OR well", "since:7d OR lr>1", "since:yesteryear",
           "状态:failed", "status:失败", "学习率<0.1")  # fmt: skip


@pytest.fixture
def book(notes):
    numbers = {"first": 2.3, "best": 0.1, "last": 0.2, "steps": 500}
    notes.run(
        A, host="gpu-01", project="segmentation", tags=["sweep"], duration_s=4000.0, frameworks=["torch 2.13.0"],
        verdict="unhealthy", params={"lr": 0.01, "optimizer": "adamw", "amp": True, "model.width": 16},
        symptoms=["dead_relu"],
        metrics={"loss": numbers, "val/acc": {"best": 0.95, "last": 0.91}},
    )  # fmt: skip
    notes.run(
        B, status="failed", host="gpu-02", tags=["nightly"], duration_s=30.0,
        params={"lr": 0.001, "optimizer": "adam", "amp": False, "model.width": 32},
        metrics={"loss": {**numbers, "last": "nan"}},
    )  # fmt: skip
    notes.run(D, params={"learning_rate": "1e-2"}, lr=[0.01], frameworks=["paddle 3.3.1"])
    notes.run(
        C, experiment="exp2", command="python tune.py --lr=3.0 --warmup-steps 10", verdict="healthy", lr=[0.3],
        metrics={"val/acc": {"best": 0.5, "last": 0.4}},
    )  # fmt: skip
    return notes.notebook


def answers_of_the_site(book):
    """Query -> (runs, problem) of `query.js`."""
    entries = list_notes(book).entries
    data = json.loads(columns([run_row(entry) for entry in entries], {entry.path: entry.meta for entry in entries}))
    asked = json.dumps({"columns": data, "queries": [*QUERIES, *REFUSED]})
    command = ["node", "-e", SCRIPT, str(ASSETS)]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip([*QUERIES, *REFUSED], json.loads(done.stdout), strict=True))


@pytest.mark.process
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_a_query_finds_the_same_runs_on_the_site_and_in_the_terminal(book):
    site = answers_of_the_site(book)

    for query in QUERIES:
        assert site[query] == [[entry.id for entry in list_notes(book, query).entries], ""], query
    for query in REFUSED:
        found, problem = site[query]
        assert found == [] and problem.startswith("query_"), query
    for query, near in (("状态:failed", "status:failed"), ("status:失败", "status:failed"), ("学习率<0.1", "lr<0.1")):
        with pytest.raises(QueryError) as refused:
            list_notes(book, query)
        assert near in site[query][1] and near in Sentences("en").error(refused.value)[1], query
    assert "status:finished" in site["status:finishd"][1] and "optimizer:adamw" in site["optimiser:adamw"][1]
