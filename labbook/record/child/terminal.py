"""Where the output of the command goes: decided for each stream, so that it sees what it would see without labbook.

A terminal becomes the slave of a pseudo-terminal that carries output only; a regular file stays the user's own, and so
does a device such as /dev/full, whose errors a pipe would not pass on; anything else becomes a pipe.
Standard input, controlling terminal and process group stay the user's own: Ctrl-C,
Ctrl-Z, `fg`, `pdb` and `getpass` work because nothing stands between them and the command.

Source: mechanisms, section 4.
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
    """A stream that is copied to the screen and kept.

    Args:
        name: "stdout", "stderr", or "output" when both go to the same place.
        source: Descriptor that the command's output is read from.
        screen: Descriptor of the user that it goes to.
        pty: Whether `source` is the master of a pseudo-terminal.
        keys: Descriptor that keys are read from and sent to the command, -1 when it reads them itself.
    """

    name: str
    source: int
    screen: int
    pty: bool
    keys: int = -1


@dataclass(frozen=True)
class FileStream:
    """A stream that goes to a regular file of the user, which the command writes by itself."""

    name: str
    path: Path
    offset: int


@dataclass
class Wiring:
    """What the command gets as its standard streams, and what labbook reads of them.

    Args:
        given: Descriptor of the command -> descriptor it becomes a copy of; what is not named is inherited.
        full: Whether the command gets a terminal and a session of its own.
    """

    given: dict[int, int] = field(default_factory=dict)
    channels: list[Channel] = field(default_factory=list)
    files: list[FileStream] = field(default_factory=list)
    full: bool = False
    _closed: set[int] = field(default_factory=set)
    _saved: list[int | list[bytes | int]] | None = None

    def close_command_ends(self) -> None:
        """Closes the ends that only the command may hold, so that its end can be seen."""
        for descriptor in set(self.given.values()):
            os.close(descriptor)
        self.given = {}

    def close_source(self, index: int) -> None:
        """Closes our end of a channel: the command is told that nobody reads it any more."""
        if index not in self._closed:
            self._closed.add(index)
            os.close(self.channels[index].source)

    @property
    def open_channels(self) -> list[int]:
        """Numbers of the channels that have not ended."""
        return [index for index in range(len(self.channels)) if index not in self._closed]

    def close(self) -> None:
        """Closes everything that was opened here and is still open."""
        self.close_command_ends()
        for index in range(len(self.channels)):
            self.close_source(index)

    def take_keys(self) -> None:
        """Hands all keys to the command's own terminal, Ctrl-C among them; only with `full`."""
        if self.full:
            self._saved = termios.tcgetattr(0)
            tty.setraw(0, termios.TCSADRAIN)

    def restore(self) -> None:
        """Gives the user's terminal back as it was; harmless when nothing was changed."""
        if self._saved is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._saved)
            self._saved = None


def wire(full_pty: bool = False) -> Wiring:
    """Opens what the command's standard output and error need.

    Args:
        full_pty: Give the command a whole terminal, when the user has one on standard input and output. Curses programs
            need it, as they set the modes of the terminal that they write to; Ctrl-Z does not work in it.
    """
    _fill_closed_streams()
    wiring = Wiring(full=full_pty and os.isatty(0) and os.isatty(1))
    places = {number: _place(number) for number in (1, 2)}
    together = places[1] == places[2]
    for number, name in ((1, "stdout"), (2, "stderr")):
        name = "output" if together else name
        if number == 2 and together:
            if 1 in wiring.given:
                wiring.given[2] = wiring.given[1]
        elif places[number][0] == "file":
            wiring.files.append(_file_stream(name, number))
        elif places[number][0] == "device":
            continue
        elif places[number][0] == "terminal":
            _add_pty(wiring, name, number)
        else:
            source, given = os.pipe()
            wiring.given[number] = given
            wiring.channels.append(Channel(name, source, number, pty=False))
    return wiring


def _fill_closed_streams() -> None:
    """Opens the null device for standard streams that are closed, or our own files would take their numbers."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            return
        os.set_inheritable(descriptor, True)


def _place(number: int) -> tuple[str, int, int]:
    """Kind of a stream, and what tells whether two are the same."""
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode):
        return "file", found.st_dev, found.st_ino
    if os.isatty(number):
        return "terminal", 0, found.st_rdev
    if stat.S_ISCHR(found.st_mode) and found.st_rdev != Path(os.devnull).stat().st_rdev:
        return "device", 0, found.st_rdev
    return "other", found.st_dev, found.st_ino


def _file_stream(name: str, number: int) -> FileStream:
    appended = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND
    offset = os.fstat(number).st_size if appended else os.lseek(number, 0, os.SEEK_CUR)
    path = Path(f"/proc/{os.getpid()}/fd/{number}")
    named = path.readlink()
    # A file that was deleted has no name any more, but can be read through us.
    return FileStream(name, named if named.exists() and named.samefile(path) else path, offset)


def _add_pty(wiring: Wiring, name: str, number: int) -> None:
    whole = wiring.full and number == 1
    master, slave = os.openpty()
    modes = termios.tcgetattr(number)
    if not whole:
        # The user's own terminal turns line feeds into new lines, as it would without us.
        modes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    copy_window_size(number, master)
    wiring.given[number] = slave
    if whole:
        wiring.given[0] = slave
    wiring.channels.append(Channel(name, master, number, pty=True, keys=0 if whole else -1))


def copy_window_size(screen: int, master: int) -> bool:
    """Gives a pseudo-terminal the size of the user's window; false when it had it already or nothing can be known."""
    try:
        size = fcntl.ioctl(screen, termios.TIOCGWINSZ, _NO_SIZE)
        if size == fcntl.ioctl(master, termios.TIOCGWINSZ, _NO_SIZE):
            return False
        fcntl.ioctl(master, termios.TIOCSWINSZ, size)
    except OSError:
        return False
    return struct.unpack("HHHH", size)[:2] != (0, 0)


@contextlib.contextmanager
def wired(full_pty: bool) -> Iterator[Wiring]:
    """`wire`, with everything closed and the terminal restored when the block ends."""
    wiring = wire(full_pty)
    try:
        yield wiring
    finally:
        wiring.restore()
        wiring.close()
