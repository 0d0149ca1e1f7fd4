"""What was made of entries that have not changed since, kept from one build to the next. Data only, never code.

Each thing lies in a file of its own, beside the key of all that it was made from and a digest of itself. A file that is
gone, damaged, or of another key is made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from labbook.publish.build_record import content_key, state_of_folders
from labbook.store.journal import write_atomically

FOLDER = "site-kept"
"""Below the notebook's private folder."""


def program_key() -> str:
    """Key of the program: what is kept was made by this one. Cost: 5 ms."""
    return state_of_folders([Path(__file__).parents[1]])


class BuildCache:
    """Things that are kept in a folder.

    Args:
        folder: Where; it may be deleted at any time. `None` keeps nothing.
        program: Key of what makes them, `program_key`.
    """

    def __init__(self, folder: Path | None = None, program: str = "") -> None:
        self._folder = folder
        self._program = program

    def of(self, name: str, key: str, make: Callable[[], bytes]) -> bytes:
        """What `make` makes, made now only where it is not kept.

        Args:
            name: Of the thing: letters, digits, `-`.
            key: Of all that it is made from besides the program.
            make: Makes it; the same key gives the same.
        """
        if self._folder is None:
            return make()
        wanted = content_key(self._program, name, key).encode()
        path = self._folder / name
        with contextlib.suppress(OSError):
            said, _, content = path.read_bytes().partition(b"\n")
            if said == wanted + b" " + content_key(content).encode():
                return content
        content = make()
        # A folder that cannot be written costs time only.
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, wanted + b" " + content_key(content).encode() + b"\n" + content, durable=False)
        return content
