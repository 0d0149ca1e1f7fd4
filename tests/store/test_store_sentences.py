"""Messages: every key has a template in both languages with the same placeholders, and every template is used."""

import ast
import errno
import json
import os
import pickle
import re
import string
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_trees import PACKAGE, nodes_of, python_files

from labbook.errors import LabbookError, NotebookError
from labbook.model.message import Message, message
from labbook.model.run import CheckResult, Run
from labbook.model.run_json import run_from_json, run_to_json
from labbook.review.reviewer import RULES
from labbook.store.config import Config, setting_help
from labbook.store.text.sentences import Sentences, format_number, format_percent
from labbook.store.text.words_files import builtin_folder, read_words

FOLDER = builtin_folder() / "words" / "messages"
CHINESE = re.compile("[\u4e00-\u9fff]")


def flat(words, prefix):
    for key, value in words.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}.{key}")
        else:
            yield f"{prefix}.{key}", value


def templates(language):
    """Key -> template of all message files of a language; a key that stands twice fails."""
    found = {}
    for path in sorted(FOLDER.glob(f"{language}_*.toml")):
        if path.stem == f"{language}_texts":
            continue
        for key, text in flat(read_words(path), path.stem.split("_")[1]):
            assert key not in found, (path.name, key)
            found[key] = text
    return found


def placeholders(template, *, plural=True):
    """Names of the values; Chinese has no plural, so that a value that only chooses a word may be missing there."""
    parsed = [(name, spec or "") for _, name, spec, _ in string.Formatter().parse(template) if name is not None]
    return {name for name, spec in parsed if plural or "|" not in spec}


ENGLISH, OTHER = templates("en"), templates("zh")
ROOMS = {key.partition(".")[0] for key in ENGLISH}
KEY = re.compile(rf"(?:{'|'.join(sorted(ROOMS))})(?:\.[a-z0-9_]+)+\Z")
MODULES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in python_files()}


def sources():
    """The files of labbook with the nodes of their syntax trees."""
    return [(path, nodes_of(path)) for path in python_files()]


def keys_in_code():
    """Texts of the code that look like keys; the values of a `values.` row are those of the renderer."""
    for path, nodes in sources():
        for node in nodes:
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and KEY.match(node.value)
                and node.value not in MODULES
                and not node.value.endswith((".json", ".log", ".clock"))
            ):
                yield node.value, f"{path.relative_to(PACKAGE)}:{node.lineno}"


def calls_in_code():
    """(keys, names of the values, place) of each `message(...)` and `say.line(...)` with its key in the call."""
    for path, nodes in sources():
        for node in nodes:
            name = getattr(node.func, "id", "") or getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
            if name in ("message", "line") and node.args:
                if any(keyword.arg is None for keyword in node.keywords):
                    continue  # the values are in a mapping
                keys = {c.value for c in ast.walk(node.args[0]) if isinstance(c, ast.Constant)} & set(ENGLISH)
                yield keys, {k.arg for k in node.keywords}, f"{path.relative_to(PACKAGE)}:{node.lineno}"


def test_both_languages_have_the_same_keys_and_placeholders():
    assert set(ENGLISH) == set(OTHER)
    wrong = [
        key
        for key in ENGLISH
        if not placeholders(ENGLISH[key], plural=False) <= placeholders(OTHER[key]) <= placeholders(ENGLISH[key])
    ]
    assert not wrong


def test_every_key_of_the_code_has_a_template():
    assert {key: place for key, place in keys_in_code() if key not in ENGLISH} == {}


def test_every_template_is_used():
    used = {key for key, _ in keys_in_code()}
    used |= {f"{key}_advice" for key in used}
    used |= {rule.message_key(part) for rule in RULES for part in ("what", "advice")}
    used |= {setting_help(each).key for each in fields(Config)}
    renderer = {key for key in ENGLISH if key.startswith("values.")}
    assert sorted(set(ENGLISH) - used - renderer) == []


VALUE = re.compile(r"`%s`|`\{[^`]*\}`|%\.3g|%d")
SAID_BY_THE_PROBE = ("left_out", "why_hidden", "_why_hidden", "_hidden", "why_not")


def unobserved_texts():
    """Texts of the probe that say what was not observed, and why; a value in them is `#`."""
    for path, nodes in sources():
        for node in nodes if path.is_relative_to(PACKAGE / "probe") else ():
            said = node.args if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "unobserved" else []
            if isinstance(node, ast.FunctionDef) and node.name in SAID_BY_THE_PROBE:
                said = [one.value for one in ast.walk(node) if isinstance(one, (ast.Return, ast.Assign)) and one.value]
            for one in (part for whole in said for part in ast.walk(whole)):
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and len(one.value.split()) > 1:
                    yield VALUE.sub("#", one.value).replace("%s", "torch")


def test_what_was_not_observed_is_said_in_chinese():
    known = read_words(FOLDER / "zh_texts.toml")
    found = {text for text in unobserved_texts() if not text.startswith("--")}
    assert len(found) > 20 and sorted(found - set(known)) == []
    chinese = Sentences("zh")
    assert chinese("some numbers logged to `visualdl`") == "写入 `visualdl` 的部分数值"
    assert chinese("the folder `/data` does not exist") == "文件夹 `/data` 不存在"
    assert Sentences("en")("3 of 4") == chinese("3 of 4") == "3 of 4"


def raised_errors():
    """(class, first argument, names of the values, key of the advice, place) of each error that labbook makes."""
    kinds = {kind.__name__ for kind in (LabbookError, *subclasses(LabbookError))}
    for path, nodes in sources():
        for node in nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in kinds:
                values = {keyword.arg for keyword in node.keywords}
                advice = [keyword.value for keyword in node.keywords if keyword.arg == "advice"]
                yield node, values, advice[0] if advice else None, f"{path.relative_to(PACKAGE)}:{node.lineno}"


def subclasses(kind):
    return [each for child in kind.__subclasses__() for each in (child, *subclasses(child))]


def keys_of(node):
    """The keys in an argument: one, or those of an `if` expression."""
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and KEY.match(str(part.value))}


def test_every_error_has_its_message_in_both_languages_with_its_values():
    """No sentence in code: an error is a key, and its values are those of its message and advice."""
    wrong, own_kind = [], {"IndexLockedError"}
    for node, values, advice, place in raised_errors():
        if node.func.id in own_kind:
            continue
        keys = keys_of(node.args[0])
        if not keys and isinstance(node.args[0], ast.Name):
            continue  # a key that the caller chose: it is in a call of this list, or in `keys_in_code`
        missing = (keys | (keys_of(advice) if advice else set())) - set(ENGLISH)
        texts = keys | {f"{key}_advice" for key in keys} | (keys_of(advice) if advice else set())
        needed = set().union(*(placeholders(ENGLISH[key]) for key in texts if key in ENGLISH))
        given = values - {"advice", "exit_code"}
        if not keys or missing or (None not in values and not needed <= given) or "hint" in values:
            wrong.append((place, sorted(missing), sorted(needed - given)))
    assert not wrong


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_error_is_formatted_with_values_of_any_kind(language):
    """A missing value would print the key; an error keeps its texts in another process."""
    keys = [key for key in ENGLISH if key.startswith("errors.") and f"{key}_advice" in ENGLISH]
    for key in keys:
        names = placeholders(ENGLISH[key]) | placeholders(ENGLISH[f"{key}_advice"])
        number = {name for name in names if f"{{{name}:g}}" in ENGLISH[key] or f"{{{name}:mib}}" in ENGLISH[key]}
        values = {name: 7 if name in number else Path("/tmp/x") for name in names}
        error = NotebookError(key, **values)
        message, advice = error.texts(language)
        assert message and advice and key not in message
        again = NotebookError.from_data(json.loads(json.dumps(error.as_data())))
        assert again.texts(language) == pickle.loads(pickle.dumps(error)).texts(language) == (message, advice)


def test_an_error_says_the_reason_of_another_in_the_same_language():
    full = NotebookError("errors.journal.not_writable", path=Path("/x"), reason=OSError(28, os.strerror(28)))
    assert full.texts("zh")[0] == "无法写入日志 /x：设备上没有剩余空间"
    assert str(full) == "cannot write the journal /x: No space left on device" and full.hint.startswith("free space")
    outer = NotebookError("errors.notebook.personal_not_created", root="/p", reason=full)
    assert outer.texts("zh")[0] == "无法创建个人记录本 /p：无法写入日志 /x：设备上没有剩余空间"


def test_calls_give_the_values_that_their_templates_need():
    wrong = [
        (place, key, placeholders(ENGLISH[key]), values)
        for keys, values, place in calls_in_code()
        for key in keys
        if not placeholders(ENGLISH[key]) <= values
    ]
    assert not wrong
    # Of a call that chooses between keys, each value is needed by one of them.
    idle = [
        (place, sorted(values - set().union(*(placeholders(ENGLISH[key]) for key in keys))))
        for keys, values, place in calls_in_code()
        if keys and values - set().union(*(placeholders(ENGLISH[key]) for key in keys))
    ]
    assert not idle


def test_chinese_sentences_are_chinese():
    """A template that holds more than placeholders and punctuation holds Chinese words, unless English has none."""

    def words(text):
        return re.findall(r"[A-Za-z]{2,}", re.sub(r"\{[^}]*\}", "", text))

    left = [key for key, text in OTHER.items() if len(words(text)) > 2 and not CHINESE.search(text)]
    assert not left


def test_numbers_lists_and_plurals():
    say = Sentences("en")
    named = message("health.new_labels_in_val.new", classes=1, names=["7"])
    assert say.fill(named) == "1 class only in validation: 7"
    more = message("values.more", names=["a", "b"], more=3)
    several = message("health.new_labels_in_val.new", classes=5, names=more)
    assert say.fill(several) == "5 classes only in validation: a, b and 3 more"
    assert Sentences("zh").fill(several) == "5 个类别只在验证集中出现：a、b 等，另有 3 个"
    assert say.fill(message("health.range", low=float("nan"), high=float("inf"))) == "NaN to infinity"
    assert say.fill(message("health.step_time_drift.slope", share=0.125)) == "12 % per 100 steps"


def test_an_unknown_message_falls_back_to_the_stored_text():
    say = Sentences("zh")
    assert say(Message("health.gone", {}), "as it was") == "as it was"
    assert say(message("health.range", low=1), "as it was") == "as it was"
    assert say(None, "as it was") == "as it was"
    for wrong in (Message("health.gone", {}), message("health.range", low=1)):
        with pytest.raises(LookupError):
            say.fill(wrong)


def test_a_notebook_has_its_own_sentences(tmp_path):
    (tmp_path / "words" / "messages").mkdir(parents=True)
    (tmp_path / "words" / "messages" / "en_health.toml").write_text('from_to = "{first} -> {last}"\n', "utf-8")
    say = Sentences("en", tmp_path)
    assert say.fill(message("health.from_to", first=2, last=1)) == "2 -> 1"
    assert say.fill(message("health.range", low=1, high=2)) == "1 to 2"


def test_messages_survive_run_json():
    inner = message("health.module", name="layer1", type="ReLU")
    said = message("health.dead_relu.dead", share=0.5, layer=inner)
    row = CheckResult("dead_relu", "t", "e", "o", "fail", observed_message=said, evidence_messages=(said, inner))
    run = Run("i", "finished", ("python",), "/", 0.0, checks=(row,))
    read = run_from_json(run_to_json(run)).checks[0]
    for language in ("en", "zh"):
        say = Sentences(language)
        assert say(read.observed_message) == say(said)
        assert [say(one) for one in read.evidence_messages] == [say(said), say(inner)]


def test_texts_that_are_stored_in_english_stand_so_in_the_code():
    texts = read_words(FOLDER / "zh_texts.toml")
    texts = {text: said for text, said in texts.items() if text not in map(os.strerror, errno.errorcode)}
    code = "\n".join([*map(repr, ENGLISH.values()), *(path.read_text("utf-8") for path in python_files())])
    # A long sentence is two strings, one below the other.
    code = VALUE.sub("#", re.sub(r"""["']\n *["']""", "", code))
    # The probe puts the name of the framework into some.
    forms = {text: {text, text.replace("torch", "%s"), text.replace("paddle", "%s")} for text in texts}
    assert [text for text in texts if not any(repr(form)[1:-1] in code for form in forms[text])] == []
    words = {text: re.sub(r"\{.*?\}", "", text).strip(" .;") for text in texts}
    assert all(CHINESE.search(said) or text.startswith("--") or not words[text] for text, said in texts.items())
    say = Sentences("zh")
    assert say("no sample was taken") == "没有采样" and say("another reason") == "another reason"
    because = message("health.not_observed.because", reason="switched off by --debug off")
    assert say(because) == "未观察到：已用 --debug off 关闭"


def test_every_sentence_with_values_of_a_check_is_said_in_chinese():
    texts = read_words(FOLDER / "zh_texts.toml")
    nodes = [node for path, found in sources() if path.parent.name == "checks" for node in found]
    calls = [one for one in nodes if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "Text"]
    strings = {one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    templates_ = {text for text in strings if re.search(r"\{[a-z]+\}", text) and "\n" not in text and "`" not in text}
    assert len(calls) > 30 and templates_ <= set(texts)
    assert all(placeholders(text) == placeholders(texts[text]) for text in templates_)


@given(st.floats(-1e300, 1e300))
def test_a_number_has_four_digits(value):
    assert float(format_number(value)) == pytest.approx(value, rel=1e-3)


@given(st.floats(0, 1))
def test_a_share_is_whole_only_when_it_is(share):
    seen = format_percent(share)
    assert (seen == "100 %") == (share == 1.0) and (seen == "0 %") == (share == 0.0)


@pytest.mark.process
def test_what_every_command_imports_has_no_run_and_no_events():
    """The classes of all events take 15 ms."""
    code = "import sys, labbook.store.text.sentences, labbook.record.recovery; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"labbook.model.run", "labbook.model.events"}.intersection(done.stdout.split())
