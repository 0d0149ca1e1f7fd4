"""Runs a Jupyter notebook in its kernel: `python -m labbook.execute_notebook FILE`, for `labbook record train.ipynb`.

Outputs are printed as they come. The executed notebook, with masked texts and limited outputs, and one row per code
cell go to the folder named by `LABBOOK_EXECUTED`, for the entry. An error of a cell ends the process with status 1.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from labbook.record import notebook_command
from labbook.store.config import Config
from labbook.store.journal import write_atomically
from labbook.store.recorder_redaction import make_redactor
from labbook.store.text.sentences import Sentences

_MOST_OUTPUT = 256 * 1024
_MOST_OUTPUTS = 2000
"""Most bytes of text, and most outputs, of one cell. Source: chosen by us; the console of the entry has the rest."""
_MOST_NOTEBOOK = 1024 * 1024
"""Most bytes of the executed notebook; a larger one loses its outputs, and is left out if it is still twice as large.
Source: the folder of an entry stays small."""
_SAVE_EVERY_S = 10.0
_SAVE_SHARE = 50
"""Least time between two savings, in times of the last one. Source: chosen by us, at most 2 % of the run."""
_INTERRUPT_S = 2.0
"""Time that an interrupted cell has to end, in seconds; code that catches the interrupt runs until the kernel ends."""


class _Run:
    """One execution: what is known of each cell, and the folder for it."""

    def __init__(self, path: Path, notebook: Any, folder: Path | None) -> None:  # noqa: ANN401 - of nbformat
        self.path = path
        self.notebook = notebook
        self.folder = folder
        self.redactor = make_redactor(dict(os.environ), [str(path)])
        self.rows: dict[int, dict[str, Any]] = {}
        self.sizes: dict[int, int] = {}
        self.signal = 0
        self.kernel: Any = None
        self.tasks: list[Any] = []
        self._next_save = 0.0
        self._open_line: int | None = None  # the cell that printed the last line without its end
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                before = cell.get("execution_count")
                self.rows[index] = {"cell": index + 1, "before": before, "state": "not_run", "source": cell.source}
                # What was saved in the file is no output of this run.
                cell["outputs"], cell["execution_count"] = [], None

    def on_cell_start(self, cell: Any, cell_index: int) -> None:  # noqa: ANN401 - of nbclient
        if cell_index in self.rows:
            self.rows[cell_index] |= {"state": "running", "started": time.time()}

    def on_cell_end(self, cell: Any, cell_index: int, execute_reply: Mapping[str, Any]) -> None:  # noqa: ANN401
        if self.signal:
            return  # the signal ended the cell: it was running at the end
        row = self.rows[cell_index]
        allowed = "raises-exception" in cell.metadata.get("tags", [])
        reply = execute_reply.get("content", {})
        failed = reply.get("status") == "error" and not allowed
        row |= {"state": "failed" if failed else "done", "duration_s": time.time() - row["started"]}
        row["count"] = reply.get("execution_count")
        if time.monotonic() > self._next_save:
            began = time.monotonic()
            self.save()
            # With thousands of cells, saving takes seconds.
            self._next_save = time.monotonic() + max(_SAVE_EVERY_S, _SAVE_SHARE * (time.monotonic() - began))

    def wants(self, output: Mapping[str, Any], index: int, count: int) -> bool:
        """Prints an output, and returns whether the cell keeps it."""
        text = notebook_command.text_of(output)
        if text and output.get("output_type") != "error":
            stream = sys.stderr if output.get("name") == "stderr" else sys.stdout
            begin = "" if self._open_line in (None, index) else "\n"
            self._open_line = None if text.endswith("\n") else index
            print(begin + text, end="", file=stream, flush=True)
        self.sizes[index] = self.sizes.get(index, 0) + len(text)
        fits = self.sizes[index] <= _MOST_OUTPUT and count < _MOST_OUTPUTS
        if not fits and index in self.rows:
            self.rows[index]["cut"] = True
        return fits

    def end_of_kernel(self) -> int:
        """Marks and prints the cell that a kernel that died was running; returns the signal that ended it, or 0."""
        cells = [index for index, row in self.rows.items() if row["state"] == "running"]
        for index in cells:
            self.rows[index]["state"] = "failed"
        status = self.kernel.poll() if self.kernel is not None else None
        number = -status if status is not None and status < 0 else 0
        say = Sentences(Config().language_in_use())
        cause = signal.Signals(number).name if number in set(signal.Signals) else str(status)
        print(
            f"labbook: {say.line('record.kernel_died', cell=cells[-1] + 1 if cells else 0, cause=cause)}",
            file=sys.stderr,
        )
        return number

    def end_of_program(self, value: str) -> int:
        """Prints which cell called `sys.exit`, and returns the exit status: that of a script that does the same."""
        cell = next((row["cell"] for row in self.rows.values() if row["state"] == "failed"), 0)
        status = int(value) if re.fullmatch(r"\d{1,3}", value) else int(value not in ("", "None"))
        say = Sentences(Config().language_in_use())
        print(f"labbook: {say.line('record.notebook_exit', cell=cell, status=status)}", file=sys.stderr)
        return status

    def save(self) -> None:
        """Writes cells, figures and the executed notebook; failures lose only these."""
        if self.folder is None:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            rows = [
                {**row, "outputs": self.notebook.cells[index].get("outputs", [])} for index, row in self.rows.items()
            ]
            notebook_command.write_cells(self.folder, rows, self.redactor)
            executed = self._executed_notebook()
            if len(executed) <= 2 * _MOST_NOTEBOOK:
                write_atomically(self.folder / notebook_command.NOTEBOOK_FILE, executed, durable=False)

    def _executed_notebook(self) -> bytes:
        """Returns the notebook with masked texts; without outputs if it is too large."""
        data = _mask(json.loads(json.dumps(self.notebook)), self.redactor)
        text = json.dumps(data, indent=1, ensure_ascii=False).encode("utf-8", "replace")
        if len(text) > _MOST_NOTEBOOK:
            for cell in data["cells"]:
                cell.get("metadata", {}).pop("execution", None)
                if "outputs" in cell:
                    cell["outputs"] = []
            text = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
        return text


def main(arguments: list[str]) -> int:
    """Executes a notebook; an error of a cell is raised, with its traceback in the message."""
    import nbformat

    path = Path(arguments[0])
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    folder = os.environ.get(notebook_command.ENV_FOLDER)
    run = _Run(path, notebook, Path(folder) if folder else None)
    # The path of a socket has at most 107 bytes: the folder of Jupyter may be too deep.
    sockets = tempfile.mkdtemp(prefix="labbook-")
    runtime = Path(sockets, ".jupyter")  # a name of folders whose files are no inputs of a run
    runtime.mkdir()
    # The frames of the runner say nothing about the notebook.
    sys.tracebacklimit = 0
    try:
        return _execute(_make_client(path, run, runtime), run)
    finally:
        run.save()
        shutil.rmtree(sockets, ignore_errors=True)
        if run.signal:
            # The end of a program that a signal interrupts, or that its kernel had: not an error of the notebook.
            with suppress(OSError):
                signal.signal(run.signal, signal.SIG_DFL)
            os.kill(os.getpid(), run.signal)


def _execute(client: Any, run: _Run) -> int:  # noqa: ANN401 - of nbclient
    """Executes the cells and returns the exit status."""
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    try:
        client.execute()
    except NoSuchKernel as error:
        say = Sentences(Config().language_in_use())
        print(f"labbook: {say.line('record.no_kernel', path=str(run.path), kernel=error.name)}", file=sys.stderr)
        return 1
    except DeadKernelError:
        number = run.end_of_kernel()
        if not number:
            raise
        run.signal = number
    except CellExecutionError as error:
        if error.ename != "SystemExit":
            raise
        return run.end_of_program(error.evalue)
    return 0


def _make_client(path: Path, run: _Run, runtime: Path) -> Any:  # noqa: ANN401 - of nbclient
    """Returns what executes the cells.

    Args:
        runtime: Folder for the sockets of the kernel.
    """
    from jupyter_core.utils import ensure_async
    from nbclient import NotebookClient

    class Client(NotebookClient):
        """Prints outputs as they come, and limits what a cell keeps."""

        def create_kernel_manager(self) -> Any:  # noqa: ANN401 - of jupyter_client
            """Gives a Python kernel sockets that only this user reaches; it warns about those of TCP."""
            manager = super().create_kernel_manager()
            if manager.kernel_spec is not None and manager.kernel_spec.language == "python":
                manager.transport, manager.connection_file = "ipc", str(runtime / "kernel.json")
            return manager

        def output(self, outs: list[Any], msg: dict[str, Any], display_id: str | None, cell_index: int) -> Any:  # noqa: ANN401
            """Handles one output."""
            out = super().output(outs, msg, display_id, cell_index)
            if out is not None and not run.wants(out, cell_index, len(outs)) and outs and outs[-1] is out:
                outs.pop()
            return out

        def take_signals(self, notebook: Any) -> None:  # noqa: ANN401 - of nbclient
            """Interrupts the cell and shuts the kernel down at a signal, and remembers which one it was."""
            loop = asyncio.get_running_loop()

            async def shut_down() -> None:
                # A kernel that is shut down while a cell runs prints an error of its sockets.
                if self.km is not None:
                    await ensure_async(self.km.interrupt_kernel())
                await asyncio.sleep(_INTERRUPT_S)
                await self._async_cleanup_kernel()

            def end(number: int) -> None:
                run.signal = number
                run.tasks.append(asyncio.ensure_future(shut_down()))

            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, end, number)
            run.kernel = getattr(getattr(self.km, "provisioner", None), "process", None)

    client = Client(
        run.notebook,
        timeout=None,
        resources={"metadata": {"path": str(path.resolve().parent)}},
        on_cell_execute=run.on_cell_start,
        on_cell_executed=run.on_cell_end,
    )
    client.on_notebook_start = client.take_signals
    return client


def _mask(value: Any, redactor: Any, key: str = "") -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {name: _mask(part, redactor, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_mask(part, redactor, key) for part in value]
    return redactor.text(value) if isinstance(value, str) and not key.startswith("image/") else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
