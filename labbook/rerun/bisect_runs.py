"""Bisects two recorded runs: tries their differences by reruns, and writes the result into the entry of the bad one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labbook.compare.run_settings import captured_facts
from labbook.errors import UsageError
from labbook.fixes.fix_candidates import NO_CODE
from labbook.model.message import Message, message
from labbook.report.period_context import SEARCH_TAG
from labbook.rerun.bisection import Bisection, Judge, add_required, bisect, likelihood, make_judge
from labbook.rerun.recorded_code import recorded_code
from labbook.rerun.rerun_run import change_entry, read_run, rerun
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
from labbook.store.text.entry_text import set_block
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
        max_steps: Stop each run after this many optimizer steps; the two runs are then repeated as short ones first.
        print_line: Prints the lines of the recorder.
        notify: Called with what is tried and found.

    Raises:
        UsageError: The runs have the same result, or no difference that can be made alone.
    """
    requests: dict[str, object] = {"max_steps": max_steps} if max_steps else {}

    def run_with(base: Mapping[str, Any], chosen: Sequence[Difference]) -> dict[str, Any]:
        words = command_with(good.get("argv") or (), bad.get("argv") or (), chosen) if base is good else base["argv"]
        variables = {one.name: one.now for one in chosen if one.kind == "environment" and one.now}
        done = rerun(
            notebook,
            {**base, "argv": words, "tags": ()},
            print_line=print_line,
            notify=lambda note: None,
            requests=requests,
            change=lambda code: apply_code(code.top, chosen),
            variables=variables,
            tag=SEARCH_TAG,
            quiet=True,
        )
        done.check_not_stopped()
        return read_run(notebook, done.run)

    candidates = [*setting_differences(good, bad), *_code(notebook, good, bad)]
    if not candidates:
        raise UsageError("errors.rerun.no_difference", good=good.get("id"), bad=bad.get("id"))
    judge: Judge = make_judge(good, bad)
    spent = 0
    if requests:
        judge, spent = make_judge(run_with(good, ()), run_with(bad, ())), 2
    notify(message("rerun.bisecting", count=len(candidates)))
    required = required_hunks(candidates)
    tried: dict[frozenset[Difference], bool | None] = {}
    candidates.sort(key=lambda one: -likelihood(one, bad))

    def attempt(chosen: Sequence[Difference]) -> bool | None:
        chosen = add_required(chosen, required)
        if frozenset(chosen) in tried:
            return tried[frozenset(chosen)]
        result = tried[frozenset(chosen)] = judge(run_with(good, chosen))
        names = [one.name for one in chosen]
        if result is None:
            notify(message("rerun.tried_neither", names=names))
        elif result:
            notify(message("rerun.tried_bad", names=names))
        else:
            notify(message("rerun.tried_good", names=names))
        return result

    found = bisect(candidates, attempt, most - spent, [likelihood(one, bad) for one in candidates])
    guilty, left = found.guilty, most - spent - len(tried)
    lines = _lines_of(notebook, good, guilty[0]) if found.proven and len(guilty) == 1 and left > 0 else []
    if lines:
        # Lines that are adjacent are one hunk, whether or not they belong together.
        required |= required_hunks([*(one for one in candidates if one not in guilty), *lines])
        lines.sort(key=lambda one: -likelihood(one, bad))
        closer = bisect(lines, attempt, left, [likelihood(one, bad) for one in lines])
        guilty = closer.guilty if closer.proven else guilty
    return Bisection(tuple(add_required(guilty, required)), found.proven, spent + len(tried), found.candidates)


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
        notebook, bad, lambda page: set_block(page, BLOCK, f"\n{text}\n", ("reproduction", "summary", "title"))
    )
    commit_files(notebook, [path], f"Bisect {bad}: {', '.join(one.name for one in found.guilty)[:100]}\n\nRun: {bad}\n")
