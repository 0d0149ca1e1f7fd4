"""The training loop: order of calls, modes, and what losses are fed."""

import math

import pytest
from loss_signals import loss
from order_of_tests import in_one_test

LOOP = {"steps": 100, "backwards": 100, "optimizers": 1}


def loop(**fields):
    return {"loop": {**LOOP, **fields}}


def phases(n=3, **fields):
    recorded = {"begin_step": 10, "end_step": 10, "batches": 12, "training": False, "grad": False, "stochastic": True}
    return {"evaluations": tuple({**recorded, "root": "Net", "phases": n, **fields} for _ in range(n))}


CASES = [
    ("backward_but_no_step", loop(steps=0), loop(), "100 backward passes, no step of 1 optimizer"),
    (
        "step_without_backward",
        loop(steps_without_backward={"0": 99}),
        loop(steps_without_backward={"0": 1}),
        "99 of 100 steps without a backward",
    ),
    (
        "step_without_backward",
        loop(steps=200, steps_without_backward={"0": 60}),
        loop(steps=200, steps_without_backward={"0": 60}, optimizers=2),
        "100 of 200 steps without a backward",
    ),
    (
        "forward_but_no_backward",
        loop(backwards=0, losses_lonely=50, forwards={"train_grad": 50}),
        loop(losses_lonely=50, forwards={"train_grad": 150}),
        "50 losses with gradients, no backward",
    ),
    (
        "forward_but_no_backward",
        loop(steps=0, backwards=0, forwards={"train_grad": 50, "raised": 50}),
        loop(forwards={"train_grad": 150, "raised": 50}),
        "all 50 training forwards raised an exception",
    ),
    (
        "backward_in_eval_mode",
        loop(backward_in_eval={"count": 80, "in_train": 20, "first_step": 21, "stochastic": True}),
        loop(backward_in_eval={"count": 80, "in_train": 20, "first_step": 21, "stochastic": False}),
        "80 of 100 inspected backward passes in evaluation mode, from step 21 on",
    ),
    (
        "eval_in_train_mode",
        phases(training=True),
        phases(),
        "36 validation batches in training mode, in 3 phases",
    ),
    (
        "dropout_active_in_eval",
        phases(dropout_active=12, dropout_line="net.py:9"),
        phases(dropout_active=0),
        "dropout active in 12 calls over 12 batches",
    ),
    ("softmax_before_cross_entropy", loss(prob_rows=1.0), loss(prob_rows=0.0), "rows that sum to 1 in 100 %"),
    (
        "softmax_before_cross_entropy",
        {
            **loss(fn="nll_loss"),
            "graphs": ({"operations": [["NllLoss", [1], None], ["LogSoftmax", [2], None], ["Softmax", [], None]]},),
        },
        {
            **loss(fn="nll_loss"),
            "graphs": ({"operations": [["NllLoss", [1], None], ["LogSoftmax", [2], None], ["Addmm", [], None]]},),
        },
        "log_softmax of what a softmax has returned",
    ),
    (
        "missing_output_activation",
        loss(fn="nll_loss", logprob_rows=0.0),
        loss(fn="nll_loss", logprob_rows=1.0),
        "log-probabilities in only 0 %",
    ),
    (
        "missing_output_activation",
        loss(not_probabilities=50, framework="paddle"),
        loss(not_probabilities=0),
        "with use_softmax=False takes probabilities",
    ),
    (
        "loss_broadcast",
        loss(fn="mse_loss", broadcast=50, observed=50, input={"shape": [32, 1]}, target={"shape": [32]}),
        loss(fn="mse_loss", broadcast=0),
        "mse_loss got shapes [32, 1] and [32] in 50 of 50 inspected calls",
    ),
    (
        "seed_reset_in_loop",
        loop(rng={"checked": 20, "same": 19, "seeded": 100, "line": "t.py:3"}),
        loop(rng={"checked": 20, "same": 20, "seeded": 0}),
        "seeded 100 times in 100 steps",
    ),
    (
        "softmax_wrong_axis",
        loss(prob_columns=1.0),
        loss(prob_columns=0.0),
        "sums to 1 over the batch, not over the classes",
    ),
]


@in_one_test(("check", "faulty", "healthy", "words"), CASES, ids=[case[0] for case in CASES])
def test_fires_on_the_fault_only(ask, check, faulty, healthy, words):
    found = ask(check, signals=faulty)
    assert found.verdict == "fail" and words in found.observed
    twin = ask(check, signals=healthy)
    assert twin is None or twin.verdict == "ok"
    missing = ask(check)
    assert missing is None or missing.verdict == "not observed"


@in_one_test(
    ("check", "signals"),
    [
        # No optimizer was made: gradients for another purpose.
        ("backward_but_no_step", loop(steps=0, optimizers=0)),
        # One bare step, to quieten a scheduler's warning.
        ("step_without_backward", loop(steps_without_backward={"0": 3})),
        # A forward of a model for another reason than training.
        ("forward_but_no_backward", loop(backwards=0, losses_lonely=5, forwards={"train_grad": 5})),
        # Batch statistics of averaged weights are recomputed in training mode.
        ("eval_in_train_mode", phases(1, training=True, root="AveragedModel")),
        # No layer behaves differently.
        ("eval_in_train_mode", phases(training=True, stochastic=False)),
        # Random numbers are not drawn in the step, so the state stays; nobody seeds.
        ("seed_reset_in_loop", loop(rng={"checked": 90, "same": 90, "seeded": 0})),
        # Seeded once an epoch.
        ("seed_reset_in_loop", loop(rng={"checked": 90, "same": 4, "seeded": 4})),
        ("accumulation_not_scaled", loop(accumulation={"2": 50})),
    ],
)
def test_healthy_but_odd(ask, check, signals):
    found = ask(check, signals=signals)
    assert found is None or found.verdict == "ok"


@pytest.mark.parametrize(
    ("fields", "changed", "verdict"),
    [
        ({}, {}, "fail"),
        ({"type": "SGD", "options": {"momentum": 0.9}}, {}, "fail"),
        ({"type": "SGD", "options": {"momentum": 0}}, {}, None),
        ({"tensors": 1}, {}, None),
        ({}, {"trains": 1}, None),
        ({}, {"parameters": 7}, None),
    ],
)
def test_an_optimizer_for_each_step(ask, fields, changed, verdict):
    one = {"type": "Adam", "trains": 0, "tensors": 6, "parameters": 3393, **fields}
    seen = {**loop(steps=40, optimizers=41), "optimizers": ({**one, **changed}, *[one] * 39)}
    found = ask("optimizer_recreated", signals=seen)
    assert (found and found.verdict) == verdict
    assert ask("optimizer_recreated", signals={**seen, **loop(steps=400, optimizers=41)}) is None


def test_validation_in_one_forward(ask, make_model):
    scored = phases(5, training=True, batches=1, loss={"mse_loss": 0.4})
    assert ask("eval_in_train_mode", signals=scored).verdict == "fail"
    silent = {**phases(5, training=True, batches=1), **loop(forwards={"train_grad": 100, "train_nograd": 5})}
    learnt = {**silent, **loss(calls=100), "models": (make_model("Linear"),)}
    assert ask("eval_in_train_mode", signals=learnt).verdict == "warn"
    boxes = {**silent, **loss(calls=100, fn="smooth_l1"), "models": (make_model("Linear"),)}
    assert ask("eval_in_train_mode", signals=boxes).verdict == "warn"
    two = {**learnt, "models": (make_model("Linear"), make_model("Linear"))}
    assert ask("eval_in_train_mode", signals=two).verdict == "not observed"
    # A generator that makes one batch for its critic.
    assert ask("eval_in_train_mode", signals=phases(20, training=True, batches=1)).verdict == "not observed"


@pytest.mark.parametrize(
    ("root", "training", "verdict"),
    [("Program", True, "warn"), ("Program", False, "ok"), ("Net", True, "not observed")],
)
def test_a_static_program_in_training_mode_is_wrong_at_its_first_run(ask, root, training, verdict):
    once = {**phases(1, training=training, batches=1, root=root), **loop(steps=600)}
    assert ask("eval_in_train_mode", signals=once).verdict == verdict


def test_evaluation_mode_from_the_first_step_may_be_on_purpose(ask):
    always = loop(backward_in_eval={"count": 100, "in_train": 0, "first_step": 1, "stochastic": True})
    assert ask("backward_in_eval_mode", signals=always).verdict == "warn"


def test_monte_carlo_dropout_is_only_noted(ask):
    sampled = phases(dropout_active=12, repeated=11, dropout_line="net.py:9")
    assert ask("dropout_active_in_eval", signals=sampled).verdict == "note"


def accumulated(use):
    return loop(accumulation={"8": 12}, accumulated={"0": {use: 11}})


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "warn"),
        ({"losses": (), "graphs": ({"operations": [["Mean", [1], None], ["Pow", [], None]]},)}, "warn"),
        ({"losses": (), "graphs": ({"operations": [["Div", [1], None], ["Mean", [], None]]},)}, None),
        ({"optimizers": ({"type": "Adam"},)}, "note"),
        (loop(accumulation={"8": 12}, clip={"calls": 12}), "note"),
        (accumulated("rescaled"), None),
        (loss(value_first=2.3, reduction="sum"), None),
        (loss(value_first=8 * 2.3), None),
        ({**loss(value_first=64 * 2.3), **accumulated("reduced")}, None),
        ({**loss(value_first=8 * 2.3), **accumulated("rescaled")}, None),
        ({**loss(value_first=8 * 2.3), **accumulated("reduced")}, "warn"),
    ],
)
def test_whole_losses_accumulated(ask, make_series, changed, verdict):
    signals = {**loop(accumulation={"8": 12}), **loss(value_first=2.3), "optimizers": ({"type": "SGD"},), **changed}
    found = ask("accumulation_not_scaled", make_series("loss", [8 * 2.3] * 12), signals=signals)
    assert (found and found.verdict) == verdict


def test_two_views_of_a_sample_are_only_noted(ask, make_series):
    signals = {**loop(accumulation={"2": 12}), **loss(value_first=2.3), "optimizers": ({"type": "SGD"},)}
    assert ask("accumulation_not_scaled", make_series("loss", [2 * 2.3] * 12), signals=signals).verdict == "note"


def test_schedules(ask, make_series):
    def scheduled(**recorded):
        return loop(scheduler={"0": {"type": "StepLR", "steps": 10, "optimizer_steps": 100, **recorded}})

    rate = make_series("lr", [0.1] * 100)
    assert ask("lr_schedule_wrong", rate, signals=scheduled(steps=0)).verdict == "fail"
    assert ask("lr_schedule_wrong", rate, signals=scheduled(before_optimizer=1)).verdict == "warn"
    assert ask("lr_schedule_wrong", rate, signals=scheduled()).verdict == "ok"
    gone = scheduled(steps=0, optimizer_steps=64)
    assert ask("lr_schedule_wrong", rate, signals=gone).verdict == "ok"
    gone = {**gone, "loop": {**gone["loop"], "steps": 100}}
    epochs = tuple({"phase": "train", "loader": 0, "epoch": e, "batches": 20} for e in range(5))
    assert ask("lr_schedule_wrong", rate, signals={**gone, "prints": epochs}).verdict == "fail"
    assert ask("lr_schedule_wrong", rate, signals={**gone, "prints": epochs[:1]}).verdict == "ok"
    waves = scheduled(type="CosineAnnealingLR", steps=100, options={"T_max": 10})
    assert "rises again" in ask("lr_schedule_wrong", rate, signals=waves).observed
    again = scheduled(type="CosineAnnealingLR", steps=15, options={"T_max": 10})
    assert ask("lr_schedule_wrong", rate, signals=again).verdict == "note"
    within = scheduled(type="CosineAnnealingLR", options={"T_max": 10})
    assert ask("lr_schedule_wrong", rate, signals=within).verdict == "ok"
    late = ask("lr_schedule_wrong", make_series("lr", [0.0] * 20 + [0.1] * 30), signals=loop())
    assert late.verdict == "warn" and "step 20 of 50" in late.observed and "//" in late.advice
    dead = ask("lr_schedule_wrong", make_series("lr", [0.1] * 40 + [0.0] * 60), signals=loop())
    assert dead.verdict == "warn" and "gamma" in dead.advice
    warmed_up = make_series("lr", [0.0] + [0.1] * 49)
    assert ask("lr_schedule_wrong", warmed_up, signals=loop()) is None
    other = make_series("lr.opt1", [0.1] * 50)
    assert ask("lr_schedule_wrong", make_series("lr", [0.0] * 20 + [0.1] * 30), other, signals=loop()) is None
    dead = make_series("lr", [0.1] * 30 + [1e-9] * 70)
    assert "from step 31 on" in ask("lr_schedule_wrong", dead, signals=loop()).observed
    assert (
        ask("lr_schedule_wrong", make_series("lr", [0.1 * (1 - i / 100) for i in range(100)]), signals=loop()) is None
    )


@pytest.mark.parametrize(
    ("kind", "steps", "verdict"), [("StepDecay", 320, "warn"), ("StepDecay", 8, "ok"), ("CosineAnnealingLR", 320, "ok")]
)
def test_a_decay_by_epochs_that_is_stepped_with_each_batch(ask, make_series, kind, steps, verdict):
    rates = make_series("lr", [0.002 * 0.3 ** (n // 30) for n in range(320)])
    facts = {"type": kind, "steps": steps, "optimizer_steps": 320}
    assert ask("lr_schedule_wrong", rates, signals=loop(scheduler={"0": facts})).verdict == verdict


def test_a_loss_by_hand_that_is_blown_up(ask):
    blown = {"op": "sub", "shape": [32, 32], "of": [32, 1], "sure": True, "line": "train.py:9"}
    found = ask("loss_broadcast", signals={"graphs": ({"blown": blown},)})
    assert found.verdict == "fail" and not found.where, "line 9 calls backward, nothing else"
    assert found.observed == "outputs of shape [32, 1] are broadcast to [32, 32] against the targets"
    product = ask("loss_broadcast", signals={"graphs": ({"blown": {**blown, "op": "mul"}},)})
    assert "multiplied with" in product.observed
    assert ask("loss_broadcast", signals={"graphs": ({"blown": {**blown, "sure": False}},)}).verdict == "warn"
    assert ask("loss_broadcast", signals={"graphs": ({"blown": None},)}).verdict == "ok"
    assert ask("loss_broadcast", signals={}).verdict == "not observed"


@pytest.mark.parametrize(("function", "verdict"), [("mse_loss", "fail"), ("bce_with_logits", "note")])
def test_a_loss_that_refuses_other_shapes_broadcasts_nothing(ask, function, verdict):
    shapes = {"input": {"shape": [32, 1]}, "target": {"shape": [32]}}
    (call,) = loss(fn=function, broadcast=1, **shapes)["losses"]
    assert ask("loss_broadcast", signals={"losses": (call,)}).verdict == verdict


def test_one_of_two_optimizers_never_steps(ask):
    recorded = {"steps": 100, "backwards": 100, "optimizers": 2, "idle": {"optimizers": 1, "parameters": 6}}
    found = ask("backward_but_no_step", signals={"loop": recorded})
    assert found.verdict == "fail" and found.observed.startswith("1 optimizer never stepped; 6 parameters")
    assert ask("backward_but_no_step", signals={"loop": {**recorded, "idle": {}}}).verdict == "ok"


def test_dropout_in_evaluations_of_a_single_forward(ask):
    """A whole graph is one batch: its phases are taken together."""

    def verdict(active, count=5):
        dropped = tuple({**phases(1)["evaluations"][0], "batches": 1, "dropout_active": active} for _ in range(count))
        return ask("dropout_active_in_eval", signals={"evaluations": dropped}).verdict

    assert verdict(1) == "fail"
    assert verdict(1, count=2) == verdict(0) == "ok"


def test_clipping_before_the_backward_pass(ask, make_series):
    norms = make_series("grad_norm", [0.7] * 50)
    clip = {"calls": 50, "clipped": 0, "empty": 50, "limit": 1.0}
    assert ask("clip_without_gradient", norms, signals={"loop": {"clip": clip}}).verdict == "warn"
    assert ask("clip_without_gradient", norms, signals={"loop": {"clip": {**clip, "empty": 5}}}) is None
    assert ask("clip_without_gradient", make_series("grad_norm", [0.0] * 50), signals={"loop": {"clip": clip}}) is None


@in_one_test(
    ("changed", "verdict"),
    [
        ({}, "warn"),
        ({"losses_lonely": 0}, "not observed"),
        ({"forwards_lonely": 8, "losses_lonely": 8}, "not observed"),
        ({"accumulation": {"4": 33}}, "not observed"),
        ({"layer": "Linear"}, "not observed"),
    ],
    ids=["validation", "no loss", "few", "accumulation", "no dropout"],
)
def test_validation_that_looks_like_training(ask, changed, verdict):
    changed = dict(changed)
    layer = {"i": 0, "name": "drop", "type": changed.pop("layer", "Dropout"), "order": 0, "options": {"p": 0.5}}
    counts = {"steps": 132, "backwards": 132, "forwards_lonely": 42, "losses_lonely": 42, "accumulation": {"1": 132}}
    calls = [{"fn": "mse_loss", "line": f"t.py:{n}", "training": True, "calls": n} for n in (132, 42)]
    signals = {
        "loop": {**counts, "forwards": {"train_grad": 174}, **changed},
        "losses": tuple(calls),
        "models": ({"model": 0, "modules": [layer], "parameters": []},),
    }
    found = ask("eval_in_train_mode", signals=signals)
    assert found.verdict == verdict and (verdict != "warn" or found.where == {"file": "t.py", "line": 42})


@pytest.mark.parametrize(("steps", "turns", "verdict"), [(200, 1.0, "warn"), (100, 1.0, "ok"), (200, 0.5, "ok")])
def test_a_schedule_that_is_stepped_once_for_each_process(ask, make_series, steps, turns, verdict):
    rate = make_series("lr", [0.5 + 0.5 * math.cos(2 * math.pi * turns * i / 100) for i in range(100)])
    facts = {"type": "LambdaLR", "options": {}, "steps": steps, "optimizer_steps": 100}
    assert ask("lr_schedule_wrong", rate, signals=loop(scheduler={"0": facts})).verdict == verdict


@pytest.mark.parametrize(
    ("kind", "options", "updates", "verdict"),
    [
        ("OneCycleLR", {"total_steps": 352}, 352, "warn"),
        ("CosineAnnealingLR", {"T_max": 360}, 352, "warn"),
        ("CosineAnnealingLR", {"T_max": 200}, 352, "ok"),
        ("OneCycleLR", {"total_steps": 8}, 352, "ok"),
    ],
)
def test_a_schedule_of_batches_that_is_stepped_once_an_epoch(ask, make_series, kind, options, updates, verdict):
    facts = {"type": kind, "options": options, "steps": 8, "optimizer_steps": updates}
    rate = make_series("lr", [0.1] * 50)
    assert ask("lr_schedule_wrong", rate, signals=loop(scheduler={"0": facts})).verdict == verdict


@pytest.mark.parametrize(
    ("planned", "steps", "backwards", "verdict"),
    [
        (400, 100, 400, "warn"),
        (100, 400, 400, "warn"),
        (100, 100, 400, "ok"),
        (400, 100, 100, "ok"),
        (200, 100, 400, "ok"),
    ],
    ids=[
        "planned in batches",
        "stepped at batches",
        "both in updates",
        "ended early",
        "planned for twice the training",
    ],
)
def test_a_schedule_under_accumulation(ask, make_series, planned, steps, backwards, verdict):
    facts = {"type": "LambdaLR", "options": {"total_steps": planned}, "steps": steps, "optimizer_steps": 100}
    signals = loop(scheduler={"0": facts}, steps=100, backwards=backwards)
    assert ask("lr_schedule_wrong", make_series("lr", [0.1] * 100), signals=signals).verdict == verdict


@pytest.mark.parametrize(("steps", "last", "verdict"), [(8, 0.2, "warn"), (352, 0.2, "ok"), (8, 0.9, "ok")])
def test_a_warm_up_of_batches_that_is_stepped_once_an_epoch(ask, make_series, steps, last, verdict):
    rate = make_series("lr", [0.01 * last * (1 + i // 44) / 8 for i in range(352)])
    facts = {"type": "LambdaLR", "options": {}, "steps": steps, "optimizer_steps": 352}
    optimizer = {"index": 0, "options": {"lr": 0.01}}
    signals = {**loop(scheduler={"0": facts}), "optimizers": (optimizer,)}
    assert ask("lr_schedule_wrong", rate, signals=signals).verdict == verdict
