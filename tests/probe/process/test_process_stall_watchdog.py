"""A training that stands still: what its threads were doing is written, and nothing else changes."""

import os
import signal
import subprocess
import sys
import time

import pytest

STEPS = {
    "torch": (
        "import torch\nm = torch.nn.Linear(4, 1)\no = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "def step():\n    o.zero_grad(); m(torch.ones(2, 4)).sum().backward(); o.step()\n"
    ),
    "paddle": (
        "import paddle\nm = paddle.nn.Linear(4, 1)\no = paddle.optimizer.SGD(0.1, parameters=m.parameters())\n"
        "def step():\n    m(paddle.ones([2, 4])).sum().backward(); o.step(); o.clear_grad()\n"
    ),
}
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(30,), daemon=True, name='other').start()\n"
HANGS = "for _ in range(3): step()\ndef hang():\n    print('stands', flush=True)\n    time.sleep(60)\nhang()\n"
READER = """
import paddle, numpy
class Data(paddle.io.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        if i == 40: raise KeyError("image %d" % i)
        return numpy.ones(4, "float32")
m = paddle.nn.Linear(4, 1)
o = paddle.optimizer.SGD(0.1, parameters=m.parameters())
for x in paddle.io.DataLoader(Data(), batch_size=4, num_workers=0):
    m(x).mean().backward(); o.step(); o.clear_grad()
"""


def until(probed, kind, command, number, *, wait_s=90.0):
    """Runs a command under the probe until an event of a kind is there (or it printed), ends it by a signal."""
    for old in probed.journal.glob("events/*"):
        old.unlink()
    environ = probed.injected()
    child = subprocess.Popen(
        command, cwd=probed.folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + wait_s
        if kind is None:
            child.stdout.readline()
        while kind and time.monotonic() < deadline and child.poll() is None:
            if any(event["k"] == kind for events in probed.read().values() for event in events):
                break
            time.sleep(0.2)
        child.send_signal(number)
        child.wait(timeout=60)
    finally:
        child.kill()
    out, err = child.communicate()
    return child.returncode, out, err, [event for events in probed.read().values() for event in events]


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.parametrize("framework", [pytest.param("torch", marks=pytest.mark.long), "paddle"])
def test_silence_has_the_stacks_written(probed, framework):
    probed.settings["silence_s"] = 1.0
    probed.write("train.py", STEPS[framework] + THREAD + HANGS)
    code, _, _, events = until(probed, "stacks", [sys.executable, "train.py"], signal.SIGKILL)
    assert code == -signal.SIGKILL
    stacks = next(event for event in events if event["k"] == "stacks")
    assert stacks["reason"] == "silence" and stacks["silent_s"] >= 1.0 and stacks["step"] == 3
    main, *others = stacks["threads"]
    assert main["main"] and [frame["function"] for frame in main["frames"]] == ["<module>", "hang"]
    assert main["frames"][-1]["source"] == "time.sleep(60)" and main["frames"][-1]["user"]
    assert "other" in [thread["name"] for thread in others]
    assert not any("pulse.py" in frame["file"] for thread in stacks["threads"] for frame in thread["frames"])


@pytest.mark.paddle
def test_a_dead_reader_is_recorded_with_the_blocked_main_thread(probed):
    probed.settings["silence_s"] = 1.0
    probed.write("train.py", READER)
    _, _, _, events = until(probed, "stacks", [sys.executable, "train.py"], signal.SIGKILL)
    (error,) = [event for event in events if event["k"] == "exception"]
    assert (error["where"], error["type"]) == ("thread", "KeyError")
    stacks = next(event for event in events if event["k"] == "stacks")
    assert "dataloader_iter.py" in stacks["threads"][0]["frames"][-1]["file"]


@pytest.mark.torch
@pytest.mark.long
def test_a_process_with_one_thread_stays_one(probed):
    source = STEPS["torch"] + "import os\nfor _ in range(70): step()\nprint(len(os.listdir('/proc/self/task')))\n"
    probed.write("train.py", source)
    plain = probed.plain(sys.executable, "train.py", OMP_NUM_THREADS="1")
    assert probed(sys.executable, "train.py", OMP_NUM_THREADS="1").out == plain.stdout == "1\n"


@pytest.mark.torch
@pytest.mark.long
def test_the_watch_rests_while_a_child_is_forked(probed):
    source = STEPS["torch"] + THREAD + (
        "import os\nstep()\nbefore = len(os.listdir('/proc/self/task'))\npid = os.fork()\n"
        "if pid == 0:\n    step(); os._exit(len(os.listdir('/proc/self/task')))\n"
        "print(before, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(os.listdir('/proc/self/task')))\n"
    )  # fmt: skip
    probed.write("train.py", source)
    done = probed(sys.executable, "train.py", OMP_NUM_THREADS="1")
    # The probe's thread is one more than the two of the program, and is gone at the fork.
    assert done.out == "3 1 2\n"
    assert not done.of("probe_error")


@pytest.mark.torch
def test_ctrl_c_has_the_stacks_written(probed):
    probed.write("train.py", STEPS["torch"] + THREAD + HANGS)
    code, _, err, events = until(probed, None, [sys.executable, "train.py"], signal.SIGINT)
    assert code == -signal.SIGINT and err.rstrip().endswith("KeyboardInterrupt")
    (stacks,) = [event for event in events if event["k"] == "stacks"]
    assert stacks["reason"] == "interrupt" and stacks["silent_s"] < 60
    assert stacks["threads"][0]["frames"][-1]["function"] == "hang"


@pytest.mark.torch
@pytest.mark.long
def test_sigterm_has_the_stacks_written_and_ends_the_process_as_ever(probed):
    probed.write("train.py", STEPS["torch"] + THREAD + HANGS)
    code, _, err, _ = until(probed, None, [sys.executable, "train.py"], signal.SIGTERM)
    assert (code, err) == (-signal.SIGTERM, "")
    (written,) = probed.journal.glob("events/*.stacks")
    assert "in hang" in written.read_text()


HANDLERS = {
    "before": "signal.signal(signal.SIGTERM, mine)\nfor _ in range(2): step()\n",
    "after": "for _ in range(2): step()\nsignal.signal(signal.SIGTERM, mine)\n",
    "and back": (
        "for _ in range(2): step()\nold = signal.signal(signal.SIGTERM, mine)\nprint(old is signal.SIG_DFL)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\nsignal.signal(signal.SIGTERM, old)\n"
    ),
    "ignored": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nfor _ in range(2): step()\n",
    "none": "for _ in range(2): step()\nprint(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)\n",
    "child": (
        "for _ in range(2): step()\nimport subprocess\n"
        "c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)']); time.sleep(0.5); c.terminate()\n"
        "print(c.wait())\n"
    ),
    "fork": (
        "for _ in range(2): step()\npid = os.fork()\nif pid == 0:\n    time.sleep(20)\n    os._exit(0)\n"
        "time.sleep(0.3); os.kill(pid, signal.SIGTERM)\nprint(os.waitpid(pid, 0)[1])\n"
    ),
}


@pytest.mark.torch
@pytest.mark.forked("torch")
@pytest.mark.parametrize(
    "what",
    [pytest.param(what, marks=() if what == "none" else pytest.mark.long) for what in HANDLERS],
)
def test_signal_handlers_of_the_program_are_unchanged(probed, what):
    begin = "import os, signal, sys, time\ndef mine(number, frame):\n    print('mine', number, flush=True)\n"
    end = "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(0.1)\nprint('goes on')\n"
    probed.write("train.py", STEPS["torch"] + begin + HANDLERS[what] + end)
    plain = probed.plain(sys.executable, "train.py")
    done = probed(sys.executable, "train.py", check=None)
    assert (done.code, done.out, done.err) == (plain.returncode, plain.stdout, plain.stderr)
    assert not done.of("probe_error")
    left = [path for path in os.listdir(probed.journal / "events") if path.endswith(".stacks")]
    assert len(left) == (1 if done.code == -signal.SIGTERM else 0)


FAULTS = {
    "segmentation fault": ("ctypes.string_at(0)", signal.SIGSEGV),
    "abort": ("os.abort()", signal.SIGABRT),
}


@pytest.mark.torch
@pytest.mark.forked("torch")
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.long if what == "abort" else ()) for what in FAULTS]
)
def test_the_line_of_a_fault_in_native_code_is_written(probed, what):
    call, number = FAULTS[what]
    probed.write("train.py", f"import ctypes, os\n{STEPS['torch']}step()\ndef native():\n    {call}\nnative()\n")
    plain = probed.plain(sys.executable, "train.py")
    done = probed(sys.executable, "train.py", check=None)
    assert (done.code, done.out, done.err) == (-number, "", "") == (plain.returncode, plain.stdout, plain.stderr)
    (written,) = probed.journal.glob("events/*.stacks")
    assert "in native" in written.read_text()


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("enable", ["faulthandler.enable()", "if not faulthandler.is_enabled(): faulthandler.enable()"])
def test_a_program_that_has_faults_shown_itself_gets_them_shown(probed, enable):
    source = f"import ctypes, faulthandler\n{STEPS['torch']}{enable}\nstep()\nctypes.string_at(0)\n"
    probed.write("train.py", source)
    done = probed(sys.executable, "train.py", check=None)
    assert done.code == -signal.SIGSEGV and "Segmentation fault" in done.err and 'train.py", line' in done.err


@pytest.mark.torch
@pytest.mark.forked("torch")
@pytest.mark.long
def test_a_fault_of_a_child_is_not_taken_for_one_of_its_parent(probed):
    source = STEPS["torch"] + (
        "import ctypes, os\nstep()\npid = os.fork()\nif pid == 0:\n    ctypes.string_at(0)\n"
        "print(os.waitpid(pid, 0)[1] & 127)\n"
    )  # fmt: skip
    probed.write("train.py", source)
    assert probed(sys.executable, "train.py").out == f"{int(signal.SIGSEGV)}\n"
    assert not list(probed.journal.glob("events/*.stacks"))
