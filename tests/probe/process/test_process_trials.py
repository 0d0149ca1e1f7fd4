"""Trials of several threads of one process, as the probe writes them and as they are read."""

import threading

from labbook.probe.events.protocol import LABELLED
from labbook.probe.process.trials import Trials
from labbook.record.run_from_journal.trial_parts import split_trials
from labbook.store.journal import ProcessEvents


class Files:
    """The calls of the probe that write event files, in memory."""

    role, step, has_short_trials = "main", None, False

    def __init__(self):
        self.files = {"main": []}
        self.labels = {}
        self.current = ["main"]
        self.begin_part("main")

    def after_fork(self, call):
        pass

    def unobserved(self, what, reason):
        self.event("unobserved", what=what, reason=reason)

    def begin_part(self, name):
        self.files[name] = [{"k": "hello", "t": 0.0, "pid": 1, "host": "vm", "start_ticks": 1}]
        self.current.append(name)

    def end_part(self):
        self.current.pop()

    def event(self, kind, **fields):
        if self.labels and kind in LABELLED:
            fields["trial"] = self.labels.get(threading.get_ident(), 0)
        self.files[self.current[-1]].append({"k": kind, "t": float(len(self.files)), **fields})

    def split(self):
        return split_trials([ProcessEvents(name, tuple(events)) for name, events in self.files.items()])


def in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def logged(process):
    return [event["values"]["loss"] for event in process.events if event["k"] == "scalars"]


def test_trials_of_two_threads_have_what_their_thread_did():
    probe = Files()
    trials = Trials(probe)
    probe.event("scalars", source="labbook", step=1, values={"loss": 9.0})
    first = trials.begin("labbook", "", None, {"lr": 0.1})
    begun = []

    def second():
        begun.append(trials.begin("labbook", "", None, {"lr": 0.2}))
        probe.event("optimizer", framework="torch", index=4)
        probe.event("scalars", source="labbook", step=1, values={"loss": 0.25})

    in_a_thread(second)
    probe.event("optimizer", framework="torch", index=7)
    probe.event("step", framework="torch", opt=4, step=1, loss=0.25)
    probe.event("step", framework="torch", opt=7, step=1, loss=0.5)
    probe.event("scalars", source="labbook", step=1, values={"loss": 0.5})
    trials.end(first, "complete", {"lr": 0.1}, (1.0,), ("minimize",))
    third = trials.begin("labbook", "", None, {"lr": 0.3})
    in_a_thread(lambda: trials.end(begun[0], "failed", {"lr": 0.2}))
    trials.end(third, "pruned", {"lr": 0.3})
    alone = trials.begin("labbook", "", None, {"lr": 0.4})
    trials.end(alone, "complete", {"lr": 0.4}, (2.0,), ("minimize",))
    [process], found = probe.split()
    assert logged(process) == [9.0] and not [event for event in process.events if event["k"] in ("step", "optimizer")]
    one, other = (next(each for each in found if each.key[2] == number).processes[0] for number in (0, 1))
    assert (logged(one), logged(other)) == ([0.5], [0.25])
    for part, loss in ((one, 0.5), (other, 0.25)):
        [step] = [event for event in part.events if event["k"] == "step"]
        assert (step["opt"], step["loss"]) == (0, loss)
    assert [
        (each.key[2], each.params["lr"], each.state, each.together) for each in sorted(found, key=lambda t: t.key)
    ] == [
        (0, 0.1, "complete", True),
        (1, 0.2, "failed", True),
        (2, 0.3, "pruned", True),
        (3, 0.4, "complete", False),
    ]
    assert [bool(each.processes) for each in sorted(found, key=lambda t: t.key)] == [True, True, False, True]


def test_of_several_trials_that_are_open_in_one_thread_nobody_knows_which_one_is_trained():
    probe = Files()
    trials = Trials(probe)
    batch = [trials.begin("optuna", "", number, {}, together=number > 0) for number in range(3)]
    for number, trial in enumerate(batch):
        probe.event("scalars", source="labbook", step=1, values={"loss": float(number)})
        trials.end(trial, "complete")
    [process], found = probe.split()
    assert sorted(logged(process)) == [0.0, 1.0, 2.0] and not any(each.processes for each in found)
