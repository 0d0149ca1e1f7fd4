"""Trainings of one command, each in a process of its own, one after another."""

from __future__ import annotations

import pytest

from labbook.capture.console.console_reader import read_console, split_console
from labbook.capture.console.console_sink import ConsoleSink
from labbook.model.run import Console
from labbook.probe.redaction.redactor import Redactor
from labbook.record.successive_processes import output_of_part, own_processes, trainings_of_processes
from labbook.store.journal import ProcessEvents


def process(begin, end=None, script="train.py", error="", loaded=False, **options):
    """Returns a training whose process has its own options, from `begin` on for five seconds."""
    hello = {"pid": int(begin) + 1, "ppid": 1000, "host": "a", "argv": ["python", script], **options.pop("hello", {})}
    end = begin + 5.0 if end is None else end
    events = [
        {"k": "hello", "t": begin, **hello},
        {"k": "arguments", "t": begin + 0.1, "source": "argparse", "name": "train.py", "values": options},
        *([{"k": "loaded", "t": begin + 0.2, "what": "model", "matched": 2}] if loaded else []),
        {"k": "step", "t": begin + 1.0, "step": 1, "loss": 0.5},
        *([{"k": "exception", "t": end, "type": error}] if error else []),
        {"k": "bye", "t": end},
    ]
    return ProcessEvents(f"{begin}.jsonl", tuple(events))


@pytest.mark.parametrize(
    ("second", "states"),
    [
        (process(10.0, lr=0.01, seed=0), ["complete", "complete"]),
        (process(10.0, lr=0.01, seed=0, error="ValueError"), ["complete", "failed"]),
        (process(10.0, lr=0.01, seed=0, error="KeyboardInterrupt"), ["complete", "interrupted"]),
        (process(4.0, lr=0.01, seed=0), ["complete", "complete"]),  # at the same time
        (process(4.0, lr=0.1, seed=0, worker_id=1), []),  # and with a part of the work
        (process(10.0, lr=0.01, seed=0, script="finetune.py"), []),
        (process(10.0, lr=0.1, seed=0), []),  # nothing differs: a restart
        (process(10.0, lr=0.01, seed=0, loaded=True), []),  # goes on from a checkpoint
        (process(10.0, lr=0.01, seed=0, hello={"env": {"RANK": "1", "WORLD_SIZE": "2"}}), []),
        (process(10.0, lr=0.01, seed=0, hello={"host": "b"}), []),
    ],
)
def test_processes_that_train_in_turn_with_different_options_are_trials(second, states):
    both = [process(0.0, lr=0.1, seed=0), second]
    parts = trainings_of_processes(both)
    assert [part.state for part in parts] == states
    assert [part.params for part in parts] == [{"lr": 0.1}, {"lr": 0.01}][: len(states)]
    if parts:
        own = own_processes(both, parts)
        assert not any(event["k"] == "step" for each in own for event in each.events)
        assert any(e["k"] == "exception" for e in own[1].events) == (states[1] != "complete")


@pytest.mark.parametrize(
    ("begin", "script", "options", "states"),
    [
        (0.0, "train.py", {"lr": 9.0}, ["failed", "complete"]),
        (0.0, "prepare.py", {"lr": 9.0}, []),
        (0.0, "train.py", {}, []),  # it ended before it read its options
        (0.0, "train.py", {"lr": 0.1}, []),  # nothing differs: a second try
        (20.0, "train.py", {"lr": 9.0}, []),  # behind the training: its evaluation
    ],
)
def test_a_process_that_failed_before_its_first_step_is_a_trial_where_another_one_trained(
    begin, script, options, states
):
    whole = process(begin, script=script, error="ValueError", **options)
    crashed = ProcessEvents(whole.name, tuple(event for event in whole.events if event["k"] != "step"))
    parts = trainings_of_processes([crashed, process(10.0, lr=0.1)])
    assert [part.state for part in parts] == states


@pytest.mark.parametrize(("stopped", "last"), [(None, "complete"), (12.0, "interrupted"), (16.0, "complete")])
def test_a_training_that_ran_when_the_command_was_stopped_is_interrupted(stopped, last):
    parts = trainings_of_processes([process(0.0, lr=0.1), process(10.0, lr=0.01)], stopped)
    assert [part.state for part in parts] == ["complete", last]


def test_a_process_that_a_training_started_is_of_the_same_trial():
    child = ProcessEvents("c", ({"k": "hello", "t": 11.0, "pid": 99, "ppid": 11, "host": "a", "argv": []},))
    parts = trainings_of_processes([process(0.0, lr=0.1), process(10.0, lr=0.01), child])
    assert [child in part.processes for part in parts] == [False, True]


@pytest.mark.parametrize(
    ("starts", "texts"),
    [
        ((100.5, 110.5), ["one\ntwo\n", "three\n"]),
        ((100.5, 106.0, 110.5), ["one\ntwo\n", "", "three\n"]),  # the second prints nothing
        ((100.5, 110.5, 120.0), ["one\ntwo\n", "three\n", ""]),
        ((100.5, 105.1), []),  # began while lines were printed
    ],
)
def test_lines_belong_to_the_process_that_began_in_the_silence_before_them(tmp_path, monkeypatch, starts, texts):
    clock = [0.0]
    monkeypatch.setattr("labbook.capture.console.console_silences.time.time", lambda: clock[0])
    sink = ConsoleSink(tmp_path, Redactor())
    for at, text in ((100.0, b"start\n"), (105.0, b"one\n"), (105.2, b"two\n"), (111.0, b"three\n")):
        clock[0] = at
        sink.feed("out", text)
    clock[0] = 130.0
    sink.close()
    parts = split_console(tmp_path, read_console(tmp_path), starts)
    assert [part.text for part in parts] == texts


SHOWN = Console("on the screen\n", 1)


@pytest.mark.parametrize(
    ("places", "text", "printed"),
    [  # the place in a file at which each of two begins to write to stdout and stderr; None is the screen
        ([(("a", 0), ("a", 0)), (("b", 0), ("b", 0))], "one\ntwo\n", ["one\ntwo\n", "one\ntwo\n"]),  # a file each
        ([(("a", 0), ("a", 0)), (("a", 4), ("a", 4))], "one\ntwo\n", ["one\n", "two\n"]),  # >> all.log 2>&1
        ([(("a", 4), None), (("a", 8), None)], "old\none\ntwo\n", ["one\non the screen\n", "two\non the screen\n"]),
        ([(None, ("a", 0)), (None, ("a", 4))], "one\ntwo\n", ["on the screen\none\n", "on the screen\ntwo\n"]),
        (
            [(("a", 0), ("a", 0)), (("a", 0), ("a", 0))],
            "two\n",
            [None, "two\n"],
        ),  # > same.log, which the second empties
        ([(("a", 9), ("a", 9)), (("b", 0), ("b", 0))], "two\n", [None, "two\n"]),  # emptied by something else
        ([(None, None), (None, None)], "", ["on the screen\n", "on the screen\n"]),
    ],
)
@pytest.mark.parametrize("begin", [10.0, 4.0])
def test_what_a_process_writes_to_a_file_is_its_own(tmp_path, places, text, printed, begin):
    def streams(place):
        found = {}
        for stream, target in zip(("fd1", "fd2"), place, strict=True):
            path = tmp_path / (target or ("",))[0]
            found[stream] = str(path) if target else "pipe:[1]"
            if target:
                path.write_text(text)
                found[f"{stream}_file"] = [path.stat().st_ino, target[1]]
        return found

    both = [process(0.0, lr=0.1, hello=streams(places[0])), process(begin, lr=0.01, hello=streams(places[1]))]
    parts = trainings_of_processes(both)
    consoles = [output_of_part(part, SHOWN, both, Redactor()) for part in parts]
    if begin < 5.0 and {p[0] for p in places[0] if p} & {p[0] for p in places[1] if p}:
        printed = [None if place[0] else SHOWN.text for place in places]  # mixed
    assert [console and console.text for console in consoles] == printed
