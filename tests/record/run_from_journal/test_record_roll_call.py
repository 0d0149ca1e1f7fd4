"""The odd rank of a roll-call: named only where something tells it from the others."""

from __future__ import annotations

import pytest

from labbook.record.run_from_journal.odd_rank import name_odd, note_other_calls
from labbook.record.run_from_journal.rank_rows import TaskFacts
from labbook.record.run_from_journal.roll_call import roll_call
from labbook.report.entry.ranks_section import odd_rank_sentence
from labbook.store.journal import ProcessEvents
from labbook.store.text.sentences import Sentences

RESET = "RuntimeError: pair.cc:537 Read error: Connection reset by peer"
LABEL = "ValueError: label 7 is out of range"
TIMED_OUT = "RuntimeError: Timed out waiting 60000ms for recv operation to complete"


def row(rank, status="failed", at=100.0, line=64, waiting="", call="all_reduce", **more):
    facts = {"rank": rank, "status": status, "failed_at": at, "steps": 7, "call": call, "waiting": waiting, **more}
    facts["where"] = {"file": "train.py", "line": line, "function": "average"} if line else {}
    return {name: value for name, value in facts.items() if value not in ("", None, {})}


def aborted(rank, at, line=64):
    return row(rank, at=at, line=line, waiting="collective" if line else "", signal="SIGABRT")


def interrupted(rank, line, waiting="collective"):
    return row(rank, "interrupted", at=130.0, line=line, waiting=waiting, signal="SIGTERM")


ROWS = {
    "all aborted at one place": ([aborted(rank, 100.0 + rank / 100) for rank in range(3)], "broke", []),
    "one aborted, the others lost it": (
        [aborted(0, 100.0), row(1, at=100.02, error=RESET), row(2, at=100.03, error=RESET)], "aborted", [0],
    ),
    "one aborted, another was elsewhere": (
        [aborted(0, 100.0), row(1, at=100.02, line=62, error=RESET), row(2, at=100.03, error=RESET)], "apart", [1],
    ),
    "the same place, raised outside of the call": (
        [aborted(0, 100.0), row(1, line=62, error=RESET), row(2, call="", error=RESET)], "apart", [1],
    ),
    "broken, and stopped by the launcher": (
        [aborted(0, 100.0), row(1, "interrupted", line=62, signal="SIGTERM", error=RESET), row(2, error=RESET)],
        "apart", [1],
    ),
    "two ranks, two places": ([aborted(0, 100.0), row(1, at=100.02, line=62, error=RESET)], "broke", []),
    "aborted without a place": ([aborted(0, 100.0, line=0), row(1, error=RESET), row(2, error=RESET)], "broke", []),
    "aborted in its own code": (
        [row(0, error=RESET), row(1, at=101.0, line=20, call="", signal="SIGABRT"), row(2, error=RESET)], "failed", [1],
    ),
    "an exception of its own, though later": (
        [aborted(0, 100.0), row(1, at=100.5, line=9, error=LABEL), row(2, error=RESET)], "failed", [1],
    ),
    "one aborted, the others still waited, one of them elsewhere": (
        [aborted(0, 100.0), interrupted(1, 62), interrupted(2, 64)], "apart", [1],
    ),
    "one aborted, the others lost it and were stopped before they had ended": (
        [aborted(0, 100.0), *(row(rank, "interrupted", at=100.1, line=line, signal="SIGTERM", error=RESET)
                              for rank, line in ((1, 62), (2, 64)))], "apart", [1],
    ),
    "one aborted, the others waited at its place": (
        [aborted(0, 100.0), interrupted(1, 64), interrupted(2, 64)], "aborted", [0],
    ),
    "a crash": ([row(0, error=RESET), row(1, error=RESET), row(2, at=101.0, signal="SIGSEGV")], "failed", [2]),
    "all with one error": ([row(rank, at=100.0 + rank, error=LABEL) for rank in range(3)], "alike", [0, 1, 2]),
    "one error, with the number of the rank": (
        [row(0, error=RESET), *(row(rank, error=f"E: [{rank}]: params[0] has sizes [32, 8]") for rank in (1, 2))],
        "alike", [1, 2],
    ),
    "one error, one far ahead": (
        [row(rank, at=100.0 - 60 * (rank == 1), error=LABEL) for rank in range(3)], "failed", [1],
    ),
    "killed, times unknown": (
        [row(0, "killed", at=None), row(1, "killed", at=None), interrupted(2, 64)], "killed", [0, 1],
    ),
    "timed out waiting for a loop": (
        [row(0, error="RuntimeError: Timed out waiting 30000ms"), interrupted(1, 70, ""),
         row(2, error="RuntimeError: Timed out waiting 30000ms")], "elsewhere", [1],
    ),
    "killed long after the others gave up": (
        [row(0, "killed", at=190.0, line=20, call=""), row(1, at=100.0, line=22, error=TIMED_OUT)], "elsewhere", [0],
    ),
    "killed, and the others gave up": (
        [row(0, "killed", at=100.0, line=20, call=""), row(1, at=101.0, line=22, error=TIMED_OUT)], "killed", [0],
    ),
    "two have another address of the rendezvous": (
        [row(0, at=101.0, error="DistStoreError: Timed out after 26 seconds waiting for clients."),
         row(1, at=100.0, error="DistStoreError: wait timeout after 25000ms, keys: /default_pg/0//cpu//0/0"),
         *(row(rank, at=110.0 + 7 * rank, error="DistNetworkError: The client socket has timed out after 25000ms "
               "while trying to connect to (10.0.0.1, 29501)") for rank in (2, 3))],
        "unconnected", [2, 3],
    ),
    "a barrier that names the rank it waited for": (
        [row(0, error="RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 25000 ms"),
         interrupted(1, 13, ""), row(2, error="RuntimeError: Rank 2 successfully reached monitoredBarrier, but")],
        "elsewhere", [1],
    ),
    "all killed by a launcher in a hang": (
        [row(0, "killed", at=None, waiting="collective", silent_s=14.5),
         row(1, "killed", at=None, line=22, call="", waiting="lock", silent_s=14.5)], "elsewhere", [1],
    ),
    "fewer ranks were started than the program waits for": (
        [row(0, line=12, error="DistStoreError: Timed out after 41 seconds waiting for clients. 2/3 clients joined"),
         row(1, at=99.0, line=12, error="DistNetworkError: Failed to recv. Connection was likely closed.")],
        "incomplete", [],
    ),
    "the rank with the store gave up, and another one lost it": (
        [row(0, line=12, error="DistStoreError: wait timeout after 40000ms, keys: /default_pg/0//cpu//0/0"),
         row(1, at=99.0, line=12, error="DistNetworkError: Failed to recv. Connection was likely closed.")],
        "broke", [],
    ),
    "nobody reached the rendezvous, because its rank had failed": (
        [row(0, at=90.0, line=3, call="", error=LABEL), *(row(rank, error="DistNetworkError: The client socket has "
         "failed to connect to any network address of (n1, 29500)") for rank in (1, 2))], "failed", [0],
    ),
    "broke at three places": (
        [row(0, line=34, error=TIMED_OUT, call="barrier"), row(1, line=21, error=TIMED_OUT, call="send"),
         *(row(rank, line=11, error=TIMED_OUT, call="recv") for rank in (2, 3))], "broke", [],
    ),
    "wait at three places": (
        [interrupted(0, 34), *(interrupted(rank, 11) for rank in (2, 3)), interrupted(1, 21)], "scattered", [],
    ),
    "interrupted in one collective": ([interrupted(rank, 64) for rank in range(3)], None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_the_odd_rank_is_named_only_with_evidence(name):
    rows, kind, ranks = ROWS[name]

    odd = name_odd(rows)

    assert (odd.get("kind"), odd.get("ranks")) == (kind, ranks)
    for language in ("en", "zh"):
        sentence = odd_rank_sentence(odd, Sentences(language))
        assert bool(sentence) == bool(kind) and "{" not in sentence
        assert ranks or "first," not in sentence
        assert "?" not in sentence


def test_a_node_whose_ranks_were_all_killed_is_named():
    lost = [row(rank, "killed", line=0, call="", host="n2") for rank in (2, 3)]
    left = [row(rank, at=101.0, error=RESET, host="n1") for rank in (0, 1)]
    lost[1].update(error=RESET, failed_at=102.0)  # it saw the other one die
    assert "all ranks of n2 were killed" in odd_rank_sentence(name_odd([*left, *lost]), Sentences("en"))
    for others in ([*left, row(1, at=101.0, error=RESET, host="n2")], []):
        assert "node" not in name_odd([*others, *lost])


@pytest.mark.parametrize(("signal", "was_killed"), [("SIGKILL", True), ("", False)])
def test_a_rank_without_a_known_signal_is_not_called_killed(signal, was_killed):
    sentence = odd_rank_sentence({"kind": "killed", "ranks": [1], "steps": 3, "signal": signal}, Sentences("en"))
    assert ("was killed first" in sentence) == was_killed and ("os._exit" in sentence) != was_killed


def test_a_rank_that_was_stopped_with_its_recorder_is_not_killed_first(tmp_path):
    """`mpirun` that is stopped kills the recorders; the interpreter wrote the stacks at its SIGTERM."""

    def process(rank, file, source):
        env = {"RANK": str(rank), "WORLD_SIZE": "2"}
        stack = f'Current thread 0x1 (most recent call first):\n  File "{file}", line 7 in work\n'
        (tmp_path / f"{rank}.stacks").write_text(stack)
        return ProcessEvents(f"{rank}.jsonl", ({"k": "hello", "role": "python", "env": env},), folder=tmp_path)

    ranks = [process(0, "/lib/python3.11/site-packages/torch/distributed/x.py", ""), process(1, "/w/data.py", "")]
    tasks = [
        TaskFacts(rank, "n", "killed", None, "", 9.0, 9.0, stopped=False, names=(str(tmp_path / f"{rank}.jsonl"),))
        for rank in range(2)
    ]
    facts = roll_call(ranks, tasks, 2, "job")
    assert [(row["status"], row["signal"]) for row in facts["rows"]] == [("interrupted", "SIGTERM")] * 2
    assert (facts["odd"]["kind"], facts["odd"]["ranks"]) == ("elsewhere", [1])


@pytest.mark.parametrize(
    ("rows", "said", "unsaid"),
    [
        ([row(0, error=RESET, call="backward"), row(1, line=22, error=TIMED_OUT, call="barrier")],
         ("rank 0 in backward at train.py:64", "rank 1 in barrier at train.py:22"), "unknown"),
        ([row(0, error=RESET), row(1, "finished", line=0)], ("rank 1 ended after step 7; rank 0 then broke",), "waits"),
        ([row(0, error=RESET), row(1, error=LABEL, line=70, call="forward")],
         ("rank 1 failed first, at train.py:70", "rank 0 waited in all_reduce at train.py:64"), "unknown"),
        ([row(0, "interrupted", waiting="collective"), row(1, "finished")], ("rank 0 still waits in",), "broke"),
    ],
    ids=["two places", "one had ended", "one failed", "waits until it is stopped"],
)  # fmt: skip
def test_ranks_that_broke_are_named_with_their_places(rows, said, unsaid):
    sentence = odd_rank_sentence(name_odd(rows), Sentences("en"))
    assert all(part in sentence for part in said) and unsaid not in sentence
    assert "{" not in odd_rank_sentence(name_odd(rows), Sentences("zh"))


def finished(rank, **more):
    return {"rank": rank, "status": "finished", "steps": 40, "whole_step_s": 0.08, **more}


@pytest.mark.parametrize(
    ("rows", "kind", "ranks"),
    [
        ([finished(0, bad_step=9, bad_loss="nan"), finished(1, bad_step=8, bad_loss="nan"), finished(2)],
         "bad_loss", [1]),
        ([finished(rank, bad_step=8, bad_loss="inf") for rank in range(3)], None, None),
        ([finished(0, steps=7), finished(1, bad_step=8, bad_loss="nan")], None, None),
        ([finished(0, step_s=0.003), finished(1, step_s=0.064), finished(2, step_s=0.006)], "slow", [1]),
        ([finished(0, step_s=0.001), finished(1, step_s=0.0025), finished(2, step_s=0.001)], None, None),
        ([finished(0, step_s=0.014), finished(1, step_s=0.004)], None, None),
        ([finished(0, step_s=0.003), finished(1, step_s=0.064), finished(2)], None, None),
    ],
    ids=["NaN first", "NaN in one step", "not as far", "straggler", "no part of the step", "an eighth", "unknown"],
)  # fmt: skip
def test_a_rank_that_finished_is_odd_by_its_loss_or_its_own_time(rows, kind, ranks):
    odd = name_odd(rows)

    assert (odd.get("kind"), odd.get("ranks")) == (kind, ranks)
    assert bool(odd_rank_sentence(odd, Sentences("en"))) == bool(kind)


@pytest.mark.parametrize(("data_s", "by_data"), [((0.001, 0.05), True), ((0.001, 0.002), False), ((None, None), False)])
def test_a_straggler_that_waits_for_data_is_said_to(data_s, by_data):
    rows = [finished(rank, step_s=own, data_s=data_s[rank == 1]) for rank, own in enumerate((0.003, 0.064, 0.006))]
    odd = name_odd(rows)
    assert (odd["ranks"], odd["by_data"]) == ([1], by_data)
    assert ("waiting for data" in odd_rank_sentence(odd, Sentences("en"))) == by_data


@pytest.mark.parametrize(
    ("own", "calls"),
    [
        ({6: 4, 7: 4, 8: 0, 9: 4}, {"step": 8, "own": 0, "usual": 4}),
        ({6: 4, 7: 4, 8: 4}, None),
        ({6: 0, 7: 4, 8: 4}, None),
        ({}, None),
    ],
    ids=["skipped", "alike", "never alike", "unknown"],
)
def test_a_hang_tells_the_step_in_which_the_odd_rank_made_fewer_calls(own, calls):
    odd = name_odd([interrupted(0, 64), {**interrupted(1, 92), "call": "barrier"}, interrupted(2, 64)])
    usual = dict.fromkeys((6, 7, 8), 4)

    note_other_calls(odd, {0: usual, 1: own, 2: usual})

    assert odd["ranks"] == [1] and odd.get("calls") == calls
    assert ("made 0 collective calls" in odd_rank_sentence(odd, Sentences("en"))) == bool(calls)


def ray_worker(rank, *events):
    hello = {"k": "hello", "t": 1.0, "pid": 100 + rank, "argv": ["python", "ray/_private/workers/default_worker.py"]}
    state = {"k": "state", "t": 2.0, "framework": "torch", "distributed": {"rank": rank, "world_size": 2}}
    return ProcessEvents(f"{rank}.jsonl", (hello, state, *events))


@pytest.mark.parametrize(
    ("error", "of_worker", "statuses", "odd"),
    [
        ("", (), ["finished", "finished"], None),
        ("(raylet) Worker PID: 101 Worker exit type: SYSTEM_ERROR", (), ["finished", "killed"], "killed"),
        ("RayTaskError", ({"k": "exception", "t": 3.0, "where": "task", "type": "ValueError", "message": "planted"},),
         ["interrupted", "failed"], "failed"),
        ("the actor died: pid: 101", (), ["interrupted", "killed"], "killed"),
    ],
)  # fmt: skip
def test_a_worker_that_ray_ended_is_not_a_killed_one(error, of_worker, statuses, odd):
    printed = error if "raylet" in error else ""
    end = [{"k": "exception", "t": 4.0, "exit": True, "message": error}] if error and not printed else []
    driver = ProcessEvents("d.jsonl", ({"k": "hello", "t": 0.0, "pid": 1, "argv": ["python", "train.py"]}, *end))
    facts = roll_call([driver, ray_worker(0), ray_worker(1, *of_worker)], (), 0, "", console=printed)
    assert [row["status"] for row in facts["rows"]] == statuses
    assert facts.get("odd", {}).get("kind") == odd and facts.get("odd", {}).get("ranks", [1]) == [1]


LOOP = {"file": "/venv/site-packages/ray/_private/worker.py", "line": 1, "user": False}
IDLE = {"k": "stacks", "t": 9.0, "silent_s": 15.0, "threads": [{"main": True, "frames": [LOOP]}]}
PLANTED = {"k": "exception", "t": 3.0, "where": "task", "type": "ValueError", "message": "planted"}
BYE = {"k": "bye", "t": 9.0}


def silent(file, source, *inside):
    frames = [{"file": file, "line": 7, "function": "train", "source": source, "user": True}]
    frames += [
        {"file": f"/venv/site-packages/{name}", "function": function, "user": False} for name, function in inside
    ]
    return {
        "k": "stacks",
        "t": 9.0,
        "reason": "silence",
        "silent_s": 15.0,
        "threads": [{"main": True, "frames": frames}],
    }


def test_ctrl_c_is_no_failure_of_the_rank_that_the_others_wait_for():
    def rank(number, file, *below):
        source = "dist.all_reduce(gradient)"
        frames = [{"file": file, "line": 7, "function": "work", "source": source, "user": True}]
        frames += [{"file": place, "line": 1, "function": name, "source": "", "user": False} for place, name in below]
        end = {"k": "exception", "t": 4.0 - number, "exit": True, "type": "KeyboardInterrupt", "message": ""}
        return ray_worker(number, {**end, "frames": frames}, {"k": "bye", "t": 5.0})

    facts = roll_call(
        [rank(0, "train.py", ("torch/distributed/c10d_logger.py", "_get_msg_dict")), rank(1, "data.py")], (), 0, ""
    )
    assert [(row["status"], row["signal"]) for row in facts["rows"]] == [("interrupted", "SIGINT")] * 2
    assert facts["odd"]["kind"] == "elsewhere" and facts["odd"]["ranks"] == [1]
    assert facts["odd"]["others"]["call"] == "all_reduce"


@pytest.mark.parametrize(("running", "status"), [(True, "running"), (False, "interrupted")])
def test_a_silent_worker_of_ray_has_not_ended_and_the_others_wait_for_it_in_their_backward(running, status):
    inside = (("torch/_tensor.py", "Tensor.backward"), ("torch/autograd/graph.py", "_engine_run_backward"))
    workers = [
        ray_worker(0, silent("a.py", "loss.backward()", *inside)),
        ray_worker(1, silent("b.py", "time.sleep(1)")),
        ray_worker(2, silent("a.py", "loss.backward()", *inside)),
    ]
    for number, worker in enumerate(workers):
        worker.hello["host"] = "vm"
        worker.hello["argv"].append(f"--node-id={number % 2}123456789")
    facts = roll_call(workers, (), 0, "", running=running)
    assert {row["status"] for row in facts["rows"]} == {status}
    assert [row["host"] for row in facts["rows"]] == ["vm/01234567", "vm/11234567", "vm/01234567"]
    assert odd_rank_sentence(facts["odd"], Sentences("en")) == (
        "rank 1 has not entered backward at a.py:7, where ranks 0, 2 wait; rank 1 is at b.py:7"
    )


def test_the_program_may_run_in_another_thread_than_the_main_one():
    """Ray Train runs the training in a thread; the main thread of its workers serves Ray."""
    main = {"name": "main", "main": True, "frames": IDLE["threads"][0]["frames"]}

    def in_thread(event):
        return {**event, "threads": [main, {**event["threads"][0], "main": False, "name": "TrainingThread"}]}

    inside = (("torch/_tensor.py", "Tensor.backward"), ("torch/autograd/graph.py", "_engine_run_backward"))
    workers = [
        ray_worker(0, in_thread(silent("a.py", "loss.backward()", *inside))),
        ray_worker(1, in_thread(silent("b.py", "time.sleep(1)"))),
    ]
    odd = roll_call(workers, (), 0, "", running=True)["odd"]
    assert (odd["kind"], odd["ranks"], odd["where"]["file"]) == ("elsewhere", [1], "b.py")


@pytest.mark.parametrize(("steps", "kind"), [(7, "ended"), (0, None)])
def test_a_worker_without_a_thread_of_the_program_has_left_its_loop_if_it_had_begun(steps, kind):
    inside = (("torch/_tensor.py", "Tensor.backward"), ("torch/autograd/graph.py", "_engine_run_backward"))
    begun = [{"k": "step", "t": 2.5, "framework": "torch", "step": steps}] if steps else []
    workers = [ray_worker(0, silent("a.py", "loss.backward()", *inside)), ray_worker(1, *begun, IDLE)]
    odd = roll_call(workers, (), 0, "", running=True).get("odd", {})
    assert odd.get("kind") == kind and odd.get("ranks", [1]) == [1]
    if kind:
        said = "rank 1 ended after step 7; rank 0 still waits in backward at a.py:7"
        assert odd_rank_sentence(odd, Sentences("en")) == said


@pytest.mark.parametrize(
    ("end", "message", "of_worker", "of_others", "said"),
    [
        ((BYE,), "", (), (), ""),
        ((BYE,), "", (silent("b.py", "time.sleep(1)"),), (IDLE,), ""),
        ((), "planted", (PLANTED,), (), "worker 1 failed first, at ? after step 7: ValueError: planted"),
        ((), "the actor died: pid: 101", (), (), "worker 1 was killed first, after step 7"),
        ((), "", (silent("b.py", "time.sleep(1)"),), (IDLE,),
         "worker 1 was still at b.py:7 after step 7; workers 0, 2 were idle"),
        ((), "", (silent("b.py", "time.sleep(1)"),), (), ""),
        ((), "", (silent("b.py", "loss.backward()", ("torch/autograd/graph.py", "_engine_run_backward")),), (IDLE,),
         "worker 1 was still at b.py:7 after step 7; workers 0, 2 were idle"),
    ],
    ids=["ended", "silent, and ended", "failed", "killed", "hangs", "others unknown", "hangs in backward"],
)  # fmt: skip
def test_workers_of_ray_without_a_process_group_have_a_row_each(end, message, of_worker, of_others, said):
    def worker(number, *events):
        hello, _, *rest = ray_worker(number, {"k": "step", "t": 2.5, "framework": "torch", "step": 7}, *events).events
        return ProcessEvents(f"{number}.jsonl", (hello, *rest))

    raised = () if end else ({"k": "exception", "t": 4.0, "exit": True, "type": "RayError", "message": message},)
    driver = ProcessEvents("d.jsonl", ({"k": "hello", "t": 0.0, "pid": 1, "argv": ["python", "a.py"]}, *raised, *end))
    idle = ProcessEvents("i.jsonl", ray_worker(9).events[:1])
    workers = [worker(0, *of_others), worker(1, *of_worker), worker(2, *of_others)]
    facts = roll_call([driver, idle, *workers], (), 0, "")
    assert (facts["of"], [row["rank"] for row in facts["rows"]]) == ("workers", [0, 1, 2]) and "world" not in facts
    if end and of_worker:
        stopped = roll_call([driver, idle, *workers], (), 0, "", stopped=True)
        assert stopped["odd"]["kind"] == "worker_busy", "Ray turns SIGTERM into an orderly end"
    assert [row["host"] for row in facts["rows"]] == ["pid 100", "pid 101", "pid 102"]
    assert odd_rank_sentence(facts.get("odd", {}), Sentences("en")) == said
    assert not end or {row["status"] for row in facts["rows"]} == {"finished"}
    assert [bool(row.get("stack")) for row in facts["rows"]] == [
        False,
        "still" in said or (said == "" and not end),
        False,
    ]
