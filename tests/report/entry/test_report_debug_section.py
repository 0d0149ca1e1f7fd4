"""The tables for debugging, in an entry, and the picture of the gradient flow."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET

import pytest

from labbook.model.run import CheckResult
from labbook.model.series import Series
from labbook.model.signals import Signals
from labbook.report.entry.entry_page import entry_markdown
from labbook.report.gradient_flow_svg import flow_svg, is_worth_drawing

LOOK = {"shape": "8x4", "dtype": "float32", "low": -1.0, "high": 1.5, "mean": 0.1, "std": 0.4, "bad": 0, "zero": 0.5}
HEALTH = {
    "models": [
        {
            "root": "Net",
            "number": 1,
            "left_out": 3,
            "rows": [
                {"name": "", "type": "Net", "depth": 0, "input": "8x3", "output": "8x2", "parameters": 0},
                {"name": "body|x", "type": "Linear", "depth": 1, "input": "8x3", "output": "8x4", "parameters": 1200,
                 "trainable": 1200},
                {"name": "head", "type": "Linear", "depth": 1, "input": "8x4", "output": "8x2", "parameters": 10,
                 "trainable": 0},
            ],
        }
    ],
    "batches": [
        {"phase": "train", "step": 1, "leaf": "0", "role": "input", **LOOK},
        {"phase": "eval", "step": 40, "leaf": "target", "role": "label", **LOOK, "classes": 10, "bad": 2},
    ],
    "loaders": [{"dataset": "Digits", "length": 1347, "batch_size": 64, "workers": 2, "shuffle": True}] * 3,
    "layers": {"steps": [1, 40], "left_out": 0, "rows": [{"name": "head", "type": "Linear", "looks": [LOOK, {}]}]},
    "weights": {
        "step": 40,
        "left_out": 1,
        "rows": [{"name": "head.weight", "shape": "2x4", "trainable": False, "weight": 2.0, "gradient": None,
                  "update": 0.01, "zero": 0.0, "bad": 1}],
    },
    "phases": {"data": 0.001, "forward": 0.002, "backward": 0.006, "optimizer": 0.001},
    "flow": [{"name": f"layer{i}.weight", "gradient": 10.0**-i, "update": 10.0 ** -(i + 2)} for i in range(5)],
}  # fmt: skip
FAILED = CheckResult("vanishing_gradient", "gradients reach the first layers", "", "", "fail", family="gradient")


def with_health(run, **changes):
    return dataclasses.replace(run, health=HEALTH, **changes)


def page(runs, notebook):
    return entry_markdown(with_health(runs["finished"]()), notebook)


def test_the_model_is_a_table_of_modules(runs, notebook):
    text = page(runs, notebook)

    assert "| module | type | input → output | parameters |" in text
    assert "| body&#124;x | Linear | 8x3 → 8x4 | 1,200 |" in text or "| body\\|x | Linear | 8x3 → 8x4 | 1,200 |" in text
    assert "| head | Linear | 8x4 → 8x2 | 10 (0) |" in text
    assert "and 3 more modules" in text


def test_every_model_is_in_the_table(runs, notebook):
    critic = {
        "root": "Critic",
        "left_out": 1,
        "rows": [{"name": "", "type": "Critic", "depth": 0, "parameters": 0}],
    }
    health = {**HEALTH, "models": [*HEALTH["models"], critic]}
    text = entry_markdown(dataclasses.replace(runs["finished"](), health=health), notebook)

    assert "| (root) | Net | 8x3 → 8x2 |  |" in text and "| (root) | Critic |  |  |" in text
    assert "and 4 more modules" in text


@pytest.mark.parametrize(
    ("variables", "names"),
    [(("G", "D"), ("G", "G.0", "D", "D.0")), (("", ""), ("(root) (model 1)", "0", "(root) (model 2)", "0"))],
)
def test_models_of_one_class_have_names_or_numbers(runs, notebook, variables, names):
    rows = [{"name": "", "type": "Sequential", "depth": 0}, {"name": "0", "type": "Linear", "depth": 1}]
    models = [{"root": "Sequential", "variable": v, "model": at, "rows": rows} for at, v in enumerate(variables)]
    models[1] = {**models[1], "rows": [rows[0], {**rows[1], "parameters": 9, "trainable": 9, "tied": [0, "0"]}]}
    weights = {"step": 1, "rows": [{"name": "0.weight", "model": at} for at in (0, 1)]}
    layers = {"steps": [1], "rows": [{"name": "0", "type": "Linear", "looks": [{}]}]}
    health = {**HEALTH, "models": models, "weights": weights, "layers": layers}
    text = entry_markdown(dataclasses.replace(runs["finished"](), health=health), notebook)

    assert all(f"| {name} | {'Linear' if '0' in name else 'Sequential'} |" in text for name in names)
    assert text.count(f"| {names[1]} | Linear |") > 1, "in the table of modules and in that of layer outputs"
    assert f"| 9, shared with {names[1]} |" in text and f"| {names[3]}.weight (" in text
    assert variables[0] or "| 0.weight (model 1) (" in text


def test_batches_and_loaders(runs, notebook):
    text = page(runs, notebook)

    assert "## Data" in text
    assert "| training, step 1 | input 0 | 8x4 | float32 | -1 to 1.5 | 0.1 / 0.4 |  |" in text
    assert "| 10 distinct, **2 not finite** |" in text
    # One that is made anew for each epoch is listed once; those of other data that lived beside it are counted.
    assert text.count("- DataLoader over Digits: 1,347 samples, batch size 64, 2 workers, shuffled") == 1
    loader = HEALTH["loaders"][0]
    health = {**HEALTH, "loaders": [loader, {**loader, "alike": 1}, loader]}
    text = entry_markdown(dataclasses.replace(runs["finished"](), health=health), notebook)
    assert text.count("- 2 DataLoaders over Digits, each: 1,347 samples") == text.count("over Digits") == 1


@pytest.mark.parametrize(
    ("sampler", "shuffle", "order"),
    [
        ("RandomSampler", True, "shuffled"),
        ("SequentialSampler", False, "in order"),
        ("_InfiniteConstantSampler", False, "in the order that the dataset gives"),  # of an iterable dataset
        ("", True, "shuffled"),
        ("SequenceSampler", True, "samples chosen by SequenceSampler"),  # one of the program: it may do either
        ("WeightedRandomSampler", True, "samples chosen by WeightedRandomSampler"),  # rare classes more often
    ],
)
def test_the_order_of_a_sampler_of_the_program_is_not_known(runs, notebook, sampler, shuffle, order):
    iterable = sampler == "_InfiniteConstantSampler"
    loaders = [{"dataset": "Digits", "workers": 1, "shuffle": shuffle, "sampler": sampler, "iterable": iterable}]
    run = with_health(runs["finished"]())
    text = entry_markdown(dataclasses.replace(run, health={**run.health, "loaders": loaders}), notebook)
    assert f"- DataLoader over Digits: 1 worker, {order}\n" in text


@pytest.mark.parametrize(
    ("book", "shown"),
    [("notebook", "300 of 600 samples for each of 2 ranks"), ("notebook_zh", "共 600 个样本，2 个 rank 每个 300 个")],
)
def test_a_sampler_gives_each_rank_a_share(runs, request, book, shown):
    loaders = [{"dataset": "Digits", "length": 600, "share": 300, "ranks": 2, "workers": 1, "shuffle": True}]
    run = dataclasses.replace(runs["finished"](), health={**HEALTH, "loaders": loaders})
    assert shown in entry_markdown(run, request.getfixturevalue(book))


def test_layers_and_parameters(runs, notebook):
    text = page(runs, notebook)

    assert "Layer outputs at step 1 and step 40" in text
    assert "| head | Linear | -1 to 1.5 | 0.1 / 0.4 | 50 % |  |  |  |" in text
    assert "Parameters of the optimizer at step 40" in text
    assert "| head.weight (frozen) | 2x4 | 2 **1 not finite** |  | 0.01 |  |" in text
    assert "and 1 more parameter in run.json" in text


def test_where_the_time_of_a_step_goes(runs, notebook):
    seen = "backward 60 %, forward 20 %, optimizer 10 %, waiting for data 10 %"
    assert f"| time per step | {seen} |" in page(runs, notebook)


def test_in_chinese(runs, notebook_zh):
    text = entry_markdown(with_health(runs["finished"]()), notebook_zh)

    for heading in ("## 数据", "## 调试输出", "各层的输出，第 1 步与第 40 步", "| 每步时间构成 | 反向 60 %"):
        assert heading in text


def test_the_gradient_flow_is_drawn_for_flagged_runs_only(runs, notebook):
    run = runs["finished"]()
    fine = with_health(run, checks=())
    bad = with_health(run, checks=(FAILED,))

    assert not is_worth_drawing(fine) and is_worth_drawing(bad)
    assert not is_worth_drawing(dataclasses.replace(bad, health={}))
    assert not is_worth_drawing(with_health(run, checks=(dataclasses.replace(FAILED, family="data"),)))
    picture = flow_svg(bad)
    root = ET.fromstring(picture)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "layer0.weight" in words and "layer4.weight" in words and "gradient norm" in words
    assert f"]({run.id}/flow.svg)" in entry_markdown(bad, notebook)
    assert "flow.svg" not in entry_markdown(fine, notebook)


def test_facts_of_another_form_cost_nothing(runs, notebook):
    odd = {"models": 3, "batches": ["x"], "layers": [1], "weights": None, "flow": {"a": 1}, "phases": {"data": "x"}}
    text = entry_markdown(dataclasses.replace(runs["finished"](), health=odd), notebook)

    assert "## Debug output" not in text and "could not be written" not in text


def test_a_module_has_the_parameters_of_all_in_it(runs, notebook):
    rows = [
        {
            "name": "",
            "type": "Net",
            "depth": 0,
            "parameters": 2,
            "trainable": 2,
            "total": 1212,
            "total_trainable": 1202,
        },
        {"name": "body", "type": "Sequential", "depth": 1, "parameters": 0, "total": 1210, "total_trainable": 1200},
    ]
    run = dataclasses.replace(runs["finished"](), health={"models": [{"root": "Net", "rows": rows}]})
    text = entry_markdown(run, notebook)

    assert "| (root) | Net |  | 1,212 (1,202) |" in text
    assert "| body | Sequential |  | 1,210 (1,200) |" in text


@pytest.mark.parametrize(("source", "is_explained"), [("paddle", True), ("text", False)])
def test_the_loss_of_an_evaluation_of_paddle_differs_from_the_one_it_prints(runs, notebook, source, is_explained):
    run = runs["finished"]()
    loss = Series.of_values("val/loss", source, (1, 2), (0.5, 0.4), axis="number")
    text = entry_markdown(dataclasses.replace(run, series=(*run.series, loss)), notebook)
    assert ("are means over all samples" in text) == is_explained


def test_ranges_and_punctuation_are_in_the_language(runs, notebook_zh):
    text = entry_markdown(with_health(runs["finished"]()), notebook_zh)

    assert "| -1 到 1.5 |" in text and " to 1.5" not in text
    assert "训练，第 1 步" in text


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({"optimizers": ({"options": {"grad_clip": "ClipGradByGlobalNorm 5.0"}},)}, "probe, before clipping"),
        ({"loop": {"clip": {"calls": 9}, "clipped_norms": {"0": {"before": 9, "after": 0}}}}, "probe, before clipping"),
        ({"loop": {"clip": {"calls": 9}, "clipped_norms": {"0": {"before": 7, "after": 2}}}}, "probe"),
        ({"loop": {"clip": {"calls": 9}, "clipped_norms": {"0": {"after": 3}}}}, "probe, after clipping"),
        ({"loop": {"clip": {"calls": 9}, "clipped_norms": {"1": {"before": 9}}}}, "probe"),  # of another optimizer
        ({"loop": {"clip": {"calls": 0, "kind": None}}}, "probe"),
    ],
)
def test_the_norm_of_gradients_is_that_before_or_after_clipping(runs, notebook, facts, shown):
    series = Series(name="grad_norm", source="probe", steps=(1, 2, 3), values=(9.0, 8.0, 7.0), count=3)
    run = dataclasses.replace(runs["finished"](), series=(series,), signals=(Signals("paddle", **facts),))
    weights = {"step": 3, "rows": [{"name": "0.weight", "weight": 2.0, "gradient": 0.5}]}
    page = entry_markdown(dataclasses.replace(run, health={"weights": weights}), notebook)
    (row,) = [line for line in page.splitlines() if line.startswith("| grad_norm |")]
    assert row.endswith(f"| 3 | {shown} |")
    is_called = bool(run.signals[0].loop.get("clip", {}).get("calls"))
    assert ("| gradient norm after clipping |" in page) == is_called, "in PaddlePaddle the optimizer clips later"
