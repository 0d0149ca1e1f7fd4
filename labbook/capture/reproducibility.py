"""Judges reproducibility: clean code, locked versions, rebuildable elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labbook.model.message import Message, as_data, message
from labbook.store.text.sentences import Sentences


def judge_reproducibility(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns whether another machine could rebuild the run, with reasons.

    Args:
        facts: Capture source -> its facts ("code", "python", "lockfiles", "container").

    Returns:
        `clean` (all code is in a commit), `locked` (a lock file pins everything that is installed), `rebuildable`
        (commit, patch and environment are available to another machine), `reasons`: English sentences, each on one
        fact, and `reason_messages`: the same as messages. An unknown fact counts as a failure and has its sentence.
    """
    code, python = _source(facts, "code"), _source(facts, "python")
    clean, code_there, on_code = _code(code)
    locked, on_lock = _locked(_source(facts, "lockfiles"), python)
    packages_there, on_packages = _packages(python, locked)
    reasons, format_message = [*on_code, *on_lock, *on_packages], Sentences("en")
    return {
        "clean": clean,
        "locked": locked,
        "rebuildable": code_there and packages_there,
        "reasons": [format_message(reason) for reason in reasons],
        "reason_messages": [as_data(reason) for reason in reasons],
    }


def _source(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    source = facts.get(name)
    return source if isinstance(source, Mapping) else {"unavailable": "not captured"}


def _code(code: Mapping[str, Any]) -> tuple[bool, bool, list[Message]]:
    """Returns whether the code is clean, whether another machine can get it, and why."""
    if "unavailable" in code:
        return False, False, [message("capture.code.unknown", reason=str(code["unavailable"]))]
    complete = bool(code.get("patch_complete"))
    if not code.get("repository", True):
        return False, complete, [message("capture.code.in_entry" if complete else "capture.code.partly_in_entry")]
    commit = str(code.get("commit") or "")[:9]
    clean = code.get("dirty") is False and bool(commit)
    reasons = [] if commit else [message("capture.code.no_commit")]
    if code.get("dirty") is None:
        reasons.append(message("capture.code.changes_unknown"))
    elif clean:
        reasons.append(message("capture.code.clean", commit=commit))
    elif complete:
        on_commit = message("capture.code.patch_on", commit=commit)
        reasons.append(on_commit if commit else message("capture.code.as_patch"))
    else:
        notes = code.get("patch_note_messages") or [str(code.get("patch_note") or "")]
        partial = [message("capture.code.partial_patch"), *(note for note in notes if note)]
        reasons.append(message("capture.patch.sentences", sentences=partial))
    reachable, sentence = _reachable(code, commit)
    return clean, reachable and (clean or (complete and code.get("dirty") is not None)), [*reasons, sentence]


def _reachable(code: Mapping[str, Any], commit: str) -> tuple[bool, Message]:
    if not commit:
        complete = bool(code.get("patch_complete"))
        return complete, message("capture.code.patch_suffices" if complete else "capture.code.nothing_to_fetch")
    if not code.get("remote"):
        return False, message("capture.code.no_remote")
    ahead = code.get("ahead")
    if ahead is None:
        return False, message("capture.code.no_upstream")
    if ahead:
        return False, message("capture.code.not_pushed", commits=ahead)
    return True, message("capture.code.pushed")


def _locked(lockfiles: Mapping[str, Any], python: Mapping[str, Any]) -> tuple[bool, list[Message]]:
    if "unavailable" in lockfiles:
        return False, [message("capture.lock.none")]
    files = [f for f in lockfiles.get("files") or () if isinstance(f, Mapping)]
    locks = [f for f in files if f.get("locks")]
    if not locks:
        return False, [message("capture.lock.not_locked", files=[str(f.get("path")) for f in files])]
    agreeing = [f for f in locks if f.get("matches") is True]
    whole = [f for f in agreeing if not f.get("not_locked")]
    if whole:
        return True, [message("capture.lock.matches", file=str(whole[0].get("path")))]
    if agreeing:
        file, packages = str(agreeing[0].get("path")), agreeing[0].get("not_locked")
        return False, [message("capture.lock.incomplete", file=file, packages=packages)]
    wrong = next((f for f in locks if f.get("matches") is False), None)
    if wrong is not None:
        return False, [_mismatch(wrong)]
    why = python.get("unavailable") or message("capture.lock.nothing_installed")
    return False, [message("capture.lock.not_compared", file=str(locks[0].get("path")), reason=why)]


def _mismatch(lockfile: Mapping[str, Any]) -> Message:
    first = (lockfile.get("mismatches") or [{}])[0]
    others = int(lockfile.get("mismatch_count") or 1) - 1
    return message(
        "capture.lock.differs",
        file=str(lockfile.get("path")),
        name=str(first.get("name")),
        installed=str(first.get("installed")),
        locked=str(first.get("locked")),
        more=message("capture.lock.more", more=others) if others > 0 else "",
    )


def _packages(python: Mapping[str, Any], locked: bool) -> tuple[bool, list[Message]]:
    if "unavailable" in python:
        return False, [message("capture.packages.unknown", reason=str(python["unavailable"]))]
    origins = python.get("origins")
    origins = origins if isinstance(origins, Mapping) else {}
    # The run does not need its recorder.
    own = {name: o for name, o in origins.items() if isinstance(o, Mapping) and name != "labbook"}
    local = [name for name, o in own.items() if "://" not in str(o.get("url"))]
    files = [str(name) for name in python.get("files") or ()]
    reasons = [message("capture.packages.no_list")]
    if files:
        reasons = [message("capture.packages.listed", packages=python.get("count", 0), files=files)]
    if local:
        reasons.append(message("capture.packages.local", names=local[:5]))
    return bool(files or locked) and not local, reasons
