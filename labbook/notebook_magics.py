"""`%load_ext labbook`: the magics `%%labbook`, `%labbook start` and `%labbook stop` of IPython and Jupyter."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from labbook.errors import UsageError
from labbook.live_recording import current, recording

_BEGIN_CELL = "cell"
_USAGE = "%%labbook [options], %labbook start [options] or %labbook stop"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:  # noqa: ANN401 - never returns
        raise UsageError("errors.live.usage", reason=message, usage=_USAGE)


def load(shell: Any) -> None:  # noqa: ANN401 - of IPython
    """Registers the magics; a second time does nothing."""
    if "labbook" in shell.magics_manager.magics["line"]:
        return
    magics = _Magics(shell)
    shell.register_magic_function(magics.labbook, "line", "labbook")
    # `%%labbook` becomes a line of its cell, which then runs as any other: with its outputs, `await` and errors.
    shell.input_transformers_cleanup.append(_as_line)
    shell.events.register("pre_run_cell", magics.cell_begins)
    shell.events.register("post_run_cell", magics.cell_ended)


def _as_line(lines: list[str]) -> list[str]:
    words = lines[0].split(None, 1) if lines else []
    if not words or words[0] != "%%labbook":
        return lines
    rest = words[1] if len(words) > 1 else "\n"
    return [f"%labbook {_BEGIN_CELL} {rest}", *lines[1:]]


class _Magics:
    def __init__(self, shell: Any) -> None:  # noqa: ANN401 - of IPython
        self._shell = shell
        self._one_cell = False
        self._misused = False

    def labbook(self, line: str) -> None:
        """Records a cell or the cells between `%labbook start` and `%labbook stop`; a wrong use has no traceback."""
        try:
            self._act(line)
        except UsageError as error:
            from IPython.core.error import UsageError as ShownError

            from labbook.store.notebook_finder import language_here

            self._misused = True
            raise ShownError("\n".join(filter(None, error.texts(language_here())))) from None

    def _act(self, line: str) -> None:
        words = shlex.split(line)
        action = words.pop(0) if words else ""
        going = current()
        if action in ("start", _BEGIN_CELL):
            if going is not None:
                raise UsageError("errors.live.nested")
            recording(**_options(words)).__enter__()
            self._one_cell = action == _BEGIN_CELL
        elif action == "stop" and not words:
            if going is None:
                raise UsageError("errors.live.nothing_recorded")
            going.finish(int(going.failed))
        else:
            raise UsageError("errors.live.no_such_magic", line=line.strip(), usage=_USAGE)

    def cell_begins(self, info: Any) -> None:  # noqa: ANN401 - of IPython
        """Watches the output of one more cell: IPython replaces the `write` of the streams for each cell."""
        going = current()
        if going is not None and getattr(info, "store_history", False):
            # The cell is not in the history yet; the count of the shell is raised before or after, by version.
            going.begin_cell(len(self._shell.history_manager.input_hist_raw), str(info.raw_cell))
            going.watch_output()

    def cell_ended(self, result: Any) -> None:  # noqa: ANN401 - of IPython
        """Ends the recording of `%%labbook`, and remembers how each cell ended."""
        going = current()
        # VS Code runs code of its own between the cells, for its list of variables: without history.
        if going is None or not getattr(getattr(result, "info", None), "store_history", True):
            return
        going.leave_output()
        # A wrong magic is no failure of what is recorded.
        failed = (result is None or not result.success) and not self._misused
        self._misused = False
        sources = self._shell.history_manager.input_hist_raw
        number = getattr(result, "execution_count", None) or len(sources) - 1
        error = getattr(result, "error_in_exec", None) or getattr(result, "error_before_exec", None)
        source = sources[number] if 0 <= number < len(sources) else ""
        going.end_cell(number, source, error, failed=failed)
        if self._one_cell:
            self._one_cell = False
            interrupted = isinstance(getattr(result, "error_in_exec", None), KeyboardInterrupt)
            going.finish(130 if interrupted else int(failed))


def _options(words: list[str]) -> dict[str, Any]:
    parser = _Parser(prog="labbook", add_help=False)
    parser.add_argument("-e", "--experiment", default="")
    parser.add_argument("-m", "--note", dest="notes", action="append", default=[])
    parser.add_argument("-t", "--tag", dest="tags", action="append", default=[])
    parser.add_argument("--debug", "--level", dest="level", choices=["off", "light", "normal", "deep"])
    parser.add_argument("--no-probe", dest="probe", action="store_false")
    parser.add_argument("--no-commit", dest="commit", action="store_false")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("--notebook")
    return vars(parser.parse_args(words))
