"""The section *Diagnosis*: what it says, in both languages, and that hostile values stay text."""

from __future__ import annotations

import dataclasses

import pytest

from labbook.model.finding import EarlierRun, Finding
from labbook.report.ending_exception import shorten_paths
from labbook.report.entry.diagnosis_section import diagnosis_lines, diagnosis_section
from labbook.report.entry.entry_page import entry_markdown
from labbook.report.entry.section_limits import Limits
from labbook.report.entry.title import run_title

CRASH = Finding(
    symptom="shape_mismatch_linear",
    family="shape_mismatch",
    class_="shape",
    tier=1,
    severity="error",
    title="A linear layer got an input of another width",
    where={
        "file": "/home/wei/exp/model.py",
        "line": 31,
        "function": "Net.forward",
        "source": "return self.fc(x)",
        "step": 4,
    },
    evidence=("the input is 4x8", "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"),
    causes=("The layer expects `10` columns.", "The flatten is missing."),
    fixes=("Set `in_features=8`.", "Flatten first."),
    fingerprint="v1:0123456789abcdef",
    seen_before=(
        EarlierRun("20261101-120000-abcd", fix="in_features 10 -> 8", by="20261101-121000-abce", held=3, fits=True),
    ),
)
EFFECT = dataclasses.replace(CRASH, symptom="peer_process_died", title="A peer died", follows_from=CRASH.symptom)


def with_findings(runs, *findings, unsure=""):
    return dataclasses.replace(runs["crashed"](), findings=findings, unsure=unsure)


def page(runs, notebook, *findings, unsure=""):
    return entry_markdown(with_findings(runs, *findings, unsure=unsure), notebook)


@pytest.mark.parametrize(
    ("tier", "causes", "label"), [(1, 1, "Cause:"), (2, 1, "Likely cause:"), (1, 2, "Possible causes:")]
)
def test_the_only_cause_left_of_a_finding_that_is_not_certain_is_likely(runs, notebook, tier, causes, label):
    finding = dataclasses.replace(CRASH, tier=tier, causes=CRASH.causes[:causes])
    assert f"- **{label}** The layer expects `10` columns." in page(runs, notebook, finding)
    said = "\n".join(diagnosis_lines(with_findings(runs, finding), "en"))
    assert ("likely cause: The layer" in said) == (label != "Cause:")


def test_a_finding_in_the_entry(runs, notebook):
    text = page(runs, notebook, CRASH, EFFECT)
    section = text[text.index("## Diagnosis") : text.index("labbook:end diagnosis")]
    assert "### A linear layer got an input of another width (`shape_mismatch_linear`, certain)" in section
    for said in ("model.py:31", "`Net.forward`", "step `4`", "mat1 and mat2", "The layer expects `10` columns."):
        assert said in section
    assert "1. Set `in_features=8`." in section and "2. Flatten first." in section
    assert "20261101-120000-abcd" in section and "not seen in 3 later runs" in section
    assert "**Consequences:** A peer died" in section
    assert text.index("## Diagnosis") < text.index("## Exception")


def test_api_names_in_titles_are_code_in_the_entry_and_plain_on_the_terminal(runs, notebook):
    finding = dataclasses.replace(CRASH, title="`GradScaler` calls in the wrong order")
    effect = dataclasses.replace(EFFECT, title="Gradients accumulate (`zero_grad()` missing)")
    text = page(runs, notebook, finding, effect)
    assert "### `GradScaler` calls in the wrong order (`shape_mismatch_linear`, certain)" in text
    assert "**Consequences:** Gradients accumulate (`zero_grad()` missing)" in text
    lines = diagnosis_lines(with_findings(runs, finding))
    assert lines[0] == "GradScaler calls in the wrong order (shape_mismatch_linear, certain)"


def test_what_is_not_known_is_said(runs, notebook):
    text = page(runs, notebook, unsure="no page of the catalogue fits WeirdError")
    assert "Not diagnosed: no page of the catalogue fits WeirdError." in text
    assert "## Diagnosis" not in page(runs, notebook)


def test_hostile_values_stay_text(runs, notebook):
    hostile = "<img src=x onerror=alert(1)> [a](javascript:b) | {{ x }} `tick` **bold**"
    finding = dataclasses.replace(
        CRASH, title=hostile, evidence=(hostile,), causes=(hostile,), fixes=(f"Use `{hostile}`",),
        where={"file": "/x/" + hostile, "line": 1, "source": hostile, "module": hostile},
        seen_before=(EarlierRun(hostile, fix=hostile, fits=True),),
    )  # fmt: skip
    text = page(runs, notebook, finding)
    section = text[text.index("## Diagnosis") : text.index("labbook:end diagnosis")]
    for active in ("<img", "](javascript", "{{ x }}", "**bold**"):
        assert active not in section


def test_the_terminal_shows_the_same_in_few_lines(runs):
    lines = diagnosis_lines(with_findings(runs, CRASH))
    assert lines[0] == "A linear layer got an input of another width (shape_mismatch_linear, certain)"
    assert "model.py:31  return self.fc(x)" in lines[1]
    assert "likely cause: The layer expects 10 columns." in lines
    assert any("20261101-120000-abcd" in line and "in_features 10 -> 8" in line for line in lines)
    assert "fix: Set in_features=8." in lines
    assert len(lines) <= 7


def test_the_terminal_in_chinese(runs):
    lines = diagnosis_lines(with_findings(runs, CRASH), "zh")
    assert "（" in "".join(lines) or "确定" in lines[0]
    assert any(line.startswith("解决办法") for line in lines)
    assert diagnosis_lines(with_findings(runs, unsure="x"), "zh") == ["未能诊断：x"]


def test_the_title_names_the_failure(runs):
    title = run_title(with_findings(runs, CRASH))
    assert "a linear layer got an input of another width, at " in title
    assert title.endswith("model.py:31")
    marked = dataclasses.replace(CRASH, title="<b>*bold*</b> [x](y)")
    assert not set("<>*[]") & set(run_title(with_findings(runs, marked)))


def test_many_findings_are_named_not_told(runs):
    many = [dataclasses.replace(CRASH, symptom=f"s{n}", title=f"Title {n}") for n in range(7)]
    section = diagnosis_section(with_findings(runs, *many), Limits())
    assert len(section["findings"]) == 4
    assert [one["id"] for one in section["further"]] == ["s4", "s5", "s6"]


def test_paths_in_sentences_stand_as_elsewhere(runs):
    run = dataclasses.replace(runs["crashed"](), cwd="/home/wei/exp")
    said = "the graph is cut by detach at /home/wei/exp/model.py:31: x = x.detach()"
    found = diagnosis_section(with_evidence(run, said), Limits())
    assert found["findings"][0]["evidence"] == ["the graph is cut by detach at model.py:31: x = x.detach()"]
    for other in ("see /home/wei/experiment/a.py:1", "in /data/home/wei/exp/a.py:1", "the folder is /home/wei/exp/"):
        assert shorten_paths(other, run) == other
    assert "at model.py:31" in "\n".join(diagnosis_lines(with_evidence(run, said)))


def with_evidence(run, sentence):
    return dataclasses.replace(run, findings=(dataclasses.replace(CRASH, evidence=(sentence,)),))


def test_the_fix_of_another_failure_is_a_link_to_its_run_only(runs, notebook):
    other = dataclasses.replace(CRASH, seen_before=(dataclasses.replace(CRASH.seen_before[0], fits=False),))

    text = page(runs, notebook, other)
    section = text[text.index("## Diagnosis") : text.index("labbook:end diagnosis")]
    assert "20261101-120000-abcd" in section and "in_features 10 -> 8" not in section


def test_a_run_with_another_symptom_of_the_family_did_not_have_the_failure(runs, notebook):
    earlier = dataclasses.replace(CRASH.seen_before[0], fits=False, same="family")
    other = dataclasses.replace(CRASH, seen_before=(earlier,))
    assert not any(earlier.run in line for line in diagnosis_lines(with_findings(runs, other)))
    text = page(runs, notebook, other)
    section = text[text.index("## Diagnosis") : text.index("labbook:end diagnosis")]
    assert earlier.run in section and "same family:" in section and "Seen before" not in section


def test_beside_the_same_failure_others_of_the_family_are_left_out(runs, notebook):
    same = dataclasses.replace(CRASH.seen_before[0], same="symptom")
    family = EarlierRun("20261102-120000-bbbb", fix="another cure", same="family")
    text = page(runs, notebook, dataclasses.replace(CRASH, seen_before=(family, same)))
    section = text[text.index("## Diagnosis") : text.index("labbook:end diagnosis")]
    assert same.run in section and family.run not in section and "once in this notebook" in section


@pytest.mark.parametrize(
    ("same", "line"),
    [
        (("fingerprint", "symptom"), "seen before in run0"),
        (("fingerprint", "fingerprint"), "seen 2 times in this notebook, last in run0"),
        (("symptom",), "this symptom was seen in another failure, in run0"),
        (("symptom", "symptom"), "this symptom was seen in 2 other failures of this notebook, last in run0"),
    ],
)
def test_the_same_failure_and_others_with_its_symptom_are_told_apart(runs, same, line):
    seen = tuple(EarlierRun(f"run{number}", same=kind) for number, kind in enumerate(same))
    assert diagnosis_lines(with_findings(runs, dataclasses.replace(CRASH, seen_before=seen)))[-1] == line
