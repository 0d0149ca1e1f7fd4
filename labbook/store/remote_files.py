"""Opens a folder, a bucket or a server by its address. The only module that imports fsspec."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from labbook.errors import NotebookError
from labbook.store.git.remotes import credential_free

_PACKAGES = {"s3": "s3fs", "oss": "ossfs", "gs": "gcsfs", "gcs": "gcsfs", "sftp": "paramiko"}
"""Scheme of an address -> the package that fsspec needs for it."""
_BUCKETS = frozenset({"s3", "s3a", "oss", "gs", "gcs", "abfs", "az"})
_WEBDAV = {"webdav": "http", "webdavs": "https"}
"""Scheme of a WebDAV address, as DVC writes it -> scheme of the server."""


def open_files(address: str, advice: str) -> tuple[Any, str]:
    """Returns the file system of an address, and the path in it.

    Args:
        address: Any path or URL of fsspec; credentials come from where fsspec finds them.
        advice: Key of the advice if the address cannot be used.

    Raises:
        NotebookError: fsspec or the package of this scheme is not installed, or the address cannot be used.
    """
    store, scheme = display_address(address), address.partition("://")[0]
    try:
        from fsspec.core import url_to_fs

        if scheme in _WEBDAV:
            address, options = _split_webdav(address)
        else:
            # Listings of buckets are cached otherwise, and a file of a moment ago is not seen.
            options = {"use_listings_cache": False} if scheme in _BUCKETS else {}
        files, path = url_to_fs(address, **options)
    except ImportError as error:
        package = "webdav4" if scheme in _WEBDAV else _PACKAGES.get(scheme, "")
        command = f"pip install 'labbook[data]' {package}".rstrip()
        raise NotebookError("errors.store.not_installed", store=store, reason=error, command=command) from error
    except Exception as error:  # file systems have errors of their own
        raise NotebookError("errors.store.unusable", store=store, reason=error, advice=advice) from error
    return files, str(path).rstrip("/")


def display_address(address: str) -> str:
    """Returns a path, or a URL without user, password and query."""
    return credential_free(address) if "://" in address else address


def _split_webdav(address: str) -> tuple[str, dict[str, Any]]:
    """Returns a path for fsspec and the options of its WebDAV file system, which takes the server as an option."""
    parts = urlsplit(address)
    server = f"{_WEBDAV[parts.scheme]}://{parts.netloc.rpartition('@')[2]}"
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return f"webdav://{unquote(parts.path)}", {"base_url": server, "auth": login}


def make_parent(files: Any, path: str) -> None:  # noqa: ANN401 - a file system of fsspec, which is not typed
    """Makes the folder of a file; not in a bucket, which has none, and where that may try to make the bucket."""
    if not _BUCKETS.intersection(_protocols(files)):
        files.makedirs(path.rpartition("/")[0], exist_ok=True)


def replace_file(files: Any, source: str, target: str) -> None:  # noqa: ANN401 - as above
    """Moves a file, also onto one that is there.

    Raises:
        FileNotFoundError: `source` does not exist.
    """
    make_parent(files, target)
    if "webdav" in _protocols(files) and files.exists(source):
        files.client.move(source, target, overwrite=True)  # `mv` of webdav4 0.11 refuses to replace a file
    else:
        files.mv(source, target)


def _protocols(files: Any) -> tuple[str, ...]:  # noqa: ANN401 - as above
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)
