"""Secrets known by value: collected from environment and command line, found in every spelling."""

import base64
import html
import json
import re
import shlex
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.probe.redaction.known_secrets import is_worth_masking, known_values
from labbook.probe.redaction.redactor import Redactor
from labbook.store.recorder_redaction import example_text

SECRETS = ["k3yOfThisRun", "p@ss w0rd/+%", "qu\"ote's\\back", "密码是abc123", example_text("{hex:40}"), "tail=&?;#<x>9"]

SPELLINGS = {
    "exact": lambda s: s,
    "percent": lambda s: quote(s, safe=""),
    "percent, path": quote,
    "percent, lower": lambda s: re.sub("%..", lambda m: m[0].lower(), quote(s, safe="")),
    "percent, twice": lambda s: quote(quote(s, safe=""), safe=""),
    "plus": quote_plus,
    "json": json.dumps,
    "json, unicode": lambda s: json.dumps(s, ensure_ascii=False),
    "json in json": lambda s: json.dumps(json.dumps({"a": s})),
    "repr": repr,
    "shell": shlex.quote,
    "html": html.escape,
    "hex": lambda s: s.encode().hex(),
}


@in_one_test("secret", SECRETS)
@in_one_test("spelling", SPELLINGS)
def test_every_spelling(secret, spelling):
    written = SPELLINGS[spelling](secret)
    made = Redactor(known=[secret], home="", user="")
    out = made.text(f"before {written} after")
    assert "[REDACTED:known]" in out and made.counts["known"] == 1
    core = SPELLINGS[spelling](secret)[1:-1]
    assert core not in out


@in_one_test("secret", SECRETS)
@in_one_test("offset", range(6))
@in_one_test("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_at_every_offset(secret, offset, encode):
    written = encode(b"x" * offset + secret.encode() + b"user:tail").decode()
    out = Redactor(known=[secret], home="", user="").text(f"Basic {written}!")
    kept = out.replace("Basic ", "").replace("!", "").split("[REDACTED:known]")
    assert len(kept) == 2
    # What is left of the secret are the bits that it shares with its neighbours.
    left = len(kept[0]) * 6 // 8 - offset, len(kept[1])
    assert left[0] <= 1 and left[1] <= (9 * 8 + 6) // 6 + 3


@example("::::::;<")  # no letter and no digit
@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=8, max_size=24)
)
def test_any_value_is_found_in_any_spelling(secret):
    if not is_worth_masking(secret):
        return
    made = Redactor(known=[secret], home="", user="")
    for name, spelling in SPELLINGS.items():
        written = spelling(secret)
        assert "[REDACTED:" in made.text(f"<{written}>"), (name, written)


def test_values_of_the_environment():
    environ = {
        "WANDB_API_KEY": example_text("{hex:40}"),
        "DB_PASS": "abc123",
        "HF_TOKEN": "hunter22",
        "DATABASE_URL": "postgres://app:S3cr3tPw@db/x",
        "GIT_REMOTE": "https://tok3nValue@git.example.com/x",
        "SETTINGS": '{"lr": 0.1, "auth": {"password": "inJson99"}, "name": "plain"}',
        "OTHER": example_text("ghp_{alnum:36}"),
        "PEM_KEY": "-----BEGIN PRIVATE KEY-----\n" + example_text("{b64:64}") + "\n-----END PRIVATE KEY-----",
        "SERVICE_PRIVATE_KEY": "-----BEGIN PRIVATE KEY-----\n"
        + example_text("{b64:60}")
        + "\n-----END PRIVATE KEY-----",
        "PWD": "/home/wei/secret",
        "SSH_AUTH_SOCK": "/tmp/ssh-x/agent.1",
        "TOKENIZERS_PARALLELISM": "false",
        "API_TOKEN": "none",
        "SECRET_KEY": "changeme",
        "MY_PASSWORD": "12345678",
        "AUTH_TOKEN": "abc",
        "KEY_FILE_PASSWORD": "/run/secrets/x",
        "PATH": "/usr/bin",
        "EMPTY_TOKEN": "",
    }
    found = known_values(environ, [])
    for secret in (
        "abc123",
        "hunter22",
        "S3cr3tPw",
        "tok3nValue",
        "inJson99",
        environ["WANDB_API_KEY"],
        environ["OTHER"],
    ):
        assert secret in found
    assert example_text("{b64:60}") in found
    for harmless in ("/home/wei/secret", "/tmp/ssh-x/agent.1", "false", "none", "changeme", "12345678", "abc", "plain"):
        assert harmless not in found
    assert found == sorted(found, key=lambda value: (-len(value), value))


def test_values_of_the_command_line():
    argv = [
        "x.py",
        "--api-key",
        "Zq81xx",
        "--token=Yp92yy",
        "--lr",
        "0.1",
        "db.password=Xo73zz",
        "--password",
        "--flag",
    ]
    found = known_values({}, argv)
    assert sorted(found) == ["Xo73zz", "Yp92yy", "Zq81xx"]


@pytest.mark.parametrize(
    "value",
    [
        "abc",
        "false",
        "password",
        "12345678",
        "1.5e-3",
        "/usr/local/lib/x",
        "~/x/y",
        "${TOKEN}",
        "aaaaaaaa",
        "pytorch",
        "https://example.org/x",
    ],
)
def test_values_that_would_spoil_ordinary_text_are_left(value):
    assert not is_worth_masking(value)


def test_a_word_is_masked_as_a_word_only():
    made = Redactor(known=["banana"], home="", user="")
    assert (
        made.text("banana bananas cabanana banana-split") == "[REDACTED:known] bananas cabanana [REDACTED:known]-split"
    )


def test_values_learnt_later():
    made = Redactor(home="", user="")
    assert made.text("x Zq81xxAb") == "x Zq81xxAb"
    made.learn(["Zq81xxAb", "abc"])
    assert made.text("x Zq81xxAb abc") == "x [REDACTED:known] abc"
