"""Each rule on small programs: those with a fault are named, those without are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from order_of_tests import in_one_test

from labbook.review.reviewer import RULES, review_files
from labbook.store.text.sentences import Sentences

DATA = Path(__file__).resolve().parents[1] / "data" / "review"

TORCH = """import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        return self.last(self.drop(F.relu(self.first(x))))

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
PADDLE = """import paddle
from paddle import nn

class Model(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        return self.last(self.drop(nn.functional.relu(self.first(x))))

paddle.seed(0)
data = paddle.io.TensorDataset([paddle.randn([64, 4]), paddle.randint(0, 3, [64])])
loader = paddle.io.DataLoader(data, batch_size=8, shuffle=True)
model = Model()
loss_fn = nn.CrossEntropyLoss()
opt = paddle.optimizer.Adam(learning_rate=0.01, parameters=model.parameters())
"""
FRONTS = {"[torch]": TORCH, "[paddle]": PADDLE, "": ""}


def cases(name: str) -> list[tuple[str, str]]:
    """What the title of each program says, and its text."""
    found = []
    for block in (DATA / name).read_text(encoding="utf-8").split("\n#### ")[1:]:
        title, _, code = block.partition("\n")
        said, _, front = title.partition(" [")
        found.append((said, FRONTS[f"[{front}" if front else ""] + code))
    return found


def named(tmp_path: Path, code: str) -> list[str]:
    script = tmp_path / "train.py"
    script.write_text(code, encoding="utf-8")
    done = review_files([script])
    assert not done.problems
    for violation in (*done.violations, *review_files([script], "zh").violations):
        # A sentence whose values are missing would be its key; one with a value left out would hold its braces.
        assert not any(said.startswith("review.") for said in (violation.what, violation.advice)), violation
        assert "{" not in violation.what.replace("{}", ""), violation
    return [violation.rule for violation in done.violations if violation.severity != "note"]


@in_one_test(("rule", "code"), [pytest.param(*one, id=f"{n}-{one[0]}") for n, one in enumerate(cases("faulty.txt"))])
def test_a_faulty_program_violates_one_rule(tmp_path, rule, code):
    assert set(named(tmp_path, code)) == {rule}


@in_one_test("code", [pytest.param(one[1], id=f"{n}-{one[0]}") for n, one in enumerate(cases("correct.txt"))])
def test_correct_code_violates_no_rule(tmp_path, code):
    assert named(tmp_path, code) == []


def test_every_rule_of_an_error_or_warning_has_a_program():
    shown = {rule for rule, _ in cases("faulty.txt")}
    assert {rule.name for rule in RULES if rule.severity != "note"} == shown


def test_every_rule_has_both_languages_and_a_source():
    for rule in RULES:
        assert rule.source, rule.name
        for part in ("what", "advice"):
            key = rule.message_key(part)
            english, chinese = (Sentences(language).template(key) for language in ("en", "zh"))
            assert english and chinese and english != chinese, key
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_symptoms_of_rules_are_in_the_catalogue():
    pages = {path.stem for path in (Path(__file__).resolve().parents[2] / "labbook" / "symptoms").glob("*.md")}
    assert {rule.symptom for rule in RULES if rule.symptom} <= pages


@pytest.mark.parametrize(
    ("distance", "found"),
    [
        ("torch.sqrt(((one - other) ** 2).sum(1))", True),
        ("(one - other).square().sum(dim=1).sqrt()", True),
        ("torch.sqrt(((one - other) ** 2).sum(1) + 1e-12)", False),
        ("torch.sqrt((one ** 2).sum())", False),
        ("torch.sqrt(((one - other) ** 2).mean())", False),
    ],
)
def test_a_root_of_a_sum_of_squares_in_each_row_is_a_note(tmp_path, distance, found):
    script = tmp_path / "loss.py"
    script.write_text(f"import torch\n\ndef loss(one, other):\n    return {distance}.mean()\n", encoding="utf-8")
    noted = [(one.rule, one.severity) for one in review_files([script]).violations]
    assert noted == ([("infinite-gradient", "note")] if found else [])


@pytest.mark.parametrize(
    ("wrong", "right", "rule"),
    [
        ("x / x.norm()", "x / (x.norm() + 1e-8)", "divisor-of-zero"),
        ("(x - x.mean()) / x.std(0)", "(x - x.mean()) / x.std(0).clamp(min=1e-6)", "divisor-of-zero"),
        ("(x - m) / torch.sqrt(x.var(0))", "(x - m) / torch.sqrt(x.var(0) + 1e-5)", "divisor-of-zero"),
        ("(x * y).sum() / (x.norm(dim=1) * y.norm(dim=1))", "(x * y).sum() / (3 * y.exp().sum(1))", "divisor-of-zero"),
        ("x.sum() / (y > 0).float().sum()", "x.sum() / (y > 0).sum().clamp(min=1)", "divisor-of-zero"),
        ("F.relu(x) / F.relu(x).sum(1)", "F.relu(x) / F.softmax(x).sum(1)", "divisor-of-zero"),
        (
            "2 * (x * y).sum() / (x.sum() + y.sum())",
            "(2 * (x * y).sum() + 1) / (x.sum() + y.sum() + 1)",
            "divisor-of-zero",
        ),
        ("y / (x.pow(2).sum().sqrt() * 2)", "y / (x.pow(2).sum() + 1e-8).sqrt()", "divisor-of-zero"),
        ("(x * y) / (x * y).sum(1)", "(x * y) / (2 * x.exp()).sum(1)", "divisor-of-zero"),
        ("y / (torch.exp(-x) @ m)", "y / (torch.exp(-x) @ m + 1e-9)", "divisor-of-zero"),
        ("(y > 0).sum(1).pow(-0.5)", "(y > 0).sum(1).clamp(min=1).pow(-0.5)", "divisor-of-zero"),
        ("y.sum() / torch.bincount(y)", "y.sum() / torch.bincount(y).clamp(min=1)", "divisor-of-zero"),
        ("x / x.norm()", "torch.nan_to_num(x / x.norm())", "divisor-of-zero"),
        ("x / x.norm()", "x / x.norm() if x.any() else x", "divisor-of-zero"),
        ("torch.log(F.linear(x, m))", "torch.log(F.softplus(F.linear(x, m)))", "unstable-logarithm"),
        ("torch.log(F.relu(x))", "torch.log(F.softplus(x))", "unstable-logarithm"),
        ("torch.log(1 - torch.tanh(x) ** 2)", "torch.log(1 - torch.tanh(x) ** 2 + 1e-6)", "unstable-logarithm"),
        ("torch.log(1 + torch.exp(x))", "torch.log(1 + torch.exp(-x.abs()))", "overflowing-exponential"),
        ("torch.log(y / x.exp().sum(1))", "torch.log(y / y.sum(1))", "overflowing-exponential"),
        ("torch.acos((y @ x - 1) / 2)", "torch.acos((y @ x).clamp(-0.99, 0.99))", "infinite-gradient"),
        ("torch.acosh(1 + 2 * x / y)", "torch.acosh((1 + 2 * x / y).clamp(min=1.001))", "infinite-gradient"),
        ("x * torch.log(x / y)", "x * torch.log(x / y + 1e-9)", "logarithm-times-itself"),
        ("x * x.log()", "x.exp() * x", "logarithm-times-itself"),
        ("(x - y).pow(0.5)", "(x - y).pow(2)", "power-of-negative"),
        ("torch.pow(x - y, 1.5)", "torch.pow((x - y).abs(), 1.5)", "power-of-negative"),
        ("(x - y).pow(1.5)", "(m ** 2 + x.pow(2)).pow(1.5)", "power-of-negative"),
        ("torch.where(x > 0, x.log(), y)", "torch.where(x > 0, x.clip(1e-6).log(), y)", "gradient-of-branch-not-taken"),
    ],
)
def test_an_operation_that_is_not_finite_everywhere_unless_its_argument_is_bounded(tmp_path, wrong, right, rule):
    code = (
        "import torch\nimport torch.nn.functional as F\n\ndef loss(x, y, m):\n    for _ in range(2):\n        m = {}\n"
    )
    script = tmp_path / "loss.py"
    script.write_text(code.format(wrong), encoding="utf-8")
    assert [one.rule for one in review_files([script]).violations] == [rule]
    script.write_text(code.format(right), encoding="utf-8")
    assert review_files([script]).violations == ()


@pytest.mark.parametrize(
    ("made", "vectors", "found"),
    [
        ("s.p = nn.Parameter(torch.randn(12, 8))", "s.e(x)", True),
        ("s.p = nn.Parameter(torch.randn(12, 8))", "s.e(x) + s.p", False),
        ("s.p = nn.Parameter(torch.randn(1, 1, 8))", "torch.cat([s.p.expand(len(x), 1, 8), s.e(x)], 1)", True),
        ("s.register_buffer('p', torch.randn(12, 8))", "s.p + s.e(x)", False),
    ],
)
def test_a_tensor_of_the_model_that_is_added_to_tokens_may_be_their_positions(tmp_path, made, vectors, found):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(s):\n        super().__init__()\n"
        "        s.e, s.t = nn.Embedding(10, 8), nn.TransformerEncoderLayer(8, 2, batch_first=True)\n"
        f"        {made}\n    def forward(s, x):\n        return s.t({vectors})\n"
        "def train(net, x, loss_fn):\n    loss_fn(net(x)).backward()\n",
        encoding="utf-8",
    )

    noted = [one.rule for one in review_files([script]).violations]

    assert noted == (["positions-missing"] if found else [])


def test_data_that_is_scaled_once_is_not_noted(tmp_path):
    script = tmp_path / "data.py"
    script.write_text("import torch\nx = torch.randn(9, 3)\nx = (x - x.mean(0)) / x.std(0)\n", encoding="utf-8")
    assert review_files([script]).violations == ()


@pytest.mark.parametrize(
    ("scaling", "division", "found"),
    [
        ("(x - x.mean(0)) / x.std(0)", "a, b = train_test_split(z, test_size=0.2)", True),
        ("(x - low) / (high - low)", "a, b = z[:800], z[800:]", True),
        ("(x - x.mean(1, keepdims=True)) / x.std(axis=1, keepdims=True)", "a, b = z[:800], z[800:]", False),
        ("(x - x[:800].mean(0)) / x[:800].std(0)", "a, b = z[:800], z[800:]", False),
        ("(x - x.mean(0)) / x.std(0)", "a = z[:64]", False),
    ],
)
def test_rows_that_are_scaled_before_they_are_split_are_noted(tmp_path, scaling, division, found):
    script = tmp_path / "data.py"
    before = "import torch\nlow, high = x.min(axis=0), x.max(axis=0)\n"
    script.write_text(f"{before}z = {scaling}\n{division}\n", encoding="utf-8")
    assert [one.rule for one in review_files([script]).violations] == (["scaled-before-split"] if found else [])
