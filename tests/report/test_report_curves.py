"""The picture and the table of curves: valid, small, honest."""

import csv
import io
import math
import random
import re
from dataclasses import replace
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.model.series import Series
from labbook.report.axes import make_axis, tick_label
from labbook.report.curves import curves_svg, drawable, metrics_csv
from labbook.report.panels import choose_panels
from labbook.store.text.templates import words


def made(name, values, source="probe", rank=None, steps=None):
    values = tuple(values)
    steps = tuple(steps or range(1, len(values) + 1))
    return Series(
        name, source, steps, values, values, values, len(values), sum(not math.isfinite(v) for v in values), rank
    )


@in_one_test("ranks", [1, 8, 64])
@in_one_test("metrics", [1, 40])
def test_it_stays_small_and_is_xml(ranks, metrics):
    dice = random.Random(1)
    series = [
        made(n, [dice.random() * 100 for _ in range(3000)], rank=r)
        for r in range(ranks)
        for n in ("loss", "grad_norm", "lr")
    ]
    series += [made(f"m{i}", [dice.random() for _ in range(500)], "wandb") for i in range(metrics)]
    svg = curves_svg(series, "train.py: finished")
    assert len(svg.encode()) < 60_000
    root = ElementTree.fromstring(svg)
    assert root.find("{http://www.w3.org/2000/svg}title").text == "train.py: finished"
    assert "prefers-color-scheme:dark" in svg and "http://www.w3.org/2000/svg" in svg and "href" not in svg


_floats = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.lists(_floats, min_size=1, max_size=60), min_size=1, max_size=5), st.text(max_size=20))
def test_any_numbers_make_a_picture_or_none(columns, name):
    series = [made(name if i else "loss", values, rank=i or None) for i, values in enumerate(columns)]
    svg = curves_svg(series, name)
    assert bool(svg) == drawable(series)
    if svg:
        ElementTree.fromstring(svg)
        assert "nan" not in svg.replace("NaN", "") or "nan" in name.lower()
    rows = list(csv.reader(io.StringIO(metrics_csv(series))))
    columns = ["series", "source", "rank", "step", "value", "low", "high", "axis"]
    assert rows[0] == columns and all(len(row) == 8 for row in rows)


def test_hostile_names_are_text():
    svg = curves_svg([made('<script>"&\x00\ud800', [1, 2], rank=0), made("b\u202e", [1, 2])], "<b>\x1b")
    assert "<script" not in svg and "\x00" not in svg
    ElementTree.fromstring(svg.encode())


def test_the_step_without_a_number_is_marked():
    svg = curves_svg([made("loss", [1.0, 2.0] * 100 + [math.nan] * 10)], "t")
    assert "NaN from step 201" in svg


def test_values_that_are_no_numbers_are_marked_to_the_end():
    svg = curves_svg([made("loss", [1.0, 2.0] * 60 + [math.nan] * 240)], "t")
    first, last = re.search(r'd="M([\d.]+) [\d.]+H([\d.]+)" stroke="var\(--bad\)"', svg).groups()
    assert float(first) < 300 and float(last) > 700
    apart = curves_svg([made("loss", [math.nan if step % 2 else 1.0 for step in range(4000)])], "t")
    assert apart.count("H") < 200


def test_a_spike_is_not_lost():
    values = [1.0] * 10_000
    values[5_000] = 77.0
    text = metrics_csv([made("loss", values), made("acc", [0.1] * 9000, "text")])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) < 4500 and max(float(r["high"]) for r in rows) == 77.0
    assert {(r["step"], r["value"]) for r in rows} >= {("1", "1"), ("5001", "77"), ("10000", "1")}


def test_what_belongs_together_shares_a_panel():
    series = [
        made("loss", [1.0] * 100),
        made("val/loss", [1.0] * 3, "tensorboard", steps=[30, 60, 99]),
        made("train_acc", [0.5] * 9, "text"),
        made("val_acc", [0.5] * 9, "text"),
        made("loss", [1.0] * 3, "text", steps=[1, 2, 3]),
        made("tune.py/loss", [1.0] * 5),
        made("lr", [0.1] * 100, rank=0),
        made("lr", [0.1] * 100, rank=1),
        made("step_time_s", [0.1] * 9),
        made("once", [1.0]),
    ]
    panels, more = choose_panels(series)
    seen = {p.title: [label for label, _ in p.lines] for p in panels}
    assert seen == {
        "loss": ["loss", "val/loss"],
        "loss (text)": [""],
        "lr": [""],
        "acc": ["train_acc", "val_acc"],
        "tune.py/loss": [""],
    }
    assert more == 0


def test_axes_are_round_and_hold_everything():
    axis = make_axis([0.0013, 1.5, 2.0, 2.31], 100, 0, log_from=100)
    assert not axis.log and axis.ticks(5) == [0, 0.5, 1, 1.5, 2]
    assert make_axis([1e-4] * 50 + [5.0], 100, 0, log_from=100).log
    assert not make_axis([1e-4] + [5.0] * 50, 100, 0, log_from=100).log
    assert [tick_label(v) for v in (0, 1000, 25000, 1.5e6, 1e-05, 0.25)] == [
        "0",
        "1,000",
        "25k",
        "1.5M",
        "1e-5",
        "0.25",
    ]


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_every_value_stands_inside(values):
    axis = make_axis(values, 100, 0, log_from=100)
    assert all(-1e-6 <= axis.position_of(v) <= 100.000001 for v in values)
    assert len(axis.ticks(4)) < 20


def test_what_says_how_good_a_model_is_comes_before_gradients_and_rates():
    names = ["lr", "grad_norm", "update_ratio", "step", "val_loss", "val_acc", "loss", "train_mIoU"]
    panels, _ = choose_panels([made(name, [1, 2, 3]) for name in names])
    assert [panel.key for panel in panels] == ["loss", "miou", "acc", "step", "grad_norm", "lr", "update_ratio"]
    panels, _ = choose_panels([made(name, [1, 2, 3]) for name in names], "val_acc")
    assert [panel.title for panel in panels][:3] == ["val_acc", "loss", "train_mIoU"]


def test_epochs_are_not_on_an_axis_of_steps():
    loss = made("loss", [3.0, 2.0, 1.0])
    printed = [replace(made(name, [3.0, 2.0, 1.0], "text"), axis="epoch") for name in ("val_loss", "train_loss")]
    logged = replace(made("test_loss", [3.0, 2.0], "paddle"), axis="number")
    series = [loss, *printed, logged]
    lines = [[each.name for _, each in panel.lines] for panel in choose_panels(series)[0]]
    assert sorted(map(sorted, lines)) == [["loss"], ["test_loss"], ["train_loss", "val_loss"]]
    for language, names in (("en", ("step", "epoch", "value no.")), ("zh", ("步", "epoch", "第几个值"))):
        svg = curves_svg(series, "t", axes=words(language)["curves"])
        assert all(svg.count(f">{name}</text>") == 1 for name in names)
    assert [row.rsplit(",", 1)[1] for row in metrics_csv(series).split()[1:]] == ["step"] * 3 + ["epoch"] * 6 + [
        "number"
    ] * 2
