"""The state of the user's code: commit, branch, remote, and every uncommitted change as a patch.

Facts: `repository` (bool), `top`, `commit`, `branch`, `detached`, `unborn`, `state` ("", "rebase", "merge", ...),
`remote`, `upstream`, `ahead`, `behind` (commits, where a branch is followed), `dirty` (`None` when not known),
`files_changed` (list of `path`, `status`, `added`, `removed`, and `from` for a rename), `untracked` (new source files),
`untracked_other` (names of other new files and folders), `untracked_other_count`, `patch` (file name or ""),
`patch_bytes`, `patch_sha256`, `patch_note`, `patch_note_messages`,
`patch_complete` (whether commit and patch together are all the code),
`withheld`, `binaries`, `blobs` (path -> git's hash of the uncommitted content), `submodules`.

Outside a repository the patch makes the script, and the modules beside it that it imports, from nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.capture.code.code_without_git import find_sources
from labbook.capture.code.git_reader import CodeGit, head_commit, open_code
from labbook.capture.code.patch import Patch, first_line, is_withheld, split_sections
from labbook.capture.code.untracked_files import add_new_files, is_source
from labbook.capture.command import find_program_file
from labbook.errors import GitError, Unavailable
from labbook.model.message import Message, as_data, message
from labbook.store.git_process import GitFolders, discover
from labbook.store.git_state import head_ref, operation
from labbook.store.sentences import Sentences

if TYPE_CHECKING:
    from labbook.capture.context import CaptureContext

PATCH_FILE = "changes.patch"

_MAX_UNTRACKED = 2000
_OTHERS_SHOWN = 20
_DIFF_MAX_BYTES = 64 << 20
"""Above it a difference is not read on: the files that come later in it are named as left out."""

_DIFF = (
    "diff", "--raw", "--numstat", "--patch", "-z", "-M", "--no-abbrev", "--full-index", "--no-color", "--no-ext-diff",
    "--no-textconv", "--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short",
    "--ignore-submodules=dirty",
)  # fmt: skip
_EMPTY_TREE = {40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
               64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"}  # fmt: skip


@dataclass
class _Status:
    commit: str = ""
    branch: str = ""
    detached: bool = False
    upstream: str = ""
    ahead: int | None = None
    behind: int | None = None
    changed: bool = False
    untracked: list[str] = field(default_factory=list)
    submodules: list[str] = field(default_factory=list)


def capture(context: CaptureContext) -> dict[str, Any]:
    """The facts of the code at this moment; writes `changes.patch` where there are uncommitted changes.

    Raises:
        Unavailable: There is neither a repository nor a script to keep.
    """
    program = find_program_file(context.argv, context.cwd)
    folder = program.path.parent if program.path is not None else program.folder
    if not folder.is_dir():
        raise Unavailable(f"the folder {folder} does not exist")
    try:
        code = open_code(folder)
        if code is None:
            return _alone(context, program.path)
        return _in_repository(context, code)
    except GitError as error:
        folders = discover(folder)
        if folders is None:
            return _alone(context, program.path)
        return _without_git(folders, error.message)


def _in_repository(context: CaptureContext, code: CodeGit) -> dict[str, Any]:
    out, _ = code.ask(
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=dirty",
        "--no-renames",
    )
    status = _parse_status(out.decode("utf-8", "surrogateescape"))
    top = code.folders.top
    own = _own_folders(context, top)
    files, sections, cut = _changes(code, status) if status.changed else ([], [], False)
    kept = [(f, s) for f, s in zip(files, sections, strict=True) if not _below(f["path"], own)]
    patch = Patch(context.config.patch_max_bytes, context.redactor)
    filtered = code.filtered([file["path"] for file, _ in kept])
    for file, section in kept:
        if file.get("from"):
            patch.blobs.setdefault(file["from"], "")
        if file["path"] in filtered:
            # What stands in git is not what stands on disk (large files, stripped notebooks): no patch joins them.
            patch.binaries.append(f"{file['path']} (rewritten by a git filter)")
        elif section:
            patch.add(file["path"], section, also=[file["from"]] if file.get("from") else [])
        elif file["status"] != "U":
            patch.too_large.append(file["path"])
    wanted, others = _untracked(code, status.untracked, own)
    add_new_files(patch, top, wanted, status.commit)
    facts = _identity(code, status) | {
        "dirty": bool(kept or wanted),
        "files_changed": [file for file, _ in kept],
        "untracked": wanted,
        "untracked_other": others[:_OTHERS_SHOWN],
        "untracked_other_count": len(others),
        "submodules": status.submodules,
        "own": list(own),
    }
    return facts | _written(context, patch, cut)


def _identity(code: CodeGit, status: _Status) -> dict[str, Any]:
    return {
        "repository": True,
        "top": str(code.folders.top),
        "commit": status.commit,
        "branch": status.branch,
        "detached": status.detached,
        "unborn": not status.commit,
        "state": operation(code.folders.git_dir),
        "remote": code.remote(status.branch),
        "upstream": status.upstream,
        "ahead": status.ahead,
        "behind": status.behind,
    }


def _parse_status(text: str) -> _Status:
    status = _Status()
    items = iter(text.split("\0"))
    for item in items:
        kind, _, rest = item.partition(" ")
        if kind == "#":
            _parse_head(status, rest)
        elif kind == "?":
            status.untracked.append(rest)
        elif kind in ("1", "2", "u"):
            status.changed = True
            fields = rest.split(" ", 9 if kind == "u" else 8 if kind == "2" else 7)
            if kind == "2":
                next(items, None)
            if fields[1].startswith("S"):
                status.submodules.append(fields[-1])
    return status


def _parse_head(status: _Status, rest: str) -> None:
    name, _, value = rest.partition(" ")
    if name == "branch.oid":
        status.commit = "" if value == "(initial)" else value
    elif name == "branch.head":
        status.detached = value == "(detached)"
        status.branch = "" if status.detached else value
    elif name == "branch.upstream":
        status.upstream = value
    elif name == "branch.ab":
        ahead, _, behind = value.partition(" ")
        status.ahead, status.behind = int(ahead), -int(behind)


def _changes(code: CodeGit, status: _Status) -> tuple[list[dict[str, Any]], list[bytes], bool]:
    """Changed tracked files, their sections (empty where it did not fit) and whether the answer of git was cut."""
    base = status.commit or _EMPTY_TREE[40]
    out, cut = code.ask(*_DIFF, base, "--", max_bytes=_DIFF_MAX_BYTES)
    # The lists end with an empty item; what follows is the patch.
    head, _, patch = out.partition(b"\0\0")
    files = _parse_files(head.decode("utf-8", "surrogateescape"))
    by_line: dict[bytes, bytes] = {}
    sections = split_sections(patch)
    for section in sections[:-1] if cut else sections:
        line = section.partition(b"\n")[0]
        by_line[line] = by_line.get(line, b"") + section  # a file that turned into a link has two sections
    return files, [by_line.get(first_line(f.get("from", f["path"]), f["path"]), b"") for f in files], cut


def _parse_files(text: str) -> list[dict[str, Any]]:
    """The lists that `--raw --numstat -z` prints, joined."""
    files: list[dict[str, Any]] = []
    counts: dict[str, tuple[int | None, int | None]] = {}
    items = iter(text.split("\0"))
    for item in items:
        if item.startswith(":"):
            letter = item.split(" ")[4][:1]
            path = next(items, "")
            file: dict[str, Any] = {"path": path, "status": letter}
            if letter in ("R", "C"):
                file["path"], file["from"] = next(items, ""), path
            files.append(file)
        elif item.count("\t") >= 2:
            added, removed, path = item.split("\t", 2)
            if not path:
                next(items, None)
                path = next(items, "")
            counts[path] = (None, None) if added == "-" else (int(added), int(removed))
    for file in files:
        file["added"], file["removed"] = counts.get(file["path"], (None, None))
    conflicts = {f["path"] for f in files if f["status"] == "U"}
    return [f for f in files if f["status"] == "U" or f["path"] not in conflicts] if conflicts else files


def _own_folders(context: CaptureContext, top: Path) -> tuple[str, ...]:
    """Folders and files of the notebook below `top`: what labbook itself writes is no change of the code."""
    paths = context.notebook.paths
    found = []
    for folder in (
        paths.notes,
        paths.private,
        paths.site,
        paths.settings,
        paths.root / "mkdocs.yml",
        context.attachments,
    ):
        resolved = folder.resolve()
        if resolved.is_relative_to(top):
            found.append(resolved.relative_to(top).as_posix())
    return tuple(found)


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path.rstrip("/") == f or path.startswith(f + "/") for f in folders)


def _untracked(code: CodeGit, listed: list[str], own: Sequence[str]) -> tuple[list[str], list[str]]:
    """New source files, and other new files and folders, by name."""
    folders = [p for p in listed if p.endswith("/") and not _below(p, own)]
    files = [p for p in listed if not p.endswith("/") and not _below(p, own)]
    others: list[str] = []
    if folders:
        try:
            out, cut = code.ask(
                "ls-files", "--others", "--exclude-standard", "-z", "--", *folders, max_bytes=4 << 20, timeout_s=5.0
            )
            names = out.decode("utf-8", "surrogateescape").split("\0")[:-1]
            files += [n for n in names if not _below(n, own)]
            others += ["(more than can be listed)"] if cut else []
        except GitError:
            others += [f"{folder} (not listed in time)" for folder in folders]
    wanted = sorted(f for f in files if is_source(f) or is_withheld(f))
    others = [f for f in files if f not in set(wanted)] + others + wanted[_MAX_UNTRACKED:]
    return wanted[:_MAX_UNTRACKED], sorted(others)


def _written(context: CaptureContext, patch: Patch, cut: bool = False) -> dict[str, Any]:
    notes = patch.notes()
    if cut:
        notes.append(message("capture.patch.cut"))
    facts: dict[str, Any] = {
        "patch": "",
        "patch_bytes": len(patch.text),
        "patch_sha256": "",
        **_patch_note(notes),
        "patch_complete": not (
            cut or patch.broken or patch.redacted or patch.withheld or patch.binaries or patch.too_large
        ),
        "withheld": patch.withheld,
        "binaries": patch.binaries,
        "too_large": patch.too_large,
        "blobs": dict(sorted(patch.blobs.items())),
    }
    if patch.text:
        try:
            context.attachments.mkdir(parents=True, exist_ok=True)
            (context.attachments / PATCH_FILE).write_bytes(bytes(patch.text))
        except OSError as error:
            return facts | {
                **_patch_note([*notes, message("capture.patch.not_written", reason=error.strerror or str(error))]),
                "patch_complete": False,
            }
        facts["patch"] = PATCH_FILE
        facts["patch_sha256"] = hashlib.sha256(patch.text).hexdigest()
    return facts


def _patch_note(notes: list[Message]) -> dict[str, Any]:
    """The sentences as English text, and as messages that other languages are written from."""
    note = message("capture.patch.sentences", sentences=notes)
    return {"patch_note": Sentences("en")(note) if notes else "", "patch_note_messages": [as_data(n) for n in notes]}


def _without_git(folders: GitFolders, why: str) -> dict[str, Any]:
    """What git's own files tell when git itself does not answer."""
    try:
        ref = head_ref(folders)
    except GitError:
        ref = ""
    return {
        "repository": True,
        "top": str(folders.top),
        "commit": head_commit(folders),
        "branch": ref.removeprefix("refs/heads/"),
        "detached": not ref,
        "unborn": False,
        "state": operation(folders.git_dir),
        "remote": "",
        "dirty": None,
        "files_changed": [],
        "untracked": [],
        "patch": "",
        **_patch_note([message("capture.patch.unknown", reason=why)]),
        "patch_complete": False,
        "withheld": [],
        "binaries": [],
        "blobs": {},
    }


def _alone(context: CaptureContext, script: Path | None) -> dict[str, Any]:
    if script is None or not script.is_file():
        raise Unavailable("the command has no script, and its folder is in no git repository")
    script = Path(os.path.abspath(script))  # noqa: PTH100 - links are kept: the name is what the user typed
    top = context.cwd if script.is_relative_to(context.cwd) else script.parent
    files = find_sources(script, top)
    paths = [file.relative_to(top).as_posix() for file in files]
    patch = Patch(context.config.patch_max_bytes, context.redactor)
    add_new_files(patch, top, paths, "")
    return {
        "repository": False,
        "top": str(top),
        "commit": "",
        "branch": "",
        "detached": False,
        "unborn": False,
        "state": "",
        "remote": "",
        "dirty": True,
        "files_changed": [],
        "untracked": paths,
        "untracked_other": [],
        "untracked_other_count": 0,
        "submodules": [],
    } | _written(context, patch)
