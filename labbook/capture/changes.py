"""What changed since the previous run of the same script, the likeliest causes of another result first."""

from __future__ import annotations

import difflib
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.capture.changes_code import code_changes
from labbook.model.run import Change

_MAX_VALUE = 120
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
        code_changes(_captured(before, "code"), _captured(now, "code"), _results(before) | _results(now)),
        _inputs(before, now),
        _states(before, now),
        _environment(before, now),
        _packages(before, now),
        _hardware(before, now),
        _metric(before, now),
    )
    return [change for part in parts for change in _bounded(part)]


def _results(run: Mapping[str, Any]) -> set[str]:
    """Files that a run wrote, relative to the top folder of its code."""
    top, cwd = str(_captured(run, "code").get("top") or ""), str(run.get("cwd") or "")
    written = (str(row.get("path")) for row in _rows(run, "files") if row.get("mode") == "written")
    places = (path if path.startswith(("/", "~")) else f"{cwd}/{path}" for path in written)
    return {place.removeprefix(f"{top}/") for place in places if place.startswith(f"{top}/")}


def _bounded(changes: list[Change]) -> list[Change]:
    if len(changes) <= _MAX_OF_KIND:
        return changes
    more = len(changes) - _MAX_OF_KIND
    return [*changes[:_MAX_OF_KIND], Change(changes[0].kind, f"and {more} more", "", "")]


def _captured(run: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    captured = run.get("captured")
    facts = captured.get(name) if isinstance(captured, Mapping) else None
    return facts if isinstance(facts, Mapping) and "unavailable" not in facts else {}


def _rows(run: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    rows = run.get(name)
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, (list, tuple)) else []


def shown(value: Any) -> str:  # noqa: ANN401 - JSON data
    """A value as it stands in a table: short, a string without quotes."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"


def _compared(kind: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Changes of the values of two flat mappings, in the order of the later one."""
    found = []
    for name in dict.fromkeys((*now, *before)):
        if name not in before:
            found.append(Change(kind, name, "", shown(now[name])))
        elif name not in now:
            found.append(Change(kind, name, shown(before[name]), ""))
        elif not _same(before[name], now[name]):
            found.append(Change(kind, name, shown(before[name]), shown(now[name])))
    return found


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401 - JSON data
    return bool(one == other) or (isinstance(one, float) and isinstance(other, float) and one != one and other != other)


def _arguments(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Parsed options where both runs have them, else the words of the command line."""
    parsed = [_parsed(run) for run in (before, now)]
    words = [_options(run) for run in (before, now)]
    if not all(parsed):
        return _compared("argument", words[0], words[1])
    written = {name.lstrip("-").replace("-", "_"): name for name in (*words[0], *words[1]) if name.startswith("-")}
    # An option is called as the user types it, `--lr`, not by the name of its variable.
    named = [{written.get(name, name): value for name, value in values.items()} for values in parsed]
    found = _compared("argument", named[0], named[1])
    # What stands on the command line but in no parser (a launcher's options) is compared too.
    known = {name for values in named for name in values}
    rest = [{n: v for n, v in w.items() if n.startswith("-") and n not in known} for w in words]
    extra = [c for c in _compared("argument", rest[0], rest[1]) if not _is_parsed(c.what, known)]
    return found + extra


def _is_parsed(option: str, known: set[str]) -> bool:
    """Whether a parser has this option under a longer or another name (`-b` for `batch_size`)."""
    bare = option.lstrip("-").replace("-", "_")
    return bare in known or any(name.lstrip("-").startswith(bare) for name in known)


def _parsed(run: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for arguments in _rows(run, "arguments"):
        given = arguments.get("values")
        if isinstance(given, Mapping):
            for name, value in _flat(given):
                values.setdefault(name, value)
    return values


def _flat(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value and depth < 6:
            flat += _flat(value, f"{prefix}{name}.", depth + 1)
        else:
            flat.append((f"{prefix}{name}", value))
    return flat


def _options(run: Mapping[str, Any]) -> dict[str, Any]:
    """The words of the command line: options with their values, the rest by position."""
    argv = [str(word) for word in run.get("argv") or ()]
    options: dict[str, Any] = {}
    plain: list[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        if word.startswith("-") and len(word) > 1 and not _is_number(word):
            name, equals, value = word.partition("=")
            if not equals and at < len(argv) and (not argv[at].startswith("-") or _is_number(argv[at])):
                value = argv[at]
                at += 1
            options[name] = f"{options[name]} {value}" if name in options else value or "given"
        else:
            plain.append(word)
    if plain:
        options["command"] = shlex.join(plain)
    return options


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _configs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    old = {str(row.get("path")): row for row in _rows(before, "configs")}
    new = {str(row.get("path")): row for row in _rows(now, "configs")}
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
        return Change("config", path, shown("".join(removed)), shown("".join(added)), detail)
    return Change("config", path, "", f"+{len(added)} -{len(removed)} lines", detail)


def _inputs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Files that were read by both and differ, or by one only; what a run itself wrote is a result, not an input."""
    old, new = (
        {str(r.get("path")): r for r in _rows(run, "files") if r.get("mode") == "read"} for run in (before, now)
    )
    if not old or not new:
        return []
    configs = {str(row.get("path")) for run in (before, now) for row in _rows(run, "configs")}
    written = {str(r.get("path")) for run in (before, now) for r in _rows(run, "files") if r.get("mode") != "read"}
    found = []
    for path in dict.fromkeys((*new, *old)):
        one, other = old.get(path), new.get(path)
        if path in written or any(path == c or c.endswith(f"/{path}") for c in configs):
            continue
        if one is None or other is None:
            found.append(
                Change("input", path, "" if one is None else _file(one), "" if other is None else _file(other))
            )
        elif _prints_differ(one, other):
            found.append(Change("input", path, _file(one), _file(other)))
    return found


def _prints_differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    prints = [str(r.get("fingerprint") or "") for r in (one, other)]
    if all(prints) and prints[0].partition(":")[0] == prints[1].partition(":")[0]:
        return prints[0] != prints[1]
    return one.get("size_bytes") != other.get("size_bytes") and -1 not in (
        one.get("size_bytes"),
        other.get("size_bytes"),
    )


def _file(row: Mapping[str, Any]) -> str:
    size = row.get("size_bytes")
    count = int(row.get("members") or 1)
    text = f"{size:,} bytes" if isinstance(size, int) and size >= 0 else "size not known"
    text = f"{count:,} files, {text}" if count > 1 else text
    kind, _, digest = str(row.get("fingerprint") or "").partition(":")
    return f"{text}, {kind} {digest[:8]}" if digest else text


def _states(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Seeds, device, mode, mixed precision and determinism, where both runs observed the same framework."""
    found = []
    old = {str(f.get("name")): f.get("state") for f in _rows(before, "frameworks")}
    for framework in _rows(now, "frameworks"):
        name, state = str(framework.get("name")), framework.get("state")
        known = old.get(name)
        if not isinstance(state, Mapping) or not isinstance(known, Mapping):
            continue
        for key in ("seeds", "device", "mode", "amp", "deterministic", "distributed"):
            if key in state and key in known:
                # No seed at all is an empty object: the seeds of the other run are then what differs.
                sides = [_flat({key: side[key]} if side[key] != {} else {}) for side in (known, state)]
                changed = _compared("environment", dict(sides[0]), dict(sides[1]))
                found += [Change(c.kind, f"{name} {c.what}", c.before, c.now) for c in changed if ".rank" not in c.what]
    return found


_VOLATILE = ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "CUDA_CACHE_PATH")
"""Variables that differ in every run and mean nothing."""


def _environment(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    sides = [_captured(run, "command").get("environment") for run in (before, now)]
    if not all(isinstance(side, Mapping) for side in sides):
        return []
    clean = [{n: v for n, v in (side or {}).items() if n not in _VOLATILE} for side in sides]
    return _compared("environment", clean[0], clean[1])


def _packages(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    old, new = _captured(before, "python"), _captured(now, "python")
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
    sides = []
    for run in (before, now):
        facts = _captured(run, "hardware")
        names = [str(gpu.get("name")) for gpu in facts.get("gpus") or () if isinstance(gpu, Mapping)]
        side = {key: facts[key] for key in ("cpu", "cores", "driver", "os") if facts.get(key)}
        memory = facts.get("memory_limit_bytes") or facts.get("memory_bytes")
        if isinstance(memory, int):
            side["memory"] = f"{memory / 2**30:.1f} GiB"
        if facts:
            side["gpus"] = ", ".join(f"{names.count(n)} x {n}" for n in dict.fromkeys(names)) or "none"
            side["host"] = str(run.get("host") or "")
        container = _captured(run, "container")
        if container:
            side["container"] = str(container.get("image_id") or container.get("image") or container.get("kind") or "")
        sides.append(side)
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
        found.append(Change("metric", f"{name} (last)", shown(values[0]), shown(values[1])))
    return found


def _last(run: Mapping[str, Any], name: str) -> float | None:
    for series in _rows(run, "series"):
        values: Sequence[Any] = series.get("values") or ()
        if series.get("name") == name and values:
            try:
                number = float(values[-1])
            except (TypeError, ValueError):
                return None
            return math.nan if number != number else number
    return None
