"""What is recorded: a command, and the options of `labbook record`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labbook.record.end_summary import FinishedRun


@dataclass(frozen=True)
class RecordRequest:
    """The command to record, and the options of `labbook record`.

    Args:
        argv: The command, never empty.
        notebook: Path of a notebook, or `None` to find one.
        experiment: Slug of an experiment, or "" for the experiment of the script.
        flags: Settings from the command line, by the name of their field in `Config`.
        full_pty: Whether the command gets a terminal of its own, as curses programs need.
        requests: Actions of the probe inside the program, see `program_requests.parse_requests`.
        on_created: Called with the id of the run before the command starts.
        on_finished: Called when the entry is written; a failure of it is printed.
        started_in: Folder that printed paths begin at; `None`: where the command runs.
        launcher: Words that start the command in a container; they are no part of the recorded command.
        facts: Further facts of the start: `rerun_of`, `rerun_in` (the folder whose files a rerun has links to) and
            `container`.
    """

    argv: tuple[str, ...]
    notebook: Path | None = None
    experiment: str = ""
    flags: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    full_pty: bool = False
    quiet: bool = False
    requests: Mapping[str, object] = field(default_factory=dict)
    on_created: Callable[[str], None] | None = None
    on_finished: Callable[[FinishedRun], None] | None = None
    started_in: Path | None = None
    launcher: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
