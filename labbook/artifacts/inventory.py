"""Lists, gets, verifies and prunes the kept files that the entries of a notebook name."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from labbook.artifacts.file_copy import hash_file
from labbook.artifacts.object_store import ObjectFolder, ObjectStore, open_store
from labbook.artifacts.upload import stored_objects
from labbook.errors import GitError, LabbookError, NotebookError, NothingFoundError, UsageError
from labbook.frozen import dataclass
from labbook.model.run_files import Artifact
from labbook.store.commit.branch_checkout import notebook_prefix
from labbook.store.git.git_process import run_git
from labbook.store.journal import Journal, open_journals
from labbook.store.json_files import read_json_lines, read_run_facts
from labbook.store.notebook import Notebook

_YOUNG_S = 3600.0
"""Objects younger than this are never pruned: the entry that names them may not be written yet. Source: chosen by us,
an entry takes seconds."""

_SHORTEST = 6
_LONG_S = 600.0


@dataclass(frozen=True)
class KeptFile:
    """An artifact with its run and its places.

    Args:
        place: "local", "store" or ""; without a look at the store, what is not local counts as stored.
    """

    run: str
    artifact: Artifact
    place: str = ""

    @property
    def hex(self) -> str:
        """The digest without its prefix."""
        return self.artifact.hex


@dataclass(frozen=True)
class VerifyResult:
    """The result of verifying one object: "ok", "missing", "damaged" or "unreadable", with the place or the reason."""

    digest: str
    state: str
    detail: str
    files: tuple[KeptFile, ...]


@dataclass(frozen=True)
class PrunedObject:
    """An object that no entry names: its place ("local" or "store") and its size in bytes."""

    digest: str
    place: str
    size: int


def list_kept(notebook: Notebook, run: str = "") -> list[KeptFile]:
    """Returns the files of one run, or of all runs, newest run first, with those that could not be kept.

    Args:
        run: Id of a run, or "" for all.
    """
    from labbook.index.query import list_notes

    local = ObjectFolder(notebook.paths.artifacts)
    here = set(local.digests())
    elsewhere = "store" if notebook.config.artifact_store.strip() else ""
    runs = [run] if run else [entry.id for entry in list_notes(notebook, "has:artifact").entries]
    return [
        KeptFile(run_id, artifact, "local" if artifact.hex in here else elsewhere if artifact.hex else "")
        for run_id in runs
        for artifact in _artifacts_of(notebook, run_id)
    ]


def _artifacts_of(notebook: Notebook, run_id: str) -> list[Artifact]:
    return _decode_artifacts(read_run_facts(notebook.paths, run_id).get("artifacts"))


def _decode_artifacts(facts: Any) -> list[Artifact]:  # noqa: ANN401 - JSON data
    from labbook.model.run import Run
    from labbook.model.run_json import run_from_json

    run: Run = run_from_json({"artifacts": facts or []})
    return list(run.artifacts)


def find_file(notebook: Notebook, word: str, name: str = "") -> KeptFile:
    """Returns one kept file.

    Args:
        word: A run, as every command takes it, or at least six characters of a digest.
        name: Name or path of the file, or the end of it; may be omitted if there is only one.

    Raises:
        NothingFoundError: There is none.
        UsageError: There are several; names them.
    """
    from labbook.index.query import find_run

    digest = word.removeprefix("sha256:").lower()
    is_digest = len(digest) >= _SHORTEST and not set(digest) - set("0123456789abcdef")
    kept = [one for one in list_kept(notebook) if one.hex.startswith(digest)] if is_digest else []
    if kept and len({one.hex for one in kept}) > 1:
        raise UsageError("errors.artifact.several_digests", word=word)
    if not kept:
        run = find_run(notebook, word).id
        kept = [one for one in list_kept(notebook, run) if one.hex]
        if not kept:
            raise NothingFoundError("errors.artifact.none_of_run", run=run)
    chosen = [one for one in kept if name in ("", one.artifact.name, one.artifact.path)]
    chosen = chosen or [one for one in kept if one.artifact.path.endswith(f"/{name}")]
    if not chosen:
        raise NothingFoundError("errors.artifact.no_such_file", word=word, name=name)
    if len({one.hex for one in chosen}) > 1:
        names = ", ".join(dict.fromkeys(one.artifact.name for one in chosen))
        raise UsageError("errors.artifact.several_files", word=word, names=names[:500])
    return chosen[0]


def find_files(notebook: Notebook, word: str, name: str) -> list[KeptFile]:
    """Returns the kept files of a run below a folder in their names, such as "snapshot"; empty if there are none."""
    from labbook.index.query import find_run

    if not name:
        return []
    with suppress(LabbookError):  # a digest
        folder = f"{name.rstrip('/')}/"
        kept = list_kept(notebook, find_run(notebook, word).id)
        return [one for one in kept if one.hex and one.artifact.name.startswith(folder)]
    return []


def get_files(notebook: Notebook, files: list[KeptFile], name: str, target: Path) -> list[Path]:
    """Writes the files of `find_files(..., name)` into a folder, with the names that they have below `name`.

    Raises:
        NotebookError: One cannot be written.
        UsageError: One of them exists, or its name leads out of the folder.
    """
    places = []
    for file in files:
        place = target / file.artifact.name.removeprefix(f"{name.rstrip('/')}/")
        if ".." in place.relative_to(target).parts:
            raise UsageError("errors.artifact.outside", name=file.artifact.name, target=target)
        if place.exists() or place.is_symlink():
            raise UsageError("errors.artifact.target_exists", target=place)
        places.append(place)
    for file, place in zip(files, places, strict=True):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotebookError("errors.artifact.not_written", target=place.parent, reason=error) from error
        get_file(notebook, file, place)
    return places


def get_file(notebook: Notebook, file: KeptFile, target: Path) -> None:
    """Writes the content of a kept file to `target`, after its digest was checked.

    Raises:
        NotebookError: It is nowhere, it is damaged, or it cannot be written.
        UsageError: `target` exists.
    """
    if target.exists() or target.is_symlink():
        raise UsageError("errors.artifact.target_exists", target=target)
    for place in _places(notebook):
        try:
            size = place.size(file.hex)
        except OSError as error:
            raise NotebookError("errors.artifact.not_readable", reason=error) from error
        if size is not None:
            _get(place, file.hex, target)
            return
    raise NotebookError("errors.artifact.nowhere", name=file.artifact.name, digest=file.hex[:12])


def _get(place: ObjectStore, digest: str, target: Path) -> None:
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".labbook-") as folder:
            draft = Path(folder) / "object"
            place.get(digest, draft)
            if hash_file(draft)[0] != digest:
                raise NotebookError("errors.artifact.damaged", digest=digest[:12], place=place.label)
            draft.chmod(0o644)
            draft.replace(target)
    except OSError as error:
        raise NotebookError("errors.artifact.not_written", target=target, reason=error) from error


def verify_kept(
    notebook: Notebook, run: str = "", notify: Callable[[int, int], None] | None = None
) -> list[VerifyResult]:
    """Reads every kept file again and returns whether it is what its entries name.

    Raises:
        NotebookError: The store cannot be used.
    """
    by_digest: dict[str, list[KeptFile]] = {}
    for file in list_kept(notebook, run):
        if file.hex:
            by_digest.setdefault(file.hex, []).append(file)
    places = list(_places(notebook))
    results = []
    for number, (digest, files) in enumerate(by_digest.items()):
        if notify is not None:
            notify(number, len(by_digest))
        results.append(_verify(digest, tuple(files), places))
    return results


def _verify(digest: str, files: tuple[KeptFile, ...], places: list[ObjectStore]) -> VerifyResult:
    for place in places:
        try:
            if place.size(digest) is None:
                continue
            state = "ok" if place.digest_of(digest)[0] == digest else "damaged"
        except OSError as error:
            return VerifyResult(digest, "unreadable", str(error), files)
        return VerifyResult(digest, state, place.label, files)
    return VerifyResult(digest, "missing", "", files)


def find_unnamed(notebook: Notebook) -> list[PrunedObject]:
    """Returns the objects that no entry names: local ones, and those that this copy of the notebook has uploaded.

    Objects that others uploaded to the same store are never among them, nor objects of the last hour.

    Raises:
        NotebookError: The facts of an entry with kept files cannot be read, so that it is unknown what it names, or
            the store cannot be used.
        GitError: A branch cannot be read.
    """
    named = {*_named_digests(notebook), *_digests_on_branches(notebook)}
    local = ObjectFolder(notebook.paths.artifacts)
    found = []
    for digest in local.digests():
        with suppress(OSError):
            status = local.path(digest).stat()
            if digest not in named and time.time() - status.st_ctime > _YOUNG_S:
                found.append(PrunedObject(digest, "local", status.st_size))
    store = open_store(notebook.config.artifact_store, notebook.paths.root)
    if store is not None:
        facts = [fact for fact in stored_objects(notebook) if fact.get("store") == store.label]
        old = {str(fact.get("digest")): fact.get("at", 0) for fact in facts}
        for digest, at in old.items():
            if digest not in named and time.time() - float(at) > _YOUNG_S:
                with suppress(OSError, ValueError):
                    size = store.size(digest)
                    found += [PrunedObject(digest, "store", size)] if size is not None else []
    return found


def remove_unnamed(notebook: Notebook, found: list[PrunedObject]) -> None:
    """Removes objects that `find_unnamed` returned.

    Raises:
        NotebookError: One cannot be removed; the others before it are.
    """
    local = ObjectFolder(notebook.paths.artifacts)
    store = open_store(notebook.config.artifact_store, notebook.paths.root)
    for one in found:
        place: ObjectStore | None = local if one.place == "local" else store
        try:
            if place is not None:
                place.remove(one.digest)
        except OSError as error:
            raise NotebookError("errors.artifact.not_removed", digest=one.digest[:12], reason=error) from error


def _named_digests(notebook: Notebook) -> Iterator[str]:
    """Yields the digests that entries, on disk or being written, name."""
    from labbook.index.query import list_notes

    for entry in list_notes(notebook, "has:artifact").entries:
        artifacts = _artifacts_of(notebook, entry.id)
        if not artifacts:
            raise NotebookError("errors.artifact.unknown_files", path=entry.path)
        yield from (artifact.hex for artifact in artifacts)
    for journal in open_journals(notebook.paths):
        yield from _digests_of_journal(journal)


def _digests_on_branches(notebook: Notebook) -> set[str]:
    """Returns the digests that entries on branches name: local ones, and those of remotes at the last fetch.

    An entry may be on a branch and not on disk: another branch is checked out, or somebody else wrote it.

    Cost: one process of git that reads the entries, those that two branches share once.
    """
    folders = notebook.git_folders()
    if folders is None:
        return set()
    runs = f"{notebook_prefix(notebook, folders)}/notes/runs".lstrip("/")
    names = run_git(folders, "for-each-ref", "--format=%(objectname)", "refs/heads", "refs/remotes").out.split()
    trees = run_git(
        folders, "cat-file", "--batch-check=%(objecttype) %(objectname)",
        stdin=b"".join(b"%s:%s\n" % (name, os.fsencode(runs)) for name in sorted(set(names))), timeout_s=_LONG_S,
    )  # fmt: skip
    wanted = {line[5:].decode() for line in trees.out.splitlines() if line.startswith(b"tree ")}
    if not wanted:
        return set()
    answer = run_git(
        folders, "grep", "-h", "-F", '"artifacts"', *sorted(wanted), timeout_s=_LONG_S
    )  # lines of run.json
    if answer.code not in (0, 1) or answer.error:
        raise GitError("errors.git.not_searched", folder=folders.top, reason=answer.error)
    return {digest.decode("ascii") for digest in re.findall(rb"sha256:([0-9a-f]{64})", answer.out)}


def _digests_of_journal(journal: Journal) -> Iterator[str]:
    facts = list(journal.read(journal.paths.after).get("artifacts") or ())
    for fact in read_json_lines(journal.paths.artifacts):
        facts += fact.get("artifacts") or ()
    for artifact in _decode_artifacts(facts):
        yield artifact.hex


def _places(notebook: Notebook) -> Iterator[ObjectStore]:
    yield ObjectFolder(notebook.paths.artifacts)
    store = open_store(notebook.config.artifact_store, notebook.paths.root)
    if store is not None:
        yield store
