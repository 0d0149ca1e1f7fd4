"""Standard streams of the command, each of the same kind as without labbook.

A terminal becomes the slave of a pseudo-terminal that carries output only. A regular file is passed on unchanged, and
so is a device such as /dev/full, whose errors a pipe would hide. Anything else becomes a pipe. Standard input,
controlling terminal and process group are the user's own, so that Ctrl-C, Ctrl-Z, `fg`, `pdb` and `getpass` work.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import termios
import tty
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_NO_SIZE = bytes(8)


@dataclass(frozen=True)
class Channel:
    """A stream that is copied to the screen and stored.

    Args:
        name: "stdout", "stderr", or "output" when both go to the same place.
        source: Descriptor from which the command's output is read.
        screen: Descriptor of the user's stream.
        pty: Whether `source` is the master of a pseudo-terminal.
        keys: Descriptor from which keys are copied to the command, -1 when it reads them itself.
    """

    name: str
    source: int
    screen: int
    pty: bool
    keys: int = -1


@dataclass(frozen=True)
class FileStream:
    """A stream that the command writes directly to a regular file of the user."""

    name: str
    path: Path
    offset: int


@dataclass
class ChildStreams:
    """Standard streams of the command, and the ends that labbook reads.

    Args:
        descriptors: Descriptor of the command -> descriptor that it duplicates; others are inherited.
        full: Whether the command gets a terminal and a session of its own.
    """

    descriptors: dict[int, int] = field(default_factory=dict)
    channels: list[Channel] = field(default_factory=list)
    files: list[FileStream] = field(default_factory=list)
    full: bool = False
    _closed: set[int] = field(default_factory=set)
    _saved: list[int | list[bytes | int]] | None = None

    def close_command_ends(self) -> None:
        """Closes the command's ends in this process, so that the end of each stream is noticed."""
        for descriptor in set(self.descriptors.values()):
            os.close(descriptor)
        self.descriptors = {}

    def close_source(self, index: int) -> None:
        """Closes the reading end of a channel, so that the command sees a closed stream."""
        if index not in self._closed:
            self._closed.add(index)
            os.close(self.channels[index].source)

    @property
    def open_channels(self) -> list[int]:
        """The numbers of the channels that have not ended."""
        return [index for index in range(len(self.channels)) if index not in self._closed]

    def close(self) -> None:
        """Closes all descriptors that are still open."""
        self.close_command_ends()
        for index in range(len(self.channels)):
            self.close_source(index)

    def take_keys(self) -> None:
        """Sends all keys, including Ctrl-C, to the command's own terminal; only with `full`."""
        if self.full:
            self._saved = termios.tcgetattr(0)
            tty.setraw(0, termios.TCSADRAIN)

    def restore(self) -> None:
        """Restores the modes of the user's terminal if they were changed."""
        if self._saved is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._saved)
            self._saved = None


def open_streams(full_pty: bool = False) -> ChildStreams:
    """Opens the command's standard output and error.

    Args:
        full_pty: Give the command a terminal of its own, if the user has one on standard input and output. Curses
            programs need it, as they set the modes of the terminal that they write to; Ctrl-Z does not work in it.
    """
    _fill_closed_streams()
    streams = ChildStreams(full=full_pty and os.isatty(0) and os.isatty(1))
    places = {number: _place(number) for number in (1, 2)}
    together = places[1] == places[2]
    for number, name in ((1, "stdout"), (2, "stderr")):
        name = "output" if together else name
        if number == 2 and together:
            if 1 in streams.descriptors:
                streams.descriptors[2] = streams.descriptors[1]
        elif places[number][0] == "file":
            streams.files.append(_file_stream(name, number))
        elif places[number][0] == "device":
            continue
        elif places[number][0] == "terminal":
            _add_pty(streams, name, number)
        else:
            source, streams.descriptors[number] = os.pipe()
            streams.channels.append(Channel(name, source, number, pty=False))
    return streams


def _fill_closed_streams() -> None:
    """Opens the null device for closed standard streams, so that no other file gets their numbers."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            return
        os.set_inheritable(descriptor, True)


def _place(number: int) -> tuple[str, int, int]:
    """Returns the kind of a stream and two numbers that identify its file."""
    status = os.fstat(number)
    if stat.S_ISREG(status.st_mode):
        return "file", status.st_dev, status.st_ino
    if os.isatty(number):
        return "terminal", 0, status.st_rdev
    if stat.S_ISCHR(status.st_mode) and status.st_rdev != Path(os.devnull).stat().st_rdev:
        return "device", 0, status.st_rdev
    return "other", status.st_dev, status.st_ino


def _file_stream(name: str, number: int) -> FileStream:
    appended = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND
    offset = os.fstat(number).st_size if appended else os.lseek(number, 0, os.SEEK_CUR)
    path = Path(f"/proc/{os.getpid()}/fd/{number}")
    named = path.readlink()
    # A deleted file has no name, but can be read through this process.
    return FileStream(name, named if named.exists() and named.samefile(path) else path, offset)


def _add_pty(streams: ChildStreams, name: str, number: int) -> None:
    owns_keys = streams.full and number == 1
    master, slave = os.openpty()
    modes = termios.tcgetattr(number)
    if not owns_keys:
        # The user's own terminal turns line feeds into new lines, as it does without labbook.
        modes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    copy_window_size(number, master)
    streams.descriptors[number] = slave
    if owns_keys:
        streams.descriptors[0] = slave
    streams.channels.append(Channel(name, master, number, pty=True, keys=0 if owns_keys else -1))


def copy_window_size(screen: int, master: int) -> bool:
    """Copies the window size to a pseudo-terminal; returns false if it is unchanged or unknown."""
    try:
        size = fcntl.ioctl(screen, termios.TIOCGWINSZ, _NO_SIZE)
        if size == fcntl.ioctl(master, termios.TIOCGWINSZ, _NO_SIZE):
            return False
        fcntl.ioctl(master, termios.TIOCSWINSZ, size)
    except OSError:
        return False
    return struct.unpack("HHHH", size)[:2] != (0, 0)


@contextlib.contextmanager
def open_child_streams(full_pty: bool) -> Iterator[ChildStreams]:
    """Opens the command's streams; closes them and restores the terminal when the block ends."""
    streams = open_streams(full_pty)
    try:
        yield streams
    finally:
        streams.restore()
        streams.close()
