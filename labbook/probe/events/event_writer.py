"""Writes the events of this process: one append-only file, one `os.write` an event, no lock, nothing kept in memory."""

import itertools
import os
import time

from . import jsonl
from .measurement_kinds import TENSORS
from .protocol import EVENTS_FOLDER, SCHEMA, STEP

_MAX_LINE = 1024 * 1024
_MEASURED = frozenset([STEP, TENSORS])
"""Kinds that hold nothing but what the probe has measured, in lists that it keeps short: encoded the fast way."""

_WORDS = (
    "framework torch paddle opt step n loss lr grad_norm dt agg backwards skipped ph samples data forward backward"
    " optimizer other probe scale local model param_print params modules functions i w g g_zero g_bad"
    " ratio bad shape dtype min max mean std zero nan calls training in_bad sat across alike dead"
    " dead_n row_var cast bn fn line dim size float32 float64 float16 bfloat16 int64"
)
_NAMES = frozenset(_WORDS.split())
"""Names of fields in these events, and of what they hold. Source: `protocol`; to look for secrets in each of them takes
as long as all else that is done for an event."""

_HIGH_DESCRIPTOR = 150
"""The program gets the same small numbers as without the probe. Source: chosen by us, below the usual limit."""


class EventWriter:
    """The event file of one process.

    Args:
        folder: The journal of the run.
        redaction: Its `text(string)` and `data(plain)` give what may be written; whatever they do not pass is withheld.
    """

    def __init__(self, folder, redaction):
        self.folder = os.path.join(folder, EVENTS_FOLDER)
        self.redaction = redaction
        self._measured = jsonl.Encoder(redaction.text, _NAMES)
        self.lost = 0
        self.path = ""
        self._fd = -1
        self._identity = None
        self._torn = False
        self._numbers = itertools.count()

    def open(self, name):
        """Creates the file; an image started by `exec` in the same process gets one of its own.

        Raises:
            OSError: The journal cannot be written.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        for again in range(1000):
            path = os.path.join(self.folder, "%s%s.jsonl" % (name, "-%d" % again if again else ""))
            try:
                self._take(os.open(path, flags, 0o600))
            except FileExistsError:
                continue
            self.path = path
            self._numbers = itertools.count()
            self._torn = False
            self.lost = 0
            return
        raise FileExistsError(name)

    def event(self, kind, fields):
        """Appends one event. Never raises; what could not be written is counted in `lost`.

        Cost: about 15 microseconds for ten numbers.
        """
        try:
            line = self._line(kind, fields)
            if len(line) > _MAX_LINE:
                line = self._line(kind, {"cut": "an event of %d bytes" % len(line)})
            self._write(line.encode("ascii"))
        except Exception:
            self.lost += 1

    def open_beside(self, ending):
        """Opens a further file beside the event file, for what somebody else writes.

        Returns:
            Its descriptor and its path.

        Raises:
            OSError: The journal cannot be written, or the event file is not open: what lies beside it has no place.
        """
        if not self.path:
            raise OSError("no event file is open")
        path = self.path[: -len(".jsonl")] + ending
        return _move_descriptor_up(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)), path

    def forget(self):
        """Closes the file that was inherited by a fork; it belongs to the parent."""
        if self._is_ours():
            os.close(self._fd)
        self._fd = -1
        self._identity = None

    def state(self):
        """Returns what `resume` wants to go on with this file."""
        return self.path, self._numbers, self.lost

    def resume(self, state):
        """Goes on with a file that was left before another one was opened."""
        self.forget()
        self.path, self._numbers, self.lost = state

    def _line(self, kind, fields):
        head = '{"v":%d,"n":%d,"t":%.6f,"k":%s' % (SCHEMA, next(self._numbers), time.time(), jsonl.quote(kind))
        if kind in _MEASURED:
            return "%s,%s\n" % (head, self._measured.encode(fields)[1:])
        text = self.redaction.text
        parts = [head]
        for name, value in self.redaction.fields(kind, fields).items():
            parts.append('"%s":%s' % (name, jsonl.encode(value, text)))
        return ",".join(parts) + "}\n"

    def _write(self, data):
        if not self._is_ours():
            self._take(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
        if self._torn:
            data = b"\n" + data
        self._torn = True
        written = os.write(self._fd, data)
        self._torn = written < len(data)
        if self._torn:
            self.lost += 1

    def _is_ours(self):
        """Whether the descriptor is still the event file: a program may have closed it and put its own data there."""
        if self._fd < 0:
            return False
        try:
            now = os.fstat(self._fd)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == self._identity

    def _take(self, descriptor):
        self._fd = _move_descriptor_up(descriptor)
        now = os.fstat(self._fd)
        self._identity = (now.st_dev, now.st_ino)


def _move_descriptor_up(descriptor):
    try:
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        high = fcntl(descriptor, F_DUPFD_CLOEXEC, _HIGH_DESCRIPTOR)
    except (ImportError, OSError, ValueError):
        return descriptor
    os.close(descriptor)
    return high
