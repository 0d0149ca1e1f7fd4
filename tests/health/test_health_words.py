"""Every row of the checklist has Chinese words: its name, what is expected, what helps, and what was seen."""

import re

import pytest

from labbook.health.checklist import CHECKS
from labbook.report.phrases import Phrases
from labbook.store.templates import words

CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def chinese():
    return words("zh")


def test_every_check_has_a_name(chinese):
    assert not [check.id for check in CHECKS if not CHINESE.search(str(chinese["checks"].get(check.id, "")))]


@pytest.mark.parametrize("field", ["expected", "advice"])
def test_every_sentence_is_translated(chinese, field):
    phrase = Phrases(chinese["phrases"])
    said = {getattr(check, field) for check in CHECKS if field == "expected" or check.tier < 3} - {""}
    assert not sorted(text for text in said if not CHINESE.search(phrase(text)))


@pytest.mark.parametrize(
    ("english", "parts"),
    [
        ("old gradients were still there in 87 of 87 steps, norm up to 36.53", ["87 步中有 87 步", "36.53"]),
        ("from 1.311 to 1.312 over 240 values, no fall", ["从 1.311 到 1.312", "240"]),
        ("the graph is cut by detach at train.py:12: h = h.detach()", ["detach", "train.py:12: h = h.detach()"]),
        ("too few steps (60 of 100)", ["步数太少", "60"]),
        ("not observed: too few steps (60 of 100)", ["未观察到：步数太少（60，需要 100）"]),
        ("step 7: born by log in the forward of block.2 (LayerNorm)", ["第 7 步", "block.2 (LayerNorm)"]),
        ("1.17 ms, most in other (43 %)", ["1.17 ms", "43 %"]),
        ("graphs of 40 of the 40 backward calls looked at are still in memory", ["40 次反向传播中有 40 次"]),
    ],
)
def test_sentences_with_numbers(chinese, english, parts):
    told = Phrases(chinese["phrases"])(english)
    assert CHINESE.search(told) and all(part in told for part in parts), told
