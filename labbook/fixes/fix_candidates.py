"""Finds failures that a later run no longer shows, and ranks the differences as possible fixes.

The order of the ranking: differences that the symptom's page lists as `cured_by`, then files on the way to the failing
line, then by kind, arguments before packages before hardware.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from labbook.model.run import Change, Run
from labbook.model.symptom import Symptom

_KINDS = ("argument", "config", "code", "input", "package", "environment", "hardware", "command")
"""Kinds of changes, in the order in which people usually change them."""

HISTORY = frozenset({"commit", "branch", "repository"})
"""Changes of kind "code" that only say that something was committed."""

_NO_CODE = frozenset({".gitignore", ".gitkeep", ".gitattributes", "labbook.toml", "mkdocs.yml"})

_HELP = frozenset({"-h", "--help", "--version", "-V", "--dry-run", "--dry_run"})


def find_cured(failed: Run, now: Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns symptoms and fingerprints of the first run that the later run no longer shows.

    Args:
        failed: The earlier run.
        now: The later run.

    Returns:
        Symptoms and fingerprints. Both are empty if the later run did not get as far: it did not finish, only printed
        its help, or made no more steps than the first run had at its failure. A symptom whose check was not made in
        the later run is left out.
    """
    if not failed.symptoms and not failed.fingerprints and failed.status not in ("failed", "killed"):
        return (), ()
    if now.status != "finished" or _HELP & set(now.argv) or not _got_as_far(failed, now):
        return (), ()
    checked = {check.id: check.verdict for check in failed.checks}
    later = {check.id: check.verdict for check in now.checks}
    symptoms = tuple(
        name
        for name in failed.symptoms
        # A check that was not made, or had no data, proves nothing.
        if name not in now.symptoms and (name not in checked or later.get(name) == "ok")
    )
    fingerprints = tuple(one for one in failed.fingerprints if one not in now.fingerprints)
    return symptoms, fingerprints if symptoms or failed.status in ("failed", "killed") else ()


def _got_as_far(failed: Run, now: Run) -> bool:
    """Whether the later run passed the point at which the first one failed."""
    steps = _steps(now)
    at = max((e.step for e in failed.exceptions if e.step is not None), default=None)
    if failed.status in ("failed", "killed") and at is not None and at > 0 and steps <= at:
        return False
    if _steps(failed) and not steps:
        return False
    names = {f.name for f in now.frameworks}
    return all(f.name in names for f in failed.frameworks)


def _steps(run: Run) -> int:
    return max((process.steps for process in run.processes), default=0)


def rank_changes(
    changes: Iterable[Change],
    symptoms: Sequence[str],
    catalogue: Mapping[str, Symptom],
    failing_files: Collection[str] = (),
) -> tuple[Change, ...]:
    """Returns the differences that may be the fix, likeliest first.

    Args:
        changes: Changes between the two runs; changes of metrics are left out.
        symptoms: Symptoms that are gone.
        catalogue: Symptom pages by id, for their `cured_by`.
        failing_files: Files of the user's code on the way to the failing line, innermost first.
    """
    candidates = [change for change in changes if change.kind != "metric" and not _is_unrelated(change)]
    patterns = [p for name in symptoms if name in catalogue for p in catalogue[name].cured_by]
    files = [path.replace("\\", "/") for path in failing_files]

    def order(change: Change) -> tuple[int, int, int]:
        by_page = next((n for n, pattern in enumerate(patterns) if matches_cure(change, pattern)), len(patterns))
        if change.kind == "code" and change.what in HISTORY:
            by_page = len(patterns)
        by_place = next((n for n, path in enumerate(files) if _is_file(change, path)), len(files))
        kind = _KINDS.index(change.kind) if change.kind in _KINDS else len(_KINDS)
        return by_page, by_place, kind + len(_KINDS) * (change.kind == "code" and change.what in HISTORY)

    return tuple(sorted(candidates, key=order))


def _is_unrelated(change: Change) -> bool:
    """Whether a difference is in labbook, its notebook or git's own files, which change no training."""
    if change.kind == "code":
        return change.what.startswith("notes/") or change.what.rpartition("/")[2] in _NO_CODE
    return change.kind == "package" and change.what.split(" ")[0] == "labbook"


def matches_cure(change: Change, pattern: str) -> bool:
    """Whether a difference matches a `cured_by` pattern: "argument:lr", "config:*size*", "code".

    Args:
        change: The difference.
        pattern: A kind, or a kind and a name with `*` and `?`.
    """
    kind, _, glob = pattern.partition(":")
    if change.kind != kind.strip():
        return False
    wanted = _normalize(glob)
    if not wanted:
        return True
    return any(fnmatchcase(name, wanted) for name in _names(change))


def _names(change: Change) -> list[str]:
    """Returns the names of a difference: the whole name, its last part, the keys of changed lines."""
    name = _normalize(change.what)
    names = [name, name.rpartition(".")[2], name.rpartition("/")[2]]
    if change.kind in ("config", "command"):
        lines = [line[1:] for line in change.detail.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        lines += [change.before, change.now]
        names += [_normalize(line.replace("=", ":").partition(":")[0].strip(" \"'{,")) for line in lines]
    if change.kind == "argument" and change.what == "command":
        names += [_normalize(word.partition("=")[0]) for word in f"{change.before} {change.now}".split()]
    return names


def _normalize(name: str) -> str:
    return name.strip().lstrip("-").lower().replace("-", "_")


def _is_file(change: Change, path: str) -> bool:
    return change.kind == "code" and (path == change.what or path.endswith("/" + change.what))


def list_failing_files(run: Run) -> tuple[str, ...]:
    """Returns the user's files on the way to the failing line of a run, innermost first."""
    ended = sorted((e for e in run.exceptions if e.ended_process), key=lambda e: e.t)
    frames = [frame for e in ended[:1] for frame in reversed(e.frames) if frame.user]
    return tuple(dict.fromkeys(frame.file for frame in frames))
