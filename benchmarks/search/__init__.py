"""Answers of `labbook search` to 233 questions, half of them Chinese, in a notebook of 150 mixed runs.

`python -m benchmarks.search` prints the share of right answers; `python -m benchmarks.search open` also lists what is
wrong in the half that may be looked at. The other half is held out: nothing was tuned on its questions.

An answer is right if it is the page of an expected symptom, or a run with an expected symptom and a confirmed fix. A
question that nothing answers is right without any answer.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.search.mixed_notebook import RUNS, write_mixed_notebook

if TYPE_CHECKING:
    from labbook.index.hit import Hit
    from labbook.store.notebook import Notebook

NOTHING = "nothing"
_CHINESE = re.compile("[\u4e00-\u9fff]")


def questions() -> list[tuple[str, frozenset[str], bool]]:
    """Returns (question, expected symptoms, whether it is held out) of each line of `questions.txt`."""
    text = Path(__file__).with_name("questions.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if " => " in line and not line.startswith("#")]
    parted = [line.partition(" => ")[::2] for line in lines]
    return [(words, frozenset(ids.split(", ")), bool(number % 2)) for number, (words, ids) in enumerate(parted)]


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
    if NOTHING in expected:
        return 0 if hits else 1
    for place, hit in enumerate(hits, 1):
        if hit.symptom in expected and (hit.kind in ("catalogue", "symptom") or hit.fix or hit.by):
            return place
    return 0


def main() -> None:
    """Prints the share of right answers, first and among three, of each half and language."""
    from labbook.store.notebook_finder import find_notebook

    with tempfile.TemporaryDirectory() as top:
        root = Path(top)
        write_mixed_notebook(root, frozenset().union(*(expected for _, expected, _ in questions())))
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        book = find_notebook(root, chosen=root, environ={})
        rows = []
        for words, expected, held_out in questions():
            hits = answers(book, words)
            rows.append((words, expected, held_out, hits, place_of_answer(hits, expected)))
        fixable = _fixed_symptoms(book)
    print(f"   {len(rows)} questions in a notebook of {RUNS} runs")
    for half, held in (("open", False), ("held out", True)):
        for language, wanted in (("English", False), ("Chinese", True), ("both", None)):
            chosen = [row for row in rows if row[2] == held and wanted in (None, bool(_CHINESE.search(row[0])))]
            _print_share(f"{half}, {language}", [place for *_, place in chosen])
        chosen = [row for row in rows if row[2] == held and row[1] & fixable]
        first = sum(bool(hits) and bool(hits[0].fix or hits[0].by) and place == 1 for *_, hits, place in chosen)
        print(f"   {half}: of {len(chosen)} with a confirmed fix in the notebook, the fix is first for {first}")
    if sys.argv[1:] == ["open"]:
        for words, expected, held_out, hits, place in rows:
            if not held_out and place != 1:
                shown = "; ".join(f"{hit.kind}:{hit.symptom}{'+fix' if hit.fix or hit.by else ''}" for hit in hits[:4])
                print(f"   {place}  {words}  =>  {', '.join(sorted(expected))}\n        {shown}")


def _fixed_symptoms(book: Notebook) -> set[str]:
    from labbook.index.query import list_notes

    entries = list_notes(book, "has:fix").entries
    return {name for entry in entries for name in entry.meta.get("symptoms") or []}


def _print_share(name: str, places: list[int]) -> None:
    first, three = sum(place == 1 for place in places), sum(0 < place <= 3 for place in places)
    count = max(len(places), 1)
    print(f"   {name:<18} right first {first / count:4.0%}, among three {three / count:4.0%}  ({len(places)})")
