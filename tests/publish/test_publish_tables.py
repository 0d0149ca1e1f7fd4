"""The data of the table of runs and of the comparison: what stands in it, and what does not change."""

from __future__ import annotations

import html
import json
from dataclasses import replace

from labbook.model.entry import Entry
from labbook.publish.pages.compare_data import MAX_POINTS, compare_data, compare_files
from labbook.publish.pages.page import RunFacts, SiteSource
from labbook.publish.pages.run_table_data import group_by_month, option_columns, table_files
from labbook.publish.pages.script_words import attribute, script_words
from labbook.report.run_row import run_row
from labbook.store.text.templates import Templates

EVIL = "</script><script>alert(1)</script> \"'`{{ 7*7 }}`| \\ \u202e"


def entry(number: int, month: int = 11, **more) -> Entry:
    run_id = f"2026{month:02d}10-1200{number:02d}-aaaa"
    meta = {
        "id": run_id,
        "title": f"train.py: run {number}",
        "status": "finished",
        "started": f"2026-{month:02d}-10T12:00:{number:02d}Z",
        "duration_s": 61.26,
        "command": f"python train.py --lr 0.{number} --batch-size=32 data/secret-place",
        "tags": ["torch"],
        "metrics": {"loss": {"first": 2.3, "best": 0.5, "last": "nan", "steps": 9}},
        **more,
    }
    return Entry(f"notes/runs/2026/{month:02d}/10/{run_id}.md", meta)


def source(*entries: Entry, **more) -> SiteSource:
    rows = [run_row(each) for each in entries]
    return SiteSource(rows, fronts={each.path: each.meta for each in entries}, **more)


def files(made: SiteSource) -> dict[str, bytes]:
    return {file.path: file.read() for file in table_files(made, {"oom": "Out of memory"})}


def test_a_month_stays_the_same_when_a_run_of_another_one_arrives():
    old = [entry(2, 10), entry(1, 10)]
    before = files(source(*old))
    after = files(source(entry(3, 11, symptoms=["oom"], tags=["new"]), *old))

    assert after["data/runs/2026-10.json"] == before["data/runs/2026-10.json"]
    assert set(after) == {"data/runs/2026-10.json", "data/runs/2026-11.json", "data/runs/index.json"}
    index = json.loads(after["data/runs/index.json"])
    assert [month["month"] for month in index["months"]] == ["2026-11", "2026-10"]
    assert index["runs"] == 3 and index["symptoms"] == {"oom": "Out of memory"}
    assert index["months"][1] == json.loads(before["data/runs/index.json"])["months"][0]


def test_a_run_stands_in_columns():
    made = source(
        entry(2, fix="x", symptoms=["oom", "nan"], author="张敏"), entry(1, metrics={"acc": 0.5}, title="odd")
    )
    seen = json.loads(files(made)["data/runs/2026-11.json"])

    assert seen["id"] == ["20261110-120002-aaaa", "20261110-120001-aaaa"]
    assert seen["title"] == ["run 2", "odd"] and seen["duration"] == [61.3, 61.3]
    assert seen["started"][0] == 1794312002 and seen["at"] == {}
    assert seen["fixed"] == [0] and seen["bare"] == [0, 1]
    assert seen["texts"]["author"] == {"i": [0, 1], "t": ["张敏", ""]}
    assert seen["lists"]["symptoms"] == {"i": [[0, 1], []], "t": ["oom", "nan"]}
    assert seen["metrics"] == {
        "loss": {"r": [0], "best": [0.5], "last": ["nan"]},
        "acc": {"r": [1], "best": [0.5], "last": [0.5]},
    }
    assert seen["params"]["lr"] == {"i": [0, 1], "t": ["0.2", "0.1"]}
    assert seen["params"]["batch_size"] == {"i": [0, 0], "t": ["32"]}


def test_only_front_matter_stands_in_it(tmp_path):
    facts = tmp_path / "run.json"
    facts.write_text(json.dumps({"id": "x", "cwd": "/home/wei/private", "argv": ["--token", "hidden"]}))
    each = entry(1)
    made = source(each, facts={each.path: RunFacts(facts, "1")})

    content = files(made)["data/runs/2026-11.json"]

    assert b"private" not in content and b"hidden" not in content and b"secret-place" not in content
    assert json.loads(content)["bare"] == []


def test_what_a_front_matter_may_hold_instead():
    odd = [
        Entry("notes/runs/odd.md", {"metrics": [1], "params": "x", "command": 'python "', "tags": EVIL}),
        Entry("notes/runs/2026/11/10/mine.md", {"id": EVIL, "title": EVIL, "metrics": {EVIL: {"last": 10**400}}}),
        entry(1, metrics={"a": {"best": True, "last": float("inf")}, "b": {"last": 1 << 60}}, params={EVIL: [1]}),
    ]
    made = files(source(*odd))

    other, month = json.loads(made["data/runs/other.json"]), json.loads(made["data/runs/2026-11.json"])
    assert other["at"] == {"0": "runs/odd"} and other["started"] == [0]
    assert month["id"][0] == EVIL and month["at"] == {"0": "runs/2026/11/10/mine"}
    assert month["metrics"] == {"a": {"r": [1], "best": [None], "last": ["inf"]}}
    assert list(group_by_month(source(*odd).rows)) == ["2026-11", "other"]


def test_options_are_those_of_the_program_else_of_the_command_line():
    assert option_columns({"params": {"lr": 0.1, "amp": True, "layers": [1]}, "command": "x --lr 5"}) == {
        "lr": "0.1",
        "amp": "True",
    }
    assert option_columns({"params": {}, "command": "python a.py --lr 5 --note 'two words' -v x"}) == {
        "lr": "5",
        "note": "two words",
        "v": "x",
    }
    assert option_columns({"command": "python a.py"}) == {} == option_columns({})


def test_words_of_a_page_are_one_inert_attribute():
    text = str(script_words(Templates(None, "zh"), "site_runs", more=EVIL))

    assert not set('"<>{}`*_[]|\n') & set(text)
    said = json.loads(html.unescape(text))
    assert said["columns"] == "列" and said["status_failed"] and said["more"] == EVIL
    assert attribute("a\n b") == "a b"


def test_the_data_of_a_comparison(tmp_path):
    facts = tmp_path / "run.json"
    values = [1.0 / (n + 1) for n in range(5000)]
    values[1234], values[4000] = 77.0, float("nan")
    series = {"name": "loss", "source": "probe", "steps": list(range(5000))}
    series["values"] = ["nan" if v != v else v for v in values]
    rate = {"name": "lr", "source": "probe", "steps": [1, 2], "values": [0.1, 0.05]}
    run = {"id": "x", "argv": ["python", "train.py", "--lr", "0.1"], "series": [series, rate], "cwd": "/home/wei"}
    facts.write_text(json.dumps(run))
    each = entry(1)
    row = run_row(each)

    (file,) = compare_files(source(each, each, facts={each.path: RunFacts(facts, "7")}))
    data = json.loads(file.read())

    assert file.path == f"data/run/{row.id}.json" and file.key.endswith(":7")
    assert data["facts"]["words"] == {"--lr": "0.1", "command": "python train.py"}
    # Each of the last 500 points improved: the last one is not good by chance.
    assert data["metrics"]["loss"] == {"last": 0.0002, "best": 0.0002, "steps": 4999, "level": True}
    assert data["metrics"]["lr"]["best"] is None, "of a learning rate no value is the best"
    curve = data["curves"]["loss"]
    assert len(curve["x"]) == len(curve["y"]) <= MAX_POINTS + 8
    assert 77.0 in curve["y"] and None in curve["y"] and curve["x"][-1] == 4999
    assert b"/home" not in file.read()


def test_damaged_data_of_a_comparison_is_empty(tmp_path):
    for content in (b"", b"[1]", b"{", b'{"series": 3, "argv": 4, "captured": [], "frameworks": [{"state": 1}]}'):
        (tmp_path / "run.json").write_bytes(content)
        seen = json.loads(compare_data(tmp_path / "run.json"))
        assert seen["metrics"] == {} == seen["curves"]
    assert json.loads(compare_data(tmp_path / "missing"))["curves"] == {}


def test_runs_with_odd_ids_are_not_compared(tmp_path):
    facts = tmp_path / "run.json"
    facts.write_text("{}")
    each = replace(entry(1), meta={"id": "../../evil"})

    assert compare_files(source(each, facts={each.path: RunFacts(facts, "1")})) == []
