"""Finds failures that a later run no longer shows, and the differences that may have fixed them."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import groupby, pairwise, takewhile
from operator import itemgetter
from pathlib import PurePosixPath

from labbook.compare.run_settings import SIZE_UNKNOWN, describe_file
from labbook.fixes.difference_names import (
    HISTORY,
    VALUED,
    is_named,
    list_changed_pairs,
    list_messages,
    names_file,
    normalize_name,
)
from labbook.model.confirmed_fix import changed_lines, is_move
from labbook.model.run import Change, Run
from labbook.model.run_fields import flatten, parse_command

_COMPILED = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".sh", ".pyx")
"""Code whose use the probe does not see."""

_LENGTH = re.compile(r"epoch|step|iter|limit|max_|num_|samples|batch|until|fast|debug|smoke|size", re.IGNORECASE)
"""Names of options that set how long a training takes. Source: chosen by us, from those of common trainers."""

_SEED = re.compile(r"(?<![a-z])seeds?(?![a-z])", re.IGNORECASE)
_SEED_VALUE = re.compile(r"(?<=seed)\W{1,4}\d+", re.IGNORECASE)
_ALIKE = 0.5
"""Similarity of a line and the one that replaced it. Source: chosen by us."""

_HELP = frozenset({"-h", "--help", "--version", "-V", "--dry-run", "--dry_run"})


def find_cured(
    failed: Run, now: Run, *, is_after_loop: Callable[[], bool] = lambda: False
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Returns symptoms and fingerprints of the first run that the later run no longer shows.

    Args:
        is_after_loop: Whether the first run failed behind its loops, where the number of steps says nothing.

    Returns:
        Symptoms and fingerprints; of a failed run without any, none. `None` if the later run is no cure: it did not
        finish, only printed its help, did not get past the point of the failure, or a check failed in it. A symptom
        whose check was not made in the later run is left out.
    """
    ended_badly = failed.status in ("failed", "killed")
    if now.status != "finished" or _HELP & set(now.argv) or is_unhealthy(now):
        return None
    if not _passed_failing_point(failed, now, is_after_loop):
        return None
    checked = {check.id for check in failed.checks}
    passed = passed_checks(now)
    symptoms = tuple(
        name
        for name in failed.symptoms
        # A check that was not made, or had no data, proves nothing.
        if name not in now.symptoms and (name not in checked or name in passed)
    )
    fingerprints = tuple(one for one in failed.fingerprints if one not in now.fingerprints)
    if not symptoms and not (ended_badly and (fingerprints or not (failed.symptoms or failed.fingerprints))):
        return None
    return symptoms, fingerprints


def is_same_place(one: Run, other: Run) -> bool:
    """Whether two runs failed with a symptom in common, or in the same call after as many steps."""
    if {*one.symptoms, *one.fingerprints} & {*other.symptoms, *other.fingerprints}:
        return True
    places = [
        [(f.file, f.source.partition("(")[0]) for e in run.exceptions if e.ended_process for f in e.frames if f.user]
        for run in (one, other)
    ]
    return bool(places[0]) and places[0] == places[1] and one.steps >= other.steps


def is_unhealthy(run: Run) -> bool:
    """Whether a health check failed in a run."""
    return any(check.verdict == "fail" for check in run.checks)


def passed_checks(run: Run) -> set[str]:
    """Returns the ids of the checks that were made in a run and found nothing, with a row of their own or not."""
    return {name for check in run.checks if check.verdict == "ok" for name in (check.id, *check.passed)}


def _passed_failing_point(failed: Run, now: Run, is_after_loop: Callable[[], bool]) -> bool:
    """Whether the later run passed the point at which the first one failed; trials have entries with their steps."""
    trials = now.facts("trials").get("rows") or ()
    if trials:
        return all(row.get("state") == "complete" for row in trials)
    steps = now.steps
    at = max((e.step for e in failed.exceptions if e.step is not None), default=None)
    # As many steps and the end: the failure came behind the loop, unless the loop itself was made shorter.
    too_short = at is not None and (steps < at or (steps == at and _has_other_length(failed, now)))
    if failed.status in ("failed", "killed") and at and too_short and not is_after_loop():
        return False
    if failed.steps and not steps:
        return False
    names = {f.name for f in now.frameworks}
    return all(f.name in names for f in failed.frameworks)


def _has_other_length(failed: Run, now: Run) -> bool:
    """Whether an option differs that sets how long a training takes."""
    sides = [dict(parse_command(run.argv)) | _parsed_options(run) for run in (failed, now)]
    return any(_LENGTH.search(name) and sides[0].get(name) != sides[1].get(name) for name in {*sides[0], *sides[1]})


def _parsed_options(run: Run) -> dict[str, object]:
    return {name: value for parsed in run.arguments for name, value in flatten(parsed.values)}


def find_new_inputs(failed: Run, now: Run) -> list[Change]:
    """Returns the files that the failure names, that the first run did not read and the later one did."""
    messages = _list_texts(failed)
    known = {use.path for use in failed.files if use.mode != "written"}
    uses = [use for use in now.files if use.mode == "read" and use.path not in known]
    named = [use for use in uses if any(use.path in text for text in messages) and not _is_elsewhere(use.path, failed)]
    return [Change("input", use.path, "", describe_file(vars(use))) for use in named]


def _list_texts(failed: Run) -> list[str]:
    return [raised.message for raised in failed.exceptions] + [finding.message for finding in failed.findings]


def _is_elsewhere(path: str, failed: Run) -> bool:
    """Whether a failure names a file of this path in another folder only: `/mnt/none/data/p.csv`, not `data/p.csv`."""
    pattern = re.compile(rf"[\w./\\~:-]+(?=[/\\]{re.escape(path)}(?![\w-]))")
    folders = [
        PurePosixPath(found.replace("\\", "/")).name for text in _list_texts(failed) for found in pattern.findall(text)
    ]
    return bool(folders) and {"", PurePosixPath(failed.cwd).name}.isdisjoint(folders)


def drop_doubles(changes: Sequence[Change], failed: Run) -> list[Change]:
    """Returns the differences without options that a changed line of a file lists already, and without seeds.

    A file is left out where an option or variable names another one. A line of code lists the options that it gives,
    takes away or sets to these values: `devices=1` of a trainer.

    A seed is left out where anything else differs, unless the failure names it: another one cures no failure that has a
    cause.
    """
    is_seed_named = any(map(_SEED.search, list_messages(failed)))
    unseeded = [change for change in changes if is_seed_named or not _sets_seed(change)]
    changes = unseeded if any(change.kind != "metric" for change in unseeded) else changes
    configs = [change for change in changes if change.kind == "config"]
    lines = "\n".join(f"{change.before}\n{change.now}\n{change.detail}" for change in configs)
    words = {normalize_name(word) for word in re.findall(r"[\w-]+", lines)}

    sides = [changed_lines(change.detail) for change in changes if change.kind == "code"]
    old, new = (re.findall(r"[\w.-]+", "\n".join(line for side in sides for line in side[at])) for at in (0, 1))
    in_code = {normalize_name(word) for word in (*old, *new)}
    given = {_as_given(change) for change in changes if change.what.startswith("-")}

    def is_double(change: Change) -> bool:
        if change.kind == "input":
            return any(one.kind in VALUED and names_file(one, [change.what]) for one in changes)
        if change.kind != "argument" or change.what.startswith("-"):
            return False
        name = normalize_name(change.what.rpartition(".")[2])
        has_values = change.before in ("", *old) and change.now in ("", *new)
        return name in words or (name in in_code and has_values) or _as_given(change) in given

    return [change for change in changes if not is_double(change)]


def _as_given(change: Change) -> tuple[str, str, str]:
    """Returns the name and the values of an option, the same for `dim` as the program has it and `--dim`."""
    return normalize_name(change.what), change.before, change.now


def _sets_seed(change: Change) -> bool:
    """Whether a change sets nothing but a seed, by its name or by its lines."""
    removed, added = ("\n".join(part) for part in changed_lines(change.detail))
    if not removed and not added:
        return bool(_SEED.search(change.what))
    return (
        bool(_SEED.search(removed))
        and not is_move(change.detail)
        and _SEED_VALUE.sub("", removed) == _SEED_VALUE.sub("", added)
    )


def split_changes(changes: Iterable[Change]) -> list[Change]:
    """Returns the changes of files as one for each place; where lines were replaced by as many, for each line."""
    pieces: list[Change] = []
    for change in changes:
        is_split = change.kind in ("code", "config") and "\n@@ " in change.detail
        parts = [_make_piece(change, part) for part in _find_places(change.detail)] if is_split else [change]
        pieces += [part for part in parts if not is_split or any(changed_lines(part.detail))]
    return pieces


def _find_places(diff: str) -> list[list[str]]:
    """Returns the changed lines of a diff that are beside each other, with an unchanged line before and after."""
    lines = [line for line in diff.splitlines() if line[:3] not in ("---", "+++")]
    bounds = [n for n in range(len(lines) + 1) if (lines[n : n + 1] or " ")[0][:1] not in ("-", "+")]
    places, moved = _find_moves(lines, bounds)
    for before, after in pairwise([-1, *bounds]):
        if after - before < 2:
            continue
        block = [lines[n] for n in range(before + 1, after) if n not in moved]
        if not block:
            continue
        around = [[line for line in lines[at : at + 1] if at >= 0 and line[:1] == " "] for at in (before, after)]
        old, new = ([line for line in block if line[0] == sign] for sign in "-+")
        # Lines that are only indented otherwise are one difference; beside other ones, as where a block was put around
        # them, they belong to those.
        pairs = list(zip(old, new, strict=len(old) == len(new)))
        alike = len(old) == len(new) and all(SequenceMatcher(None, a[1:], b[1:]).ratio() > _ALIKE for a, b in pairs)
        groups = groupby(pairs, key=lambda pair: pair[0][1:].strip() == pair[1][1:].strip())
        rows = (
            [row for is_same, part in groups for row in _join_rows(list(part), is_same=is_same)] if alike else [block]
        )
        places += [[*around[0], *row, *around[1]] for row in rows]
    return places


def _join_rows(pairs: Sequence[tuple[str, str]], *, is_same: bool) -> list[list[str]]:
    """Returns the pairs of an old and a new line, as one difference if they are the same line."""
    return [[line for side in zip(*pairs, strict=True) for line in side]] if is_same else [list(pair) for pair in pairs]


def _find_moves(lines: Sequence[str], bounds: Sequence[int]) -> tuple[list[list[str]], set[int]]:
    """Returns the lines that moved from one place to another, those of two places together, and all their numbers.

    The unchanged line that they passed is between the two sides.
    """
    where: dict[str, list[list[int]]] = {}
    for number, line in enumerate(lines):
        if line[:1] in ("-", "+") and (text := line[1:].strip()):
            where.setdefault(text, [[], []])[line[0] == "+"].append(number)
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for old, new in where.values():
        if len(old) == len(new) == 1:
            place, other = (bisect(bounds, number[0]) for number in (old, new))
            groups.setdefault((place, other), []).append((old[0], new[0]))
    places: list[list[str]] = []
    moved: set[int] = set()
    for (place, other), pairs in groups.items():
        if place == other or not any(re.search(r"\w", lines[old]) for old, _ in pairs):
            continue
        gone, came = ([lines[pair[side]] for pair in sorted(pairs, key=itemgetter(side))] for side in (0, 1))
        # Down to below the nearest line above the new place, or up to above the nearest one below it.
        after = (
            range(max(n for _, n in pairs), len(lines)) if other < place else range(min(n for _, n in pairs), -1, -1)
        )
        near = takewhile(lambda line: line[:2] != "@@", (lines[n] for n in after))
        passed = [line for line in near if line[:1] == " " and re.match(r"\s*[^\W\d]", line)][:1]
        places.append([*came, *passed, *gone] if other < place else [*gone, *passed, *came])
        moved |= {number for pair in pairs for number in pair}
    return places, moved


def _make_piece(change: Change, lines: Sequence[str]) -> Change:
    """Returns the change of one place; that of one line of a configuration has the values of its key."""
    piece = replace(change, detail="\n".join(["", "@@ @@", *lines]))
    removed, added = changed_lines(piece.detail)
    if change.kind == "code" or len(removed) != 1 or len(added) != 1:
        return piece
    if len(pairs := list_changed_pairs(piece)) == 1:
        return replace(piece, before=pairs[0][1], now=pairs[0][2])
    before, now = (re.split(r"\s*[:=]\s*", line, maxsplit=1)[-1].strip(" \"',") for line in (*removed, *added))
    return replace(piece, before=before, now=now)


def keep_used(changes: Sequence[Change], failed: Run, now: Run) -> tuple[Change, ...]:
    """Returns the differences without the files of code and the added packages that neither of the two runs used.

    A file counts as used if a run loaded, read or failed in it, and where it is not known what a run loaded; one of
    which nothing but its name is known, or that was read only after the point of the failure, where the failure names
    it. A package of another version always does, because the name of a module may differ from that of its package.
    """
    messages = _list_texts(failed)
    changes = [
        c
        for c in changes
        if not _may_be_unread(c, failed)
        or (is_named(c, messages) and not (c.kind == "input" and _is_elsewhere(c.what, failed)))
    ]
    if not now.sources or not failed.sources:
        return tuple(changes)
    used = {_normal_path(name) for run in (failed, now) for name in _used_files(run)}
    scripts = {run.script for run in (failed, now)}
    modules = {normalize_name(name) for run in (failed, now) for name in run.packages}
    modules |= {normalize_name(str(name)) for run in (failed, now) for name in run.facts("python").get("loaded") or ()}

    def is_used(change: Change) -> bool:
        if change.what.startswith("and "):  # the row that counts the rest
            return True
        if change.kind == "package" and modules and not (change.before and change.now):
            return normalize_name(change.what) in modules or is_named(change, messages)
        if change.kind != "code" or change.what in HISTORY:
            return True
        if change.what.endswith(_COMPILED):
            return True
        return change.what in scripts or any(f"/{p}".endswith(f"/{change.what}") for p in used)

    return tuple(change for change in changes if is_used(change))


def _may_be_unread(change: Change, failed: Run) -> bool:
    """Whether a file is no difference for all one knows: only its name is known, or the failure came before it."""
    was_not_reached = change.kind == "input" and not change.before and failed.status in ("failed", "killed")
    return was_not_reached or SIZE_UNKNOWN in (change.before, change.now)


def _used_files(run: Run) -> Iterable[str]:
    yield from run.sources
    yield from (frame.file for raised in run.exceptions for frame in raised.frames if frame.user)
    yield from (config.path for config in run.configs)
    yield from (use.path.rstrip("/") for use in run.files if use.mode != "written")
    yield from (word for word in run.argv if "." in word)


def _normal_path(name: str) -> str:
    return name.replace("\\", "/").removeprefix("./").lstrip("~/")
