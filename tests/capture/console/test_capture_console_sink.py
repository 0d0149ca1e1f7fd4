"""What is kept of a long output, and that nothing raw ever reaches the disk."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys

import pytest
from order_of_tests import in_one_test

from labbook.capture.console.console_reader import read_console
from labbook.capture.console.console_sink import ConsoleSink
from labbook.capture.console.notable_lines import NotableLines, notable_spans, open_key_line
from labbook.probe.redaction.redactor import Redactor

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def on_disk(folder) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


def sink_in(folder, **limits) -> ConsoleSink:
    return ConsoleSink(folder, Redactor(), **limits)


def feed(sink, data: bytes, step: int = 5000) -> None:
    for start in range(0, len(data), step):
        sink.feed("stdout", data[start : start + step])


def test_short_output_is_stored_completely(tmp_path):
    sink = sink_in(tmp_path)
    sink.feed("stdout", b"one\ntw")
    sink.feed("stderr", b"trouble\n")
    sink.feed("stdout", b"o\nthree")
    sink.close()

    console = read_console(tmp_path)

    assert console.text == "one\ntrouble\ntwo\nthree\n"
    assert (console.lines, console.left_out) == (4, 0)


def test_long_output_is_stored_with_both_ends_and_notable_lines(tmp_path):
    sink = sink_in(tmp_path, head_bytes=10_000, tail_bytes=20_000)
    lines = [f"ordinary line {n}" for n in range(20_000)]
    lines[9_000] = "ValueError: no such layer"
    lines[9_500] = "2026-11-21 WARNING learning rate is large"
    feed(sink, ("\n".join(lines) + "\n").encode())
    sink.close()

    console = read_console(tmp_path)
    kept = console.text.split("\n")[:-1]

    assert kept[:300] == lines[:300]
    assert kept[-500:] == lines[-500:]
    middle = kept.index("ValueError: no such layer")
    assert kept[middle - 1] == f"... {console.left_out + 2:,} lines left out, except for 2 notable ones ..."
    assert kept[middle + 1] == lines[9_500]
    assert kept[middle + 2].startswith("... all lines from line ")
    assert console.lines == 20_000
    assert console.left_out == 20_000 - (len(kept) - 2)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 60_000


def test_a_traceback_in_the_middle_is_stored_completely(tmp_path):
    traceback = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "train.py", line 3, in <module>\n'
        "[rank1]:     main()\n"
        "[rank1]: RuntimeError: mat1 and mat2 shapes cannot be multiplied\n"
    )
    filler = "".join(f"ordinary line {n}\n" for n in range(5_000))
    sink = sink_in(tmp_path, head_bytes=5_000, tail_bytes=5_000)
    feed(sink, (filler + traceback + filler).encode())
    sink.close()

    assert traceback in read_console(tmp_path).text


def test_metric_lines_of_a_kind_are_thinned_and_all_kinds_stay(tmp_path):
    lines = "".join(
        f"step {n} loss: {1 / (n + 1):.5f}\n" + (f"epoch {n} accuracy=0.5\n" if n % 10_000 == 0 else "")
        for n in range(100_000)
    )
    sink = sink_in(tmp_path, head_bytes=1_000, tail_bytes=1_000)
    feed(sink, lines.encode(), 60_000)
    sink.close()

    text = read_console(tmp_path).text

    assert 200 < text.count("loss:") < 1_000
    assert text.count("accuracy") == 10


def test_skimmed_output_is_counted_and_its_notable_lines_stored(tmp_path):
    sink = sink_in(tmp_path, head_bytes=100, tail_bytes=100_000)
    sink.feed("stdout", b"start\nhalf of a ")
    sink.skim("stdout", b"line\n" + b"flood\n" * 1000 + b"CUDA error: out of memory\n" + b"flood\n" * 1000 + b"cut he")
    sink.feed("stdout", b"re\nend\n")
    sink.close()

    console = read_console(tmp_path)

    assert console.lines == 2005
    assert [line for line in console.text.split("\n") if line and not line.startswith("...")] == [
        "start", "half of a line", "CUDA error: out of memory", "cut here", "end",
    ]  # fmt: skip


def test_nothing_raw_is_on_disk_at_any_moment(tmp_path):
    sink = sink_in(tmp_path, head_bytes=500, tail_bytes=2_000)
    text = "".join(f"{n} password={SECRET}\n\rbar {n} token: {SECRET}" for n in range(100)).encode()
    for start in range(0, len(text), 37):
        sink.feed("stdout", text[start : start + 37])
        sink.flush()
        assert SECRET[4:12].encode() not in on_disk(tmp_path)
    sink.close()

    console = read_console(tmp_path)
    assert SECRET[4:12] not in console.text
    assert sum(console.redactions.values()) == 200


KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA7bq8Zk3xYw9\n" * 20 + "-----END RSA PRIVATE KEY-----\n"


def test_a_key_that_a_bar_holds_back_never_shows(tmp_path):
    """Lines after a bar wait for it; the snapshot of waiting lines must know what came before them."""
    sink = sink_in(tmp_path)
    for line in ("bar 1\rbar 2\n" + KEY).split("\n"):
        sink.feed("stdout", line.encode() + b"\n")
        sink.flush()
        assert b"MIIEow" not in on_disk(tmp_path)
    sink.close()
    assert b"MIIEow" not in on_disk(tmp_path)


def test_a_key_in_skimmed_output_never_shows(tmp_path):
    sink = sink_in(tmp_path, head_bytes=10)
    half = len(KEY) // 2
    sink.skim("stdout", b"flood\n" * 100 + KEY[:half].encode())
    sink.feed("stdout", KEY[half:].encode() + b"after\n")
    sink.close()

    assert b"MIIEow" not in on_disk(tmp_path)
    assert read_console(tmp_path).text.endswith("after\n")


def test_the_state_of_a_bar_survives_a_crash(tmp_path):
    sink = sink_in(tmp_path)
    sink.feed("stderr", b"start\n 10% loss=2.0\r 20% loss=1.0\r 30% los")
    sink.flush()

    assert read_console(tmp_path).text == "start\n 20% loss=1.0\n"


def test_a_second_sink_continues_after_the_first_one_died(tmp_path):
    first = sink_in(tmp_path, head_bytes=1_000, tail_bytes=5_000)
    feed(first, b"".join(b"first %d\n" % n for n in range(300)) + b"10%\r20%\r3")
    first.flush()
    second = sink_in(tmp_path, head_bytes=1_000, tail_bytes=5_000)
    second.gap("stdout", 0)
    second.feed("stdout", b"0%\nsecond 0\nsecond 1\n")
    second.close()

    console = read_console(tmp_path)

    # The bar that was growing is the line that is lost.
    assert console.lines == 304
    assert console.text.endswith("first 299\n20%\n... 1 line left out ...\nsecond 0\nsecond 1\n")


def test_a_torn_file_is_read_and_continued(tmp_path):
    sink = sink_in(tmp_path)
    sink.feed("stdout", b"one\ntwo\nthree\n")
    head = tmp_path / "output.head"
    head.write_bytes(head.read_bytes()[:-4])
    assert read_console(tmp_path).text == "one\ntwo\nth\n"

    again = sink_in(tmp_path)
    again.feed("stdout", b"four\n")
    again.close()

    assert read_console(tmp_path).text == "one\ntwo\nth\nfour\n"


class Raising(Redactor):
    """A redactor with a bug."""

    def lines(self, block, state):
        if "boom" in block:
            raise RuntimeError(block)
        return super().lines(block, state)


def test_text_that_cannot_be_redacted_is_withheld(tmp_path):
    sink = ConsoleSink(tmp_path, Raising())
    sink.feed("stdout", b"before\n")
    sink.feed("stdout", b"boom hidden\nboom again\n")
    sink.feed("stdout", b"after\n")
    sink.feed("stdout", b"boom at the end")
    sink.close()

    console = read_console(tmp_path)

    assert console.text == (
        "before\n[withheld: 2 lines, the redaction failed (RuntimeError)]\nafter\n"
        "[withheld: 1 line, the redaction failed (RuntimeError)]\n"
    )
    assert b"boom" not in on_disk(tmp_path)
    assert console.lines == 4


@pytest.mark.process
def test_a_full_disk_is_survived(tmp_path):
    """A limit on the size of files stands for the full disk: every later write fails in the same way."""
    program = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from labbook.capture.console.console_sink import ConsoleSink\n"
        "from labbook.probe.redaction.redactor import Redactor\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "sink = ConsoleSink(Path(sys.argv[1]), Redactor())\n"
        "for n in range(1000): sink.feed('stdout', b'line %d\\n' % n)\n"
        "sink.close()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)

    console = read_console(tmp_path)
    assert console.text.startswith("line 0\nline 1\n")
    assert console.text.endswith(f"... {console.left_out} lines left out ...\n")
    assert console.lines == 1000 and console.left_out > 700


def test_a_folder_that_cannot_be_written_is_survived(tmp_path):
    (tmp_path / "file").write_text("")
    sink = sink_in(tmp_path / "file" / "console")
    sink.feed("stdout", b"text\n")
    sink.skim("stdout", b"text\n")
    sink.gap("stdout", 3)
    sink.flush()
    sink.close()


def test_bytes_that_are_no_text(tmp_path):
    chance = random.Random(2)
    sink = sink_in(tmp_path)
    for cut in range(1, 4):
        data = "损失 é 𝛌\n".encode()
        sink.feed("stdout", data[:cut])
        sink.feed("stdout", data[cut:])
    sink.feed("stdout", chance.randbytes(200_000))
    sink.feed("stdout", b"\nend\n")
    sink.close()

    text = read_console(tmp_path).text
    assert text.startswith("损失 é 𝛌\n" * 3)
    assert text.endswith("\nend\n")
    assert not [c for c in text if ord(c) < 32 and c not in "\n\t"]


def test_a_line_without_end(tmp_path):
    sink = sink_in(tmp_path)
    for _ in range(400):
        sink.feed("stdout", b"x" * 1000)
    sink.feed("stdout", f" token={SECRET} \nend\n".encode())
    sink.close()

    console = read_console(tmp_path)
    assert console.text.count("x") == 400_000
    assert SECRET not in console.text and console.text.endswith("end\n")
    assert max(map(len, console.text.split("\n"))) < 200_000


def test_output_in_a_file_is_read_at_the_end(tmp_path):
    out = tmp_path / "out.log"
    out.write_bytes(b"from another run\n")
    folder = tmp_path / "console"
    sink = sink_in(folder, head_bytes=2_000, tail_bytes=4_000)
    sink.file_stream("output", out, len(b"from another run\n"))
    lines = [f"ordinary line {n}" for n in range(100_000)]
    lines[50_000] = f"RuntimeError: token={SECRET}"
    with out.open("a") as stream:
        stream.write("\n".join(lines) + "\n")

    assert read_console(folder).text == ""
    console = read_console(folder, Redactor())
    again = read_console(folder, Redactor())

    assert again == console
    assert console.text.startswith("ordinary line 0\n") and console.text.endswith("ordinary line 99999\n")
    assert "RuntimeError: token=[REDACTED" in console.text
    assert console.lines == 100_000
    assert SECRET.encode() not in on_disk(folder)
    whole = sink_in(tmp_path / "whole")
    whole.file_stream("output", out, 0)
    whole.close()
    assert read_console(tmp_path / "whole").text.startswith("from another run\nordinary line 0\n")


def test_a_file_that_was_replaced_is_named(tmp_path):
    out = tmp_path / "out.log"
    out.write_text("mine\n")
    sink = sink_in(tmp_path / "console")
    sink.file_stream("output", out, 0)
    out.rename(tmp_path / "old.log")
    out.write_text("of somebody else\n")
    sink.close()

    assert read_console(tmp_path / "console").text == "[cannot read the output from its file: FileNotFoundError]\n"


def test_an_empty_or_missing_folder(tmp_path):
    assert read_console(tmp_path).text == ""
    assert read_console(tmp_path / "none").lines == 0


def test_broken_counts_do_not_matter(tmp_path):
    sink = sink_in(tmp_path)
    sink.feed("stdout", b"one\n")
    sink.close()
    (tmp_path / "counts.json").write_text('{"lines": ')

    assert read_console(tmp_path).lines == 1


@in_one_test(
    "line",
    ["ValueError: x", "E1121 error", "loss: 0.5", "loss=nan", "{'train_loss': 0.25}", "val/acc 0.9 acc=0.9", "lr: 1e-4",
     "out of memory", "训练失败", "Segmentation fault (core dumped)", "Epoch 3 - accuracy: 0.91", "step 3 loss is nan"],
)  # fmt: skip
def test_notable_lines(line):
    assert NotableLines().pick(1, [line]) == [(1, line)]


@in_one_test("line", ["hello", "INFO start", "a map of things", "12 files copied", "colossal"])
def test_ordinary_lines(line):
    assert NotableLines().pick(1, [line]) == []


def test_spans_are_whole_lines_in_order():
    block = b"a\nan Error here\nb\nTraceback (most recent call last):\n  File\n    x\nKeyError: 1\nc\n"

    for hurried in (False, True):
        assert [block[a:b] for a, b in notable_spans(block, hurried)] == [
            b"an Error here\n", b"Traceback (most recent call last):\n  File\n    x\nKeyError: 1\n",
        ]  # fmt: skip


def test_the_open_key_of_a_block():
    begin, end = b"-----BEGIN EC PRIVATE KEY-----", b"-----END EC PRIVATE KEY-----"

    assert open_key_line(b"x\n" + begin + b"\nabc") == begin
    assert open_key_line(begin + b"\nabc\n" + end) == b""
    assert open_key_line(b"body only", before=begin) == begin
    assert open_key_line(end, before=begin) == b""


@pytest.mark.parametrize("seed", range(40))
def test_every_line_is_counted_once_even_if_omitted(tmp_path, seed):
    chance = random.Random(seed)
    count = chance.randrange(1, 12)
    text = b"".join(b"line %d %s\n" % (n, chance.choice([b"", b"error"])) for n in range(count))
    cuts = sorted({chance.randrange(len(text)) for _ in range(5)} | {0, len(text)})
    sink = sink_in(tmp_path)
    for start, end in itertools.pairwise(cuts):
        part, how = text[start:end], chance.randrange(4)
        first, last = part.find(b"\n") + 1, part.rfind(b"\n") + 1
        if how == 0:
            sink.feed("stdout", part)
        elif how == 1:
            sink.skim("stdout", part)
        elif how == 2 or first >= last:
            sink.gap("stdout", part.count(b"\n"), cut=last < len(part))
        else:
            sink.gap("stdout", 1, cut=False)
            sink.rescue("stdout", part[first:last])
            sink.gap("stdout", 0, cut=last < len(part))
    sink.close()

    assert read_console(tmp_path).lines == count
