from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

import pytest
from order_of_tests import in_one_test

from labbook import screen

HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ "
    "\x9b2Jx\rover \u202eback\u202c \x1bcreset\x07"
)

PROGRAM = """
from labbook import screen
columns = [screen.Column("run", keep=9), screen.Column("status", keep=8), screen.Column("what", flexible=True, keep=7),
           screen.Column("time", right=True, keep=4), screen.Column("author", keep=1)]
rows = [[screen.Cell("20261121-153012-k3f9", "bold"), screen.status_cell("failed"), "损失变成 NaN " * 9, "84 s", "Wei"],
        ["20261121-153012-aaaa", screen.status_cell("finished"), "[red]plain[/red] \\x1b[31mred", "1 s", "张敏"]]
screen.print_table(columns, rows)
screen.print_panel("[bold]title", ["one", "\\x1b[2Jtwo"])
screen.print_markdown("# Title\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\n[link](http://x) \\x1b]0;bad\\x07\\n")
"""


def on_terminal(width: int, program: str = PROGRAM, **environ: str) -> str:
    """What the program prints on a terminal of that width."""
    leader, follower = pty.openpty()
    environment = {
        **os.environ,
        "COLUMNS": str(width),
        "TERM": "xterm-256color",
        "PYTHONIOENCODING": "utf-8",
        **environ,
    }
    environment.pop("NO_COLOR", None) if "NO_COLOR" not in environ else None
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=follower, stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            block = os.read(leader, 65536)
        except OSError:
            break
        if not block:
            break
        shown += block
    process.wait(90)
    os.close(leader)
    return shown.decode("utf-8")


@pytest.mark.process
def test_a_page_longer_than_the_terminal_opens_in_the_pager():
    program = "from labbook import screen; [screen.print_markdown('- line\\n' * n, paged=True) for n in (3, 30)]"

    shown = on_terminal(60, program, LINES="24", PAGER="sed s/line/paged/")

    assert (shown.count("line"), shown.count("paged")) == (3, 30)


def test_nothing_captured_acts_on_the_terminal():
    plain = screen.harmless(HOSTILE)

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", plain)
    assert "red" in plain and "link" in plain and "evil" not in plain and "title" not in plain


@in_one_test("text", ["plain", "tab\tand\nline", "中文 é →", "\ud83d broken"])
def test_harmless_text_stays(text):
    assert screen.harmless(text) == text.replace("\ud83d", "")


LONG = [
    "Gradients accumulate across steps (`optimizer.zero_grad(set_to_none=True)` missing), see notes/runs/实验/a.md.",
    "         损失停在随机猜测的水平：训练 1200 步以后，交叉熵仍然是 2.303，与十个类别一样。见 notes/runs/实验.md。",
    "one (two) https://example.org/a/very/long/address/that/is/wider/than/all/of/the/terminals/here three",
    "运行 `labbook diagnose 20261121-153012-k3f9 --notebook ../team` 查看全部原因；然后修改。",
]
WHOLE = ("`optimizer.zero_grad(set_to_none=True)`", "notes/runs/实验/a.md", "notes/runs/实验.md。", "1200", "Gradients",
         "`labbook diagnose 20261121-153012-k3f9 --notebook ../team`")  # fmt: skip


@in_one_test("text", LONG)
@in_one_test("width", [20, 40, 79])
def test_long_lines_break_between_words_and_never_in_a_path_or_a_command(text, width):
    lines = screen.wrap_line(text, width, 4)
    assert len(lines) > 1 and "".join("".join(lines).split()) == "".join(text.split())
    for part in WHOLE:
        assert (part in text) == any(part in line for line in lines)
    for line in lines:
        assert line.lstrip()[:1] not in "，。：；"
        assert screen.display_width(line) <= width or " " not in line.strip().replace("`", "x", 1) or "`" in line
    assert all(line.startswith(" ") for line in lines[1:])


@pytest.mark.parametrize(
    "text", ["short", "$ labbook record -- python train.py --learning-rate 0.1", "> loss = f(a, b, c)"]
)
def test_commands_and_short_lines_are_left_alone(text):
    assert screen.wrap_line(text, 20) == [text]


@pytest.mark.process
def test_a_terminal_gets_long_lines_broken_between_words():
    program = f"from labbook import screen; screen.print_line(screen.Cell({LONG[0]!r}, 'red'), ' end')"
    shown = on_terminal(50, program, NO_COLOR="1").replace("\r", "")
    assert shown.splitlines() == screen.wrap_line(LONG[0] + " end", 50)


@pytest.mark.process
def test_a_pipe_gets_whole_columns_without_colours():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)

    assert "\x1b" not in done.stdout
    header, first, second = done.stdout.splitlines()[:3]
    assert "损失变成 NaN 损失变成 NaN" in first and "…" not in first
    assert "[red]plain[/red] red" in second
    assert header.split() == ["run", "status", "what", "time", "author"]


@pytest.mark.process
def test_a_terminal_gets_colours_and_its_width():
    shown = on_terminal(100)

    assert "\x1b[" in shown and "✗ failed" in shown
    assert "\x1b]0;" not in shown and "\x1b[2J" not in shown
    assert "[red]plain[/red]" in shown and "[bold]title" in shown
    for line in re.sub("\x1b\\[[0-9;]*m", "", shown).splitlines()[:3]:
        assert screen.display_width(line) <= 100


@pytest.mark.process
def test_no_color_is_respected():
    assert not re.search("\x1b\\[3[0-7]m", on_terminal(100, NO_COLOR="1"))


@pytest.mark.process
def test_a_narrow_terminal_loses_columns_not_the_run():
    shown = re.sub("\x1b\\[[0-9;]*m", "", on_terminal(56))

    assert "20261121-153012-k3f9" in shown and "failed" in shown and "NaN" in shown
    assert "张敏" not in shown


def test_words_stand_out():
    cells = screen.highlight("Loss is NaN (loss)", ["loss", "nan*"])

    assert [cell.text for cell in cells if cell.style] == ["Loss", "NaN", "loss"]
    assert "".join(cell.text for cell in cells) == "Loss is NaN (loss)"
    assert screen.highlight("(a", ["(", "a["]) and screen.highlight("x", []) == [screen.Cell("x")]


def test_progress_is_silent_without_a_terminal(capfd):
    with screen.progress("reading") as notify:
        notify(1, 2)
        notify(2, 2)

    assert capfd.readouterr() == ("", "")


def test_progress_draws_only_slow_work_and_starts_no_thread(monkeypatch, capfd):
    monkeypatch.setattr(screen.sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    clock = [0.0]
    monkeypatch.setattr(screen.time, "monotonic", lambda: clock[0])
    running = threading.active_count()
    shown = []
    with screen.progress("reading") as notify:
        for done, clock[0] in enumerate([0.1, 0.7, 0.71, 5.0, 6.0], 1):
            notify(done, 5)
            shown.append(f"{done}/5" in capfd.readouterr().err)
            assert threading.active_count() == running
    assert shown == [False, True, False, True, False]
