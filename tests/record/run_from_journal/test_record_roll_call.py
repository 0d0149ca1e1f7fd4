"""The odd rank of a roll-call: named only where something tells it from the others."""

from __future__ import annotations

import pytest

from labbook.record.run_from_journal.roll_call import name_odd
from labbook.report.entry.ranks_section import odd_sentence
from labbook.store.sentences import Sentences

RESET = "RuntimeError: pair.cc:537 Read error: Connection reset by peer"


def row(rank, status="failed", at=100.0, line=64, waiting="", call="all_reduce", **more):
    facts = {"rank": rank, "status": status, "failed_at": at, "steps": 7, "call": call, "waiting": waiting, **more}
    facts["where"] = {"file": "train.py", "line": line, "function": "average"} if line else {}
    return {name: value for name, value in facts.items() if value not in ("", None, {})}


def aborted(rank, at, line=64):
    return row(rank, at=at, line=line, waiting="collective" if line else "", signal="SIGABRT")


def interrupted(rank, line, waiting="collective"):
    return row(rank, "interrupted", at=130.0, line=line, waiting=waiting, signal="SIGTERM")


LABEL = "ValueError: label 7 is out of range"
ROWS = {
    "all aborted at one place": ([aborted(rank, 100.0 + rank / 100) for rank in range(3)], "broke", []),
    "one aborted, the others lost it": (
        [aborted(0, 100.0), row(1, at=100.02, error=RESET), row(2, at=100.03, error=RESET)], "broke", [],
    ),
    "one aborted, another was elsewhere": (
        [aborted(0, 100.0), row(1, at=100.02, line=62, error=RESET), row(2, at=100.03, error=RESET)], "apart", [1],
    ),
    "two ranks, two places": ([aborted(0, 100.0), row(1, at=100.02, line=62, error=RESET)], "broke", []),
    "aborted without a place": ([aborted(0, 100.0, line=0), row(1, error=RESET), row(2, error=RESET)], "broke", []),
    "aborted in its own code": (
        [row(0, error=RESET), row(1, at=101.0, line=20, call="", signal="SIGABRT"), row(2, error=RESET)], "failed", [1],
    ),
    "an exception of its own, though later": (
        [aborted(0, 100.0), row(1, at=100.5, line=9, error=LABEL), row(2, error=RESET)], "failed", [1],
    ),
    "a crash": ([row(0, error=RESET), row(1, error=RESET), row(2, at=101.0, signal="SIGSEGV")], "failed", [2]),
    "all with one error": ([row(rank, at=100.0 + rank, error=LABEL) for rank in range(3)], "alike", [0, 1, 2]),
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
    "interrupted in one collective": ([interrupted(rank, 64) for rank in range(3)], None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_the_odd_rank_is_named_only_with_evidence(name):
    rows, kind, ranks = ROWS[name]

    odd = name_odd(rows)

    assert (odd.get("kind"), odd.get("ranks")) == (kind, ranks)
    for language in ("en", "zh"):
        sentence = odd_sentence(odd, Sentences(language))
        assert bool(sentence) == bool(kind) and "{" not in sentence
        assert ranks or "first," not in sentence
