"""Causes and fixes speak of the framework of the run, and of both where it is not known."""

from __future__ import annotations

import re

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.page_text import render_page_markdown
from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.model.check import FAMILIES
from labbook.model.evidence import Evidence, ObservedException
from labbook.model.run import CheckResult

CATALOGUE = load_catalogue()
MATCHER = Matcher(CATALOGUE)
BOTH = [page for page in CATALOGUE.symptoms.values() if {"torch", "paddle"} <= set(page.frameworks)]
ONLY_TORCH = re.compile(
    r"\btorch\.(?!py)|`import torch`|torchrun|\bzero_grad|requires_grad|(?<!\.)\bload_state_dict|(?<!model)\.float\(\)"
    r"|\.long\(\)|grad_fn|param_groups|pin_memory|ModuleList|ModuleDict|\bdim=|set_detect|inference_mode|\.permute\("
    r"|strict=|non_blocking|map_location|as_tensor|from_numpy|LazyLinear|embedding\.num_embeddings"
)
ONLY_PADDLE = re.compile(r"paddle|clear_grad|stop_gradient|set_state_dict|FLAGS_|LayerList|get_lr\(", re.IGNORECASE)
OTHER = {"torch": ONLY_PADDLE, "paddle": ONLY_TORCH}
FLOAT_LABELS = {
    "paddle": ObservedException(
        "OSError",
        'function "CrossEntropyWithSoftmaxGradCPUKernel" is not implemented for data type `float32`\n'
        "  [/paddle/paddle/phi/kernels/cpu/cross_entropy_grad_kernel.cc:206]",
    ),
    "torch": ObservedException("RuntimeError", "expected scalar type Long but found Float"),
}


def test_a_part_for_one_framework_is_said_to_it_alone() -> None:
    text = "Use {torch|`x.float()`}/{paddle|`x.astype('float32')`}{torch|, or autocast}; {a|it} passes."
    assert fill_slots(text, {}, "torch") == "Use `x.float()`, or autocast; it passes."
    assert fill_slots(text, {"a": "8"}, "paddle") == "Use `x.astype('float32')`; 8 passes."
    assert fill_slots(text, {}) == "Use `x.float()` (paddle `x.astype('float32')`), or autocast; it passes."
    chinese = "把 {a|输入} 转为 {torch|`x.float()`}/{paddle|`x.astype('float32')`} 再计算。"
    assert fill_slots(chinese, {}) == "把输入转为 `x.float()`（paddle 为 `x.astype('float32')`）再计算。"
    assert fill_slots(chinese, {"a": "fc"}, "torch") == "把 fc 转为 `x.float()` 再计算。"


def test_values_stand_within_the_part_of_a_framework() -> None:
    text = "{torch|`Linear({a.-1|n}, dim=1)`}/{paddle|`Linear({a.-1|n}, axis=1)`}"
    assert fill_slots(text, {"a": "4x8"}, "paddle") == "`Linear(8, axis=1)`"
    assert fill_slots(text, {}, "torch") == "`Linear(n, dim=1)`"


@in_one_test(
    ("framework", "cast"),
    [("torch", "torch.as_tensor(y, dtype=torch.long)"), ("paddle", 'paddle.to_tensor(y, dtype="int64")')],
)
@in_one_test("language", ["en", "zh"])
def test_float_labels_are_cast_in_the_framework_of_the_run(framework: str, cast: str, language: str) -> None:
    evidence = Evidence((FLOAT_LABELS[framework],), framework=framework)
    found = diagnose(evidence, MATCHER, language).findings[0]
    assert found.symptom == "loss_target_dtype_wrong"
    assert cast in found.fixes[0]
    assert not OTHER[framework].search(" ".join(found.fixes))


def test_both_are_told_where_the_framework_is_not_known() -> None:
    fix = diagnose(Evidence((FLOAT_LABELS["torch"],)), MATCHER).findings[0].fixes[0]
    assert "`torch.as_tensor(y, dtype=torch.long)` (paddle `paddle.to_tensor(y" in fix
    page = render_page_markdown(CATALOGUE.symptoms["grad_not_cleared"], "en")
    assert "`optimizer.zero_grad()` (paddle `optimizer.clear_grad()`)" in page and "{" not in page


@pytest.mark.parametrize(
    ("framework", "call"), [("torch", "optimizer.zero_grad()"), ("paddle", "optimizer.clear_grad()")]
)
def test_the_fix_of_a_check_is_of_the_framework(framework: str, call: str) -> None:
    check = CheckResult("grad_not_cleared", "cleared", "", "9 steps", "fail", family="loop-bug", tier=1)
    assert check.family in FAMILIES
    found = diagnose(Evidence(checks=(check,), framework=framework, clean_end=True), MATCHER).findings[0]
    assert call in found.fixes[0] and not OTHER[framework].search(" ".join((*found.fixes, *found.causes)))


def test_a_cause_of_the_other_framework_alone_is_left_out() -> None:
    check = CheckResult("missing_output_activation", "x", "", "y", "fail", family="loop-bug", tier=2)
    causes = diagnose(Evidence(checks=(check,), framework="torch", clean_end=True), MATCHER).findings[0].causes
    assert causes and all("paddle" not in cause and "{" not in cause for cause in causes)


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_no_fix_names_what_only_the_other_framework_has(framework: str, each) -> None:
    def check(page_id: str, language: str) -> None:
        page = CATALOGUE.symptoms[page_id]
        filled = [(fill_slots(fix, {}, framework), fix) for fix in page.wording_in(language).attempts]
        fixes = [fix if text is None else text for text, fix in filled]
        assert [fix for fix in fixes if OTHER[framework].search(fix) or "{torch|" in fix or "{paddle|" in fix] == []

    each(((page.id, language) for page in BOTH for language in ("en", "zh")), check)
