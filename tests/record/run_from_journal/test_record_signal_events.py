"""Events become signals, whatever a probe may have written."""

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labbook.record.run_from_journal.series_events import fold_series
from labbook.record.run_from_journal.signal_events import fold_signals
from labbook.store.event_reader import read_event
from labbook.store.journal import ProcessEvents

HELLO = {"k": "hello", "pid": 7, "argv": ["python", "train.py"], "t": 1.0}


def process(*events, env=None, pid=7):
    hello = {**HELLO, "pid": pid, "env": env or {}}
    seen = ({"framework": "torch", "t": float(i), **e} for i, e in enumerate(events))
    return ProcessEvents("x", tuple(map(read_event, (hello, *seen))))


def step(n, **fields):
    return {"k": "step", "step": n, "n": 1, "opt": 0, **fields}


def test_events_are_sorted_by_kind_and_the_last_totals_win():
    (found,) = fold_signals(
        [
            process(
                step(1, ph={"data": 0.1, "forward": 0.2}, samples=32),
                {"k": "loss_call", "fn": "mse_loss", "line": "t.py:1", "training": True, "calls": 1},
                {
                    "k": "loss_call",
                    "fn": "mse_loss",
                    "line": "t.py:1",
                    "training": True,
                    "calls": 9,
                    "value_first": "nan",
                },
                {"k": "loop", "steps": 1},
                {"k": "loop", "steps": 2},
                {"k": "state", "mode": "dynamic"},
                step(2, ph={"data": 0.3}, agg={"data": [0.1, 0.3, 0.2, 2, 0]}),
            )
        ]
    )
    assert found.framework == "torch" and found.pid == 7 and found.mode == "dynamic"
    assert len(found.losses) == 1 and found.losses[0]["calls"] == 9 and "value_first" not in found.losses[0]
    assert found.loop["steps"] == 2
    assert found.phases["data"].values == (0.1, 0.2) and found.phases["samples"].values == (32.0,)
    assert found.spans == {0: (0.0, 6.0)}


def test_the_first_value_that_is_not_finite_stays_a_word():
    for value in ("nan", "inf", "-inf"):
        (found,) = fold_signals([process(step(1), {"k": "flight", "value": value, "step": 1})])
        assert found.flight["value"] == value


def test_windows_without_a_finite_value_are_counted():
    seen = process(
        step(8, loss="nan", grad_norm=2.0, agg={"loss": [None, None, None, 0, 4], "grad_norm": [1, 3, 2, 4, 0]})
    )
    loss, norm = fold_series([seen])
    assert (loss.count, loss.nonfinite, norm.low, norm.high) == (4, 4, (1.0,), (3.0,)) and math.isnan(loss.low[0])


def test_a_second_value_of_the_last_step_is_a_result_of_its_own():
    def values_of(*points):
        events = [{"k": "scalars", "source": "t", "step": n, "values": {"f1": value}} for n, value in points]
        return {s.name: s.values for s in fold_series([process(*events)])}

    assert values_of((1, 0.5), (2, 0.75), (2, 0.875)) == {"f1": (0.5, 0.75), "f1.final": (0.875,)}
    assert values_of((1, 0.5), (2, 0.75), (2, 0.75)) == {"f1": (0.5, 0.75)}
    assert values_of((1, 0.5), (1, 0.25), (2, 0.75)) == {"f1": (0.25, 0.75)}
    assert values_of((2, 0.75), (2, 0.875)) == {"f1": (0.875,)}


def test_values_logged_without_a_step_are_numbered():
    logged = [{"k": "scalars", "source": "paddle", "values": {"val/acc": value}} for value in (0.5, 0.6)]
    named = {"k": "scalars", "source": "tensorboard", "step": 40, "values": {"f1": 0.6}}
    found = {series.name: (series.steps, series.last_step) for series in fold_series([process(*logged, named)])}
    assert found == {"val/acc": ((1, 2), None), "f1": ((40,), 40)}


def test_totals_of_deleted_models_are_the_last_known_ones():
    known = {"k": "loop", "steps": 64, "trainable_n": 4, "never_grad": ["a.weight"], "never_grad_n": 1}
    gone = {"k": "loop", "steps": 90, "trainable_n": 0, "never_grad": [], "never_grad_n": 0}
    (found,) = fold_signals([process(known, gone)])
    assert found.loop["steps"] == 90 and found.loop["never_grad"] == ["a.weight"] and found.loop["trainable_n"] == 4


def test_ranks_are_in_order_and_bystanders_have_no_signals():
    env = {"WORLD_SIZE": "2"}
    ranks = [process(step(1), env={**env, "RANK": str(r)}, pid=r) for r in (1, 0)]
    assert [s.rank for s in fold_signals([*ranks, process({"k": "warning"}, pid=9)])] == [0, 1]


def test_forks_have_the_rank_of_their_process_group():
    seen = {"k": "state", "distributed": {"backend": "gloo", "world_size": 2, "rank": 1}}
    alone = {"k": "state", "distributed": {"backend": "gloo", "world_size": 1, "rank": 0}}
    found = fold_signals([process(step(1), seen, pid=8), process(step(1), alone, pid=9)])
    assert {s.pid: s.rank for s in found} == {8: 1, 9: None}


def test_many_events_stay_bounded():
    many = [{"k": "memory", "step": i} for i in range(9000)]
    (found,) = fold_signals([process(step(1), *many)])
    steps = [e["step"] for e in found.memory]
    assert len(steps) == 2000 and steps[0] == 0 and steps[-1] == 8999 and steps == sorted(steps)


def test_wide_tensor_events_stay_bounded():
    wide = [{"k": "tensors", "step": i, "params": [{"i": p} for p in range(800)]} for i in range(390)]
    (found,) = fold_signals([process(*wide)])
    assert sum(len(e["params"]) for e in found.tensors) <= 130_000 and found.tensors[-1]["step"] == 389


KINDS = ("step", "tensors", "loop", "model", "prints", "memory", "graph", "flight", "batch", "evaluation", "optimizer")
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.sampled_from(["nan", "inf", "-inf"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["ph", "agg", "data", "t"]), inner),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["step", "opt", "n", "ph", "agg", "samples", "t", "params"]), VALUES),
        max_size=5,
    )
)
def test_nonsense_is_folded(events):
    made = [{"k": kind, **event} for kind, event in zip(KINDS, events, strict=False)]
    assert len(fold_signals([process(*made)])) <= 1


def test_parameters_that_were_set_free_later_are_trainable():
    parameters = [{"i": i, "name": f"{i}.weight", "module": i, "shape": [2, 3], "trainable": False} for i in range(2)]
    modules = [{"i": i, "name": str(i), "parameters": 6, "trainable": 0} for i in range(2)]
    model = {"k": "model", "model": 0, "root": "Net", "parameters": parameters, "modules": modules}
    (found,) = fold_signals([process(step(1), model, {"k": "loop", "toggled": ["1.weight"]})])
    (known,) = found.models
    assert [row["trainable"] for row in known["parameters"]] == [False, True]
    assert [row["trainable"] for row in known["modules"]] == [0, 6]


def test_a_parent_that_only_evaluates_is_not_judged_beside_the_processes_that_train():
    evaluated = {"k": "loss_call", "fn": "nll_loss", "line": "t.py:9", "training": False, "calls": 1}
    parent = process(evaluated, pid=1)
    # `python -c "from multiprocessing.spawn import spawn_main; ..."`
    spawned = [process(step(1, losses=[2.0]), {"k": "loader", "index": 0}, pid=pid) for pid in (2, 3)]
    for child in spawned:
        child.hello["argv"] = ["/bin/python", "-c", "from multiprocessing.spawn import spawn_main", "--fork"]
    assert [s.pid for s in fold_signals([parent, *spawned])] == [2, 3]
    assert [s.label for s in fold_signals([parent, *spawned])] == ["", "process"]
    assert [s.pid for s in fold_signals([parent])] == [1]


def test_a_validation_in_the_parent_is_one_of_the_processes_that_it_started():
    phase = {"k": "evaluation", "batches": 10, "training": False}
    parent = process(phase, pid=1)
    first, second = (process(step(1, losses=[2.0]), pid=pid) for pid in (2, 3))
    assert [(s.pid, len(s.evaluations)) for s in fold_signals([parent, first, second])] == [(2, 1), (3, 0)]
    assert [(s.pid, len(s.evaluations)) for s in fold_signals([parent])] == [(1, 1)]
