"""What is not the same on all ranks, and what only those have that failed."""

from __future__ import annotations

import pytest

from labbook.record.run_from_journal.odd_rank import name_crossed, name_odd
from labbook.record.run_from_journal.rank_rows import TaskFacts
from labbook.record.run_from_journal.roll_call import roll_call
from labbook.report.entry.ranks_section import odd_rank_sentence
from labbook.store.journal import ProcessEvents
from labbook.store.text.sentences import Sentences


def rank_process(rank, folder, field="", **more):
    """Events of one of three ranks; of rank 2, `field` is another one."""

    def of(name, usual, other):
        return other if field == name and rank == 2 else usual

    env = {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank)}
    code = of("mixing", ["mixing", "/a/mixing.py", "11aa"], ["mixing", "/b/mixing.py", "22bb"])
    return ProcessEvents(f"{rank}.jsonl", (
        {"k": "hello", "role": "python", "env": env, "version": of("Python", "3.11.7", "3.10.4"),
         "sys_path": ["/usr/lib/python3.11", of("sys.path", "/a", "/b")]},
        {"k": "framework", "name": "torch", "version": of("torch", "2.13.0", "2.12.0")},
        {"k": "state", "device": [of("device", f"cuda:{rank}", "cpu")]},
        {"k": "sources", "files": ["/a/mixing.py"], "versions": {"numpy": of("numpy", "2.4", "1.26")},
         "allowed": {**env, "CUDA_VISIBLE_DEVICES": str(rank), **of("NCCL_ALGO", {}, {"NCCL_ALGO": "Tree"})},
         "modules": [["__main__", f"/a/{rank}/train.py", "00ff"], code]},
        *({"k": "batch", "phase": "train", "samples": of("batch size", 16, 320)} for _ in range(3)),
        {"k": "batch", "phase": "train", "samples": 5 + rank},
        *more.get("events", ()),
        {"k": "bye"},
    ), folder=folder)  # fmt: skip


@pytest.mark.parametrize("field", ["Python", "torch", "device", "sys.path", "numpy", "NCCL_ALGO", "mixing", "commit",
                                   "batch size"])  # fmt: skip
def test_what_differs_between_ranks_is_named(field, tmp_path):
    processes = [rank_process(rank, tmp_path, field) for rank in range(3)]
    tasks = [
        TaskFacts(rank, "n1", "", 0, "", 9.0, None, False, (str(tmp_path / f"{rank}.jsonl"),), commit)
        for rank, commit in enumerate(["a" * 40, "a" * 40, ("b" if field == "commit" else "a") * 40])
    ]

    [difference] = roll_call(processes, tasks, 3, "")["differences"]

    assert difference["what"] == field
    assert sorted(difference["values"].values()) == [[0, 1], [2]]


@pytest.mark.parametrize(
    ("field", "nodes", "said"),
    [
        ("mixing", "aab", "only there mixing is /b/mixing.py (22bb)"),
        ("", "abb", "these are all ranks of the node b"),
        ("", "aab", ""),  # a node with one rank says nothing that the rank does not
        ("", "bbb", ""),
    ],
)
def test_ranks_that_failed_alone_are_described_by_what_only_they_have(field, nodes, said, tmp_path):
    odd = (1, 2) if nodes == "abb" else (2,)
    error = {"k": "exception", "type": "TypeError", "message": "mix() got alpha", "exit": True, "t": 5.0, "frames": []}
    processes = [rank_process(rank, tmp_path, field, events=(error,) if rank in odd else ()) for rank in range(3)]
    tasks = [
        TaskFacts(rank, nodes[rank], "", int(rank in odd), "", 9.0, 5.0 if rank in odd else None, False,
                  (str(tmp_path / f"{rank}.jsonl"),))
        for rank in range(3)
    ]  # fmt: skip
    sentence = odd_rank_sentence(roll_call(processes, tasks, 3, "")["odd"], Sentences("en"))
    assert sentence.endswith(f"; {said}") if said else ";" not in sentence


TIMED_OUT = "RuntimeError: Timed out waiting 60000ms for recv operation to complete"
CALLS = {19: "broadcast", 26: "all_reduce", 41: "backward"}


@pytest.mark.parametrize(
    ("lines", "calls", "kind", "ranks"),
    [
        # Rank 2 made its all_reduce where the others broadcast; two of them are in the next step.
        ([19, 41, 26, 41], ["broadcast", "broadcast", "all_reduce", "broadcast"], "crossed", [2]),
        ([19, 41, 26, 41], ["broadcast"] * 4, "broke", []),
        ([19, 19, 26, 26], ["broadcast", "broadcast", "all_reduce", "all_reduce"], "broke", []),  # two against two
        ([19, 41, 26, 41], ["all_reduce", "broadcast", "broadcast", "broadcast"], "broke", []),  # it is elsewhere now
        ([19, 19, 26, 19], ["broadcast", "broadcast", "all_reduce", "broadcast"], "apart", [2]),
        ([19, 41, 26, 41], ["broadcast", "broadcast", "all_reduce"], "broke", []),  # that of a rank is unknown
    ],
)
def test_the_rank_with_another_order_of_collective_calls_is_named(lines, calls, kind, ranks):
    rows = [
        {"rank": rank, "status": "failed", "failed_at": 9.0, "error": TIMED_OUT, "call": CALLS[line],
         "where": {"file": "train.py", "line": line}}
        for rank, line in enumerate(lines)
    ]  # fmt: skip
    orders = {rank: {6: "barrier", 7: name} for rank, name in enumerate(calls)}
    odd = name_crossed(name_odd(rows), rows, orders)
    assert (odd["kind"], odd["ranks"]) == (kind, ranks)
    said = "all_reduce at train.py:26 as call 7, where ranks 0-1, 3 called broadcast"
    assert odd_rank_sentence(odd, Sentences("en")).endswith(said) is (kind == "crossed")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("label 7 is out of range\nof 5 classes", "RuntimeError: label 7 is out of range"),
        ("", "RuntimeError"),
        (
            "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 'mask'\n",
            "KeyError: 'mask'",
        ),
    ],
)
def test_the_error_of_a_rank_is_its_own(message, error, tmp_path):
    event = {"k": "exception", "type": "RuntimeError", "message": message, "exit": True, "t": 5.0, "frames": []}
    processes = [rank_process(rank, tmp_path, events=(event,) if rank == 1 else ()) for rank in range(3)]
    assert roll_call(processes, (), 3, "")["rows"][1]["error"] == error


@pytest.mark.parametrize("ends_well", [True, False])
def test_the_failure_before_a_restart_that_went_well_is_named(ends_well, tmp_path):
    error = {"k": "exception", "type": "ValueError", "message": "bad batch", "exit": True, "t": 5.0, "frames": []}

    def process(rank, attempt):
        events = (error,) if rank == 1 and (attempt == 0 or not ends_well) else ()
        found = rank_process(rank, tmp_path / str(attempt), events=events)
        found.hello["env"]["TORCHELASTIC_RESTART_COUNT"] = str(attempt)
        return found

    facts = roll_call([process(rank, attempt) for attempt in (0, 1) for rank in range(3)], (), 0, "")
    assert ("attempts" in facts) is ends_well
    if ends_well:
        assert {row["status"] for row in facts["rows"]} == {"finished"} and "odd" not in facts
        [earlier] = facts["attempts"]
        assert (earlier["kind"], earlier["ranks"], earlier["error"]) == ("failed", [1], "ValueError: bad batch")
