"""Exit status, signals, streams: whoever started the recorder sees what the command alone would have shown."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import tty
from pathlib import Path

import pytest
from order_of_tests import further

from labbook.capture.console.console_reader import read_console
from labbook.record.child import supervisor
from labbook.record.run_from_journal.journal_reader import run_status

RECORDER = Path(__file__).resolve().parents[2] / "programs" / "record_child.py"
PYTHON = sys.executable


def wait_for(condition, seconds=90.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


@pytest.fixture
def line(tmp_path):
    """The command line that records a command."""

    def build(*command: str, flags: tuple[str, ...] = ()) -> list[str]:
        files = ["--start", str(tmp_path / "start"), "--end", str(tmp_path / "end.json")]
        return [PYTHON, str(RECORDER), str(tmp_path / "console"), *files, *flags, "--", *command]

    return build


@pytest.fixture
def record(line, tmp_path):
    """Records a command with pipes and waits for its end."""

    def run(*command: str, **options) -> subprocess.CompletedProcess:
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 60, "cwd": tmp_path, **options}
        return subprocess.run(line(*command), **options)

    return run


@pytest.fixture
def begin(line, tmp_path):
    """Starts recording a command and returns the process once the command has said that it is ready."""
    begun = []

    def start(*command: str, **options) -> subprocess.Popen:
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "cwd": tmp_path, **options}
        begun.append(subprocess.Popen(line(*command), start_new_session=True, **options))
        wait_for(lambda: (tmp_path / "ready").exists())
        return begun[-1]

    yield start
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def kept(tmp_path):
    return lambda: read_console(tmp_path / "console").text


def how_it_ended(tmp_path):
    return json.loads((tmp_path / "end.json").read_text())


@pytest.mark.parametrize("status", [0, 1, 3, 137, 139, 255])
def test_the_exit_status_is_passed_on(record, status, tmp_path):
    assert record("sh", "-c", f"exit {status}").returncode == status
    assert how_it_ended(tmp_path)["code"] == status


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "KILL", "SEGV", "ABRT", "USR1", "PIPE", "ALRM"])
def test_death_by_a_signal_is_passed_on(record, name, tmp_path):
    done = record("sh", "-c", f"kill -{name} $$; sleep 5")

    assert done.returncode == -signal.Signals[f"SIG{name}"]
    assert how_it_ended(tmp_path)["signal"] == f"SIG{name}"
    assert how_it_ended(tmp_path)["code"] is None
    assert not list(tmp_path.glob("core*"))


def test_death_by_a_signal_without_a_name_is_passed_on(record, tmp_path):
    number = signal.SIGRTMIN + 6

    assert record("sh", "-c", f"kill -{number:d} $$; sleep 5").returncode == -number
    assert how_it_ended(tmp_path)["code"] == 128 + number


def test_a_blocked_real_time_signal_stays_blocked(record, tmp_path):
    number = signal.SIGRTMIN + 1
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        done = record(sys.executable, "-c", "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert str(number).encode() in done.stdout
    assert how_it_ended(tmp_path)["code"] == 0


def test_an_unknown_program(record):
    done = record("pyhton", "train.py")

    assert done.returncode == 127
    assert b"cannot run 'pyhton'" in done.stderr
    assert b"did you mean 'python" in done.stderr


def test_a_script_that_is_not_executable(record, tmp_path):
    (tmp_path / "train.py").write_text("print(1)")

    plain, here = record("./train.py"), record("train.py")

    assert (plain.returncode, here.returncode) == (126, 127)
    assert b"chmod +x ./train.py" in plain.stderr
    assert b"`python train.py`" in here.stderr
    assert record("/").returncode == 126


def test_an_interpreter_that_is_missing(record, tmp_path):
    (tmp_path / "run.sh").write_text("#!/no/such/interpreter\n")
    (tmp_path / "run.sh").chmod(0o755)

    done = record("./run.sh")

    assert done.returncode == 127
    assert b"its first line" in done.stderr


def test_a_script_without_first_line_is_run_by_the_shell(record, tmp_path):
    (tmp_path / "run.sh").write_text("echo shell $1; exit 5\n")
    (tmp_path / "run.sh").chmod(0o755)

    done = record("./run.sh", "two words")

    assert (done.returncode, done.stdout) == (5, b"shell two words\n")


def test_stdout_and_stderr_stay_separate(record, kept):
    done = record("sh", "-c", "echo out; echo trouble >&2; test -t 1 || echo pipe")

    assert (done.stdout, done.stderr) == (b"out\npipe\n", b"trouble\n")
    assert sorted(kept().split()) == ["out", "pipe", "trouble"]


def test_one_pipe_for_both_preserves_their_order(record, kept):
    done = record(
        "sh",
        "-c",
        "for n in 1 2 3 4 5; do echo $n; echo e$n >&2; done",
        stderr=subprocess.STDOUT,
        capture_output=False,
        stdout=subprocess.PIPE,
    )

    assert done.stdout.split() == kept().encode().split() == b"1 e1 2 e2 3 e3 4 e4 5 e5".split()


def test_a_file_is_written_by_the_command_itself(line, tmp_path, kept):
    out = tmp_path / "out.log"
    out.write_text("from before\n")
    program = "import os; print(os.path.samefile('/proc/self/fd/1', 'out.log')); print('loss: 0.5')"
    with out.open("a") as stream:
        subprocess.run(line(PYTHON, "-c", program), stdout=stream, stderr=stream, cwd=tmp_path, timeout=60, check=True)

    assert out.read_text() == "from before\nTrue\nloss: 0.5\n"
    assert kept() == "True\nloss: 0.5\n"


def test_standard_input_goes_to_the_command(record):
    assert record("cat", stdin=None, input=b"first\nsecond").stdout == b"first\nsecond"


def test_a_writer_learns_that_the_command_reads_no_more(line, tmp_path):
    """With `yes` in front, a recorder that kept the pipe open would let it write, and the command wait, for ever."""
    command = " ".join(line("sh", "-c", "'exec <&-; until test -e yes-ended; do sleep 0.05; done; sleep 0.2'"))
    subprocess.run(["bash", "-c", f"{{ yes; touch yes-ended; }} | {command}"], cwd=tmp_path, timeout=60, check=True)

    assert (tmp_path / "yes-ended").stat().st_mtime < (tmp_path / "end.json").stat().st_mtime


def test_the_command_gets_sigpipe_when_the_reader_is_gone(line, tmp_path):
    command = " ".join(line("yes"))
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -n 3; echo ${{PIPESTATUS[*]}}"], capture_output=True, text=True, timeout=60
    )

    assert done.stdout == "y\ny\ny\n141 0\n"
    assert how_it_ended(tmp_path)["signal"] == "SIGPIPE"


def test_a_process_left_behind_does_not_hold_the_recorder(record, tmp_path):
    read_end, write_end = os.pipe()
    waiting = f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"
    done = record("sh", "-c", f"({waiting}; echo late) & echo main", capture_output=False, stdout=write_end)
    (tmp_path / "go").touch()
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        assert stream.read() == "main\nlate\n"

    assert done.returncode == 0
    assert how_it_ended(tmp_path)["output_open"] is True
    assert read_console(tmp_path / "console").text == "main\n"


COUNTING = (
    "import signal, sys, time\n"
    "got = []\n"
    "for s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGALRM):\n"
    "    signal.signal(s, lambda n, _: got.append(n))\n"
    "open('ready', 'w').close()\n"
    "while not got: time.sleep(0.05)\n"
    "time.sleep(1)\n"
    "print(sorted(got))\n"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, *further(signal.SIGINT, signal.SIGALRM)])
def test_a_signal_to_the_recorder_is_passed_on_once(begin, number):
    process = begin(PYTHON, "-c", COUNTING)
    process.send_signal(number)
    process.send_signal(number)

    assert process.communicate(timeout=90)[0] == f"[{int(number)}]\n".encode()


@pytest.mark.parametrize("number", [signal.SIGINT, *further(signal.SIGTERM)])
def test_a_signal_to_the_group_is_not_doubled(begin, number):
    process = begin(PYTHON, "-c", COUNTING)
    os.killpg(process.pid, number)

    assert process.communicate(timeout=90)[0] == f"[{int(number)}]\n".encode()


def test_a_long_stop_of_the_recorder_is_no_signal_for_the_command(begin, tmp_path):
    """`sigtimedwait` of CPython returns what lay on the stack when its time ran out while the process was stopped."""
    process = begin(PYTHON, "-c", COUNTING)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.3)
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGCONT)

    assert process.communicate(timeout=90)[0] == f"[{int(signal.SIGUSR1)}]\n".encode()
    assert process.returncode == 0


def test_ending_the_recorder_ends_the_command_first(begin, tmp_path):
    trap = "trap 'sleep 0.3; touch cleaned; exit 9' TERM"
    process = begin("sh", "-c", f"{trap}; touch ready; while :; do sleep 0.05; done")
    process.terminate()

    assert process.wait(90) == 9
    assert (tmp_path / "cleaned").exists()


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *_: None"])
def test_a_signal_that_the_command_ignores_does_not_stop_it(begin, tmp_path, handler):
    """A handler may end the program early, with status 0; a signal without any effect does not."""
    program = (
        f"import signal, time\nsignal.signal(signal.SIGTERM, {handler})\nopen('ready', 'w').close()\ntime.sleep(1)"
    )
    process = begin(PYTHON, "-c", program)
    process.terminate()

    assert process.wait(90) == 0
    end = how_it_ended(tmp_path)
    assert end["stopped"] and bool(end["heeded"]) == (handler != "signal.SIG_IGN")
    written = {"code": end["code"], "ended": end["ended"], "stopped": end["heeded"]}
    assert run_status(written, (), 0) == ("interrupted" if end["heeded"] else "finished")


def test_an_ignored_signal_stays_ignored(line, tmp_path):
    program = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    done = subprocess.run(
        line(PYTHON, "-c", program),
        capture_output=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )

    assert done.stdout == b"True\n"


def test_the_command_has_a_clean_start(record):
    """No blocked signal, no ignored SIGPIPE, no descriptor of ours."""
    program = (
        "import os, signal\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []), sorted(os.listdir('/proc/self/fd'))[:4])\n"
        "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('SigIgn')])\n"
    )
    bare = subprocess.run([PYTHON, "-c", program], capture_output=True, stdin=subprocess.DEVNULL)

    assert record(PYTHON, "-c", program).stdout == bare.stdout


def test_closed_standard_streams(line, tmp_path):
    done = subprocess.run(
        ["sh", "-c", " ".join(line("sh", "-c", "'echo out; exit 4'")) + " <&- 2>&-"],
        stdout=subprocess.PIPE,
        timeout=60,
        cwd=tmp_path,
    )

    assert (done.returncode, done.stdout) == (4, b"out\n")


PROGRAM_8_MB = (
    "import random, sys; r = random.Random(5)\nfor _ in range(128): sys.stdout.buffer.write(r.randbytes(65536))"
)


@pytest.mark.parametrize("terminal", [pytest.param(False, marks=pytest.mark.long), True])
def test_8_mb_are_the_same_bytes(line, terminal):
    def digest(command):
        reading, writing = os.openpty() if terminal else os.pipe()
        if terminal:
            tty.setraw(writing)
        process = subprocess.Popen(command, stdout=writing, stdin=subprocess.DEVNULL)
        os.close(writing)
        found, count = hashlib.sha256(), 0
        with contextlib.suppress(OSError):
            while data := os.read(reading, 65536):
                found.update(data)
                count += len(data)
        os.close(reading)
        assert process.wait(60) == 0
        return count, found.hexdigest()

    assert digest(line(PYTHON, "-c", PROGRAM_8_MB)) == digest([PYTHON, "-c", PROGRAM_8_MB])


def test_an_exception_in_on_start_is_reported_and_the_run_continues(tmp_path):
    program = (
        "import os; from pathlib import Path; from labbook.capture.console.console_sink import ConsoleSink\n"
        "from labbook.probe.redaction.redactor import Redactor; from labbook.record.child.supervisor import run_child\n"
        f"sink = ConsoleSink(Path({str(tmp_path)!r}), Redactor())\n"
        "started = lambda pid: 1 / 0\n"
        "end = run_child(['echo', 'fine'], env=os.environ, cwd=Path.cwd(), sink=sink, on_start=started)\n"
        "print(end.code, end.trouble)\n"
    )
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)

    assert done.stdout == "fine\n0 ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize("jump", [-400 * 86400.0, -60.0, 86400.0])
def test_a_clock_that_is_set_during_a_run_does_not_change_its_duration(monkeypatch, jump):
    clock = supervisor._Clock()
    real = time.time
    monkeypatch.setattr(supervisor.time, "time", lambda: real() + jump)
    assert 0 <= clock.read_time() - clock.started < 4
    monkeypatch.setattr(supervisor.time, "time", lambda: real() + 3)
    assert 3 <= clock.read_time() - clock.started < 8, "a correction by a time server is the time"
