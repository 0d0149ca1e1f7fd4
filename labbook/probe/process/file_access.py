"""Records files that the program reads and writes: paths, sizes and times, never their content.

The `open` audit event reports files opened by Python; the tables of descriptors and memory maps list files that C code
has open when they are read; a few readers in C are wrapped. The recorder computes hashes, outside the training process.
Many files of one folder are counted, not listed.
"""

import os
import stat
import sys

from ..events import protocol
from . import config_files, native_readers
from .user_files import is_user_file

_PER_FOLDER, _IN_ALL = 200, 2000
_PER_FOLDER_FORK, _IN_ALL_FORK = 32, 300
_AT_ONCE = 256
"""Number of files that are recorded as soon as they are opened; later ones in batches. Source: chosen by us, about 30
microseconds each, and the first files of a killed process are recorded."""
_BATCH = 128
_WHOLE, _SAMPLES, _SAMPLE = 16 << 20, 16, 64 << 10
"""Larger files are fingerprinted by so many samples of so many bytes, as the recorder does."""
_DISTINCT = 100000
_ANNEX, _DVC = "/annex/objects/", "/.dvc/cache/"
_RAY, _RAY_UPLOADED = "/ray/session_", "/runtime_resources/"
_TEMPORARY = os.O_EXCL | os.O_NOFOLLOW

_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/run/", "/var/cache/")
_CODE = (".py", ".pyc", ".pyo", ".pyi", ".so", ".pxd", ".pyx", ".egg-link", ".dll", ".h", ".cuh")
_INSIDE = (
    "/site-packages/",
    "/dist-packages/",
    ".dist-info/",
    ".egg-info/",
    "/__pycache__/",
    "/.labbook/",
    "/.git/",
    "/.cache/pip/",
    "/.cache/matplotlib/",
    "/.cache/fontconfig/",
    "/.cache/torch_extensions/",
    "/.config/matplotlib/",
    "/.triton/",
    "/.nv/",
    ".pyc.",
    "/.jupyter/",
    "/.ipython/",
    "/share/jupyter/",
    "/torchinductor_",
    "/matplotlib-",
    "/ray/ray_current_cluster",
    ".lock",
    *config_files.RUNTIME_FOLDERS,
)

_DELETED = " (deleted)"
"""What Linux puts behind the path of an open file that is gone, or that never had a name."""


class FileAccess:
    """Files that this process has opened so far."""

    def __init__(self, probe):
        self._probe = probe
        self._guard = probe.guard("inputs")
        self._configs = config_files.ConfigFiles(probe)
        prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.__file__), probe.journal}
        prefixes.add(probe.folder)
        prefixes.add(os.environ.get("JUPYTER_RUNTIME_DIR") or "")
        prefixes.add(getattr(sys, "pycache_prefix", None) or "")
        self._ignored = _SYSTEM + tuple({p.rstrip("/") + "/" for p in prefixes if len(p) > 1})
        # What the output goes to is no file of the program, also under another number: a kernel of a notebook has one.
        self._streams = {_descriptor_target(str(number)) for number in range(3)}
        self._begin(_PER_FOLDER, _IN_ALL, _AT_ONCE)

    def _begin(self, per_folder, in_all, at_once):
        self._per_folder, self._in_all, self._at_once = per_folder, in_all, at_once
        self._files = {}
        self._folders = {}
        self._rolled = {}
        self._distinct = set()
        self._pending = {}
        self._temporary = set()
        self._looks = 0

    def after_fork(self):
        """Reset in a forked child, with lower limits: there may be very many children."""
        self._begin(_PER_FOLDER_FORK, _IN_ALL_FORK, 16)

    def on_open(self, path, mode, flags, via="open"):
        """Record a file that is being opened.

        Args:
            path: Path passed to `open`; descriptors are ignored.
            mode: Mode of `open`, or `None` if there are only flags.
            flags: Flags of `os.open`.
            via: "open", "fd" or "map".

        Cost: 2 to 4 microseconds for a file that is ignored or known, 50 for a new one.
        """
        if isinstance(path, int) or self._configs.reading:
            return
        path = _absolute(path)
        if path not in self._files and (path.endswith(_CODE) or self._is_ignored(path)) and not _is_argument(path):
            return
        use = _use(mode, flags)
        if isinstance(flags, int) and flags & _TEMPORARY == _TEMPORARY:
            # As in `tempfile`. Most such files are removed soon; one that is renamed or remains is recorded then.
            self._temporary.add(path)
        elif path in self._temporary:
            return  # what is read from it is no input of the run
        elif path in self._files:
            self._on_repeated_use(self._files[path], use)
        elif _is_called_by_labbook():
            return
        elif len(self._files) < self._in_all and self._folders.get(os.path.dirname(path), 0) < self._per_folder:
            self._on_first_use(path, use, via, _empties(mode, flags))
        else:
            self._roll_up(path, use)

    def before_overwrite(self, path):
        """Fingerprint a file that was read, before code that raises no `open` audit event writes it.

        Cost: 2 microseconds for a file that was not read; see `_fingerprint`.
        """
        item = self._files.get(_absolute(path))
        if item is not None and item["mode"] == "r" and "before" not in item:
            item["before"] = self._fingerprint(item["path"])

    def on_rename(self, before, after):
        """Record a renamed file: a program that writes a file and then moves it has written the new path."""
        before, after = _absolute(before), _absolute(after)
        item = self._files.get(before)
        if before in self._temporary or (item is not None and item["mode"] != "r"):
            self.on_open(after, "w", 0)

    def inspect(self, _step=None):
        """Write pending files, and at every second call read the tables of descriptors and maps.

        Cost: 1 ms; 5 ms in a process with thousands of maps, as with a framework.
        """
        self._looks += 1
        if self._looks % 2:
            self._inspect_tables()
        self.flush()

    def flush(self):
        """Write the data that is only in memory."""
        with self._guard:
            waiting, self._pending = list(self._pending.values()), {}
            for at in range(0, len(waiting), _BATCH):
                self._probe.event(protocol.FILES, items=waiting[at : at + _BATCH])

    def leave(self):
        """Write the final state: sizes of written files, folders."""
        self._inspect_tables()
        with self._guard:
            temporary, self._temporary = self._temporary, set()
            for path in filter(os.path.isfile, temporary):
                self.on_open(path, "w", 0)
            for item in list(self._files.values()):
                if item is not None and item["mode"] != "r":
                    item["size"], item["mtime_ns"] = _size_and_time(item["path"])
                    self._pending[item["path"]] = item
            for folder, item in self._rolled.items():
                self._pending[folder] = item
        self.flush()

    def _is_ignored(self, path):
        if _RAY in path:
            return _RAY_UPLOADED not in path  # its logs and sockets; a job's own folder is below, too
        return path.startswith(self._ignored) or any(part in path for part in _INSIDE)

    def _on_repeated_use(self, item, use):
        if item is None:
            return
        if use not in item["mode"]:
            if item["mode"] == "r" and "before" not in item:
                item["before"] = self._fingerprint(item["path"])
            item["mode"] = "rw"
            self._pending[item["path"]] = item

    def _fingerprint(self, path):
        """The fingerprint of a file that was read and is about to be written, "" if it cannot be read.

        Cost: at most 40 ms, once a file.
        """
        import hashlib

        self._configs.reading = True
        try:
            with open(path, "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                if size <= _WHOLE:
                    return "sha256:" + hashlib.sha256(stream.read()).hexdigest()
                digest = hashlib.sha256(str(size).encode())
                for number in range(_SAMPLES):
                    digest.update(os.pread(stream.fileno(), _SAMPLE, number * (size - _SAMPLE) // (_SAMPLES - 1)))
                return "sampled:" + digest.hexdigest()
        except OSError:
            return ""
        finally:
            self._configs.reading = False

    def _on_first_use(self, path, use, via, empties):
        resolved = os.path.realpath(path)
        if _ANNEX in resolved or _DVC in resolved:
            # git-annex and DVC put links in the place of files: the link has the name that people know.
            resolved = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        is_code = resolved.endswith(_CODE) and not _is_argument(path)
        if resolved != path and (is_code or self._is_ignored(resolved)):
            self._files[path] = None
            return
        if resolved in self._files:
            self._files[path] = self._files[resolved]
            self._on_repeated_use(self._files[path], use)
            return
        size, time = _size_and_time(resolved)
        if size < 0 and (use == "r" or os.path.isdir(resolved)):
            return
        item = {"path": resolved, "mode": use, "size": size, "mtime_ns": time}
        if via == "open" and size > 0 and not empties:
            item["size_before"] = size
        if use == "w":
            item["size"] = -1
        elif use == "rw" and via == "open" and size >= 0:
            item["before"] = self._fingerprint(resolved)  # it was there, and is about to be changed
        self._files[path] = self._files[resolved] = item
        folder = os.path.dirname(path)
        self._folders[folder] = self._folders.get(folder, 0) + 1
        self._write_item(item)
        if "r" in use:
            self._configs.on_open(resolved)

    def _write_item(self, item):
        self._pending[item["path"]] = item
        if self._at_once > 0:
            self._at_once -= 1
            self.flush()
        elif len(self._pending) >= _BATCH:
            self.flush()

    def _roll_up(self, path, use):
        known = hash(path) in self._distinct
        if not known and use == "r" and not os.path.isfile(path):
            return
        folder = os.path.dirname(path)
        item = self._rolled.get(folder)
        if item is None:
            if len(self._rolled) >= self._in_all:
                return
            item = {"path": folder, "mode": use, "size": -1, "mtime_ns": 0, "folder": True, "members": 0}
            self._rolled[folder] = item
        if use not in item["mode"]:
            item["mode"] = "rw"
        if not known and len(self._distinct) < _DISTINCT:
            self._distinct.add(hash(path))
            item["members"] += 1

    def _inspect_tables(self):
        with self._guard:
            self._inspect_descriptors()
            self._inspect_maps()

    def _inspect_descriptors(self):
        for name in os.listdir("/proc/self/fd"):
            target = _descriptor_target(name)
            known = int(name) <= 2 or target in self._streams or target in self._files
            if target.startswith("/") and not known and not target.endswith(_DELETED):
                self.on_open(target, None, _flags_of(name), "fd")

    def _inspect_maps(self):
        with open("/proc/self/maps", "rb") as stream:
            paths = {line.split(None, 5)[5].rstrip(b"\n") for line in stream if b" /" in line}
        for raw in paths:
            path = os.fsdecode(raw)
            if path not in self._files and ".so" not in path and not path.endswith(_DELETED):
                self.on_open(path, None, os.O_RDONLY, "map")


def _is_called_by_labbook():
    """Whether a function of labbook opens the file, as `labbook.last()` does: the notebook is no input of the run."""
    frame = sys._getframe(2) if "labbook" in sys.modules else None
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "labbook":
            return True
        if is_user_file(frame.f_code.co_filename):
            return False
        frame = frame.f_back
    return False


def _descriptor_target(name):
    """Path of an open descriptor; "" where there is none."""
    try:
        return os.readlink("/proc/self/fd/" + name)
    except OSError:
        return ""


def install(probe):
    """Start watching files; returns handlers of audit events by name."""
    inputs = FileAccess(probe)
    probe.after_fork(inputs.after_fork)
    probe.at_steps(inputs.inspect)
    probe.at_exit(inputs.leave)
    native_readers.watch(probe, inputs.on_open, inputs.before_overwrite)
    opened, guard = inputs.on_open, probe.guard("open")

    def handle(args):
        path = args[0]
        if type(path) is str and path.endswith(_CODE) and not _is_argument(path):
            return
        with guard:
            opened(path, args[1], args[2])

    def on_connect(args):
        with guard:
            path = os.fsdecode(args[0])
            if path and not path.startswith((":memory:", "file:")):
                opened(path, None, os.O_RDWR)

    def on_rename(args):
        with guard:
            inputs.on_rename(args[0], args[1])

    return {"open": handle, "sqlite3.connect": on_connect, "os.rename": on_rename}


def _is_argument(path):
    """Whether a Python file is an argument of a script, as a configuration that it executes."""
    program, *words = getattr(sys, "argv", None) or [""]
    if not path.endswith(".py") or not program.endswith(".py"):
        return False
    named = [word.rpartition("=")[2] for word in words if word.endswith(".py")]
    return bool(named) and os.path.abspath(path) in map(os.path.abspath, named)


def _absolute(path):
    path = os.fsdecode(path)
    if path.startswith("/"):
        return path
    return os.path.join(os.getcwd(), path[2:] if path.startswith("./") else path)


def _use(mode, flags):
    """Return "r", "w" or "rw" for a file opened for reading, writing or both."""
    if isinstance(mode, str):
        if "r" in mode:
            return "rw" if "+" in mode else "r"
        return "w"
    access = (flags if isinstance(flags, int) else 0) & os.O_ACCMODE
    return "r" if access == os.O_RDONLY else ("w" if access == os.O_WRONLY else "rw")


def _empties(mode, flags):
    """Whether opening a file removes what was in it."""
    if isinstance(mode, str):
        return "w" in mode or "x" in mode
    return bool((flags if isinstance(flags, int) else 0) & os.O_TRUNC)


def _size_and_time(path):
    """Return size and modification time of a regular file, else (-1, 0)."""
    try:
        found = os.stat(path)
    except OSError:
        return -1, 0
    return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else (-1, 0)


def _flags_of(descriptor):
    try:
        with open("/proc/self/fdinfo/" + descriptor, "rb") as stream:
            for line in stream:
                if line.startswith(b"flags:"):
                    return int(line.split()[1], 8)
    except (OSError, ValueError):
        pass
    return os.O_RDONLY
