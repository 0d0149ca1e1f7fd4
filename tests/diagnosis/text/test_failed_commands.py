"""A missing file that a program reports is not the cause of what fails later: in a log, in the cells of a notebook."""

from __future__ import annotations

import json
from collections.abc import Callable

from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.diagnosis.text.ipynb import read_cell_outputs
from labbook.model.run import CaughtException, Console, Frame, Run

LS = "ls: cannot access 'old': No such file or directory\n"
FAILED = "CalledProcessError: Command 'b'build --all\\n'' returned non-zero exit status 3."


@in_one_test(
    ("family", "line"),
    [
        ("cuda_driver_mismatch", 'hip_code_object.cpp:92: guarantee(false && "hipErrorNoBinaryForGpu: no binary")\n'),
        ("port_in_use", "bind: Address already in use\n"),
        ("nccl_or_collective", "ncclSystemError: System call or external library call failed\n"),
    ],
)
@in_one_test("before", [LS, "LoadLib failed: libx.so: cannot open shared object file: No such file or directory\n", ""])
def test_a_missing_file_is_behind_another_failure(
    family_of: Callable[[str], str], family: str, line: str, before: str
) -> None:
    assert family_of(before + line) == family_of(line + before) == family
    assert family_of(LS) == "file_not_found"


@in_one_test(
    ("line", "family"),
    [
        ("make: *** No rule to make target 'data.bin', needed by 'train'.  Stop.", "file_not_found"),
        ("make: *** No rule to make target 'src/op.h', needed by 'op.o'.  Stop.", "compile_error"),
        ("make: *** No rule to make target 'trian'.  Stop.", ""),
        ("make: *** [Makefile:7: op.o] Error 1", "compile_error"),
        ("make: *** [all] Error 1", ""),
        ("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", "other"),
        (
            "ValueError: No available memory for the cache blocks.\n"
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
            "cuda_oom",
        ),
    ],
)
def test_make_and_an_engine_that_ends_say_what_they_know(
    family_of: Callable[[str], str], line: str, family: str
) -> None:
    assert family_of(line + "\n") == family


def _notebook(*cells: str) -> str:
    """The outputs of a notebook as text; the last cell fails."""
    shown = [[{"output_type": "stream", "name": "stdout", "text": [text]}] for text in cells]
    shown[-1].append({"output_type": "error", "ename": "CalledProcessError", "evalue": "", "traceback": [FAILED]})
    document = {"nbformat": 4, "cells": [{"cell_type": "code", "outputs": outputs} for outputs in shown]}
    return read_cell_outputs(json.dumps(document).encode())


def test_a_failed_command_of_a_notebook_is_explained_by_its_own_cell(family_of: Callable[[str], str]) -> None:
    assert family_of(_notebook(LS, "loss 0.3\n", "building\n")) == "other"
    assert family_of(_notebook(LS, "build: No space left on device\n")) == "disk_full"
    assert family_of(_notebook("RuntimeError: CUDA out of memory\n", LS)) == "file_not_found"


def test_cells_in_front_of_an_error_of_python_are_read(family_of: Callable[[str], str]) -> None:
    text = _notebook("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n", "x\n")
    assert "memory" not in text
    error = {"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": ["ValueError: bad"]}
    cells = [{"outputs": [{"output_type": "stream", "text": "warming up\n"}]}, {"outputs": [error]}, "no cell", {}]
    assert read_cell_outputs(json.dumps({"cells": cells}).encode()) == "warming up\n\nValueError: bad"


@in_one_test(("output", "family"), [("building\n", ""), ("build: No space left on device\n", "disk_full")])
def test_a_recorded_notebook_is_read_alike(output: str, family: str) -> None:
    kernel = CaughtException("cell", "CalledProcessError", "subprocess", FAILED.partition(": ")[2], t=1.0)
    runner = CaughtException("main", "CellExecutionError", "nbclient", f"a cell\n{FAILED}", t=2.0, ended_process=True)
    rows = [{"cell": 1, "state": "done", "output": LS}, {"cell": 2, "state": "failed", "output": output + FAILED}]
    run = Run(
        *("i", "failed", ("jupyter",), "/w", 0.0), exit_code=1, exceptions=(kernel, runner),
        console=Console(text=LS + output + FAILED), captured={"notebook": {"cells": rows}},
    )  # fmt: skip
    primary = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).primary
    assert (primary.family if primary else "") == family


def test_the_traceback_of_a_cell_that_the_runner_repeats_is_no_second_failure() -> None:
    cell = CaughtException("main", "NameError", "builtins", "name 'scaler' is not defined", t=1.0)
    library = (Frame("/v/site-packages/nbclient/client.py", 9, "execute", "raise CellExecutionError"),)
    said = (
        "An error occurred while executing the following cell:\nx = scaler\n\nNameError: name 'scaler' is not defined\n"
    )
    runner = CaughtException("main", "CellExecutionError", "nbclient", said, library, ended_process=True, t=2.0)
    run = Run("i", "failed", ("jupyter",), "/w", 0.0, exit_code=1, exceptions=(cell, runner))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings
    assert [one.symptom for one in found] == ["name_undefined"]
