"""`labbook diagnose` on what a person typed: a message is diagnosed, a report without one gets proposals."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from labbook.screen import display_width

REPORT = "Training on four cards hangs after the first batch, without any output.\n"
MESSAGE = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)\n"


def diagnose(project, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labbook", "diagnose", "-", *options]
    return subprocess.run(command, input=text, cwd=project.folder, capture_output=True, text=True, timeout=100)


def test_a_report_without_a_message_gets_pages_as_proposals(project):
    done = diagnose(project, REPORT)
    assert done.returncode == 1 and done.stdout == ""
    first, second, *pages = done.stderr.splitlines()
    assert first == "not diagnosed: it contains no error message that the catalogue knows"
    assert "proposals" in second
    assert len(pages) == 3 and all(line.startswith("  labbook explain ") for line in pages)

    data = json.loads(diagnose(project, REPORT, "--json").stdout)
    assert data["primary"] is None and data["findings"] == []
    assert data["nearest_pages"] == [line.split()[2] for line in pages]


def test_a_message_is_diagnosed_without_proposals(project):
    done = diagnose(project, MESSAGE)
    assert done.returncode == 0 and "4x8" in done.stdout and "labbook explain" not in done.stderr
    data = json.loads(diagnose(project, MESSAGE, "--json").stdout)
    assert data["primary"] == "shape_mismatch_linear" and data["nearest_pages"] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_numbered_advice_begins_in_one_column(project, language):
    lines = diagnose(project, MESSAGE, "--language", language).stdout.splitlines()
    numbered = [re.match(r"(.*?)\d\. ", line) for line in lines if re.match(r"  (\S+ ?| +)\d\. ", line)]
    assert len(numbered) > 1 and len({display_width(found[1]) for found in numbered}) == 1


def test_an_exception_that_no_page_knows_gets_no_proposals(project):
    done = diagnose(project, "WeirdError: the blob lives on another planet\n")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "not diagnosed: no page of the catalogue fits WeirdError: the blob lives on another planet"
    ]
