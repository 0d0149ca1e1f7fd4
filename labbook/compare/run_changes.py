"""What changed since the previous run of the same script, the likeliest causes of another result first."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labbook.compare.code_changes import code_changes
from labbook.compare.run_settings import (
    STATES,
    captured,
    environment_variables,
    file_text,
    flat,
    format_value,
    is_parsed,
    machine_facts,
    parse_command,
    parsed_arguments,
    rows,
    written_files,
)
from labbook.model.run import Change

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor

_MAX_DIFF_LINES = 40
_MAX_OF_KIND = 40


def changes_between(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """The differences between two runs, as their `run.json` tells them.

    Args:
        before: The earlier run.
        now: The later run.

    Returns:
        Arguments, configuration, code, inputs, environment, packages, hardware and the metric, in this order; each kind
        cut at 40 with a row that says how many more there are. What one of the runs did not observe is no change.
    """
    parts = (
        _arguments(before, now),
        _configs(before, now),
        code_changes(captured(before, "code"), captured(now, "code"), written_files(before) | written_files(now)),
        _inputs(before, now),
        _states(before, now),
        _environment(before, now),
        _packages(before, now),
        _hardware(before, now),
        _metric(before, now),
    )
    return [change for part in parts for change in _bounded(part)]


def masked_changes(changes: Sequence[Change], redactor: Redactor) -> list[Change]:
    """The changes with secrets masked: in their texts, and in both values of an option with a secret-looking name."""
    return [Change(**redactor.data(vars(change))) for change in changes]


def _bounded(changes: list[Change]) -> list[Change]:
    if len(changes) <= _MAX_OF_KIND:
        return changes
    more = len(changes) - _MAX_OF_KIND
    return [*changes[:_MAX_OF_KIND], Change(changes[0].kind, f"and {more} more", "", "")]


def _compared(kind: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Changes of the values of two flat mappings, in the order of the later one."""
    found = []
    for name in dict.fromkeys((*now, *before)):
        if name not in before:
            found.append(Change(kind, name, "", format_value(now[name])))
        elif name not in now:
            found.append(Change(kind, name, format_value(before[name]), ""))
        elif not _same(before[name], now[name]):
            found.append(Change(kind, name, format_value(before[name]), format_value(now[name])))
    return found


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401 - JSON data
    return bool(one == other) or (isinstance(one, float) and isinstance(other, float) and one != one and other != other)


def _arguments(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Parsed options where both runs have them, else the words of the command line."""
    parsed = [parsed_arguments(run) for run in (before, now)]
    words = [parse_command(run.get("argv") or ()) for run in (before, now)]
    if not all(parsed):
        return _compared("argument", words[0], words[1])
    written = {name.lstrip("-").replace("-", "_"): name for name in (*words[0], *words[1]) if name.startswith("-")}
    # An option is called as the user types it, `--lr`, not by the name of its variable.
    named = [{written.get(name, name): value for name, value in values.items()} for values in parsed]
    found = _compared("argument", named[0], named[1])
    # What stands on the command line but in no parser (a launcher's options) is compared too.
    known = {name for values in named for name in values}
    rest = [{n: v for n, v in w.items() if n.startswith("-") and n not in known} for w in words]
    extra = [c for c in _compared("argument", rest[0], rest[1]) if not is_parsed(c.what, known)]
    return found + extra


def _configs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    old = {str(row.get("path")): row for row in rows(before, "configs")}
    new = {str(row.get("path")): row for row in rows(now, "configs")}
    found = []
    for path in dict.fromkeys((*new, *old)):
        if path not in old:
            found.append(Change("config", path, "", "read"))
        elif path not in new:
            found.append(Change("config", path, "read", ""))
        elif old[path].get("text") != new[path].get("text"):
            found.append(_config(path, str(old[path].get("text") or ""), str(new[path].get("text") or "")))
    return found


def _config(path: str, before: str, now: str) -> Change:
    lines = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "before", "now", lineterm="", n=1))
    removed = [line[1:].strip() for line in lines[2:] if line.startswith("-")]
    added = [line[1:].strip() for line in lines[2:] if line.startswith("+")]
    detail = "\n".join(lines[:_MAX_DIFF_LINES])
    if len(lines) > _MAX_DIFF_LINES:
        detail += f"\n({len(lines) - _MAX_DIFF_LINES} more lines)"
    if len(removed) <= 1 and len(added) <= 1:
        return Change("config", path, format_value("".join(removed)), format_value("".join(added)), detail)
    return Change("config", path, "", f"+{len(added)} -{len(removed)} lines", detail)


def _inputs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Files that were read by both and differ, or by one only; what a run itself wrote is a result, not an input."""
    old, new = ({str(r.get("path")): r for r in rows(run, "files") if r.get("mode") == "read"} for run in (before, now))
    if not old or not new:
        return []
    configs = {str(row.get("path")) for run in (before, now) for row in rows(run, "configs")}
    written = {str(r.get("path")) for run in (before, now) for r in rows(run, "files") if r.get("mode") != "read"}
    found = []
    for path in dict.fromkeys((*new, *old)):
        one, other = old.get(path), new.get(path)
        if path in written or any(path == c or c.endswith(f"/{path}") for c in configs):
            continue
        if one is None or other is None:
            found.append(
                Change("input", path, "" if one is None else file_text(one), "" if other is None else file_text(other))
            )
        elif _prints_differ(one, other):
            found.append(Change("input", path, file_text(one), file_text(other)))
    return found


def _prints_differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    prints = [str(r.get("fingerprint") or "") for r in (one, other)]
    if all(prints) and prints[0].partition(":")[0] == prints[1].partition(":")[0]:
        return prints[0] != prints[1]
    return one.get("size_bytes") != other.get("size_bytes") and -1 not in (
        one.get("size_bytes"),
        other.get("size_bytes"),
    )


def _states(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Seeds, device, mode, mixed precision and determinism, where both runs observed the same framework."""
    found = []
    old = {str(f.get("name")): f.get("state") for f in rows(before, "frameworks")}
    for framework in rows(now, "frameworks"):
        name, state = str(framework.get("name")), framework.get("state")
        known = old.get(name)
        if not isinstance(state, Mapping) or not isinstance(known, Mapping):
            continue
        for key in STATES:
            if key in state and key in known:
                # No seed at all is an empty object: the seeds of the other run are then what differs.
                sides = [flat({key: side[key]} if side[key] != {} else {}) for side in (known, state)]
                changed = _compared("environment", dict(sides[0]), dict(sides[1]))
                found += [Change(c.kind, f"{name} {c.what}", c.before, c.now) for c in changed if ".rank" not in c.what]
    return found


def _environment(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    old, new = environment_variables(before), environment_variables(now)
    return _compared("environment", old, new) if old is not None and new is not None else []


def _packages(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    old, new = captured(before, "python"), captured(now, "python")
    if not old or not new:
        return []
    found = _compared("package", {"python": old.get("version")}, {"python": new.get("version")})
    changed = _compared("package", old.get("packages") or {}, new.get("packages") or {})
    # A version that changed explains more than a package that came or went.
    found += sorted(changed, key=lambda c: (not (c.before and c.now), c.what))
    for name in sorted({*(old.get("origins") or {}), *(new.get("origins") or {})}):
        commits = [str((side.get("origins") or {}).get(name, {}).get("commit") or "")[:9] for side in (old, new)]
        if commits[0] != commits[1] and all(commits):
            found.append(Change("package", f"{name} (commit)", commits[0], commits[1]))
    return found


def _hardware(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    sides = [machine_facts(run) for run in (before, now)]
    both = [{k: v for k, v in side.items() if k in sides[0] and k in sides[1]} for side in sides]
    return _compared("hardware", both[0], both[1])


def _metric(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Last value of the series that stands for the runs, and how the earlier one ended where that differs."""
    found = []
    if before.get("status") != now.get("status") and before.get("status"):
        found.append(Change("metric", "status", str(before.get("status")), str(now.get("status"))))
    name = str(now.get("primary") or before.get("primary") or "loss")
    values = [_last(run, name) for run in (before, now)]
    if None not in values and not _same(values[0], values[1]):
        found.append(Change("metric", f"{name} (last)", format_value(values[0]), format_value(values[1])))
    return found


def _last(run: Mapping[str, Any], name: str) -> float | None:
    for series in rows(run, "series"):
        values: Sequence[Any] = series.get("values") or ()
        if series.get("name") == name and values:
            try:
                number = float(values[-1])
            except (TypeError, ValueError):
                return None
            return math.nan if number != number else number
    return None
