"""Sections of an entry on configuration, code, files, resources, and data that was not observed."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from labbook.model.message import message
from labbook.model.run import Arguments, Facts, Process, Run
from labbook.model.run_fields import flatten, ray_node
from labbook.report import numbers
from labbook.report.ending_exception import crashed_programs, shorten_path
from labbook.report.entry.entry_front_matter import UNCHANGED, names_of_library, parameter_rank
from labbook.report.entry.section_limits import Limits, shorten_middle
from labbook.report.series_choice import step_time_series
from labbook.store.text.sentences import Sentences


def configuration_section(run: Run, limits: Limits, say: Sentences) -> dict[str, Any]:
    """Returns command line, parsed options, their check, configuration files and permitted environment variables."""
    command = run.facts("command")
    texts, left = [], limits.config_bytes
    for config in run.configs:
        text = config.text.rstrip("\n")
        shown = text[: max(0, left)]
        left -= len(shown)
        texts.append(
            {
                "path": shorten_path(config.path, run),
                "format": config.format,
                "text": shown,
                "cut": config.truncated or len(shown) < len(text),
            }
        )
    variables = command.get("environment")
    trainings = run.facts("trainings").get("rows") or ()
    differing = {str(name) for row in trainings for name in row.get("params") or ()}
    return {
        "command": shorten_middle(
            str(command.get("line") or "") or shlex.join(run.argv), 2_000 if limits.config_bytes else 500
        ),
        "folder": run.cwd,
        "arguments": [
            _arguments(a, limits, differing)
            for a in _without_repeats(_of_first_training(run.arguments[:10]) if trainings else run.arguments[:10])
        ],
        "rows": [
            {"certainty": str(row.get("certainty")), "text": shorten_middle(say(row["message"]), 2 * limits.cell)}
            for row in configuration_rows(run)
        ],
        "configs": texts[: limits.rows],
        "variables": "\n".join(
            f"{shorten_middle(str(name), limits.cell)}={shorten_middle(str(value), limits.cell)}"
            for name, value in list((variables if isinstance(variables, Mapping) else {}).items())[: limits.rows]
        ),
    }


def configuration_rows(run: Run) -> list[Mapping[str, Any]]:
    """Returns the rows of the check of the configuration, each with "certainty" and "message"."""
    rows = run.facts("configuration").get("rows")
    return [row for row in rows or () if isinstance(row, Mapping) and isinstance(row.get("message"), Mapping)]


_FEW_OPTIONS = 15
_LITERALS: dict[str, object] = {"None": None, "True": True, "False": False}


def _show_value(value: object) -> str:
    is_plain = value is None or isinstance(value, (str, int, float))
    return str(numbers.without_noise(value)) if is_plain else json.dumps(value, ensure_ascii=False, default=str)


def _of_first_training(arguments: Sequence[Arguments]) -> list[Arguments]:
    """Returns the options without what a variable held in later trainings."""
    return list({(one.source, one.name): one for one in reversed(arguments)}.values())[::-1]


def _without_repeats(arguments: Sequence[Arguments]) -> list[Arguments]:
    """Returns the options without those that an earlier source has all, and a parser without those of a Trainer."""
    of_library = names_of_library(arguments)
    own = [
        replace(one, values={name: one.values[name] for name in one.values if name not in of_library}, unchanged=())
        if of_library.intersection(one.values) and one.source == "argparse"
        else one
        for one in arguments
    ]
    return [
        parsed
        for at, parsed in enumerate(own)
        if not parsed.values or not any(parsed.values.items() <= one.values.items() for one in own[:at])
    ]


def _arguments(parsed: Arguments, limits: Limits, differing: AbstractSet[str]) -> dict[str, Any]:
    """Returns the options of one source; of many those without a value are only counted.

    Args:
        differing: Names of the options in which the trainings of the program differ.
    """
    flat = shown = [(name, _show_value(value)) for name, value in flatten(parsed.values)]
    if len(flat) > _FEW_OPTIONS:
        shown = [row for row in flat if row[1] != "None"]
    if len(flat) > limits.rows:
        ranks = {
            name: parameter_rank(name, _LITERALS.get(value, value), parsed.is_default(name)) for name, value in flat
        }
        shown = sorted((row for row in shown if ranks[row[0]] < UNCHANGED), key=lambda row: ranks[row[0]])[
            : limits.rows
        ]
    return {
        "source": parsed.source,
        "name": parsed.name,
        "of_first": not differing.isdisjoint(name for name, _ in flat),
        "rows": [{"name": shorten_middle(k, limits.cell), "value": shorten_middle(v, limits.cell)} for k, v in shown],
        "more": len(flat) - len(shown),
    }


def code_section(run: Run, limits: Limits, say: Sentences) -> dict[str, Any] | None:
    """Returns the state of the user's code, or `None` if unknown."""
    code = run.facts("code")
    if not code:
        return None
    changed = [f for f in code.get("files_changed") or () if isinstance(f, Mapping)]
    untracked = [_name(u) for u in code.get("untracked") or ()]
    rows = [_changed_file(f, limits) for f in changed[: limits.rows]]
    room = max(0, limits.rows - len(rows))
    rows += [
        {"path": shorten_middle(path, limits.cell), "status": "new", "added": None, "removed": None}
        for path in untracked[:room]
    ]
    note = str(code.get("patch_note") or "")
    notes = [one for one in code.get("patch_note_messages") or () if isinstance(one, Mapping)]
    if notes:
        note = say(message("capture.patch.sentences", sentences=notes), note)

    def shorten_names(items: Sequence[Any] | None) -> list[str]:
        return [shorten_middle(_name(one), limits.cell) for one in items or ()][: limits.rows]

    return {
        "repository": bool(code.get("repository", True)),
        "commit": str(code.get("commit") or ""),
        "branch": str(code.get("branch") or ""),
        "detached": bool(code.get("detached")),
        "state": str(code.get("state") or ""),
        "remote": str(code.get("remote") or ""),
        "dirty": code.get("dirty"),
        "results": shorten_names(code.get("results")),
        "rows": rows,
        "more": max(0, len(changed) + len(untracked) - len(rows)),
        "patch": str(code.get("patch") or ""),
        "patch_note": shorten_middle(note, 1000),
        # The note names these files.
        "withheld": shorten_names(None if note else code.get("withheld")),
        "binaries": shorten_names(None if note else code.get("binaries")),
        "folder": run.captured_in,
    }


_STATUSES = {
    "M": "modified",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type changed",
    "U": "unmerged",
}
"""Status letters of git. Source: git-diff, `--diff-filter`."""


def _changed_file(facts: Facts, limits: Limits) -> dict[str, Any]:
    status = str(facts.get("status") or "")
    return {
        "path": shorten_middle(str(facts.get("path") or ""), limits.cell),
        "status": _STATUSES.get(status[:1], status),
        "added": facts.get("added"),
        "removed": facts.get("removed"),
    }


def _name(item: object) -> str:
    return str(item.get("path") if isinstance(item, Mapping) else item)


def resources_section(run: Run) -> dict[str, Any] | None:
    """Returns time and memory of the run, or `None` if nothing was measured."""
    used = run.facts("resources")
    rows: list[dict[str, Any]] = [{"what": "duration", "value": numbers.duration(run.duration_s)}] if run.ended else []
    rows += _step_times(run)
    rows += _phases(run)
    cores, cpu = used.get("cpu_mean_cores"), used.get("cpu_s")
    if isinstance(cpu, (int, float)):
        shown = numbers.number(cores, 3) if isinstance(cores, (int, float)) else ""
        rows += [{"what": "cpu", "value": numbers.duration(cpu), "cores": shown}]
    peak = used.get("peak_rss_bytes")
    if isinstance(peak, (int, float)) and peak > 0:
        rows.append(
            {"what": "memory", "value": numbers.size(peak), "twice": bool(used.get("peak_counts_shared_twice"))}
        )
    for gpu in used.get("gpus") or ():
        rows.append(_gpu(gpu))
    trials = run.facts("trials")  # their steps are in their own entries
    seen = [p for p in run.processes if p.probed]
    people = [p for p in run.processes if p.role != "fork"]
    crashed = crashed_programs(run)
    if len(rows) <= 1 and len(people) <= 1:
        return None
    return {
        "rows": rows,
        "processes": [
            {**_process(p, has_steps=not trials), "error": crashed[p.pid].type if p.pid in crashed else ""}
            for p in people[: 32 if len(people) > 1 else 0]
        ],
        "ranked": any(p.rank is not None for p in people),
        "more_processes": max(0, len(people) - 32),
        "forks": sum(p.role == "fork" for p in seen),
    }


def _phases(run: Run) -> list[dict[str, Any]]:
    """Returns the phases of a step, the longest first; none where a closure runs some of them in the optimizer."""
    if any(facts.get("closure") for framework in run.frameworks for facts in framework.optimizers):
        return []
    found = run.health.get("phases")
    phases = {k: v for k, v in found.items() if isinstance(v, (int, float))} if isinstance(found, Mapping) else {}
    parts = {name: phases[name] for name in ("data", "forward", "backward", "optimizer", "other") if name in phases}
    whole = sum(parts.values())
    if whole <= 0:
        return []
    shares = sorted(((seconds / whole, name) for name, seconds in parts.items() if seconds > 0), reverse=True)
    return [{"what": "phases", "parts": [{"name": name, "share": numbers.percent(share)} for share, name in shares]}]


def _step_times(run: Run) -> list[dict[str, str]]:
    """Returns the step time of the run and that of its slow steps."""
    series = step_time_series(run)
    if series is None:
        return []
    values = sorted(v for v in series.values if math.isfinite(v))
    return [
        {
            "what": "step_time",
            "value": numbers.duration(series.median or 0.0),
            "slow": numbers.duration(values[min(len(values) - 1, int(0.95 * len(values)))]),
            "steps": numbers.count(series.count or len(values)),
        }
    ]


def _gpu(gpu: Facts) -> dict[str, str]:
    busy, peak, own = (gpu.get(k) for k in ("mean_utilisation_percent", "peak_memory_bytes", "own_peak_memory_bytes"))
    return {
        "what": "gpu",
        "value": str(gpu.get("index", "")),
        "own": numbers.size(own) if isinstance(own, (int, float)) else "",
        "peak": numbers.size(peak) if isinstance(peak, (int, float)) else "",
        "busy": f"{numbers.number(busy, 3)} %" if isinstance(busy, (int, float)) else "",
    }


def _process(process: Process, *, has_steps: bool) -> dict[str, Any]:
    argv = [word.rpartition("/site-packages/")[2] for word in process.argv]
    if argv and argv[0] == process.executable:
        argv[0] = PurePosixPath(argv[0]).name
    if ray_node(process.argv):
        argv = [*(word for word in argv if not word.startswith("--")), f"--node-id={ray_node(process.argv)[:8]}"]
    return {
        "rank": process.rank,
        "pid": process.pid,
        "command": shorten_middle(" ".join(argv), 80),
        "steps": process.steps if has_steps else None,
        "duration": numbers.duration(process.elapsed_s),
        "probed": process.probed,
        "version": process.version,
    }


def unobserved_section(run: Run, limits: Limits, failed: Sequence[tuple[str, str]] = ()) -> dict[str, Any] | None:
    """Returns data that was not observed, with reasons, or `None`: missing probe, signals, sources, failures.

    Args:
        failed: More rows, as (what, reason).
    """
    rows = [{"what": what, "key": "", "reason": reason} for what, reason in failed]
    if run.probe.status == "absent" and run.status != "running":
        rows.append({"what": "probe", "key": "probe_absent", "reason": ""})
    rows += [{"what": what, "key": "", "reason": reason} for what, reason in run.probe.unobserved]
    for framework in run.frameworks:
        rows += [{"what": f"{framework.name}: {k}", "key": "", "reason": str(v)} for k, v in framework.declined.items()]
    for source, facts in run.captured.items():
        # A missing lock file is part of the verdict on reproducibility.
        if facts.get("unavailable") and source != "lockfiles":
            rows.append({"what": source, "key": "source", "reason": str(facts["unavailable"])})
    errors = [
        {"where": w, "error": shorten_middle(e, limits.cell), "count": c} for w, e, c in run.probe.errors[: limits.rows]
    ]
    if not rows and not errors:
        return None
    shown = [
        {
            **row,
            "what": shorten_middle(row["what"], limits.cell),
            "reason": shorten_middle(row["reason"], 2 * limits.cell),
        }
        for row in rows
    ]
    return {"rows": shown[: limits.rows], "more": max(0, len(shown) - limits.rows), "errors": errors}
