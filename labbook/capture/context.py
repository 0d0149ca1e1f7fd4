"""The facts about a run that every capture source receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor
    from labbook.store.config import Config
    from labbook.store.notebook import Notebook


@dataclass(frozen=True)
class CaptureContext:
    """The facts of a run that a capture source may use.

    Args:
        attachments: Folder of the entry's files; sources may write into it.
        python: The `hello` event of the main Python process; empty before the start and without a probe.
        in_container: Whether the command runs in a container and the recorder outside of it.
    """

    argv: Sequence[str]
    cwd: Path
    environ: Mapping[str, str]
    config: Config
    attachments: Path
    notebook: Notebook
    redactor: Redactor
    python: Mapping[str, Any] = field(default_factory=dict)
    in_container: bool = False
