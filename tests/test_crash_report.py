"""The report of a bug in labbook can be sent to its developers as it is."""

from __future__ import annotations

import pytest

from labbook import crash_report

pytestmark = pytest.mark.process


@pytest.fixture
def report(monkeypatch, tmp_path):
    """Returns the text of the report of an error that was raised."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def written(message: str) -> str:
        try:
            raise ValueError(message)
        except ValueError as error:
            return crash_report.write_crash_report(error).read_text(encoding="utf-8")

    return written


def test_a_report_has_the_frames_and_no_secret_of_the_message(report, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "k3yOfThisRun99")
    monkeypatch.setattr("sys.argv", ["labbook", "record", "--", "train", "--password", "Ab3xyz99"])
    text = report("bad row: k3yOfThisRun99, Ab3xyz99, https://wei:T0kenOfWei@git.example.org/x.git, caf\udce9")
    assert "in written" in text and "ValueError: bad row" in text and "- verb: `record`" in text
    assert not any(secret in text for secret in ("k3yOfThisRun99", "Ab3xyz99", "T0kenOfWei"))


def test_a_bug_of_the_redaction_itself_is_reported_without_messages(report, monkeypatch):
    monkeypatch.setattr(crash_report, "Redactor", None)
    text = report("Ab3xyz99 is a secret")
    assert "in written" in text and "Ab3xyz99" not in text
