"""Real process trees, sampled; Pythons that were not probed are found."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time

import pytest

from labbook.capture.processes import ProcessTree, find_unobserved, read_stat
from labbook.capture.resources import ResourceSampler, read_resources
from labbook.probe.redaction.redactor import Redactor

pytestmark = pytest.mark.process


def wait_until(condition, seconds=90.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def start():
    """Starts a command; what is left of it is ended after the test."""
    started = []

    def call(*argv, **options):
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, **options
        )
        started.append(process)
        return process

    yield call
    for process in started:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, 9)
        process.communicate()


def sampled(tmp_path, process, interval_s=5.0, redactor=None):
    (tmp_path / "events").mkdir(exist_ok=True)
    sampler = ResourceSampler(process.pid, tmp_path / "resources.jsonl", interval_s, redactor)
    sampler.start()
    return sampler


def says_hello(tmp_path, pid):
    (tmp_path / "events" / f"my-host-{pid}-{read_stat(pid).ticks}.jsonl").write_text("{}\n")


def test_a_stat_line_with_a_strange_name_is_read(tmp_path, start):
    program = tmp_path / "a) R (b 1 2"
    program.write_text("#!/bin/sh\nsleep 60\n")
    program.chmod(0o755)
    process = start(str(program))
    wait_until(lambda: (read_stat(process.pid) or read_stat(1)).ppid == os.getpid())
    assert read_stat(2**22 + 5) is None


def test_children_grandchildren_and_orphans_are_members(start):
    # The shell in the middle ends at once: its child is adopted by init and is known by the probe's variable only.
    script = "sleep 60 & (sh -c 'sleep 61 & echo $!' ) & wait %2; sleep 62"
    process = start("sh", "-c", script, env={**os.environ, "LABBOOK_PROBE": '{"run": "x"}'})
    orphan = int(process.stdout.readline())
    tree = ProcessTree(process.pid)
    wait_until(lambda: tree.update(whole=True) is not None and len(tree.members) >= 4)
    assert process.pid in tree.members
    assert orphan in tree.members
    assert os.getpid() not in tree.members


def test_an_orphan_of_another_run_is_not_a_member(start):
    other = start("sh", "-c", "sleep 60 & echo $!", env={**os.environ, "LABBOOK_PROBE": '{"run": "other"}'})
    orphan = int(other.stdout.readline())
    process = start("sleep", "60", env={**os.environ, "LABBOOK_PROBE": '{"run": "mine"}'})
    tree = ProcessTree(process.pid)
    for _ in range(5):
        tree.update(whole=True)
    assert set(tree.members) == {process.pid}
    assert orphan not in tree.members


def test_threads_are_not_processes(start):
    code = (
        "import threading,sys; [threading.Thread(target=sys.stdin.read).start() for _ in range(8)]; "
        "print('up', flush=True)"
    )
    process = start("sh", "-c", f'{sys.executable} -c "{code}"; true')
    tree = ProcessTree(process.pid)
    tree.update()
    process.stdout.readline()
    wait_until(lambda: tree.update(whole=True) is not None and len(tree.members) == 2)
    tree.update(whole=True)
    assert len(tree.members) == 2


def test_members_that_end_are_dropped(start):
    process = start("sh", "-c", "sleep 0.2; sleep 60")
    tree = ProcessTree(process.pid)
    wait_until(lambda: tree.update(whole=True) is not None and len(tree.members) == 2)
    first = set(tree.members) - {process.pid}
    wait_until(lambda: tree.update(whole=True) is not None and not first & set(tree.members))
    assert process.pid in tree.members


def test_samples_tell_memory_and_processor_of_the_whole_tree(tmp_path, start):
    work = "b = bytearray(60_000_000)\nwhile True: sum(range(1000))"
    process = start("sh", "-c", f"{sys.executable} -c '{work}' & wait")
    sampler = sampled(tmp_path, process, interval_s=0.2)
    wait_until(lambda: read_resources(tmp_path / "resources.jsonl").get("samples", 0) >= 5)
    os.killpg(process.pid, 9)
    process.wait()
    sampler.stop()
    facts = read_resources(tmp_path / "resources.jsonl")
    assert facts["peak_rss_bytes"] > 60_000_000
    assert facts["processes_peak"] == 2
    assert facts["cpu_s"] > 0.1
    assert facts["cpu_mean_cores"] > 0 and facts["load_per_core"] >= 0
    assert facts["peak_counts_shared_twice"] is False


def test_shared_memory_is_counted_once(tmp_path, start):
    work = (
        "import os,time\nb = bytearray(b'x') * 80_000_000\n"
        "for _ in range(3):\n  if os.fork() == 0: time.sleep(60)\ntime.sleep(60)"
    )
    process = start(sys.executable, "-c", work)
    sampler = sampled(tmp_path, process, interval_s=0.2)
    wait_until(lambda: read_resources(tmp_path / "resources.jsonl").get("processes_peak", 0) == 4)
    count = read_resources(tmp_path / "resources.jsonl")["samples"]
    wait_until(lambda: read_resources(tmp_path / "resources.jsonl")["samples"] >= count + 3)
    os.killpg(process.pid, 9)
    process.wait()
    sampler.stop()
    facts = read_resources(tmp_path / "resources.jsonl")
    assert 80_000_000 < facts["peak_rss_bytes"] < 200_000_000


def test_a_run_too_short_for_samples_still_has_its_account(tmp_path):
    """In an interpreter of its own: the kernel keeps only the largest child that a process ever had."""
    (tmp_path / "events").mkdir()
    recorder = (
        "import subprocess, sys\n"
        "from pathlib import Path\n"
        "from labbook.capture.resources import ResourceSampler\n"
        "process = subprocess.Popen([sys.executable, '-c', 'b = bytearray(300_000_000)'])\n"
        "sampler = ResourceSampler(process.pid, Path(sys.argv[1]), 5.0, None)\n"
        "sampler.start()\n"
        "process.wait()\n"
        "sampler.stop()\n"
    )
    subprocess.run([sys.executable, "-c", recorder, str(tmp_path / "resources.jsonl")], check=True)
    facts = read_resources(tmp_path / "resources.jsonl")
    assert facts["elapsed_s"] > 0
    assert facts["peak_rss_bytes"] > 250_000_000
    assert facts["cpu_s"] > 0


def test_missing_samples_are_reported(tmp_path):
    assert "unavailable" in read_resources(tmp_path / "none.jsonl")


def test_torn_and_foreign_lines_are_skipped(tmp_path):
    path = tmp_path / "resources.jsonl"
    path.write_text('{"k": "sample", "age_s": 1.0, "rss": 5, "n": 1, "cpu_s": 1}\n[1]\n{"k": "later"}\n{"k": "sam')
    assert read_resources(path)["peak_rss_bytes"] == 5


def test_the_interval_widens_so_that_the_file_stays_small(tmp_path):
    sampler = ResourceSampler(os.getpid(), tmp_path / "r.jsonl", 5.0)
    for sampler._samples in range(6000):
        due = sampler._next_sample_s()
    assert due > 30 * 24 * 3600
    dues = []
    for sampler._samples in range(2000):
        dues.append(sampler._next_sample_s())
    assert all(a < b for a, b in itertools.pairwise(dues))


@pytest.mark.parametrize(
    ("flag", "reason"), [("-I", "ignores PYTHONPATH"), ("-E", "ignores PYTHONPATH"), ("-S", "skips")]
)
def test_an_isolated_python_is_named_with_its_reason(tmp_path, start, flag, reason):
    process = start(
        "sh",
        "-c",
        f"{sys.executable} {flag} -c 'import time; time.sleep(60)' & wait",
        env={**os.environ, "LABBOOK_PROBE": "{}"},
    )
    sampler = sampled(tmp_path, process, redactor=Redactor())
    wait_until(lambda: len(find_unobserved(tmp_path / "resources.jsonl")) == 1)
    os.killpg(process.pid, 9)
    process.wait()
    sampler.stop()
    (found,) = find_unobserved(tmp_path / "resources.jsonl")
    assert found["argv"][1:] == [flag, "-c", "import time; time.sleep(60)"]
    assert reason in found["reason"]
    assert flag in found["reason"]
    assert found["count"] == 1


def test_a_probed_python_and_its_forks_are_observed(tmp_path, start):
    work = "import os,time\nif os.fork() == 0: time.sleep(60)\nprint('up', flush=True)\ntime.sleep(60)"
    process = start(sys.executable, "-c", work)
    sampler = sampled(tmp_path, process)
    process.stdout.readline()
    says_hello(tmp_path, process.pid)
    path = tmp_path / "resources.jsonl"
    wait_until(lambda: path.read_text().count('"python"') >= 2)
    sampler.stop()
    assert find_unobserved(path) == []


def test_a_python_with_an_empty_environment_is_named(tmp_path, start):
    process = start(
        sys.executable,
        "-c",
        f"import subprocess; subprocess.run(['{sys.executable}', '-c', 'input()'], env={{}})",
        env={**os.environ, "LABBOOK_PROBE": "{}"},
    )
    sampler = sampled(tmp_path, process, redactor=Redactor())
    says_hello(tmp_path, process.pid)
    wait_until(lambda: len(find_unobserved(tmp_path / "resources.jsonl")) == 1)
    sampler.stop()
    (found,) = find_unobserved(tmp_path / "resources.jsonl")
    assert "environment" in found["reason"]
    assert found["ppid"] == process.pid


def test_a_program_that_becomes_python_is_found(tmp_path, start):
    process = start("sh", "-c", f"sleep 0.5; exec {sys.executable} -I -c 'input()'")
    sampler = sampled(tmp_path, process)
    wait_until(lambda: len(find_unobserved(tmp_path / "resources.jsonl")) == 1)
    sampler.stop()


def test_an_old_python_is_reported_with_its_version(tmp_path):
    (tmp_path / "events").mkdir()
    record = {"k": "python", "pid": 5, "ppid": 1, "ticks": 7, "argv": ["python2.7", "a.py"], "executable": "python2.7"}
    path = tmp_path / "resources.jsonl"
    path.write_text(json.dumps(record) + "\n")
    (found,) = find_unobserved(path)
    assert "2.7 is older than 3.8" in found["reason"]


def test_command_lines_are_redacted_on_disk(tmp_path, start):
    secret = "zq9kfh3mmw2xv7"
    argv = (sys.executable, "-I", "-c", "input()", "--api-key", secret)
    for redactor in (Redactor(known=[secret]), None):
        process = start(*argv)
        sampler = sampled(tmp_path, process, redactor=redactor)
        path = tmp_path / "resources.jsonl"
        wait_until(lambda path=path: path.exists() and '"python"' in path.read_text())
        sampler.stop()
        assert secret not in path.read_text()
        assert "-I" in path.read_text()
        path.unlink()


def test_a_sampler_without_a_writable_place_does_no_harm(tmp_path, start):
    process = start("sleep", "60")
    sampler = ResourceSampler(process.pid, tmp_path / "missing" / "resources.jsonl", 1.0)
    sampler.start()
    time.sleep(0.2)
    sampler.stop()


def test_a_sampler_of_a_process_that_is_gone(tmp_path):
    process = subprocess.Popen(["true"])
    process.wait()
    sampler = ResourceSampler(process.pid, tmp_path / "resources.jsonl", 1.0)
    sampler.start()
    time.sleep(0.3)
    sampler.stop()
    assert read_resources(tmp_path / "resources.jsonl")["elapsed_s"] > 0


def test_a_short_isolated_child_is_seen_although_the_first_look_is_dear(tmp_path, start):
    child = f"{sys.executable} -I -c 'import time; time.sleep(0.4)'"
    process = start(sys.executable, "-c", f"import os; os.system({child!r})")
    sampler = sampled(tmp_path, process, redactor=Redactor())
    says_hello(tmp_path, process.pid)
    process.wait()
    sampler.stop()
    assert [found["argv"][1] for found in find_unobserved(tmp_path / "resources.jsonl")] == ["-I"]
    assert read_resources(tmp_path / "resources.jsonl")["samples"] >= 1
