"""Answers of `labbook search` to questions in English and Chinese, in a notebook of 150 mixed runs.

`python -m benchmarks.search` prints the share of right answers of each lot of `questions.txt`;
`python -m benchmarks.search wrong` also lists the questions whose first answer is wrong.

An answer is right if it is the page of an expected symptom, or a run with an expected symptom and a confirmed fix. A
question that nothing answers is right without any answer.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.search.mixed_notebook import RUNS, write_mixed_notebook

if TYPE_CHECKING:
    from labbook.index.hit import Hit
    from labbook.store.notebook import Notebook

NOTHING = "nothing"
_CHINESE = re.compile("[\u4e00-\u9fff]")


class Question(NamedTuple):
    """A line of `questions.txt`."""

    lot: str
    words: str
    expected: frozenset[str]


def questions() -> list[Question]:
    """Returns the questions, lot by lot."""
    found, lot = [], ""
    for line in Path(__file__).with_name("questions.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            lot = line.strip("[]")
        elif not line.startswith("#"):
            words, _, ids = line.partition(" => ")
            found.append(Question(lot, words, frozenset(ids.split(", "))))
    return found


def answers(book: Notebook, words: str) -> list[Hit]:
    """Returns what `labbook search` answers, best first."""
    from labbook.errors import NothingFoundError
    from labbook.findings.search_question import interpret_search
    from labbook.index.query import search

    query, subject = interpret_search(book, words)
    try:
        return list(search(book, query, subject=subject).hits)
    except NothingFoundError:
        return []


def place_of_answer(hits: list[Hit], expected: frozenset[str]) -> int:
    """Returns the place of the first right answer, from 1; 0 without one."""
    if not hits:
        return int(NOTHING in expected)
    for place, hit in enumerate(hits, 1):
        if hit.symptom in expected and (hit.kind in ("catalogue", "symptom") or hit.fix or hit.by):
            return place
    return 0


def main() -> None:
    """Prints the share of right answers, first and among three, of each lot, and of what nothing answers."""
    from labbook.store.notebook_finder import find_notebook

    asked = questions()
    with tempfile.TemporaryDirectory() as top:
        root = Path(top)
        write_mixed_notebook(root, frozenset().union(*(one.expected for one in asked)))
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        book = find_notebook(root, chosen=root, environ={})
        found = [(one, answers(book, one.words)) for one in asked]
    print(f"   {len(asked)} questions in a notebook of {RUNS} runs")
    rows = [(one, place_of_answer(hits, one.expected)) for one, hits in found]
    for lot in dict.fromkeys(one.lot for one in asked):
        _print_share(lot, [place for one, place in rows if one.lot == lot and one.expected != {NOTHING}])
    for language, wanted in (("all English", False), ("all Chinese", True)):
        chosen = [row for row in rows if bool(_CHINESE.search(row[0].words)) == wanted]
        _print_share(language, [place for one, place in chosen if one.expected != {NOTHING}])
    _print_share("about something else", [place for one, place in rows if one.expected == {NOTHING}])
    if sys.argv[1:] == ["wrong"]:
        for (one, place), (_, hits) in zip(rows, found, strict=True):
            if place != 1:
                shown = "; ".join(f"{hit.kind}:{hit.symptom}{'+fix' if hit.fix or hit.by else ''}" for hit in hits[:4])
                print(f"   {place}  {one.words}  =>  {', '.join(sorted(one.expected))}\n        {shown}")


def _print_share(name: str, places: list[int]) -> None:
    first, three = sum(place == 1 for place in places), sum(0 < place <= 3 for place in places)
    count = max(len(places), 1)
    print(f"   {name:<22} right first {first / count:4.0%}, among three {three / count:4.0%}  ({len(places)})")
