"""Which tests are pure, in which order and process they run, and which cases are one test.

`conftest.py` takes the hooks over.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from source_trees import READERS

ROOT = Path(__file__).resolve().parents[1]
IMPURE_FOLDERS = frozenset(("browser", "commands", "dataset", "probe", "record", "transcripts"))
IMPURE_FIXTURES = frozenset(("make_book", "make_project", "git", "git_in"))
IMPURE_MARKS = ("process", "slow", "long", "torch", "paddle", "cluster")

SHARED = {
    "tests/browser": "sites",
    **dict.fromkeys(
        (
            *("tests/probe/torch", "tests/probe/inspection", "tests/probe/paddle", "tests/probe/training"),
            "tests/probe/process/test_process_failing_line.py",
            "tests/probe/process/test_process_metric_loggers.py",
            "tests/probe/process/test_process_stall_watchdog.py",
            "tests/probe/process/test_process_trainers.py",
        ),
        "frameworks",
    ),
    **dict.fromkeys(
        (
            "tests/transcripts",
            "tests/artifacts/test_artifacts_snapshots.py",
            "tests/record/test_record_session.py",
            "tests/record/test_record_trials.py",
            "tests/record/test_record_watch_expressions.py",
            "tests/report/test_report_graph_drawing.py",
            "tests/test_checks_frameworks.py",
        ),
        "recorder that has imported PyTorch",
    ),
}
"""Folder or file of tests -> what they share that takes long to make: sites, interpreters that imported a framework."""


def further(*values: object) -> list:
    """Values of a parameter that are left to `make test-all`."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]


def without_long(config: pytest.Config) -> bool:
    """Whether only `make test` runs, without the further cases."""
    return config.option.markexpr == "not long"


def in_one_test(names: str | tuple[str, ...], cases: Iterable, ids: object = None) -> Callable:
    """As `pytest.mark.parametrize`, but all cases are one test, which names those that fail.

    A test costs 5 ms more than what it does, and the cases of a table share all fixtures without harm.
    """
    names = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    cases = [case.values if hasattr(case, "marks") else case if len(names) > 1 else (case,) for case in cases]

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def run(**fixtures: object) -> None:
            failed = []
            for case in cases:
                try:
                    test(**fixtures, **dict(zip(names, case, strict=True)))
                except Exception as error:  # noqa: PERF203
                    failed.append(f"{case!r}: {type(error).__name__}: {error}")
            assert cases, "no case"
            assert not failed, f"{len(failed)} of {len(cases)} cases:\n" + "\n\n".join(failed[:20])

        signature = inspect.signature(test)
        fixtures = [value for name, value in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=fixtures)  # which pytest asks for the fixtures
        return run

    return decorate


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes no test of a case that is not run: `make test` leaves out a quarter, which cost each worker a second."""
    if without_long(metafunc.config):
        run = [call for call in metafunc._calls if all(mark.name != "long" for mark in call.marks)]
        metafunc._calls = run or metafunc._calls[:1]


def is_pure(item: pytest.Item) -> bool:
    """Whether a test starts no process, loads no framework and no DuckDB, by its folder, its fixtures and its marks."""
    if item.nodeid.split("/", 2)[1] in IMPURE_FOLDERS or IMPURE_FIXTURES.intersection(item.fixturenames):
        return False
    return not any(mark.name in IMPURE_MARKS for mark in item.iter_markers())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves folders without pure tests out of `-m pure`."""
    is_impure = collection_path.name in IMPURE_FOLDERS and collection_path.parent == ROOT / "tests"
    return True if is_impure and config.option.markexpr == "pure" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the pure tests, and puts files that have no others last: they are short and fill up both workers."""
    rank: dict[Path, int] = {}
    for item in items:
        if is_pure(item):
            item.add_marker("pure")
            rank.setdefault(item.path, 2)
        else:
            file = item.nodeid.partition("::")[0]
            rank[item.path] = 0 if scope_of(file) in SHARED.values() else 1
    items.sort(key=lambda item: rank[item.path])


def scope_of(file: str) -> str:
    """What a test file shares a process with: itself, or those that need the same thing that takes long to make."""
    if file in READERS:
        return "syntax trees of labbook"
    return SHARED.get(file) or SHARED.get(file.rpartition("/")[0], file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """One process for all tests of a scope."""
    from xdist.scheduler import LoadFileScheduling

    class ByFolder(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(super()._split_scope(nodeid))

    config.option.loadscopereorder = False  # by number of tests; the order of `pytest_collection_modifyitems` is better
    return ByFolder(config, log)
