"""Bisects two recorded runs: tries their differences by reruns, and writes the result into the entry of the bad one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labbook.compare.run_settings import captured_facts
from labbook.errors import UsageError
from labbook.fixes.fix_ranking import NO_CODE
from labbook.model.message import Message, message
from labbook.report.period_context import SEARCH_TAG
from labbook.rerun.bisection import Bisection, add_required, bisect, likelihood, make_judge
from labbook.rerun.recorded_code import recorded_code
from labbook.rerun.rerun_run import RerunRequest, read_run, rerun
from labbook.rerun.run_differences import (
    Difference,
    apply_code,
    code_differences,
    command_with,
    required_hunks,
    setting_differences,
    split_lines,
)
from labbook.store.commit.entry_commit import commit_files
from labbook.store.notebook import Notebook
from labbook.store.text.entry_text import change_entry, set_block
from labbook.store.text.escape import code_span
from labbook.store.text.sentences import Sentences

BLOCK = "bisection"


def bisect_runs(
    notebook: Notebook,
    good: Mapping[str, Any],
    bad: Mapping[str, Any],
    *,
    most: int,
    max_steps: int | None,
    print_line: Callable[[str], None],
    notify: Callable[[Message], None],
) -> Bisection:
    """Searches the differences of two runs for what changed the result.

    Args:
        good: The `run.json` of a run with the wanted result.
        bad: That of a run without.
        most: Most runs.
        max_steps: Stop each run after this many optimizer steps; the two runs are then repeated as short ones first.
        print_line: Prints the lines of the recorder.
        notify: Called with what is tried and found.

    Raises:
        UsageError: The runs have the same result, or no difference that can be made alone.
    """
    candidates = [*setting_differences(good, bad), *_code(notebook, good, bad)]
    if not candidates:
        raise UsageError("errors.rerun.no_difference", good=good.get("id"), bad=bad.get("id"))
    trials = _Trials(notebook, good, bad, max_steps, print_line, notify)
    notify(message("rerun.bisecting", count=len(candidates)))
    found = trials.search(candidates, most)
    guilty = found.guilty
    if found.proven and len(guilty) == 1 and trials.runs < most:
        lines = _lines_of(notebook, good, guilty[0])
        if lines:
            # Lines that are adjacent are one hunk, whether or not they belong together.
            others = [one for one in candidates if one not in guilty]
            closer = trials.search(lines, most, [*others, *lines])
            guilty = closer.guilty if closer.proven else guilty
    return Bisection(tuple(trials.with_required(guilty)), found.proven, trials.runs, found.candidates)


class _Trials:
    """Repeats the good run with differences of the bad one, each combination once.

    Attributes:
        runs: Number of runs so far.
    """

    def __init__(
        self,
        notebook: Notebook,
        good: Mapping[str, Any],
        bad: Mapping[str, Any],
        max_steps: int | None,
        print_line: Callable[[str], None],
        notify: Callable[[Message], None],
    ) -> None:
        self._notebook, self._good, self._bad = notebook, good, bad
        self._requests: dict[str, object] = {"max_steps": max_steps} if max_steps else {}
        self._print_line, self._notify = print_line, notify
        self._required: dict[Difference, set[Difference]] = {}
        self._tried: dict[frozenset[Difference], bool | None] = {}
        self.runs = 0
        judged = (good, bad) if not max_steps else (self._run(good), self._run(bad))
        self._is_bad = make_judge(*judged)

    def search(
        self, candidates: Sequence[Difference], most: int, hunks: Sequence[Difference] | None = None
    ) -> Bisection:
        """Searches differences, the likeliest first, until there were `most` runs.

        Args:
            hunks: All differences among which one can require another; by default the candidates.
        """
        self._required |= required_hunks(candidates if hunks is None else hunks)
        ordered = sorted(candidates, key=lambda one: -likelihood(one, self._bad))
        return bisect(ordered, self._attempt, most - self.runs, [likelihood(one, self._bad) for one in ordered])

    def with_required(self, chosen: Sequence[Difference]) -> list[Difference]:
        """Returns differences with those that they cannot be made without."""
        return add_required(chosen, self._required)

    def _attempt(self, chosen: Sequence[Difference]) -> bool | None:
        """Returns whether the good run with some differences is bad, `None` if it is neither."""
        chosen = self.with_required(chosen)
        if frozenset(chosen) not in self._tried:
            result = self._tried[frozenset(chosen)] = self._is_bad(self._run(self._good, chosen))
            key = {None: "rerun.tried_neither", True: "rerun.tried_bad", False: "rerun.tried_good"}[result]
            self._notify(message(key, names=[one.name for one in chosen]))
        return self._tried[frozenset(chosen)]

    def _run(self, base: Mapping[str, Any], chosen: Sequence[Difference] = ()) -> dict[str, Any]:
        """Repeats a run with differences of the bad one, and returns its `run.json`."""
        self.runs += 1
        words = base["argv"]
        if base is self._good:
            words = command_with(self._good.get("argv") or (), self._bad.get("argv") or (), chosen)
        request = RerunRequest(
            requests=self._requests,
            change=lambda code: apply_code(code.top, chosen),
            variables={one.name: one.now for one in chosen if one.kind == "environment" and one.now},
            tag=SEARCH_TAG,
            quiet=True,
        )
        run = {**base, "argv": words, "tags": ()}
        done = rerun(self._notebook, run, request, print_line=self._print_line, notify=lambda note: None)
        done.check_not_stopped()
        return read_run(self._notebook, done.run)


def _lines_of(notebook: Notebook, good: Mapping[str, Any], hunk: Difference) -> list[Difference]:
    """Returns the lines of a guilty hunk that can be tried alone."""
    if hunk.kind != "code" or not hunk.patch[1]:
        return []
    with recorded_code(notebook, good) as code:
        try:
            text = (code.top / hunk.name.rpartition(":")[0]).read_text("utf-8", "surrogateescape")
        except OSError:
            return []
    return split_lines(hunk, text)


def _code(notebook: Notebook, good: Mapping[str, Any], bad: Mapping[str, Any]) -> list[Difference]:
    with recorded_code(notebook, good) as one, recorded_code(notebook, bad) as other:
        found = code_differences(one.top, other.top)
    # New files that the program wrote came with the patch: they are results, not code.
    results = {str(path) for run in (good, bad) for path in captured_facts(run, "code").get("results") or ()}
    names = {each: each.name.rpartition(":")[0] or each.name for each in found}
    return [
        each
        for each, name in names.items()
        if results.isdisjoint((name, each.name)) and name.rpartition("/")[2] not in NO_CODE
    ]


def bisection_lines(found: Bisection) -> list[Message]:
    """Returns the result in sentences, then the guilty differences."""
    values = {"count": len(found.guilty), "runs": found.runs, "candidates": found.candidates}
    head = message("rerun.guilty", **values) if found.proven else message("rerun.suspected", **values)
    return [head, *(_change(one, one.before, one.now) for one in found.guilty)]


def _change(one: Difference, before: str, now: str, quote: Callable[[str], str] = str) -> Message:
    """Returns a difference as a sentence; the words of an option contain its name."""
    place = f"{quote(one.name)}: " if one.kind != "argument" else ""
    if before and now:
        return message("rerun.guilty_changed", place=place, before=quote(before), now=quote(now))
    if before:
        return message("rerun.guilty_removed", place=place, what=quote(before))
    return message("rerun.guilty_added", place=place, what=quote(now) if now else quote(one.name))


def fix_command(good: str, bad: str, guilty: Sequence[Difference], say: Sentences) -> str:
    """Returns the command that records the fix: the good run if it is the later one, else what has to be undone."""
    if good > bad:
        return f"labbook fix {bad} --by {good}"
    undone = [
        say(_change(one, one.now, one.before)).strip()
        if "\n" not in one.now + one.before
        else f"{one.name}: as in {good}"
        for one in guilty
    ]
    return f"labbook fix {bad} -m {shlex.quote('; '.join(undone))}"


def write_bisection(notebook: Notebook, good: str, bad: str, found: Bisection, language: str) -> None:
    """Writes the result into the entry of the bad run and commits it.

    Raises:
        NotebookError: The entry cannot be written.
    """
    say = Sentences(language, notebook.paths.templates)
    rows = [f"- {say(_change(one, one.before, one.now, code_span)).strip()}" for one in found.guilty]
    head = say(bisection_lines(found)[0])
    text = "\n".join(
        [
            f"## {say.line('rerun.bisection_heading')}",
            "",
            say.line("rerun.compared_with", run=good),
            "",
            head,
            "",
            *rows,
        ]
    )
    path = change_entry(
        notebook.paths, bad, lambda page: set_block(page, BLOCK, f"\n{text}\n", ("reproduction", "summary", "title"))
    )
    commit_files(notebook, [path], f"Bisect {bad}: {', '.join(one.name for one in found.guilty)[:100]}\n\nRun: {bad}\n")
