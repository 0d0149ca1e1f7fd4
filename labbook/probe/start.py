"""The probe of one process: starts it, and is the interface for all other parts of the probe."""

import atexit
import os
import sys
import threading
import time

from .events import jsonl, protocol
from .events.event_writer import EventWriter
from .guard import Guard, place_of
from .imports import PostImportFinder, import_adapter
from .process import process_info
from .redaction.event_redaction import EventRedaction

WATCHED = {
    "torch": "torch.adapter",
    "paddle": "paddle.adapter",
    "random": "training.seeds",
    "numpy.random": "training.seeds",
    "torch.utils.tensorboard.writer": "process.metric_loggers",
    "tensorboardX.writer": "process.metric_loggers",
    "paddle.hapi.callbacks": "process.metric_loggers",
    "visualdl.writer.writer": "process.metric_loggers",
    "wandb.sdk.wandb_run": "process.metric_loggers",
    "lightning.fabric.loggers.csv_logs": "process.metric_loggers",
    "lightning_fabric.loggers.csv_logs": "process.metric_loggers",
    "lightning.pytorch.trainer.connectors.logger_connector.logger_connector": "process.metric_loggers",
    "pytorch_lightning.trainer.connectors.logger_connector.logger_connector": "process.metric_loggers",
    "transformers.trainer": "process.metric_loggers",
    "mlflow.tracking.client": "process.metric_loggers",
    "optuna.trial._trial": "process.metric_loggers",
    "ray._private.worker": "process.ray_workers",
    "ray.exceptions": "process.ray_workers",
    "ray.train.v2._internal.exceptions": "process.ray_workers",
    "ray.dashboard.modules.job.sdk": "process.ray_workers",
    "ray.train._internal.session": "process.metric_loggers",
}
"""Imported module -> module of the probe whose `attach(module, probe)` is called after the import."""

_MAX_ERRORS = 100


class Probe:
    """One process under observation. Nothing that it offers ever raises.

    Args:
        settings: The object in the variable `LABBOOK_PROBE`.
        since: When the probe began to be loaded, on the monotonic clock: both times that it reports include its
            loading. Now, where nothing is given.

    Attributes:
        settings: As given.
        totals: Fields for the last event, such as `steps` and `backwards`; set by the framework adapters.
        step: Number of the last optimizer step, or `None`; set by the framework adapters.
        requests: What the user asked for besides looking (`--watch` and its kin), or `None`.
        late: Whether the process ran before the probe was started.
        exceptions: The `ExceptionRecorder` of this process.
        trials: The `Trials` of this process, or `None`.
        labels: Thread -> number of the trial that it trains, which is written in the events of `protocol.LABELLED`.
        has_short_trials: Whether it has several trials that are so short that each may cost only little.
        suspended: Above 0 while `labbook.checks` runs the model for its own ends: adapters look away.
    """

    def __init__(self, settings, since=None):
        self.settings = settings
        self.folder = os.path.dirname(os.path.abspath(__file__))
        self.journal = str(settings["dir"])
        self.pid = os.getpid()
        self.role = "python"
        self.finder = PostImportFinder(self.guard)
        self.redaction = EventRedaction(self.finder, os.path.join(self.journal, protocol.RULES_FILE))
        self.writer = EventWriter(self.journal, self.redaction)
        self.totals = {}
        self.requests = None
        self.watchdog = None
        self.collective_order = None
        self.suspended = 0
        self.is_profiling = False
        self.late = False
        self.exceptions = None
        self.trials = None
        self.labels = {}
        self.has_short_trials = False
        self._parts = []
        self._step = None
        self._next_look = 1
        self._at_exit = []
        self._at_end = []
        self._at_leaving = []
        self._after_fork = []
        self._at_steps = []
        self._at_optimizers = []
        self._before_reading = []
        self._errors = {}
        self._unobserved = set()
        self._ended = False
        self._begun = time.monotonic() if since is None else since
        self._spent = 0.0
        self._warm = None

    @property
    def step(self):
        """Number of the last optimizer step of this process, or `None` before the first."""
        for call in self._before_reading:
            call()
        return self._step

    @step.setter
    def step(self, number):
        self._step = number
        if number is not None and number >= self._next_look:
            self._look(number)

    def event(self, kind, **fields):
        """Writes one event. Never raises.

        Args:
            kind: A kind of `protocol`.
            **fields: Its fields; strings are redacted here.
        """
        if not self._ended:
            if self.labels and kind in protocol.LABELLED:
                fields["trial"] = self.labels.get(threading.get_ident(), 0)
            self.writer.event(kind, fields)

    def guard(self, where):
        """A context manager, or decorator, that swallows, counts and records failures of the probe; reusable.

        `KeyboardInterrupt`, `SystemExit` and what a signal handler of the program raised pass through.
        """
        return Guard(self, where)

    def failed(self, where, error):
        """Counts a failure of the probe itself; the first at each place is written at once. Never raises."""
        try:
            key = (where, type(error).__name__)
            known = self._errors.get(key)
            if known is not None:
                known[1] += 1
            elif len(self._errors) < _MAX_ERRORS:
                text = "%s: %s%s" % (type(error).__name__, str(error)[:500], place_of(error))
                self._errors[key] = [text, 1]
                self.event(protocol.PROBE_ERROR, where=where, error=text, count=1)
        except Exception:
            self.writer.lost += 1

    def unobserved(self, what, reason):
        """Records, once, that something could not be observed. Never raises."""
        if (what, reason) not in self._unobserved:
            self._unobserved.add((what, reason))
            self.event(protocol.UNOBSERVED, what=what, reason=reason)

    def at_exit(self, call):
        """Has `call()` called before this process, or a fork of it, ends in an orderly way or by `exec`."""
        self._at_exit.append(call)

    def at_end(self, call):
        """Has `call()` called when the program has ended, perhaps twice; not before `exec`, nor at an interrupt."""
        self._at_end.append(call)

    def at_leaving(self, call):
        """Has `call(frame)` called where the main thread calls `sys.exit` or `os._exit`, with the frame that does."""
        self._at_leaving.append(call)

    def leave(self, frame):
        """Calls those who wait for a call that ends the process; each has a guard of its own."""
        for call in self._at_leaving:
            call(frame)

    def after_fork(self, call):
        """Has `call()` called in each forked child, after its own event file was begun."""
        self._after_fork.append(call)

    def at_steps(self, call):
        """Has `call(step)` called at steps 1, 2, 4, 8 ..."""
        self._at_steps.append(call)

    def at_optimizers(self, call):
        """Has `call()` called at the first step of each optimizer, for `begin_optimizer`."""
        self._at_optimizers.append(call)

    def begin_optimizer(self):
        """Calls those who wait for the first step of an optimizer; each has a guard of its own."""
        for call in self._at_optimizers:
            call()

    def before_reading(self, call):
        """Has `call()`, which may set `step`, called whenever somebody reads it."""
        self._before_reading.append(self.guard("catching up")(call))

    def watch(self, name, callback):
        """Has `callback(module)` called once after the import of module `name`, at once when it is imported."""
        self.finder.watch(name, callback)

    def add_overhead(self, seconds):
        """Adds to the time that the probe itself has used."""
        self._spent += seconds

    def mark_warm(self, step):
        """Ends the set-up, once: time that is spent from now on recurs in a long run."""
        if self._warm is None:
            self._warm = (step, self._spent, time.monotonic())

    def begin(self, role="python", part=""):
        """Opens the event file of this process, or of a part of it, and says hello.

        Raises:
            OSError: The journal cannot be written.
        """
        ticks = process_info.start_ticks()
        self.role = role
        self.pid = os.getpid()
        self.writer.open(process_info.file_name(self.pid, ticks) + (part and "-" + part))
        self.event(protocol.HELLO, **process_info.hello(role, ticks))

    def restart_after_fork(self, role="fork", part="", resumed=None):
        """Begins anew in a forked child: own file, own counts; the parent's file is left alone. Never raises.

        Args:
            role: "fork"; "python" for a further recording of the same process, "trial" for a part of it.
            part: Name of that part.
            resumed: State of the event file to go on with, instead of another one.
        """
        if self._ended and role == "fork":
            return  # forked between two recordings
        begun, began = time.monotonic(), time.perf_counter()
        with self.guard("fork"):
            self.writer.forget()
            if role == "fork":
                self._parts.clear()
            self._step, self._next_look, self._spent, self._warm = None, 1, 0.0, None
            self._begun = begun
            self._ended = False
            self._errors.clear()
            self._unobserved.clear()
            self.totals.clear()
            if resumed is not None:
                self.role = role
                self.writer.resume(resumed)
            else:
                self.begin(role, part)
            for call in self._after_fork:
                with self.guard("after fork"):
                    call()
            self.add_overhead(time.perf_counter() - began)

    def begin_part(self, name):
        """Has what follows written to an event file of its own, counted from zero, until `end_part`. Never raises."""
        role, self.role = self.role, "trial"
        self.flush()
        self._parts.append((self.writer.state(), role, self._begun, self._spent))
        self.restart_after_fork("trial", name)

    def end_part(self):
        """Ends the part that was begun last, and goes on with the file before it. Never raises."""
        if not self._parts:
            return
        state, role, begun, spent = self._parts.pop()
        self.finish()
        spent += self._spent
        self.restart_after_fork("trial", resumed=state)
        self.role, self._begun, self._spent = role, begun, self._spent + spent

    def attach(self, settings):
        """Begins a further recording of this process, in another journal."""
        self.settings = settings
        self.journal = str(settings["dir"])
        self.writer.folder = os.path.join(self.journal, protocol.EVENTS_FOLDER)
        self.suspended = 0
        self.restart_after_fork("python")

    def detach(self):
        """Ends a recording while the process goes on. Never raises."""
        self.finish()
        self.suspended = 1

    def flush(self):
        """Writes what only memory holds, because the process may end without a word. Never raises."""
        for call in self._at_exit:
            with self.guard("exit"):
                call()

    def end(self):
        """Does what waits for the end of the program. Never raises."""
        for call in self._at_end:
            with self.guard("end"):
                call()

    def finish(self):
        """Writes what is left and the last event; later events are dropped. Never raises."""
        if self._ended:
            return
        ended, began = time.monotonic(), time.perf_counter()
        self.end()
        self.flush()
        for (where, _), (text, count) in list(self._errors.items()):
            if count > 1:
                self.event(protocol.PROBE_ERROR, where=where, error=text, count=count)
        last = {"steps": self._step or 0, "backwards": 0}
        last.update(self.totals)
        last["sustained"] = self._sustained_overhead(ended)
        self.add_overhead(time.perf_counter() - began)
        last["overhead_s"] = round(self._spent, 6)
        last["elapsed_s"] = round(time.monotonic() - self._begun, 6)
        last["lost_events"] = self.writer.lost
        self.event(protocol.BYE, **last)
        self._ended = True

    def _sustained_overhead(self, ended):
        """What was spent between the end of set-up and `ended`, `None` for a run that ended before."""
        if self._warm is None:
            return None
        step, spent, since = self._warm
        return {"step": step, "overhead_s": round(self._spent - spent, 6), "elapsed_s": round(ended - since, 6)}

    def _look(self, number):
        """Calls those who want to be called at this step; an adapter takes the time, as that of its step."""
        while self._next_look <= number:
            self._next_look *= 2
        for call in self._at_steps:
            with self.guard("step"):
                call(number)


def boot():
    """Starts the probe of this process as `sys._labbook_probe`; does nothing when the journal is not there.

    Cost: about 3 ms.
    """
    _start(jsonl.parse(os.environ[protocol.ENV_PROBE]), late=False)


def attach(settings):
    """Starts the probe in a process that already runs, or again after `detach`; `sys._labbook_probe` is the probe."""
    probe = getattr(sys, "_labbook_probe", None)
    if probe is None:
        _start(settings, late=True)
    else:
        probe.attach(settings)


def _start(settings, late):
    since, began = time.monotonic(), time.perf_counter()
    if not os.path.isdir(os.path.join(str(settings["dir"]), protocol.EVENTS_FOLDER)):
        return
    probe = Probe(settings, since)
    probe.late = late
    probe.begin()
    sys._labbook_probe = probe
    with probe.guard("fork hook"):
        os.register_at_fork(after_in_child=probe.restart_after_fork)
    atexit.register(probe.finish)
    with probe.guard("hooks"):
        from .process import interpreter_hooks

        interpreter_hooks.install(probe)
    with probe.guard("trials"):
        from .process import trials

        trials.install(probe)
    with probe.guard("adapters"):
        _watch_adapters(probe)
    if settings.get("asked"):
        with probe.guard("asked"):
            _prepare_requests(probe, settings["asked"])
    probe.add_overhead(time.perf_counter() - began)


def _prepare_requests(probe, settings):
    """Behind the adapters, whose callbacks come first."""
    from .training import request_hooks, user_requests

    probe.requests = user_requests.UserRequests(probe, settings)
    request_hooks.install(probe, settings)


def _watch_adapters(probe):
    for name, adapter in WATCHED.items():
        probe.watch(name, _attaching(probe, adapter))


def _attaching(probe, adapter):
    def attach(module):
        import_adapter(adapter).attach(module, probe)

    return attach
