"""Runs programs in forks of an interpreter that has imported a framework or labbook: the import is most of a short run.

The probe is started in the fork, before the program, by the same `sitecustomize` as in a new interpreter; it finds the
framework imported and attaches at once. What tests the start of a program itself takes a new interpreter.

`labbook record` may run here with the program that it records: see `ForkingPopen`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import warnings
from pathlib import Path

IMPORTED = {
    "torch": ("torch", "torch._dynamo"),
    "paddle": ("paddle",),
    "labbook": ("labbook.cli",),
    "labbook and torch": ("torch", "torch._dynamo", "labbook.cli"),
}
"""Name -> what is imported before the fork. PyTorch imports its compiler with the first optimizer: 4.7 s together."""

LEFT_OUT = ("labbook.checks", "labbook.notebook_magics", "labbook.probe", "labbook.pytest_plugin")
"""Modules of labbook that load a framework, or that its commands do not use."""

SETTLED = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
"""Variables that are read at the start: those of the interpreter that is forked, whatever a program asks for."""


class ForkedPython:
    """An interpreter with an imported framework; each program runs in a fork of it.

    Args:
        framework: Key of `IMPORTED`.
    """

    def __init__(self, framework: str) -> None:
        self.framework = framework
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "LANG", "TMPDIR", "XDG_CACHE_HOME")
            if name in os.environ
        }
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, __file__, framework, str(theirs.fileno())],
                env=environ | SETTLED,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )

    def run(self, arguments: list[str], environ: dict[str, str], folder: Path, timeout: float, *, joined: bool = False):
        """What `subprocess.run` gives for `python ARGUMENTS...` in a folder.

        Args:
            arguments: After the interpreter.
            environ: Its environment.
            folder: Where it runs.
            timeout: In s.
            joined: What it writes to standard error comes with the standard output, in order.

        Raises:
            subprocess.TimeoutExpired: It did not end in time, and was killed.
        """
        readers, writers = zip(os.pipe(), os.pipe(), strict=True)
        request = {"arguments": arguments, "environ": environ, "folder": str(folder)}
        outputs = [writers[0], writers[0]] if joined else list(writers)
        socket.send_fds(self.socket, [json.dumps(request).encode()], outputs)
        for writer in writers:
            os.close(writer)
        pid = int(self.socket.recv(100))
        out, err = _read_all(readers, time.monotonic() + timeout, pid)
        status = int(self.socket.recv(100))
        if out is None or err is None:
            raise subprocess.TimeoutExpired(arguments, timeout)
        return subprocess.CompletedProcess([sys.executable, *arguments], status, out, err)

    def close(self) -> None:
        """Ends the interpreter."""
        self.socket.close()
        self.process.kill()
        self.process.wait()


def _read_all(readers, deadline, pid):
    """The text of each pipe up to its end; `None` for both when the deadline came first, and the program is killed."""
    texts = dict.fromkeys(readers, b"")
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready and time.monotonic() >= deadline:
                os.kill(pid, signal.SIGKILL)
                texts = dict.fromkeys(readers)
                break
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if chunk:
                    texts[key.fd] += chunk
                else:
                    selector.unregister(key.fd)
    for reader in readers:
        os.close(reader)
    return [None if text is None else text.decode() for text in texts.values()]


def serve(framework: str, descriptor: int) -> None:
    """Imports the framework, then runs each program that is asked for in a fork, until the other end is closed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in IMPORTED[framework]:
            __import__(name)
        if "labbook" in framework:
            _import_labbook()
            _fill_caches()
    if framework == "labbook and torch":
        subprocess.Popen = ForkingPopen
    gc.freeze()
    channel = socket.socket(fileno=descriptor)
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1 << 20, 2)
        if not message:
            return
        pid = os.fork()
        if not pid:
            channel.close()
            for number, one in enumerate(descriptors, start=1):
                os.dup2(one, number)
                os.close(one)
            os._exit(_run_program(**json.loads(message)))
        for one in descriptors:
            os.close(one)
        channel.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _import_labbook() -> None:
    import labbook

    top = Path(labbook.__file__).parent
    for path in sorted(top.rglob("[a-z]*.py")):
        name = ".".join(("labbook", *path.relative_to(top).with_suffix("").parts))
        if not name.startswith(LEFT_OUT):
            with contextlib.suppress(ImportError):
                __import__(name)


def _fill_caches() -> None:
    """Reads words, templates and symptoms for all commands: a third of the 0.36 s of a short recording."""
    from labbook.diagnosis.service import Diagnoser, read_log
    from labbook.probe.redaction.redactor import Redactor
    from labbook.store.text import frontmatter, sentences, templates, words_files

    folder = words_files.builtin_folder()
    templates.Templates(None).prepare()
    for path in [folder / "entry.md.j2", *(folder / "entry").glob("*.j2")]:
        templates._environment((folder,)).get_template(path.relative_to(folder).as_posix())
    for path in (folder / "words" / "messages").glob("en_*.toml"):
        sentences._messages("en", path.stem.split("_")[1], None)
    frontmatter.parse("---\nid: x\n---\n", "")
    failure = (
        b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: shapes (3x4 and 5x6)\n'
    )
    Diagnoser().diagnose(read_log(io.BytesIO(failure)))
    redactor = Redactor()
    redactor.data({"password": [redactor.text("token: x")]})


class ForkingPopen(subprocess.Popen):
    """Where labbook starts the recorded program, a fork becomes it, without an own import of PyTorch."""

    def __init__(self, args, *, executable=None, preexec_fn=None, env=None, **options) -> None:
        def become_program() -> None:
            status = 1
            try:
                preexec_fn()
                _forget_recorder()
                status = _run_program(args[1:], env, ".")
            finally:
                os._exit(status & 0xFF)

        is_program = preexec_fn and executable == sys.executable and not args[1].startswith("-")
        prepare = become_program if is_program else preexec_fn
        super().__init__(args, executable=executable, preexec_fn=prepare, env=env, **options)


def _forget_recorder() -> None:
    """What `exec` does: closes descriptors and takes back signal handlers; and forgets the modules of labbook."""
    gc.freeze()  # no object of the recorder closes a descriptor of the program
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as each interpreter does at its start
    atexit._clear()
    sys.excepthook = sys.__excepthook__
    for name in [name for name in sys.modules if name.partition(".")[0] == "labbook"]:
        del sys.modules[name]


def _run_program(arguments, environ, folder):
    """What an interpreter does at its start, then the program as `__main__`; gives its exit status.

    Ends as an interpreter does up to the point where it takes its modules apart, which takes a second with a framework.
    """
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    is_module = arguments[0] == "-m"
    script = Path(arguments[0]).absolute()
    sys.argv = list(arguments)
    sys.orig_argv = [sys.executable, *arguments]
    del sys.path[0]  # the folder of this file
    sys.path[:0] = [entry for entry in environ.get("PYTHONPATH", "").split(":") if entry]
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ImportError):
        __import__("sitecustomize")
    sys.path.insert(0, folder if is_module else str(script.resolve().parent))
    main = types.ModuleType("__main__")
    main.__file__ = str(script)
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    status = 0
    try:
        if is_module:
            sys.argv = list(arguments[1:])
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            exec(compile(script.read_bytes(), str(script), "exec"), vars(main))
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # without the frame of this file
        raised = type(error), error, error.__traceback__
        sys.audit("sys.excepthook", sys.excepthook, *raised)
        sys.excepthook(*raised)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
