"""Prints which rank is elsewhere while a job hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.store.journal import Journal

if TYPE_CHECKING:
    from labbook.record.jobs.job_place import JobPlace
    from labbook.store.text.sentences import Sentences

LOOK_S = 5.0
"""Time between two looks. Source: that of the probe's watchdog, which writes the stacks."""


class HangWatch:
    """Watches the event files of all ranks in a thread; prints each state of a hang once.

    Ranks may be processes of any command: of a launcher, workers of Ray, children of `spawn`.

    The recorder of the lowest rank that still runs prints it. Nothing is read while a rank makes progress.

    Args:
        place: Folder of the job, or `None` if the ranks are children of this recorder.
        rank: Number of its task.
        sentences: Of the user's language.
        print_line: Prints one line on the terminal; never raises.
    """

    def __init__(
        self,
        journal: Journal,
        place: JobPlace | None,
        rank: int,
        sentences: Sentences,
        print_line: Callable[[str], None],
    ) -> None:
        self._journal, self._place, self._rank = journal, place, rank
        self._sentences, self._print_line = sentences, print_line
        self._printed: set[str] = set()
        self._looked_at = (0, 0.0)
        self._ended = threading.Event()

    def start(self) -> None:
        """Starts the thread; it ends with the process."""
        threading.Thread(target=self._watch, name="labbook_hang_watch", daemon=True).start()

    def stop(self) -> None:
        """Ends the thread at its next look."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            with suppress(Exception):
                if self._is_first():
                    self.look()

    def _is_first(self) -> bool:
        """Whether the recorders of all lower ranks have ended."""
        if self._place is None:
            return True
        for rank in range(self._rank):
            with suppress(OSError):
                run_id = (self._place.root / "ranks" / str(rank)).read_text(encoding="utf-8").strip()
                if not self._place.paths.journal(run_id).done.exists():
                    return False
        return True

    def look(self) -> str:
        """Returns the sentence on a hang, which it prints unless it did before; "" without a hang."""
        journals = [self._journal] if self._place is None else [m.journal for m in self._place.members()]
        files = [path for journal in journals for path in journal.paths.events.glob("*.jsonl")]
        state = (len(files), max(map(_change_time, files), default=0.0))
        if len(files) < 2 or state == self._looked_at or time.time() - state[1] < LOOK_S:
            return ""
        from labbook.record.run_from_journal.rank_hangs import SILENT_S, find_hang
        from labbook.report.entry.ranks_section import odd_rank_sentence

        if time.time() - state[1] < SILENT_S:
            return ""
        self._looked_at = state
        hang = find_hang([process for journal in journals for process in journal.processes()])
        if not hang:
            return ""
        sentence = odd_rank_sentence(hang["odd"], self._sentences)
        if self._is_new(sentence):
            self._print_line(self._sentences.line("record.ranks.hangs", seconds=hang["silent_s"], sentence=sentence))
        return sentence

    def _is_new(self, sentence: str) -> bool:
        """Notes that the sentence is printed; returns whether neither this recorder nor one that has ended did."""
        noted = self._place.root / "hangs.txt" if self._place is not None else None
        if noted is not None and noted.exists():
            self._printed.update(noted.read_text(encoding="utf-8").splitlines())
        if sentence in self._printed:
            return False
        self._printed.add(sentence)
        if noted is not None:
            with noted.open("a", encoding="utf-8") as file:
                file.write(f"{sentence}\n")
        return True


def _change_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
