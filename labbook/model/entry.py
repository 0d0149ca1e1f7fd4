"""An entry of the notebook: front matter and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from labbook.frozen import dataclass


@dataclass(frozen=True)
class Entry:
    """One Markdown page of a notebook, read from disk.

    Args:
        path: Relative to the notebook's root, with forward slashes.
        meta: The front matter as plain data.
        body: Everything after the front matter, byte for byte.
    """

    path: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""

    @property
    def id(self) -> str:
        """Run id, or the file name without its ending when the front matter has none."""
        return str(self.meta.get("id") or self.path.rsplit("/", 1)[-1].removesuffix(".md"))

    @property
    def script(self) -> str:
        """The program that ran, from the front matter or from the title (`train.py: ...`), or "".

        The title of an imported run begins with its name.
        """
        if self.meta.get("script") or self.meta.get("imported_from"):
            return str(self.meta.get("script") or "")
        title = str(self.meta.get("title") or "")
        head, colon, _ = title.replace("：", ": ").partition(": ")
        return head if colon and " " not in head else ""
