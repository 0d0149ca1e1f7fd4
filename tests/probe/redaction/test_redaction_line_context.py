"""Names on lines before, sections around a key, and secrets that are not written as one word beside their name."""

import base64
import json
from pathlib import Path

import pytest
from order_of_tests import in_one_test

from labbook.probe.redaction.known_secrets import known_values
from labbook.probe.redaction.redactor import Redactor
from labbook.probe.redaction.stream import StreamRedactor
from labbook.store.recorder_redaction import example_text

DATA = Path(__file__).parents[2] / "data"
OVER_LINES = (DATA / "secrets_over_lines.txt").read_text(encoding="utf-8").splitlines()
HARMLESS = (DATA / "harmless_over_lines.txt").read_text(encoding="utf-8").splitlines()


def redactor():
    return Redactor(home="/home/wei", user="wei")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("env:\n- name: DB_PASSWORD\n  value: @\n", "kestrel$CptQeC"),
        ("the token (expires soon) is @\n", "o7GzLbUAXPMWrj9LSw6txtW2TL0Q5LFuUbO2LIWM"),
        ("the api key for runs is @\n", "yQ00dBZ56taoIIq1f2udU0CehEOXrgci"),
        ("password: |\n  @\n", "quartz!BInsxM"),
        ("--set secrets.judge=@\n", "Q1xJsN9FTmRoLCBeGtPNOzdbdTRYPABiupkPA622"),
        ('{"log": "\\u001b[0;36m@\\u001b[0m"}', "ghp_LIQG3h6GtLN0deruroBh8mKL2V0KaqNKURae"),
        ("'\\x1b[1m@'", "ghp_LIQG3h6GtLN0deruroBh8mKL2V0KaqNKURae"),
        ("token_b64 = b'@'\n", "IqKkXk8bK/jubcn3ZPywKCYMCOr7sHTIbN2WjSDL"),
    ],
)
def test_a_value_is_found_behind_its_name_and_words_are_no_values(text, value):
    assert value not in redactor().text(text.replace("@", value))
    for word in ("required", "Enter", "missing", "secrets/judge.yaml"):
        assert redactor().text(text.replace("@", word)) == text.replace("@", word)


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_under_a_name_stay(line):
    text = line.replace("\u21b5", "\n")
    assert redactor().text(text) == text and redactor().find(text) == []


@in_one_test("line", OVER_LINES)
@in_one_test("end", ["\n", "\r\n"])
def test_a_name_on_a_line_before_tells_what_its_value_is(line, end):
    secret = example_text("{hex:40}", len(line))
    text = "epoch 1\n" + line.replace("@S@", secret).replace("\u21b5", end) + end + "epoch 2\n"
    out = redactor().text(text)
    assert secret not in out and "[REDACTED:" in out and out.count("\n") == text.count("\n")
    assert redactor().text(out) == out
    assert [rule for _, rule in redactor().find(text)]
    for cut in range(len(text)):
        stream = StreamRedactor(redactor())
        assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.finish() == out
    coloured = text.replace(secret, "\x1b[32m" + secret + "\x1b[0m")
    assert secret not in redactor().text(coloured)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GOOGLE_CREDS", '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----"}'),
        ("client-key-data", "-----BEGIN EC PRIVATE KEY-----\nQUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\n"),
        ("auth", "wei:Ab3xyz99"),
    ],
)
def test_what_is_secret_stays_so_in_base64(name, value):
    encoded = base64.b64encode(value.encode()).decode()
    for text in (f"{name}: {encoded}", json.dumps({"x": {name: encoded}})):
        assert encoded[-12:] not in redactor().text(text)
    assert encoded not in json.dumps(redactor().data({name: encoded}))


def test_a_recovery_phrase_is_secret_and_a_short_mnemonic_is_not():
    words = "abandon ability crystal dolphin elegant fabric galaxy harvest ivory jungle kitten lemon"
    for text in ("seed_phrase: {}", 'mnemonic="{}"', "recovery phrase = {}"):
        assert words[:20] not in redactor().text(text.format(words))
    assert known_values({"SEED_PHRASE": words}, []) == [words]


@pytest.mark.parametrize("section", ["wandb", "bos", "hub_openai"])
def test_a_key_belongs_to_the_section_that_it_stands_in(section):
    secret = example_text("{hex:40}")
    for data in ({section: {"project": "x", "key": secret}}, {"a": {"username": "wei", "key": secret}}):
        assert secret not in json.dumps(redactor().data(data))
        assert secret not in redactor().text(json.dumps(data)) or "username" in json.dumps(data)
    harmless = {section: {"key": "val_loss"}, "cache": {"key": secret}}
    assert redactor().data(harmless) == harmless and redactor().text(json.dumps(harmless)) == json.dumps(harmless)
