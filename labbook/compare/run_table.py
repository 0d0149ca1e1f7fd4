"""Compares several runs: facts of each run as flat texts, and a table of their differences.

The terminal's table is built here. The site builds it in the browser from the same facts by the same rules
(`templates/site/assets/compare.js`); a test compares both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.compare.model_facts import common_modules, deepest_module, model_facts
from labbook.compare.run_settings import (
    INSTALLERS,
    STATES,
    captured_facts,
    collect_arguments,
    config_files,
    describe_file,
    environment_variables,
    files_below_top,
    format_value,
    is_parsed,
    list_rows,
    machine_facts,
)
from labbook.frozen import dataclass
from labbook.model.message import Message, message
from labbook.model.run_fields import flatten, parse_command
from labbook.store.text.sentences import Sentences

KINDS = ("argument", "config", "code", "model", "input", "environment", "package", "hardware")
"""Kinds of facts in the order of the table: the likeliest causes of another result first."""

MAX_ROWS = 60
"""Maximum rows of one kind. Source: chosen by us; runs that differ in more packages are on different machines."""

_ENGLISH = Sentences("en")
_MAX_CONFIG_BYTES = 8_000
_MAX_FACTS = 800
_MAX_LINES = 6
HEADS = ("repository", "commit", "branch")
"""Names of the kind "code" that are no files."""
WORDS = {
    "repository": "capture.state.repository",
    "commit": "capture.state.commit",
    "branch": "capture.state.branch",
    "as committed": "capture.state.as_committed",
    "no repository": "capture.state.no_repository",
    "not read": "capture.state.not_read",
    "changed": "capture.state.changed",
    "new": "capture.state.new",
    "deleted": "capture.state.deleted",
    "none": "capture.state.no_branch",
}
"""Words of labbook among the facts of code and configuration -> their messages."""
_WORD = re.compile(r"\A(?:(?:changed|new)(?= [0-9a-f]{8}\Z)|(?:as committed|no repository|not read|deleted|none)\Z)")
_OBSERVED_BY_BOTH = ("hardware", "state")
"""Kinds in which a missing name was not observed, while in the others it was not set."""

Facts = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Difference:
    """One row of the table.

    Args:
        kind: One of `KINDS`.
        what: Its name: `--lr`, `torch seeds.numpy`, `numpy`.
        values: The value in each run; "" for a run without one.
        message: The message of `what`, if it is a sentence.
    """

    kind: str
    what: str
    values: tuple[str, ...]
    message: Message | None = None


def collect_facts(run: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Returns the facts of one run that are compared, as kind -> name -> value.

    A kind that was not observed is missing. Besides `KINDS` there are "words", the words of the command line, for runs
    without a parser; "state", the state of the frameworks, which is compared as environment; "model_depth", the depth
    below which modules of the model have no row; and "written", the files that the run wrote.
    """
    argv = run.get("argv")
    words = parse_command(argv if isinstance(argv, (list, tuple)) else ())
    parsed = collect_arguments(run)
    by_kind: dict[str, Mapping[str, Any] | None] = {
        "argument": _arguments(parsed, words) if parsed else None,
        "words": words,
        "config": {path: _config(text) for path, text in config_files(run).items()},
        "code": _code(captured_facts(run, "code"), is_rerun=bool(run.get("rerun_of"))),
        "model": model_facts(run),
        "input": _inputs(run),
        "state": _states(run),
        "environment": environment_variables(run),
        "package": _packages(captured_facts(run, "python")),
        "hardware": machine_facts(run) or None,
        "model_depth": {"deepest": depth} if (depth := deepest_module(run)) is not None else None,
        "written": dict.fromkeys(sorted(files_below_top(run, "written")), "") or None,
    }
    return {
        kind: {
            name: value if kind == "config" else format_value(value) for name, value in list(facts.items())[:_MAX_FACTS]
        }
        for kind, facts in by_kind.items()
        if facts is not None
    }


def _arguments(parsed: Mapping[str, Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options under the names that the user typed, and the options of launchers."""
    written = {name.lstrip("-").replace("-", "_"): name for name in words if name.startswith("-")}
    named = {written.get(name, name): value for name, value in parsed.items()}
    rest = {n: v for n, v in words.items() if n.startswith("-") and n not in named and not is_parsed(n, set(named))}
    return named | rest


def _config(text: str) -> str:
    if len(text) <= _MAX_CONFIG_BYTES:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{len(text.splitlines()):,} lines, sha256 {digest}"


def _code(facts: Mapping[str, Any], *, is_rerun: bool) -> dict[str, str] | None:
    """Returns commit, branch, and the content of each file with uncommitted changes; a rerun is on no branch."""
    if not facts:
        return None
    if not facts.get("repository", True):
        code = {"repository": "no repository"}
    else:
        code = {"commit": str(facts.get("commit") or "")[:9] or "none"}
        code |= {} if is_rerun else {"branch": str(facts.get("branch") or "none")}
    new = {str(path) for path in facts.get("untracked") or ()}
    blobs = facts.get("blobs")
    for path, blob in sorted(blobs.items()) if isinstance(blobs, Mapping) else ():
        code[str(path)] = f"{'new' if path in new else 'changed'} {str(blob)[:8]}" if blob else "deleted"
    return code


def _inputs(run: Mapping[str, Any]) -> dict[str, str] | None:
    """Returns the files that were only read, without configuration files."""
    read = {str(r.get("path")): r for r in list_rows(run, "files") if r.get("mode") == "read"}
    configs = [str(row.get("path")) for row in list_rows(run, "configs")]
    inputs = {
        path: describe_file(row)
        for path, row in read.items()
        if not any(path == config or config.endswith(f"/{path}") for config in configs)
    }
    return inputs if read else None


def _states(run: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for framework in list_rows(run, "frameworks"):
        name, state = str(framework.get("name")), framework.get("state")
        state = state if isinstance(state, Mapping) else {}
        for key in STATES:
            if key in state:
                values = flatten({key: state[key]} if state[key] != {} else {})
                found |= {f"{name} {what}": value for what, value in values if ".rank" not in what}
                if key == "seeds":
                    found = {what: "none" if value is None else value for what, value in found.items()}
                    for seeded in ("python", "numpy", name):
                        found.setdefault(f"{name} seeds.{seeded}", "none")
    return found


def _packages(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    if not facts:
        return None
    found: dict[str, Any] = {"python": facts.get("version")}
    packages, origins = facts.get("packages"), facts.get("origins")
    found |= packages if isinstance(packages, Mapping) else {}
    for name, origin in origins.items() if isinstance(origins, Mapping) else ():
        commit = origin.get("commit") if isinstance(origin, Mapping) else None
        found |= {f"{name} (commit)": str(commit)[:9]} if commit else {}
    return {name: value for name, value in found.items() if name.removesuffix(" (commit)") not in INSTALLERS}


def compare_facts(runs: Sequence[Facts]) -> list[Difference]:
    """Returns the differences of the runs by kind; a row counts those over `MAX_ROWS` of a kind.

    A fact that a run did not observe is no difference.
    """
    rows: list[Difference] = []
    for kind in KINDS:
        table = _table(kind, runs)
        rows += table[:MAX_ROWS]
        if len(table) > MAX_ROWS:
            more = message("capture.change.more", count=len(table) - MAX_ROWS)
            rows.append(Difference(kind, _ENGLISH(more), ("",) * len(runs), more))
    return rows


def _table(kind: str, runs: Sequence[Facts]) -> list[Difference]:
    if kind == "argument":
        return _argument_rows(runs)
    sides = [side.get(kind) for side in runs]
    if kind == "code":
        return _code_rows(runs, sides)
    if kind == "config":
        return [row for path in _names(sides) if (row := _config_row(path, sides))]
    if kind == "model":
        depths = [int(side["model_depth"]["deepest"]) if "model_depth" in side else None for side in runs]
        shown = set(common_modules([side or {} for side in sides], depths))
        return [row for row in _rows(kind, kind, sides) if row.what in shown]
    found = _rows(kind, kind, sides)
    return [*_rows(kind, "state", [side.get("state") for side in runs]), *found] if kind == "environment" else found


def _names(sides: Sequence[Mapping[str, str] | None]) -> list[str]:
    return list(dict.fromkeys(name for side in sides for name in side or {}))


def _rows(kind: str, rule: str, sides: Sequence[Mapping[str, str] | None]) -> list[Difference]:
    found = []
    for name in _names(sides):
        values = [side.get(name, "") for side in sides if side is not None]
        observed = [side[name] for side in sides if side is not None and name in side]
        if len(set(observed if rule in _OBSERVED_BY_BOTH else values)) > 1:
            found.append(Difference(kind, name, tuple((side or {}).get(name, "") for side in sides)))
    return found


def _argument_rows(runs: Sequence[Facts]) -> list[Difference]:
    """Returns the differences of parsed options if all runs have them, else of the command lines."""
    kind = "argument" if all("argument" in side for side in runs) else "words"
    sides = [side.get(kind) for side in runs]
    if kind == "words":
        return _rows("argument", kind, sides)
    # `--batch-size` of one run is `batch_size` in a run that uses its default.
    display_names: dict[str, str] = {}
    aligned = []
    for side in sides:
        values = {}
        for name, value in (side or {}).items():
            bare = name.lstrip("-").replace("-", "_")
            values[bare] = value
            if name.startswith("-") or bare not in display_names:
                display_names[bare] = name
        aligned.append(values)
    return [Difference(r.kind, display_names[r.what], r.values) for r in _rows("argument", kind, aligned)]


def _config_row(path: str, sides: Sequence[Mapping[str, str] | None]) -> Difference | None:
    """Returns the lines of a configuration file that not all runs have, or `None`."""
    texts = [(side or {}).get(path) for side in sides]
    lines = [[line.strip() for line in text.splitlines() if line.strip()] if text is not None else [] for text in texts]
    if len(set(texts)) == 1 or len({tuple(each) for each in lines}) == 1:
        return None
    shared = set.intersection(*map(set, lines)) if None not in texts else set()
    values = []
    for each, text in zip(lines, texts, strict=True):
        own = [line for line in each if line not in shared]
        more = f" (+{len(own) - _MAX_LINES})" if len(own) > _MAX_LINES else ""
        values.append("not read" if text is None else "; ".join(own[:_MAX_LINES]) + more)
    return Difference("config", path, tuple(values))


def _code_rows(runs: Sequence[Facts], sides: Sequence[Mapping[str, str] | None]) -> list[Difference]:
    """Returns the differences of commit, branch and files; files that a run wrote are results, not code."""
    written = {path for side in runs for path in side.get("written") or ()}
    found = []
    for name in _names(sides):
        missing = "" if name in HEADS else "as committed"
        values = tuple("" if side is None else side.get(name, missing) for side in sides)
        known = {value for value in values if value}
        if len(known) < 2 or (name in written and all(v.startswith("new ") or v == missing for v in known)):
            continue
        found.append(Difference("code", name, values))
    return sorted(found, key=lambda row: row.what not in HEADS)


def translate_difference(row: Difference, sentences: Sentences) -> tuple[str, tuple[str, ...]]:
    """Translates the words of labbook in a difference; names and values of the program are returned unchanged."""
    if row.message is not None:
        return sentences(row.message), row.values
    if row.kind not in ("code", "config"):
        return row.what, row.values
    names = {word: sentences.template(key) for word, key in WORDS.items()}
    what = names[row.what] if row.kind == "code" and row.what in HEADS else row.what
    return what, tuple(_WORD.sub(lambda found: names[found[0]], value) for value in row.values)
