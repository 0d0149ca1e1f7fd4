"""How a run ended, folded from recorded stacks: silence, what it waited for, a reader that died."""

from __future__ import annotations

import pytest

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.model.run import CaughtException, Frame, Run
from labbook.model.series import Series
from labbook.record.run_from_journal.blocked_on import classify_wait
from labbook.record.run_from_journal.ending_events import find_user_line, parse_thread_stacks, standstill_facts
from labbook.store.event_reader import read_event
from labbook.store.journal import ProcessEvents
from labbook.store.text.sentences import Sentences

SITE = "/venv/lib/python3.11/site-packages/"
LIBRARY = "/usr/lib/python3.11/"


def frames(*lines):
    return [
        {"file": file, "line": 7, "function": function, "source": source, "user": not file.startswith("/")}
        for file, function, source in (line if len(line) == 3 else (*line, "") for line in lines)
    ]


MAIN = ("train.py", "main")
WAITS = {
    "torch, workers": (
        "reader",
        [
            ("train.py", "main", "for x in loader:"),
            (SITE + "torch/utils/data/dataloader.py", "_try_get_data"),
            (LIBRARY + "multiprocessing/queues.py", "get"),
            (LIBRARY + "selectors.py", "select"),
        ],
    ),
    "paddle": ("reader", [MAIN, (SITE + "paddle/io/dataloader/dataloader_iter.py", "__next__")]),
    "dataset, in the main thread": (
        "reader",
        [MAIN, (SITE + "torch/utils/data/_utils/fetch.py", "fetch"), ("data.py", "__getitem__", "self.fetch(url)")],
    ),
    "all_reduce": ("collective", [MAIN, (SITE + "torch/distributed/distributed_c10d.py", "all_reduce")]),
    "paddle barrier": ("collective", [MAIN, (SITE + "paddle/distributed/communication/group.py", "barrier")]),
    "a queue": ("lock", [MAIN, (LIBRARY + "queue.py", "get"), (LIBRARY + "threading.py", "wait")]),
    "a bare lock": ("lock", [("train.py", "main", "with_it = gate.acquire()")]),
    "a child": ("worker", [MAIN, (LIBRARY + "subprocess.py", "wait"), (LIBRARY + "subprocess.py", "_try_wait")]),
    "a process": ("worker", [MAIN, (LIBRARY + "multiprocessing/popen_fork.py", "poll")]),
    "a question": ("input", [("train.py", "main", "answer = input('go on? ')")]),
    "the debugger": ("input", [MAIN, (LIBRARY + "pdb.py", "interaction"), (LIBRARY + "cmd.py", "cmdloop")]),
    "not a question": ("", [("train.py", "main", "y = model.input(x)")]),
    "its own loop": ("", [("train.py", "main", "while not ready: pass")]),
    "nothing": ("", []),
}


@pytest.mark.parametrize("what", list(WAITS))
def test_cause_of_a_blocked_main_thread(what):
    word, lines = WAITS[what]
    assert classify_wait(frames(*lines)) == word


DUMP = """Thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/venv/lib/python3.11/site-packages/tqdm/_monitor.py", line 60 in run

Current thread 0x00007f2 [python] (most recent call first):
  File "<frozen importlib._bootstrap_external>", line 132 in following
  File "/home/me/train.py", line 40 in collect
  File "/home/me/train.py", line 50 in <module>
"""


def test_the_text_of_the_interpreter_is_read():
    main, other = parse_thread_stacks(DUMP)
    assert main["main"] and [(f["line"], f["user"]) for f in main["frames"]] == [(50, True), (40, True), (132, False)]
    assert not other["frames"][-1]["user"]
    assert parse_thread_stacks("") == [] and parse_thread_stacks("no stacks\n" * 3) == []


def run_with(status="interrupted", exceptions=(), ended=1000.0, signal="SIGINT", step_s=0.5):
    series = Series("step_time_s", "probe", (1, 2, 3), (step_s,) * 3)
    return Run("r", status, ("python",), "/w", 0.0, ended, None, signal, exceptions=exceptions, series=(series,))


def process(**stacks):
    event = {
        "k": "stacks",
        "t": 990.0,
        "threads": [{"name": "main", "main": True, "frames": frames(*WAITS["paddle"][1])}],
    }
    return [ProcessEvents("h-1-2.jsonl", (read_event({**event, **stacks}),))]


def findings(run, facts, **captured):
    from dataclasses import replace

    evidence = collect_run_evidence(replace(run, captured={"ending": facts, **captured}))
    return diagnose(evidence, Matcher(load_catalogue())).findings if not evidence.clean_end else ()


def test_a_long_silence_before_ctrl_c_is_a_stall(tmp_path):
    facts = standstill_facts(run_with(), process(reason="interrupt", silent_s=95.0))
    assert facts["stalled"] and facts["silent_s"] == 95.0 and facts["waiting"] == "reader"
    assert facts["where"]["file"] == "train.py"
    first, *_ = findings(run_with(), facts)
    assert first.symptom == "stalled_no_progress" and first.where["line"] == 7
    assert "no step, batch or forward for the last 95 s; the main thread waits for the next batch" in first.evidence


@pytest.mark.parametrize(
    ("seen", "step_s", "status"),
    [
        ({"reason": "interrupt", "silent_s": 3.0}, 0.5, "interrupted"),
        ({"reason": "interrupt", "silent_s": 95.0}, 20.0, "interrupted"),
        ({"reason": "interrupt", "silent_s": None}, 0.5, "interrupted"),
        ({"reason": "moved", "silent_s": None, "threads": []}, 0.5, "interrupted"),
        ({"reason": "silence", "silent_s": 95.0}, 0.5, "finished"),
    ],
)
def test_no_stall(tmp_path, seen, step_s, status):
    run = run_with(status, step_s=step_s)
    facts = standstill_facts(run, process(**seen))
    assert "stalled" not in facts
    assert findings(run, facts) == ()


def test_a_silence_lasts_until_the_process_is_ended(tmp_path):
    run = run_with(ended=1100.0, signal="SIGTERM")
    facts = standstill_facts(run, process(reason="silence", silent_s=10.0))
    assert facts["silent_s"] == 120.0 and facts["stalled"]


def test_stacks_written_at_sigterm_are_taken(tmp_path):
    (tmp_path / "h-1-2.stacks").write_text(DUMP)
    facts = standstill_facts(run_with(signal="SIGTERM"), [ProcessEvents("h-1-2.jsonl", (), folder=tmp_path)])
    assert facts["where"]["line"] == 40 and "silent_s" not in facts


def thread_error(function, t=900.0, kind="KeyError"):
    where = (Frame("/w/data.py", 5, "__getitem__", "return self.table[key]", user=True),)
    loop = (Frame(SITE + "paddle/io/dataloader/dataloader_iter.py", 251, function),)
    return CaughtException("thread", kind, "builtins", "'image_40'", loop + where, thread="Thread-1", t=t)


@pytest.mark.parametrize(("status", "signal"), [("interrupted", "SIGTERM"), ("killed", "SIGKILL")])
def test_the_error_of_a_dead_reader_has_priority(tmp_path, status, signal):
    run = run_with(status, (thread_error("_thread_loop"),), signal=signal)
    facts = standstill_facts(run, [])
    assert Sentences("en")(facts["reader_died"]).endswith("died of KeyError: 'image_40' at /w/data.py:5")
    first, *rest = findings(run, facts)
    assert first.symptom == "key_missing" and (first.where["file"], first.where["line"]) == ("/w/data.py", 5)
    assert "data_reader_thread_died_hang" in [finding.symptom for finding in rest]


def test_a_thread_of_the_program_counts_when_nothing_moved_after_it(tmp_path):
    # Nothing moved for 95 s of 1000.
    seen = process(reason="interrupt", silent_s=95.0)
    late = standstill_facts(run_with(exceptions=(thread_error("prefetch", t=906.0),)), seen)
    early = standstill_facts(run_with(exceptions=(thread_error("prefetch", t=300.0),)), seen)
    assert "reader_died" in late and "reader_died" not in early
    assert standstill_facts(run_with("failed", (thread_error("_thread_loop"),)), []) == {}


@pytest.mark.parametrize(
    ("facts", "symptom", "words"),
    [
        ({"oom_kill": "the kernel killed 1 process"}, "process_killed_by_os", "the kernel killed 1 process"),
        ({"memory": "nothing shows that memory ran out"}, "process_killed_by_os", "nothing shows that memory ran out"),
        ({"time_limit": "it was ended 3 s after the end"}, "time_limit", "it was ended 3 s after the end"),
    ],
)
def test_a_kill_is_reported_with_its_evidence(facts, symptom, words):
    first, *_ = findings(run_with("killed", signal="SIGKILL"), facts)
    assert first.symptom == symptom and first.evidence[0] == words


def test_sigterm_at_the_time_limit_is_no_interruption_by_the_user():
    first, *_ = findings(run_with(signal="SIGTERM"), {"time_limit": "it was ended 3 s before the end"})
    assert first.symptom == "time_limit"


def test_at_the_time_limit_a_rank_that_others_wait_for_is_a_likelier_cause_than_too_little_time():
    limit = {"time_limit": "it was ended 3 s before the end"}
    ranks = {"odd": {"kind": "elsewhere", "ranks": [1], "others": {"ranks": [0, 2]}}}
    [short, *_], [hung, *_] = (findings(run_with(signal="SIGTERM"), limit, **more) for more in ({}, {"ranks": ranks}))
    assert short.causes[0].startswith("The job requests less time") and hung.causes[0].startswith("A step hangs")
    assert sorted(short.fixes) == sorted(hung.fixes) and hung.fixes[0].startswith("If no step was made")


def test_members_of_an_exception_group_are_read_like_chained_exceptions():
    from labbook.model.run import Console
    from labbook.record.run_from_journal.journal_reader import build_run

    inner = [{"type": "FileNotFoundError", "message": "[Errno 2] No such file or directory: 'a.png'", "group": []}]
    group = [
        {"type": "ValueError", "message": "odd", "group": []},
        {"type": "ExceptionGroup", "message": "g", "group": inner},
    ]
    event = {
        "k": "exception",
        "type": "ExceptionGroup",
        "message": "two (2 sub-exceptions)",
        "group": group,
        "exit": True,
    }
    run = build_run({"id": "r"}, {"code": 1}, [ProcessEvents("h-1-2.jsonl", (read_event(event),))], Console())
    assert [(kind, relation) for kind, _, relation in run.exceptions[0].chain] == [
        ("ValueError", "member"),
        ("FileNotFoundError", "member"),
    ]
    first, *_ = findings(run, {})
    assert first.family == "file_not_found"


def test_a_program_that_ends_itself_without_an_exception_is_quoted(tmp_path):
    from types import SimpleNamespace

    from labbook.findings.run_findings import add_diagnosis
    from labbook.model.run import Console
    from labbook.store.paths import NotebookPaths

    config = SimpleNamespace(language_in_use=lambda: "en")
    notebook = SimpleNamespace(paths=NotebookPaths(tmp_path), config=config)
    run = Run("r", "failed", ("python",), "/w", 0.0, 9.0, 4, console=Console("step 3\nthe third wheel is missing\n"))
    said = add_diagnosis(notebook, run).unsure
    assert said == (
        "the program ended itself with status 4 without an exception; "
        "the last line that it printed: the third wheel is missing"
    )


def died(signal="SIGSEGV"):
    event = {"k": "child_died", "t": 5.0, "pid": 77, "name": "Process-2", "target": "work", "signal": signal}
    return [ProcessEvents("h-1-2.jsonl", (read_event(event),))]


def test_a_child_that_died_explains_a_status_without_an_exception(tmp_path):
    from dataclasses import replace

    run = replace(run_with("failed", signal=""), exit_code=1)
    first, *_ = findings(run, standstill_facts(run, died()))
    assert first.symptom == "native_crash"
    assert first.evidence[0] == "the child process 77 (Process-2, work) was ended by SIGSEGV"


def test_the_connection_by_which_a_dead_worker_was_noticed_is_no_cause(tmp_path):
    from dataclasses import replace

    chain = (("ConnectionRefusedError", "[Errno 111] Connection refused", "cause"),)
    error = CaughtException(
        "main", "RuntimeError", "builtins", "DataLoader worker (pid(s) 77) exited unexpectedly", chain=chain,
        frames=(Frame("/w/train.py", 9, "<module>", "for x in loader:", user=True),), ended_process=True,
    )  # fmt: skip
    run = replace(run_with("failed", (error,), signal=""), exit_code=1)
    first, *rest = findings(run, standstill_facts(run, died("SIGKILL")))
    assert (first.symptom, rest) == ("dataloader_worker_killed", [])
    assert first.evidence[-1] == "the child process 77 (Process-2, work) was ended by SIGKILL"


def test_a_line_is_the_same_whether_the_probe_or_the_interpreter_wrote_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    frames = [{"file": file, "line": 3, "user": True} for file in ("~/train.py", f"{tmp_path}/train.py")]
    assert find_user_line(frames[:1]) == find_user_line(frames[1:])
