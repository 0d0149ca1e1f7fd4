"""Lists the changes between two runs, with the likeliest causes of another result first."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labbook.capture.command import name_digest
from labbook.compare.code_changes import compare_code, make_change
from labbook.compare.run_settings import (
    INSTALLERS,
    STATES,
    as_recorded,
    captured_facts,
    collect_arguments,
    config_files,
    describe_file,
    environment_variables,
    files_below_top,
    files_used,
    format_value,
    is_parsed,
    list_rows,
    machine_facts,
)
from labbook.model.message import Message, as_data, message
from labbook.model.run import Change
from labbook.model.run_fields import flatten, parse_command

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor

_MAX_DIFF_LINES = 40
_MAX_OF_KIND = 40
_CUT = frozenset(("failed", "interrupted", "killed", "lost"))
_VARIABLES = ("dict", "constants", "attributes", "omegaconf")
"""Sources of settings that are variables of the program."""
_STATUSES = (
    *("capture.change.running", "capture.change.finished", "capture.change.failed"),
    *("capture.change.interrupted", "capture.change.killed", "capture.change.lost"),
)


def compare_runs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the differences between two runs.

    Args:
        before: The `run.json` of the earlier run.
        now: The `run.json` of the later run.

    Returns:
        Changes of arguments, configuration, code, inputs, environment, packages, hardware and the metric, in this
        order; of each kind at most 40 and a row that counts the rest. A fact that one run did not observe is no change.
    """
    now = as_recorded(now, before)
    arguments, configs = _arguments(before, now), _configs(before, now)
    code = compare_code(
        captured_facts(before, "code"),
        captured_facts(now, "code"),
        files_below_top(before, "written") | files_below_top(now, "written"),
        [files_used(side) for side in (before, now)],
    )
    parts = (
        arguments,
        configs,
        _without_configs(code, configs),
        _without_code(_inputs(before, now), code),
        _without_repeated_seeds(_states(before, now), arguments),
        _without_repeats(_environment(before, now), arguments),
        _packages(before, now),
        _hardware(before, now),
        _metric(before, now),
    )
    return [change for part in parts for change in _limit(part)]


def _without_configs(code: list[Change], configs: list[Change]) -> list[Change]:
    """Returns the changes of code without the configuration files that are listed with their lines already."""
    return [one for one in code if not any(f"/{config.what}".endswith(f"/{one.what}") for config in configs)]


def _without_code(inputs: list[Change], code: list[Change]) -> list[Change]:
    """Returns the changes of files that were read without those that are listed as code: the notebook of the run."""
    changed = {one.what for one in code}
    return [one for one in inputs if one.what not in changed]


def _without_repeats(variables: list[Change], arguments: list[Change]) -> list[Change]:
    """Returns the changes of variables without those that a setting of the same name and value lists already."""
    shown = {(change.what, change.now) for change in arguments}
    return [change for change in variables if (change.what, change.now) not in shown]


def _without_repeated_seeds(states: list[Change], arguments: list[Change]) -> list[Change]:
    """Returns the changes of states without the seeds of generators that an option of the program has set."""
    given = {(change.before, change.now) for change in arguments if "seed" in change.what.lower()}
    return [c for c in states if " seeds." not in c.what or (c.before, c.now) not in given]


def compare_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the differences of two runs in arguments, configuration, inputs, environment and packages; no code."""
    now = as_recorded(now, before)
    parts = (_arguments, _configs, _inputs, _states, _environment, _packages)
    return [change for part in parts for change in _limit(part(before, now))]


def mask_changes(changes: Sequence[Change], redactor: Redactor) -> list[Change]:
    """Returns the changes with secrets masked, also in values of options with a secret name."""
    return [_mask_change(change, redactor) for change in changes]


def _mask_change(change: Change, redactor: Redactor) -> Change:
    # The redactor knows plain data only: of a `Message` it would return the `repr`.
    messages = {side: as_data(one) for side, one in change.messages.items()}
    masked = redactor.data({**vars(change), "messages": messages})
    masked["messages"] = {side: Message(**one) for side, one in masked["messages"].items()}
    return Change(**masked)


def _limit(changes: list[Change]) -> list[Change]:
    if len(changes) <= _MAX_OF_KIND:
        return changes
    more = len(changes) - _MAX_OF_KIND
    return [
        *changes[:_MAX_OF_KIND],
        make_change(message("capture.change.more", count=more), "", "", kind=changes[0].kind),
    ]


def _compare_values(kind: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the changes of the values of two flat mappings, in the order of the later one."""
    changes = []
    for name in dict.fromkeys((*now, *before)):
        if name not in before:
            changes.append(Change(kind, name, "", format_value(now[name])))
        elif name not in now:
            changes.append(Change(kind, name, format_value(before[name]), ""))
        elif not _is_same(before[name], now[name]):
            changes.append(Change(kind, name, format_value(before[name]), format_value(now[name])))
    return changes


def _is_same(one: Any, other: Any) -> bool:  # noqa: ANN401 - JSON data
    return bool(one == other) or (isinstance(one, float) and isinstance(other, float) and one != one and other != other)


def _arguments(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the changes of parsed options if both runs have them, else of the command line."""
    parsed = [collect_arguments(run) for run in (before, now)]
    words = [parse_command(run.get("argv") or ()) for run in (before, now)]
    if not all(parsed):  # an imported run without parameters has no command either
        return _compare_values("argument", words[0], words[1]) if before.get("argv") and now.get("argv") else []
    written = {name.lstrip("-").replace("-", "_"): name for name in (*words[0], *words[1]) if name.startswith("-")}
    # Options have the name that the user types, `--lr`, not the name of the variable.
    named = [{written.get(name, name): value for name, value in values.items()} for values in parsed]
    changes = _compare_values("argument", named[0], named[1])
    # An option that a parser refused was given all the same.
    changes = [c for c in changes if c.what not in words[0] or words[0][c.what] != words[1].get(c.what)]
    unread = _unread_variables(before, now) | _unread_variables(now, before)
    changes = [c for c in changes if c.what not in unread or (c.before and c.now)]
    # Options on the command line that no parser knows (a launcher's) are compared too.
    known = {name for values in named for name in values}
    rest = [{n: v for n, v in w.items() if n.startswith("-") and n not in known} for w in words]
    extra = [c for c in _compare_values("argument", rest[0], rest[1]) if not is_parsed(c.what, known)]
    return changes + extra


def _unread_variables(run: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Returns the settings of the other run that this one ended too early to read.

    Those in variables are read at the first step; those of a trainer, such as `Model.fit`, when it is made or called.
    """
    own, theirs = ({str(row.get("source")) for row in list_rows(side, "arguments")} for side in (run, other))
    late = set(_VARIABLES) if run.get("status") in _CUT and own.isdisjoint(_VARIABLES) else set()
    rows = list_rows(other, "arguments")
    if _ended_before_training(run):
        late |= theirs - own - set(_VARIABLES)
        if not _ended_before_training(other):
            # At an exception other variables are in reach than at the first step.
            late, rows = late | set(_VARIABLES), [*rows, *list_rows(run, "arguments")]
    rows = [row for row in rows if row.get("source") in late]
    return {name for row in rows for name, _ in flatten(row.get("values") or {})}


def _configs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    old, new = config_files(before), config_files(now)
    if any(not texts and _ended_before_training(run) for texts, run in ((old, before), (new, now))):
        return []
    changes = []
    for path in dict.fromkeys((*new, *old)):
        if path not in old:
            changes.append(make_change(path, "", message("capture.change.read"), kind="config"))
        elif path not in new:
            changes.append(make_change(path, message("capture.change.read"), "", kind="config"))
        elif old[path] != new[path]:
            changes.append(_config(path, old[path], new[path]))
    return changes


def _ended_before_training(run: Mapping[str, Any]) -> bool:
    return run.get("status") in _CUT and not any(row.get("optimizers") for row in list_rows(run, "frameworks"))


def _config(path: str, before: str, now: str) -> Change:
    lines = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "before", "now", lineterm="", n=1))
    removed = [line[1:].strip() for line in lines[2:] if line.startswith("-")]
    added = [line[1:].strip() for line in lines[2:] if line.startswith("+")]
    detail = "\n".join(lines[:_MAX_DIFF_LINES])
    if len(lines) > _MAX_DIFF_LINES:
        detail += f"\n({len(lines) - _MAX_DIFF_LINES} more lines)"
    if len(removed) <= 1 and len(added) <= 1:
        return Change("config", path, format_value("".join(removed)), format_value("".join(added)), detail)
    lines_changed = message("capture.change.lines", added=len(added), removed=len(removed))
    return make_change(path, "", lines_changed, kind="config", detail=detail)


def _inputs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the changes of files that were only read; files that a run wrote are results, not inputs."""
    old, new = (_files_read(run) for run in (before, now))
    if not old or not new:
        return []
    configs = {str(row.get("path")) for run in (before, now) for row in list_rows(run, "configs")}
    rows = [row for run in (before, now) for row in list_rows(run, "files")]
    written = {str(row.get("path")) for row in rows if row.get("mode") != "read" and not row.get("before")}
    changes = []
    for path in dict.fromkeys((*new, *old)):
        one, other = old.get(path), new.get(path)
        if path in written or any(path == c or c.endswith(f"/{path}") for c in configs):
            continue
        if one is None or other is None:
            sides = ["" if row is None else describe_file(row) for row in (one, other)]
            changes.append(Change("input", path, sides[0], sides[1]))
        elif _fingerprints_differ(one, other):
            changes.append(Change("input", path, describe_file(one), describe_file(other)))
    return changes


def _files_read(run: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the files that a run read, by path; those that it wrote later as they were before."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in list_rows(run, "files"):
        if row.get("mode") == "read":
            found[str(row.get("path"))] = row
        elif row.get("before"):
            found[str(row.get("path"))] = {**row, "fingerprint": row["before"], "size_bytes": -1}
    return found


def _fingerprints_differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    prints = [str(r.get("fingerprint") or "") for r in (one, other)]
    if all(prints) and prints[0].partition(":")[0] == prints[1].partition(":")[0]:
        return prints[0] != prints[1]
    return one.get("size_bytes") != other.get("size_bytes") and -1 not in (
        one.get("size_bytes"),
        other.get("size_bytes"),
    )


def _states(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the changes of seeds, device, mode, mixed precision and determinism of each framework."""
    changes = []
    # Variables that determine results are compared as such.
    variables = {*(environment_variables(before) or ()), *(environment_variables(now) or ())}
    old = {str(f.get("name")): f for f in list_rows(before, "frameworks")}
    for framework in list_rows(now, "frameworks"):
        name, state = str(framework.get("name")), framework.get("state")
        known = old.get(name, {}).get("state")
        cut = {
            side
            for side, run, facts in (("before", before, old.get(name, {})), ("now", now, framework))
            if run.get("status") in _CUT and not facts.get("optimizers")
        }
        if not isinstance(state, Mapping) or not isinstance(known, Mapping):
            continue
        for key in STATES:
            if key in state and key in known:
                # No seed at all is an empty object: then the seeds of the other run are the difference.
                sides = [flatten({key: side[key]} if side[key] != {} else {}) for side in (known, state)]
                # A generator that was drawn from without a seed has `None`: no seed, either.
                shown = [{name: value for name, value in side if value is not None} for side in sides]
                changed = _compare_values("environment", shown[0], shown[1])
                changes += [
                    Change(c.kind, f"{name} {c.what}", c.before, c.now)
                    for c in changed
                    if ".rank" not in c.what
                    and c.what.partition(".")[2] not in variables
                    # A program that ended before it trained may have had no time to set it.
                    and all(getattr(c, side) not in ("", "False") for side in cut)
                ]
    return changes


def _environment(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    old, new = environment_variables(before), environment_variables(now)
    if old is None or new is None:
        return []
    changes = _compare_values("environment", old, new)
    # A variable that only one of the programs read may have been set for the other one, too.
    sides = {"before": before, "now": now}
    return [c for c in changes if all(getattr(c, side) or not _is_set(run, c.what) for side, run in sides.items())]


def _is_set(run: Mapping[str, Any], variable: str) -> bool:
    return name_digest(variable) in (captured_facts(run, "command").get("environment_set") or ())


def _packages(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    old, new = captured_facts(before, "python"), captured_facts(now, "python")
    if not old or not new:
        return []
    changes = _compare_values("package", {"python": old.get("version")}, {"python": new.get("version")})
    versions = [
        {name: version for name, version in (side.get("packages") or {}).items() if name not in INSTALLERS}
        for side in (old, new)
    ]
    used = {name for side in (old, new) for name in side.get("loaded") or ()}
    raised = " ".join(str(row.get("message")) for run in (before, now) for row in list_rows(run, "exceptions"))
    homes = {name: name for side in versions for name in side}
    for side in (old, new):
        homes |= {str(module): str(package) for module, package in (side.get("modules") or {}).items()}
    named = {package for name, package in homes.items() if _is_said(name, raised)}
    changed = [
        change
        for change in _compare_values("package", *versions)
        # Of a package that no program loaded, another version may matter: that of CUDA's libraries.
        if (change.before and change.now) or not used or change.what in used or change.what in named
    ]
    # What an exception names first, then what was loaded; a changed version explains more than an added or removed one.
    changes += sorted(
        changed, key=lambda c: (c.what not in named, c.what not in used, not (c.before and c.now), c.what)
    )
    for name in sorted({*(old.get("origins") or {}), *(new.get("origins") or {})} - INSTALLERS):
        commits = [str((side.get("origins") or {}).get(name, {}).get("commit") or "")[:9] for side in (old, new)]
        if commits[0] != commits[1] and all(commits):
            changes.append(Change("package", f"{name} (commit)", commits[0], commits[1]))
    return changes


def _is_said(name: str, text: str) -> bool:
    """Whether a text has the name of a package or module as a word; dashes and underscores are the same."""
    parts = "[-_.]".join(map(re.escape, re.split("[-_.]", name)))
    return re.search(rf"(?<![\w-]){parts}(?![\w-])", text, re.IGNORECASE) is not None


def _hardware(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    sides = [machine_facts(run) for run in (before, now)]
    both = [{k: v for k, v in side.items() if k in sides[0] and k in sides[1]} for side in sides]
    return _compare_values("hardware", both[0], both[1])


def _metric(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the changes of the status and of the last value of the primary series."""
    changes = []
    if before.get("status") != now.get("status") and before.get("status"):
        keys = [f"capture.change.{run.get('status')}" for run in (before, now)]
        ends = [message(key) if key in _STATUSES else key.rpartition(".")[2] for key in keys]
        changes.append(make_change(message("capture.change.status"), ends[0], ends[1], kind="metric"))
    name = str(now.get("primary") or before.get("primary") or "loss")
    values = [_last_value(run, name) for run in (before, now)]
    if None not in values and not _is_same(values[0], values[1]):
        changes.append(Change("metric", f"{name} (last)", format_value(values[0]), format_value(values[1])))
    return changes


def _last_value(run: Mapping[str, Any], name: str) -> float | None:
    for series in list_rows(run, "series"):
        values: Sequence[Any] = series.get("values") or ()
        if series.get("name") == name and values:
            try:
                number = float(values[-1])
            except (TypeError, ValueError):
                return None
            return math.nan if number != number else number
    return None
