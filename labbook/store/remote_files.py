"""Opens a folder, a bucket or a server by its address. The only module that imports fsspec."""

from __future__ import annotations

from typing import Any

from labbook.errors import NotebookError
from labbook.store.git.remotes import credential_free

_PACKAGES = {"s3": "s3fs", "oss": "ossfs", "gs": "gcsfs", "gcs": "gcsfs", "webdav": "webdav4", "sftp": "paramiko"}
"""Scheme of an address -> the package that fsspec needs for it."""
_BUCKETS = frozenset({"s3", "s3a", "oss", "gs", "gcs", "abfs", "az"})


def open_files(address: str, advice: str) -> tuple[Any, str]:
    """Returns the file system of an address, and the path in it.

    Args:
        address: Any path or URL of fsspec; credentials come from where fsspec finds them.
        advice: Key of the advice if the address cannot be used.

    Raises:
        NotebookError: fsspec or the package of this scheme is not installed, or the address cannot be used.
    """
    store = credential_free(address)
    try:
        from fsspec.core import url_to_fs

        # Listings of object stores are cached otherwise, and a file of a moment ago is not seen.
        files, path = url_to_fs(address, **({"use_listings_cache": False} if "://" in address else {}))
    except ImportError as error:
        package = _PACKAGES.get(address.partition("://")[0], "")
        command = f"pip install 'labbook[data]' {package}".rstrip()
        raise NotebookError("errors.store.not_installed", store=store, reason=error, command=command) from error
    except Exception as error:  # file systems have errors of their own
        raise NotebookError("errors.store.unusable", store=store, reason=error, advice=advice) from error
    return files, str(path).rstrip("/")


def make_parent(files: Any, path: str) -> None:  # noqa: ANN401 - a file system of fsspec, which is not typed
    """Makes the folder of a file; not in a bucket, which has none, and where that may try to make the bucket."""
    protocol = files.protocol if isinstance(files.protocol, (list, tuple)) else (files.protocol,)
    if not _BUCKETS.intersection(protocol):
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
