"""Ranks the differences of two runs by how likely each one is the fix.

First come those that the failure names, then options in the failing line, then what the page of the symptom lists as
`cured_by`, files on the way to the failing line, other code and data, and at last options and packages that nothing
connects with the failure.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from labbook.fixes.difference_names import (
    HISTORY,
    OPTIONS,
    VALUED,
    is_named,
    list_failing_frames,
    list_failing_lines,
    list_messages,
    list_names,
    list_raw_keys,
    map_modules,
    matches_cure,
    names_file,
)
from labbook.fixes.fix_background import HARMLESS, NEW_SINCE_HEALTHY, NO_CURE, UNKNOWN, Background
from labbook.model.confirmed_fix import changed_lines, is_move, line_counts, passed_line
from labbook.model.run import Change, Run
from labbook.model.symptom import Symptom

_KINDS = ("argument", "config", "code", "input", "package", "environment", "hardware", "command")
"""Kinds of changes, in the order in which people usually change them."""

NO_CODE = frozenset({".gitignore", ".gitkeep", ".gitattributes", "labbook.toml", "mkdocs.yml"})

_NUMBERS = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")

_PRINTS = re.compile(
    r"(?:print|log(?:ger|ging)?\.\w+|tqdm\.write|warnings\.warn)\(.*\)$|import (?:logging|warnings)$"
    r"|[rRuUbB]?(\"\"\"|'''|\"|').*\1$"
)
"""Lines that print or log something, and texts that stand alone: docstrings."""

_MISSING = ("NameError", "AttributeError", "UnboundLocalError")
_IMPORT = re.compile(r"(?:import|from)\b")
_DEFINITION = re.compile(r"(?:async def|def|class)\b|@")
_DOTTED = re.compile(r"\b\w+(?:\.\w+)+")
_MANY_LINES = 6
"""Changed lines of which no line stands for all. Source: chosen by us."""

_FAR, _UNSEEN = 99, 5
"""Steps of what does not reach the failing line, and of what may reach it unseen."""

_ALIKE = 0.5
"""Similarity of a line and the one that replaced it. Source: chosen by us."""

_LENGTH = re.compile(r"epoch|episode|(?<![a-z])(?:steps?|iters?|log|save|eval)(?![a-z])")
"""Names of options that set how long a run is and what it prints: their numbers are in many messages by chance."""

_WORDS = re.compile(r"[A-Za-z_]\w+|[-+*/|&]=")
_LIBRARY = re.compile(r"\b(?:torch|paddle|numpy|np|nn)(?:\.\w+)*\b")
_CODE_SPAN = re.compile(r"`[^`]+`")
_SHAPE = re.compile(r"[\[(]\d+(?:,\s*\d+)*,?[\])]")
_STRINGS = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_QUOTED = re.compile(r"'[^'\s]{2,80}'|\"[^\"\s]{2,80}\"|`[^`\s]{2,80}`")


def order_candidates(
    changes: Iterable[Change],
    failed: Run,
    now: Run,
    symptoms: Sequence[str],
    catalogue: Mapping[str, Symptom],
    background: Background | None = None,
) -> tuple[tuple[Change, ...], int]:
    """Returns the differences that may be the fix, likeliest first, and the number of those that touch the failure.

    A difference touches the failure if the failure names it, or the failing line does, if its value reaches that line,
    if it came since the last healthy run, if the page of the symptom lists it, or if it is in data, or an option of a
    run without an exception. Beside one that is named, code elsewhere is only counted. Where none does, the number is
    0: which one cured the run is not known.

    Args:
        background: Earlier runs and the code; `None` where they are not known.
    """
    ranked = rank_changes(changes, symptoms, catalogue)
    evidence = _Evidence(failed, now, symptoms, catalogue, ranked, background or Background())
    by_distance = [(evidence.distance(change), change) for change in ranked]
    ordered = sorted(by_distance, key=lambda pair: (pair[0], *evidence.order(pair[1])))
    # Where the failure names something, or its line was changed, code elsewhere is only counted.
    nearest = ordered[0][0] if ordered else 0
    farthest = nearest + 1 if nearest <= 0 else nearest if evidence.is_sliced else 2
    if nearest > 2:
        return tuple(change for _, change in ordered), int(len(ordered) == 1)
    is_new = bool(ordered) and evidence.is_new(ordered[0][1])
    touching = [
        change for level, change in ordered if level <= farthest and not (is_new and evidence.is_harmless(change))
    ]
    if nearest == 2 and evidence.is_sliced:
        first = touching[0]
        touching = [one for one in touching if evidence.is_as_near(one, first)]
    return tuple(change for _, change in ordered), len(touching)


class _Evidence:
    """What a failure and the pages of its symptoms say, to tell how near a difference is to it."""

    def __init__(
        self,
        failed: Run,
        now: Run,
        symptoms: Sequence[str],
        catalogue: Mapping[str, Symptom],
        changes: Sequence[Change],
        background: Background,
    ) -> None:
        self._ended = [raised for raised in failed.exceptions if raised.ended_process]
        self._messages, self._lines = list_messages(failed), list_failing_lines(failed)
        self._path = {frame.source.strip() for frame in list_failing_frames(failed)}
        self._is_name_missing = any(raised.type.endswith(_MISSING) for raised in self._ended)
        is_import = any("Import" in raised.type or "Module" in raised.type for raised in self._ended)
        self._of_packages = self._messages if is_import else [_DOTTED.sub(" ", text) for text in self._messages]
        observed = [text for finding in failed.findings for text in finding.evidence]
        # A number of a shape may be that of any option: of the batch size, too.
        texts = [_SHAPE.sub(" ", text) for text in self._messages], [*self._messages, *observed]
        self._named, self._seen = (set(_NUMBERS.findall("\n".join(part))) - {"0", "1"} for part in texts)
        self._quoted = {part[1:-1] for text in self._messages for part in _QUOTED.findall(text)}
        self._words = _find_words("\n".join(_LIBRARY.sub(" ", text) for text in self._messages))
        pages = [catalogue[name].wording_in("en") for name in symptoms if name in catalogue]
        advice = [text for page in pages for text in (*page.why, *page.attempts)]
        self._advised = _find_words("\n".join(code for text in advice for code in _CODE_SPAN.findall(text)))
        self._patterns = _list_patterns(symptoms, catalogue)
        self._modules = map_modules(now)
        self._loaded = {str(name) for run in (failed, now) for name in run.facts("python").get("loaded") or ()}
        removed = [change for change in changes if change.kind == "argument" and not change.now]
        self._taken_out = {change.before for change in removed if is_named(change, self._messages)}
        self._files = {use.path for run in (failed, now) for use in run.files if use.mode == "read"}
        self._is_some_likely = any(map(self._is_likely, changes))
        self._background = background
        self._earlier = {id(change): background.judge(change) for change in changes}  # a difference has no hash
        self._reaching = {id(one): steps for one in changes if (steps := self._count_steps(one)) is not None}
        # What failed is known to depend on some differences and not on the others.
        self.is_sliced = bool(self._reaching) and (bool(self._ended) or background.is_of_data)
        is_some_near = any(self._distance_by_names(one) <= 2 and not self.is_harmless(one) for one in changes)
        self._is_some_new, self._is_some_other = NEW_SINCE_HEALTHY in self._earlier.values(), is_some_near

    def distance(self, change: Change) -> int:
        """Returns how far a difference is from a failure: up to 1 what it names, 2 what reaches it, 4 the rest."""
        distance = self._distance_by_names(change)
        if self._earlier[id(change)] == NO_CURE:
            return max(distance, 4)
        if distance < 2 or distance > 4:
            return distance
        if self.is_sliced and change.kind in ("code", *VALUED):
            return 2 if self.steps(change) < _FAR else 3
        if self.is_new(change):
            return 2
        is_beside = self._is_some_new or (self._is_some_other and change.kind != "code")
        return max(distance, 3) if self.is_harmless(change) and is_beside else distance

    def is_harmless(self, change: Change) -> bool:
        """Whether a healthy run before had what was changed."""
        return self._earlier[id(change)] == HARMLESS

    def is_new(self, change: Change) -> bool:
        """Whether what was changed came since the last healthy run."""
        return self._earlier[id(change)] == NEW_SINCE_HEALTHY

    def steps(self, change: Change) -> int:
        """Returns the steps from a difference to the failing line, more for what did no harm before.

        Source: chosen by us. A value that did no harm is some steps farther; code, which may have to follow other
        changes, three. What came since the last healthy run, or is on the page of the symptom, may reach the line in a
        way that no name shows.
        """
        is_listed = change.kind != "code" and self._is_listed(change)
        steps = self._reaching.get(id(change), _UNSEEN if self.is_new(change) or is_listed else _FAR)
        harmless = 3 if change.kind == "code" else 5
        return steps + {HARMLESS: harmless, UNKNOWN: 1}.get(self._earlier[id(change)], 0) - 3 * is_listed

    def is_as_near(self, change: Change, first: Change) -> bool:
        """Whether a difference is about as near to the failing line as the likeliest one."""
        if change.kind == "code" or not self._has_number(first, self._named):
            return self.steps(change) <= self.steps(first) + 1 or (
                self._is_listed(change) and not self.is_harmless(change)
            )
        return self._has_number(change, self._named)

    def _count_steps(self, change: Change) -> int | None:
        names = [name for raw in (change.what, *list_raw_keys(change)) for name in (raw, raw.lstrip("-"))]
        names += [name.replace("-", "_") for name in names] + [name.rpartition(".")[2] for name in names]
        return self._background.count_steps(change, names)

    def _distance_by_names(self, change: Change) -> int:
        if change.kind == "code":
            return _code_distance(change, self._lines, self._path, self._quoted, self._messages)
        as_named = [change, *(replace(change, what=name) for name in self._modules.get(change.what, ()))]
        as_named += [replace(change, what=key) for key in list_names(change)] if change.kind == "config" else []
        texts = self._of_packages if change.kind == "package" else self._messages
        is_in_line = any(is_named(one, self._lines) for one in as_named)
        # A name or attribute that is not there has no other value; an option may say which one is looked up.
        is_other_value = change.kind in VALUED and change.before and change.now and change.before not in self._quoted
        keys = {one.what for one in as_named} | {raw.lstrip("-") for raw in list_raw_keys(change)}
        if self._is_name_missing and is_other_value and keys & self._quoted:
            return 3
        if any(is_named(one, texts) for one in as_named):
            return -1 if is_in_line else 1 if change.kind == "argument" and change.now else 0
        if change.kind in VALUED and is_in_line:
            return -1 if self._is_listed(change) else 1
        if change.kind == "argument" and change.now in self._taken_out:
            return 1
        if change.kind == "package" and is_in_line and not self._is_likely(change):
            return 1
        is_setting = change.kind in VALUED and not self._ended and not self._is_some_likely
        is_data = change.kind == "input" or (change.kind in VALUED and names_file(change, self._files))
        if self._is_likely(change) or is_data or is_setting:
            return 2
        return 4 if change.kind == "package" and change.what.split(" ")[0] not in self._loaded else 3

    def order(self, change: Change) -> tuple[int, ...]:
        """Returns the order of differences that are equally far from the failure."""
        has_number = self._has_number(change, self._named)
        parts = changed_lines(change.detail) if change.kind == "code" else ([], [])
        old, new = (_find_words("\n".join(part)) for part in parts)
        # What was exchanged says more than what is on both sides.
        exchanged = old | _find_words(passed_line(change.detail)) if is_move(change.detail) else old ^ new
        shared = -len((self._words | self._advised) & exchanged), -len(self._words & old & new)
        # A check says many numbers: there the page comes first.
        is_number_said = has_number and bool(self._ended)
        by_page = _page_order(change, self._patterns), not has_number
        if self.is_sliced and self._distance_by_names(change) >= 2:
            steps = (self.steps(change),)
            return not is_number_said, *(steps + by_page if self._ended else by_page + steps), *shared
        return not self.is_new(change), not is_number_said, *by_page, self.is_harmless(change), *shared

    def _has_number(self, change: Change, numbers: Collection[str]) -> bool:
        is_length = any(map(_LENGTH.search, list_names(change)))
        return change.kind in OPTIONS and not is_length and not {change.before, change.now}.isdisjoint(numbers)

    def _is_listed(self, change: Change) -> bool:
        """Whether a page lists a difference by its name."""
        by_name = (one for one in self._patterns if one.partition(":")[2].strip() not in ("", "*"))
        return any(matches_cure(change, pattern) for pattern in by_name)

    def _is_likely(self, change: Change) -> bool:
        return self._has_number(change, self._seen) or self._is_listed(change)


def rank_changes(
    changes: Iterable[Change],
    symptoms: Sequence[str],
    catalogue: Mapping[str, Symptom],
) -> tuple[Change, ...]:
    """Returns the differences that may be the fix, likeliest first, of equally likely ones the smallest first.

    Args:
        changes: Changes between the two runs; changes of metrics are left out.
        symptoms: Symptoms that are gone.
        catalogue: Symptom pages by id, for their `cured_by`.
    """
    candidates = [change for change in changes if change.kind != "metric" and not _is_unrelated(change)]
    patterns = _list_patterns(symptoms, catalogue)

    def order(change: Change) -> tuple[int, int, int]:
        by_page = _page_order(change, patterns)
        kind = _KINDS.index(change.kind) if change.kind in _KINDS else len(_KINDS)
        kind += len(_KINDS) * (change.kind == "code" and change.what in HISTORY)
        return by_page, kind, sum(map(len, changed_lines(change.detail)))

    return tuple(sorted(candidates, key=order))


def _list_patterns(symptoms: Sequence[str], catalogue: Mapping[str, Symptom]) -> list[str]:
    return [pattern for name in symptoms if name in catalogue for pattern in catalogue[name].cured_by]


def _page_order(change: Change, patterns: Sequence[str]) -> int:
    """Returns the place of a difference in what the pages of the symptoms list as cures."""
    if change.kind == "code" and change.what in HISTORY:
        return len(patterns)
    return next((n for n, pattern in enumerate(patterns) if matches_cure(change, pattern)), len(patterns))


def _code_distance(
    change: Change, lines: Sequence[str], path: Collection[str], quoted: set[str], messages: Sequence[str]
) -> int:
    """Returns the distance of a change of code: 0 in the failing line or of what the message quotes, else 2.

    Args:
        path: The lines on the way to the failing line: one that prints may be the call that failed.
    """
    if change.what in HISTORY:
        return 5
    removed, added = changed_lines(change.detail)
    failing = {line.strip() for line in lines if line.strip()}
    old, new = ("\n".join(part) for part in (removed, added))
    if is_move(change.detail) and not _only_prints(change):
        passed = passed_line(change.detail)
        if not failing.isdisjoint((*removed, passed)) or set(_WORDS.findall(old)) & quoted:
            return 0
        return 5 if all(map(_IMPORT.match, removed)) or _DEFINITION.match(removed[0]) else 2
    names = set(_WORDS.findall(old)) ^ set(_WORDS.findall(new))
    # Other words in a text of the failing line are no cure, unless the message quotes them.
    is_in_text = _STRINGS.sub("", old) == _STRINGS.sub("", new)
    if any(text in old and text not in new for text in quoted):
        return 0
    if not failing.isdisjoint(removed):
        return 2 if is_in_text else 0
    if _only_prints(change) and not {*path} & {*removed}:
        return 5
    return 0 if names & quoted or is_named(change, messages) else 2


def focus_lines(changes: Iterable[Change], failed: Run) -> tuple[tuple[Change, ...], int]:
    """Returns the differences, of those of many lines one line, and the number of the other lines.

    It is the line with most of the failure's words, else the first of a few, with the one that replaced it.
    """
    said = _find_words("\n".join((*list_messages(failed), *list_failing_lines(failed))))
    focused, rest = [], 0
    for change in changes:
        change, prints = _without_prints(change)
        rest += prints
        removed, added = changed_lines(change.detail)
        best = max((*removed, *added), key=lambda line: len(said & _find_words(line)), default="")
        is_long = len(removed) + len(added) > _MANY_LINES
        if line_counts(change) is None or is_move(change.detail) or (is_long and said.isdisjoint(_find_words(best))):
            focused.append(change)
            continue
        old = best if best in removed else next(iter(get_close_matches(best, removed, 1, _ALIKE)), "")
        new = best if old != best else next(iter(get_close_matches(best, added, 1, _ALIKE)), "")
        lines = [f"{sign}{line}" for sign, line in (("-", old), ("+", new)) if line]
        focused.append(replace(change, detail="\n".join(["", "@@ @@", *lines])))
        rest += max(len(removed), len(added)) - 1
    return tuple(focused), rest


def _without_prints(change: Change) -> tuple[Change, int]:
    """Returns a change of code without the lines that print, and their number; unchanged if there are no others."""
    lines = change.detail.splitlines()
    prints = [line for line in lines if line[:1] in "+-" and _PRINTS.match(line[1:].strip())]
    if change.kind != "code" or not prints or _only_prints(change):
        return change, 0
    left = replace(change, detail="\n".join(line for line in lines if line not in prints))
    return left, max(sum(line[0] == sign for line in prints) for sign in "+-")


def _only_prints(change: Change) -> bool:
    """Whether a change of code is in lines alone that print or log something, or are docstrings."""
    removed, added = changed_lines(change.detail)
    return bool(removed or added) and all(_PRINTS.match(line) for line in (*removed, *added))


def _find_words(text: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(text) if not keyword.iskeyword(word)}


def _is_unrelated(change: Change) -> bool:
    """Whether a difference is in labbook, its notebook or git's own files, which change no training."""
    if change.kind == "code":
        return change.what.startswith("notes/") or change.what.rpartition("/")[2] in NO_CODE
    return change.kind == "package" and change.what.split(" ")[0] == "labbook"
