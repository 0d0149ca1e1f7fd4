from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.errors import NotebookError
from labbook.store.config import Config, environment_name, load_config, setting_help, settings_text, unknown_settings
from labbook.store.text.sentences import Sentences

ENGLISH = Sentences("en")


def test_defaults_without_a_file():
    assert load_config(None, {}) == Config()


def test_every_setting_has_a_sentence_and_a_default_that_passes_its_own_check():
    for each in fields(Config):
        assert ENGLISH(setting_help(each)).endswith("."), each.name
        assert each.metadata["check"](each.default) is None, each.name


def test_settings_round_trip_through_toml(tmp_path):
    config = replace(
        Config(),
        title='Wei\'s "book" \\ 实验\n\x7f',
        commit="off",
        environment_allow=("A", "B C"),
        probe=False,
        probe_budget=0.5,
    )
    (tmp_path / "labbook.toml").write_text(settings_text(config, ENGLISH), "utf-8")
    assert load_config(tmp_path, {}) == config
    for say in (ENGLISH, Sentences("zh")):
        text = settings_text(Config(), say)
        for each in fields(Config):
            assert f"# {say(setting_help(each))}\n{each.name} = " in text
        assert say is ENGLISH or not re.search(r"^# [^\u4e00-\u9fff]+$", text, re.MULTILINE)


@given(st.text())
def test_any_title_survives(tmp_path_factory, title):
    clean = title.encode("utf-8", "ignore").decode()
    folder = tmp_path_factory.mktemp("x")
    (folder / "labbook.toml").write_text(settings_text(Config(title=clean), ENGLISH), "utf-8")
    assert load_config(folder, {}).title == clean


def test_layers(tmp_path):
    (tmp_path / "labbook.toml").write_text('level = "light"\ntitle = "file"\nprobe_budget = 1\n')
    environ = {
        "LABBOOK_LEVEL": "deep",
        "LABBOOK_ENVIRONMENT_ALLOW": "A, B",
        "LABBOOK_USE_PROBE": "no",
        "LABBOOK_TITLE": "",
    }
    config = load_config(tmp_path, environ, {"author": "Wei", "level": "normal"})
    assert (config.level, config.title, config.author) == ("normal", "file", "Wei")
    assert (config.environment_allow, config.probe, config.probe_budget) == (("A", "B"), False, 1.0)


def test_settings_of_the_probe_in_the_environment_are_no_setting(tmp_path):
    assert load_config(tmp_path, {"LABBOOK_PROBE": '{"dir": "x"}', "LABBOOK_NOTEBOOK": "/x"}) == Config()
    assert {environment_name(each) for each in fields(Config)} & {"LABBOOK_PROBE", "LABBOOK_NOTEBOOK"} == set()


def test_pyproject_and_labbook_toml_before_it(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.labbook]\ntitle = "project"\n')
    assert load_config(tmp_path, {}).title == "project"
    (tmp_path / "labbook.toml").write_text("")
    assert load_config(tmp_path, {}).title == "Lab notebook"


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("probe = 'yes'\n", "line 1: probe = 'yes' must be true or false", "Python"),
        ("patch_max_bytes = true\n", "patch_max_bytes = True must be a whole number", ""),
        ("patch_max_bytes = 1.5\n", "patch_max_bytes = 1.5 must be a whole number", ""),
        ("environment_allow = ['a', 1]\n", "must be a list of texts", ""),
        ("# x\nlevel = 'depe'\n", "line 2: level = 'depe' must be one of \"off\"", ""),
        ("probe_budget = 2\n", "probe_budget = 2 must be between 0 and 1", ""),
        ("branch = '../x'\n", "must be the name of a branch", ""),
        ("branch = '-D'\n", "must be the name of a branch", ""),
        ("title = \n", "not valid TOML", "correct"),
        ('title = "a"\n\ntitle = "b"\n', "title twice, in lines 1 and 3", "change the value in line 1"),
        ("a = 1\ntitle 'x'\n", "line 2", "correct"),
    ],
)
def test_a_broken_setting_is_named(tmp_path, text, said, hint):
    (tmp_path / "labbook.toml").write_text(text)
    with pytest.raises(NotebookError) as caught:
        load_config(tmp_path, {})
    assert said in caught.value.message
    assert str(tmp_path) in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "near"),
    [("titel = 'x'\n", "title"), ("\nprobe-budget = 0.1\n", "probe_budget"), ("zzzzqqqq = 1\n", None)],
)
def test_settings_of_a_newer_labbook_and_mistyped_ones_are_skipped_and_named(tmp_path, text, near):
    (tmp_path / "labbook.toml").write_text(f"{text}author = 'Wei'\n[future]\ndeep = 1\n")
    assert load_config(tmp_path, {}) == Config(author="Wei")
    first, future = unknown_settings(tmp_path)
    assert first.values.get("near") == near
    assert Sentences("en")(first).startswith(f"{tmp_path}/labbook.toml, line {1 + text.startswith(chr(10))}: ")
    assert future.values["name"] == "future"
    (tmp_path / "labbook.toml").write_text(settings_text(Config(), ENGLISH))
    assert unknown_settings(tmp_path) == []


@pytest.mark.parametrize("text", ["comit = 'off'\n", "Redact-Rules = 'own.toml'\n", "[tool.labbook]\nsycn = 'off'\n"])
def test_a_mistyped_setting_that_protects_holds_back_what_would_leave_the_machine(tmp_path, text):
    name = "pyproject.toml" if "tool" in text else "labbook.toml"
    (tmp_path / name).write_text(text)
    assert load_config(tmp_path, {"LABBOOK_COMMIT": "branch"}, {"sync": "after-run"}) == Config(
        commit="off", sync="off"
    )
    [problem] = unknown_settings(tmp_path)
    assert "nothing is committed or shared" in Sentences("en")(problem)


def test_not_text_and_not_readable(tmp_path):
    (tmp_path / "labbook.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NotebookError, match="not UTF-8"):
        load_config(tmp_path, {})


@pytest.mark.parametrize(("name", "value"), [("LABBOOK_PROBE_BUDGET", "much"), ("LABBOOK_USE_PROBE", "perhaps")])
def test_a_broken_variable_is_named(name, value):
    with pytest.raises(NotebookError, match=f"{name} = '{value}'"):
        load_config(None, {name: value})


def test_unknown_flag_is_refused():
    with pytest.raises(NotebookError, match="there is no setting 'lvl'"):
        load_config(None, {}, {"lvl": "deep"})


@in_one_test(
    ("environ", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN", "LC_ALL": "C"}, "en"),
        ({"LC_ALL": "", "LANG": "zh"}, "zh"),
    ],
)
def test_language_of_the_system(environ, language):
    assert Config().language_in_use(environ) == language
    assert Config(language="zh").language_in_use({"LANG": "en"}) == "zh"
