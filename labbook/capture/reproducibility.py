"""The verdict on reproducibility: is the code clean, are versions locked, can another machine rebuild this run?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def verdict(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the captured facts say about running this again elsewhere.

    Args:
        facts: Capture source -> its facts ("code", "python", "lockfiles", "container").

    Returns:
        `clean` (all code is in a commit), `locked` (a lock file agrees with everything that is installed),
        `rebuildable` (commit, patch and environment can be had on another machine), and `reasons`: sentences, each on
        one fact. A fact that is not known counts against, and its sentence says so.
    """
    code, python = _source(facts, "code"), _source(facts, "python")
    clean, code_there, said_code = _code(code)
    locked, said_lock = _locked(_source(facts, "lockfiles"), python)
    packages_there, said_packages = _packages(python, locked)
    reasons = [*said_code, *said_lock, *said_packages]
    return {"clean": clean, "locked": locked, "rebuildable": code_there and packages_there, "reasons": reasons}


def _source(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = facts.get(name)
    return found if isinstance(found, Mapping) else {"unavailable": "not captured"}


def _code(code: Mapping[str, Any]) -> tuple[bool, bool, list[str]]:
    """Clean, obtainable elsewhere, and why."""
    if "unavailable" in code:
        return False, False, [f"The state of the code is not known: {code['unavailable']}."]
    complete = bool(code.get("patch_complete"))
    if not code.get("repository", True):
        kept = (
            "the script and the modules that it imports are kept in the entry"
            if complete
            else "only part of it is kept"
        )
        return False, complete, [f"The code is in no git repository; {kept}."]
    commit = str(code.get("commit") or "")[:9]
    clean = code.get("dirty") is False and bool(commit)
    said: list[str] = []
    if not commit:
        said.append("The repository has no commit yet.")
    if code.get("dirty") is None:
        said.append("Whether there were uncommitted changes is not known.")
    elif clean:
        said.append(f"All code is in commit {commit}.")
    elif complete:
        said.append(f"Uncommitted changes are kept as a patch{f' on commit {commit}' if commit else ''}.")
    else:
        said.append(f"Uncommitted changes are kept only in part. {code.get('patch_note') or ''}".strip())
    reachable, sentence = _reachable(code, commit)
    return clean, reachable and (clean or (complete and code.get("dirty") is not None)), [*said, sentence]


def _reachable(code: Mapping[str, Any], commit: str) -> tuple[bool, str]:
    if not commit:
        kept = bool(code.get("patch_complete"))
        return kept, "The patch alone makes all files." if kept else "There is no commit to fetch."
    if not code.get("remote"):
        return False, "The repository has no remote: the commit exists on this machine only."
    ahead = code.get("ahead")
    if ahead is None:
        return False, "The branch follows no remote branch, so it is not known whether the commit was pushed."
    if ahead:
        return False, f"{ahead} commit{'s' if ahead != 1 else ''} had not been pushed."
    return True, "The commit is on the remote."


def _locked(lockfiles: Mapping[str, Any], python: Mapping[str, Any]) -> tuple[bool, list[str]]:
    if "unavailable" in lockfiles:
        return False, ["No lock file stands beside the code."]
    files = [f for f in lockfiles.get("files") or () if isinstance(f, Mapping)]
    locks = [f for f in files if f.get("locks")]
    if not locks:
        named = ", ".join(str(f.get("path")) for f in files)
        return False, [f"Dependencies are declared but not locked ({named})."]
    agreeing = [f for f in locks if f.get("matches") is True]
    whole = [f for f in agreeing if not f.get("not_locked")]
    if whole:
        return True, [f"What is installed is what {whole[0].get('path')} locks."]
    if agreeing:
        count = agreeing[0].get("not_locked")
        return False, [f"The lock file {agreeing[0].get('path')} agrees, but {count} installed packages are not in it."]
    wrong = next((f for f in locks if f.get("matches") is False), None)
    if wrong is not None:
        first = (wrong.get("mismatches") or [{}])[0]
        example = f"{first.get('name')} {first.get('installed')} instead of {first.get('locked')}"
        others = int(wrong.get("mismatch_count") or 1) - 1
        more = f", and {others} more" if others > 0 else ""
        return False, [f"What is installed differs from {wrong.get('path')}: {example}{more}."]
    why = python.get("unavailable") or "none of its packages is installed"
    return False, [f"The lock file {locks[0].get('path')} could not be compared with what is installed: {why}."]


def _packages(python: Mapping[str, Any], locked: bool) -> tuple[bool, list[str]]:
    if "unavailable" in python:
        return False, [f"The Python environment is not known: {python['unavailable']}."]
    origins = python.get("origins")
    origins = origins if isinstance(origins, Mapping) else {}
    local = [name for name, o in origins.items() if isinstance(o, Mapping) and "://" not in str(o.get("url"))]
    kept = ", ".join(python.get("files") or ())
    listed = f"All {python.get('count', 0)} packages are listed with their versions in {kept}." if kept else ""
    said = [listed] if listed else ["The list of packages could not be kept."]
    if local:
        said.append(f"Installed from a folder of this machine: {', '.join(local[:5])}.")
    return bool(kept or locked) and not local, said
