"""Errors of real commands under LANG=zh_CN: Chinese sentences without a clause of English."""

import re

import pytest

from labbook.cli import main
from labbook.errors import LabbookError

CHINESE = re.compile("[\u4e00-\u9fff]")
NAMES = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|\([^()]*\)|--[a-z-]+( [A-Za-z0-9]+)*|\S*[/.=]\S*|labbook [a-z]+( \S+)*")
"""Commands, options, paths and what the user typed: they stay as they are."""
CLAUSE = re.compile(r"[A-Za-z]{2,}(?:[ ,:]+[A-Za-z]{2,}){2,}")

CASES = {
    "no command": ["shwo"],
    "no such option": ["list", "--jsn"],
    "no argument": ["move"],
    "bad choice": ["show", "--language", "fr"],
    "bad number": ["list", "-n", "many"],
    "extra argument": ["doctor", "now"],
    "no run": ["show", "20991231"],
    "no runs yet": ["show", "last"],
    "no file": ["diagnose", "train.log"],
    "empty list": ["list"],
    "bad query": ["list", "lr<many"],
    "unknown field": ["list", "no_such:1"],
    "no symptom": ["explain", "loss_nann"],
    "bad week": ["report", "--week", "never"],
    "bad day": ["report", "--since", "03.11.2026"],
    "two subjects": ["report", "--week", "last", "--month", "last"],
    "no name": ["new", ""],
    "bad mode": ["new", "digits", "--mode", "hybrid"],
    "bad condition": ["record", "--watch", "loss <", "--", "true"],
    "nothing to record": ["record"],
    "no program": ["record", "--", "pythn-no-such"],
    "sweep without script": ["sweep", "none.py", "lr=1,2"],
    "no kept file": ["artifact", "get", "abc"],
    "no store": ["artifact", "push"],
    "no note": ["commit", "/etc/hosts"],
    "no path": ["import", "tensorboard", "nowhere"],
    "review nothing": ["review", "nowhere.py"],
    "no remote": ["sync"],
    "no document": ["export", "nothing", "--to", "html"],
    "no notebook there": ["list", "--notebook", "nowhere"],
}


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    from labbook.store.notebook_finder import create_notebook

    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user" / "data"))
    for name in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    create_notebook(tmp_path / "book")
    monkeypatch.chdir(tmp_path / "book")
    return tmp_path / "book"


def test_commands_print_their_errors_in_chinese(notebook, capsys):
    wrong = {}
    for name, words in CASES.items():
        code = main(words)
        said = capsys.readouterr().err
        left = CLAUSE.search(NAMES.sub("，", said))
        if code not in (1, 2, 3, 4, 127) or not CHINESE.search(said) or left or "errors." in said:
            wrong[name] = (code, said)
    assert not wrong


def test_a_broken_setting_is_explained_in_chinese(notebook, capsys):
    (notebook / "labbook.toml").write_text('language = "fr"\n', "utf-8")
    assert main(["list"]) == 3
    said = capsys.readouterr().err
    assert "language = 'fr' 必须是以下之一" in said and "条目和页面的语言" in said


def test_the_language_of_a_command_is_that_of_its_notebook_or_option(notebook, capsys):
    (notebook / "labbook.toml").write_text('language = "en"\n', "utf-8")
    assert main(["show", "20991231"]) == 1 and "there is no run" in capsys.readouterr().err
    assert main(["explain", "none", "--language", "zh"]) == 1 and "找不到症状" in capsys.readouterr().err
    assert str(LabbookError("errors.run.none_yet")) == "there is no run yet"
