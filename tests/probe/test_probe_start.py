"""Every way to start a Python: each process says hello in a file of its own, and nothing else is different."""

import os
import subprocess
import sys

import pytest

SPAWN = """
import multiprocessing as mp, os, sys
def work(q):
    q.put(os.getpid())
if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    q = context.Queue()
    p = context.Process(target=work, args=(q,))
    p.start()
    print(q.get())
    p.join()
"""


def test_the_hello_tells_who_the_process_is(probed, python):
    done = probed(python, "-c", "import sys; print(sys.version.split()[0])", RANK="1", WORLD_SIZE="2")
    (events,) = done.files.values()
    hello, bye = events[0], events[-1]
    assert [hello["k"], bye["k"]] == ["hello", "bye"]
    assert [event["n"] for event in events] == list(range(len(events)))
    assert hello["version"] == done.out.strip()
    assert hello["argv"][1:] == ["-c", "import sys; print(sys.version.split()[0])"]
    assert hello["role"] == "python"
    assert hello["env"] == {"RANK": "1", "WORLD_SIZE": "2"}
    assert hello["ppid"] == os.getpid()
    assert hello["start_ticks"] > 0
    assert os.path.expanduser(hello["cwd"]) == str(probed.folder)
    assert hello["fd1"].startswith("pipe:")
    assert not [entry for entry in hello["sys_path"] if entry.endswith("inject")]
    assert bye["lost_events"] == 0
    assert 0 < bye["overhead_s"] <= bye["elapsed_s"]
    assert bye["sustained"] is None


@pytest.mark.parametrize("how", ["script", "module", "package", "stdin"])
def test_scripts_modules_and_packages_are_seen(probed, python, how):
    probed.write("pack/__init__.py", "")
    probed.write("pack/__main__.py", "import sys; print(__name__, sys.argv[1:])")
    probed.write("tool.py", "import sys; print(__name__, sys.argv[1:])")
    words = {"script": ["tool.py"], "module": ["-m", "tool"], "package": ["-m", "pack"], "stdin": ["-"]}[how]
    done = probed(python, *words, "--x")
    assert len(done.hellos) == 1
    assert done.hellos[0]["argv"][1:] == [*words, "--x"]
    if how != "stdin":
        assert done.out == "__main__ ['--x']\n"


def test_a_virtual_environment_is_seen(probed, python):
    subprocess.run([python, "-m", "venv", "--without-pip", probed.folder / "env"], check=True, timeout=60)
    done = probed(str(probed.folder / "env" / "bin" / "python"), "-c", "pass")
    (hello,) = done.hellos
    assert os.path.expanduser(hello["prefix"]) == str(probed.folder / "env")
    assert os.path.expanduser(hello["base_prefix"]) != str(probed.folder / "env")


@pytest.mark.parametrize(("method", "least"), [("fork", 2), ("spawn", 3), ("forkserver", 4)])
def test_children_of_multiprocessing_are_seen(probed, python, method, least):
    probed.write("parallel.py", SPAWN)
    done = probed(python, "parallel.py", method)
    child = int(done.out)
    assert len(done.hellos) >= least
    (events,) = [events for events in done.files.values() if events[0]["pid"] == child]
    assert events[0]["role"] == ("python" if method == "spawn" else "fork")
    assert events[-1]["k"] == "bye"


def test_forks_subprocesses_and_exec_are_seen(probed, python):
    probed.write(
        "family.py",
        "import os, subprocess, sys\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "subprocess.check_call([sys.executable, '-c', 'pass'])\n"
        "open('kept.txt', 'w').write('x')\n"
        "os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])\n",
    )
    done = probed(python, "family.py")
    assert done.out == "1\n"
    roles = [hello["role"] for hello in done.hellos]
    assert sorted(roles) == ["fork", "python", "python", "python"]
    first = next(e for e in done.files.values() if e[0]["argv"][1:] == ["family.py"] and e[0]["role"] == "python")
    executed = [e for e in done.files.values() if e[0]["argv"][1:] == ["-c", "print(1)"]]
    assert executed[0][0]["pid"] == first[0]["pid"]
    assert [e["how"] for e in first if e["k"] == "spawned"] == ["subprocess", "exec"]
    assert "kept.txt" in done.paths()


@pytest.mark.parametrize("flags", [["-I"], ["-E"], ["-S"], ["-I", "-S"]])
def test_an_interpreter_that_ignores_its_environment_stays_as_it_is(probed, python, flags):
    done = probed(python, *flags, "-c", "import sys; print(hasattr(sys, '_labbook_probe'))")
    assert (done.out, done.err, done.files) == ("False\n", "", {})


@pytest.mark.parametrize("flags", [["-s"], ["-u", "-O", "-B"], ["-X", "dev"], ["-W", "error"], ["-bb"], ["-X", "utf8"]])
def test_flags_do_not_disturb_it(probed, python, flags):
    done = probed(python, *flags, "-c", "print(1)")
    assert (done.out, done.err) == ("1\n", "")
    assert [event["k"] for event in done.events] == ["hello", "bye"]


def test_an_old_interpreter_stays_silent_and_chains(probed, old_python):
    probed.write("site/sitecustomize.py", "import sys; sys.stderr.write('mine\\n')")
    where = str(probed.folder / "site")
    done = probed(old_python, "-c", "import sys; print(sys.argv)", PYTHONPATH=where)
    assert (done.out, done.err, done.files) == ("['-c']\n", "mine\n", {})


def test_without_a_journal_nothing_happens(probed, python):
    environ = probed.injected()
    (probed.journal / "events").rmdir()
    code = "import sys; print(sys._labbook_probe, [m for m in sys.meta_path if 'labbook' in repr(m)])"
    done = subprocess.run([python, "-c", code], env=environ, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("None []\n", "")


def test_the_program_finds_the_path_and_descriptors_that_it_would_find_without(probed, python):
    probed.write("look.py", "import sys; print(sys.path, open('look.py').fileno(), sorted(sys.warnoptions))")
    for before in (None, "", "extra:", ":extra", "extra::more"):
        changes = {} if before is None else {"PYTHONPATH": before}
        plain = probed.plain(python, "look.py", **changes)
        assert probed(python, "look.py", **changes).out == plain.stdout


def test_a_subinterpreter_or_second_site_does_not_boot_twice(probed):
    done = probed(sys.executable, "-c", "import site; site.execsitecustomize(); site.main()")
    assert len(done.hellos) == 1
