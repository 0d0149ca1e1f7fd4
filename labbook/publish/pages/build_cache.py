"""Caches data made from unchanged entries between builds. Data only, never code.

Each item is a file with the key of its sources and a digest of its content. A file that is missing, damaged, or has
another key is made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from labbook.publish.pages.build_record import content_key, state_of_folders
from labbook.store.journal import write_atomically

FOLDER = "site-kept"
"""Below the private folder of the notebook."""


def program_key(*, by_content: bool = False) -> str:
    """Returns a key of the program that makes the items; see `state_of_folders`. Cost: 5 ms."""
    return state_of_folders([Path(__file__).parents[2]], by_content=by_content)


class BuildCache:
    """A cache in a folder.

    Args:
        folder: Folder, which may be deleted at any time; `None` caches nothing.
        program: `program_key()`.
    """

    def __init__(self, folder: Path | None = None, program: str = "") -> None:
        self._folder = folder
        self._program = program

    def get_or_make(self, name: str, key: str, make: Callable[[], bytes]) -> bytes:
        """Returns the cached item, else the result of `make`.

        Args:
            name: Name of the item: letters, digits, `-`.
            key: Key of its sources.
            make: Makes the item; equal keys give equal results.
        """
        if self._folder is None:
            return make()
        wanted = content_key(self._program, name, key).encode()
        path = self._folder / name
        with contextlib.suppress(OSError):
            header, _, content = path.read_bytes().partition(b"\n")
            if header == wanted + b" " + content_key(content).encode():
                return content
        content = make()
        # A read-only folder only costs time.
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, wanted + b" " + content_key(content).encode() + b"\n" + content, durable=False)
        return content
