"""Warnings, started programs, hostile programs, and a probe that fails at every stage."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from order_of_tests import further

import labbook.probe
from labbook.record.child.probe_environment import inject_environment

WARN = """
import logging, sys, warnings
warnings.warn("first")
for _ in range(3):
    warnings.warn("again", RuntimeWarning)
with warnings.catch_warnings(record=True) as caught:
    warnings.warn("caught")
warnings.simplefilter("ignore"); warnings.warn("silent"); warnings.resetwarnings()
warnings.showwarning = lambda *a, **k: print("shown by mine", a[0], file=sys.stderr)
warnings.warn("mine")
print(len(caught), warnings.showwarning.__name__)
"""


def test_warnings_are_recorded_and_printed_unchanged(probed, python):
    probed.write("warn.py", WARN)
    plain = probed.plain(python, "warn.py")
    done = probed(python, "warn.py")
    assert (done.out, done.err) == (plain.stdout, plain.stderr)
    seen = [(event["category"], event["message"]) for event in done.of("warning")]
    assert seen == [("UserWarning", "first"), ("RuntimeWarning", "again"), ("UserWarning", "mine")]
    assert Path(done.of("warning")[0]["file"]).name == "warn.py"


def test_a_package_beside_others_on_the_module_path_is_not_the_program(probed, python):
    """As of `pip install --target`, of which the path says nothing."""
    for name, body in (("lib/old.py", "import warnings\nwarnings.warn('x')"), ("lib/old-1.dist-info/METADATA", "")):
        probed.write(name, body)
    probed.write("warn.py", "import old, warnings\nwarnings.warn('y')")
    done = probed(python, "warn.py", PYTHONPATH=str(probed.folder / "lib"))
    assert {event["message"]: event["own"] for event in done.of("warning")} == {"x": False, "y": True}


@pytest.mark.parametrize("flags", [["-W", "error"], ["-W", "always"], ["-X", "tracemalloc", "-X", "dev"]])
def test_warnings_under_flags_look_the_same(probed, python, flags):
    probed.write("warn.py", "import warnings\nopen('warn.py')\nwarnings.warn('old', DeprecationWarning)\nprint(1)")
    plain = probed.plain(python, *flags, "warn.py")
    done = probed(python, *flags, "warn.py", check=None)
    assert (done.code, done.out, done.err) == (plain.returncode, plain.stdout, plain.stderr)


def test_started_programs_are_recorded(probed, python):
    code = (
        "import os, subprocess\n"
        "subprocess.run(['true', '--api-key', 'zq81xYt55wpL'])\n"
        "subprocess.run('true; true', shell=True)\n"
        "os.system('true 2')\n"
    )
    done = probed(python, "-c", code)
    seen = [(event["how"], event["argv"]) for event in done.of("spawned")]
    assert seen[0][0] == "subprocess"
    assert seen[0][1][:2] == ["true", "--api-key"]
    assert "zq81xYt55wpL" not in str(done.files)
    assert seen[1:] == [("subprocess", ["/bin/sh", "-c", "true; true"]), ("subprocess", ["true 2"])]


HOSTILE = {
    "closes all descriptors": ("import os; os.closerange(3, 4096)\nwith open('mine.txt', 'w') as f: f.write('kept')"),
    "opens its own file on ours": (
        "import os\n"
        "probe = getattr(sys, '_labbook_probe', None)\n"
        "fd = probe.writer._fd if probe else 77\n"
        "mine = os.open('mine.txt', os.O_WRONLY | os.O_CREAT)\n"
        "os.dup2(mine, fd)\n"
        "open('more.txt', 'w').close()\n"
        "os.write(mine, b'kept')\n"
    ),
    "deletes modules": (
        "for m in list(sys.modules):\n    if 'labbook' in m: del sys.modules[m]\nimport queue, argparse, threading"
    ),
    "deletes the probe": (
        "vars(sys).pop('_labbook_probe', None)\nimport threading, argparse\nopen('hostile.py').close()"
    ),
    "clears meta_path": "sys.meta_path.clear()\nopen('hostile.py').close()",
    "recursion limit": (
        "sys.setrecursionlimit(60)\ndef f(n):\n    open('hostile.py').close()\n    f(n + 1)\n"
        "try:\n    f(0)\nexcept RecursionError:\n    print('deep')"
    ),
    "strange paths": (
        "import os, pathlib\n"
        "few = (b'bytes', 'no\\x00null', 'missing', pathlib.Path('p'))\n"
        "for path in (*few, 'a' * 5000, '\\udcff.txt', '', '..', '.'):\n"
        "    try:\n"
        "        open(path)\n"
        "    except (OSError, ValueError) as e:\n"
        "        print(type(e).__name__)\n"
        "try:\n"
        "    open(os.fsdecode(b'\\xff.txt'), 'w').close()\n"
        "except OSError:\n"
        "    pass\n"
    ),
    "no working folder": (
        "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "try:\n    open('x')\nexcept OSError as e:\n    print(type(e).__name__)"
    ),
    "stdlib shadowed": (
        "for name in ('json.py', 're.py', 'base64.py'):\n"
        "    with open(name, 'w') as f: f.write('raise SystemExit(9)')\n"
        "config = {'path': '/home/somebody/y'}\n"
        "raise ValueError('password=correct-horse-7battery at /home/somebody/x')\n"
    ),
    "exits at once": "import os; os._exit(4)",
    "kills itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "threads at the end": (
        "import threading, time\n"
        "def work():\n"
        "    while True:\n"
        "        open('hostile.py').close()\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.05)"
    ),
    "opens during shutdown": "class A:\n    def __del__(self):\n        print(open('hostile.py').read(2))\nkeep = A()",
    "traces": (
        "sys.settrace(lambda *a: None); sys.setprofile(lambda *a: None)\nimport queue\nopen('hostile.py').close()"
    ),
    "random": (
        "import random; random.seed(1); print(random.random())\nopen('hostile.py').close(); print(random.random())"
    ),
}


@pytest.mark.parametrize("what", list(HOSTILE))
def test_hostile_programs_run_as_without_the_probe(probed, python, what):
    results = []
    for folder in ("with", "without"):
        probed.folder = probed.folder.parent / folder
        probed.write("hostile.py", "import sys\n" + HOSTILE[what])
        if folder == "with":
            done = probed(python, "hostile.py", check=None)
            results.append((done.code, done.out, done.err))
        else:
            plain = probed.plain(python, "hostile.py")
            results.append((plain.returncode, plain.stdout, plain.stderr))
        results[-1] += ({path.name: path.read_bytes() for path in probed.folder.glob("*.txt")},)
    results[0] = _without_folder(results[0], "with")
    assert results[0] == _without_folder(results[1], "without")
    assert done.hellos


def _without_folder(result, folder):
    code, out, err, files = result
    return code, out, re.sub(r"0x[0-9a-f]+", "0x", err.replace(f"/{folder}/", "/")), files


def test_events_of_a_killed_process_are_complete(probed):
    code = "import os, signal; open('data.txt', 'w').write('x'); os.kill(os.getpid(), signal.SIGKILL)"
    done = probed(sys.executable, "-c", code, check=None)
    assert done.code == -9
    assert "data.txt" in done.paths()
    assert not done.of("bye")


def test_events_dropped_by_a_full_journal_are_counted(probed):
    code = (
        "import os, sys, resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "for n in range(50): sys._labbook_probe.event('note', text='filling up %d' % n)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "print(sys._labbook_probe.writer.lost > 10)"
    )
    journal = probed.journal / "events"
    environ = probed.injected()
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    (file,) = journal.glob("*.jsonl")
    assert file.stat().st_size <= 2000


@pytest.mark.parametrize(
    "stage",
    [
        "start.py",
        "events/event_writer.py",
        "redaction/event_redaction.py",
        "redaction/redactor.py",
        "redaction/rules.json",
        "process/process_info.py",
        "imports.py",
        "process/interpreter_hooks.py",
        "process/exceptions.py",
        "process/file_access.py",
        "process/parsed_options.py",
        "events/jsonl.py",
        "training/__init__.py",
        "events/protocol.py",
    ],
)
@pytest.mark.parametrize("damage", ["raises", *further("missing", "unreadable")])
def test_a_broken_probe_leaves_the_program_alone(probed, tmp_path, stage, damage):
    package = tmp_path / "package" / "probe"
    shutil.copytree(Path(labbook.probe.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    broken = package / stage
    if damage == "missing":
        broken.unlink()
    else:
        broken.write_text("raise RuntimeError('broken on purpose')" if damage == "raises" else "def :\x00")
    environ = probed.injected()
    environ = inject_environment(
        {**probed.environment(), "MY_API_KEY": "zq81xYt55wpL"},
        {"dir": str(probed.journal)},
        package / "inject",
    )
    probed.write(
        "train.py",
        "import argparse, json, os, sys, threading, warnings\n"
        "open('data.txt', 'w').write('x')\n"
        "warnings.warn('careful')\n"
        "print('done', os.environ['MY_API_KEY'])\n"
        "raise ValueError(os.environ['MY_API_KEY'])\n",
    )
    done = probed._run([sys.executable, "train.py"], environ)
    plain = probed.plain(sys.executable, "train.py", MY_API_KEY="zq81xYt55wpL")
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    for path in (probed.journal / "events").glob("*"):
        assert "zq81xYt55wpL" not in path.read_text()


BREAKING = """
import sys
probe = sys._labbook_probe
def fail(*a, **k): raise {kind}("broken on purpose")
{target} = fail
"""


@pytest.mark.parametrize(
    "target",
    [
        "probe.redaction.text",
        "probe.redaction.fields",
        "probe.writer._write",
        "probe.writer._line",
        "probe.failed",
        "sys.modules['_labbook_probe.wrapping'].strip",
        "sys.modules['_labbook_probe.process.exceptions'].message_of",
        "sys.modules['_labbook_probe.process.file_access'].FileAccess.opened",
        "sys.modules['_labbook_probe.process.file_access'].FileAccess.flush",
        "sys.modules['_labbook_probe.process.parsed_options'].to_plain",
        "sys.modules['_labbook_probe.process.process_info'].start_ticks",
        "sys.modules['_labbook_probe.events.jsonl'].encode",
    ],
)
def test_a_failure_at_any_stage_leaves_the_program_alone(probed, python, target):
    probed.write("breaking.py", BREAKING.format(target=target, kind="RuntimeError"))
    body = (
        "import argparse, os, queue, subprocess, sys, threading, warnings\n"
        "a = argparse.ArgumentParser(); a.add_argument('--lr', type=float, default=1.0); print(a.parse_args())\n"
        "config = {'a': 1}\n"
        "open('data.txt', 'w').write('x'); print(open('data.txt').read())\n"
        "warnings.warn('careful')\n"
        "if not os.fork(): os._exit(0)\n"
        "os.wait(); subprocess.run(['true'])\n"
        "t = threading.Thread(target=lambda: 1 / 0, name='t'); t.start(); t.join()\n"
        "raise ValueError('end')\n"
    )
    probed.write("train.py", "import os\n" + body)
    plain = probed.plain(python, "train.py")
    probed.write("train.py", "import breaking\n" + body)
    done = probed(python, "train.py", check=None)
    assert (done.code, done.out) == (plain.returncode, plain.stdout)
    assert done.err == plain.stderr


NESTED = """
import sys, traceback, types
package = types.ModuleType("_labbook_probe")
package.__path__ = [sys.argv[1]]
sys.modules["_labbook_probe"] = package
from contextlib import nullcontext
from _labbook_probe.wrapping import wrap_function

def fail(depth):
    if depth:
        return again(depth - 1)
    raise ValueError("deep inside")

again = wrap_function(fail, nullcontext())
try:
    again(5)
except ValueError:
    print(traceback.format_exc().count("wrapping.py"))
"""


def test_a_traceback_that_the_program_formats_has_at_most_one_frame_of_the_probe(python, tmp_path):
    """None from Python 3.11 on; before, a bare `raise` puts the frame that raises back."""
    program = tmp_path / "nested.py"
    program.write_text(NESTED)
    folder = str(Path(labbook.probe.__file__).parent)
    done = subprocess.run([python, str(program), folder], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 1
