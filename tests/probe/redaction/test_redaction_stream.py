"""Text in pieces: however it is cut, the result is that of one piece; private keys are followed over lines."""

import functools
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import further, in_one_test

from labbook.probe.redaction.redactor import Redactor
from labbook.probe.redaction.stream import StreamRedactor
from labbook.store.recorder_redaction import example_text

BODY = [example_text("{b64:64}", seed) for seed in range(6)] + [example_text("{b64:22}", 9) + "=="]
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *BODY, "-----END RSA PRIVATE KEY-----"]

TEXT = "\n".join(
    [
        "epoch 1 loss=0.5 tokens/s=12",
        "10%|█  | 1/10\r20%|██ | 2/10\rpassword=hunter2zz\r\n",
        example_text("token ghp_{alnum:36} and sk-{hex:32}"),
        *KEY,
        "\x1b[33mapi_\x1b[0mkey\x1b[31m=\x1b[32mAbcdef123456\x1b[0m tail",
        "File /home/wei/p/train.py and /home/anna/x",
        "known: k3yOfThisRun and azN5T2ZUaGlzUnVu",
        *[f"[rank1]: {line}" for line in KEY[:-1]],
        "training goes on without the end of the line",
        "Authorization: Bearer " + example_text("{url:40}"),
        "密码：hunter2zz 完成",
        "last line without end, password=hunter2zz",
    ]
)


@functools.cache
def redactor(window=None):
    made = Redactor(known=["k3yOfThisRun"], home="/home/wei", user="wei")
    if window:
        made.window = window
    return made


def in_pieces(text, cuts, window=None):
    stream = StreamRedactor(redactor(window))
    bounds = [0, *sorted(cuts), len(text)]
    out = [stream.feed(text[a:b]) for a, b in itertools.pairwise(bounds)]
    return "".join(out) + stream.finish()


@pytest.mark.parametrize("stride", [5, *further(1)])
@pytest.mark.parametrize("window", [None, (48, 24), (200, 64)])
def test_every_split_gives_the_same(window, stride):
    text = TEXT[:600] if window else TEXT
    expected = redactor(window).text(text)
    for cut in range(0, len(text) + 1, stride):
        assert in_pieces(text, [cut], window) == expected, cut


@pytest.mark.parametrize("count", [60, *further(600)])
@pytest.mark.parametrize("window", [None, (48, 24), (200, 64)])
def test_random_splits_give_the_same(window, count):
    text = TEXT[600:]
    expected = redactor(window).text(text)
    source = random.Random(5)
    for _ in range(count):
        cuts = [source.randrange(len(text)) for _ in range(source.randrange(1, 40))]
        assert in_pieces(text, cuts, window) == expected


def test_one_character_at_a_time():
    assert in_pieces(TEXT, range(1, len(TEXT))) == redactor().text(TEXT)


@given(st.data())
def test_any_text_any_cut(data):
    parts = st.sampled_from(
        ["password=", "hunter2", "token ", "\n", "\r", " ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----",
         BODY[0], "https://u:p@h/", "/home/wei/x", "\x1b[1m", "'", '"', "k3yOfThisRun", "key: ", "sk-",
         "a1b2c3d4e5f6g7h8", "é"]
    )  # fmt: skip
    text = "".join(data.draw(st.lists(parts, max_size=30)))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    for window in (None, (40, 16)):
        assert in_pieces(text, cuts, window) == redactor(window).text(text)


def test_nothing_secret_is_left():
    out = redactor().text(TEXT)
    for secret in ("hunter2zz", "Abcdef123456", "k3yOfThisRun", "azN5T2ZUaGlzUnVu", "anna", "/home/wei", *BODY):
        assert secret not in out
    assert "training goes on without the end of the line" in out
    assert "epoch 1 loss=0.5 tokens/s=12\n10%|█  | 1/10\r20%|██ | 2/10\r" in out


def test_escapes_around_a_secret_stay():
    out = redactor().text("\x1b[33mapi_\x1b[0mkey\x1b[31m=\x1b[32mAbcdef123456\x1b[0m tail")
    assert out == "\x1b[33mapi_\x1b[0mkey\x1b[31m=\x1b[32m[REDACTED:secret]\x1b[0m tail"


@in_one_test("prefix", ["", "    ", "[1,0]<stdout>: ", "2026-11-21 15:30:12 INFO ", "+", "| ", "gpu-07: "])
@in_one_test("end", [True, False])
@in_one_test("line_end", ["\n", "\r\n"])
def test_a_private_key_with_a_prefix_on_each_line(prefix, end, line_end):
    lines = [prefix + line for line in (KEY if end else KEY[:-1])]
    out = redactor().text(line_end.join(["before", *lines, "after the key", "loss 0.5"]))
    assert not any(part[:20] in out for part in BODY)
    assert out.startswith("before") and "loss 0.5" in out and "after the key" in out


@pytest.mark.parametrize("newline", ["\\n", "\\\\n", "\\r\\n", " "])
@pytest.mark.parametrize("end", [True, False])
def test_a_private_key_on_one_line(newline, end):
    key = newline.join(KEY if end else KEY[:-1])
    out = redactor().text('{"type": "service_account", "private_key": "' + key + '", "client": "x"}\nnext line\n')
    assert not any(part[:20] in out for part in BODY)
    assert out.endswith('"client": "x"}\nnext line\n')


def test_a_key_that_is_cut_off_ends_where_the_next_begins():
    out = redactor().text("\n".join(["before", *KEY[:2], *KEY, *KEY[:2], "-----BEGIN CERTIFICATE-----", "loss 0.5"]))
    assert "PRIVATE KEY" not in out and not any(part[:20] in out for part in BODY)
    assert redactor().text(out) == out and out.endswith("loss 0.5")


def test_encrypted_and_other_kinds_of_keys():
    for kind in ("OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
        header = ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,0123", ""]
        text = "\n".join([f"-----BEGIN {kind}-----", *header, *BODY, f"-----END {kind}-----", "done"])
        out = redactor().text(text)
        assert not any(part[:20] in out for part in BODY) and out.endswith("\ndone")


def test_certificates_and_public_keys_stay():
    for kind in ("CERTIFICATE", "PUBLIC KEY", "RSA PUBLIC KEY"):
        text = "\n".join([f"-----BEGIN {kind}-----", *BODY, f"-----END {kind}-----"])
        assert redactor().text(text) == text


@pytest.mark.parametrize("where", [0, 65_500, 65_536, 70_000, 73_728, 140_000])
def test_secrets_in_a_line_of_200_kb(where):
    secret = example_text("ghp_{alnum:36}")
    filler = "x " * 100_000
    out = redactor().text(filler[:where] + " password=hunter2zz " + secret + " " + filler[where:])
    assert "hunter2zz" not in out and secret[:10] not in out
    assert out.replace("[REDACTED:password]", "").replace("[REDACTED:github_token]", "").count("x") == filler.count("x")


def test_a_value_longer_than_a_window_is_masked_whole():
    value = example_text("{alnum:2000}") * 100
    out = redactor().text(f"before password={value} after")
    assert out == "before password=[REDACTED:password] after"


def test_a_finished_stream_can_be_used_again():
    stream = StreamRedactor(redactor())
    assert stream.feed("-----BEGIN PRIVATE KEY-----\npassword=hunt") + stream.finish() != ""
    assert stream.feed("harmless\n") + stream.finish() == "harmless\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_come_out_as_soon_as_they_are_whole(end):
    stream = StreamRedactor(redactor())
    assert stream.feed("loss=1 password=hunter2zz" + end + "rest").startswith("loss=1 password=[REDACTED:password]")
    assert stream.finish() == "rest"
