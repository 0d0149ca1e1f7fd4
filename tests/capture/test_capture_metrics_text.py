"""Metrics are read from what the usual trainers print, and from nothing that only looks like one."""

import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.capture.metrics_text import metrics_from_console

DATA = Path(__file__).parents[1] / "data" / "metrics"


def read(text):
    return {s.name: list(zip(s.steps, s.values, strict=True)) for s in metrics_from_console(text)}


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda p: p.stem)
def test_formats(path):
    text = path.with_suffix(".txt").read_text(encoding="utf-8")
    expected = {k: [tuple(p) for p in v] for k, v in json.loads(path.read_text(encoding="utf-8")).items()}
    assert read(text) == expected
    assert all(s.source == "text" for s in metrics_from_console(text))


def test_numbers_that_are_none():
    series = metrics_from_console("iter 0: loss 4.2, time 3ms\niter 10: loss nan\niter 20: loss: -inf\n")[0]
    assert series.steps == (0, 10, 20) and series.nonfinite == 2
    assert math.isnan(series.values[1]) and series.values[2] == -math.inf


NOTHING = (DATA / "no_metrics.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", [*NOTHING, "\n".join(NOTHING)])
def test_words_that_only_look_like_metrics(line):
    assert read(line) == {}


@given(st.text())
def test_any_text_is_read(text):
    for series in metrics_from_console(text + "\nstep 3 loss: 0.5"):
        assert list(series.steps) == sorted(set(series.steps)) and len(series.steps) == len(series.values)


@pytest.mark.parametrize(
    "piece",
    ["loss ", "loss_", "acc", ": ", "loss: " + "1" * 50, "epoch [(", "train ", "[1/2", "第1轮", "loss(", "a.b/c-d@"],
)
def test_time_grows_with_the_text_only(piece):
    """Ten times the text may take thirty times as long, not a hundred times."""

    def cost(lines):
        text = "\n".join([piece * (1900 // len(piece))] * lines)
        started = time.process_time()
        metrics_from_console(text)
        return time.process_time() - started

    assert cost(300) <= 30 * max(cost(30), 0.005)


def test_many_values_are_downsampled_without_losing_extremes():
    text = "\n".join(f"step {i} loss: {100 if i == 777 else 1}.0 m{i}_loss: 1.0" for i in range(9000))
    found = metrics_from_console(text)
    loss = next(s for s in found if s.name == "loss")
    assert len(found) <= 48 and len(loss.values) < 2100 and loss.count == 9000 and max(loss.high) == 100.0
