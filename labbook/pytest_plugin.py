"""Plugin of pytest: checks of models as fixtures, and with `--labbook` a diagnosis below each failing test.

Fixtures: `gradcheck`, `check_training_step` and `overfit_one_batch`. They call the functions of `labbook.checks` and
fail the test if a check fails. pytest loads this module in every session, so it imports the rest of labbook only when a
fixture is called or a test has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from labbook.checks.results import Result

_OPTION = "labbook"
_HEADING = "labbook: cause and advice"
_MOST_DIAGNOSES = 200
"""Most failures of one process that are diagnosed. Source: chosen by us; one takes 20 to 60 ms."""


class CheckFailedError(AssertionError):
    """A check of a model failed; the message is the table of its results."""

    def __init__(self, result: Result) -> None:
        super().__init__(str(result))
        self.result = result


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--labbook` and the setting `labbook`."""
    about = "show cause and advice of labbook below each failing test"
    parser.getgroup("labbook").addoption("--labbook", action="store_true", dest=_OPTION, help=about)
    parser.addini(_OPTION, about, type="bool", default=False)


@pytest.fixture
def gradcheck() -> Callable[..., Any]:
    """Returns `gradcheck(function, inputs, rtol=1e-3)`: compares gradients with finite differences.

    It fails the test if a gradient is wrong, else returns the result. See `labbook.checks.gradcheck`.
    """

    def check(function: Callable[..., Any], inputs: Any, rtol: float = 1e-3) -> Result:  # noqa: ANN401
        __tracebackhide__ = True
        from labbook import checks

        return _raise_failures(checks.gradcheck(function, inputs, rtol))

    return check


@pytest.fixture
def check_training_step() -> Callable[..., Any]:
    """Returns `check_training_step(model, batch, loss=None, optimizer=None)`: checks one training step.

    It fails the test if the forward or backward pass raises, a trainable parameter has no gradient, a gradient is not
    finite, the optimizer lacks parameters, or a step leaves parameters unchanged. The model is restored. See
    `labbook.checks.checklist`.
    """

    def check(
        model: Any,  # noqa: ANN401 - of either framework
        batch: Any,  # noqa: ANN401
        loss: Callable[..., Any] | None = None,
        optimizer: Any = None,  # noqa: ANN401
    ) -> Result:
        __tracebackhide__ = True
        from labbook import checks

        return _raise_failures(checks.checklist(model, [batch], optimizer, loss))

    return check


@pytest.fixture
def overfit_one_batch() -> Callable[..., Any]:
    """Returns `overfit_one_batch(model, batch, loss=None, optimizer=None, steps=200)`: trains on one batch.

    It fails the test if the loss of the batch does not fall. The model is restored. See
    `labbook.checks.overfit_one_batch`.
    """

    def check(
        model: Any,  # noqa: ANN401 - of either framework
        batch: Any,  # noqa: ANN401
        loss: Callable[..., Any] | None = None,
        optimizer: Any = None,  # noqa: ANN401
        steps: int = 200,
    ) -> Result:
        __tracebackhide__ = True
        from labbook import checks

        return _raise_failures(checks.overfit_one_batch(model, batch, loss, optimizer, steps))

    return check


def _raise_failures(result: Result) -> Result:
    __tracebackhide__ = True
    if result.ok:
        return result
    raise CheckFailedError(result) from getattr(result, "error", None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Adds cause and advice to the report of a failing test; never changes its outcome."""
    outcome = yield
    if call.excinfo is None or not (item.config.getoption(_OPTION) or item.config.getini(_OPTION)):
        return
    with suppress(Exception):
        report = outcome.get_result()
        count = item.config.stash.get(_DIAGNOSED, 0)
        if not report.failed or count >= _MOST_DIAGNOSES:
            return
        item.config.stash[_DIAGNOSED] = count + 1
        text = "\n".join(_advice(call.excinfo.value, item.path))
        if not text:
            return
        # Part of the failure itself where possible: `--show-capture=no` hides the sections of a report.
        if hasattr(report.longrepr, "addsection"):
            report.longrepr.addsection(_HEADING, text)
        else:
            report.sections.append((_HEADING, text))


_DIAGNOSED = pytest.StashKey[int]()


def _advice(error: BaseException, test_file: Path) -> Iterable[str]:
    """Returns the lines of the diagnosis; empty if the failure is not known."""
    if isinstance(error, CheckFailedError):
        if error.__cause__ is None:
            return [f"{row.check}: {row.observed}; {row.detail}" for row in _failed_rows(error.result) if row.detail]
        error = error.__cause__
    if not isinstance(error, Exception):
        return []
    from labbook.findings.exception_api import diagnose_exception, format_diagnosis, notebook_language

    language = notebook_language()
    diagnosis = diagnose_exception(error, language)
    primary = diagnosis.primary
    if primary is None or (not primary.symptom and primary.family == "other"):
        return []
    if isinstance(error, AssertionError) and primary.where.get("file") == str(test_file):
        return []  # what the test expects: the two values that differ do not show the cause
    return format_diagnosis(diagnosis, language)


def _failed_rows(result: Result) -> list[Any]:
    return [row for row in getattr(result, "rows", ()) if getattr(row, "verdict", "") == "fail"]
