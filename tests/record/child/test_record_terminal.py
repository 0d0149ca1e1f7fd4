"""Programs in a simulated terminal behave under labbook as they do without it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from labbook.capture.console.console_reader import read_console

RECORDER = Path(__file__).resolve().parents[2] / "programs" / "record_child.py"


class Terminal:
    """A terminal with a program in it, as a person sees it."""

    def __init__(self, *command: str, rows: int = 24, columns: int = 80, **environ: str) -> None:
        self.seen = b""
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm", "PS1": "$ ", **environ})

    def wait_for(self, pattern: str, seconds: float = 90.0) -> re.Match[bytes]:
        """Reads until the pattern is on the screen, and forgets what stands before it."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern.encode(), self.seen)) is None:
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen!r}"
            assert self._read(0.1) is not None, f"no {pattern!r} before the end: {self.seen!r}"
        self.seen = self.seen[found.end() :]
        return found

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self, seconds: float = 90.0) -> int:
        """Reads to the end; the exit status, negative for a signal."""
        deadline = time.monotonic() + seconds
        while self._read(0.1) is not None:
            assert time.monotonic() < deadline, self.seen
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.screen)
        self.screen = -1
        return status

    def _read(self, seconds: float) -> bytes | None:
        if not select.select([self.screen], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self.screen, 65536)
        except OSError:
            return None
        self.seen += data
        return data or None

    def close(self) -> None:
        if self.screen >= 0:
            os.close(self.screen)
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def terminal():
    opened = []

    def start(*command: str, **options) -> Terminal:
        opened.append(Terminal(*command, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def recorded(terminal, tmp_path):
    """Starts a command under the recorder in a terminal."""

    def start(*command: str, flags: tuple[str, ...] = (), **options) -> Terminal:
        return terminal(sys.executable, str(RECORDER), str(tmp_path / "console"), *flags, "--", *command, **options)

    return start


@pytest.fixture
def kept(tmp_path):
    return lambda: read_console(tmp_path / "console").text


PYTHON = sys.executable


def test_all_three_streams_are_terminals_of_the_same_size(recorded):
    program = "import os; print([os.isatty(n) for n in (0, 1, 2)], [tuple(os.get_terminal_size(n)) for n in (0, 1, 2)])"
    screen = recorded(PYTHON, "-c", program, rows=31, columns=97)

    screen.wait_for(re.escape("[True, True, True] [(97, 31), (97, 31), (97, 31)]"))

    assert screen.end() == 0


def test_the_screen_gets_the_same_bytes(terminal, recorded, kept):
    program = (
        "import sys; sys.stdout.write('\\x1b[31mred\\x1b[0m\\tcaf\\u00e9\\r\\nplain\\n\\x1b]0;title\\x07');"
        "sys.stdout.flush();"
        "sys.stderr.buffer.write(b'\\xff\\xfe\\x00\\n'); sys.stderr.flush(); print('end')"
    )
    bare = terminal(PYTHON, "-c", program)
    bare.end()
    screen = recorded(PYTHON, "-c", program)
    screen.end()

    assert screen.seen == bare.seen
    assert kept() == "red\tcafé\nplain\n��\nend\n"


def test_a_new_size_reaches_the_program_once_it_is_true(recorded, tmp_path):
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGWINCH, lambda *_: print('size', *os.get_terminal_size(1), flush=True))\n"
        "print('ready', flush=True)\n"
        "while not os.path.exists('stop'): time.sleep(0.05)\n"
    )
    screen = recorded("sh", "-c", f'cd {tmp_path} && exec {PYTHON} -c "$0"', program)
    screen.wait_for("ready")
    screen.resize(40, 132)

    screen.wait_for("size 132 40")

    (tmp_path / "stop").touch()
    assert screen.end() == 0


def test_a_debugger_session(recorded, kept):
    screen = recorded(PYTHON, "-c", "value = 6 * 7\nbreakpoint()\nprint('after', value)")
    screen.wait_for(r"\(Pdb\) ")
    screen.type("p value + 1\n")
    screen.wait_for("43")
    screen.wait_for(r"\(Pdb\) ")
    screen.type("c\n")
    screen.wait_for("after 42")

    assert screen.end() == 0
    assert "after 42" in kept()


def test_a_typed_password_is_never_stored(recorded, kept, tmp_path):
    program = "import getpass; name = input('name: '); word = getpass.getpass(); print('got', name, len(word))"
    screen = recorded(PYTHON, "-c", program)
    screen.wait_for("name: ")
    screen.type("wei\n")
    screen.wait_for("Password: ")
    screen.type("tulip-Garden-77\n")
    screen.wait_for("got wei 15")

    assert screen.end() == 0
    assert "got wei 15" in kept()
    assert not [p for p in (tmp_path / "console").iterdir() if b"tulip" in p.read_bytes()]


INTERRUPTED = (
    "import time\n"
    "count = 0\n"
    "for turn in range(12):\n"
    "    try:\n"
    "        if not turn: print('ready', flush=True)\n"
    "        time.sleep(0.25)\n"
    "    except KeyboardInterrupt: count += 1; print('interrupt', count, flush=True)\n"
    "print('interrupts:', count, flush=True)\n"
)


def test_ctrl_c_is_delivered_once(recorded):
    screen = recorded(PYTHON, "-c", INTERRUPTED)
    screen.wait_for("ready")
    screen.type("\x03")

    screen.wait_for("interrupt 1")
    screen.wait_for("interrupts: 1")
    assert screen.end() == 0


def test_ctrl_c_ends_the_recorder_as_it_ends_the_program(recorded):
    screen = recorded(PYTHON, "-c", "import time; print('ready', flush=True); time.sleep(30)")
    screen.wait_for("ready")
    screen.type("\x03")

    assert screen.end() == -signal.SIGINT


def test_ctrl_z_and_fg_in_a_shell(terminal, tmp_path, kept):
    shell = terminal("bash", "--norc", "--noprofile", "-i")
    shell.wait_for(r"\$ ")
    program = "import time\nfor n in range(61):\n    print('tick', n, flush=True); time.sleep(0.05)\n"
    (tmp_path / "ticks.py").write_text(program)
    shell.type(f"{PYTHON} {RECORDER} {tmp_path}/console -- {PYTHON} {tmp_path}/ticks.py\n")
    shell.wait_for("tick 3\r")
    shell.type("\x1a")
    shell.wait_for("Stopped")
    shell.type("jobs\n")
    shell.wait_for("Stopped")
    shell.wait_for(r"\$ ")
    time.sleep(0.5)
    assert b"tick" not in shell.seen
    shell.type("fg\n")
    shell.wait_for("tick 60\r")
    shell.wait_for(r"\$ ")
    shell.type("echo status $?; exit\n")
    shell.wait_for("status 0")
    shell.end()

    assert [line for line in kept().split("\n") if line] == [f"tick {n}" for n in range(61)]


def test_a_shell_sees_a_crash_as_without_labbook(terminal, tmp_path):
    shell = terminal("bash", "--norc", "--noprofile", "-i")
    shell.wait_for(r"\$ ")
    shell.type(f"{PYTHON} {RECORDER} {tmp_path}/console -- sh -c 'kill -SEGV $$'\n")
    shell.wait_for("Segmentation fault")
    shell.type("echo status $?; exit\n")
    shell.wait_for("status 139")
    shell.end()


def test_bars_of_tqdm_are_drawn_and_folded(recorded, kept):
    pytest.importorskip("tqdm")
    program = (
        "from tqdm import tqdm\n"
        "for e in tqdm(range(3), desc='epoch', mininterval=0):\n"
        "    for i in tqdm(range(50), desc='inner', mininterval=0): pass\n"
    )
    screen = recorded(PYTHON, "-c", program)
    screen.end()

    assert screen.seen.count(b"\r") > 100
    lines = kept().strip().split("\n")
    assert [line.split(":")[0] for line in lines] == ["inner", "inner", "inner", "epoch"]
    assert all("100%" in line for line in lines)


CURSES = (
    "import curses\n"
    "def main(window):\n"
    "    window.addstr(2, 3, 'press a key'); window.refresh(); window.timeout(20000)\n"
    "    return window.getch()\n"
    "print('key', curses.wrapper(main))\n"
)


def test_a_curses_program_has_the_whole_terminal(recorded, kept):
    screen = recorded(PYTHON, "-c", CURSES, flags=("--full-pty",))
    screen.wait_for("press a key")
    screen.type("x")
    screen.wait_for("key 120")

    assert screen.end() == 0
    assert "key 120" in kept()


def test_the_terminal_is_restored_after_a_whole_one(terminal, tmp_path):
    modes = "stty -a | grep -o -- '-\\?\\(icanon\\|echo\\|opost\\|isig\\)\\b' | tr '\\n' ' '"
    command = f"{PYTHON} {RECORDER} {tmp_path}/console --full-pty -- sh -c 'echo inside; kill -9 $$'"
    screen = terminal("sh", "-c", f"{modes}; echo; {command}; echo; {modes}; echo done")
    before = screen.wait_for(r"((?:-?(?:isig|icanon|echo|opost) )+)")[1]
    screen.wait_for("inside")
    after = screen.wait_for(r"((?:-?(?:isig|icanon|echo|opost) )+)")[1]
    screen.end()

    assert before == after
    assert b"-" not in after


def test_ctrl_c_in_a_whole_terminal(recorded):
    screen = recorded(PYTHON, "-c", INTERRUPTED, flags=("--full-pty",))
    screen.wait_for("ready")
    screen.type("\x03")

    screen.wait_for("interrupts: 1")
    assert screen.end() == 0


def test_a_closed_terminal_ends_the_program_as_without_labbook(recorded, tmp_path):
    mark = tmp_path / "hung-up"
    screen = recorded("sh", "-c", f"trap 'touch {mark}; exit 1' HUP; echo ready; while :; do sleep 0.1; done")
    screen.wait_for("ready")
    os.close(screen.screen)
    screen.screen = -1

    assert os.waitpid(screen.pid, 0)[1] != 0
    assert mark.exists()


def test_stderr_redirected_to_a_file(terminal, tmp_path, kept):
    command = f"{PYTHON} {RECORDER} {tmp_path}/console -- sh -c 'echo out; echo trouble >&2; test -t 1 && echo tty'"
    screen = terminal("sh", "-c", f"{command} 2> {tmp_path}/err")
    screen.wait_for("out\r\ntty\r\n")

    assert screen.end() == 0
    assert (tmp_path / "err").read_text() == "trouble\n"
    assert sorted(kept().split()) == ["out", "trouble", "tty"]


def test_the_slowest_screen_gets_everything(recorded, tmp_path):
    """A stopped terminal holds the program back; going on, nothing is missing."""
    screen = recorded(PYTHON, "-c", "for n in range(40000): print('line', n)")
    time.sleep(1.0)

    assert screen.end(60) == 0
    assert screen.seen.split() == [word for n in range(40000) for word in (b"line", str(n).encode())]


def test_nohup_is_respected(terminal, tmp_path):
    program = "import signal; print('hup', signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    command = ["nohup", PYTHON, str(RECORDER), str(tmp_path / "console"), "--", PYTHON, "-c", program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    assert done.stdout == "hup True\n"
