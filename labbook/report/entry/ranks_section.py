"""The section *Ranks*: the roll-call of a run with several ranks, and the sentence on the odd one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labbook.model.run import Run
from labbook.report.ending_exception import shorten_path
from labbook.report.entry.section_limits import Limits, shorten_middle
from labbook.report.numbers import duration
from labbook.store.text.sentences import Sentences

_MOST_NAMED = 8
_MOST_STACKS = 4
_MOST_OF_ERROR = 160
"""Characters of an error in the sentence; the table and the exception have more."""

_SENTENCES = {
    "aborted": "record.ranks.aborted",
    "alike": "record.ranks.alike",
    "apart": "record.ranks.apart",
    "bad_loss": "record.ranks.bad_loss",
    "behind": "record.ranks.behind",
    "broke": "record.ranks.broke",
    "crossed": "record.ranks.crossed",
    "differs": "record.ranks.differs",
    "elsewhere": "record.ranks.elsewhere",
    "ended": "record.ranks.ended",
    "failed": "record.ranks.failed",
    "incomplete": "record.ranks.incomplete",
    "killed": "record.ranks.killed",
    "lost": "record.ranks.lost",
    "missing": "record.ranks.missing",
    "scattered": "record.ranks.scattered",
    "slow": "record.ranks.slow",
    "unconnected": "record.ranks.unconnected",
    "worker_alike": "record.ranks.worker_alike",
    "worker_busy": "record.ranks.worker_busy",
    "worker_failed": "record.ranks.worker_failed",
    "worker_killed": "record.ranks.worker_killed",
}
"""What is odd about a rank -> key of its sentence."""

_WITH_EXIT = {
    "record.ranks.ended": "record.ranks.ended_at",
    "record.ranks.ended_first": "record.ranks.ended_first_at",
}
"""The keys where the line of a call of `sys.exit` is known."""

_WITH_OTHERS = ("aborted", "failed", "alike", "killed", "lost", "missing", "unconnected")
"""What is odd about a rank, for which its sentence does not say where the others were."""

_NOWHERE = {"failed": "record.ranks.failed_nowhere", "alike": "record.ranks.alike_nowhere"}
"""The keys where no line of the program is known."""


def ranks_section(run: Run, limits: Limits, say: Sentences) -> dict[str, Any] | None:
    """Returns the roll-call, or `None` for a run with one rank."""
    facts = run.facts("ranks")
    rows = [row for row in facts.get("rows") or () if isinstance(row, Mapping)]
    if not rows:
        return None
    odd = facts.get("odd") or {}
    first = [row for row in rows if row.get("rank") in odd.get("ranks", ())]
    rest = [row for row in rows if row not in first]
    shown = sorted([*first, *rest][: limits.rows], key=lambda row: int(row.get("rank", 0)))
    unlisted = int(facts.get("world") or 0) - len(rows) - len(facts.get("missing") or ())
    listed = [_row(row, run, limits, is_odd=row in first) for row in shown]
    return {
        "of_workers": facts.get("of") == "workers",
        "sentence": odd_rank_sentence(odd, say, run),
        "missing": _numbers(facts.get("missing") or ()) if odd.get("kind") != "missing" else "",
        "attempts": [
            say.line("record.ranks.attempt", number=number, sentence=odd_rank_sentence(earlier, say, run) or "?")
            for number, earlier in enumerate(facts.get("attempts") or (), 1)
        ],
        "joined": facts.get("joined_by_clock") and say.line("record.ranks.joined_by_clock", job=facts.get("job")),
        "differences": [
            say.line("record.ranks.difference", what=one["what"], values="; ".join(
                say.line("record.ranks.value_of", value=value, ranks=_numbers(ranks), count=len(ranks))
                for value, ranks in one["values"].items()
            ))
            for one in facts.get("differences") or ()
        ],
        "rows": listed,
        "has_places": any(row[name] for row in listed for name in ("error", "call", "waiting", "place")),
        "more": len(rows) - len(shown) + max(0, unlisted),
        "stacks": [
            {"rank": row["rank"], "text": "\n".join(shorten_middle(str(line), limits.cell) for line in row["stack"])}
            for row in [*first, *rest]
            if row.get("stack")
        ][:_MOST_STACKS],
    }  # fmt: skip


def _row(row: Mapping[str, Any], run: Run, limits: Limits, *, is_odd: bool) -> dict[str, Any]:
    code = row.get("code")
    how = str(row.get("signal") or (f"exit {code}" if code else ""))
    return {
        "rank": row.get("rank"),
        "odd": is_odd,
        "host": str(row.get("host") or ""),
        "status": row.get("status"),
        "how": how,
        "steps": row.get("steps"),
        "step_time": duration(row["step_s"]) if row.get("step_s") else "",
        "call": str(row.get("call") or ""),
        "waiting": str(row.get("waiting") or ""),
        "place": _place(row.get("where"), run),
        "function": str((row.get("where") or {}).get("function") or ""),
        "error": shorten_middle(str(row.get("error") or ""), limits.cell),
    }


def odd_rank_sentence(odd: Mapping[str, Any], say: Sentences, run: Run | None = None) -> str:
    """Returns the sentence on the odd rank: "rank 3 has not entered all_reduce at train.py:41: it is at data.py:7".

    Args:
        odd: Of `odd_rank.name_odd`.
        run: The run, whose folders paths are shown relative to.

    Returns:
        "" if no rank is odd.
    """
    kind = str(odd.get("kind") or "")
    if not kind:
        return ""
    others = odd.get("others") or {}
    error = str(odd.get("error") or odd.get("signal") or (f"exit {odd['code']}" if odd.get("code") else "?"))
    values = {
        "ranks": _numbers(odd.get("ranks") or ()),
        "count": len(odd.get("ranks") or ()),
        "step": odd.get("steps", 0),
        "own": _place(odd.get("where"), run) or "?",
        "own_call": str(odd.get("call") or "?"),
        "error": shorten_middle(error, _MOST_OF_ERROR),
        "all": _numbers(odd.get("all") or ()),
        "loss": {"nan": "NaN"}.get(str(odd.get("loss")), str(odd.get("loss"))),
        "later": odd.get("later", 0),
        "seconds": odd.get("seconds", 0.0),
        "joined": odd.get("joined", 0),
        "wanted": odd.get("wanted", 0),
        "number": odd.get("number", 0),
        "usual": str(odd.get("usual") or "?"),
        "others": _numbers(others.get("ranks") or ()),
        "others_count": len(others.get("ranks") or ()),
        "call": str(others.get("call") or "?"),
        "place": _place(others.get("where"), run) or "?",
        "ratio": odd.get("ratio", 0.0),
        "own_s": odd.get("step_s", 0.0),
        "usual_s": odd.get("usual_s", 0.0),
    }
    key = "record.ranks.ended_first" if kind == "ended" and odd.get("broke") else _SENTENCES[kind]
    key = _WITH_EXIT.get(key, key) if values["own"] != "?" else key
    key = "record.ranks.killed_unseen" if kind == "killed" and values["error"] == "?" else key
    key = _NOWHERE.get(kind, key) if values["own"] == "?" else key
    sentence = "" if kind == "scattered" else say.line(key, **values)
    if places := odd.get("places") or odd.get("halves"):
        parts = say.line("record.ranks.and_place").join(
            say.line("record.ranks.at_place", **_ranks_at(place, run)) for place in places
        )
        key = "record.ranks.scattered" if kind == "scattered" else "record.ranks.broke_apart"
        sentence = say.line(key, **values, parts=parts)
    elif kind == "broke" and others.get("call") and len(others["ranks"]) > 1:
        sentence = say.line("record.ranks.broke_where", sentence=sentence, **values)
    for key, more in _remarks(odd):
        sentence = say.line(key, **{**values, **more}, sentence=sentence)
    if run is not None and run.status == "finished" and kind in ("failed", "alike", "killed"):
        sentence = say.line("record.ranks.restarted", sentence=sentence)
    return sentence


def _remarks(odd: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the key, and the values of its own, of each sentence that adds something to that on the odd rank."""
    if unseen := odd.get("unseen"):
        yield "record.ranks.unseen", {"ranks": _numbers(unseen), "count": len(unseen)}
    if odd.get("node"):
        yield "record.ranks.of_node", {"node": odd["node"]}
    if calls := odd.get("calls"):
        yield "record.ranks.calls", {"step": calls["step"], "own_calls": calls["own"], "usual_calls": calls["usual"]}
    if odd.get("later"):
        yield "record.ranks.bad_loss_later", {}
    if odd.get("by_data"):
        yield "record.ranks.slow_by_data", {}
    if only := odd.get("only"):
        yield "record.ranks.on_one_node" if only["what"] == "node" else "record.ranks.only_they_have", dict(only)
    if odd.get("others") and odd["kind"] in _WITH_OTHERS:
        yield "record.ranks.with_others", {}


def ranks_line(run: Run, say: Sentences) -> str:
    """Returns the sentence on the odd rank for the terminal; "" for a run with one rank or without an odd one."""
    return odd_rank_sentence(run.facts("ranks").get("odd") or {}, say, run)


def _ranks_at(place: Mapping[str, Any], run: Run | None) -> dict[str, Any]:
    ranks = place.get("ranks") or ()
    where = _place(place.get("where"), run) or "?"
    return {"ranks": _numbers(ranks), "count": len(ranks), "call": str(place.get("call") or "?"), "place": where}


def _place(where: Any, run: Run | None) -> str:  # noqa: ANN401 - JSON data
    if not isinstance(where, Mapping) or not where.get("file"):
        return ""
    file = str(where["file"])
    shown = shorten_path(file, run) if run is not None else file.rpartition("/")[2]
    return f"{shown}:{where.get('line')}"


def _numbers(ranks: Sequence[Any]) -> str:
    """Returns ranks as text: "0-2, 5"; of many, the first."""
    numbers = sorted(int(rank) for rank in ranks)
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    words = [f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts]
    return ", ".join(words[:_MOST_NAMED]) + (", ..." if len(words) > _MOST_NAMED else "")
