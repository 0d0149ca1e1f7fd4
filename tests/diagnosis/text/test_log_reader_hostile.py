"""Reading any bytes: never an exception, bounded memory, no failure seen in healthy logs."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.diagnosis.text.log_reader import read_stream, read_text
from labbook.model.evidence import Evidence, ProcessEnd

LOGS = sorted((Path(__file__).resolve().parents[2] / "data" / "logs").glob("*.txt"))
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    step(x)\n'
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)\n"
)
HEALTHY = [
    "2026-03-04 10:00:01,123 - trainer - INFO - epoch {n} loss: 0.{n} error_rate: 0.12 nan_count: 0",
    "Epoch 3:  45%|####      | {n}/1000 [00:41<00:50, 10.87it/s, loss=0.31]",
    "validation done: 0 errors, 0 failures, information gain 0.{n}, exit criteria not met",
    '{{"step": {n}, "loss": 0.{n}, "infer_ms": 3, "default": true, "error": 0.{n}}}',
    "| {n} | 0.{n} | nanometres 5 | kernel_size 3 | learning rate 0.001 |",
    "Downloading model-{n}.safetensors: 100% [====] done",
    "inf/s 12, room {n}, filled buffer, signal-to-noise 3.{n} dB",
    "I0304 10:00:01.000 12 trainer.cc:{n}] ErrorFeedback compressor enabled",
]
pieces = st.sampled_from(
    [
        *TRACEBACK.splitlines(True),
        *(
            "\n",
            "\r",
            "\r\n",
            "\x00",
            "\x1b[31m",
            "│ ",
            "  + Exception Group Traceback (most recent call last):\n",
            "  | ",
        ),
        *(
            "\n\nDuring handling of the above exception, another exception occurred:\n\n",
            "Original ",
            "[rank1]: ",
            "0: ",
        ),
        *(
            "----> 3 x\n",
            "Cell In[3], line 1\n",
            "E   ValueError: x\n",
            "Error Message Summary:\n",
            "> ",
            "```\n",
            "    ",
        ),
        *(
            "C++ Traceback (most recent call last):\n",
            "ValueError: \n",
            "from user code:\n",
            '"""\n',
            "raised:\n",
            "错误：",
            "Killed\n",
        ),
        *(
            "Current thread 0x1 (most recent call first):\n",
            "terminate called after throwing an instance of 'x'\n",
            "a: b: c\n",
        ),
    ]
)


def shapes(read: Evidence) -> list[tuple[str, str, int]]:
    return [(one.type, one.message, one.line) for one in read.exceptions]


@given(st.binary(max_size=3000), st.integers(1, 400))
def test_any_bytes_give_an_answer(raw, size):
    read = read_stream(raw[at : at + size] for at in range(0, len(raw), size))

    assert isinstance(read, Evidence)


@given(st.lists(pieces | st.text(max_size=20), max_size=60))
def test_any_mixture_of_forms_gives_an_answer(parts):
    read = read_text("".join(parts))

    assert isinstance(read, Evidence)
    assert all(one.type or one.message or one.frames for one in read.exceptions)


@given(st.sampled_from(LOGS), st.integers(0, 5000), st.integers(0, 5000))
def test_an_output_may_be_cut_anywhere(path, first, last):
    raw = path.read_bytes()

    assert isinstance(read_stream([raw[first : len(raw) - last]]), Evidence)


@settings(max_examples=40)
@given(st.sampled_from(LOGS), st.integers(1, 64))
def test_the_size_of_the_pieces_changes_nothing(path, size):
    raw = path.read_bytes()

    assert read_stream(raw[at : at + size] for at in range(0, len(raw), size)) == read_stream([raw])


@in_one_test("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030"])
def test_encodings(encoding):
    text = "训练失败，请看下面的报错信息\n" + TRACEBACK + "请问怎么解决\n"

    read = read_stream([text.encode(encoding)])

    assert [one.type for one in read.exceptions] == ["RuntimeError"]
    assert any(one.text == "训练失败，请看下面的报错信息" for one in read.lines)


def test_a_line_in_latin_1_and_a_cut_character():
    read = read_stream([b"caf\xe9 ferm\xe9\n", TRACEBACK.encode(), "显存".encode()[:4]])

    assert read.exceptions[0].type == "RuntimeError"
    assert read.lines[0].text == "café fermé"


def test_carriage_returns_escapes_and_zeros():
    raw = TRACEBACK.replace("\n", "\r\n").replace("RuntimeError", "\x1b[1;31mRuntime\x00Error\x1b[0m")

    read = read_text("  5%|#    | 1/20 [00:01<00:19,  1.0s/it]\r" + raw)

    assert read.exceptions[0].type == "RuntimeError"
    assert read.exceptions[0].message == "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"


@pytest.mark.parametrize("lines", [60, 10_000])
def test_healthy_logs_show_no_failure(lines):
    text = "\n".join(HEALTHY[n % len(HEALTHY)].format(n=n) for n in range(lines))

    read = read_text(text)

    assert not read.exceptions
    assert read.ending == ProcessEnd()
    assert not [one for one in read.lines if lines > 200]


def test_an_exception_in_a_long_log_is_found_with_its_line():
    lines = [HEALTHY[n % len(HEALTHY)].format(n=n) for n in range(9_000)]
    # Steps after it would say that the program survived it.
    lines[4_000:] = [*TRACEBACK.splitlines(), *["2026-11-25 10:00:00,000 INFO waiting for the next job"] * 5_000]

    read = read_text("\n".join(lines))

    assert shapes(read) == [
        ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)", 4_001),
    ]
    assert [frame.source for frame in read.exceptions[0].frames] == ["step(x)"]


@in_one_test(
    "line",
    [
        "torch._C._LinAlgError: linalg.cholesky: the input is not positive-definite",
        "zipfile.BadZipFile: File is not a zip file",
        "torch._dynamo.exc.Unsupported: call_function print",
        "Exception: Current loss scale already at minimum",
    ],
)
def test_a_last_line_alone_is_found_in_a_long_log(line):
    lines = [HEALTHY[n % len(HEALTHY)].format(n=n) for n in range(1_000)]

    read = read_text("\n".join([*lines, line]))

    assert [one.line for one in read.exceptions] == [1_001]
    assert line.endswith(read.exceptions[0].message)


def test_notable_lines_of_a_long_log_are_counted():
    lines = [f"step {n} loss: nan" if n > 5_000 else f"step {n} loss: 0.5" for n in range(10_000)]
    lines += ["x.py:1: UserWarning: slow"] * 50

    read = read_text("\n".join(lines))

    assert read.lines[0].text == "step 5001 loss: nan"
    assert read.lines[0].count == 4_999
    assert next(one for one in read.lines if one.kind == "warning").count == 50
    assert len(read.lines) < 30


@in_one_test("line", ["no end", "Traceback (most recent call last): " * 4, '  File "a.py", line 1, in f ', "\t\t"])
def test_a_line_without_end_is_cut(line):
    big = line.encode() * (3_000_000 // len(line))

    read = read_stream([b"first\n", big[: 1 << 20], big, b"\nValueError: after it\n"])

    assert read.exceptions[-1].message == "after it"


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(monkeypatch):
    monkeypatch.setattr("labbook.diagnosis.text.error_windows._BUDGET", 2_000)

    def log(blocks):
        for n in range(blocks):
            yield (
                TRACEBACK.replace("4x8", f"{n}x8") + f"ValueError: number {n}\nWarning: disk {n} slow\n"
            ).encode() * 1_000

    tracemalloc.start()
    read = read_stream(log(12))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 20e6
    assert len(read.exceptions) < 100
    assert any("0x8" in one.message for one in read.exceptions)
    assert any("11x8" in one.message for one in read.exceptions)


def test_a_thousand_quotations_inside_each_other_are_read_without_recursion():
    text = "".join(f"RuntimeError: Caught E{n} in worker.\nOriginal {TRACEBACK}" for n in range(1_500))

    read = read_text(text)

    depth, one = 0, read.exceptions[0]
    while one.inner is not None:
        depth, one = depth + 1, one.inner
    assert 0 < depth < 50


def test_a_chain_of_a_thousand_is_bounded():
    read = read_text(
        "\nDuring handling of the above exception, another exception occurred:\n\n".join([TRACEBACK] * 1_000)
    )

    assert len(read.exceptions) < 20
    assert all(len(one.context) < 20 for one in read.exceptions)


def test_a_coloured_traceback_of_a_notebook_is_whole_in_a_long_output() -> None:
    title = "\x1b[31mOSError\x1b[39m                                   Traceback (most recent call last)\n"
    frame = (
        "\x1b[36mFile \x1b[39m\x1b[32m/env/store.py:{n}7\x1b[39m, in \x1b[36mfetch_{n}\x1b[39m\x1b[34m(x)\x1b[39m\n"
        "\x1b[32m    {n}6\x1b[39m \x1b[38;5;66;03m# of a long function\x1b[39;00m\n"
        "\x1b[32m--> \x1b[39m\x1b[32m{n}7\x1b[39m \x1b[38;5;28;01mreturn\x1b[39;00m find(x)\n\n"
    )
    last = "\x1b[31mOSError\x1b[39m: the store does not answer\n"
    text = "step\n" * 200 + title + "".join(frame.format(n=n) for n in range(20, 40)) + last
    raised = read_text(text).exceptions[-1]
    assert (raised.type, raised.message) == ("OSError", "the store does not answer")
    assert (raised.frames[0].function, raised.frames[-1].function) == ("fetch_20", "fetch_39")


def test_a_traceback_of_a_notebook_without_frames_has_its_message() -> None:
    raised = read_text(
        "KeyError                  Traceback (most recent call last)\nKeyError: 'plot_file'\n"
    ).exceptions
    assert [(one.type, one.message) for one in raised] == [("KeyError", "'plot_file'")]


@in_one_test("edge", ["│", "┃"])
def test_a_box_of_rich_without_its_upper_edge_is_a_traceback(edge) -> None:
    path = "/usr/lib/python3.10/dist-packages/grove/layers.py"
    box = f"{edge} {path}:252 in make     {edge}\n{edge} ❱ 252 │   if isinstance(part, bnb.Linear):   {edge}\n"
    (raised,) = read_text(f"{box}╰{'─' * 50}╯\nNameError: name 'bnb' is not defined\n").exceptions
    assert (raised.frames[-1].file, raised.frames[-1].source) == (path, "if isinstance(part, bnb.Linear):")
    assert not read_text(f"{edge} a.py:252 in make {edge} 3 of 4 {edge}\n").exceptions
