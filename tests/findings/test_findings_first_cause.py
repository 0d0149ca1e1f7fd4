"""The headline is what failed first: never the broken connection of a peer, nor the report of a launcher."""

from dataclasses import replace

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.findings.run_findings import name_first_cause
from labbook.model.finding import Diagnosis, Finding
from labbook.model.run import CaughtException, Console, Frame, Run
from labbook.report.ending_exception import ending_exception
from labbook.report.entry.title import verdict_line

CATALOGUE = load_catalogue()
OWN = CaughtException(
    "main", "ValueError", "builtins", "sample 17 of shard 3 is corrupt", rank=1, t=1.0, ended_process=True,
    frames=(Frame("/w/ddp.py", 8, "<module>", "raise ValueError(...)", user=True), Frame("/lib/x.py", 3, "f")),
)  # fmt: skip
PEER = CaughtException(
    "main", "RuntimeError", "builtins", "[gloo] Connection closed by peer", rank=0, t=2.0, ended_process=True
)
REPORT = replace(PEER, type="ChildFailedError", message="ddp.py FAILED", rank=None, t=3.0)
RUN = Run("i", "failed", ("torchrun", "ddp.py"), "/w", 0.0, exit_code=1, exceptions=(PEER, REPORT, OWN))


def found(symptom, exception, **fields):
    page = CATALOGUE.symptoms[symptom]
    return Finding(symptom, page.family, page.class_, 1, "error", symptom, exception=exception, **fields)


@pytest.mark.parametrize("port", [4711, 4712])
def test_a_cause_is_certain_though_ranks_lose_it_at_different_ports(port):
    lost = [replace(PEER, rank=n, message=f"[pair.cc:553] Connection closed by peer [127.0.0.1]:{at}. This is typical.")
            for n, at in ((0, 4711), (2, port))]  # fmt: skip
    own = replace(OWN, type="AttributeError", message="Can't pickle local object 'build.<locals>.<lambda>'")
    run = replace(RUN, exceptions=(own, *lost, REPORT))
    first = diagnose(collect_run_evidence(run), Matcher(CATALOGUE)).primary
    assert (first.symptom, first.tier) == ("unpicklable_object", 1)


def test_the_page_of_what_failed_first_comes_to_the_front():
    """Its causes and fixes say more than the bare error."""
    full = replace(OWN, type="OSError", message="[Errno 28] No space left on device")
    run = replace(RUN, exceptions=(PEER, REPORT, full))
    findings = (
        found("peer_process_died", "RuntimeError"),
        found("disk_full", "OSError", follows_from="peer_process_died"),
    )
    first, report = name_first_cause(Diagnosis(findings), run, CATALOGUE).findings
    assert (first.symptom, first.follows_from) == ("disk_full", "")
    assert (report.symptom, report.follows_from) == ("peer_process_died", "disk_full")


def test_a_wait_for_the_rank_that_failed_first_stands_behind_its_error():
    left = replace(OWN, type="SystemExit", message="only 9 usable rows")
    odd = {"kind": "failed", "ranks": [1], "error": "SystemExit: only 9 usable rows"}
    run = replace(RUN, exceptions=(PEER, REPORT, left), captured={"ranks": {"odd": odd}})
    wait = found("collective_timeout", "TimeoutException")
    own, report = name_first_cause(Diagnosis((wait,)), run, CATALOGUE).findings
    assert own.title == odd["error"] and report.follows_from == own.family
    ours = replace(wait, where={"rank": 1})
    assert name_first_cause(Diagnosis((ours,)), run, CATALOGUE).findings == (ours,)


@in_one_test("symptom", sorted(id for id, page in CATALOGUE.symptoms.items() if "any" in page.caused_by))
def test_what_reports_another_failure_stands_behind_the_first_one(symptom):
    seen = name_first_cause(Diagnosis((found(symptom, "RuntimeError"),)), RUN, CATALOGUE)
    own, report = seen.findings
    assert own.title == "ValueError: sample 17 of shard 3 is corrupt"
    assert (own.where["file"], own.where["line"], own.where["rank"]) == ("/w/ddp.py", 8, 1)
    assert report.symptom == symptom and report.follows_from == own.family
    shown = "ValueError: sample 17 of shard 3 is corrupt, at ddp.py:8"
    assert verdict_line(replace(RUN, findings=seen.findings)) == shown


@pytest.mark.parametrize("kind", ["ValueError", "RuntimeError", "OSError"])
def test_the_first_rank_is_named_though_all_ranks_raise_errors_of_one_class(kind):
    run = replace(RUN, exceptions=(replace(PEER, type=kind), REPORT, replace(OWN, type=kind)))
    diagnosis = Diagnosis((found("peer_process_died", kind, message="[gloo] Connection closed by peer"),))
    own, report = name_first_cause(diagnosis, run, CATALOGUE).findings
    assert (own.title, own.where["rank"]) == (f"{kind}: sample 17 of shard 3 is corrupt", 1)
    assert report.follows_from == own.family


@pytest.mark.parametrize(
    ("how", "ending", "symptom"),
    [
        ({}, {}, "process_killed_by_os"),
        ({}, {"lost_node": "no sign of life of n2"}, "node_lost"),
        # The others had ended before: the status is theirs.
        ({"signal": "SIGKILL", "code": None}, {}, "process_killed_by_os"),
        ({"kind": "failed", "signal": "SIGSEGV", "where": {"file": "/w/a.py", "line": 3}}, {}, "native_crash"),
    ],
)
def test_where_a_rank_was_killed_the_broken_connections_of_the_others_are_no_cause(how, ending, symptom):
    ranks = {"odd": {"kind": "killed", "ranks": [1], **how}}
    run = replace(
        RUN, status="failed", exit_code=1 if how else None, signal="" if how else "SIGKILL", exceptions=(PEER,)
    )
    printed = "[rank0]: Traceback (most recent call last):\n[rank0]: RuntimeError: Connection closed by peer\n"
    run = replace(run, captured={"ranks": ranks, "ending": ending}, console=Console(text=printed))
    found = diagnose(collect_run_evidence(run), Matcher(CATALOGUE)).findings
    assert [one.symptom for one in found] == [symptom]


@pytest.mark.parametrize("kind", ["apart", "crossed"])
def test_where_all_ranks_gave_up_the_place_is_that_of_the_odd_one(kind):
    timed_out = "Timed out waiting 45000ms for recv operation to complete"
    waits = [
        replace(
            PEER, message=timed_out, rank=rank, t=float(rank), frames=(Frame("/w/ddp.py", 10 + rank, "f", user=True),)
        )
        for rank in range(3)
    ]
    run = replace(RUN, exceptions=tuple(waits), captured={"ranks": {"odd": {"kind": kind, "ranks": [2]}}})
    assert diagnose(collect_run_evidence(run), Matcher(CATALOGUE)).findings[0].where["line"] == 12


@pytest.mark.parametrize("kind", ["elsewhere", "differs", "behind", "ended"])
def test_where_ranks_waited_for_one_the_place_is_the_line_of_that_one(kind):
    odd = {"kind": kind, "ranks": [1], "where": {"file": "/w/ddp.py", "line": 17, "source": "client.recv(4096)"}}
    waits = replace(PEER, message="Timed out waiting 45000ms for recv operation to complete", frames=OWN.frames)
    run = replace(RUN, exceptions=(waits,), captured={"ranks": {"odd": odd}})
    diagnosis = name_first_cause(diagnose(collect_run_evidence(run), Matcher(CATALOGUE)), run, CATALOGUE)
    assert diagnosis.primary.symptom == "collective_timeout"
    assert (diagnosis.primary.where["line"], diagnosis.primary.where["rank"]) == (17, 1)


def test_a_library_that_aborts_a_rank_says_why():
    """The abort, its report by the launcher and the lost connections of the others are consequences."""
    printed = (
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at x.cc:456] "
        "op.preamble.length <= op.nbytes. 256 vs 128. Received data size doesn't match expected size.\n"
    )
    report = replace(REPORT, message="ddp.py FAILED\n  traceback : Signal 6 (SIGABRT) received by PID 13457")
    captured = {"ranks": {"odd": {"kind": "aborted", "ranks": [2], "signal": "SIGABRT"}}}
    lost = replace(PEER, frames=OWN.frames)
    run = replace(RUN, exceptions=(lost, report), captured=captured, console=Console(text=printed))
    first = diagnose(collect_run_evidence(run), Matcher(CATALOGUE)).primary
    assert first.symptom == "collective_mismatch" and first.where["line"] == 8


def test_the_report_of_ray_train_is_no_cause():
    quoted = "Training failed due to worker errors:\n[Rank 0 Error Snippet]:\nRuntimeError: Connection closed by peer"
    report = replace(REPORT, type="WorkerGroupError", message=quoted)
    task = replace(PEER, where="task", ended_process=False)
    found = diagnose(collect_run_evidence(replace(RUN, exceptions=(task, report))), Matcher(CATALOGUE)).findings
    assert found[0].symptom == "peer_process_died"


def test_the_first_rank_to_lose_its_peer_is_no_cause_though_it_names_another_port():
    lost = [
        replace(PEER, message=f"pair.cc:537 Read error :{port}: Connection reset by peer", t=port) for port in (1, 2)
    ]
    run = replace(RUN, exceptions=tuple(lost))
    findings = (found("peer_process_died", "RuntimeError", message=lost[1].message),)
    assert name_first_cause(Diagnosis(findings), run, CATALOGUE).findings == findings


def test_the_error_of_a_task_is_the_cause_of_what_the_program_raises_from_its_report():
    message = "'utf-8' codec can't decode byte 0xe9 in position 3: invalid continuation byte"
    task = replace(OWN, type="UnicodeDecodeError", message=message, where="task", rank=None, ended_process=False)
    text = f"ray::read() (pid=7)\nUnicodeDecodeError: {message}"
    own = replace(PEER, message="no corpus", chain=(("RayTaskError(UnicodeDecodeError)", text, "cause"),), rank=None)
    run = replace(RUN, exceptions=(task, own))
    assert ending_exception(run) == task
    first = diagnose(collect_run_evidence(run), Matcher(CATALOGUE)).findings[0]
    assert (first.symptom, first.where["line"]) == ("text_encoding_wrong", 8)
    assert ending_exception(replace(run, exceptions=(own,))) == own


def test_a_cause_of_its_own_stays_in_front():
    diagnosis = Diagnosis((found("shape_mismatch_linear", "RuntimeError"), found("peer_process_died", "RuntimeError")))
    assert name_first_cause(diagnosis, RUN, CATALOGUE) == diagnosis
    alone = replace(RUN, exceptions=(PEER,))
    diagnosis = Diagnosis((found("peer_process_died", "RuntimeError", message=PEER.message),))
    assert name_first_cause(diagnosis, alone, CATALOGUE) == diagnosis


def test_the_roll_call_decides_where_clocks_of_nodes_differ():
    late = replace(RUN, exceptions=(replace(OWN, t=9.0), PEER, REPORT))
    assert ending_exception(late) == PEER
    named = {"ranks": {"odd": {"kind": "failed", "ranks": [1]}}}
    assert ending_exception(replace(late, captured=named)).rank == 1


@pytest.mark.parametrize(
    ("odd", "first"),
    [
        ({"kind": "ended", "ranks": [1]}, "rank_step_count_mismatch"),
        ({"kind": "ended", "ranks": [0]}, "peer_process_died"),
        ({"kind": "killed", "ranks": [1]}, "peer_process_died"),
        ({"kind": "broke", "ranks": []}, "peer_process_died"),
    ],
)
def test_a_shorter_epoch_is_the_cause_where_that_rank_ended_first(odd, first):
    run = replace(RUN, exceptions=(PEER,), captured={"ranks": {"odd": odd}})
    broken = found("peer_process_died", "RuntimeError", message=PEER.message)
    uneven = replace(found("rank_step_count_mismatch", ""), where={"rank": 1})
    seen = name_first_cause(Diagnosis((broken, uneven)), run, CATALOGUE).findings
    assert (seen[0].symptom, len(seen)) == (first, 2)
    assert (seen[1].follows_from == first) == (first == uneven.symptom)


def test_the_error_of_a_cell_ends_the_run_not_the_report_of_its_runner():
    cell = replace(OWN, ended_process=False, rank=None)
    earlier = replace(cell, type="KeyError", t=0.5)
    runner = replace(REPORT, type="CellExecutionError")
    run = replace(RUN, exceptions=(runner, earlier, cell))
    assert ending_exception(run) == cell
    assert ending_exception(replace(run, exceptions=(runner,))) == runner


def test_an_error_of_the_system_without_a_file_name_is_whole():
    """Reading a truncated checkpoint: the page of a missing file has the same words before a path."""
    raised = CaughtException("main", "OSError", "builtins", "[Errno 22] Invalid argument", t=1.0, ended_process=True)
    found = diagnose(collect_run_evidence(replace(RUN, exceptions=(raised,))), Matcher(CATALOGUE)).findings
    assert [one.symptom for one in found if one.symptom] == []
