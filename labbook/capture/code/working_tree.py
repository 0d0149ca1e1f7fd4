"""Reads the state of the code: commit, branch, remote, and uncommitted changes as a patch.

Facts: `repository` (bool), `top`, `commit`, `branch`, `detached`, `unborn`, `state` ("", "rebase", "merge", ...),
`remote`, `upstream`, `ahead`, `behind` (commits, with an upstream branch), `dirty` (`None` if unknown),
`files_changed` (list of `path`, `status`, `added`, `removed`, and `from` for a rename), `untracked` (new source files),
`untracked_other` (names of other new files and folders), `untracked_other_count`, `patch` (file name or ""),
`patch_bytes`, `patch_sha256`, `patch_note`, `patch_note_messages`,
`patch_complete` (whether commit and patch together are all the code),
`withheld`, `binaries`, `blobs` (path -> git's hash of the uncommitted content), `submodules`.

Outside a repository the patch creates the script and the local modules that it imports.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labbook.capture.code.code_without_git import find_sources
from labbook.capture.code.git_output import Status, parse_changed_files, parse_status
from labbook.capture.code.git_reader import CodeRepository, open_repository
from labbook.capture.code.patch import Patch, is_withheld, section_header, split_sections
from labbook.capture.code.untracked_files import add_new_files, is_source
from labbook.capture.command import find_program_file
from labbook.capture.context import CaptureContext
from labbook.errors import GitError, Unavailable
from labbook.model.message import Message, as_data, message
from labbook.store.git.git_process import GitFolders, discover
from labbook.store.git.git_state import head_commit, head_ref, operation
from labbook.store.text.sentences import Sentences

PATCH_FILE = "changes.patch"

_MAX_UNTRACKED = 2000
_MAX_OTHER_FILES = 20
_DIFF_MAX_BYTES = 64 << 20
"""Maximum size of a diff that is read; the files after it are named as left out."""

_STATUS = (
    "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=dirty",
    "--no-renames",
)  # fmt: skip
_DIFF = (
    "diff", "--raw", "--numstat", "--patch", "-z", "-M", "--no-abbrev", "--full-index", "--no-color", "--no-ext-diff",
    "--no-textconv", "--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short",
    "--ignore-submodules=dirty",
)  # fmt: skip
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def capture(context: CaptureContext) -> dict[str, Any]:
    """Returns the facts of the code; writes `changes.patch` if there are uncommitted changes.

    Raises:
        Unavailable: There is neither a repository nor a script.
    """
    program = find_program_file(context.argv, context.cwd)
    folder = program.home
    if not folder.is_dir():
        raise Unavailable(f"the folder `{folder}` does not exist")
    try:
        code = open_repository(folder)
        if code is None:
            return _capture_without_repository(context, program.path)
        return _capture_repository(context, code)
    except GitError as error:
        folders = discover(folder)
        if folders is None:
            return _capture_without_repository(context, program.path)
        return _facts_without_git(folders, error.message)


def _capture_repository(context: CaptureContext, code: CodeRepository) -> dict[str, Any]:
    out, _ = code.run(*_STATUS)
    status = parse_status(out.decode("utf-8", "surrogateescape"))
    top = code.folders.top
    own = _notebook_folders(context, top)
    files, sections, cut = _read_changes(code, status) if status.changed else ([], [], False)
    changes = [(f, s) for f, s in zip(files, sections, strict=True) if not _is_inside(f["path"], own)]
    patch = Patch(context.config.patch_max_bytes, context.redactor)
    filtered = code.find_filtered([file["path"] for file, _ in changes])
    for file, section in changes:
        if file.get("from"):
            patch.blobs.setdefault(file["from"], "")
        if file["path"] in filtered:
            # The content in git differs from that on disk (large files, stripped notebooks): no patch applies.
            patch.binaries.append(f"{file['path']} (rewritten by a git filter)")
        elif section:
            patch.add(file["path"], section, also=[file["from"]] if file.get("from") else [])
        elif file["status"] != "U":
            patch.too_large.append(file["path"])
    sources, others = _list_untracked(code, status.untracked, own)
    add_new_files(patch, top, sources, status.commit)
    facts = _repository_facts(code, status) | {
        "dirty": bool(changes or sources),
        "files_changed": [file for file, _ in changes],
        "untracked": sources,
        "untracked_other": others[:_MAX_OTHER_FILES],
        "untracked_other_count": len(others),
        "submodules": status.submodules,
        "own": list(own),
    }
    return facts | _write_patch(context, patch, cut)


def _repository_facts(code: CodeRepository, status: Status) -> dict[str, Any]:
    return {
        "repository": True,
        "top": str(code.folders.top),
        "commit": status.commit,
        "branch": status.branch,
        "detached": status.detached,
        "unborn": not status.commit,
        "state": operation(code.folders.git_dir),
        "remote": code.remote_url(status.branch),
        "upstream": status.upstream,
        "ahead": status.ahead,
        "behind": status.behind,
    }


def _read_changes(code: CodeRepository, status: Status) -> tuple[list[dict[str, Any]], list[bytes], bool]:
    """Returns changed tracked files, their sections (empty if cut off) and whether git's output was cut."""
    base = status.commit or _EMPTY_TREE
    out, cut = code.run(*_DIFF, base, "--", max_bytes=_DIFF_MAX_BYTES)
    # The lists end with an empty item; the patch follows.
    head, _, patch = out.partition(b"\0\0")
    files = parse_changed_files(head.decode("utf-8", "surrogateescape"))
    by_line: dict[bytes, bytes] = {}
    sections = split_sections(patch)
    for section in sections[:-1] if cut else sections:
        line = section.partition(b"\n")[0]
        by_line[line] = by_line.get(line, b"") + section  # a file that turned into a link has two sections
    return files, [by_line.get(section_header(f.get("from", f["path"]), f["path"]), b"") for f in files], cut


def _notebook_folders(context: CaptureContext, top: Path) -> tuple[str, ...]:
    """Returns the notebook's folders and files below `top`, which are no part of the code."""
    paths = context.notebook.paths
    of_init = [paths.root / "mkdocs.yml", paths.root / ".gitignore"]  # `labbook init` wrote or added to them
    own = (paths.notes, paths.private, paths.site, paths.settings, context.attachments, *of_init)
    resolved = (path.resolve() for path in own)
    return tuple(path.relative_to(top).as_posix() for path in resolved if path.is_relative_to(top))


def _is_inside(path: str, folders: Sequence[str]) -> bool:
    return any(path.rstrip("/") == f or path.startswith(f + "/") for f in folders)


def _list_untracked(code: CodeRepository, listed: list[str], own: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns new source files, and other new files and folders, sorted by name."""
    folders = [p for p in listed if p.endswith("/") and not _is_inside(p, own)]
    files = [p for p in listed if not p.endswith("/") and not _is_inside(p, own)]
    others: list[str] = []
    if folders:
        try:
            out, cut = code.run(
                "ls-files", "--others", "--exclude-standard", "-z", "--", *folders, max_bytes=4 << 20, timeout_s=5.0
            )
            names = out.decode("utf-8", "surrogateescape").split("\0")[:-1]
            files += [n for n in names if not _is_inside(n, own)]
            others += ["(more than can be listed)"] if cut else []
        except GitError:
            others += [f"{folder} (not listed in time)" for folder in folders]
    sources = sorted(f for f in files if is_source(f) or is_withheld(f))
    others += set(files).difference(sources[:_MAX_UNTRACKED])
    return sources[:_MAX_UNTRACKED], sorted(others)


def _write_patch(context: CaptureContext, patch: Patch, cut: bool = False) -> dict[str, Any]:
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
    """Returns the sentences as English text, and as messages for other languages."""
    note = message("capture.patch.sentences", sentences=notes)
    return {"patch_note": Sentences("en")(note) if notes else "", "patch_note_messages": [as_data(n) for n in notes]}


def _facts_without_git(folders: GitFolders, why: str) -> dict[str, Any]:
    """Returns the facts in git's files, for a repository in which git fails."""
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


def _capture_without_repository(context: CaptureContext, script: Path | None) -> dict[str, Any]:
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
    } | _write_patch(context, patch)
