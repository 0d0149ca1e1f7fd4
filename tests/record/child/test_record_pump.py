"""What happens when one of the processes dies, or when the output comes faster than it can be kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from order_of_tests import further

from labbook.capture.console.console_reader import read_console
from labbook.capture.console.console_sink import ConsoleSink
from labbook.probe.redaction.redactor import Redactor
from labbook.record.child.keeper import Keeper
from labbook.record.child.tee import COMPLETE, DATA, GAP, MESSAGE_BYTES, Tee

RECORDER = Path(__file__).resolve().parents[2] / "programs" / "record_child.py"
PYTHON = sys.executable
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

TICKING = (
    "import sys, time\n"
    "for n in range(60):\n"
    f"    print('tick', n, '{SECRET[:20]}' '{SECRET[20:]}', flush=True); time.sleep(0.03)\n"
    "open('result', 'w').write('done')\n"
)


def wait_for(condition, seconds=90.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


def on_disk(folder):
    return b"".join(path.read_bytes() for path in folder.glob("*") if path.is_file())


def pump_of(recorder: int, command: int) -> int:
    """The recorder's other child."""
    children = Path(f"/proc/{recorder}/task/{recorder}/children").read_text().split()
    return next(int(pid) for pid in children if int(pid) != command)


@pytest.fixture
def begin(tmp_path):
    """Starts recording and returns the process, the id of the command, and what reads the screen to its end."""
    begun = []

    def start(*command: str, terminal: bool = False):
        line = [PYTHON, str(RECORDER), str(tmp_path / "console"), "--start", str(tmp_path / "start"), "--", *command]
        reading, writing = pty.openpty() if terminal else os.pipe()
        process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing, cwd=tmp_path, start_new_session=True
        )
        begun.append(process)
        os.close(writing)
        started = tmp_path / "start"
        ids = wait_for(lambda: started.exists() and started.read_text().endswith("\n") and started.read_text().split())

        def screen() -> bytes:
            seen = []
            try:
                while data := os.read(reading, 65536):
                    seen.append(data)
            except OSError:
                pass
            os.close(reading)
            return b"".join(seen).replace(b"\r\n", b"\n")

        return process, int(ids[1]), screen

    yield start
    for process in begun:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("terminal", [True, *further(False)])
def test_the_recorder_is_killed(begin, tmp_path, terminal):
    process, _, screen = begin(PYTHON, "-c", TICKING, terminal=terminal)
    wait_for(lambda: b"tick 8" in on_disk(tmp_path / "console"))
    process.kill()
    process.wait()

    seen = screen()

    assert (tmp_path / "result").read_text() == "done"
    assert seen == b"".join(b"tick %d %s\n" % (n, SECRET.encode()) for n in range(60))
    wait_for(lambda: b"tick 59" in on_disk(tmp_path / "console"))
    console = read_console(tmp_path / "console")
    lines = console.text.split("\n")[:-1]
    # The line that was just being kept may be lost, and no other; then a line says so.
    assert 59 <= len([line for line in lines if line.startswith("tick")]) <= 60
    assert console.lines == 60
    assert lines[-1].startswith("tick 59 [REDACTED:")
    assert SECRET[:12].encode() not in on_disk(tmp_path / "console")


@pytest.mark.parametrize("terminal", [True, *further(False)])
def test_the_pump_is_killed(begin, tmp_path, terminal):
    process, command, screen = begin(PYTHON, "-c", TICKING, terminal=terminal)
    wait_for(lambda: b"tick 8" in on_disk(tmp_path / "console"))
    os.kill(pump_of(process.pid, command), signal.SIGKILL)

    seen = screen()

    assert process.wait(90) == 0
    assert (tmp_path / "result").read_text() == "done"
    assert seen.count(b"\n") == 60
    assert "tick 59 [REDACTED" in read_console(tmp_path / "console").text
    assert SECRET[:12].encode() not in on_disk(tmp_path / "console")


def test_after_any_kill_the_journal_is_readable_and_redacted(begin, tmp_path):
    chance = random.Random(3)
    noisy = (
        "import time\nfor n in range(10**6):\n"
        f"    print('line', n, 'password=' + '{SECRET}')\n    if n % 100 == 0: time.sleep(0.001)"
    )
    for turn in range(6):
        process, command, screen = begin(PYTHON, "-c", noisy)
        victims = [process.pid, pump_of(process.pid, command)]
        chance.shuffle(victims)
        for victim in victims:
            time.sleep(chance.uniform(0.0, 0.3))
            os.kill(victim, signal.SIGKILL)
        os.kill(command, signal.SIGKILL)
        process.wait()
        screen()

        console = read_console(tmp_path / "console")
        assert SECRET[:12].encode() not in on_disk(tmp_path / "console"), turn
        whole = [line for line in console.text.split("\n")[:-2] if line.count(" ") > 1]
        assert all("REDACTED" in line or line.startswith("...") for line in whole)
        (tmp_path / "start").unlink()


def test_the_journal_lock_is_held_until_the_output_is_stored(tmp_path):
    """Recovery must not take a run whose recorder has died while the pump still keeps its output."""
    program = (
        "import fcntl, os, pathlib, sys; from labbook.capture.console.console_sink import ConsoleSink\n"
        "from labbook.probe.redaction.redactor import Redactor; from labbook.record.child.supervisor import run_child\n"
        "folder = pathlib.Path(sys.argv[1]); lock = os.open(folder / 'alive', os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "run_child(['sh', '-c', 'echo ready; sleep 1.5; echo end'], env=os.environ, cwd=folder,\n"
        "    sink=ConsoleSink(folder / 'console', Redactor()), on_start=lambda pid: None,\n"
        "    lock_descriptors=[lock])\n"
    )
    command = [PYTHON, "-c", program, str(tmp_path)]
    null = subprocess.DEVNULL
    recorder = subprocess.Popen(command, stdin=null, stdout=subprocess.PIPE, stderr=null)
    assert recorder.stdout.readline() == b"ready\n"
    recorder.kill()
    recorder.wait()

    locked = subprocess.run(["flock", "-n", str(tmp_path / "alive"), "true"]).returncode
    subprocess.run(["flock", str(tmp_path / "alive"), "true"], timeout=90, check=True)

    assert locked == 1
    assert "end" in read_console(tmp_path / "console").text
    recorder.stdout.close()


FLOOD = (
    "import sys\n"
    "w = sys.stdout.buffer.write\n"
    "line = b'%08d the quick brown fox jumps over the lazy dog and again and again and again\\n'\n"
    "for n in range(0, 800_000, 800):\n"
    "    w(b''.join(line % k for k in range(n, n + 800)))\n"
    "    if n == 400_000: w(b'RuntimeError: the middle of everything\\n')\n"
)


def peak_rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


@pytest.mark.slow
def test_a_flood_is_bounded(begin, tmp_path):
    """70 MB at full speed: every byte on the screen, the kept text whole at both ends, the memory small."""
    reading = hashlib.sha256(subprocess.run([PYTHON, "-c", FLOOD], capture_output=True, check=True).stdout).digest()
    waiting = FLOOD + "sys.stdout.flush(); open('flooded', 'w').close()\nimport time\nwhile True: time.sleep(0.1)"
    process, command, screen = begin(PYTHON, "-c", waiting)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(screen()))
    reader.start()
    wait_for((tmp_path / "flooded").exists, 100)
    peak = peak_rss_mib(process.pid)
    os.kill(command, signal.SIGTERM)
    reader.join(60)
    process.wait(60)

    assert hashlib.sha256(seen[0]).digest() == reading
    assert peak < 200
    console = read_console(tmp_path / "console")
    lines = console.text.split("\n")
    numbers = [int(line[:8]) for line in lines if line[:8].isdigit()]
    assert numbers[:10_000] == list(range(10_000))
    assert numbers[-40_000:] == list(range(760_000, 800_000))
    assert console.lines == 800_001
    assert "RuntimeError: the middle of everything" in lines
    assert console.left_out == console.lines - len([line for line in lines[:-1] if not line.startswith("... ")])
    assert len(console.text) < 8 * 2**20


def test_a_reader_that_lags_never_holds_up_the_tee(tmp_path):
    sending, receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    tee = Tee(sending)
    block = b"".join(b"line %06d\n" % n for n in range(1000))
    drained = []
    tee._sent = 1 << 30  # the beginning of the output is over: nothing is waited for
    for _ in range(1500):
        tee.add(0, block)
    assert tee.pending_bytes <= 8 * 1024 * 1024
    sink = ConsoleSink(tmp_path, Redactor())
    keeper = Keeper(receiving, sink, ["stdout"], drained.append)
    tee.add_message(COMPLETE)
    thread = threading.Thread(target=lambda: drained.append(keeper.store_output()))
    thread.start()
    assert tee.drain(10)
    thread.join(90)
    sink.close()

    assert drained == [True]
    console = read_console(tmp_path)
    assert console.lines == 1_500_000
    assert console.text.endswith("line 000999\n")
    receiving.close()
    sending.close()


def test_an_error_is_kept_wherever_dropped_output_was_cut(tmp_path, monkeypatch, each):
    """The line is the last of one message, the first of the next, or in both."""
    error = b"RuntimeError: the middle of everything\n"
    block = (b"line 0123\n" * MESSAGE_BYTES)[:MESSAGE_BYTES]
    monkeypatch.setattr("labbook.record.child.tee._MAX_PENDING_BYTES", 1 << 20)

    def check(cut, rest):
        sending, receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        tee = Tee(sending)
        tee._sent = 1 << 30  # the beginning of the output is over: nothing is waited for
        output = [block] * 60 + [(block + error[:cut])[-MESSAGE_BYTES:], error[cut:] + rest]
        output += [b"\n" + block[1:]] * 60
        for data in output:
            tee.add(0, data)
        sink = ConsoleSink(tmp_path / str(cut), Redactor(), head_bytes=100, tail_bytes=1 << 16)
        thread = threading.Thread(target=Keeper(receiving, sink, ["stdout"], lambda n: None).store_output)
        tee.add_message(COMPLETE)
        thread.start()
        assert tee.drain(10)
        thread.join(90)
        sink.close()
        console = read_console(tmp_path / str(cut))
        assert error.decode().rstrip() in console.text.split("\n")
        assert console.left_out
        assert console.lines == b"".join(output).count(b"\n")
        receiving.close()
        sending.close()

    each([(0, b"goes on"), (1, b""), (len(error) - 1, b"1\n2\n"), (len(error), b"")], check)


def test_key_material_stays_masked_after_a_gap(tmp_path):
    body = "\n".join("MIIEow" + "ab12CD34ef56GH78" * 3 + "xyz" for _ in range(40))
    sink = ConsoleSink(tmp_path, Redactor(), head_bytes=100, tail_bytes=1 << 20)
    sending, receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sending.send(bytes((DATA, 0)) + b"start\n-----BEGIN RSA PRI")
    sending.send(bytes((GAP, 0, 1)) + (3).to_bytes(8, "big") + b"-----BEGIN RSA PRIVATE KEY-----")
    sending.send(bytes((DATA, 0)) + b"cut line\n" + body.encode() + b"\n-----END RSA PRIVATE KEY-----\nafter\n")
    sending.send(bytes((COMPLETE, 0)))
    assert Keeper(receiving, sink, ["stdout"], lambda n: None).store_output()
    sink.close()

    assert b"MIIEow" not in on_disk(tmp_path)
    assert "after" in read_console(tmp_path).text
    receiving.close()
    sending.close()


def test_the_pump_starts_where_no_descriptor_is_left():
    """A thread of the recorder may hold the last one when it forks: the output of the command must not be lost."""
    source = (
        "import os, resource; from labbook.record.child import pump\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n"
        "kept = os.dup(1)\n"
        "try:\n"
        "    while True: os.dup(0)\n"
        "except OSError: pass\n"
        "pump._close_other_descriptors({kept})\n"
        "os.write(kept, b'out')\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("out", "")
