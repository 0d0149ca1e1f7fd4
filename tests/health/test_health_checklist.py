"""Each row is true, and a missing signal is never read as health."""

import dataclasses
import math
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.check_pages import check_pages
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.health.causes import ORDER, explanations
from labbook.health.checklist import CHECKS, CLASSIC, _causes_of, checklist, correct_significance
from labbook.model.check import FAMILIES, Outcome
from labbook.model.message import message
from labbook.model.run import Framework, ProbeReport, Process, Run
from labbook.model.series import Series
from labbook.model.signals import Signals
from labbook.review.reviewer import RULES

PAGES = check_pages(load_catalogue().symptoms)
FIELDS = (
    "models",
    "tensors",
    "batches",
    "prints",
    "losses",
    "loaded",
    "graphs",
    "loop",
    "evaluations",
    "loaders",
    "memory",
)
KEYS = (
    *(
        "step",
        "params",
        "modules",
        "functions",
        "model",
        "i",
        "name",
        "history",
        "w",
        "g",
        "ratio",
        "bad",
        "dead",
        "dead_n",
    ),
    *("across", "leaves", "labels", "prints", "rows", "histogram", "phase", "loader", "epoch", "cleared", "0", "stale"),
    *("scheduler", "accumulation", "cut", "foreign", "unreachable", "fn", "calls", "classes", "value_first", "input"),
    *("shape", "graphs", "rss", "device", "allocated", "init", "std", "order", "module", "trainable", "options"),
)


def made(name, values, source="probe", rank=None):
    values = tuple(values)
    return Series(
        name,
        source,
        tuple(range(1, len(values) + 1)),
        values,
        values,
        values,
        len(values),
        sum(not math.isfinite(v) for v in values),
        rank,
    )


def run_with(*series, steps=3, state=None, **fields):
    state = {"seeds": {"torch": 1}, "deterministic": {"use_deterministic_algorithms": True}} if state is None else state
    defaults = {
        "frameworks": (Framework("torch", "2", state=state),),
        "processes": (Process(1, 0, ("train.py",), "main", steps=steps),),
        "probe": ProbeReport("ok", 0.004),
    }
    return Run("i", fields.pop("status", "finished"), ("python",), "/", 0.0, series=series, **{**defaults, **fields})


def cost(sustained_s, fraction):
    return ProbeReport("ok", 0.08, setup_s=0.3, sustained_s=sustained_s, sustained_fraction=fraction)


def rows(run):
    return {row.id: row for row in checklist(run, PAGES)}


HEALTHY = (made("loss", [2.0, 1.0, 0.5]), made("grad_norm", [1.0, 2.0, 1.0]), made("lr", [0.1] * 3))


def test_a_healthy_run_is_all_ok():
    found = rows(run_with(*HEALTHY))
    assert {row.verdict for row in found.values()} == {"ok", "not observed"}
    assert found["learning_rate_seen"].observed == "constant 0.1"
    assert found["grad_not_cleared"].observed == "not observed: the training loop was not followed"


def of_two_optimizers(*counts, steps):
    series = [Series(name, "probe", (1, n), (1.0, 2.0)) for name, n in zip(("loss", "loss.opt1"), counts, strict=True)]
    return run_with(*series, steps=steps)


@in_one_test(
    ("check", "run", "verdict", "words"),
    [
        (
            "loss_nonfinite",
            run_with(made("loss", [1, math.nan, math.nan])),
            "fail",
            "2 of 3 values not finite, first in step 2",
        ),
        ("loss_nonfinite", run_with(made("loss", [1, math.inf, 1])), "warn", "first in step 2"),
        ("loss_nonfinite", run_with(made("train_loss", [1, 2], "text")), "ok", "read from the console"),
        ("nonfinite_gradient", run_with(made("grad_norm", [1, math.nan])), "fail", "1 of 2"),
        ("gradient_all_zero", run_with(made("grad_norm", [1, 0, 0, 0, 1])), "fail", "3 points from step 2"),
        ("gradient_all_zero", run_with(made("grad_norm", [1, 0, 0, 1])), "ok", "1 to 1; 0 in 2 steps"),
        (
            "amp_scale_collapse",
            run_with(made("grad_scale", [65536, 32768, 65536])),
            "ok",
            "lowered 1 time, lowest 32768",
        ),
        ("amp_scale_collapse", run_with(made("grad_scale", [2.0**i for i in range(16, -1, -1)])), "warn", "lowest 1"),
        ("learning_rate_seen", run_with(made("lr", [0, 0])), "fail", "0 in every step"),
        ("learning_rate_seen", run_with(made("lr", [0.1, math.nan])), "fail", "1 non-finite value"),
        ("learning_rate_seen", run_with(made("lr", [0.1, 0.01])), "ok", "0.01 to 0.1"),
        ("seeds_set", run_with(state={"seeds": {}}), "note", "no seed"),
        ("seeds_set", run_with(state={"seeds": {"torch": 0}}), "ok", "torch 0"),
        (
            "seeds_set",
            run_with(state={"seeds": {"torch": 0, "python": None}}),
            "note",
            "torch 0; drawn from without a seed: random",
        ),
        ("seeds_set", run_with(state={"seeds": {"torch": 0, "numpy": None, "numpy, later": 3}}), "ok", "numpy 3"),
        ("seeds_set", run_with(state={"seeds": {"torch": 0, "torch, later": 4}}), "ok", "torch 0 → 4"),
        (
            "determinism",
            run_with(state={"deterministic": {"cudnn.benchmark": True, "OMP_NUM_THREADS": "1"}}),
            "note",
            "not enabled",
        ),
        ("probe_overhead", run_with(probe=ProbeReport("ok", 0.08)), "note", "8.0 %"),
        ("probe_overhead", run_with(probe=ProbeReport("ok", 0.7), ended=0.4), "ok", "0.28 s"),
        ("probe_overhead", run_with(probe=ProbeReport("ok", None)), "not observed", "did not end normally"),
        ("probe_overhead", run_with(probe=cost(0.1, 0.01)), "ok", "time after warm-up; set-up, once: 0.30 s"),
        ("probe_overhead", run_with(probe=cost(0.4, 0.05)), "ok", "0.40 s;"),
        ("probe_overhead", run_with(probe=cost(4.0, 0.05)), "note", "5.0 %"),
        ("probe_overhead", run_with(probe=cost(4.0, 0.026)), "ok", "2.6 %"),
        (
            "steps_counted",
            run_with(processes=tuple(Process(r, 0, (), "child", rank=r, steps=5 + r) for r in (0, 1))),
            "warn",
            "rank 1: 6",
        ),
        (
            "steps_counted",
            run_with(processes=tuple(Process(r, 0, (), "child", rank=r, steps=5) for r in (0, 1))),
            "ok",
            "5 steps on each of 2 ranks",
        ),
        (
            "steps_counted",
            run_with(
                processes=(Process(1, 0, ("a.py",), "child", steps=5), Process(2, 0, ("b.py",), "child", steps=6))
            ),
            "ok",
            "5 steps in a.py; 6 steps in b.py",
        ),
        ("steps_counted", of_two_optimizers(60, 30, steps=60), "ok", "60, 30 steps of the optimizers"),
        ("steps_counted", of_two_optimizers(60, 30, steps=90), "ok", "90 steps"),  # one after the other
        ("steps_counted", of_two_optimizers(60, 60, steps=60), "ok", "60 steps"),
    ],
)
def test_rows(check, run, verdict, words):
    row = rows(run)[check]
    assert row.verdict == verdict and words in row.observed


@in_one_test(
    ("run", "reason"),
    [
        (
            run_with(made("loss", [1.0], "text"), probe=ProbeReport("absent"), frameworks=(), processes=()),
            "the probe did not start",
        ),
        (run_with(made("loss", [1.0], "labbook"), frameworks=(), processes=()), "no training framework was imported"),
        (run_with(steps=0), "no optimizer step was seen"),
        (run_with(steps=9), "no value was recorded"),
        (run_with(frameworks=(Framework("torch", "2", declined={"grad_norm": "sharded"}),)), "sharded"),
        (
            run_with(
                probe=ProbeReport("partial", 0.0, (("loss and gradient norm of some steps", "the device was busy"),))
            ),
            "the device was busy",
        ),
    ],
)
def test_a_missing_signal_has_its_reason(run, reason):
    row = rows(run)["nonfinite_gradient"]
    assert row.verdict == "not observed" and reason in row.observed


def test_what_a_trial_shares_with_others_is_checked_in_the_entry_of_their_run():
    shared = dataclasses.replace(run_with(*HEALTHY), captured={"trial": {"run": "r", "number": 1, "shared": True}})
    found = [row for row in checklist(shared, PAGES) if row.verdict == "not observed"]
    assert found and all("in the entry of the run" in row.observed for row in found if row.id == "init_loss_off")
    assert not [row.id for row in found if "no loss function" in row.observed or "was not followed" in row.observed]


def test_a_run_that_trains_nothing_has_no_checklist():
    assert checklist(Run("i", "finished", ("ls",), "/", 0.0), PAGES) == []


def test_a_check_that_fails_is_a_row_not_an_end(monkeypatch):
    broken = dataclasses.replace(run_with(*HEALTHY), probe=None)
    assert any("the check failed" in row.observed for row in checklist(broken, PAGES))


def test_every_check_names_its_source():
    assert not [check.id for check in CHECKS if "Source:" not in (check.run.__doc__ or "")]


def test_ids_are_unique_and_known():
    ids = [check.id for check in CHECKS]
    assert len(ids) == len(set(ids))
    assert set(CLASSIC) <= set(ids)
    of_code = {rule.symptom for rule in RULES if rule.row}
    assert set(ORDER) <= {*ids, *of_code} and len(ORDER) == len(set(ORDER))
    assert set(ORDER) <= set(PAGES.causes_of)
    assert {check.family for check in CHECKS} | {rule.row for rule in RULES} <= {*FAMILIES, ""}
    assert {check.family for check in CHECKS} <= set(FAMILIES) and {check.tier for check in CHECKS} == {1, 2, 3}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_check_has_its_words_on_its_page(language):
    for check in CHECKS:
        words = PAGES.wording[check.id][language]
        assert words.title and words.expected and words.advice, check.id
        assert len(words.title) <= 45 and not words.title.endswith("."), check.id
        assert language == "en" or re.search("[\u4e00-\u9fff]", words.title), check.id


def test_advice_has_no_confirmation():
    """The first thing to try without the sentence that says how to see that it helped."""
    words = PAGES.wording["grad_not_cleared"]
    assert words["en"].advice.startswith("Call `optimizer.zero_grad()`") and words["zh"].advice.endswith("。")
    for check in CHECKS:
        english, chinese = (PAGES.wording[check.id][language].advice for language in ("en", "zh"))
        assert not re.search(r"(?:It worked|Fixed) (?:when|if)", english), check.id
        assert not re.search(r"即(?:成功|为有效|修复)", chinese), check.id


STALE = {
    "loop": {
        "steps": 300,
        "backwards": 300,
        "optimizers": 1,
        "stale": {"0": {"tensors": 4, "held": 4}},
        "outside": ["w"],
        "outside_n": 1,
    }
}


def test_effects_stand_under_their_cause(make_run, make_series):
    random_ = random.Random(0)
    flat = make_series("loss", [2.3 + random_.gauss(0, 0.02) for _ in range(300)])
    found = checklist(make_run(flat, signals=STALE), PAGES)
    assert [(row.id, row.explained_by) for row in found[:3]] == [
        ("optimizer_params_stale", ""),
        ("grad_param_not_in_optimizer", "optimizer_params_stale"),
        ("loss_not_decreasing", "optimizer_params_stale"),
    ]
    assert found[0].detail and found[0].tier == 1 and found[0].family == "gradient"


@pytest.mark.parametrize(
    ("norms", "made", "cause"),
    [((5.4, 3.7, 1.7), {"op": "Sqrt"}, ""), ((1.0, 2.0, 90.0), {"op": "Sqrt"}, "update_too_large"),
     ((5.4, 3.7, 1.7), None, "update_too_large")],
)  # fmt: skip
def test_large_steps_explain_no_value_that_the_loss_made_of_finite_ones(norms, made, cause):
    recent = [{"step": step, "grad_norm": norm} for step, norm in enumerate(norms)]
    flight = {"finding": "loss expression", "step": 41, "made": made, "recent": recent}
    causes_of = _causes_of(run_with(signals=(Signals("torch", flight=flight),)), PAGES.causes_of)
    found = {"update_too_large": None, "loss_nonfinite": 41, "loss_oscillating": 41}
    assert explanations(found, causes_of).get("loss_nonfinite", "") == cause
    assert explanations(found, causes_of)["loss_oscillating"] == "update_too_large"


def test_a_cause_does_not_come_after_its_effect():
    found = {"loss_nonfinite": 20, "nonfinite_gradient": 19}
    assert explanations(found, PAGES.causes_of) == {"loss_nonfinite": "nonfinite_gradient"}
    same = {"loss_nonfinite": 20, "nonfinite_gradient": 20}
    assert explanations(same, PAGES.causes_of) == {"nonfinite_gradient": "loss_nonfinite"}


def test_what_the_wrong_input_of_a_loss_does_to_a_model_is_no_fault_of_its_layers():
    found = dict.fromkeys(("softmax_before_cross_entropy", "dead_relu", "activation_collapse", "loss_at_chance"))
    assert set(explanations(found, PAGES.causes_of).values()) == {"softmax_before_cross_entropy"}
    assert len(explanations(found, PAGES.causes_of)) == 3


def test_explanations_end_at_a_root():
    for seed in range(200):
        chosen = random.Random(seed).sample(ORDER, 12)
        causes = explanations(dict.fromkeys(chosen), PAGES.causes_of)
        assert not set(causes.values()) & set(causes), (chosen, causes)


def test_silence_is_counted(make_run, make_series):
    found = checklist(make_run(make_series("loss", [1.0, 0.5, 0.3]), signals={}), PAGES)
    assert found[-1].id == "other_checks" and found[-1].observed.endswith("not observed")
    assert any("no batch was seen" in sentence for sentence in found[-1].evidence)


def test_the_worst_rank_speaks(make_run, make_series):
    signals = [
        Signals("torch", rank=r, loop={**STALE["loop"], "stale": {} if r == 0 else STALE["loop"]["stale"]})
        for r in (0, 1)
    ]
    series = [make_series("loss", [1.0, 0.5], rank=r) for r in (0, 1)]
    row = next(
        row for row in checklist(make_run(*series, signals=signals), PAGES) if row.id == "optimizer_params_stale"
    )
    assert row.verdict == "fail" and row.where == {"rank": 1}


def test_many_weak_tests_do_not_add_up():
    tests = [(check, Outcome("warn", message("health.all"), p=0.004)) for check in CHECKS[:10]]
    assert {outcome.verdict for _, outcome in correct_significance(tests)} == {"ok"}
    assert correct_significance([(CHECKS[0], Outcome("warn", message("health.all"), p=0.004))])[0][1].verdict == "warn"


NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(FIELDS), st.lists(st.dictionaries(st.sampled_from(KEYS), NONSENSE), max_size=3)))
def test_nonsense_costs_no_entry(read_signals, fields):
    reported = {name: tuple(rows) if name != "loop" else (rows or [{}])[0] for name, rows in fields.items()}
    found = checklist(run_with(*HEALTHY, signals=(read_signals(Signals("torch", **reported)),)), PAGES)
    assert found and all(row.verdict in ("ok", "warn", "fail", "note", "not observed") for row in found)


@pytest.mark.parametrize(
    ("lost", "norm", "verdict"), [(6, 0.4, "ok"), (6, 0.0, "fail"), (2, 0.4, "fail")], ids=["trained", "idle", "part"]
)
def test_a_gradient_norm_refutes_that_no_parameter_of_an_optimizer_trains(ask, make_series, lost, norm, verdict):
    norms = make_series("grad_norm.opt3", [norm] * 42)
    signals = {"loop": {"steps": 100, "stale": {"3": {"tensors": lost, "held": 6, "elements": 611}}}}
    assert ask("optimizer_params_stale", norms, signals=signals).verdict == verdict
