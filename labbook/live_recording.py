"""`with labbook.recording():` records a part of a process that already runs, as `labbook record` records a command.

A child process writes the journal and the entry, so that this process imports and keeps nothing of labbook but the
probe. `labbook.notebook_magics` has the same for cells of a notebook.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from labbook.errors import UsageError
from labbook.kernel_front_end import file_link, find_shell, kernel_command

_START_S = 60.0
_FINISH_S = 300.0
_SEND_S = 10.0
"""How long this process waits for the recorder before it goes on without it. Source: chosen by us."""
_PIECE = 60_000
_SHOWN = ("text/plain", "text/markdown", "text/latex", "text/html", "image/png", "image/jpeg")
_MOST_DATA = 512 * 1024
"""Most characters of one figure of a cell. Source: chosen by us."""
_MAIN = (
    "import sys; sys.path.extend(sys.argv[2:]); from labbook.record.live_recorder import main; main(int(sys.argv[1]))"
)

_current: Recording | None = None


class Recording:
    """A recording of this process, as a context manager; made by `labbook.recording`.

    Attributes:
        run: Id of the run, "" before the start and if nothing is recorded.
        entry: Path of the entry, "" before the end.
        failed: Whether the last cell failed.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self.run = ""
        self.entry = ""
        self._pid = 0
        self._channel: socket.socket | None = None
        self._recorder: subprocess.Popen[bytes] | None = None
        self._answers: Any = None
        self._probe: Any = None
        self._done = False
        self._tees: list[tuple[Any, Any]] = []
        self._hooked: list[tuple[Any, str]] = []
        self._cell_began = time.time()
        self._ended_cells: set[int] = set()
        self._first_cell = 0
        self.failed = False

    def __enter__(self) -> Recording:
        """Starts the recording.

        Raises:
            UsageError: An option is wrong.
        """
        global _current
        probe = getattr(sys, "_labbook_probe", None)
        if _current is not None or (probe is not None and not probe._ended):
            # The same code runs under `labbook record`, and where its caller records.
            _say(_sentence("record.live.whole"))
            self._done = True
            return self
        _current = self
        self._pid = os.getpid()
        try:
            self._start()
        except BaseException as error:
            _current = None
            self._abandon()
            if isinstance(error, (OSError, ValueError, subprocess.SubprocessError)):
                _say(_sentence("record.live.not_recorded", error=f"{type(error).__name__}: {error}"))
                return self
            raise
        return self

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(_START_S)
        self._channel = ours
        root = str(Path(__file__).resolve().parents[1])
        # Neither the working folder nor that of the script: a file `json.py` there is not for the recorder.
        paths = [path for path in sys.path[1:] if os.path.isabs(path) and path != os.getcwd()]  # noqa: PTH109, PTH117
        with theirs:
            self._recorder = subprocess.Popen(
                [sys.executable, "-I", "-c", _MAIN, str(theirs.fileno()), root, *paths],
                pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._answers = ours.makefile("rb")
        shell = find_shell()
        if shell is not None:
            self._first_cell = max(1, len(shell.history_manager.input_hist_raw) - 1)
        self._send(argv=kernel_command(shell), pid=self._pid, **self._options)
        while True:
            answer = self._answer()
            if "line" in answer:
                _say(answer["line"])
            elif "error" in answer:
                raise UsageError.from_data(answer["error"])
            elif "run" in answer:
                break
        self.run = answer["run"]
        ours.settimeout(_SEND_S)
        if answer["probe"] is not None:
            self._attach(answer["probe"])
        if shell is not None:
            self.begin_cell(self._first_cell, (shell.history_manager.input_hist_raw or [""])[-1])
        self.watch_output()
        atexit.register(self._finish_at_exit)

    def _attach(self, settings: Mapping[str, Any]) -> None:
        with suppress(Exception):
            if "_labbook_probe" not in sys.modules:
                package = ModuleType("_labbook_probe")
                package.__path__ = [str(Path(__file__).resolve().parent / "probe")]
                sys.modules["_labbook_probe"] = package
            import_module("_labbook_probe.start").attach(settings)
            self._probe = getattr(sys, "_labbook_probe", None)
            reason = "the recording began in a running process"
            self._probe.unobserved("random seeds and options set before the recording", reason)
            self._probe.unobserved("output of native code and of child processes", reason)

    def watch_output(self) -> None:
        """Has what Python writes to its output sent to the recorder as well; does nothing the second time."""
        for name in ("stdout", "stderr") if not self._tees else ():
            with suppress(AttributeError, TypeError):
                self._tee(name, getattr(sys, name))
        if not self._hooked:
            shell = find_shell()
            for owner, name in ((shell, "display_pub"), (shell, "displayhook")) if shell is not None else ():
                with suppress(Exception):
                    self._hook(getattr(owner, name))

    def _hook(self, shown: Any) -> None:  # noqa: ANN401 - the display publisher or display hook of IPython
        """Has what a cell displays sent to the recorder as well; the front end gets it unchanged."""
        name = "publish" if hasattr(shown, "publish") else "write_format_data"
        original = getattr(shown, name)

        def show_and_send(data: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            result = original(data, *args, **kwargs)
            with suppress(Exception):
                if not kwargs.get("update"):
                    self._send_shown(data)
            return result

        setattr(shown, name, show_and_send)
        self._hooked.append((shown, name))

    def _send_shown(self, data: Mapping[str, Any]) -> None:
        """Sends what a cell displays; images are text in base64 from here on."""
        shown = {kind: data[kind] for kind in _SHOWN if kind in data}
        # Of a table, the plain text is enough; of others it is only the name of their class, `<Styler at 0x7f>`.
        if not str(shown.get("text/plain", "")).startswith("<") or len(shown.get("text/html", "")) > _MOST_DATA // 2:
            shown.pop("text/html", None)
        for kind, content in shown.items():
            if isinstance(content, bytes):
                shown[kind] = base64.b64encode(content).decode("ascii")
        if 0 < sum(map(len, shown.values())) <= _MOST_DATA:
            self._send(output={"data": shown})

    def begin_cell(self, number: int, source: str) -> None:
        """Notifies the recorder that a cell begins, so that nothing of it is lost if this process dies.

        Args:
            number: Its number in the history of the kernel.
        """
        self._cell_began = time.time()
        with suppress(OSError):
            self._send(cell={"cell": number, "source": source, "state": "running"})

    def end_cell(self, number: int, source: str, error: BaseException | None = None, *, failed: bool = False) -> None:
        """Notifies the recorder that a cell has ended.

        Args:
            number: Its number in the history of the kernel.
        """
        self._ended_cells.add(number)
        self.failed = failed
        with suppress(OSError):
            if error is not None:
                self._send(output={"output_type": "error", "ename": type(error).__name__, "evalue": str(error)[:2000]})
            duration = time.time() - self._cell_began
            state = "failed" if failed else "done"
            self._send(cell={"cell": number, "source": source, "state": state, "duration_s": duration})

    def leave_output(self) -> None:
        """Leaves the output as it was, until `watch_output`."""
        for stream, before in reversed(self._tees):
            with suppress(Exception):
                if before is None:
                    del stream.write
                else:
                    stream.write = before
        self._tees = []
        for shown, name in self._hooked:
            with suppress(Exception):
                delattr(shown, name)
        self._hooked = []

    def _tee(self, name: str, stream: Any) -> None:  # noqa: ANN401 - any stream
        """Has what is written to a stream sent to the recorder as well; the stream stays the same object."""
        write, before = stream.write, vars(stream).get("write")

        def write_and_send(text: str) -> Any:  # noqa: ANN401
            result = write(text)
            if self._channel is not None:
                try:
                    for place in range(0, len(text), _PIECE):
                        self._send(stream=name, text=text[place : place + _PIECE])
                except Exception:
                    self._channel = None  # the recorder has died, and the program goes on
            return result

        stream.write = write_and_send
        self._tees.append((stream, before))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Ends the recording and writes the entry; an exception passes unchanged."""
        if self._pid != os.getpid():
            return  # a fork that left the block
        with suppress(Exception):
            if error is not None and self._probe is not None and not isinstance(error, SystemExit):
                self._probe.exceptions.record("main", error)
        self.finish(_exit_code(error))

    def finish(self, code: int) -> None:
        """Ends the recording and writes the entry; does nothing the second time.

        Args:
            code: 0, or an exit status that shows how the recorded part failed.
        """
        global _current
        if _current is self:
            _current = None
        if not self.run or self._done:
            return
        self._done = True
        self._detach()
        try:
            if self._channel is None:
                raise OSError("the recorder has ended")
            self._channel.settimeout(_FINISH_S)
            self._end_cells(code)
            self._send(end={"code": code})
            while True:
                answer = self._answer()
                if "line" in answer:
                    _say(answer["line"], self.run)
                if "entry" in answer:
                    self.entry = answer["entry"]
                    break
        except (OSError, ValueError) as error:
            _say(_sentence("record.live.not_written", error=str(error)))
        self._abandon()

    def _detach(self) -> None:
        self.leave_output()
        atexit.unregister(self._finish_at_exit)
        if self._probe is not None:
            self._probe.detach()

    def _abandon(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._answers is not None:
            self._answers.close()
        if self._recorder is not None:
            with suppress(subprocess.TimeoutExpired):
                self._recorder.wait(_SEND_S)

    def _finish_at_exit(self) -> None:
        if self._pid == os.getpid():
            self.finish(int(self.failed))

    def _send(self, **message: object) -> None:
        if self._channel is None:
            raise OSError("the recorder has ended")
        self._channel.sendall(json.dumps(message).encode() + b"\n", getattr(socket, "MSG_NOSIGNAL", 0))

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            raise OSError("the recorder has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end_cells(self, code: int) -> None:
        """Sends the recorder the cells whose end it does not know: the one that ends the recording, and others."""
        shell = find_shell()
        if shell is None or not self._first_cell:
            return
        sources = shell.history_manager.input_hist_raw
        last = len(sources) - 1
        for number in range(self._first_cell, last + 1):
            if number not in self._ended_cells:
                self.end_cell(number, sources[number], failed=bool(code) and number == last)


def recording(
    *,
    experiment: str = "",
    notes: tuple[str, ...] | list[str] = (),
    tags: tuple[str, ...] | list[str] = (),
    level: str | None = None,
    commit: bool = True,
    probe: bool = True,
    quiet: bool = False,
    notebook: str | os.PathLike[str] | None = None,
) -> Recording:
    """Records what runs in a `with` block as `labbook record` records a command.

    An exception inside the block passes unchanged and is in the entry. If the recorder cannot be started, the block
    runs unrecorded.

    Args:
        experiment: Experiment of the run: its name, number or a part of its name.
        level: How much to measure: "off", "light", "normal" or "deep"; by default the setting `level`.
        probe: Whether the program is observed.
        notebook: The notebook; by default the one above the working folder.
    """
    flags = {"level": level, "commit": None if commit else "off", "probe": None if probe else False}
    chosen = os.fspath(notebook) if notebook else ""
    given = {"experiment": experiment, "notes": list(notes), "tags": list(tags), "flags": flags, "quiet": quiet}
    return Recording({**given, "notebook": chosen})


def current() -> Recording | None:
    """Returns the recording in progress, or `None`."""
    return _current


def _exit_code(error: BaseException | None) -> int:
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _sentence(key: str, **values: str) -> str:
    """Returns a sentence in the language of the notebook; its modules are loaded for nothing else here."""
    with suppress(Exception):
        language = import_module("labbook.findings.exception_api").notebook_language()
        return str(import_module("labbook.store.text.sentences").Sentences(language).line(key, **values))
    return " ".join([key, *values.values()])


def _say(line: str, run: str = "") -> None:
    """Prints a line: in a notebook among its outputs, else on standard error; ignores write errors.

    Args:
        line: The line.
        run: In a notebook, the path of the entry of this run is a link.
    """
    with suppress(Exception):
        shell = find_shell()
        line = ("" if line.startswith(" ") else "labbook  ") + line
        path = line.strip().partition("  ")[0]
        link = file_link(path) if run and path.endswith(f"{run}.md") else ""
        if link:
            page = f'<pre style="margin:0">{escape(line).replace(escape(path), link)}</pre>'
            shell.display_pub.publish({"text/plain": line, "text/html": page})
        else:
            print(line, file=sys.stdout if hasattr(shell, "kernel") else sys.stderr, flush=True)
