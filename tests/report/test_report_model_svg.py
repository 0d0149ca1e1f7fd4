"""The picture of a model."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET

import pytest

from labbook.health.model_tree import STATES
from labbook.model.run import Run
from labbook.report.entry.entry_page import entry_markdown
from labbook.report.model_mermaid import model_mermaid
from labbook.report.model_svg import has_diagram, model_svg
from labbook.store.text.templates import words

_SVG = "{http://www.w3.org/2000/svg}"


def row(depth, name, kind="Linear", **more):
    plain = {"last": "", "count": 1, "output": "64x10", "parameters": 1200, "trainable": 1200, "inside": 0, "total": 1}
    return {**plain, "depth": depth, "name": name, "type": kind, "gradient": [], "states": [], **more}


def state(kind, value=1.0, modules=1):
    return {"state": kind, "value": value, "modules": modules, "name": "a.b"}


def run_with(*trees, **model):
    models = [{"root": "Net", "tree": list(rows), **model} for rows in trees]
    return Run("i", "finished", ("python",), "/", 0.0, title="t", health={"models": models})


def texts(svg):
    return [" ".join(element.itertext()) for element in ET.fromstring(svg).iter(f"{_SVG}text")]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_state_has_a_colour_and_words(language):
    labels = words(language)["diagram"]
    rows = [row(0, "", "Net"), *(row(1, f"m{n}", states=[state(one, 0.7)]) for n, one in enumerate(STATES))]
    shown = "\n".join(texts(model_svg(run_with(rows), labels)))

    for one in STATES:
        assert shown.count(str(labels[one])) >= 2, one  # at the part and in the legend


def test_the_worst_part_is_marked_and_folded_parts_count():
    rows = [
        row(0, "", "Net"),
        row(1, "layers.0", "Block", last="layers.11", count=12),
        row(2, "act", "ReLU", total=12, states=[state("dead", 0.6, 3)]),
        row(1, "act2", "ReLU", states=[state("dead", 0.9)]),
    ]
    shown = texts(model_svg(run_with(rows, unobserved=9600), words("en")["diagram"]))

    assert any("12 × Block" in text and "layers.0 … 11" in text for text in shown)
    assert any("dead 60 % (3/12)" in text for text in shown) and shown.count("▲") == 1
    assert shown[shown.index("▲") - 1].strip() == "dead 90 %"
    assert "9,600 further modules were not observed" in shown


def test_mermaid_has_a_frame_for_modules_with_others_inside_and_words_for_states():
    rows = [
        row(0, "", "Net"),
        row(1, "layers.0", "Block", last="layers.11", count=12),
        row(2, 'a"]', "ReLU", total=12, states=[state("dead", 0.6, 3)]),
        row(2, "fc"),
        row(1, "head", output=""),
    ]
    lines = model_mermaid(run_with(rows), words("en")["diagram"]).splitlines()

    assert [line.strip() for line in lines] == [
        "flowchart TD",
        'subgraph m0_0["Net · 64x10"]',
        "direction TB",
        'subgraph m0_1["12 × Block layers.0 … 11 · 64x10"]',
        "direction TB",
        'm0_2["ReLU a#34;#93;<br/>64x10<br/>dead 60 % (3/12)"]',
        'm0_3["Linear fc<br/>64x10"]',
        "m0_2 --> m0_3",
        "end",
        'm0_4["Linear head"]',
        "m0_1 --> m0_4",
        "end",
        "classDef dead stroke:#9a6700,stroke-width:3px",
        "class m0_2 dead",
    ]


def test_a_row_has_its_history_for_the_site():
    rows = [row(0, "", "Net"), row(1, "fc", history=[[1, 0.5, 0.5], [9, 1.25, 3]]), row(1, "one", history=[[1, 2, 2]])]
    svg = ET.fromstring(model_svg(run_with(rows), words("en")["diagram"]))

    (group,) = svg.iter(f"{_SVG}g")
    assert group.get("data-history") == "1 0.5 0.5;9 1.25 3"
    assert "fc" in " ".join(group.itertext())


def test_everything_lies_inside_the_picture_and_no_column_covers_another():
    rows = [row(0, "", "N" * 90)]
    rows += [
        row(min(depth, 12), "very.long.name" * 4, "NonDynamicallyQuantizableLinear", output="1024x1024x1024x1024x8",
            parameters=10**14, gradient=[1.234e-29, 9.876e30], inside=400, states=[state(one) for one in STATES])
        for depth in range(1, 37)
    ]  # fmt: skip
    svg = model_svg(run_with(rows, rows, rows), words("en")["diagram"])
    root = ET.fromstring(svg)
    height = float(root.get("height"))

    assert len(svg) < 60_000 and root.get("width") == "760"
    for box in root.iter(f"{_SVG}rect"):
        assert float(box.get("x")) + float(box.get("width")) <= 760 and float(box.get("y")) < height
        assert float(box.get("width")) > 0
    for text in root.iter(f"{_SVG}text"):
        wide = sum(len(part) for part in [text.text or "", *(span.text or "" for span in text.iter(f"{_SVG}tspan"))])
        assert float(text.get("y")) <= height
        if text.get("class") == "t":
            assert float(text.get("x")) + 6 * wide <= 334


def test_markup_in_names_is_escaped():
    svg = model_svg(run_with([row(0, "", '<script>"&\x00'), row(1, "]]><b>\x1b")]), words("en")["diagram"])
    assert "<script" not in svg and "<b>" not in svg
    ET.fromstring(svg)


def test_the_entry_shows_the_picture_and_links_to_it(runs, notebook):
    run = runs["finished"]()
    drawn = dataclasses.replace(run, health=run_with([row(0, "", "Net"), row(1, "fc")]).health)

    assert has_diagram(drawn) and not has_diagram(run)
    assert f"]({run.id}/model.svg)]({run.id}/model.svg)" in entry_markdown(drawn, notebook)
    assert "model.svg" not in entry_markdown(run, notebook)
