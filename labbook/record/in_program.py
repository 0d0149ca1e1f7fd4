"""The diagnosis of an exception inside a program: `labbook.diagnose(error)` and `labbook.diagnosed()`.

For code that is not recorded. The program's exception is never replaced, changed or held back.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import ContextDecorator, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from labbook.diagnosis.text.stack_frames import make_frame
from labbook.model.evidence import Evidence, ObservedException
from labbook.model.finding import Diagnosis
from labbook.model.run import Frame

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook

_MOST_FRAMES = 60
_MOST_CHAIN = 16
_MOST_MESSAGE = 32 * 1024


def diagnose_exception(error: BaseException, language: str = "") -> Diagnosis:
    """What went wrong, why, and what to try; with what cured it before where a notebook is found above the folder.

    Args:
        error: The exception, with its traceback if it was raised.
        language: "en" or "zh"; "" for that of the settings.
    """
    from labbook.diagnosis.service import Diagnoser
    from labbook.record.diagnosing import remembered

    evidence = Evidence(exceptions=(raised_of_error(error),), framework=_framework())
    notebook = _notebook()
    diagnosis = Diagnoser(notebook, language).diagnose(evidence)
    return remembered(notebook, diagnosis) if notebook is not None else diagnosis


def _notebook() -> Notebook | None:
    """The notebook above the working folder; one that cannot be opened is no reason to keep a diagnosis back."""
    from labbook.store.notebook import find_notebook

    with suppress(Exception):
        return find_notebook(Path.cwd(), environ=os.environ, create_personal=False)
    return None


def raised_of_error(error: BaseException) -> ObservedException:
    """An exception as evidence, with those behind it; cycles and `__str__` that fails do no harm."""
    seen: set[int] = set()
    behind: list[tuple[ObservedException, str]] = []
    current = error
    while len(behind) < _MOST_CHAIN:
        seen.add(id(current))
        relation = "cause" if current.__cause__ is not None else "context"
        former = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if former is None or id(former) in seen:
            break
        behind.append((_alone(former), relation))
        current = former
    return replace(_alone(error), context=tuple(behind))


def _alone(error: BaseException) -> ObservedException:
    from labbook.diagnosis.run_evidence import split_quoted_exception

    kind = type(error).__qualname__
    inner, message = split_quoted_exception(kind, _message(error))
    return ObservedException(kind, message, type(error).__module__, _frames(error.__traceback__), inner)


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_MOST_MESSAGE]
    except Exception as second:
        # It is the program's own code that fails here.
        return f"<the message cannot be shown: its __str__ raised {type(second).__name__}>"


def _frames(trace: TracebackType | None) -> tuple[Frame, ...]:
    summary = traceback.extract_tb(trace)
    if len(summary) > _MOST_FRAMES:
        half = _MOST_FRAMES // 2
        summary = traceback.StackSummary.from_list([*summary[:half], *summary[-half:]])
    return tuple(make_frame(f.filename, f.lineno or 0, f.name, f.line or "") for f in summary)


def _framework() -> str:
    return next((name for name in ("torch", "paddle") if name in sys.modules), "")


def told_lines(diagnosis: Diagnosis, language: str = "en") -> list[str]:
    """The primary finding in a few lines, as at the end of a recorded run; none where nothing is known."""
    from labbook.model.run import Run
    from labbook.report.entry.diagnosis_section import diagnosis_lines

    if diagnosis.primary is None:
        return []
    run = Run(
        id="", status="failed", argv=(), cwd=str(Path.cwd()), started=0.0,
        findings=diagnosis.findings,
    )  # fmt: skip
    return diagnosis_lines(run, language, str(Path.cwd()))


class diagnosed(ContextDecorator):  # noqa: N801 - used like a function
    """A context manager and decorator: says on standard error what an exception means, and lets it go on.

    Args:
        language: "en" or "zh"; "" for that of the settings.
    """

    def __init__(self, language: str = "") -> None:
        self._language = language

    def __enter__(self) -> diagnosed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Tells of the exception, which is raised on in any case."""
        if error is None or not isinstance(error, Exception):
            return
        with suppress(Exception):
            notebook = None if self._language else _notebook()
            language = self._language or (notebook.config.language_in_use() if notebook else "en")
            for line in told_lines(diagnose_exception(error, language), language):
                print(f"labbook  {line}", file=sys.stderr)
