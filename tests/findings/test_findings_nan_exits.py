"""The program's own test for NaN: the branch that leaves the training counts only where its text was printed."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from labbook.findings.nan_exits import find_nan_exit, find_only_exit
from labbook.review.source_file import Source

LOOP = """
    for step in range(100):
        loss = compute()
        {test}
            {output}
            {end}
        loss.backward()
        print(f"step {{step}} loss {{loss:.3f}}")
"""


def source_of(test: str, output: str, end: str) -> Source:
    text = textwrap.dedent(LOOP).format(test=test, output=output, end=end)
    return Source(Path("train.py"), "train.py", text)


@pytest.mark.parametrize(
    ("test", "output", "end", "line", "value"),
    [
        ("if torch.isnan(loss):", 'print("NaN detected at step", step)', "break", "NaN detected at step 7", "loss"),
        ("if not torch.isfinite(loss).all():", 'print("diverged")', "sys.exit(1)", "diverged", "loss"),
        ("if torch.isfinite(loss).logical_not():", 'print("diverged")', "break", "diverged", None),
        ("if loss.isnan() or loss.isinf():", 'log.error("bad loss %s", loss)', "return", "E bad loss nan", "loss"),
        ("if math.isnan(loss):", 'tqdm.write(f"loss {loss} at {step}, stop")', "break", "loss nan at 3, stop", "loss"),
        ("if loss.item() != loss.item():", "pass", 'raise OddError("NaN loss")', "OddError: NaN loss", "loss.item()"),
        ("if paddle.isnan(loss).item():", '"x"', 'sys.exit("loss is nan")', "loss is nan", "loss"),
        # The branch goes on, did not run, tests more than that, or another line prints the same.
        ("if torch.isnan(loss):", 'print("skipped a batch")', "continue", "skipped a batch", None),
        ("if torch.isnan(loss):", 'print("NaN detected")', "break", "step 7 loss 0.3", None),
        ("if torch.isnan(loss) or step > 50:", 'print("stopping now")', "break", "stopping now", None),
        ("if torch.isnan(loss):", 'print(f"step {step} loss {loss:.3f}")', "break", "step 7 loss nan", None),
        ("if torch.isnan(loss):", 'print(f"{step}: {loss}")', "break", "7: nan", None),
        # Lines of the code in a traceback are not printed by them.
        ("if torch.isnan(loss):", 'print("NaN detected")', "break", '----> 5         print("NaN detected")', None),
        ("if loss > 3:", 'print("NaN detected")', "break", "NaN detected", None),
    ],
)  # fmt: skip
def test_a_branch_that_left_the_training(test, output, end, line, value):
    found = find_nan_exit(source_of(test, output, end), ["start", line, "end"])
    assert (found.value if found else None) == value
    assert found is None or (found.line == 4 and found.printed == line)


def test_the_other_branch_of_a_test_for_finite_values():
    text = "while 1:\n    if torch.isfinite(x):\n        step()\n    else:\n        print('gave up')\n        break\n"
    found = find_nan_exit(Source(Path("a.py"), "a.py", text), ["gave up"])
    assert found is not None and (found.value, found.line) == ("x", 2)


@pytest.mark.parametrize(
    ("change", "backwards", "found"),
    [
        (("", ""), 3, True),
        (("", ""), 100, False),
        (("", ""), 0, True),
        (("def train():", "if __name__ == '__main__':"), 0, True),
        (("def train():", "if fits:"), 0, False),
        (("    for step", "    if not x:\n        exit()\n    for step"), 0, False),
        (("range(100)", "loader"), 3, False),
        (("range(100)", "range(COUNT)"), 3, True),
        (("        loss.backward()", "        if step > 5:\n            break\n        loss.backward()"), 3, False),
        (("        loss.backward()", "        if step % 2:\n            loss.backward()"), 3, False),
        (("            break", "            continue"), 3, False),
        (("torch.isnan(loss)", "loss > 3"), 3, False),
        (("        loss.b", "        try:\n            go()\n        finally: end()\n        loss.b"), 3, False),
    ],
)  # fmt: skip
def test_a_silent_branch_is_the_only_end_of_the_loop(change, backwards, found):
    """Nothing is printed: the number of steps and what may end the loop show that the branch ran."""
    loop = (
        "for step in range(100):\n    loss = compute()\n    if torch.isnan(loss):\n        break\n    loss.backward()\n"
    )
    text = "COUNT = 50\ndef train():\n" + textwrap.indent(loop, "    ") + "train()\n"
    source = Source(Path("a.py"), "a.py", text.replace(*change))
    exit = find_only_exit(source, backwards)
    assert (exit is not None) == found
    assert exit is None or (exit.value, exit.line, exit.count) == ("loss", 5, 50 if "COUNT)" in change[1] else 100)
