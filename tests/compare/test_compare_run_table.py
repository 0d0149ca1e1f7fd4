"""Facts of runs side by side: what differs, and that two runs differ as `compare_runs` says."""

from __future__ import annotations

from labbook.capture.code.untracked_files import separate_results
from labbook.compare.model_facts import compare_models
from labbook.compare.run_changes import compare_runs
from labbook.compare.run_table import MAX_ROWS, WORDS, Difference, collect_facts, compare_facts, translate_difference
from labbook.store.text.sentences import Sentences


def run(**more):
    facts = {
        "argv": ["python", "train.py", "--lr", "0.1"],
        "cwd": "/work",
        "host": "a",
        "arguments": [{"values": {"lr": 0.1, "batch_size": 32, "model": {"width": 16}}}],
        "configs": [],
        "files": [],
        "frameworks": [{"name": "torch", "state": {"seeds": {"torch": 0}, "device": ["cpu"]}}],
        "captured": {
            "code": {"repository": True, "top": "/work", "commit": "a" * 40, "branch": "main", "blobs": {}},
            "command": {"environment": {"LANG": "C", "MASTER_PORT": "1"}},
            "python": {"version": "3.11.7", "packages": {"numpy": "2.4", "labbook": "0.8"}},
            "hardware": {"cpu": "AMD", "cores": 2, "gpus": []},
        },
    }
    captured = {**facts["captured"], **more.pop("captured", {})}
    return {**facts, **more, "captured": captured}


def rows(*runs):
    return [(each.kind, each.what, each.values) for each in compare_facts([collect_facts(one) for one in runs])]


def test_runs_that_are_the_same_differ_in_nothing():
    other = run(captured={"command": {"environment": {"LANG": "C", "MASTER_PORT": "2"}}})
    assert rows(run(), other, run()) == []


def test_options_are_called_as_they_were_typed_and_compared_with_defaults():
    default = run(argv=["python", "train.py"])
    third = run(
        argv=["python", "train.py", "--batch-size", "64"],
        arguments=[{"values": {"lr": 0.1, "batch_size": 64, "model": {"width": 8}}}],
    )

    assert rows(run(), default, third) == [
        ("argument", "--batch-size", ("32", "32", "64")),
        ("argument", "model.width", ("16", "16", "8")),
    ]


def test_without_a_parser_in_one_run_the_words_are_compared():
    words = run(arguments=[], argv=["python", "train.py", "--lr", "0.1", "--fast"])
    assert rows(run(), words) == [("argument", "--fast", ("", "given"))]


def test_what_one_run_did_not_observe_is_no_difference():
    blind = run(frameworks=[], captured={"hardware": {"unavailable": "x"}, "python": {}, "command": {}, "code": {}})
    gpu = run(captured={"hardware": {"cpu": "AMD", "cores": 2, "gpus": [], "driver": "550"}})
    assert rows(run(), blind, gpu) == []


def test_environment_packages_hardware_and_seeds():
    other = run(
        frameworks=[{"name": "torch", "state": {"seeds": {}, "device": ["cuda:0"]}}],
        captured={
            "command": {"environment": {"LANG": "zh", "OMP_NUM_THREADS": "1"}},
            "python": {"version": "3.12.1", "packages": {"numpy": "2.5", "scipy": "1", "labbook": "0.9", "uv": "1"}},
            "hardware": {"cpu": "AMD", "cores": 8, "gpus": [{"name": "H100"}, {"name": "H100"}]},
        },
    )
    assert set(rows(run(), other)) == {
        ("environment", "torch seeds.torch", ("0", "none")),
        ("environment", "torch device", ("['cpu']", "['cuda:0']")),
        ("environment", "LANG", ("C", "zh")),
        ("environment", "OMP_NUM_THREADS", ("", "1")),
        ("package", "python", ("3.11.7", "3.12.1")),
        ("package", "numpy", ("2.4", "2.5")),
        ("package", "scipy", ("", "1")),
        ("hardware", "cores", ("2", "8")),
        ("hardware", "gpus", ("none", "2 x H100")),
    }


def test_of_configuration_the_lines_that_not_all_have():
    def config(text):
        return run(configs=[{"path": "c.yaml", "text": text}])

    three = [config("lr: 0.1\nepochs: 3\n"), config("lr: 0.2\nepochs: 3\n"), config("epochs: 3\n")]
    assert rows(*three) == [("config", "c.yaml", ("lr: 0.1", "lr: 0.2", ""))]
    assert rows(config("a: 1\n"), run()) == [("config", "c.yaml", ("a: 1", "not read"))]
    long = config("".join(f"k{n}: {n}\n" for n in range(9)))
    assert rows(long, config("x: 1\n"))[0][2][0].endswith("k5: 5 (+3)")


def test_code_by_commit_and_by_what_was_not_committed():
    def code(commit="a", blobs=None, untracked=()):
        facts = {"repository": True, "top": "/work", "commit": commit * 40, "branch": "main"}
        return {"code": {**facts, "blobs": blobs or {}, "untracked": list(untracked)}}

    written = [{"path": "out.py", "mode": "written"}]
    changed = run(files=written, captured=code(blobs={"model.py": "b" * 40, "out.py": "c" * 40}, untracked=["out.py"]))
    assert rows(run(), changed, run(captured=code("d"))) == [
        ("code", "commit", ("aaaaaaaaa", "aaaaaaaaa", "ddddddddd")),
        ("code", "model.py", ("as committed", "changed bbbbbbbb", "as committed")),
    ]


def test_many_rows_are_cut_and_counted():
    many = run(captured={"python": {"version": "3.11.7", "packages": {f"p{n}": "1" for n in range(MAX_ROWS + 5)}}})
    found = rows(run(), many)
    assert len(found) == MAX_ROWS + 1 and found[-1][:2] == ("package", "and 6 more")


def test_two_runs_differ_in_what_changed_between_them():
    other = run(
        argv=["python", "train.py", "--lr", "0.5"],
        arguments=[{"values": {"lr": 0.5, "batch_size": 32, "model": {"width": 16}}}],
        configs=[{"path": "c.yaml", "text": "a: 2\n"}],
        files=[{"path": "x.bin", "mode": "read", "size_bytes": 9, "fingerprint": "sha256:abcdefabcdef"}],
        host="b",
        frameworks=[{"name": "torch", "state": {"seeds": {"torch": 1, "python": 4}, "device": ["cpu"]}}],
        captured={
            "command": {"environment": {"LANG": "zh"}},
            "python": {"version": "3.11.7", "packages": {"numpy": "2.5"}},
            "hardware": {"cpu": "Intel", "cores": 2, "gpus": []},
        },
    )
    first = run(
        configs=[{"path": "c.yaml", "text": "a: 1\n"}],
        files=[{"path": "x.bin", "mode": "read", "size_bytes": 9, "fingerprint": "sha256:123456abcdef"}],
    )
    between = {(c.kind, c.what) for c in compare_runs(first, other) if c.kind != "metric"}

    assert {(kind, what) for kind, what, _ in rows(first, other)} == between


def model(*rows, left_out=0, **more):
    modules = [
        {"name": n, "type": t, "output": o, "parameters": p, "depth": n.count(".") + bool(n)} for n, t, o, p in rows
    ]
    return run(health={"models": [{"root": "Net", "parameters": 10, "left_out": left_out, "rows": modules}], **more})


def test_modules_added_removed_and_changed():
    before = model(("", "Net", "32x10", 0), ("fc", "Linear", "32x64", 640), ("drop", "Dropout", "32x64", 0))
    other_batch = model(("", "Net", "8x10", 0), ("fc", "Linear", "8x64", 640), ("drop", "Dropout", "8x64", 0))
    now = model(("", "Net", "32x10", 0), ("fc", "Linear", "32x128", 1280), ("norm", "LayerNorm", "32x128", 256))
    expected = [
        ("fc", "Linear, Nx64, 640 parameters", "Linear, Nx128, 1,280 parameters"),
        ("norm", "", "LayerNorm, Nx128, 256 parameters"),
        ("drop", "Dropout, Nx64", ""),
    ]

    assert sorted((c.what, c.before, c.now) for c in compare_models(before, now)) == sorted(expected)
    assert sorted((what, *values) for kind, what, values in rows(before, now) if kind == "model") == sorted(expected)
    for other in (other_batch, run(), run(health=3), run(health={"models": "x"})):
        assert compare_models(before, other) == [] and rows(before, other) == []


def test_modules_that_one_entry_does_not_list_are_no_difference():
    whole = model(("", "Net", "8x1", 0), ("a", "Block", "8x1", 0), ("a.fc", "Linear", "8x1", 5))
    cut = model(("", "Net", "8x1", 0), ("a", "Block", "8x2", 0), left_out=300)

    assert [(c.what, c.before, c.now) for c in compare_models(whole, cut)] == [("a", "Block, Nx1", "Block, Nx2")]
    assert [what for _, what, _ in rows(whole, cut, whole)] == ["a"]


def test_words_of_labbook_are_translated_and_those_of_the_program_are_not():
    chinese = Sentences("zh")
    state = Difference("code", "train.py", ("as committed", "changed 0a1b2c3d", "deleted"))
    assert translate_difference(state, chinese) == ("train.py", ("与提交相同", "已修改 0a1b2c3d", "已删除，未提交"))
    assert translate_difference(Difference("code", "branch", ("main", "none")), chinese) == ("分支", ("main", "无"))
    assert translate_difference(Difference("config", "c.yaml", ("not read", "x: 1")), chinese)[1] == ("未读取", "x: 1")
    option = Difference("argument", "--mode", ("new", "deleted"))
    assert translate_difference(option, chinese) == (option.what, option.values)
    assert {word: Sentences("en").template(key) for word, key in WORDS.items()}.keys() == WORDS.keys()


def test_configuration_files_of_two_checkouts_are_the_same_files():
    checkouts = [
        run(
            cwd=f"/{owner}/p",
            captured={"code": {"top": f"/{owner}/p"}},
            configs=[{"path": f"/{owner}/p/configs/base.yaml", "text": f"lr: {lr}\n"}],
        )
        for owner, lr in (("wei", 0.1), ("ann", 0.2))
    ]
    (found,) = [change for change in compare_runs(*checkouts) if change.kind == "config"]
    assert (found.what, found.before, found.now) == ("configs/base.yaml", "lr: 0.1", "lr: 0.2")
    (row,) = [row for row in compare_facts([collect_facts(one) for one in checkouts]) if row.kind == "config"]
    assert (row.what, row.values) == ("configs/base.yaml", ("lr: 0.1", "lr: 0.2"))


def test_new_files_that_a_program_wrote_are_results_and_no_changes_of_the_code():
    code = {
        "untracked": ["a.py", "out/m.json"],
        "files_changed": [],
        "dirty": True,
        "blobs": {"a.py": "1", "out/m.json": "2"},
    }
    written = {"a.py", "out/m.json"}
    found = separate_results(code, written)
    assert (found["untracked"], found["results"], found["dirty"]) == (["a.py"], ["out/m.json"], True)
    assert found["blobs"] == {"a.py": "1"}
    assert not separate_results({**code, "untracked": ["out/m.json"]}, written)["dirty"]
    assert separate_results(code, {"a.py"}) == code
    tracked = {"untracked": [], "files_changed": [{"path": "log.csv"}, {"path": "a.py"}], "dirty": True}
    found = separate_results(tracked, {"log.csv", "a.py"})
    assert (found["files_changed"], found["results"], found["dirty"]) == ([{"path": "a.py"}], ["log.csv"], True)
    for used, results in (({"a.py"}, ["out/m.json"]), ({"a.py", "out/"}, None), ({"out/m.json"}, None)):
        assert separate_results(code, (), used).get("results") == results, "a file that is not read has no effect"
