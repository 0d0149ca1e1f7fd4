"""Uncaught exceptions arrive as data, and what the program prints about them stays the same to the byte."""

import sys

import pytest

PROGRAMS = {
    "plain": "def f(x):\n    return 1 / x\nf(0)",
    "cause": "try:\n    {}['key']\nexcept KeyError as e:\n    raise RuntimeError('outer') from e",
    "context": "try:\n    {}['key']\nexcept KeyError as e:\n    raise RuntimeError('outer')",
    "suppressed": "try:\n    {}['key']\nexcept KeyError as e:\n    raise RuntimeError('outer') from None",
    "cycle": "a, b = ValueError('a'), ValueError('b')\na.__context__, b.__context__ = b, a\nraise a",
    "no message": "class Bad(Exception):\n    def __str__(self):\n        raise ValueError('no')\nraise Bad()",
    "recursion": "def f(n):\n    return f(n + 1)\nf(0)",
    "string": "exec(\"raise ValueError('inside')\")",
    "syntax": "compile('def :', 'made.py', 'exec')",
    "hook": "import sys\nsys.excepthook = lambda t, v, b: print('mine', v, file=sys.stderr)\nraise ValueError('x')",
    "hook fails": "import sys\nsys.excepthook = lambda *a: 1 / 0\nraise ValueError('x')",
    "keyboard": "raise KeyboardInterrupt",
    "keyboard, then busy": (
        "config = {'path': '/home/somebody/x'}\nopen('a.txt', 'w')\nraise KeyboardInterrupt('/home/else')"
    ),
    "keyboard, then handled": (
        "import atexit\natexit.register(lambda: eval('1 + 1'))\nconfig = {'a': 1}\nraise KeyboardInterrupt"
    ),
    "thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='worker')\nt.start(); t.join()",
    "thread hook": (
        "import sys, threading\n"
        "threading.excepthook = lambda args: print('mine', args.exc_value, file=sys.stderr)\n"
        "t = threading.Thread(target=lambda: 1 / 0, name='worker')\nt.start(); t.join()"
    ),
    "thread exits": "import sys, threading\nt = threading.Thread(target=sys.exit)\nt.start(); t.join()",
    "exit": "import sys; sys.exit('no data')",
    "exit is caught": (
        "import pickle, sys, traceback\nassert pickle.loads(pickle.dumps(sys.exit)) is sys.exit\n"
        "try:\n    sys.exit((1, 2))\nexcept SystemExit:\n    traceback.print_exc()\nsys.exit(True)"
    ),
    "exit has too many arguments": "import sys; sys.exit(1, 2)",
    "argparse": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('x', type=lambda s: {}[s])\np.parse_args(['1'])"
    ),
    "argparse usage": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('x', type=int)\np.parse_args(['a'])"
    ),
    "asyncio": "import asyncio\nasync def f():\n    raise ValueError('late')\nasyncio.run(f())",
    "pool": "import concurrent.futures as c\nc.ThreadPoolExecutor(1).submit(lambda: 1 / 0).result()",
    "unraisable": "class A:\n    def __del__(self):\n        raise ValueError('gone')\nA()\nprint(1)",
}


@pytest.mark.parametrize("what", list(PROGRAMS))
def test_output_and_status_are_the_same_as_without_the_probe(probed, python, what):
    probed.write("fail.py", PROGRAMS[what])
    plain = probed.plain(python, "fail.py")
    done = probed(python, "fail.py", check=None)
    assert (done.code, done.out) == (plain.returncode, plain.stdout)
    assert _stable(done.err) == _stable(plain.stderr)
    assert not done.of("probe_error")


@pytest.mark.parametrize(
    ("status", "code", "message"), [("'no data'", 1, "no data"), ("3", 3, ""), ("", 0, ""), ("[4]", 1, "")]
)
def test_the_call_of_exit_in_the_main_thread_is_in_the_last_event(probed, python, status, code, message):
    other = "import threading\nt = threading.Thread(target=lambda: sys.exit(9))\nt.start(); t.join()"
    probed.write(
        "leave.py", f"import sys\ndef check():\n    sys.exit({status})\nif len(sys.argv) < 2:\n    check()\n{other}"
    )
    (bye,) = probed(python, "leave.py", check=None).of("bye")
    assert (bye["exit"]["code"], bye["exit"]["message"]) == (code, message)
    assert [(f["function"], f["line"]) for f in bye["exit"]["frames"]] == [("<module>", 5), ("check", 3)]
    (bye,) = probed(python, "leave.py", "stay", check=None).of("bye")
    assert "exit" not in bye


def _stable(text):
    """Without the addresses of functions."""
    import re

    return re.sub(r"0x[0-9a-f]+", "0x", text)


def test_frames_and_chain_are_recorded(probed, python):
    probed.write("deep.py", "import json\ndef inner():\n    json.loads('{')\n")
    probed.write(
        "fail.py",
        "import deep\ntry:\n    deep.inner()\nexcept ValueError as e:\n    raise RuntimeError('outer') from e\n",
    )
    done = probed(python, "fail.py", check=None)
    (event,) = done.of("exception")
    assert (event["where"], event["type"], event["module"], event["message"]) == (
        "main",
        "RuntimeError",
        "builtins",
        "outer",
    )
    assert event["exit"] is True
    assert event["step"] is None
    (frame,) = event["frames"]
    assert (frame["line"], frame["function"], frame["user"]) == (5, "<module>", True)
    assert frame["source"] == "raise RuntimeError('outer') from e"
    assert frame["file"].endswith("/work/fail.py")
    (cause,) = event["chain"]
    assert (cause["type"], cause["relation"]) == ("JSONDecodeError", "cause")
    inner = [frame for frame in cause["frames"] if frame["user"]][-1]
    assert (inner["line"], inner["function"]) == (3, "inner")
    assert not cause["frames"][-1]["user"]


def test_context_cycles_and_failing_messages_are_recorded(probed):
    chains = {"context": [("KeyError", "context")], "suppressed": [], "cycle": [("ValueError", "context")]}
    for what, chain in chains.items():
        probed.write("fail.py", PROGRAMS[what])
        (event,) = probed(sys.executable, "fail.py", check=None).of("exception")
        assert [(c["type"], c["relation"]) for c in event["chain"]] == chain
    probed.write("fail.py", PROGRAMS["no message"])
    (event,) = probed(sys.executable, "fail.py", check=None).of("exception")
    assert "cannot be shown" in event["message"]


def test_a_deep_recursion_is_recorded_with_both_ends(probed):
    probed.write("fail.py", PROGRAMS["recursion"])
    (event,) = probed(sys.executable, "fail.py", check=None).of("exception")
    assert event["type"] == "RecursionError"
    assert len(event["frames"]) == 120
    assert event["frames"][0]["function"] == "<module>"
    assert event["frames"][-1]["function"] == "f"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are new in 3.11")
def test_members_of_a_group_and_notes_are_recorded(probed):
    probed.write("fail.py", "e = ExceptionGroup('two', [ValueError('a'), TypeError('b')])\ne.add_note('seen')\nraise e")
    (event,) = probed(sys.executable, "fail.py", check=None).of("exception")
    assert event["notes"] == ["seen"]
    assert [(m["type"], m["message"]) for m in event["group"]] == [("ValueError", "a"), ("TypeError", "b")]


def test_a_thread_and_its_name_are_recorded(probed, python):
    for what in ("thread", "thread hook"):
        probed.write("fail.py", PROGRAMS[what])
        (event,) = probed(python, "fail.py").of("exception")
        assert (event["where"], event["thread"], event["type"], event["exit"]) == (
            "thread",
            "worker",
            "ZeroDivisionError",
            False,
        )
    probed.write("fail.py", PROGRAMS["thread exits"])
    assert probed(python, "fail.py").of("exception") == []


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_error_of_a_child_process_is_recorded(probed, python, method):
    probed.write(
        "fail.py",
        "import multiprocessing as mp, sys\n"
        "def work():\n"
        "    raise ValueError('in the child')\n"
        "if __name__ == '__main__':\n"
        "    p = mp.get_context(sys.argv[1]).Process(target=work, name='child-1')\n"
        "    p.start(); p.join(); sys.exit(p.exitcode)\n",
    )
    plain = probed.plain(python, "fail.py", method)
    done = probed(python, "fail.py", method, check=None)
    assert (done.code, done.err) == (plain.returncode, plain.stderr)
    (event,) = done.of("exception")
    assert (event["where"], event["message"], event["exit"]) == ("child", "in the child", True)
    assert [frame["function"] for frame in event["frames"] if frame["user"]] == ["work"]


def test_an_exit_is_no_exception(probed):
    for code in ("import sys; sys.exit('bad')", "import sys; sys.exit(3)"):
        done = probed(sys.executable, "-c", code, check=None)
        assert done.code in (1, 3)
        assert done.of("exception") == []
        assert done.of("bye")


def test_secrets_in_messages_and_source_are_masked(probed):
    probed.write("fail.py", "password = 'correct-horse-7battery'\nraise ValueError('login with password=' + password)")
    done = probed(sys.executable, "fail.py", check=None, MY_API_KEY="zq81xYt55wpL")
    assert "correct-horse-7battery" not in str(done.files)
    probed.write("fail.py", "import os\nraise ValueError('sent ' + os.environ['MY_API_KEY'])")
    done = probed(sys.executable, "fail.py", check=None, MY_API_KEY="zq81xYt55wpL")
    assert "zq81xYt55wpL" not in str(done.files)
    assert "zq81xYt55wpL" in done.err


def test_a_time_limit_by_signal_reaches_the_program_even_while_the_probe_works(probed, python):
    probed.write(
        "limit.py",
        "import signal, sys\n"
        "class Limit(Exception): pass\n"
        "def ring(*_): raise Limit\n"
        "signal.signal(signal.SIGALRM, ring)\n"
        "probe = sys._labbook_probe\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "try:\n"
        "    with probe.guard('busy'):\n"
        "        while True: pass\n"
        "except Limit:\n"
        "    print('reached')\n",
    )
    done = probed(python, "limit.py")
    assert done.out == "reached\n"
    assert not done.of("probe_error")


@pytest.mark.skipif(sys.version_info < (3, 10), reason="older interpreters do not say where it was ignored")
def test_failures_at_exit_are_recorded_and_do_not_end_the_process(probed):
    probed.write("fail.py", "import atexit\natexit.register(lambda: {}['saved'])\n")
    plain = probed.plain(sys.executable, "fail.py")
    done = probed(sys.executable, "fail.py")
    assert _stable(done.err) == _stable(plain.stderr)
    (event,) = done.of("exception")
    assert (event["type"], event["message"], event["exit"]) == ("KeyError", "'saved'", False)
