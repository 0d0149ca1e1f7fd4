"""Identity of this process: the facts of its first event."""

import os
import stat
import sys

from ..events.protocol import RANK_VARIABLES

_INJECTED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "inject")


def start_ticks():
    """Return the start time of this process in clock ticks since boot, 0 if unknown; with the pid it is unique."""
    try:
        return int(_read("/proc/self/stat").rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def host():
    """Return the host name."""
    return os.uname().nodename


def file_name(pid, ticks):
    """Return the name of the event file of a process, without its suffix."""
    safe = "".join([c if c.isalnum() or c in "-_." else "_" for c in host()])
    return "%s-%d-%d" % (safe[:64] or "host", pid, ticks)


def command_line():
    """Return the complete command of this process, beginning with the interpreter and its options."""
    try:
        arguments = _read("/proc/self/cmdline").split(b"\0")[:-1]
    except OSError:
        arguments = []
    if arguments:
        return [os.fsdecode(argument) for argument in arguments]
    given = getattr(sys, "orig_argv", None) or [sys.executable, *getattr(sys, "argv", [])]
    return [str(argument) for argument in given]


def hello(role, ticks):
    """Return fields of the `hello` event. `role` is "python", or "fork" for a fork of the process in `ppid`."""
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
        "fd1_file": file_place(1),
        "fd2_file": file_place(2),
        "env": {name: os.environ[name] for name in RANK_VARIABLES if name in os.environ},
    }


def target_of(descriptor):
    """Return the target of a descriptor, "" if it is closed."""
    try:
        return os.readlink("/proc/self/fd/%d" % descriptor)
    except OSError:
        return ""


def file_place(descriptor):
    """Return the inode of a regular file and the place of the next byte that is written, nothing for other targets."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return []
        position, flags = _read("/proc/self/fdinfo/%d" % descriptor).split()[1:4:2]
        return [status.st_ino, status.st_size if int(flags, 8) & os.O_APPEND else int(position)]
    except (OSError, ValueError):
        return []


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


_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "fleetrun")
_LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "paddle.distributed.launch",
    "accelerate.commands",
)


def is_launcher():
    """Whether this process only launches the training processes."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    name = getattr(main, "name", "") or ""
    program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return program in _LAUNCHERS or name.startswith(_LAUNCHER_MODULES)
