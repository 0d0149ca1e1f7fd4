"""What the system knows of an ending, from trees of /proc and /sys as they are found on machines."""

from __future__ import annotations

import json
import os

import pytest

from labbook.capture.exit_cause import explain_exit, find_oom_kill, read_oom_counters, read_time_limit
from labbook.capture.slurm import read_job_end
from labbook.store.text.sentences import Sentences

EN = Sentences("en")

V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
GIB = 2**30


@pytest.fixture
def v2(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/jobs/one\n")
    (tmp_path / "proc/self/mountinfo").write_text(V2_MOUNT)
    for group, limit in (("jobs/one", 2 * GIB), ("jobs", "max")):
        folder = tmp_path / "sys/fs/cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.events").write_text("low 0\nhigh 0\nmax 4\noom 1\noom_kill 1\n")
        (folder / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 5\noom_kill 7\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal:  8388608 kB\n")
    return tmp_path


def samples(path, *sizes):
    path.write_text("".join(json.dumps({"k": "sample", "n": 1 if s else 0, "rss": s}) + "\n" for s in sizes))
    return path


def test_groups_of_version_2_and_the_machine_are_counted(v2):
    found = read_oom_counters(v2)
    assert found["sys/fs/cgroup/jobs/one"] == {"kills": 1, "limit": 2 * GIB}
    assert found["sys/fs/cgroup/jobs"] == {"kills": 1}
    assert found["machine"] == {"kills": 7, "limit": 8 * GIB}


def test_groups_of_version_1_are_counted(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("9:name=systemd:/\n4:memory:/docker/abc\n0::/\n")
    (tmp_path / "proc/self/mountinfo").write_text(V1_MOUNT)
    folder = tmp_path / "sys/fs/cgroup/memory/docker/abc"
    folder.mkdir(parents=True)
    (folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    (folder / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (folder / "memory.failcnt").write_text("12\n")
    assert read_oom_counters(tmp_path) == {"sys/fs/cgroup/memory/docker/abc": {"kills": 3, "failures": 12}}


def test_a_group_that_a_container_sees_as_the_top_is_found(v2):
    (v2 / "proc/self/mountinfo").write_text(V2_MOUNT.replace(" / /sys", " /jobs /sys"))
    (v2 / "sys/fs/cgroup/one").mkdir()
    (v2 / "sys/fs/cgroup/one/memory.events").write_text("oom_kill 2\n")
    assert read_oom_counters(v2)["sys/fs/cgroup/one"] == {"kills": 2}


LIMIT = read_time_limit({"SLURM_JOB_END_TIME": "1000"})


def test_nothing_readable_counts_nothing(tmp_path):
    assert read_oom_counters(tmp_path) == {}


def test_a_counted_oom_kill_is_reported_with_its_numbers(v2, tmp_path):
    before = read_oom_counters(v2)
    (v2 / "sys/fs/cgroup/jobs/one/memory.events").write_text("oom 2\noom_kill 2\n")
    end = {
        "code": None,
        "signal": "SIGKILL",
        "ended": 100.0,
        "counters": {"before": before, "after": read_oom_counters(v2)},
    }
    facts = explain_exit(end, samples(tmp_path / "r", 10 * 2**20, 1900 * 2**20, 0), 0.0, {})
    assert set(facts) == {"oom_kill"}
    assert EN(facts["oom_kill"]) == (
        "the kernel killed 1 process in the control group sys/fs/cgroup/jobs/one because memory was full; "
        "the limit is 2.0 GiB; this run used 1.9 GiB at the last sample"
    )
    assert Sentences("zh")(facts["oom_kill"]).startswith(
        "因内存耗尽，内核杀死了控制组 sys/fs/cgroup/jobs/one 中的 1 个进程"
    )


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (
            100 * 2**20,
            "there is no sign that memory ran out (the kernel counted no out-of-memory kill); the limit is 2.0 GiB",
        ),
        (1990 * 2**20, "memory was nearly full: this run used 1.9 GiB of 2.0 GiB"),
        (0, "there is no sign that memory ran out (the kernel counted no out-of-memory kill); the sender"),
    ],
)
def test_a_kill_without_evidence_is_reported_as_unexplained(v2, tmp_path, held, said):
    same = read_oom_counters(v2)
    end = {"code": 137, "signal": "", "ended": 100.0, "counters": {"before": same, "after": same}}
    facts = explain_exit(end, samples(tmp_path / "r", held), 100.0, {})
    assert facts.pop("memory_free", False) == (said[:5] == "there")
    assert set(facts) == {"memory"} and EN(facts["memory"]).startswith(said)


def test_an_ordinary_failure_does_not_mention_memory(v2, tmp_path):
    same = read_oom_counters(v2)
    end = {"code": 1, "signal": "", "ended": 100.0, "counters": {"before": same, "after": same}, "core_dump": False}
    assert explain_exit(end, samples(tmp_path / "r", GIB), 100.0, LIMIT) == {}
    assert explain_exit({}, tmp_path / "r", 0.0, {}) == {}


@pytest.mark.parametrize(("ended", "said"), [(970, "30 s before"), (1040, "40 s after"), (700, ""), (5000, "")])
def test_the_time_limit_of_a_job(ended, said, tmp_path):
    facts = explain_exit({"code": None, "signal": "SIGTERM", "ended": ended}, tmp_path / "r", 0.0, LIMIT)
    assert ("time_limit" in facts) == bool(said) and said in EN(facts.get("time_limit"))
    assert read_time_limit({"SLURM_JOB_END_TIME": "soon"}) == {}


@pytest.mark.parametrize(("started", "is_limit"), [(945, False), (880, True)])
def test_a_short_job_that_is_requeued_is_not_at_its_limit(started, is_limit, tmp_path):
    facts = explain_exit({"code": None, "signal": "SIGTERM", "ended": 970}, tmp_path / "r", started, LIMIT)
    assert ("time_limit" in facts) is is_limit


SCONTROL = "JobId=7 JobState={} Reason={} Restarts={} Requeue=1 EndTime=2026-11-27T11:04:46 PreemptTime={}"


@pytest.mark.process
@pytest.mark.parametrize(
    ("answer", "why", "said"),
    [
        (("COMPLETING", "None", 1, "None"), "requeued", "Slurm put the job 7 back into its queue"),
        (("PENDING", "BeginTime", 1, "None"), "requeued", "Slurm put the job 7 back into its queue"),
        (("COMPLETING", "None", 0, "2026-11-27T11:04:46"), "preempted", "higher priority (preemption)"),
        (("COMPLETING", "None", 0, "None"), "cancelled", "Slurm cancelled the job 7"),
        (("COMPLETING", "TimeLimit", 0, "None"), "time_limit", ""),
        (("RUNNING", "None", 0, "None"), "", ""),
        (("COMPLETING", "NonZeroExitCode", 0, "None"), "", ""),
    ],
)
def test_slurm_says_why_it_ends_a_job_near_its_limit(answer, why, said, tmp_path, monkeypatch):
    script = tmp_path / "scontrol"
    script.write_text(f"#!/bin/sh\necho '{SCONTROL.format(*answer)}'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    slurm = read_job_end({"SLURM_JOB_ID": "7"})
    assert slurm.get("why", "") == why and read_job_end({}) == {}

    end = {"code": None, "signal": "SIGTERM", "ended": 990, "slurm": slurm}
    facts = explain_exit(end, tmp_path / "r", 0.0, LIMIT)
    assert said in EN(facts.get("batch_end")) and ("time_limit" in facts) is not bool(said)


@pytest.mark.parametrize(
    ("stopped", "last", "said"),
    [(1000, 1009, "9 s after"), (0, 1009, "9 s after"), (990, 990, "10 s before"), (0, 990, ""), (500, 990, "")],
)
def test_the_time_limit_of_a_run_whose_recorder_was_killed_too(stopped, last, said, tmp_path):
    facts = explain_exit({}, tmp_path / "r", 0.0, LIMIT, {"stopped": stopped, "last_seen": last})
    assert ("time_limit" in facts) == bool(said) and said in EN(facts.get("time_limit"))


def test_a_line_of_the_kernel_log_counts_when_it_is_of_this_run():
    text = "Memory cgroup out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:8kB; more"
    lines = [(900.0, text.replace("4711", "1")), (20.0, "usb 1-1: new device"), (10.0, text)]
    assert "Killed process 4711 (python) total-vm:9kB" in EN(find_oom_kill(lines, 60.0))
    assert find_oom_kill(lines, 5.0) is None
    assert "Killed process 1 " in EN(find_oom_kill(lines[:1], 1000.0))
