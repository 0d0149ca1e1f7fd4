"""Records a process that already runs: the recorder behind `labbook.recording()`, a child of that process.

It gets one JSON object a line on a socket: the request, then output, begins and ends of cells, and the end. It answers
with the settings of the probe, then with lines for the user. If the socket closes before the end is reported, the
process has died; what its cells had shown is known.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any

from labbook.errors import LabbookError
from labbook.record import notebook_command as cells
from labbook.record.child.supervisor import ChildEnd
from labbook.record.record_request import RecordRequest
from labbook.record.session import open_session, write_entry
from labbook.store.process_identity import start_ticks

_MOST_OUTPUT = 20_000
_MOST_OUTPUTS = 200
"""Most characters of text, and most outputs, of a cell. Source: chosen by us."""
_SAVE_EVERY_S = 2.0
_SAVE_SHARE = 50
"""Least time between two savings of the cells, in seconds and in times of the last one. Source: chosen by us."""
_DEATH_S = 10.0
"""How long a process may take to end after its socket has closed. Source: chosen by us."""


def main(descriptor: int) -> None:
    """Records the process at the other end of a socket."""
    channel = socket.socket(fileno=descriptor)
    stream = channel.makefile("rb")
    request_data = json.loads(stream.readline())

    def notify(**message: object) -> None:
        with suppress(OSError):  # the process has died
            channel.sendall(json.dumps(message).encode() + b"\n")

    request = RecordRequest(
        tuple(request_data["argv"]),
        Path(request_data["notebook"]) if request_data["notebook"] else None,
        request_data["experiment"],
        {name: value for name, value in request_data["flags"].items() if value is not None},
        tuple(request_data["notes"]),
        tuple(request_data["tags"]),
        quiet=bool(request_data["quiet"]),
    )
    try:
        session = open_session(request, lambda line: notify(line=line))
    except LabbookError as error:
        notify(error=error.as_data())
        return
    pid, began = int(request_data["pid"]), time.time()
    settings = {"root": str(Path(__file__).parents[1]), **session.probe_settings(request)}
    notify(run=session.journal.run_id, probe=settings if session.notebook.config.probe else None)
    session.on_start(pid)
    end = _store(session, stream)
    if end is None:
        _recover(session, pid)
        return
    done = ChildEnd(end["code"], "", began, time.time(), output_open=False)
    write_entry(session, request, done, lambda line: notify(line=line))
    entry = str(session.journal.read(session.journal.paths.done).get("entry") or "")
    notify(entry=str(session.notebook.paths.root / entry) if entry else "")


def _store(session: Any, stream: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """Stores what the process sends, until it sends how the recording ended; `None` if it dies before."""
    from labbook.capture.console.console_sink import ConsoleSink

    config = session.notebook.config
    redactor = copy(session.redactor)
    redactor.counts = {}
    sink = ConsoleSink(session.journal.paths.console, redactor, config.console_head_bytes, config.console_tail_bytes)
    shown = _Cells(session.journal.paths.root / cells.FOLDER, session.redactor)
    end = None
    with suppress(OSError):
        for line in stream:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # torn by a process that died
            if "text" in message:
                sink.feed(message["stream"], message["text"].encode("utf-8", "replace"))
                shown.add({"output_type": "stream", "name": message["stream"], "text": message["text"]})
            if "output" in message:
                shown.add(message["output"])
            if "cell" in message:
                shown.update(message["cell"])
            if "end" in message:
                end = message["end"]
                break
    shown.save()
    sink.close()
    session.ended = True
    return end


class _Cells:
    """The cells of a live kernel with what they showed, saved from time to time and at the end."""

    def __init__(self, folder: Path, redactor: Any) -> None:  # noqa: ANN401 - a redactor
        self._folder = folder
        self._redactor = redactor
        self._rows: dict[int, dict[str, Any]] = {}
        self._outputs: list[dict[str, Any]] = []
        self._next_save = 0.0

    def update(self, facts: dict[str, Any]) -> None:
        """Takes the begin or the end of a cell; what is shown then belongs to it."""
        row = self._rows.setdefault(int(facts["cell"]), {"outputs": []})
        row.update(facts)
        self._outputs = row["outputs"]
        if time.monotonic() > self._next_save:
            began = time.monotonic()
            self.save()
            self._next_save = time.monotonic() + max(_SAVE_EVERY_S, _SAVE_SHARE * (time.monotonic() - began))

    def add(self, output: dict[str, Any]) -> None:
        """Adds an output of the present cell, unless there are too many; of a text the end is kept."""
        last = self._outputs[-1] if self._outputs else {}
        if "text" in output and last.get("name") == output.get("name") and "text" in last:
            last["text"] = (last["text"] + output["text"])[-_MOST_OUTPUT:]
        elif self._rows and len(self._outputs) < _MOST_OUTPUTS:
            self._outputs.append(output)

    def save(self) -> None:
        """Writes all cells; errors are ignored."""
        if self._rows:
            with suppress(OSError):
                self._folder.mkdir(mode=0o700, exist_ok=True)
                cells.write_cells(self._folder, [self._rows[key] for key in sorted(self._rows)], self._redactor)


def _recover(session: Any, pid: int) -> None:  # noqa: ANN401 - a session
    """Writes the entry of a process that died, as `labbook recover` does."""
    from labbook.record.recovery import recover

    limit = time.monotonic() + _DEATH_S
    while start_ticks(pid) == session.start.get("child_ticks") and time.monotonic() < limit:
        time.sleep(0.1)
    if session.sampler is not None:
        session.sampler.stop()
    for thread in session.threads:
        thread.join()
    session.journal.release()
    recover(session.notebook)
