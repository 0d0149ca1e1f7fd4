"""`labbook.diagnose(error)` and `labbook.diagnosed()`: for code that is not recorded."""

from __future__ import annotations

import importlib

import pytest

import labbook

pytestmark = pytest.mark.torch


def wrong_width() -> RuntimeError:
    torch = pytest.importorskip("torch")  # not at the head: every worker imports all heads
    try:
        torch.nn.Linear(4, 2)(torch.ones(3, 5))
    except RuntimeError as error:
        return error
    raise AssertionError("it did not fail")


def test_an_exception_is_diagnosed():
    found = labbook.diagnose(wrong_width())
    assert found.primary.symptom == "shape_mismatch_linear"
    assert found.primary.where["file"].endswith("test_findings_exception_api.py")
    assert "torch.nn.Linear(4, 2)" in found.primary.where["source"]
    assert "3x5" in str(found)


def test_the_name_is_a_function_also_after_the_room_was_imported():
    labbook.diagnose(wrong_width())
    importlib.import_module("labbook.diagnosis.cause_ranking")
    assert labbook.diagnose(wrong_width(), "zh").primary.symptom == "shape_mismatch_linear"


def test_the_exception_itself_goes_on(capsys):
    error = wrong_width()
    with pytest.raises(RuntimeError) as raised, labbook.diagnosed():
        raise error
    assert raised.value is error
    printed = capsys.readouterr().err
    assert "shape_mismatch_linear" in printed
    assert "fix:" in printed


def test_it_is_a_decorator(capsys):
    @labbook.diagnosed(language="zh")
    def train() -> None:
        pytest.importorskip("torch").ones(3).backward()

    for _ in range(2):
        with pytest.raises(RuntimeError, match="does not require grad"):
            train()
    printed = capsys.readouterr().err
    assert printed.count("loss_has_no_grad_fn") == 2
    assert any("\u4e00" <= letter <= "\u9fff" for letter in printed)


def test_all_of_it_is_in_the_language_of_the_settings(tmp_path, monkeypatch, capsys):
    (tmp_path / "labbook.toml").write_text('language = "zh"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError), labbook.diagnosed():
        raise wrong_width()
    printed = capsys.readouterr().err
    assert "解决办法：" in printed and "fix:" not in printed


class SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_what_cannot_be_told_is_raised_as_it_is(capsys):
    with pytest.raises(SilentError), labbook.diagnosed():
        raise SilentError
    assert capsys.readouterr().err == ""


def test_a_chain_that_bites_its_tail_ends():
    first, second = ValueError("a"), ValueError("b")
    first.__context__, second.__context__ = second, first
    assert labbook.diagnose(first).primary is None


def test_an_interruption_is_not_diagnosed(capsys):
    with pytest.raises(KeyboardInterrupt), labbook.diagnosed():
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""
