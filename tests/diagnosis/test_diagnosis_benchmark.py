"""The diagnosis over the texts of `benchmarks/diagnosis.py`, and over texts and pages that nobody should write."""

from __future__ import annotations

import codecs
import random

import pytest
from order_of_tests import in_one_test

import labbook
from benchmarks.diagnosis import VARIANTS, judge_of, scored, written
from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.text.log_reader import read_stream, read_text
from labbook.model.evidence import Evidence, ObservedException

CATALOGUE = load_catalogue()
MATCHER = Matcher(CATALOGUE)
SAMPLES = list(written())
FAILURES = [sample for sample in SAMPLES if sample.family != "none"]
HARMLESS = [sample for sample in SAMPLES if sample.family == "none"]
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    step(x)\n'
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)\n"
)


def test_the_texts_are_there_and_name_what_the_catalogue_knows():
    assert len(FAILURES) >= 150
    assert len(HARMLESS) >= 40
    families = {page.family for page in CATALOGUE.symptoms.values()}
    for sample in FAILURES:
        assert sample.family in families, sample.name
        assert sample.symptoms and set(sample.symptoms) <= set(CATALOGUE.symptoms), sample.name


@in_one_test("variant", ["whole", "timestamps", "in an issue", "CRLF", "double spaced"])
def test_families_are_right_over_all_texts(variant):
    counts = scored(FAILURES, judge_of(MATCHER), VARIANTS[variant])
    assert counts["family"] >= 0.95 * len(FAILURES)
    assert counts["wrong"] <= 0.02 * len(FAILURES)


@in_one_test("sample", HARMLESS, ids=[sample.name for sample in HARMLESS])
def test_nothing_is_found_in_a_harmless_text(sample):
    assert diagnose(read_text(sample.text), MATCHER).primary is None


def test_nothing_is_found_in_ten_thousand_healthy_lines():
    lines = (
        f"2026-03-04 10:{n % 60:02d}:00 INFO step {n} loss {2 / (1 + n):.4f} error_rate 0.{n % 60:02d} size {n} "
        f"nan_count: 0 info 3 default device cuda:0 out of {n + 9} samples\n".encode()
        for n in range(10_000)
    )
    assert diagnose(read_stream(lines), MATCHER).primary is None


def test_bytes_of_no_text_are_no_failure():
    assert diagnose(read_stream([random.Random(3).randbytes(200_000)]), MATCHER).primary is None


@in_one_test(
    "raw",
    [
        b"\x00\x81\xfe\x07" * 50 + b"\n" + TRACEBACK.encode(),
        "训练日志\n".encode("gbk") + "résumé\n".encode("latin-1") + TRACEBACK.encode(),
        codecs.BOM_UTF16_LE + TRACEBACK.encode("utf-16-le"),
        (b"x" * 3_000_000) + b"\n" + TRACEBACK.encode(),
        TRACEBACK.encode()[40:],
    ],
    ids=["binary in front", "mixed encodings", "UTF-16", "one huge line", "cut in front"],
)
def test_a_failure_is_found_among_bad_bytes(raw):
    found = diagnose(read_stream([raw]), MATCHER).primary
    assert found is not None
    assert found.symptom == "shape_mismatch_linear"


def test_a_message_of_repeated_beginnings_ends():
    hostile = "RuntimeError: " + "mat1 and mat2 shapes cannot be multiplied (" * 5_000
    assert diagnose(read_text(hostile), MATCHER) is not None


def test_a_chain_that_is_very_deep_ends_with_its_root():
    error = ObservedException("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)")
    for n in range(200):
        error = ObservedException("ValueError", f"wrapper {n}", context=((error, "cause"),))
    assert diagnose(Evidence(exceptions=(error,)), MATCHER) is not None


PAGE = """---
id: {id}
title: A page of a notebook
family: other
class: other
tier: 1
severity: error
patterns:
  - exception: "{pattern}"
---

## What you see
Something.
"""


@pytest.mark.parametrize(
    "pattern",
    ["{**}" * 40 + "end of it", "a{*}" * 300 + "b", "word " * 4_000, "(a+)+$"],
    ids=["wildcards", "many gaps", "huge", "a regular expression"],
)
def test_a_page_with_a_hostile_pattern_stops_no_diagnosis(tmp_path, pattern):
    (tmp_path / "own_page.md").write_text(PAGE.format(id="own_page", pattern=pattern), encoding="utf-8")
    catalogue = load_catalogue(tmp_path)
    found = diagnose(read_text("a" * 20_000 + "\n" + TRACEBACK), Matcher(catalogue)).primary
    assert found is not None
    assert found.symptom == "shape_mismatch_linear"


def test_a_cyclic_chain_of_exceptions_is_told_of():
    first = RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)")
    second = ValueError("a wrapper")
    first.__cause__, second.__context__ = second, first
    found = labbook.diagnose(first).primary
    assert found is not None
    assert found.symptom == "shape_mismatch_linear"


def test_an_exception_that_cannot_be_printed_stops_nothing():
    class Unprintable(Exception):
        def __str__(self):
            raise OSError("no words")

    assert labbook.diagnose(Unprintable()) is not None
