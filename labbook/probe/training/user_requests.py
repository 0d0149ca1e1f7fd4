"""Executes the requests of the user: `--watch`, `--break`, `--stop-on`, `--max-steps`.

Used only in runs with requests. Conditions are evaluated as steps are counted; their actions run after the optimizer's
step, outside of every guard (see `UserRequests.act`), because they may end the program.
"""

import os
import signal
import sys
import threading
import time
from collections import deque

from ..events.protocol import MOMENT, STOPPED, WATCHED
from ..process import debugger
from ..process.user_files import is_user_file
from . import request_conditions
from .step_losses import step_loss

MOMENTS = 3
"""Number of times that a condition is recorded in full when it becomes true. Source: chosen by us; the curves show the
others."""

RECENT = 20
STOP_STATUS = 65
"""Exit status of a run that `--stop-on` ended. Source: chosen by us; shells, Python and labbook use no such number."""

_MAX_SERIES = 600
_MAX_SHOWN = 12
_PATIENCE = 3
"""Number of `SystemExit`s that a program may catch and continue after; then it is terminated."""

_LONGEST_WAIT_S = 5.0
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Condition:
    """One condition and its state.

    Args:
        option: "watch", "break" or "stop-on".
        condition: See `request_conditions`.
    """

    def __init__(self, option, expression, condition):
        self.option = option
        self.expression = expression
        self.condition = condition
        self.names = request_conditions.names_in(condition)
        self.forget()

    def forget(self):
        """Reset in a forked child."""
        self.was = None
        self.held = self.moments = self.looked = 0
        self.first = self.last = None

    def concerns(self, names):
        """Whether the condition depends on one of these series."""
        if self.names:
            return not self.names.isdisjoint(names)
        return any(map(request_conditions.is_everywhere, names))

    def look(self, values, step):
        """Evaluate the condition for the latest values; returns true if it has just become true."""
        now = request_conditions.is_true(self.condition, values)
        if now is not None:
            self.looked += 1
        if now:
            self.held += 1
            self.first = step if self.first is None else self.first
            self.last = step
        came, self.was = bool(now) and not self.was, now
        self.moments += came
        return came


class UserRequests:
    """All requests in this process.

    Args:
        settings: `{"watch": [[text, condition], ...], "break": ..., "stop-on": ..., "max_steps": n or null}`.

    Attributes:
        describe: `describe(args, kwargs, batch)` returns the fields of a `batch` event; set by `request_hooks`.
        exporter: Exports the models where the program would be ended, for `labbook graph --onnx`; or `None`.
        exact: Whether values on a device are waited for, so that a debugger stops in the very step.
    """

    def __init__(self, probe, settings):
        self._probe = probe
        self._conditions = [
            Condition(option, text, condition)
            for option in ("watch", "break", "stop-on")
            for text, condition in settings.get(option) or ()
        ]
        self._limit = settings.get("max_steps")
        self.exact = bool(settings.get("break"))
        self.describe = None
        self.exporter = None
        self._batch = None
        self._values = {}
        self._recent = {}
        self._pending = []
        self._stop = None
        self._attempts = 0
        probe.at_exit(self.finish)
        probe.after_fork(self.forget)

    def forget(self):
        """Reset in a forked child."""
        for condition in self._conditions:
            condition.forget()
        self._values.clear()
        self._recent.clear()
        self._pending, self._stop, self._attempts, self._batch = [], None, 0, None

    def on_forward(self, root, args, kwargs, batch):
        """Store the inputs of a training forward of an outermost model until the next one."""
        self._batch = (args, kwargs, batch)
        if self.exporter is not None:
            self.exporter.on_forward(root, args, kwargs)

    def listen(self, recorder, framework):
        """Register a callback for every counted step of an optimizer."""
        add = recorder.add
        guard = self._probe.guard("asked")

        def on_values(losses, rates, norm, now, backwards, extra=None):
            before = recorder._before
            add(losses, rates, norm, now, backwards, extra)
            with guard:
                found = _numbers(recorder.index, losses, rates, norm, extra)
                if before is not None:
                    found["step_time_s" + _suffix(recorder.index)] = now - before
                self.take(found, recorder.step, framework, recorder)

        recorder.add = on_values

    def on_logged(self, step, values):
        """Process numbers that the program logged, and run the actions of conditions on them."""
        with self._probe.guard("asked"):
            step = self._probe.step if step is None else step
            self.take({name: float(value) for name, value in values.items()}, step, None, None)
        self.act()

    def take(self, found, step, framework, recorder):
        """Update the latest values of some series and evaluate the conditions that depend on them."""
        for name, value in found.items():
            recent = self._recent.get(name)
            if recent is None:
                if len(self._recent) >= _MAX_SERIES:
                    continue
                recent = self._recent[name] = deque(maxlen=RECENT)
            recent.append((step, value))
            self._values[name] = value
        for condition in self._conditions:
            if condition.concerns(found) and condition.look(self._values, step):
                self._on_condition_true(condition, step, framework, recorder)
        if self._limit and recorder is not None and recorder.step >= self._limit:
            self._stop = self._stop or ("max-steps", "", recorder.step, 0)

    def wait_for(self, recorder):
        """Wait until the values of the latest step have arrived from the device, for the debugger."""
        end = time.monotonic() + _LONGEST_WAIT_S
        while recorder.waiting and time.monotonic() < end:
            pending = recorder.waiting[-1][-1]
            if pending is None or pending.is_ready():
                return
            time.sleep(0.0002)

    def _on_condition_true(self, condition, step, framework, recorder):
        frame = program_frame()
        note = ""
        if condition.option == "break":
            note = debugger.refusal_reason()
            if not note and condition.moments <= MOMENTS:
                self._pending.append((condition, step, recorder))
            elif note:
                self._probe.unobserved("--break " + condition.expression, note)
        if condition.option == "stop-on":
            self._stop = self._stop or ("stop-on", condition.expression, step, STOP_STATUS)
        if condition.moments > MOMENTS:
            return
        batch = None
        if self.describe is not None and self._batch is not None:
            with self._probe.guard("asked.batch"):
                batch = self.describe(*self._batch)
        names = sorted(
            self._recent, key=lambda name: (name not in condition.names, not request_conditions.is_everywhere(name))
        )
        shown = {name: list(self._recent[name]) for name in names[:_MAX_SHOWN]}
        looked_at = condition.names or {name for name in self._values if request_conditions.is_everywhere(name)}
        self._probe.event(
            MOMENT,
            framework=framework,
            option=condition.option,
            expression=condition.expression,
            step=step,
            values={name: self._values[name] for name in sorted(looked_at) if name in self._values},
            batch=batch,
            series={name: [value for _, value in points] for name, points in shown.items()},
            steps={name: [at for at, _ in points] for name, points in shown.items()},
            line="" if frame is None else "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno),
            note=note,
        )

    def on_pending_step(self, step):
        """Record that an optimizer made its step `step`, whose values may still be on a device."""
        if self._limit and step is not None and step >= self._limit:
            self._stop = self._stop or ("max-steps", "", step, 0)

    def act(self):
        """Start the debugger in the user's frame, or end the program, if due.

        Called outside of every guard.

        Raises:
            SystemExit: A request ends the run; `finally` blocks and exit handlers of the program run.
        """
        if self._pending:
            pending, self._pending = self._pending, []
            condition, step, recorder = pending[0]
            if recorder is not None:
                # The time at the prompt does not count as step time.
                recorder.untimed()
            with self._probe.guard("debugger"):
                values = ", ".join(
                    "%s %.6g" % (n, self._values[n]) for n in sorted(condition.names) if n in self._values
                )
                debugger.start(
                    program_frame(),
                    "labbook  --break %s at step %s%s" % (condition.expression, step, ": " + values if values else ""),
                )
        if self._stop is not None:
            self._end(*self._stop)

    def _end(self, option, expression, step, status):
        if self.exporter is not None:
            self.exporter.finish()
        self._attempts += 1
        main = threading.current_thread() is threading.main_thread()
        how = "terminate" if self._attempts > _PATIENCE else ("exit" if main else "interrupt")
        if self._attempts == 1 or how == "terminate":
            self._probe.event(STOPPED, option=option, expression=expression, step=step, how=how, status=status)
        if how == "terminate":
            self._probe.flush()
            os.kill(os.getpid(), signal.SIGTERM)
        elif how == "interrupt" and self._attempts == 1:
            # `SystemExit` ends this thread only; the main thread, which may wait for it, gets the signal.
            os.kill(os.getpid(), signal.SIGINT)
        raise SystemExit(status)

    def finish(self):
        """Write the outcome of each condition."""
        if self._probe.role == "fork" and not self._values:
            return
        if not self._values and not ({"torch", "paddle"} & set(sys.modules)):
            return
        for each in self._conditions:
            self._probe.event(
                WATCHED,
                option=each.option,
                expression=each.expression,
                held=each.held,
                moments=each.moments,
                looked=each.looked,
                first=each.first,
                last=each.last,
                missing=sorted(each.names - set(self._values)),
            )


def program_frame():
    """Return the innermost frame of the user's code, not of packages, labbook or the interpreter, or `None`."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and is_user_file(name):
            return frame
        frame = frame.f_back
    return None


def _numbers(index, losses, rates, norm, extra):
    """Return the series values of one step by their names in `metrics.csv`."""
    suffix = _suffix(index)
    found = {}
    loss = step_loss(losses, (extra or {}).get("counted"))
    if loss is not None:
        found["loss" + suffix] = loss
    for group, rate in enumerate(rates or ()):
        found["lr%s%s" % (suffix, ".group%d" % group if group else "")] = rate
    if norm is not None:
        found["grad_norm" + suffix] = norm
    if extra and extra.get("scale") is not None:
        found["grad_scale" + suffix] = extra["scale"]
    return found


def _suffix(index):
    return ".opt%d" % index if index else ""
