"""A rank that leaves the program by `sys.exit` is named with the line of the call."""

from __future__ import annotations

import pytest

from labbook.record.run_from_journal.roll_call import roll_call
from labbook.report.entry.ranks_section import odd_rank_sentence
from labbook.store.journal import ProcessEvents
from labbook.store.text.sentences import Sentences

RESET = "RuntimeError: pair.cc:537 Read error: Connection reset by peer"
EXITS = {
    "with a message": (
        {"code": 1, "message": "9 rows"},
        "failed",
        "failed first, at train.py:7 after step 8: SystemExit: 9 rows",
    ),
    "with a status": ({"code": 3}, "failed", "failed first, at train.py:7 after step 8: SystemExit: 3"),
    "without an error": ({"code": 0}, "finished", "ended after step 8 with sys.exit at train.py:7; rank 0 then broke"),
    "caught, and trained on": ({"code": 1, "step": 2}, "finished", "ended after step 8; rank 0 then broke"),
}


@pytest.mark.parametrize("name", EXITS)
def test_a_rank_that_calls_exit_is_named_with_its_line(name):
    call, status, said = EXITS[name]
    frames = [{"file": "train.py", "line": 7, "function": "check", "source": "sys.exit(...)", "user": True}]
    reset = {"k": "exception", "type": "RuntimeError", "message": RESET, "exit": True, "t": 11.0,
             "frames": [{**frames[0], "line": 9, "source": "backward()"}, {"file": "/torch/autograd/x"}]}  # fmt: skip
    steps = [{"k": "step", "framework": "torch", "step": n, "n": 1} for n in range(1, 9)]
    last = ({"k": "bye", "exit": {"t": 10.0, "step": 8, "frames": frames, **call}, "t": 12.0}, reset)
    ranks = [
        ProcessEvents(f"{rank}.jsonl", ({"k": "hello", "env": {"RANK": str(rank), "WORLD_SIZE": "2"}}, *steps, end))
        for rank, end in ((1, last[0]), (0, last[1]))
    ]
    facts = roll_call(ranks, (), 2, "")
    assert facts["rows"][1]["status"] == status
    assert odd_rank_sentence(facts["odd"], Sentences("en")).startswith(f"rank 1 {said}")
    assert "sys.exit" not in said or "train.py:7" in odd_rank_sentence(facts["odd"], Sentences("zh"))
