"""The output section of an entry: lines with errors or warnings, then the end, then the beginning."""

from __future__ import annotations

import re
from typing import Any

from labbook.model.run import Run
from labbook.probe.redaction.redactor import PATH_RULES
from labbook.report.ending_exception import ending_exception, shorten_path
from labbook.report.entry.section_limits import Limits, shorten_middle

_TROUBLE = re.compile(
    r"\b(?:error|exception|traceback|failed|failure|fatal|abort(?:ed)?|killed|out of memory|oom|nan detected"
    r"|segmentation fault|core dumped|cannot|not found|no such file|permission denied)\b"
    r"|错误|失败|异常|[A-Z]\w*(?:Error|Exception)\b",
    re.IGNORECASE,
)
CONSOLE_FILE = "console.txt"
MOST_INLINE = 256 * 1024
"""Most characters of the output in `run.json`; a longer one is in a file of its own. Source: chosen by us."""
_MAX_LINE = 400
_TROUBLE_LINES = 8
_SHORT = 12
"""Output with at most this many lines has no list of errors."""


def console_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns output and warnings of the program, or `None`."""
    lines = run.console.text.rstrip("\n").split("\n") if run.console.text.strip() else []
    warnings = [
        {
            "category": str(w.get("category") or ""),
            "message": shorten_middle(str(w.get("message") or "").strip().split("\n")[0], 2 * limits.cell),
            "place": f"{shorten_path(str(w['file']), run)}:{w.get('line')}" if w.get("file") else "",
        }
        for w in run.warnings[: min(10, limits.rows)]
    ]
    if not lines and not warnings:
        return None
    last = _take_fitting(lines[-limits.console_lines :], limits.console_bytes, from_end=True)
    rest = lines[: len(lines) - len(last)]
    head = _take_fitting(rest[: limits.console_head], max(0, limits.console_bytes // 4), from_end=False) if rest else []
    total = max(run.console.lines, len(lines))
    masked = {str(rule): int(n) for rule, n in run.console.redactions.items()}
    return {
        "trouble": _error_excerpt(run, lines, limits) if total > _SHORT else "",
        "open": total <= _SHORT and run.status == "failed" and ending_exception(run) is None,
        "last": "\n".join(last),
        "last_count": len(last),
        "total": total,
        "head": "\n".join(head),
        "head_count": len(head),
        "whole": len(last) == len(lines) and not run.console.left_out,
        "left_out": run.console.left_out,
        "file": f"{run.id}/{CONSOLE_FILE}" if len(run.console.text) > MOST_INLINE else "",
        "secrets": ", ".join(f"{rule} {n}" for rule, n in sorted(masked.items()) if rule not in PATH_RULES),
        "paths": sum(n for rule, n in masked.items() if rule in PATH_RULES),
        "warnings": warnings,
        "more_warnings": max(0, len(run.warnings) - len(warnings)),
    }


def _take_fitting(lines: list[str], n_bytes: int, *, from_end: bool) -> list[str]:
    """Returns as many lines as fit, from one end; a very long line is shortened in the middle."""
    chosen: list[str] = []
    used = 0
    for line in reversed(lines) if from_end else lines:
        shown = shorten_middle(line.rstrip("\r"), _MAX_LINE)
        used += len(shown.encode("utf-8", "replace")) + 1
        if used > n_bytes:
            break
        chosen.append(shown)
    return chosen[::-1] if from_end else chosen


def _error_excerpt(run: Run, lines: list[str], limits: Limits) -> str:
    """Returns the last lines with an error, if the command failed without a caught exception."""
    if run.status not in ("failed", "killed", "lost") or ending_exception(run) is not None or not limits.console_bytes:
        return ""
    marked = [shorten_middle(line.strip(), _MAX_LINE) for line in lines if _TROUBLE.search(line[:2000])]
    distinct = list(dict.fromkeys(marked))
    return "\n".join(distinct[-_TROUBLE_LINES:])
