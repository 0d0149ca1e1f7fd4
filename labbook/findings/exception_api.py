"""Diagnoses an exception inside a program that is not recorded.

The module implements `labbook.diagnose(error)` and `labbook.diagnosed()`. The program's exception is never replaced,
changed or suppressed.
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

_OWN = str(Path(__file__).parents[1] / "checks") + os.sep
_MAX_FRAMES = 60
_MAX_CHAIN = 16
_MAX_MESSAGE = 32 * 1024


def diagnose_exception(error: BaseException, language: str = "") -> Diagnosis:
    """Returns the diagnosis of an exception, with earlier runs of the notebook if there is one.

    Args:
        error: The exception, with its traceback if it was raised.
        language: "en" or "zh"; "" for the language of the settings.
    """
    from labbook.diagnosis.service import Diagnoser
    from labbook.findings.run_findings import add_earlier_runs

    evidence = Evidence(exceptions=(_observe_exception(error),), framework=_framework())
    notebook = _find_notebook()
    diagnosis = Diagnoser(notebook, language).diagnose(evidence)
    return add_earlier_runs(notebook, diagnosis) if notebook is not None else diagnosis


def _find_notebook() -> Notebook | None:
    """Returns the notebook above the working folder, or `None` if there is none that can be opened."""
    from labbook.store.notebook_finder import find_notebook

    with suppress(Exception):
        return find_notebook(Path.cwd(), environ=os.environ, create_personal=False)
    return None


def _observe_exception(error: BaseException) -> ObservedException:
    """Returns an exception and its chain as evidence, even if `__str__` fails or the chain is a cycle."""
    seen: set[int] = set()
    chain: list[tuple[ObservedException, str]] = []
    current = error
    while len(chain) < _MAX_CHAIN:
        seen.add(id(current))
        relation = "cause" if current.__cause__ is not None else "context"
        former = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if former is None or id(former) in seen:
            break
        chain.append((_observe_single(former), relation))
        current = former
    return replace(_observe_single(error), context=tuple(chain))


def _observe_single(error: BaseException) -> ObservedException:
    from labbook.diagnosis.run_evidence import split_quoted_exception

    kind = type(error).__qualname__
    inner, message = split_quoted_exception(kind, _message(error))
    return ObservedException(kind, message, type(error).__module__, _frames(error.__traceback__), inner)


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_MESSAGE]
    except Exception as second:
        # The program's own `__str__` failed.
        return f"<the message cannot be shown: its __str__ raised {type(second).__name__}>"


def _frames(trace: TracebackType | None) -> tuple[Frame, ...]:
    # The frames of labbook's own checks are nobody's mistake, wherever labbook is installed.
    rows = [row for row in traceback.extract_tb(trace) if not row.filename.startswith(_OWN)]
    summary = traceback.StackSummary.from_list(rows)
    if len(summary) > _MAX_FRAMES:
        half = _MAX_FRAMES // 2
        summary = traceback.StackSummary.from_list([*summary[:half], *summary[-half:]])
    return tuple(make_frame(f.filename, f.lineno or 0, f.name, f.line or "") for f in summary)


def _framework() -> str:
    return next((name for name in ("torch", "paddle") if name in sys.modules), "")


def notebook_language() -> str:
    """Returns the language of the notebook above the working folder, "en" without one."""
    notebook = _find_notebook()
    return notebook.config.language_in_use() if notebook is not None else "en"


def format_diagnosis(diagnosis: Diagnosis, language: str) -> list[str]:
    """Returns the primary finding in a few lines, as at the end of a recorded run; else an empty list."""
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
    """Prints the diagnosis of an exception on standard error and re-raises it.

    A context manager and decorator.

    Args:
        language: "en" or "zh"; "" for the language of the settings.
    """

    def __init__(self, language: str = "") -> None:
        self._language = language

    def __enter__(self) -> diagnosed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Prints the diagnosis; the exception is re-raised in any case."""
        if error is None or not isinstance(error, Exception):
            return
        with suppress(Exception):
            language = self._language or notebook_language()
            for line in format_diagnosis(diagnose_exception(error, language), language):
                print(f"labbook  {line}", file=sys.stderr)
