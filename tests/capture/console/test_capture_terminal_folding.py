"""Progress bars keep their last state, escapes vanish, and every way of cutting the text folds alike."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.capture.console.terminal_folding import LONGEST_LINE, LineFolder


def fold(text: str, cuts: tuple[int, ...] = ()) -> str:
    folder = LineFolder()
    done, at = "", 0
    for cut in [*sorted(cuts), len(text)]:
        done += folder.feed(text[at:cut])
        at = max(at, cut)
    return done + folder.finish()


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@in_one_test(
    ("printed", "kept"),
    [
        ("plain\ntext\n", "plain\ntext\n"),
        ("no newline", "no newline\n"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("10%\r50%\r100%\r\ndone\n", "100%\ndone\n"),
        ("bar\r   \rafter the bar\n", "after the bar\n"),
        ("\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[m\n", "red and blue\n"),
        ("\x1b]0;window title\x07text\n", "text\n"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        ("\x1bPq#0;2;0;0;0\x1b\\sixel\n", "sixel\n"),
        ("a\x00b\x07c\x7fd\x9be\n", "abcde\n"),
        ("1/3 [=>  ]\x08\x08\x08\x08\x08\x08\x08\x08\x08\x082/3 [==> ]\n", "2/3 [==> ]\n"),
        ("one\ntwo\n\x1b[2A\x1b[2KONE\n\x1b[1B", "one\ntwo\nONE\n"),
        ("\ra 0%\nb 0%\x1b[A\ra 100%\n\rb 100%\n", "a 100%\nb 100%\n"),
        ("\x1b[1G10%\x1b[1G20%\n", "20%\n"),
        ("损失 0.5\n", "损失 0.5\n"),
    ],
)
def test_folding_gives_the_final_text_of_a_terminal(printed, kept):
    assert fold(printed) == kept


def test_nested_bars_of_tqdm_leave_one_line_each():
    tqdm = pytest.importorskip("tqdm").tqdm
    screen = Screen()
    for _ in tqdm(range(3), file=screen, mininterval=0, desc="epoch", ncols=60):
        for _ in tqdm(range(50), file=screen, mininterval=0, desc="inner", ncols=60):
            pass

    lines = fold(screen.getvalue()).split("\n")[:-1]

    assert [line.split(":")[0] for line in lines] == ["inner", "inner", "inner", "epoch"]
    assert all("100%" in line for line in lines)


def test_a_long_bar_leaves_one_line():
    text = "".join(f"\r{n}/100000 loss={1 / (n + 1):.4f}" for n in range(100_000)) + "\nend\n"

    assert fold(text, tuple(range(0, len(text), 7001))) == "99999/100000 loss=0.0000\nend\n"


def test_lines_after_nested_bars_are_released():
    folder = LineFolder()
    folder.feed("a\nb\x1b[A\rA\n")
    out = folder.feed("".join(f"line {n}\n" for n in range(200)))

    assert "line 150\n" in out
    assert folder.feed("next\n") == "next\n"


def test_settled_text_excludes_the_growing_line():
    folder = LineFolder()
    folder.feed("epoch 10%\repoch 20%\repoch 3")

    assert folder.changeable_lines() == ["epoch 20%"]
    assert folder.feed("0%\ndone\n" + "more\n" * 10).startswith("epoch 30%\ndone\n")


def test_a_line_without_end_leaves_in_pieces():
    folder = LineFolder()
    out = "".join(folder.feed("x" * 1000) for _ in range(1000))

    assert len(out) > 1_000_000 - 2 * LONGEST_LINE
    assert (out + folder.finish()).replace("\n", "") == "x" * 1_000_000


def test_an_image_in_the_stream_is_swallowed():
    text = "before\n\x1b]1337;File=inline=1:" + "QUJD" * 50_000 + "\x07after\n"

    assert fold(text, tuple(range(0, len(text), 4096))) == "before\nafter\n"


def test_an_endless_escape_sequence_is_cheap():
    out = fold("\x1b]0;" + "lost " * 10 + "\nkept\n" + "\x1b[" * 10_000 + "\nend\n")

    assert "kept\n" in out and out.endswith("end\n")


PIECES = [
    "a", "word ", "b\n", "\n", "\r", "\r\n", "\x1b[A", "\x1b[2A", "\x1b[B", "\x1b[2K", "\x1b[K", "\x08", "\x1b[31m",
    "\x1b]0;t\x07", "é", "\x1bM", "\x1b[1G", "\x1b[2J", "\x1b[C", "\x1b[J", "\x1b", "[", "\t", "line\n" * 70,
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=60), st.randoms(use_true_random=False))
def test_every_split_folds_alike(pieces, chance):
    text = "".join(pieces)
    cuts = tuple(chance.randrange(len(text) + 1) for _ in range(chance.choice([1, 2, 9])))

    assert fold(text, cuts) == fold(text)


def test_random_bytes_never_raise():
    chance = random.Random(1)
    for _ in range(50):
        fold(chance.randbytes(5000).decode("latin-1"), tuple(chance.randrange(5000) for _ in range(5)))
