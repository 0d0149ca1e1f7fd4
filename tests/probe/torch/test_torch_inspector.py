"""What the probe sees in PyTorch loops: each fault leaves its mark, and odd but healthy loops leave none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.model.run import Console
from labbook.record.run_from_journal.journal_reader import build_run
from labbook.store.event_reader import read_event
from labbook.store.journal import ProcessEvents

PROGRAM = Path(__file__).resolve().parents[2] / "programs" / "health_torch.py"
pytestmark = [pytest.mark.torch, pytest.mark.forked("torch")]


@pytest.fixture
def play(probed):
    """`play(case, level)` runs one case under the probe and gives its events."""

    def start(case, level="normal"):
        probed.settings["level"] = level
        outcome = probed(sys.executable, str(PROGRAM), case, OMP_NUM_THREADS="1")
        assert outcome.of("probe_error") == []
        return outcome

    return start


def loop(outcome):
    return outcome.of("loop")[-1]


def test_gradients_that_nobody_clears_are_seen_at_every_step(play):
    cleared = loop(play("nozero"))["cleared"]["0"]
    assert cleared["checked"] == cleared["not_cleared"] == cleared["streak"] > 40


@pytest.mark.parametrize(
    "case", ["gan", *(pytest.param(c, marks=pytest.mark.long) for c in ("accum", "gradval", "dropeval"))]
)
@pytest.mark.long
def test_healthy_clearing_is_no_finding(play, case):
    assert all(one["not_cleared"] == 0 for one in loop(play(case)).get("cleared", {}).values())


@pytest.mark.long
def test_accumulation_is_counted(play):
    assert loop(play("accum"))["accumulation"] == {"4": 15}


@pytest.mark.parametrize(
    ("case", "op"),
    [
        ("detach", "detach"),
        pytest.param("data", "data", marks=pytest.mark.long),
        pytest.param("numpy", "detach", marks=pytest.mark.long),
        pytest.param("item", "item", marks=pytest.mark.long),
        ("nograd", "no_grad"),
    ],
)
def test_a_cut_graph_is_told_with_its_line(play, case, op):
    outcome = play(case)
    graph = outcome.of("graph")[-1]
    assert {"a.weight", "a.bias"} <= set(graph["unreachable"])
    assert graph["cut"]["op"] == op
    lines = PROGRAM.read_text().splitlines()
    assert lines[graph["cut"]["line"] - 1].strip() == graph["cut"]["source"]
    assert graph["cut"]["function"].endswith("forward")
    assert set(loop(outcome)["never_called"]) == {"unused.weight", "unused.bias"}
    assert "a.weight" in loop(outcome)["never_grad"]


def test_layers_in_a_list_are_foreign_leaves(play):
    foreign = play("list").of("graph")[-1]["foreign"]
    assert len(foreign) == 4
    assert all(leaf["parameter"] for leaf in foreign)


def test_parameters_that_only_the_first_evaluation_freezes_are_trained(play):
    outcome = play("frozeneval")
    assert loop(outcome)["toggled"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    looks = [row for one in outcome.of("tensors") for row in one.get("params", ())]
    assert looks and all(row["g"] > 0 and row["ratio"] > 0 for row in looks), "computed in a closure"


@pytest.mark.parametrize(
    ("case", "idle"),
    [("flags", ["0.requires_grad = False"]), pytest.param("flagsapplied", [], marks=pytest.mark.long)],
)
def test_flags_on_modules_that_no_parameter_follows_are_named(play, case, idle):
    assert loop(play(case))["idle_flags"] == idle


def test_training_forwards_that_raise_are_counted(play):
    counts = loop(play("caught"))
    assert counts["steps"] == counts["backwards"] == 0
    assert counts["forwards"]["raised"] == counts["forwards"]["train_grad"] == 60


@pytest.mark.long
def test_stale_optimizer_parameters_are_counted(play):
    seen = loop(play("stale"))
    assert seen["stale"]["0"] == {"tensors": 2, "elements": 34, "held": 4}
    assert seen["outside"] == ["2.weight", "2.bias"]


def test_a_model_that_only_acts_is_no_model_that_never_runs(play):
    assert not loop(play("acting")).get("stale")


def test_steps_that_change_nothing_are_counted_but_not_with_a_rate_of_zero(play):
    tiny = loop(play("lrtiny"))["unchanged"]["0"]
    assert tiny["checked"] == tiny["unchanged"] > 10
    assert "unchanged" not in loop(play("lr0"))


def test_training_in_evaluation_mode_is_counted(play):
    outcome = play("evalmode")
    assert loop(outcome)["backward_in_eval"] == {"count": 60, "in_train": 0, "first_step": 1, "stochastic": True}
    assert len(outcome.of("model")) == 1


@pytest.mark.long
def test_a_seed_in_the_loop_is_seen(play):
    rng = loop(play("seed"))["rng"]
    assert rng["same"] == rng["checked"] > 5
    assert rng["seeded"] == 59
    assert rng["line"].startswith("health_torch.py:")


@pytest.mark.long
def test_a_seed_in_the_loop_of_a_program_that_draws_nothing_is_harmless(play):
    """The LBFGS of pykan seeds in each step."""
    assert loop(play("seed without draws"))["rng"]["seeded"] <= 1


@pytest.mark.long
def test_probabilities_into_cross_entropy_are_seen(play):
    (call,) = {one["line"]: one for one in play("softmax2").of("loss_call")}.values()
    assert call["prob_rows"] == 1.0
    assert call["classes"] == 2
    assert call["calls"] == 60


@pytest.mark.parametrize("case", [pytest.param("softaxis", marks=pytest.mark.long), "softaxisforward"])
def test_a_softmax_over_the_batch_is_seen_in_the_loss_and_in_the_function(play, case):
    outcome = play(case)
    assert [one["root"] for one in outcome.of("model")] == ["N"]
    assert all(one["init"] for one in outcome.of("model")[0]["parameters"])
    assert outcome.of("loss_call")[-1]["prob_columns"] == 1.0
    (softmax,) = outcome.of("tensors")[-1]["functions"]
    assert (softmax["fn"], softmax["dim"], softmax["size"]) == ("softmax", 0, 32)


@pytest.mark.long
def test_a_broadcast_loss_is_seen(play):
    call = play("broadcast").of("loss_call")[-1]
    assert call["broadcast"] == call["observed"] > 5
    assert call["items"] == 32 * 32


@pytest.mark.long
def test_dropout_that_ignores_the_mode_is_seen_in_evaluation(play):
    phases = play("dropeval").of("evaluation")
    assert [phase["dropout_active"] for phase in phases] == [8, 8, 8]
    assert phases[0]["dropout_line"].startswith("health_torch.py:")
    assert 0 < phases[0]["accuracy"] <= 1
    assert phases[0]["loss"]["cross_entropy"] > 0


VALIDATION = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if step == 3 or (step == 8 and FAILS == "in validation"):
        with torch.no_grad():
            for batch in range(4):
                model(torch.randn(8, 4 + (step == 8 and batch == 3)))
model(torch.randn(8, 5))
"""


@pytest.mark.parametrize(("fails", "validation"), [("in validation", True), ("in training", False)])
def test_a_failure_in_validation_is_known(probed, fails, validation):
    probed.write("train.py", f"FAILS = {fails!r}\n{VALIDATION}")
    outcome = probed(sys.executable, "train.py", check=None, OMP_NUM_THREADS="1")
    processes = [ProcessEvents("x", tuple(map(read_event, outcome.events)))]
    run = build_run({"id": "r"}, {"code": outcome.code}, processes, Console())
    assert outcome.code == 1 and run.exceptions[0].type == "RuntimeError"
    assert ("validation" in collect_run_evidence(run).conditions) is validation


@pytest.mark.long
def test_evaluation_in_training_mode_and_with_gradients_is_seen(play):
    outcome = play("traineval")
    assert loop(outcome)["forwards"]["train_nograd"] == 24
    assert outcome.of("evaluation")[0]["training"] is True
    outcome = play("gradval")
    assert outcome.of("evaluation")[0]["grad"] is True
    assert loop(outcome)["losses_lonely"] == 24
    assert loop(outcome)["forwards_lonely"] == 0


@pytest.mark.parametrize(
    ("case", "nograd", "others"),
    [
        ("teacher", 200, 80),
        pytest.param("play", 100, 0, marks=pytest.mark.long),
        pytest.param("self", 100, 0, marks=pytest.mark.long),
    ],
)
def test_forwards_of_a_teacher_are_told_from_those_that_act(play, case, nograd, others):
    outcome = play(case)
    forwards = loop(outcome)["forwards"]
    assert forwards["train_nograd"] == nograd
    assert others <= forwards["of_others"] <= others + 10  # steps, in which it is called twice
    assert outcome.of("optimizer")[0]["line"].startswith("health_torch.py:")
    assert len(outcome.of("evaluation")) <= 20


@pytest.mark.long
def test_graphs_that_stay_alive_are_counted(play):
    held = play("retain").of("memory")[-1]
    assert held["graphs"] == held["graphs_of"] > 5
    assert play("nozero").of("memory")[-1]["graphs"] <= 1


@pytest.mark.long
def test_steps_without_gradient_or_backward_are_counted(play):
    assert loop(play("zerobetween"))["steps_without_gradient"]["0"] == {
        "checked": 60,
        "none": 60,
        "zero": 0,
        "streak": 60,
    }
    seen = loop(play("nobackward"))
    assert seen["steps_without_backward"]["0"] >= 58
    assert seen["forwards_lonely"] == seen["losses_lonely"] == 60


def test_a_scheduler_before_the_optimizer_is_seen(play):
    seen = loop(play("sched"))["scheduler"]["0"]
    assert seen["before_optimizer"] == 1
    assert seen["steps"] == seen["optimizer_steps"] == 60
    assert seen["options"]["T_max"] == 10


@pytest.mark.long
def test_loads_that_change_nothing_or_match_nothing_are_told(play):
    alias, nothing = play("load").of("loaded")
    assert alias["alias"] is True and alias["trained"] is True
    assert alias["matched"] == 4
    assert (nothing["matched"], nothing["missing_n"], nothing["unexpected_n"]) == (0, 4, 4)
    assert nothing["line"].startswith("health_torch.py:")


FLIGHTS = {
    "logloss": ("loss", "loss expression", None, "Log!"),
    "badbatch": ("loss", "bad batch", None, "input 0[4, 3] = inf"),
    "explode": ("loss", "forward", "2", "linear"),
    "sqrtloss": ("gradient", "loss expression", None, "Sqrt"),
    "mask": ("loss", "forward", "", "softmax"),
    "exp": ("loss", "forward", "", "exp"),
    "sqrtinside": ("gradient", "backward", None, "SqrtBackward"),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.long if case not in ("badbatch", "sqrtinside") else ()) for case in FLIGHTS],
)
def test_the_first_bad_value_is_traced_to_its_place(play, case):
    trigger, finding, module, op = FLIGHTS[case]
    (flight,) = play(case).of("flight")
    assert (flight["trigger"], flight["finding"]) == (trigger, finding)
    assert op in flight["op"]
    assert (flight["module"] or {}).get("name") == module
    if flight["line"]:
        assert PROGRAM.read_text().splitlines()[flight["line"] - 1].strip() == flight["source"]
    if finding in ("forward", "backward"):
        assert flight["line"]
    assert flight["batch"]["leaves"][0]["shape"] == [32, 10]


def test_a_healthy_run_has_a_whole_record(play):
    outcome = play("dropeval", level="deep")
    (model,) = outcome.of("model")
    assert [module["type"] for module in model["modules"]] == ["N", "Sequential", "Linear", "ReLU", "Linear"]
    assert [module["package"] for module in model["modules"]] == ["", *["torch"] * 4]
    assert [one["name"] for one in model["parameters"]][:2] == ["m.0.weight", "m.0.bias"]
    assert model["parameters"][0]["init"]["writes"] == {"kaiming_uniform_": 1}
    assert model["parameters"][0]["init"]["fan_in"] == 10
    assert [2, 3] in model["feeds"]
    tensors = outcome.of("tensors")
    assert len(tensors) >= 40
    assert all(one["g"] > 0 for one in tensors[0]["params"])
    assert all(0 < one["ratio"] < 1 for one in tensors[5]["params"])
    assert tensors[0]["modules"][0]["across"] > 0
    assert {leaf["role"] for leaf in outcome.of("batch")[0]["leaves"]} == {"input", "label"}
    step = outcome.of("step")[-1]
    assert step["samples"] == 32
    assert not outcome.of("flight")


@pytest.mark.long
def test_what_is_paid_once_is_told_apart_from_what_every_step_costs(play):
    bye = play("dropeval").of("bye")[0]
    sustained = bye["sustained"]
    assert sustained["step"] == 32
    assert 0 < sustained["overhead_s"] < bye["overhead_s"]
    assert 0 < sustained["elapsed_s"] < bye["elapsed_s"]


def test_parameters_of_a_model_with_its_own_call_have_names_and_shapes(play):
    outcome = play("owncall")
    (model,) = outcome.of("model")
    assert [(p["name"], p["shape"]) for p in model["parameters"]] == [("scale", [1, 10]), ("shift", [])]
    assert {p["i"] for event in outcome.of("tensors") for p in event["params"]} == {0, 1}


def test_a_model_called_on_its_own_results_is_counted_as_chained(play):
    forwards = loop(play("solver"))["forwards"]
    assert 0.8 * forwards["looked"] < forwards["chained"] < forwards["looked"] <= forwards["train_grad"]
    for case in ("nozero", "recurrent"):
        assert loop(play(case))["forwards"]["chained"] == 0


def test_optimizers_of_single_parameters_train_the_model_that_has_them_all(play):
    assert {event["model"] for event in play("ofeach").of("state") if event.get("model")} == {"ModuleDict"}


PHASES = """
import torch
from torch import nn
class Trainer:
    def __init__(self):
        self.critic = nn.Linear(8, 1)
def pretrain(net):
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1)
    for _ in range(4):
        optimizer.zero_grad(); net(torch.randn(8, 4)).square().mean().backward(); optimizer.step()
def probe(encoder):
    encoder.requires_grad_(False)
    model = nn.Sequential(encoder, nn.Linear(8, 2))
    pretrain(model)
def main():
    encoder, trainer = nn.Linear(4, 8), Trainer()
    pretrain(encoder)
    probe(encoder)
    optimizer = torch.optim.SGD(trainer.critic.parameters(), 0.1)
    trainer.critic(torch.randn(8, 8)).mean().backward(); optimizer.step()
main()
print(0)
"""


def test_models_have_the_names_of_the_program_and_share_parameters(run, healthy):
    outcome = healthy(run(PHASES, fork="torch"))
    models = outcome.of("model")
    assert [event["variable"] for event in models] == ["encoder", "model", "critic"]
    assert [[p.get("same") for p in event["parameters"]] for event in models[:2]] == [
        [None, None],
        [[0, 0], [0, 1], None, None],
    ]
    assert [event.get("shared") for event in outcome.of("optimizer")] == [None, [40, 0], None]


def test_norms_of_parts_that_were_clipped_apart_are_counted(probed):
    source = """
import torch
parts = [torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)]
rule = torch.optim.SGD([p for part in parts for p in part.parameters()], 0.1)
for step in range(20):
    rule.zero_grad(); parts[1](parts[0](torch.randn(4, 3))).sum().backward()
    for part in parts if step < 15 else [torch.nn.ModuleList(parts)]:
        torch.nn.utils.clip_grad_norm_(part.parameters(), 0.1)
    rule.step()
"""
    found = loop(probed(sys.executable, probed.write("train.py", source), OMP_NUM_THREADS="1"))
    assert (found["clip"]["calls"], found["clipped_norms"]) == (35, {"0": {"before": 5, "after": 15}})
