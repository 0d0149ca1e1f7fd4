"""Trials of several threads of one process, as the probe writes them and as they are read."""

import threading

from labbook.probe.process.trials import Trials
from labbook.record.run_from_journal.trial_parts import split_trials
from labbook.store.journal import ProcessEvents


class Files:
    """The calls of the probe that write event files, in memory."""

    role, step, has_short_trials = "main", None, False

    def __init__(self):
        self.files = {"main": []}
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
        self.files[self.current[-1]].append({"k": kind, "t": float(len(self.files)), **fields})

    def split(self):
        return split_trials([ProcessEvents(name, tuple(events)) for name, events in self.files.items()])


def in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_trials_of_two_threads_are_listed_and_no_number_of_one_gets_into_the_other():
    probe = Files()
    trials = Trials(probe)
    first = trials.begin("labbook", "", None, {"lr": 0.1})
    begun = []
    in_a_thread(lambda: begun.append(trials.begin("labbook", "", None, {"lr": 0.2})))
    probe.event("scalars", source="labbook", step=1, values={"loss": 0.5})
    trials.end(first, "complete", {"lr": 0.1}, (1.0,), ("minimize",))
    third = trials.begin("labbook", "", None, {"lr": 0.3})
    in_a_thread(lambda: trials.end(begun[0], "failed", {"lr": 0.2}))
    trials.end(third, "pruned", {"lr": 0.3})
    alone = trials.begin("labbook", "", None, {"lr": 0.4})
    trials.end(alone, "complete", {"lr": 0.4}, (2.0,), ("minimize",))
    [process], found = probe.split()
    assert [event["values"] for event in process.events if event["k"] == "scalars"] == [{"loss": 0.5}]
    assert [
        (each.key[2], each.params["lr"], each.state, each.together) for each in sorted(found, key=lambda t: t.key)
    ] == [
        (0, 0.1, "complete", True),
        (1, 0.2, "failed", True),
        (2, 0.3, "pruned", True),
        (3, 0.4, "complete", False),
    ]
    assert [bool(each.processes) for each in sorted(found, key=lambda t: t.key)] == [False, False, False, True]
