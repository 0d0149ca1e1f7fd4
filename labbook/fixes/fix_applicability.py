"""Decides whether the fix of an earlier failure fits a failure of now.

It fits if the failure is the same, at a compatible place, and a difference that cured it touches the failure and is
still to be made here: the option has not the curing value yet, the code has the lines that were changed, the package
has the version that failed.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from labbook.compare.code_diff import written_code
from labbook.compare.run_settings import captured_facts, collect_arguments, environment_variables, format_value
from labbook.diagnosis.fingerprint import normalise_message, normalise_source
from labbook.fixes.difference_names import (
    HISTORY,
    VALUED,
    find_pairs,
    is_named,
    list_changed_pairs,
    list_names,
    matches_cure,
    normalize_name,
)
from labbook.frozen import dataclass
from labbook.model.confirmed_fix import changed_lines, is_move, passed_line
from labbook.model.finding import Finding
from labbook.model.run import Change, Run
from labbook.model.run_code import source_path
from labbook.model.run_fields import parse_command
from labbook.model.run_json import run_to_json
from labbook.model.symptom import Symptom

_MAX_FILES = 60
_MAX_BYTES = 400_000
_STRINGS = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|#.*")
_NUMBERS = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_WORDS = re.compile(r"(?<![\w.])[A-Za-z_]\w*|(?<=[A-Za-z_)\]]\.)[A-Za-z_]\w*")
_USED = re.compile(r"(?<=\.)[A-Za-z_]\w*|[A-Za-z_]\w*(?=\s*\()|[A-Za-z_]\w*(?==[^=])")
_SUBSCRIPT = re.compile(r"(?<=[\w)\]])\[[^\[\]]*\]")
_NAME = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)(?:[ =].*)?", re.DOTALL)
_DEVICE_INDEX = re.compile(r"(?<=[a-z]):\d+$")
_NAMED = re.compile(r"(?!\s*(?:import|from)\b)[^\w#]*\w")
_LETTERS = re.compile(r"[^\W\d_]{3}")
_CONFIGS = (".json", ".yaml", ".yml", ".toml", ".ini", ".cfg")
_ANY_NAME = frozenset({"", "*"})
_REFUSED = "config_error"
_OF_MEMORY = frozenset({"cuda_oom", "host_oom_killed"})


@dataclass(frozen=True)
class Circumstances:
    """What a run was started with, as far as an earlier fix may change it.

    Args:
        options: Normalized name -> value, from the command line and the parsed options.
        packages: Name -> version.
        environment: Name -> value of the recorded variables.
        configs: Texts of the configuration files.
        code: Text of the user's code that the run used.
    """

    options: Mapping[str, str]
    packages: Mapping[str, str]
    environment: Mapping[str, str]
    configs: Sequence[str]
    code: str


def read_circumstances(run: Run) -> Circumstances:
    """Returns the circumstances of a run that has just ended; its code is read from disk."""
    facts = run_to_json(replace(run, series=()))
    options = {normalize_name(name): format_value(value) for name, value in parse_command(run.argv).items()}
    options |= {normalize_name(name): format_value(value) for name, value in collect_arguments(facts).items()}
    packages = captured_facts(facts, "python").get("packages")
    return Circumstances(
        options,
        {str(k): str(v) for k, v in packages.items()} if isinstance(packages, Mapping) else {},
        {k: str(v) for k, v in (environment_variables(facts) or {}).items()},
        [config.text for config in run.configs],
        "\n".join(_read_code(run)),
    )


def _read_code(run: Run) -> list[str]:
    frames = [frame.file for raised in run.exceptions for frame in raised.frames if frame.user]
    places = [str(finding.where["file"]) for finding in run.findings if finding.where.get("file")]
    texts = []
    for name in list(dict.fromkeys([run.script, *run.sources, *frames, *places]))[:_MAX_FILES]:
        with suppress(OSError, RuntimeError, ValueError):
            file = Path(run.cwd).expanduser() / source_path(run, name)
            if file.stat().st_size <= _MAX_BYTES:
                texts.append(written_code(name, file.read_text("utf-8", "replace")))
    return texts


def is_same_failure(here: Finding, there: Finding, *, is_check: bool) -> bool:
    """Whether two findings are the same failure: the same symptom at a compatible place.

    An exception, or a line of the output, has to say the same, values apart: then the same function of a library raised
    it, or the same name is missing. A finding of a check has to be about the same kind of parameter.
    """
    if not is_check:
        if here.exception != there.exception or here.symptom != there.symptom:
            return False
        if _differ_in_names(here, there):
            return False
        if here.exception and here.fingerprint and here.fingerprint == there.fingerprint:
            return True
        messages = [normalise_message(one.message, one.exception.rpartition(".")[2]) for one in (here, there)]
        return bool(here.symptom) and bool(messages[0]) and messages[0] == messages[1]
    if not here.symptom or here.symptom != there.symptom:
        return False
    kinds = [str(one.where.get("parameter") or "").rpartition(".")[2] for one in (here, there)]
    return kinds[0] == kinds[1] or not all(kinds)


def _differ_in_names(here: Finding, there: Finding) -> bool:
    """Whether the messages name different things: another option, key, class or data type."""
    shared = {key: (here.values[key], there.values[key]) for key in here.values if key in there.values}
    pairs = [[_NAME.fullmatch(value.strip("'\"")) for value in pair] for pair in shared.values()]
    return any(a[1] != b[1] for a, b in pairs if a and b)


def touches_failure(change: Change, finding: Finding, symptom: Symptom | None) -> bool:
    """Whether a difference has to do with a failure.

    Code does (files that the run did not use are no candidates); the rest if the failure names it, of a configuration
    a key that was changed, or the symptom's page lists it as a cure.
    """
    if change.kind == "code":
        return change.what not in HISTORY
    texts = (*_texts_of(finding), str(finding.where.get("source") or ""))
    if change.kind == "input":
        return any(change.what in text for text in texts)
    if is_named(change, texts):
        return True
    if change.kind == "config" and any(is_named(replace(change, what=key), texts[:-1]) for key in list_names(change)):
        return True
    for pattern in symptom.cured_by if symptom is not None else ():
        _, _, name = pattern.partition(":")
        is_any = name.strip() in _ANY_NAME and (finding.exception or change.kind in ("package", "environment"))
        if matches_cure(change, pattern) and not is_any:
            return True
    return False


def _texts_of(finding: Finding) -> tuple[str, ...]:
    return (finding.message, *finding.evidence, *finding.values.values())


def is_for_other_value(change: Change, there: Finding, here: Finding) -> bool:
    """Whether a change of code is for a value that only the earlier failure names.

    It has such a string, a key, a prefix or a path, or it puts in such a number, a width or a count of classes.
    """
    removed, added = (_STRINGS.sub(" ", "\n".join(part)) for part in changed_lines(change.detail))
    put_in = set(_NUMBERS.findall(added)) - set(_NUMBERS.findall(removed))
    said_now = set(_NUMBERS.findall(here.message))
    differing = {value for name, value in there.values.items() if here.values.get(name) != value}
    if put_in & (differing or set(_NUMBERS.findall(there.message)) - said_now):
        return True
    lines = "\n".join(line for part in changed_lines(change.detail) for line in part)
    strings = {text.strip("'\"") for text in _STRINGS.findall(lines) if text[0] in "'\""}
    then, now = ("\n".join(_texts_of(one)) for one in (there, here))
    return any(len(text) > 1 and text in then and text not in now for text in strings)


def sets_named_number(change: Change, there: Finding, here: Finding, now: Circumstances) -> bool:
    """Whether an option has the number that a failure names, and was cured by the other one that it names.

    As where a width of a checkpoint is not that of the model: both failures name the value that failed and the one
    that cured. 0 and 1 are in too many messages.
    """
    if change.kind != "argument":
        return False
    wrong = [{change.before, change.now}, {now.options.get(normalize_name(change.what), ""), change.now}]
    texts = ("\n".join(_texts_of(one)) for one in (there, here))
    return all(
        len(pair) == 2 and pair <= set(_NUMBERS.findall(text)) - {"0", "1"}
        for pair, text in zip(wrong, texts, strict=True)
    )


def sets_refused_value(change: Change, there: Finding, here: Finding, now: Circumstances) -> bool:
    """Whether a failure names the value of an option, as the earlier one named the value that was changed then.

    Another path that does not exist, another name that is not known: apart from the value, both say the same.
    """
    if not (change.kind in VALUED or _is_config(change)) or (there.exception, there.symptom) != (
        here.exception,
        here.symptom,
    ):
        return False
    said = {text for before, _, _ in _list_values(change, now) if (text := _say_without(there, before))}
    return any(_say_without(here, value) in said for _, now_set, value in _list_values(change, now) if value != now_set)


def _is_config(change: Change) -> bool:
    """Whether a change is one of a configuration file; the diff of an entry has it among the code."""
    return change.kind == "config" or (change.kind == "code" and change.what.endswith(_CONFIGS))


def _list_values(change: Change, now: Circumstances) -> list[tuple[str, str, str]]:
    """Returns the values of an option before and after a change, and its value now; of a configuration, of each key."""
    if not _is_config(change):
        own = now.environment.get(change.what) or now.options.get(normalize_name(change.what), "")
        return [(change.before, change.now, own)]
    pairs = [pair for text in now.configs for pair in find_pairs(text)]
    changed = list_changed_pairs(change)
    return [(old, new, own) for key, own in pairs for name, old, new in changed if name == key and old and new]


def _say_without(finding: Finding, value: str) -> str:
    """Returns the message of a failure without a value, "" if it does not name it; short words are in many messages."""
    if not _LETTERS.search(value):
        return ""
    text, count = re.subn(rf"(?<!\w){re.escape(value)}(?!\w)", "\0", finding.message)
    return normalise_message(text, finding.exception.rpartition(".")[2]) if count else ""


def differ_in_framework(one: Run, other: Run) -> bool:
    """Whether both runs used a framework, and none in common: `model.zero_grad()` is no method in PaddlePaddle."""
    used, there = ({framework.name for framework in run.frameworks} for run in (one, other))
    return bool(used and there) and used.isdisjoint(there)


def can_apply(change: Change, here: Circumstances, failure: Finding | None = None) -> bool:
    """Whether a difference that cured another run is still to be made in this one.

    Args:
        here: The circumstances of the run that failed now.
        failure: What ended it, `None` for the finding of a check. Where an exception was raised or an option refused, a
            number failed wherever it occurs, as a width between two others; of memory, only a larger one did.
    """
    raised = failure is not None and bool(failure.exception or failure.family == _REFUSED)
    source = str(failure.where.get("source") or "") if failure is not None else ""
    any_number = raised and failure is not None and failure.family not in _OF_MEMORY
    if change.kind == "argument":
        return _is_value_to_change(change, here.options.get(normalize_name(change.what)), any_number)
    if change.kind == "environment":
        return _is_value_to_change(change, here.environment.get(change.what, ""), any_number)
    if change.kind == "package":
        return change.before == here.packages.get(change.what, "")
    if _is_config(change):
        return any(_has_old_lines(change.detail, text, _WORDS.findall) for text in here.configs)
    if change.kind != "code":
        return change.kind == "input"
    return _can_apply_to_code(change.detail, here.code, source, raised=raised)


def _can_apply_to_code(diff: str, code: str, source: str, *, raised: bool) -> bool:
    """Whether a change of code is still to be made in this code.

    Args:
        source: The line that failed, "" if it is not known.
        raised: Whether an exception was raised or an option refused.
    """
    lines = changed_lines(diff)
    if not _has_old_lines(diff, code, _used_names):
        return raised and (_adds_to_call(lines, source) or _takes_out_name(lines, source))
    removed, added = (["".join(_STRINGS.split(line)) for line in part] for part in lines)
    if raised and not removed:
        around = {normalise_source(line) for line in _lines_around(diff)}
        return not around or not around.isdisjoint(normalise_source(line.strip()) for line in code.splitlines())
    # Another path, key or place in a list is right for the very line only; another number may represent a width.
    if _names("\n".join(lines[0])) == _names("\n".join(lines[1])):
        removed, added = ([_SUBSCRIPT.sub("[]", line) for line in part] for part in (removed, added))
    return removed != added or all(line in code for line in lines[0])


def _adds_to_call(lines: tuple[Sequence[str], Sequence[str]], source: str) -> bool:
    """Whether a change adds to calls that the failing line makes, too, without what it adds: `encoding=` of `open`."""
    old, now = (_used_names("\n".join(part)) for part in lines)
    used = _used_names(source)
    return bool(old) and old < now and old <= used and not (now - old) & used


def _takes_out_name(lines: tuple[Sequence[str], Sequence[str]], source: str) -> bool:
    """Whether the failing line has all names that a change takes out, such as a misspelt one.

    What took out a whole import or statement is right for the very line only: elsewhere it may be needed.
    """
    old, now = (_names("\n".join(part)) for part in lines)
    if not now or (not old & now and source.lstrip().startswith(("import ", "from "))):
        return source.strip() in (line.strip() for line in lines[0])
    return bool(old - now) and old - now <= _names(source)


def _lines_around(diff: str) -> list[str]:
    """Returns the unchanged lines of a diff that are next to added ones; imports are next to anything."""
    pairs = list(pairwise(diff.splitlines()))
    beside = [a for a, b in pairs if b[:1] == "+"] + [b for a, b in pairs if a[:1] == "+"]
    return [line.strip() for line in beside if line[:1] == " " and _NAMED.match(line)]


def _is_value_to_change(change: Change, value: str | None, raised: bool) -> bool:
    if value is None or value == change.now:
        return False
    if raised and not change.now:
        return True  # what was refused is to be taken out, whatever its value
    numbers = [_number(one) for one in (change.before, value, change.now)]
    if None in numbers:
        return _DEVICE_INDEX.sub("", value) == _DEVICE_INDEX.sub("", change.before)
    if raised:
        return True
    before, mine, now = (float(one or 0.0) for one in numbers)
    if min(before, mine, now) > 0:
        before, mine, now = math.log(before), math.log(mine), math.log(now)
    # Nearer to the value that failed than to the one that cured, on the same side of it.
    return abs(mine - before) < abs(mine - now) or (mine - before) * (before - now) > 0


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _has_old_lines(diff: str, text: str, words_of: Callable[[str], Iterable[str]]) -> bool:
    """Whether a text has what a diff takes out, and not yet all of what it puts in."""
    removed, added = changed_lines(diff)
    if is_move(diff):
        return _is_in_old_order(diff, removed, text)
    removed, added = (
        [line for line in part if line not in other] for part, other in ((removed, added), (added, removed))
    )
    lines = {line.strip() for line in text.splitlines()}
    wanted = [line for line in added if _WORDS.search(line)]
    if not (removed or added) or (wanted and all(line in lines for line in wanted)):
        return False
    old, now, known = (set(words_of(part)) for part in ("\n".join(removed), "\n".join(added), text))
    gone, new = old - now, now - old
    if any(_names(line) and line in lines for line in removed):
        return True
    if new and new <= known:
        return False
    alike = {normalise_source(line) for line in lines}
    if any(normalise_source(line) in alike for line in removed if _WORDS.search(line)):
        return True
    is_addition = not any(_names(line) for line in removed)
    # What only takes out a statement is right where that very statement is.
    return bool(gone and now and gone <= known) or (is_addition and bool(added))


def _is_in_old_order(diff: str, moved: Sequence[str], text: str) -> bool:
    """Whether lines that moved are in a text where they were before: on the other side of the line that they passed."""
    rows = [line for line in diff.splitlines() if line[:1] in ("-", "+") and line[1:].strip() == moved[0]]
    if not (passed := passed_line(diff)):
        return rows[0][1:] in text.splitlines()
    lines = [normalise_source(line.strip()) for line in text.splitlines()]
    places = [
        lines.index(normalise_source(line)) if normalise_source(line) in lines else -1 for line in (*moved, passed)
    ]
    return min(places) >= 0 and (places[0] < places[-1]) == (rows[0][0] == "-")


def _used_names(code: str) -> set[str]:
    """Returns the functions, attributes and keyword arguments in a piece of Python: names that say what is done."""
    return set(_USED.findall(_STRINGS.sub(" ", code))) - set(keyword.kwlist)


def _names(code: str) -> set[str]:
    """Returns the names in a piece of Python, without strings, comments and keywords."""
    return {word for word in _WORDS.findall(_STRINGS.sub(" ", code)) if not keyword.iskeyword(word)}


def diff_changes(entry: str) -> list[Change]:
    """Returns the changes of code that the section *Fix* of an entry shows, one a file."""
    block = re.search(r"^```diff\n(.*?)^```", entry, re.MULTILINE | re.DOTALL)
    if block is None:
        return []
    parts = re.split(r"^(?=--- )", block[1], flags=re.MULTILINE)
    found = []
    for part in parts:
        name = re.search(r"^\+\+\+ (?:b/)?(\S.*)$", part, re.MULTILINE)
        if name is not None:
            found.append(Change("code", name[1].strip(), "", "", part))
    return found


def is_description(text: str, changes: Sequence[Change]) -> bool:
    """Whether the words of a fix are those of a person, not a list of its differences."""
    return bool(text) and not any(change.what in text for change in changes)
