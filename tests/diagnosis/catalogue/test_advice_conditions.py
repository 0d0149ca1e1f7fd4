"""A cause or fix of a page is listed only where nothing in the run refutes the condition under which it applies."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import LEFT_OUT, REFUTED, load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.finding_builder import order_advice
from labbook.diagnosis.program_traits import both_ways, iter_traits, read_program_text
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.model.evidence import Evidence, ObservedException
from labbook.model.run import CheckResult, Framework, Process, Run
from labbook.model.series import Series
from labbook.model.signals import Signals

RUN = Run("i", "finished", ("python", "a.py"), "/w", 0.0, ended=12.0, script="a.py")
NEEDS = f"{LEFT_OUT}{REFUTED}"
LOOP = "loss.backward()\noptimizer.step()\n"


def _listed(symptom: str, evidence: Evidence) -> tuple[str, str]:
    found = diagnose(evidence, Matcher(load_catalogue())).findings[0]
    return "\n".join(found.causes), "\n".join(found.fixes)


def _check(symptom: str, **more: Any) -> CheckResult:
    page = load_catalogue().symptoms[symptom]
    return CheckResult(symptom, "x", "", "y", "fail", family=page.family, tier=page.tier, **more)


def test_each_condition_of_a_page_removes_its_causes_and_fixes_where_it_is_refuted() -> None:
    guarded = [page for page in load_catalogue().symptoms.values() if any(key.startswith(NEEDS) for key in page.when)]
    assert len(guarded) > 50
    for page in guarded:
        words = page.wording_in("en")
        whole = order_advice(page, words.why, words.attempts, frozenset())
        needs = {key.removeprefix(LEFT_OUT): numbers for key, numbers in page.when.items() if key.startswith(NEEDS)}
        for refuted, (causes, fixes) in needs.items():
            left = order_advice(page, words.why, words.attempts, frozenset([refuted]))
            assert set(whole[0]) - set(left[0]) == {words.why[n - 1] for n in causes}, page.id
            assert set(whole[1]) - set(left[1]) == {words.attempts[n - 1] for n in fixes}, page.id
        assert order_advice(page, words.why, words.attempts, frozenset(needs))[1], f"{page.id} is left without a fix"


def test_each_trait_of_a_program_can_be_met_refuted_and_unknown() -> None:
    optimizers = ({"type": "Adam", "options": {"grad_clip": 1.0}}, {"type": "SGD", "options": {}})
    having = Signals(
        "torch",
        loop={"steps": 9, "clip": {"calls": 3}},
        models=({"modules": [{"type": "LSTM"}]},),
        losses=({"reduction": "sum"},),
        loaded=({"what": "model"},),
        evaluations=({"t": 1.0},),
        flight={"op": "Mean <- Log!", "step": 9, "recent": [{"grad_norm": norm} for norm in (1.0, 1.0, 9.0, 90.0)]},
        optimizers=optimizers,
    )
    lacking = Signals(
        "torch",
        loop={"steps": 9},
        models=({"modules": [{"type": "Linear"}]},),
        losses=({"reduction": "mean"},),
        flight={"op": "Mean <- Mul!", "step": 1, "recent": []},
        optimizers=({"type": "SGD", "options": {}},),
    )
    norm = Series("grad_norm", "probe", (1, 2), (1e-5, 1e-6))
    ranks = tuple(Process(7 + rank, 1, ("python", "a.py"), "main", rank=rank) for rank in (0, 1))
    rate = Series("lr", "probe", (1, 2), (0.1, 0.01))
    amp, plain = ((Framework("torch", "2", state=state),) for state in ({"amp": [{"dtype": "x"}]}, {"mode": "dynamic"}))
    has = dataclasses.replace(
        RUN,
        signals=(having,),
        series=(rate, norm),
        processes=ranks,
        frameworks=amp,
    )
    flat = dataclasses.replace(rate, values=(0.1, 0.1))
    large = dataclasses.replace(norm, values=(1.0, 2.0))
    lacks = dataclasses.replace(
        RUN,
        signals=(lacking,),
        series=(flat, large),
        processes=ranks[:1],
        frameworks=plain,
    )
    names = {name for name, _ in iter_traits(RUN, "")}
    assert both_ways(iter_traits(RUN, "")) == frozenset()
    assert both_ways(iter_traits(has, "SGD(net.fc.parameters())")) == names
    assert both_ways(iter_traits(lacks, "SGD(net.parameters())")) == {f"{REFUTED}{name}" for name in names}


@pytest.mark.parametrize(
    ("code", "advised"),
    [(LOOP, False), (LOOP + "optimizer.zero_grad()", True), ("trainer.fit(model)", True), (None, True)],
)
def test_only_the_whole_text_of_a_hand_written_loop_refutes(tmp_path: Path, code: str | None, advised: bool) -> None:
    path = tmp_path / "a.py"
    if code is not None:
        path.write_text(code)
    run = dataclasses.replace(RUN, sources=(str(path),), checks=(_check("grad_not_cleared"),))
    assert bool(read_program_text(run)) == (LOOP in (code or ""))
    causes, _ = _listed("grad_not_cleared", collect_run_evidence(run))
    assert "is missing" in causes and ("another optimizer or model" in causes) == advised


def test_a_check_that_found_nothing_rules_out_the_cause_it_would_have_found() -> None:
    fine = CheckResult("other_checks", "x", "", "y", "ok", passed=("nonfinite_input",))
    for rows, is_listed in (((), True), ((fine,), False)):
        run = dataclasses.replace(RUN, checks=(_check("loss_nonfinite"), *rows))
        causes, _ = _listed("loss_nonfinite", collect_run_evidence(run))
        assert ("The batch contains NaN" in causes) == is_listed


@pytest.mark.parametrize(("step", "is_listed"), [(1, False), (4, False), (40, True)])
def test_a_loss_that_rises_from_the_first_steps_on_has_no_checkpoint_before_the_rise(
    step: int, is_listed: bool
) -> None:
    causes, fixes = _listed("loss_diverging", Evidence(checks=(_check("loss_diverging", where={"step": step}),)))
    assert ("The data changed" in causes) == ("checkpoint" in fixes) == is_listed


@in_one_test(
    ("symptom", "signals", "advised"),
    [
        (symptom, signals, advised)
        for symptom in ("loss_diverging", "exploding_gradient", "loss_spike")
        for signals, advised in (
            (Signals("torch", loop={"steps": 9}), True),
            (Signals("torch", loop={"clip": {"calls": 9}}), False),
            (Signals("paddle", optimizers=({"options": {"grad_clip": None}},)), True),
            (Signals("paddle", optimizers=({"options": {"grad_clip": "ClipGradByGlobalNorm"}},)), False),
        )
    ],
)
def test_a_program_that_clips_gradients_is_not_advised_to_clip_them(
    symptom: str, signals: Signals, advised: bool
) -> None:
    check = CheckResult(symptom, "x", "", "y", "fail", family="gradient", tier=2)
    run = dataclasses.replace(RUN, checks=(check,), signals=(signals,))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert found.symptom == symptom and found.fixes
    assert any(fix.startswith("Clip ") for fix in found.fixes) == advised


@pytest.mark.parametrize(
    ("code", "is_listed"),
    [("", True), (LOOP, False), (f"ids = tokenizer(texts)\n{LOOP}", True)],
    ids=["?", "no", "yes"],
)
def test_words_that_the_program_lacks_rule_out_the_advice_on_a_crash(code: str, is_listed: bool) -> None:
    raised = ObservedException("IndexError", "index out of range in self")
    _, fixes = _listed("embedding_index_out_of_range", Evidence(exceptions=(raised,), framework="torch", code=code))
    assert ("resize_token_embeddings" in fixes) is is_listed
