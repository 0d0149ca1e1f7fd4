"""Who this process is: the facts of its first event."""

import os
import sys

from ..events.protocol import RANK_VARIABLES

_INJECTED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "inject")


def start_ticks():
    """Start time of this process in clock ticks since boot, 0 when unknown; with the pid it names one process."""
    try:
        return int(_read("/proc/self/stat").rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def host():
    """Name of this machine."""
    return os.uname().nodename


def file_name(pid, ticks):
    """Name of the event file of a process, without its ending."""
    safe = "".join([c if c.isalnum() or c in "-_." else "_" for c in host()])
    return "%s-%d-%d" % (safe[:64] or "host", pid, ticks)


def command_line():
    """The whole command of this process, the interpreter and its options first."""
    try:
        arguments = _read("/proc/self/cmdline").split(b"\0")[:-1]
    except OSError:
        arguments = []
    if arguments:
        return [os.fsdecode(argument) for argument in arguments]
    given = getattr(sys, "orig_argv", None) or [sys.executable, *getattr(sys, "argv", [])]
    return [str(argument) for argument in given]


def hello(role, ticks):
    """Fields of the `hello` event. `role` is "python", or "fork" for a fork of the process in `ppid`."""
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "start_ticks": ticks,
        "host": host(),
        "role": role,
        "argv": [argument[:4096] for argument in command_line()[:1000]],
        "executable": sys.executable or "",
        "version": "%d.%d.%d" % sys.version_info[:3],
        "implementation": sys.implementation.name,
        "prefix": sys.prefix,
        "base_prefix": getattr(sys, "base_prefix", sys.prefix),
        "cwd": _working_folder(),
        "flags": _flags(),
        "sys_path": [entry for entry in sys.path if entry != _INJECTED],
        "fd1": target_of(1),
        "fd2": target_of(2),
        "env": {name: os.environ[name] for name in RANK_VARIABLES if name in os.environ},
    }


def target_of(descriptor):
    """What a descriptor points to, "" when it is closed."""
    try:
        return os.readlink("/proc/self/fd/%d" % descriptor)
    except OSError:
        return ""


def _working_folder():
    try:
        return os.getcwd()
    except OSError:
        return ""


def _flags():
    names = [name for name in dir(sys.flags) if not name.startswith(("_", "n_")) and name not in ("count", "index")]
    flags = {name: getattr(sys.flags, name) for name in names}
    return {name: int(value) for name, value in flags.items() if value}


def _read(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = []
        while True:
            chunk = os.read(descriptor, 65536)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
    finally:
        os.close(descriptor)
