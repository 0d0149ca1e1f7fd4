"""What changed between two runs, in real repositories where it is about code."""

from __future__ import annotations

import json
import math

import pytest

from labbook.capture.code.working_tree import capture
from labbook.compare.run_changes import compare_runs, mask_changes
from labbook.model.message import message
from labbook.model.run import Arguments, ConfigFile, Framework, Run
from labbook.model.run_files import FileUse
from labbook.model.run_json import run_to_json
from labbook.model.series import Series
from labbook.probe.redaction.redactor import Redactor
from labbook.store.text.sentences import Sentences, translate_change


def run(**fields) -> dict:
    """A run as `run.json` holds it."""
    known = {
        "id": "20261121-153012-k3f9",
        "status": "finished",
        "argv": ("python", "train.py"),
        "cwd": "/w",
        "started": 1.0,
    }
    return json.loads(json.dumps(run_to_json(Run(**{**known, **fields}))))


def changes(before: dict, now: dict) -> list[tuple[str, str, str, str]]:
    return [(c.kind, c.what, c.before, c.now) for c in compare_runs(before, now)]


def test_the_same_run_has_no_changes(code, make_context):
    facts = {
        "code": capture(make_context(code, "python", "train.py")),
        "python": {"version": "3.11.7", "packages": {"numpy": "2.0"}, "origins": {}},
        "hardware": {"cpu": "x", "cores": 2, "gpus": []},
    }
    one = run(captured=facts, series=(Series("loss", "probe", (1, 2), (1.0, math.nan)),), primary="loss")
    assert changes(one, one) == []


def test_words_of_the_command_line():
    before = run(argv=("python", "train.py", "--lr", "0.1", "-v", "--x=1", "--gone", "a"))
    now = run(argv=("python", "train.py", "--lr", "3.0", "-v", "--x=1", "--decay", "-0.5"))
    assert changes(before, now) == [
        ("argument", "--lr", "0.1", "3.0"),
        ("argument", "--decay", "", "-0.5"),
        ("argument", "--gone", "a", ""),
    ]


def test_a_module_that_is_run_is_a_program_and_no_option():
    before, now = (run(argv=("/bin/python3.11", *words)) for words in (("app/job.py",), ("-m", "app.job")))
    assert [(kind, what) for kind, what, *_ in changes(before, now)] == [("argument", "command")]
    assert changes(run(argv=("python", "a.py", "-m", "x")), run(argv=("python", "a.py", "-m", "y"))) == [
        ("argument", "-m", "x", "y")
    ]


def test_another_program_and_repeated_options():
    assert changes(run(argv=("python", "a.py", "x")), run(argv=("python", "a.py", "y"))) == [
        ("argument", "command", "python a.py x", "python a.py y")
    ]
    assert changes(run(argv=("p", "-x", "1", "-x", "2")), run(argv=("p", "-x", "1", "-x", "3"))) == [
        ("argument", "-x", "1 2", "1 3")
    ]


def test_parsed_arguments_come_first_and_are_called_as_they_are_typed():
    before = run(
        argv=("torchrun", "--nproc-per-node", "2", "train.py"),
        arguments=(
            Arguments("argparse", "args", {"learning_rate": 0.1, "epochs": 3, "opt": {"name": "sgd", "m": 0.9}}),
        ),
    )
    now = run(
        argv=("torchrun", "--nproc-per-node", "4", "train.py", "--learning-rate", "3.0"),
        arguments=(
            Arguments("argparse", "args", {"learning_rate": 3.0, "epochs": 3, "opt": {"name": "adam", "m": 0.9}}),
        ),
    )
    assert changes(before, now) == [
        ("argument", "--learning-rate", "0.1", "3"),
        ("argument", "opt.name", "sgd", "adam"),
        ("argument", "--nproc-per-node", "2", "4"),
    ]


def test_a_short_option_that_a_parser_knows_is_told_once():
    before = run(argv=("python", "t.py", "--batch", "8"), arguments=(Arguments("argparse", "a", {"batch_size": 8}),))
    now = run(argv=("python", "t.py", "--batch", "9"), arguments=(Arguments("argparse", "a", {"batch_size": 9}),))
    assert changes(before, now) == [("argument", "batch_size", "8", "9")]


def test_config_files_as_small_differences():
    before = run(configs=(ConfigFile("c.yaml", "yaml", "lr: 0.1\nsteps: 3\n"), ConfigFile("d.yaml", "yaml", "a: 1\n")))
    now = run(configs=(ConfigFile("c.yaml", "yaml", "lr: 3.0\nsteps: 3\n"), ConfigFile("e.yaml", "yaml", "a: 1\n")))
    found = compare_runs(before, now)
    assert [(c.kind, c.what, c.before, c.now) for c in found] == [
        ("config", "c.yaml", "lr: 0.1", "lr: 3.0"),
        ("config", "e.yaml", "", "read"),
        ("config", "d.yaml", "read", ""),
    ]
    assert found[0].detail.splitlines() == [
        "--- before",
        "+++ now",
        "@@ -1,2 +1,2 @@",
        "-lr: 0.1",
        "+lr: 3.0",
        " steps: 3",
    ]


def test_long_differences_of_config_files_are_cut():
    texts = ["\n".join(f"k{n}: {value}" for n in range(200)) for value in (1, 2)]
    (found,) = compare_runs(*(run(configs=(ConfigFile("c.yaml", "yaml", t),)) for t in texts))
    assert found.now == "+200 -200 lines"
    assert len(found.detail.splitlines()) == 41
    assert found.detail.endswith("more lines)")


def code_run(code, make_context) -> dict:
    return run(captured={"code": capture(make_context(code, "python", "train.py"))})


def test_commits_in_between_with_their_files_and_subjects(code, make_context, git_in):
    before = code_run(code, make_context)
    (code / "train.py").write_text("import sys\n\nlr = 3.0\nsteps = 10\nprint(lr)\nprint(1)\n")
    (code / "new.py").write_text("1\n")
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "raise the rate")
    git_in(code, "commit", "-q", "--allow-empty", "-m", "empty")
    now = code_run(code, make_context)
    found = compare_runs(before, now)
    first = found[0]
    assert (first.what, first.before) == ("commit", before["captured"]["code"]["commit"][:9])
    assert first.detail == "2 commits in between\n- empty\n- raise the rate"
    chinese = translate_change(first, Sentences("zh"))
    assert (chinese.what, chinese.detail) == ("提交", "其间有 2 次提交\n- empty\n- raise the rate")
    assert [(c.what, c.before, c.now) for c in found[1:]] == [
        ("new.py", "", "+1 -0 lines"),
        ("train.py", "", "+2 -1 lines"),
    ]


def test_a_change_that_was_committed_in_between_is_none(code, make_context, git_in):
    (code / "train.py").write_text("lr = 3.0\n")
    (code / "model.py").write_text("net = 1\n")
    before = code_run(code, make_context)
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "as it was")
    now = code_run(code, make_context)
    assert [c.what for c in compare_runs(before, now)] == ["commit"]


def test_uncommitted_changes_are_compared_by_content(code, make_context):
    clean = code_run(code, make_context)
    (code / "train.py").write_text("import sys\n\nlr = 3.0\nsteps = 10\nprint(lr)\n")
    (code / "model.py").write_text("net = 1\n")
    dirty = code_run(code, make_context)
    assert changes(clean, dirty) == [
        ("code", "model.py", "", "new, uncommitted"),
        ("code", "train.py", "as committed", "+1 -1 lines, uncommitted"),
    ]
    assert changes(dirty, dirty) == []
    (code / "train.py").write_text("import sys\n\nlr = 0.5\nsteps = 10\nprint(lr)\n")
    again = code_run(code, make_context)
    assert changes(dirty, again) == [("code", "train.py", "", "changed, uncommitted")]
    first, second = ({**one, "configs": [{"path": "train.py", "text": str(id(one))}]} for one in (dirty, again))
    assert [change[:2] for change in changes(first, second)] == [("config", "train.py")]
    assert changes(dirty, clean)[0] == ("code", "model.py", "new, uncommitted", "")
    assert changes(dirty, clean)[1] == ("code", "train.py", "+1 -1 lines, uncommitted", "as committed")


def test_results_that_a_run_left_beside_the_code_are_no_code(code, make_context):
    before = code_run(code, make_context) | {
        "cwd": str(code),
        "files": [{"path": "out/metrics.json", "mode": "written"}],
    }
    (code / "out").mkdir()
    (code / "out" / "metrics.json").write_text("{}")
    (code / "out" / "other.json").write_text("{}")
    now = code_run(code, make_context) | {"cwd": str(code)}
    assert [c.what for c in compare_runs(before, now)] == ["out/other.json"]


def test_another_branch_says_what_is_missing(code, make_context, git_in):
    git_in(code, "checkout", "-q", "-b", "side")
    (code / "side.py").write_text("1\n")
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "side")
    before = code_run(code, make_context)
    git_in(code, "checkout", "-q", "main")
    now = code_run(code, make_context)
    found = compare_runs(before, now)
    assert found[0].detail == "1 of the earlier run's commits are not in it"
    assert [(c.what, c.before, c.now) for c in found[1:]] == [
        ("branch", "side", "main"),
        ("side.py", "", "+0 -1 lines"),
    ]


def test_a_repository_that_is_gone_still_tells_the_commits(code, make_context, git_in, tmp_path):
    before = code_run(code, make_context)
    git_in(code, "commit", "-q", "--allow-empty", "-m", "x")
    now = code_run(code, make_context)
    code.rename(tmp_path / "moved")
    assert [c.what for c in compare_runs(before, now)] == ["commit"]


def test_code_without_a_repository(tmp_path, make_context):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "train.py").write_text("import a\n")
    (folder / "a.py").write_text("1\n")
    before = code_run(folder, make_context)
    (folder / "a.py").write_text("2\n")
    now = code_run(folder, make_context)
    assert [(c.what, c.now) for c in compare_runs(before, now)] == [("a.py", "changed")]


def test_packages_hardware_environment_and_seeds():
    facts = {
        "python": {
            "version": "3.11.7",
            "packages": {"numpy": "1.26", "old": "1", "labbook": "0.8", "pip": "24"},
            "origins": {name: {"url": "git+https://x/y", "commit": "a" * 40} for name in ("lib", "labbook")},
        },
        "hardware": {"cpu": "A", "cores": 2, "gpus": [{"name": "H200"}, {"name": "H200"}], "memory_bytes": 2**34},
        "container": {"kind": "docker"},
        "command": {"environment": {"CUDA_VISIBLE_DEVICES": "0", "MASTER_PORT": "1", "TORCHINDUCTOR_CACHE_DIR": "a"}},
    }
    other = {
        "python": {
            "version": "3.12.1",
            "packages": {"numpy": "2.0", "new": "3", "labbook": "0.9"},
            "origins": {name: {"url": "git+https://x/y", "commit": "b" * 40} for name in ("lib", "labbook")},
        },
        "hardware": {"cpu": "A", "cores": 4, "gpus": [{"name": "A100"}], "memory_bytes": 2**34},
        "container": {"kind": "docker", "image": "x:2"},
        "command": {"environment": {"CUDA_VISIBLE_DEVICES": "1", "MASTER_PORT": "2"}},
    }
    before = run(
        captured=facts,
        host="a",
        frameworks=(Framework("torch", "2.13", state={"seeds": {"torch": 1}, "device": "cpu"}),),
    )
    now = run(
        captured=other,
        host="a",
        frameworks=(Framework("torch", "2.13", state={"seeds": {"torch": 2}, "device": "cpu"}),),
    )
    assert changes(before, now) == [
        ("environment", "torch seeds.torch", "1", "2"),
        ("environment", "CUDA_VISIBLE_DEVICES", "0", "1"),
        ("package", "python", "3.11.7", "3.12.1"),
        ("package", "numpy", "1.26", "2.0"),
        ("package", "new", "", "3"),
        ("package", "old", "1", ""),
        ("package", "lib (commit)", "aaaaaaaaa", "bbbbbbbbb"),
        ("hardware", "cores", "2", "4"),
        ("hardware", "gpus", "2 x H200", "1 x A100"),
        ("hardware", "container", "docker", "x:2"),
    ]


def test_what_one_run_did_not_observe_is_no_change():
    known = {
        "python": {"version": "3.11", "packages": {"a": "1"}},
        "hardware": {"cpu": "x"},
        "code": {"commit": "a" * 40},
    }
    unknown = {name: {"unavailable": "why"} for name in known}
    assert changes(run(captured=known), run(captured=unknown)) == []
    assert changes(run(captured=unknown), run(captured=known)) == []
    assert changes(run(files=(FileUse("a", "read", 1, "sha256:x"),)), run()) == []


def test_inputs_by_fingerprint():
    before = run(
        files=(
            FileUse("a.csv", "read", 10, "sha256:1111111111"),
            FileUse("same", "read", 1, "sha256:2"),
            FileUse("o", "written", 1),
            FileUse("big", "read", 7, "", 1, "no time left"),
            FileUse("data/", "read", 40, "manifest:3", 20),
        )
    )
    now = run(
        files=(
            FileUse("a.csv", "read", 12, "sha256:4444444444"),
            FileUse("same", "read", 1, "sha256:2"),
            FileUse("o", "read", 2),
            FileUse("big", "read", 7, "sampled:9"),
            FileUse("data/", "read", 42, "manifest:5", 21),
        )
    )
    assert changes(before, now) == [
        ("input", "a.csv", "10 bytes, sha256 11111111", "12 bytes, sha256 44444444"),
        ("input", "data/", "20 files, 40 bytes, manifest 3", "21 files, 42 bytes, manifest 5"),
    ]


def test_a_config_file_is_not_told_twice_as_an_input():
    sides = [
        run(configs=(ConfigFile("/w/c.yaml", "yaml", t),), files=(FileUse("c.yaml", "read", 5, f"sha256:{t}"),))
        for t in "ab"
    ]
    assert [c[0] for c in changes(*sides)] == ["config"]


def test_the_metric_comes_last():
    before = run(status="failed", series=(Series("loss", "probe", (1, 2), (2.0, 1.5)),), primary="loss")
    now = run(
        argv=("python", "train.py", "--lr", "1"),
        series=(Series("loss", "probe", (1, 2), (2.0, math.nan)),),
        primary="loss",
    )
    assert changes(before, now) == [
        ("argument", "--lr", "", "1"),
        ("metric", "status", "failed", "finished"),
        ("metric", "loss (last)", "1.5", "nan"),
    ]


def test_very_many_changes_are_counted():
    sides = [run(captured={"python": {"version": "3", "packages": {f"p{n:03}": v for n in range(100)}}}) for v in "12"]
    found = changes(*sides)
    assert len(found) == 41
    assert found[-1] == ("package", "and 60 more", "", "")


def test_damaged_facts_and_the_missing_command_of_an_imported_run_are_no_change():
    assert changes({}, {}) == []
    broken = {
        "captured": {"code": [], "python": {"packages": None, "version": "3"}},
        "arguments": "x",
        "files": [1],
        "argv": None,
    }
    assert changes(broken, run()) == []
    assert changes(run(argv=()), run(argv=("python", "train.py", "--lr", "0.2"))) == []


def test_masking_keeps_the_messages_of_changes():
    facts = [{"repository": False, "blobs": {"token=hunter2hunter2.py": blob}} for blob in ("1", "2")]
    (change,) = compare_runs(*(run(captured={"code": each}) for each in facts))
    (masked,) = mask_changes([change], Redactor())
    assert (
        masked.messages
        == change.messages
        == {
            "before": message("capture.state.there"),
            "now": message("capture.state.changed"),
        }
    )
    assert "hunter2" in change.what and "hunter2" not in masked.what


def test_a_constant_read_from_a_variable_is_one_change():
    def of(epochs, **environment):
        read = (Arguments("constants", "__main__", {"EPOCHS": epochs}),)
        return run(arguments=read, captured={"command": {"environment": environment}})

    assert changes(of(3), of(6, EPOCHS="6")) == [("argument", "EPOCHS", "3", "6")]


def test_a_variable_that_determines_results_is_one_change():
    def of(**environment):
        state = {"deterministic": {"cudnn.benchmark": False, **environment}}
        return run(
            frameworks=(Framework("torch", "2.4", state=state),), captured={"command": {"environment": environment}}
        )

    assert changes(of(), of(OMP_NUM_THREADS="1")) == [("environment", "OMP_NUM_THREADS", "", "1")]


@pytest.mark.parametrize(
    ("status", "optimizers", "count"), [("failed", (), 0), ("finished", (), 1), ("failed", ({},), 1)]
)
def test_what_a_program_had_no_time_to_set_is_no_difference(status, optimizers, count):
    unset, done = {"cudnn.deterministic": False}, {"cudnn.deterministic": True}
    first = Framework("torch", "2", state={"seeds": {}, "deterministic": unset}, optimizers=optimizers)
    second = Framework("torch", "2", state={"seeds": {"torch": 1, "numpy": None}, "deterministic": done})
    found = [change[1] for change in changes(run(status=status, frameworks=(first,)), run(frameworks=(second,)))]
    assert [what for what in found if what.startswith("torch")] == [
        *["torch seeds.torch"] * count,
        *["torch deterministic.cudnn.deterministic"] * count,
    ]
