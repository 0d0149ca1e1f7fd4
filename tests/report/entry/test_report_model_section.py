"""The section of the model says what was seen of it."""

from dataclasses import replace

import pytest

from labbook.model.run import Arguments, Framework, Run
from labbook.model.run_files import FileUse
from labbook.model.series import Series
from labbook.model.signals import Signals
from labbook.report.entry.entry_page import entry_markdown
from labbook.report.entry.model_section import model_section
from labbook.report.entry.section_limits import Limits


def rows_of(*optimizers, captured=None, called=(), signals=(), **state):
    framework = Framework("paddle", "3.3.1", state={"device": ["cpu"], **state}, optimizers=optimizers)
    fields = {"captured": captured or {}, "health": {"models": called}, "signals": signals}
    run = Run("i", "finished", (), "", 0.0, frameworks=(framework,), **fields)
    return {row["what"]: f"{row['value']}{row.get('models') or ''}" for row in model_section(run, Limits())["rows"]}


def test_parameters_are_counted_only_where_the_optimizer_holds_some():
    assert rows_of(parameters=387, trainable=387).keys() == {"parameters", "device"}
    assert rows_of(parameters=0, trainable=0).keys() == {"device"}


def test_running_statistics_are_not_counted_and_no_model_is_named_for_another_framework():
    """PaddlePaddle has the statistics among the parameters; PyTorch was only imported, as by PARL."""
    state = {"model": "Net", "parameters": 10, "trainable": 10, "statistics": 4}
    frameworks = (Framework("paddle", "3.3.1", state=state), Framework("torch", "2.13", state={"device": ["cpu"]}))
    health = {"models": [{"root": "Net", "parameters": 10, "trainable": 10}]}
    rows = model_section(Run("i", "finished", (), "", 0.0, frameworks=frameworks, health=health), Limits())["rows"]
    assert [row["value"] for row in rows if row["what"] == "model"] == ["Net (paddle)"]
    assert [(row["value"], row["statistics"]) for row in rows if row["what"] == "parameters"] == [("10", "4")]


def test_a_model_that_is_gone_when_the_program_ends_is_that_which_was_called():
    """The local copies of federated averaging, each with a phase and an optimizer of its own."""
    called = [{"root": "Sequential", "parameters": 451, "trainable": 451}]
    sgd = [{"type": "SGD", "parameters": 451, "trains": number} for number in range(4)]
    rows = rows_of(*sgd, captured={"phases": {"count": 4}}, called=called, parameters=451, trainable=451)
    assert rows["model"].startswith("Sequential")


def test_a_model_of_which_only_parts_are_called_has_its_own_name():
    """An agent whose `act` calls actor and critic; beside it, two networks of no common model."""
    called = [{"root": "Sequential", "variable": name, "parameters": 5, "trainable": 5} for name in ("actor", "critic")]
    held = [{**model, "holder": "Agent"} for model in called]
    assert rows_of(called=held, model="Sequential", parameters=11, trainable=11)["model"] == "Agent (actor, critic)"
    rows = rows_of(called=called, model="Sequential", parameters=10, trainable=10)
    assert rows["model"] == "actor (Sequential), critic (Sequential)"


def test_of_models_of_several_sizes_the_last_one_counts():
    """A grid search makes many; the first one is still there at the end."""
    grid = [
        {"type": "SGD", "root": "Net", "parameters": n, "trainable": n, "trains": at} for at, n in enumerate((342, 882))
    ]
    rows = rows_of(*grid, captured={"phases": {"count": 2}}, model="Net", parameters=342, trainable=342)
    assert (rows["model"], rows["parameters"]) == ("Net2", "882")


def test_an_optimizer_whose_parameters_are_not_known_is_not_mentioned():
    framework = Framework("paddle", "3.3.1", state={"parameters": 0, "trainable": 0})
    called = [{"root": "Program", "parameters": 387, "trainable": 387}]
    run = Run("i", "finished", (), "", 0.0, frameworks=(framework,), health={"models": called})
    (row,) = [row for row in model_section(run, Limits())["rows"] if row["what"] == "parameters"]
    assert (row["value"], row["optimized"]) == ("387", "")


def test_parameters_that_an_optimizer_has_of_a_head_that_was_replaced_do_not_count():
    stale = Signals("paddle", loop={"stale": {"0": {"tensors": 2, "elements": 65000}}})
    assert rows_of(parameters=66556, trainable=66556, signals=(stale,))["parameters"] == "1,556"
    assert rows_of(parameters=387, trainable=387, signals=(stale,))["parameters"] == "387"  # of a model that was copied


@pytest.mark.parametrize(
    ("clip", "shown"),
    [
        (
            {"calls": 9, "read": 9, "clipped": 4, "limit": 1.0, "kind": "norm"},
            "norm at most 1, exceeded by 4 of 9 gradients",
        ),
        ({"calls": 9, "read": 5, "clipped": 4, "limit": 1.0, "kind": "norm"}, "norm at most 1"),
        (
            {"calls": 9, "read": 9, "clipped": 4, "limit": 2.0, "changed": 3},
            "norm, with varying limits, exceeded by 4 of 9 gradients",
        ),
        ({"calls": 9, "read": 9, "clipped": 4, "limit": 0.5, "kind": "value"}, "each value at most 0.5"),
        ({"calls": 0}, None),
    ],
)
def test_how_often_clipping_acted_is_said_where_each_norm_was_read(runs, notebook, clip, shown):
    run = replace(runs["finished"](), signals=(Signals("torch", loop={"clip": clip}),))
    rows = [line for line in entry_markdown(run, notebook).splitlines() if line.startswith("| gradient clipping |")]
    assert rows == ([] if shown is None else [f"| gradient clipping | {shown} |"])


def test_norms_above_the_limit_of_an_optimizer_are_counted_if_each_step_has_one(runs, notebook):
    """In PaddlePaddle the optimizer clips, after its gradients were measured."""
    signals = Signals("paddle", optimizers=({"options": {"grad_clip": "ClipGradByGlobalNorm 5.0"}},))
    norms = Series(
        name="grad_norm", source="probe", steps=tuple(range(1, 241)), values=(9.0,) * 2 + (0.5,) * 238, count=240
    )
    run = replace(runs["finished"](), signals=(signals,), series=(norms,))
    assert "| gradient clipping | norm at most 5, exceeded by 2 of 240 gradients |" in entry_markdown(run, notebook)
    assert "| gradient clipping |" not in entry_markdown(replace(run, series=(replace(norms, count=900),)), notebook)


@pytest.mark.parametrize("captured", [{}, {"phases": {"count": 2}}])
def test_with_parameters_of_a_head_that_was_replaced_the_model_is_the_one_called_last(captured):
    stale = Signals("torch", loop={"stale": {"1": {"tensors": 2, "elements": 165}}})
    called = [{"root": "Net", "parameters": 9093, "trainable": n} for n in (9093, 4293)]
    adam = {"type": "Adam", "root": "Net", "parameters": 9093, "trains": 0}
    optimizers = (adam, {**adam, "parameters": 4293, "trains": 1})
    fields = {"captured": captured, "called": called, "signals": (stale,)}
    rows = rows_of(*optimizers, **fields, model="Linear", parameters=4293, trainable=4293)
    assert rows["model"].startswith("Net") and rows["parameters"].startswith("9,093")


def test_rates_of_groups_that_differ_are_all_shown():
    facts = {"type": "SGD", "options": {"lr": 0.001, "momentum": 0.9}, "groups": [{"lr": 0.001}, {"lr": 0.02}]}
    framework = Framework("torch", "2.13", optimizers=(facts,))
    (row,) = model_section(Run("i", "finished", (), "", 0.0, frameworks=(framework,)), Limits())["optimizers"]
    assert row["options"] == "lr 0.001 / 0.02, momentum 0.9"


def test_parameters_of_all_phases_are_added_up_and_a_model_that_two_train_counts_once():
    facts = {"type": "Adam", "parameters": 100, "trainable": 100}
    two = ({**facts, "trains": 0, "root": "Net"}, {**facts, "trains": 1}, {**facts, "trains": 1, "root": "Probe"})
    state = {"model": "Probe", "parameters": 100, "trainable": 100}
    assert rows_of(*two, **state)["parameters"] == "100"
    rows = rows_of(*two, captured={"phases": {"count": 3}}, **state)
    assert (rows["model"], rows["parameters"]) == ("Net, Probe", "200")
    rows = rows_of(*({**each, "root": "Net"} for each in two), captured={"phases": {"count": 2}}, **state)
    assert (rows["model"], rows["parameters"]) == ("Probe2", "100")  # the last of 2: pruned, or made anew
    shared = ({**two[0]}, {**two[2], "trainable": 10, "shared": (90, 0)})
    rows = rows_of(*shared, captured={"phases": {"count": 2}}, **state)
    assert rows["parameters"] == "110", "a frozen encoder below a probe"


@pytest.mark.parametrize(
    ("optimizers", "fields"),
    [
        ((), {"signals": (Signals("paddle", loop={"toggled": ["0.weight"], "toggled_n": 1}),)}),
        (({"trains": 0, "trainable": 9}, {"trains": 0, "trainable": 90}), {"captured": {"phases": {"count": 2}}}),
    ],
)
def test_how_much_is_trainable_is_not_said_where_layers_are_set_free_later_on(optimizers, fields):
    framework = Framework("paddle", "3", state={"parameters": 90, "trainable": 9}, optimizers=optimizers)
    run = Run("i", "finished", (), "", 0.0, frameworks=(framework,), **fields)
    (row,) = model_section(run, Limits())["rows"]
    assert (row["value"], row["trainable"], row["all"]) == ("90", "", False)


def test_parameters_of_trainings_that_differ_in_them_are_in_their_table_only():
    trainings = {"trainings": {"rows": [{"params": {"parameters": size}} for size in (9, 90)]}}
    assert "parameters" not in rows_of(parameters=90, trainable=90, captured=trainings)


def test_the_model_is_that_of_a_loss_which_is_called():
    part = {"name": "model", "type": "Encoder", "depth": 1, "total": 100}
    noise = {"name": "likelihood", "type": "Likelihood", "depth": 1, "total": 1}
    loss = {"root": "RankingLoss", "parameters": 100, "rows": [{"output": "scalar", "depth": 0}, part]}
    for called, name in (
        ((loss,), "Encoder"),
        (({**loss, "root": "Diffusion"},), "RankingLoss"),
        (({**loss, "rows": loss["rows"] + [part]},), "Encoder"),
        (({**loss, "rows": [{"output": "8x2", "depth": 0}, part]},), "RankingLoss"),
        (({**loss, "root": "LogLikelihood", "rows": [loss["rows"][0], noise, part]},), "Encoder"),
        (({**loss, "root": "MarginalLogLikelihood"}, {"root": "Process", "parameters": 100}), "Process"),
    ):
        assert rows_of(called=called, model="RankingLoss", parameters=100, trainable=100)["model"] == name


@pytest.mark.parametrize(
    ("called", "named"),
    [
        ([("GPModel", 11103)], "GPModel"),  # the loss holds it, and a likelihood
        ([("Net", 11104), ("Net", 11104)], "Net"),
        ([("Encoder", 6000)], "VariationalELBO"),  # a part of it is called by itself
        ([("Encoder", 11104), ("Decoder", 11104)], "VariationalELBO"),
        ([("LSTM", 11100), ("Linear", 4)], "LSTM, Linear"),  # one after the other, without a model around them
        ([("LSTM", 5000), ("Linear", 4), ("Linear", 6100)], "a (LSTM), b (Linear), c (Linear)"),
        ([("VariationalELBO", 11000)], "VariationalELBO, …"),
        ([("VariationalELBO", 11103)], "VariationalELBO"),
        ([], "VariationalELBO"),
    ],
)
def test_the_model_is_the_one_that_is_called(called, named):
    models = [{"root": root, "parameters": size, "variable": v} for v, (root, size) in zip("abc", called, strict=False)]
    assert rows_of(called=models, model="VariationalELBO", parameters=11104, trainable=11104)["model"] == named


@pytest.mark.parametrize(("sizes", "named"), [((1872, 2127), "Enc, Dec"), ((3999, 3999), "Dec")])
def test_models_that_one_optimizer_trains_are_all_named(sizes, named):
    """But not the target network beside the one that is trained."""
    models = [{"root": r, "parameters": n, "trainable": n} for r, n in zip(("Enc", "Dec"), sizes, strict=True)]
    assert rows_of(called=models, model="Dec", parameters=3999, trainable=3999)["model"] == named


@pytest.mark.parametrize("captured", [{}, {"phases": {"series": "loss.opt1"}}])
def test_models_of_one_class_that_are_all_counted_have_their_variables(captured):
    models = [
        {"root": "MLP", "parameters": n, "trainable": n, "variable": v} for v, n in (("teacher", 90), ("net", 10))
    ]
    optimizers = [{"trains": at, "root": "MLP", "parameters": n, "trainable": n} for at, n in enumerate((90, 10))]
    found = rows_of(*optimizers, captured=captured, called=models, model="MLP", parameters=100, trainable=100)
    assert (found["model"], found["parameters"]) == ("teacher (MLP), net (MLP)", "100")
    pruned = rows_of(*optimizers, captured={"phases": {}, **captured}, called=models, model="MLP", parameters=10)
    assert pruned["model"] == ("MLP2" if captured else "MLP")  # the one before is gone


def test_the_factors_of_parameter_groups_are_no_learning_rates():
    groups = [{"learning_rate": 0.1, "tensors": 2}, {"tensors": 2}]
    facts = {"type": "Momentum", "options": {"learning_rate": 0.05}, "groups": groups}
    framework = Framework("paddle", "3", optimizers=(facts,))
    (row,) = model_section(Run("i", "finished", (), "", 0.0, frameworks=(framework,)), Limits())["optimizers"]
    assert row["options"] == "learning_rate 0.05"


def test_a_backbone_in_no_optimizer_counts_as_a_part_of_the_model():
    called = [{"root": "Net", "parameters": 5829, "trainable": 5829}]
    state = Framework("torch", "2", state={"model": "Linear", "parameters": 325, "trainable": 325})
    run = Run("i", "finished", (), "", 0.0, frameworks=(state,), health={"models": called})
    rows = {row["what"]: row for row in model_section(run, Limits())["rows"]}
    assert rows["model"]["value"] == "Net" and rows["parameters"]["value"] == "5,829"
    assert rows["parameters"]["optimized"] == "325" and rows["parameters"]["all"]


def test_a_state_that_is_loaded_before_the_training_is_listed():
    model = {"what": "model", "type": "Net", "matched": 9, "keys": 9, "line": "t.py:23"}
    events = (model, {"what": "optimizer", "type": "SGD", "matched": 6, "line": "t.py:24"}, {**model, "step": 40})
    run = Run("i", "finished", (), "", 0.0, signals=(Signals("torch", loaded=events),))
    assert model_section(run, Limits()) is None  # the state of another model
    run = replace(run, files=(FileUse("last.pt", "read", 9),))
    assert model_section(run, Limits())["rows"] == [{"what": "loaded", "value": "Net (t.py:23), SGD (t.py:24)"}]


def test_mixed_precision_is_named():
    assert rows_of(amp=None).keys() == {"device"}
    casts = [{"device": "cpu", "dtype": "bfloat16"}, {"level": "O1", "dtype": "float16"}]
    assert rows_of(amp=casts)["amp"] == "bfloat16 (cpu), float16 (O1)"


def test_optimizers_of_trainings_that_differ_in_what_the_table_lists_are_one_row():
    def optimizer(lr, elements):
        return {"type": "Adam", "options": {"lr": lr}, "groups": [{"elements": elements}]}

    framework = Framework("torch", "2", optimizers=tuple(optimizer(0.1 * n, 100 + n) for n in range(1, 5)))
    for params, rows in (({"lr": 0.1}, 1), ({}, 4)):
        captured = {"trainings": {"rows": [{"params": params}]}}
        run = Run("i", "finished", (), "", 0.0, frameworks=(framework,), captured=captured)
        assert len(model_section(run, Limits())["optimizers"]) == rows


@pytest.mark.parametrize(
    ("scheduler", "groups", "shown"),
    [
        ({}, {}, "lr 0.1, betas (0.9, 0.99)"),
        ({"type": "StepLR", "options": {"base_lrs": [0.1]}}, {}, "lr 0.1, betas (0.9, 0.99), schedule StepLR"),
        (
            {"type": "StepLR", "options": {"base_lrs": [0.1, 0.01]}},
            {},
            "lr 0.1 / 0.01, betas (0.9, 0.99), schedule StepLR",
        ),
        ({"type": "ReduceLROnPlateau"}, {}, "lr 0.1, betas (0.9, 0.99), schedule ReduceLROnPlateau"),
        ({"type": "SWALR", "beside": ["StepLR"]}, {}, "lr 0.1, betas (0.9, 0.99), schedule StepLR + SWALR"),
        ({"type": "OneCycleLR", "options": {"base_lrs": [0.02]}}, {"betas": [0.95, 0.99]}, "schedule OneCycleLR"),
    ],
)
def test_the_scheduler_is_named_and_options_that_it_replaces_are_left_out(scheduler, groups, shown):
    facts = {"index": 1, "type": "Adam", "options": {"lr": 0.1, "betas": [0.9, 0.99]}, "groups": [groups]}
    signals = Signals("torch", loop={"scheduler": {"1": scheduler}} if scheduler else {})
    framework = Framework("torch", "2", optimizers=(facts,))
    run = Run("i", "finished", (), "", 0.0, frameworks=(framework,), signals=(signals,))
    (row,) = model_section(run, Limits())["optimizers"]
    assert row["options"] == shown


@pytest.mark.parametrize(("highest", "shown"), [(0.05, "learning_rate 0.05, schedule"), (0.0028, "schedule")])
def test_a_rate_that_is_only_a_factor_of_the_schedule_is_left_out(highest, shown):
    facts = {"index": 1, "type": "Adam", "options": {"learning_rate": 0.05}}
    signals = Signals("paddle", loop={"scheduler": {"1": {"type": "NoamDecay"}}})
    series = (Series.of_values("lr.opt1", "probe", (1, 2), (0.0, highest)),)
    framework = Framework("paddle", "3", optimizers=(facts,))
    run = Run("i", "finished", (), "", 0.0, frameworks=(framework,), signals=(signals,), series=series)
    (row,) = model_section(run, Limits())["optimizers"]
    assert row["options"] == f"{shown} NoamDecay"


def test_the_optimizer_of_keras_is_named_and_updates_by_hand_are_translated():
    by_hand = {"type": "none of the framework, parameters are updated without one", "options": {}}
    given = Arguments("keras", "compile", {"optimizer": "Adam", "learning_rate": 0.01})
    for arguments, named in (
        ((), (by_hand["type"], "", True)),
        ((given,), ("Adam (Keras)", "learning_rate 0.01", False)),
    ):
        framework = Framework("torch", "2.13.0", optimizers=(by_hand,))
        run = Run("i", "finished", (), "", 0.0, frameworks=(framework,), arguments=arguments)
        (row,) = model_section(run, Limits())["optimizers"]
        assert (row["type"], row["options"], row["by_hand"]) == named
