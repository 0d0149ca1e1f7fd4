"""Of two failures in one console, which one is the cause: of a child, a worker, a cell, a rank."""

from __future__ import annotations

import dataclasses

import pytest

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.diagnosis.text.log_reader import read_text
from labbook.model.run import CaughtException, Console, Frame, Run

RUN = Run("i", "finished", ("python", "a.py"), "/w", 0.0, ended=12.0, script="a.py")


@pytest.mark.parametrize("launcher", ["ChildFailedError", "CalledProcessError", "ProcessExitedException"])
def test_what_a_child_printed_is_the_cause_of_what_its_launcher_raised(launcher: str) -> None:
    printed = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/w/a.py", line 9, in main\n'
        "[rank1]:     loss.backward()\n"
        "[rank1]: RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.\n"
    )
    frame = Frame("/env/lib/python3.11/site-packages/torch/distributed/run.py", 5, "run", "raise", user=False)
    raised = CaughtException("main", launcher, "", "a.py FAILED, exit status 1", (frame,), ended_process=True, t=9.0)
    run = dataclasses.replace(RUN, status="failed", exit_code=1, exceptions=(raised,), console=Console(printed))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert (found.symptom, found.where["line"], found.where["rank"]) == ("ddp_unused_parameters", 9, 1)


def test_what_a_worker_printed_is_the_cause_of_its_unexpected_exit() -> None:
    printed = (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
        '  File "/usr/lib/python3.11/multiprocessing/spawn.py", line 140, in _check_not_importing_main\n'
        "    raise RuntimeError(text)\nRuntimeError: \n        An attempt has been made to start a new process before\n"
        "        the current process has finished its bootstrapping phase.\n"
    )
    gone = "DataLoader worker (pid(s) 61) exited unexpectedly"
    raised = CaughtException("main", "RuntimeError", "builtins", gone, ended_process=True, t=9.0)
    run = dataclasses.replace(RUN, status="failed", exit_code=1, exceptions=(raised,), console=Console(printed))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings
    assert [one.symptom for one in found[:2]] == ["main_guard_missing", "dataloader_worker_killed"]


def test_the_error_of_a_cell_is_the_cause_of_what_the_notebook_runner_raised() -> None:
    frame = Frame("<cell 3>", 2, "<module>", "w @ x", user=True)
    cell = CaughtException(
        "main", "RuntimeError", "", "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)", (frame,)
    )
    runner = CaughtException("main", "CellExecutionError", "nbclient", "An error occurred", ended_process=True, t=2.0)
    run = dataclasses.replace(RUN, status="failed", exit_code=1, exceptions=(cell, runner))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert (found.symptom, found.where["file"]) == ("shape_mismatch_matmul", "<cell 3>")


@pytest.mark.parametrize("consequence", ["KeyboardInterrupt", "RuntimeError: DataLoader worker exited unexpectedly"])
def test_threads_that_cannot_start_are_the_cause_of_what_follows(consequence: str) -> None:
    refused = "OpenBLAS blas_thread_init: pthread_create failed for thread 7 of 48: Resource temporarily unavailable\n"
    text = f'{refused}Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n{consequence}\n'
    found = diagnose(read_text(refused * 3 + text), Matcher(load_catalogue())).findings
    assert found[0].symptom == "thread_limit_reached" and found[1].follows_from == "thread_limit_reached"


@pytest.mark.parametrize(("kind", "symptom"), [("broke", "collective_mismatch"), ("failed", "peer_process_died")])
def test_what_a_library_printed_when_it_aborted_a_rank_counts_where_no_rank_failed_first(
    kind: str, symptom: str
) -> None:
    lost = CaughtException("main", "RuntimeError", "builtins", "Connection closed by peer", rank=0, ended_process=True)
    printed = "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at "
    printed += "gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 176 vs 154. Is there a mismatch?\n"
    ranks = {"odd": {"kind": kind, "ranks": []}}
    console = Console(printed)
    run = dataclasses.replace(RUN, status="failed", exceptions=(lost,), console=console, captured={"ranks": ranks})
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert found.symptom == symptom


def test_a_rank_that_left_without_a_trace_is_missed_by_the_others_before_their_launcher() -> None:
    lost = CaughtException("main", "RuntimeError", "builtins", "Connection closed by peer", rank=0, ended_process=True)
    launcher = "torch.distributed.elastic.multiprocessing.errors"
    reported = CaughtException("main", "ChildFailedError", launcher, "train.py FAILED", t=9.0, ended_process=True)
    run = dataclasses.replace(RUN, status="failed", exceptions=(lost, reported))
    for end, symptom in (({}, "peer_process_died"), ({"code": 1}, "spawn_child_failed")):
        run = dataclasses.replace(run, captured={"ranks": {"odd": {"kind": "killed", "ranks": [1], **end}}})
        found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
        assert found.symptom == symptom


ORIGIN = "/lib/x86_64-linux-gnu/"
SETUP = 'Traceback (most recent call last):\n  File "setup.py", line 39, in <module>\n    setup()\n'
IN_A_LOOP = (
    'Traceback (most recent call last):\n  File "a.py", line 4, in load\n    rows = [json.loads(line) for line in f]\n'
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("ERROR: Unexpected segmentation fault encountered in worker.", "Native code crashed"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", "memory is exhausted"),
        ("OSError: [Errno 24] Too many open files: 'a/b.npy'", "opens files"),
        ("RuntimeError: Too many open files. Communication with the workers is no longer possible", "tensors"),
        ("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "empty or truncated"),
        (
            f"{IN_A_LOOP}json.decoder.JSONDecodeError: Expecting value: line 2 column 1 (char 27)",
            "One line of a JSON Lines",
        ),
        ("json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 27)", "one object per line"),
        ("NotADirectoryError: [Errno 20] Not a directory: 'out/ckpt'", "is a file"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'out/ckpt'", "not downloaded"),
        ("OSError: [Errno 22] Invalid argument: 'runs/09:23:35'", "characters that Windows forbids"),
        (
            f"ImportError: {ORIGIN}libc.so.6: version `GLIBC_2.32' not found (required by {ORIGIN}a_cuda.so)",
            "newer Linux",
        ),
        (f"ImportError: {ORIGIN}libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by a.so)", "libstdc++"),
        (
            "nvcc fatal   : Unsupported gpu architecture 'compute_89'\nninja: build stopped: subcommand failed.\n"
            f"{SETUP}RuntimeError: Error compiling objects for extension",
            "architecture that this `nvcc` does not know",
        ),
        (f"{SETUP}AttributeError: module 'grove' has no attribute 'plant'", "same name is imported first"),
        ("NotImplementedError: (Unimplemented) ConvertPirAttribute2RuntimeAttribute not support [pir::A]", "oneDNN"),
        (f"{SETUP}AttributeError: module 'torch.nn' has no attribute 'GatedPooling'", "The version is not the cause"),
        (f"{SETUP}AttributeError: module 'torch' has no attribute 'rfft'", "was removed or renamed"),
        ("AttributeError: module 'triton' has no attribute '__version__'", "imported instead of the package"),
    ],
)
def test_the_message_chooses_among_the_causes_of_a_page(text: str, cause: str) -> None:
    found = diagnose(read_text(text), Matcher(load_catalogue())).primary
    assert found is not None and cause in found.causes[0]


@pytest.mark.parametrize("library", ["requests.exceptions", "urllib3.exceptions", ""])
def test_a_connection_that_a_download_lost_is_none_of_a_rank(library: str) -> None:
    quoted = "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))"
    of_ranks = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:4217"
    text = f"{library}.ConnectionError: {quoted}" if library else f"RuntimeError: {of_ranks}"
    found = diagnose(read_text(text), Matcher(load_catalogue())).primary
    assert found is not None and found.symptom == ("download_failed" if library else "peer_process_died")
