"""A place of objects: files named by the SHA-256 of their content, in a folder or behind a URL of fsspec."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from labbook.artifacts.file_copy import CopyResult, copy_file, hash_file
from labbook.store.remote_files import display_address, make_parent, open_files

_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHUNK = 4 << 20
_DRAFT_LIFE_S = 3600.0


class ObjectStore(Protocol):
    """What every place of objects can do; digests are 64 hexadecimal characters."""

    label: str
    """Shown to people: without user, password and query."""

    def size(self, digest: str) -> int | None:
        """Returns the size of an object in bytes, or `None` if it is not there."""

    def put(self, source: Path, digest: str) -> None:
        """Stores a file under its digest."""

    def digest_of(self, digest: str) -> tuple[str, int]:
        """Returns the SHA-256 of an object as it is now, and its size; reads it whole."""

    def get(self, digest: str, target: Path) -> None:
        """Writes an object to a file."""

    def remove(self, digest: str) -> None:
        """Removes an object."""

    def digests(self) -> Iterator[str]:
        """Yields the digests of all objects."""


class ObjectFolder:
    """Objects in a folder of this machine or of a shared file system: `sha256/ab/abcd...`.

    Args:
        root: The folder; it is made when the first object is stored.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.label = str(root)

    def path(self, digest: str) -> Path:
        """Returns the path of an object."""
        return self.root / "sha256" / _checked(digest)[:2] / digest

    def add(self, source: Path, limit_bytes: int) -> CopyResult:
        """Copies a file into the folder; see `copy_file` for the reasons why it may not.

        Raises nothing: a folder that cannot be written is a reason.
        """
        try:
            draft = self._draft()
        except OSError:
            return CopyResult("", -1, "the folder of kept files is read-only")
        copied = copy_file(source, draft, limit_bytes)
        try:
            if copied.digest:
                self._accept(draft, copied.digest, copied.size)
        except OSError:
            return CopyResult("", copied.size, "the folder of kept files is read-only")
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        return copied

    def size(self, digest: str) -> int | None:
        """Returns the size of an object in bytes, or `None` if it is not there."""
        try:
            return self.path(digest).stat().st_size
        except FileNotFoundError:
            return None

    def put(self, source: Path, digest: str) -> None:
        """Stores a file under its digest; the object appears when it is complete.

        Raises:
            OSError: The folder cannot be written.
        """
        draft = self._draft()
        try:
            copied = copy_file(source, draft, 1 << 62, attempts=1)
            if not copied.digest:
                raise OSError(copied.reason)
            self._accept(draft, digest, copied.size)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    def digest_of(self, digest: str) -> tuple[str, int]:
        """Returns the SHA-256 of an object as it is now, and its size."""
        return hash_file(self.path(digest))

    def get(self, digest: str, target: Path) -> None:
        """Copies an object to a file, which must not exist."""
        copied = copy_file(self.path(digest), target, 1 << 62, attempts=1)
        if not copied.digest:
            raise OSError(copied.reason)

    def remove(self, digest: str) -> None:
        """Removes an object."""
        self.path(digest).unlink(missing_ok=True)

    def digests(self) -> Iterator[str]:
        """Yields the digests of all objects, in order."""
        for path in sorted((self.root / "sha256").glob("??/*")):
            if _DIGEST.fullmatch(path.name):
                yield path.name

    def remove_drafts(self) -> None:
        """Removes copies that were interrupted an hour ago or earlier."""
        for draft in self.root.glob("draft-*"):
            with contextlib.suppress(OSError):
                if draft.lstat().st_mtime < time.time() - _DRAFT_LIFE_S:
                    draft.unlink()

    def _draft(self) -> Path:
        self.root.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="draft-", dir=self.root)
        os.close(handle)
        return Path(name)

    def _accept(self, draft: Path, digest: str, size: int) -> None:
        """Gives a complete draft its name, unless an object of this digest and size is there."""
        place = self.path(digest)
        if self.size(digest) == size:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.chmod(0o444)
        draft.replace(place)


class FsspecStore:
    """Objects behind a URL: everything that fsspec can write.

    Args:
        url: Any URL of fsspec; credentials come from where fsspec finds them.

    Raises:
        NotebookError: fsspec or the package of this scheme is not installed, or the URL cannot be used.
    """

    def __init__(self, url: str) -> None:
        self.label = display_address(url)
        self._files, self._root = open_files(url.rstrip("/"), "errors.store.artifact_store_advice")

    def _name(self, digest: str) -> str:
        return f"{self._root}/sha256/{_checked(digest)[:2]}/{digest}"

    def size(self, digest: str) -> int | None:
        """Returns the size of an object in bytes, or `None` if it is not there."""
        with _wrap_store_errors(self.label):
            self._files.invalidate_cache()
            try:
                return int(self._files.info(self._name(digest))["size"])
            except FileNotFoundError:
                return None

    def put(self, source: Path, digest: str) -> None:
        """Uploads a file under its digest, large ones in several parts."""
        name = self._name(digest)
        with _wrap_store_errors(self.label):
            make_parent(self._files, name)
            self._files.put_file(str(source), name)

    def digest_of(self, digest: str) -> tuple[str, int]:
        """Returns the SHA-256 of an object as it is now, and its size; downloads it."""
        found, size = hashlib.sha256(), 0
        with _wrap_store_errors(self.label), self._files.open(self._name(digest), "rb", block_size=_CHUNK) as stream:
            while chunk := stream.read(_CHUNK):
                found.update(chunk)
                size += len(chunk)
        return found.hexdigest(), size

    def get(self, digest: str, target: Path) -> None:
        """Downloads an object to a file."""
        with _wrap_store_errors(self.label):
            self._files.get_file(self._name(digest), str(target))

    def remove(self, digest: str) -> None:
        """Removes an object."""
        with _wrap_store_errors(self.label), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._name(digest))

    def digests(self) -> Iterator[str]:
        """Yields the digests of all objects."""
        with _wrap_store_errors(self.label):
            self._files.invalidate_cache()
            try:
                names = self._files.find(f"{self._root}/sha256")
            except FileNotFoundError:
                return
        for name in names:
            digest = str(name).rpartition("/")[2]
            if _DIGEST.fullmatch(digest):
                yield digest


@contextlib.contextmanager
def _wrap_store_errors(label: str) -> Iterator[None]:
    """Turns whatever a file system of fsspec raises into an `OSError` that names the store."""
    try:
        yield
    except Exception as error:
        raise OSError(f"{label}: {type(error).__name__}: {error}") from error


def _checked(digest: str) -> str:
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"not a digest: {digest!r}")
    return digest


def open_store(address: str, root: Path) -> ObjectStore | None:
    """Returns the place that the setting `artifact_store` names, or `None` if it is empty.

    Args:
        address: A folder, relative to the notebook if it is not absolute, or a URL.

    Raises:
        NotebookError: The URL cannot be used.
    """
    if not address.strip():
        return None
    if "://" in address or "::" in address:
        return FsspecStore(address)
    return ObjectFolder(root / Path(address).expanduser())
