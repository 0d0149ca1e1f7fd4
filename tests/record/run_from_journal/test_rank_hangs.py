"""A hang that was named while it lasted is in the entry, whatever the ranks do after the signal that stopped them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labbook.record.run_from_journal.rank_hangs import add_hang_at_stop, find_hang
from labbook.record.run_from_journal.roll_call import roll_call
from labbook.report.entry.ranks_section import odd_rank_sentence
from labbook.store.journal import ProcessEvents
from labbook.store.text.sentences import Sentences

STOPPED = 200.0
REDUCE = {"file": "/env/site-packages/torch/distributed/distributed_c10d.py", "function": "all_reduce", "user": False}
AT_CALL = {"file": "/job/train.py", "line": 64, "function": "average", "user": True}
ELSEWHERE = {"file": "/job/train.py", "line": 70, "function": "wait_for_flag", "user": True}
CLOSED = {"k": "exception", "exit": True, "type": "RuntimeError", "message": "Connection closed by peer",
          "frames": [AT_CALL]}  # fmt: skip
BYE, MOVED = {"k": "bye"}, {"k": "stacks", "reason": "moved", "threads": []}


def rank(number, after, launcher, silent_at=112.0):
    frames = [ELSEWHERE] if number == 1 else [AT_CALL, REDUCE]
    argv = ["/env/ray/_private/workers/default_worker.py", "--node-id=9f"] if launcher == "ray" else ["train.py"]
    hello = {"k": "hello", "t": 90.0, "pid": number + 40, "argv": argv, "env": {"RANK": str(number), "WORLD_SIZE": "3"}}
    stacks = {"k": "stacks", "reason": "silence", "silent_s": 12.0, "threads": [{"main": True, "frames": frames}]}
    events = [hello, {"k": "step", "t": 100.0, "step": 7, "n": 1}, {"t": silent_at, **stacks}]
    events += [{"t": STOPPED + 0.1 + n, **event} for n, event in enumerate(after)]
    return ProcessEvents(name=f"host-{number}-1.jsonl", events=tuple(events))


RAY = [rank(n, (), "ray") for n in range(3)]


def sentence(facts):
    return odd_rank_sentence(facts.get("odd") or {}, Sentences("en"))


@pytest.mark.parametrize("launcher", ["torchrun", "ray"])
@pytest.mark.parametrize("waiting", [(), (BYE,), (MOVED, BYE), (CLOSED,), (MOVED, CLOSED, BYE)], ids=len)
@pytest.mark.parametrize("odd", [(), (BYE,), (MOVED, BYE), (CLOSED, BYE)], ids=len)
def test_the_entry_has_the_hang_of_the_terminal(launcher, waiting, odd):
    named = sentence(find_hang([rank(n, (), launcher) for n in range(3)]))
    assert "rank 1 has not entered all_reduce at train.py:64" in named
    processes = [rank(n, odd if n == 1 else waiting, launcher) for n in range(3)]
    facts = add_hang_at_stop(roll_call(processes, (), 3, "", stopped=True), processes, STOPPED)
    assert sentence(facts) == named
    assert facts["hung_s"] == 100.0
    assert [row["where"]["line"] for row in facts["rows"]] == [64, 70, 64]
    assert {row["status"] for row in facts["rows"]} <= {"interrupted", "failed"}


def test_a_hang_that_was_over_before_the_signal_is_not_named():
    step = {"k": "step", "t": 195.0, "step": 8, "n": 1}
    processes = [rank(n, (MOVED, BYE), "torchrun") for n in range(3)]
    processes[0] = replace(processes[0], events=(*processes[0].events[:3], step, *processes[0].events[3:]))
    ranks = roll_call(processes, (), 3, "", stopped=True)
    assert add_hang_at_stop(ranks, processes, STOPPED) == ranks


def test_a_rank_that_did_not_break_with_the_others_is_named():
    gave_up = {**CLOSED, "t": 130.0, "message": "Timed out waiting 15000ms for recv operation to complete"}
    at_step = {"k": "step", "t": 100.0, "step": 7, "n": 1}
    last = (at_step, gave_up), (at_step,), (at_step, gave_up)
    workers = [replace(one, events=(one.events[0], *end)) for one, end in zip(RAY, last, strict=True)]
    driver = ProcessEvents("d.jsonl", ({"k": "hello", "argv": ["train.py"]}, {**CLOSED, "t": 131.0}))
    facts = roll_call([driver, *workers], (), 3, "")
    assert "ranks 0, 2 broke within" in sentence(facts) and "rank 1 did not break" in sentence(facts)
