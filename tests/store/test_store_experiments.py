from __future__ import annotations

import json
import multiprocessing
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labbook.errors import UsageError
from labbook.model.metric_kinds import MetricGoal
from labbook.store.experiment_creation import new_experiment
from labbook.store.experiment_of_script import choose_experiment, script_mode
from labbook.store.experiments import experiments, metric_goal, slug_part
from labbook.store.notebook_finder import create_notebook, find_notebook
from labbook.store.text import frontmatter

pytestmark = pytest.mark.process


@pytest.fixture
def own(tmp_path):
    return create_notebook(tmp_path / "own")[0]


def page(notebook, slug):
    return frontmatter.parse((notebook.paths.experiments / f"{slug}.md").read_text("utf-8"), slug)


def test_new_experiment_has_a_committed_page(own, git):
    slug = new_experiment(own, "Digits  CNN!", mode="compiled")
    assert slug == "exp001_digits-cnn_compiled"
    meta, body = page(own, slug)
    assert (meta["experiment"], meta["title"], meta["mode"]) == (slug, "Digits CNN!", "compiled")
    assert "script" not in meta
    for heading in ("# Digits CNN", "## Goal", "## Hypothesis", "## Runs", "## Conclusion"):
        assert heading in body
    assert "<!-- labbook:begin runs -->" in body and "<!-- labbook:end runs -->" in body
    assert git(own.paths.root, "log", "-1", "--format=%s") == f"Start {slug}"
    assert git(own.paths.root, "status", "--porcelain") == ""
    assert new_experiment(own, "next") == "exp002_next_dynamic"


def test_chinese_page(own):
    chinese = replace(own, config=replace(own.config, language="zh"))
    slug = new_experiment(chinese, "学习率 扫描（一）")
    assert slug == "exp001_学习率-扫描-一_dynamic"
    assert "## 假设" in page(chinese, slug)[1]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("a\0b\nc", "a-b-c"),
        ("digits_cnn v1.2", "digits-cnn-v1-2"),
        ("ＦＵＬＬ", "full"),
        ("x" * 300, "x" * 40),
        ("\u202eevil", "evil"),
        ("résumé हिन्दी", "résumé-हिन्दी"),
        ("…", ""),
    ],
)
def test_slugs_are_safe_file_names(name, part):
    assert slug_part(name) == part
    assert len(slug_part("𠜎" * 200).encode()) <= 160


@pytest.mark.parametrize(("name", "mode"), [("", "dynamic"), ("!!", "dynamic"), ("x", "eager")])
def test_names_without_usable_characters_are_rejected(own, name, mode):
    with pytest.raises(UsageError):
        new_experiment(own, name, mode=mode)


def test_hostile_title_stays_a_title(own):
    slug = new_experiment(own, "x\n---\nscript: evil\n# <script>alert(1)</script>")
    meta, body = page(own, slug)
    assert "script" not in meta
    assert "<script>" not in body


def test_runs_of_one_script_share_one(own):
    first = choose_experiment(own, "models/cnn/train.py")
    assert first == "exp001_cnn-train_dynamic"
    assert choose_experiment(own, "models/cnn/train.py") == first
    assert choose_experiment(own, "models/mlp/train.py") == "exp002_mlp-train_dynamic"
    assert choose_experiment(own, "train.py") == "exp003_train_dynamic"
    assert choose_experiment(own, "") == "exp004_scratch_dynamic"
    assert choose_experiment(own, "") == "exp004_scratch_dynamic"
    assert choose_experiment(own, "train.py", project="digits") == "exp005_digits-train_dynamic"
    assert choose_experiment(own, "train.py", project="digits") == "exp005_digits-train_dynamic"
    assert len(experiments(own)) == 5


def test_a_mistyped_script_starts_no_experiment(own):
    assert choose_experiment(own, "nope.py", mode="") == ""
    assert experiments(own) == []
    first = choose_experiment(own, "train.py")
    assert choose_experiment(own, "train.py", mode="") == first
    assert choose_experiment(own, "nope.py", "exp001", mode="") == first


def test_a_new_experiment_takes_over_the_runs_of_its_script(own):
    choose_experiment(own, "train.py")
    newer = new_experiment(own, "wider net", script="train.py")
    assert choose_experiment(own, "train.py") == newer


def test_a_broken_page_does_not_stop_recording(own):
    slug = choose_experiment(own, "train.py")
    (own.paths.experiments / "exp007_broken_dynamic.md").write_text("---\nscript: train.py\n  : [\n---\n")
    assert choose_experiment(own, "train.py") == slug
    assert choose_experiment(own, "other.py") == "exp008_other_dynamic"


def test_chosen_by_slug_number_or_words(own):
    cnn, mlp = new_experiment(own, "digits cnn"), new_experiment(own, "digits mlp")
    for chosen in (cnn, "1", "exp001", "exp1", "digits cnn", "CNN"):
        assert choose_experiment(own, "train.py", chosen) == cnn
    with pytest.raises(UsageError) as several:
        choose_experiment(own, "train.py", "digits")
    assert cnn in several.value.hint and mlp in several.value.hint
    with pytest.raises(UsageError) as mistyped:
        choose_experiment(own, "train.py", "exp001_digits-cnm_dynamic")
    assert f"did you mean {cnn}?" in mistyped.value.hint
    assert len(experiments(own)) == 2


def _new(root, number):
    return new_experiment(find_notebook(Path(root), environ={}), f"n{number % 3}")


def _choose(root, script):
    return choose_experiment(find_notebook(Path(root), environ={}), script)


def test_concurrent_experiments_get_different_numbers(own, git):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        made = pool.starmap(_new, [(str(own.paths.root), n) for n in range(12)])
        chosen = pool.starmap(_choose, [(str(own.paths.root), "train.py")] * 12)
    assert sorted(slug[3:6] for slug in made) == [f"{n:03d}" for n in range(1, 13)]
    assert len(set(chosen)) == 1
    assert git(own.paths.root, "status", "--porcelain") == ""
    assert git(own.paths.root, "rev-list", "--count", "HEAD") == "14"


def test_train_py_of_two_projects_is_two_experiments(own):
    nano = choose_experiment(own, "train.py", project="nanoGPT", root="github.com/k/nanoGPT")
    timm = choose_experiment(own, "train.py", project="timm", root="github.com/r/timm")
    again = choose_experiment(own, "train.py", project="timm", root="/elsewhere/timm")

    assert (nano, timm, again) == ("exp001_train_dynamic", "exp002_timm-train_dynamic", "exp003_timm-train_dynamic")
    assert page(own, timm)[0]["root"] == "github.com/r/timm"
    assert choose_experiment(own, "train.py", project="nanoGPT", root="github.com/k/nanoGPT") == nano
    assert choose_experiment(own, "train.py") == "exp004_train_dynamic"


@pytest.mark.parametrize(
    "facts", [{"project": "/a/nano"}, {"cwd": "/a/nano"}, {"captured": {"code": {"top": "/a/nano"}}}]
)
def test_an_experiment_of_before_stays_with_the_project_of_its_newest_run(own, facts):
    slug = choose_experiment(own, "train.py")
    run = "20261121-100000-aaaa"
    folder = own.paths.attachments(run)
    folder.mkdir(parents=True)
    own.paths.entry(run).write_text("x")
    (folder / "run.json").write_text(json.dumps({"id": run, "experiment": slug, **facts}))

    assert choose_experiment(own, "train.py", project="nano", root="/a/nano") == slug
    assert choose_experiment(own, "train.py", project="timm", root="/b/timm") == "exp002_timm-train_dynamic"
    assert choose_experiment(own, "train.py", project="nano", root="/a/nano") == slug


def test_the_metric_of_an_experiment_comes_before_that_of_the_notebook(own):
    own = replace(own, config=replace(own.config, metric="val_loss", direction="min"))
    slug = new_experiment(own, "gap", commit=False)
    assert metric_goal(own, slug) == metric_goal(own, "") == metric_goal(own, "none") == MetricGoal("val_loss", "min")
    path = own.paths.experiments / f"{slug}.md"
    for lines, goal in (
        ("metric: val_gap\ndirection: max", MetricGoal("val_gap", "max")),
        ('metric: "val/gap"', MetricGoal("val/gap", "")),
        ("metric: val_loss", MetricGoal("val_loss", "min")),
        ("direction: max", MetricGoal("val_loss", "max")),
        ("metric:\ndirection: sideways", MetricGoal("val_loss", "min")),
    ):
        path.write_text(f"---\nexperiment: {slug}\n{lines}\n---\n# gap\nmetric: no\n", "utf-8")
        assert metric_goal(own, slug) == goal


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("import paddle\npaddle.enable_static()\n", "static"),
        ("def main():\n    paddle.enable_static ()\n", "static"),
        ("# paddle.enable_static()\n", "dynamic"),
        ("if args.static:\n    paddle.enable_static()\nelse:\n    paddle.disable_static()\n", "unknown"),
        ("@paddle.jit.to_static(full_graph=True)\ndef forward(self, x):\n", "unknown"),
        ("if args.fast:\n    model = torch.compile(model)\n", "unknown"),
        ("TrainingArguments(torch_compile=True)\n", "unknown"),
        ("pattern = re.compile('x')\n# model = torch.compile(model)\n", "dynamic"),
    ],
)
def test_an_experiment_is_called_static_after_its_script(tmp_path, text, mode):
    script = tmp_path / "train.py"
    script.write_text(text)
    assert script_mode(script) == mode
    assert script_mode(None) == "unknown"


def test_a_module_beside_the_script_may_set_the_mode_and_then_the_name_leaves_it_out(own, tmp_path):
    script, net = tmp_path / "app" / "train.py", tmp_path / "app" / "models" / "net.py"
    net.parent.mkdir(parents=True)
    script.write_text("from models.net import Net\n")
    (net.parent / "__init__.py").write_text("")
    net.write_text("import paddle\n")
    assert script_mode(script) == "dynamic"
    net.write_text("forward = paddle.jit.to_static(forward)\n")
    assert script_mode(script) == "unknown"
    slug = choose_experiment(own, "app/train.py", mode=script_mode(script))
    assert slug == "exp001_app-train" and "mode:" not in (own.paths.experiments / f"{slug}.md").read_text("utf-8")
    assert choose_experiment(own, "app/train.py", mode="dynamic") == slug


def test_a_static_script_below_the_folder_of_the_code_names_its_experiment(project):
    folder = project.folder / "sub"
    folder.mkdir()
    (folder / "net.py").write_text("def build():\n    import paddle\n    paddle.enable_static()\n")
    project.record(sys.executable, "net.py", cwd=folder)
    assert project.run()["experiment"].endswith("_sub-net_static")
