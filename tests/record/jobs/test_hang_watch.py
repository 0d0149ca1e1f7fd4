"""The line on the terminal while a job hangs."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace

import pytest

from labbook.record.jobs.hang_watch import HangWatch
from labbook.store.journal import Journal
from labbook.store.paths import JournalPaths
from labbook.store.text.sentences import Sentences

REDUCE = "/env/site-packages/torch/distributed/distributed_c10d.py"


def write_rank(folder, rank, frames):
    stacks = {"k": "stacks", "reason": "silence", "silent_s": 12.0, "threads": [{"main": True, "frames": frames}]}
    events = [{"k": "hello", "env": {"RANK": str(rank), "WORLD_SIZE": "3"}}, {"k": "step", "step": 7, "n": 1}, stacks]
    lines = [json.dumps({"v": 1, "n": n, "t": 100.0 + n, **event}) for n, event in enumerate(events)]
    path = folder / f"host-{rank}-1.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("file", "function", "call"),
    [(REDUCE, "all_reduce", "all_reduce"), ("/env/site-packages/torch/_tensor.py", "Tensor.backward", "backward")],
)
def test_a_hang_is_printed_once_and_nothing_while_a_rank_makes_progress(tmp_path, file, function, call):
    journal = Journal(JournalPaths(tmp_path))
    journal.paths.events.mkdir()
    own = {"file": "/job/train.py", "line": 64, "function": "average", "user": True}
    inside = {"file": file, "line": 9, "function": function, "user": False}
    engine = {"file": "/env/site-packages/torch/autograd/graph.py", "function": "_engine_run_backward", "user": False}
    loop = {"file": "/job/train.py", "line": 70, "function": "wait_for_flag", "user": True}
    waiting = [own, inside] if call == "all_reduce" else [own, inside, engine]
    stacks = (waiting, [loop], waiting)
    files = [write_rank(journal.paths.events, rank, frames) for rank, frames in enumerate(stacks)]
    printed: list[str] = []
    watch = HangWatch(journal, None, 0, Sentences("en"), printed.append)

    assert watch.look() == "" and not printed
    for path in files:
        os.utime(path, (time.time() - 60, time.time() - 60))
    sentence = watch.look()
    watch.look()

    assert sentence == (
        f"rank 1 has not entered {call} at train.py:64, where ranks 0, 2 wait; rank 1 is at train.py:70"
    )
    assert printed == [f"no progress for 12 s: {sentence}"]


def test_the_next_recorder_of_a_job_does_not_print_the_hang_again(tmp_path):
    journal = Journal(JournalPaths(tmp_path / "task"))
    journal.paths.events.mkdir(parents=True)
    own = {"file": "/job/train.py", "line": 64, "function": "average", "user": True}
    waiting = [own, {"file": REDUCE, "line": 9, "function": "all_reduce", "user": False}]
    for rank, frames in enumerate((waiting, [{**own, "line": 70}])):
        os.utime(write_rank(journal.paths.events, rank, frames), (time.time() - 60, time.time() - 60))
    place = SimpleNamespace(root=tmp_path, members=lambda: [SimpleNamespace(journal=journal)])
    printed: list[str] = []

    sentences = [HangWatch(journal, place, rank, Sentences("en"), printed.append).look() for rank in (0, 1)]

    assert "train.py:70" in sentences[0] and sentences[0] == sentences[1]
    assert len(printed) == 1
