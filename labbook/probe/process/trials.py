"""Gives each of several trainings in one process an event file of its own: trials of Optuna and Ray, jobs of Hydra.

A trial is whatever the program marks as one: a call of the objective of `Study.optimize`, what lies between `Study.ask`
and `Study.tell`, a job of a Hydra multirun, a trainable of Ray Tune, a `with labbook.trial():`. Its events are counted
from zero, as those of another process would be; what the process does between the trials goes on in its first file.
"""

import sys
import threading
from time import monotonic

from .. import wrapping
from ..events.protocol import TRIAL
from .settings_values import to_plain

MOST_FILES = 1000
"""Trials with an event file of their own; of later ones only options and result are recorded. Source: chosen by us."""

MOST_LISTED = 20000
_FULL = 4
_SHORT_S = 20.0
"""After that many trials that took less than this on average, tensors are inspected more rarely in each. Source: chosen
by us; 0.2 s of inspection are 1 % of it."""

_IDLE = 3
"""Trials in a row without a training step, after which no more event files are made: a study of something else, whose
trials may take less than the 20 ms that a file costs."""


_IN_THREADS = ("labbook", "optuna")
"""Tools whose trials train in the thread that begins them; outside of the main thread others may run beside them."""


class Trials:
    """The trials of one process.

    Those that run at the same time share its event file: what is known of one by its thread, `probe.labels`, is marked.
    """

    def __init__(self, probe):
        self.probe = probe
        self._forget()
        probe.after_fork(lambda: self._forget() if probe.role == "fork" else None)

    def _forget(self):
        self._open, self._together = [], []
        self._files = self._listed = self._idle = 0
        self._begun = self._elapsed = 0.0
        self._thread = None
        self._lock = threading.RLock()  # another one in a forked child, whose parent may have held it
        self._threads = {}
        self.probe.labels.clear()

    def begin(self, tool, group, number, params, together=False):
        """Begins a trial.

        Args:
            tool: "optuna", "hydra", "ray" or "labbook".
            group: Name of the study, or "".
            number: Number of the trial, or `None` for the next one.
            params: Options known so far, name -> value.
            together: Whether others run at the same time; that is known, too, where another thread has begun one.

        Returns:
            What `end` wants, or `None` for one too many.
        """
        with self._lock:
            return self._begin(tool, group, number, params, together)

    def _begin(self, tool, group, number, params, together):
        if self._listed >= MOST_LISTED:
            return None
        thread = threading.get_ident()
        in_a_pool = tool in _IN_THREADS and thread != threading.main_thread().ident
        if together or in_a_pool or self._together or (self._open and self._thread != thread):
            return self._begin_together(tool, group, number, params)
        self._thread = thread
        self._listed += 1
        own = self._files < MOST_FILES and self._idle < _IDLE
        if own:
            self.probe.has_short_trials = self._files >= _FULL and self._elapsed < _SHORT_S * self._files
            self._begun = monotonic()
            self._files += 1
            self.probe.begin_part("trial-%d" % self._files)
        trial = self._begin_trial(tool, group, number, own=own)
        self._open.append(trial)
        self.probe.event(TRIAL, params=to_plain(params) or {}, state="", **trial)
        return trial

    def _begin_trial(self, tool, group, number, **fields):
        """A trial that begins in this thread; of several that are open in one, nobody knows which is trained."""
        trial = {"tool": tool, "group": group, "number": self._listed - 1 if number is None else number, **fields}
        trial["label"] = self._listed if self._listed <= MOST_FILES else 0
        thread = threading.get_ident()
        inside = self._threads.setdefault(thread, [])
        inside.append(trial)
        if len(inside) > 1:
            for each in inside:
                each["label"] = 0
        self.probe.labels[thread] = trial["label"]
        return trial

    def _leave(self, trial):
        """Removes a trial, which another thread may have begun, from those that are open in a thread."""
        for thread, inside in list(self._threads.items()):
            if any(each is trial for each in inside):
                inside[:] = [each for each in inside if each is not trial]
                self.probe.labels.pop(thread, None)
                if not inside:
                    del self._threads[thread]

    def _begin_together(self, tool, group, number, params):
        """Begins a trial that runs while others do in this process."""
        self.probe.unobserved("tensors of each trial", "several run at the same time in one process")
        for other in self._open:
            other["together"] = True
        self._listed += 1
        trial = self._begin_trial(tool, group, number, own=False, together=True)
        self._together.append(trial)
        self.probe.event(TRIAL, params=to_plain(params) or {}, state="", **trial)
        return trial

    def end(self, trial, state, params=None, values=(), directions=()):
        """Ends a trial.

        Args:
            trial: Of `begin`.
            state: "complete", "pruned", "failed" or "interrupted".
            params: Its options, if they are known only now.
            directions: "minimize" or "maximize", for each of them.
        """
        with self._lock:
            self._end(trial, state, params, values, directions)

    def _end(self, trial, state, params, values, directions):
        fields = {"params": to_plain(params) or {}, "values": list(values), "directions": list(directions)}
        if trial in self._together:
            self._together.remove(trial)
            self.probe.event(TRIAL, state=state, **dict(trial, **fields))
            self._leave(trial)
        if trial is None or trial not in self._open:
            return
        while self._open:
            last = self._open.pop()
            self._leave(last)
            ended = dict(last, **(fields if last is trial else {}))
            if last.get("together"):
                self.probe.event(TRIAL, state=state, **dict(ended, own=False))
                state = "several"
            self.probe.event(TRIAL, state=state, **ended)
            self._idle = 0 if self.probe.step else self._idle + 1
            if last["own"]:
                self._elapsed += monotonic() - self._begun
                self.probe.end_part()
            if last is trial:
                return

    def prune(self, tool, number):
        """Records that a trial in another process was stopped before its end."""
        self.probe.event(TRIAL, tool=tool, group="", number=number, own=False, params={}, state="pruned")

    def state_of(self, trial, error):
        """The state of a trial whose code raised; an error that is no signal to stop is recorded in it."""
        if type(error).__name__ == "TrialPruned":
            return "pruned"
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            return "interrupted"
        if trial is not None and (trial["own"] or trial["label"]) and self.probe.exceptions is not None:
            self.probe.exceptions.record("main", error)
        return "failed"


def install(probe):
    """Watches the libraries that run several trials in one process."""
    trials = probe.trials = Trials(probe)
    probe.watch("optuna.study.study", lambda module: _watch_optuna(module.Study, trials))
    probe.watch("hydra.core.utils", lambda module: _watch_hydra(module, trials))
    probe.watch("ray.tune.trainable.trainable", lambda module: _watch_ray_tune(module.Trainable, trials))
    probe.watch("ray.tune.execution.tune_controller", lambda module: _watch_schedulers(module.TuneController, trials))


class _OptunaStudy:
    """Follows the studies of Optuna."""

    def __init__(self, trials):
        self.trials = trials
        self.guard = trials.probe.guard("optuna")
        self.inside = 0
        self.asked = {}

    def objective(self, study, function, together):
        """`function` as a trial of its own."""

        def objective(trial):
            begun = None
            with self.guard:
                begun = self.trials.begin("optuna", _name(study), trial.number, {}, together)
            try:
                value = function(trial)
            except BaseException as error:
                with self.guard:
                    state = self.trials.state_of(begun, error)
                    self.trials.end(begun, state, trial.params, (), _directions(study))
                wrapping.strip(error)
                raise
            with self.guard:
                self.trials.end(begun, "complete", trial.params, _numbers(value), _directions(study))
            return value

        return wrapping.transparent_wrapper(objective, function)

    def ask(self, trial, args, kwargs):
        """After `Study.ask`: of several trials that are asked for at once, nobody knows which one is trained."""
        if not self.inside:
            name = _name(args[0])
            begun = self.trials.begin("optuna", name, trial.number, trial.params, bool(self.asked))
            self.asked[args[0].study_name, trial.number] = (trial, begun)

    def tell(self, args, kwargs):
        """Before `Study.tell`."""
        given = args[1] if len(args) > 1 else kwargs.get("trial")
        trial, begun = self.asked.pop((args[0].study_name, getattr(given, "number", given)), (None, None))
        if trial is None:
            return
        values = args[2] if len(args) > 2 else kwargs.get("values")
        state = args[3] if len(args) > 3 else kwargs.get("state")
        name = {"PRUNED": "pruned", "FAIL": "failed"}.get(getattr(state, "name", ""), "complete")
        self.trials.end(begun, name, trial.params, _numbers(values), _directions(args[0]))


def _watch_optuna(study_class, trials):
    watch = _OptunaStudy(trials)
    original = study_class.optimize

    def optimize(study, func, *args, **kwargs):
        with watch.guard:
            jobs = kwargs.get("n_jobs", args[2] if len(args) > 2 else 1)
            if callable(func):
                func = watch.objective(study, func, jobs not in (1, None))
        watch.inside += 1
        try:
            return original(study, func, *args, **kwargs)
        except BaseException as error:
            wrapping.strip(error)
            raise
        finally:
            watch.inside -= 1

    study_class.optimize = wrapping.transparent_wrapper(optimize, original)
    study_class.ask = wrapping.wrap_function(study_class.ask, watch.guard, after=watch.ask)
    study_class.tell = wrapping.wrap_function(study_class.tell, watch.guard, before=watch.tell)


def _name(study):
    """Name of a study, "" for one that Optuna made up."""
    name = str(study.study_name)
    return "" if name.startswith("no-name-") else name


def _directions(study):
    return [direction.name.lower() for direction in study.directions]


def _numbers(value):
    """The numbers in what an objective returned."""
    found = []
    for each in value if isinstance(value, (list, tuple)) else (value,):
        try:
            found.append(float(each))
        except (TypeError, ValueError, RuntimeError):
            return []
    return found


def _watch_hydra(utils, trials):
    original, guard = utils.run_job, trials.probe.guard("hydra")

    def run_job(*args, **kwargs):
        begun = None
        with guard:
            if "hydra.sweep.dir" in (*args, *kwargs.values()):
                begun = _begin_job(trials, kwargs.get("config", args[1] if len(args) > 1 else None))
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            with guard:
                trials.end(begun, trials.state_of(begun, error))
            wrapping.strip(error)
            raise
        with guard:
            if begun is not None:
                _end_job(trials, begun, result)
        return result

    utils.run_job = wrapping.transparent_wrapper(run_job, original)


def _begin_job(trials, config):
    """Begins the trial of a job: its options are the overrides, with their values as composed."""
    omegaconf = sys.modules["omegaconf"]
    params = {}
    for override in config.hydra.overrides.task:
        name, _, text = str(override).lstrip("+~").partition("=")
        value = omegaconf.OmegaConf.select(config, name) if "@" not in name else None
        params[name] = value if isinstance(value, (bool, int, float, str)) else text
    return trials.begin("hydra", "", int(config.hydra.job.num), params)


def _end_job(trials, begun, result):
    """Ends the trial of a job: its result has the exception where the job raised one."""
    value = getattr(result, "_return_value", None)
    if isinstance(value, BaseException):
        trials.end(begun, trials.state_of(begun, value))
    else:
        trials.end(begun, "complete", values=_numbers(value) if value is not None else ())


_TUNE_KEYS = ("__trial_info__", "__stdout_file__", "__stderr_file__")
"""What Tune adds to the options of a trial. Source: ray/tune/result.py."""


def _watch_ray_tune(trainable_class, trials):
    """A worker has one trainable, which trains in a thread and gets the options of a later trial by `reset`."""
    guard = trials.probe.guard("ray tune")
    begun = []

    def end(args, kwargs):
        while begun:
            errors = trials.probe.exceptions
            trials.end(begun.pop(), "failed" if errors is not None and errors.failed else "complete")

    def begin(args, kwargs):
        end(args, kwargs)
        config = args[1] if len(args) > 1 else kwargs.get("config", kwargs.get("new_config"))
        number = _tune_number((config or {}).get("__trial_info__"))
        if number is not None:
            params = {name: value for name, value in config.items() if name not in _TUNE_KEYS}
            begun.append(trials.begin("ray", "", number, params))

    trainable_class.__init__ = wrapping.wrap_function(trainable_class.__init__, guard, before=begin)
    trainable_class.reset = wrapping.wrap_function(trainable_class.reset, guard, before=begin)
    trainable_class.stop = wrapping.wrap_function(trainable_class.stop, guard, before=end)


def _tune_number(trial):
    number = str(getattr(trial, "trial_id", "")).rpartition("_")[2]
    return int(number) if number.isdigit() else None


def _watch_schedulers(controller_class, trials):
    """A worker does not know why it is stopped; the scheduler, in the process of the program, does."""
    guard = trials.probe.guard("ray tune")
    watched = set()

    def watch(result, args, kwargs):
        scheduler = type(args[0]._scheduler_alg)
        if scheduler not in watched:
            watched.add(scheduler)
            scheduler.on_trial_result = wrapping.wrap_function(scheduler.on_trial_result, guard, after=on_decision)

    def on_decision(decision, args, kwargs):
        if decision == "STOP" and len(args) >= 4:
            prune(args[0], args[2], args[3])

    def stop(args, kwargs):
        # HyperBand pauses the trials of a bracket, and stops the worse ones when it has the results of all.
        trial = args[1] if len(args) > 1 else kwargs["trial"]
        if trial.status == "PAUSED" or trial.is_saving:
            prune(args[0]._scheduler_alg, trial, trial.last_result)

    def prune(scheduler, trial, result):
        last = getattr(scheduler, "_max_t", getattr(scheduler, "_max_t_attr", None))
        number = _tune_number(trial)
        if number is not None and (last is None or result.get(scheduler._time_attr, 0) < last):
            trials.prune("ray", number)

    controller_class.__init__ = wrapping.wrap_function(controller_class.__init__, guard, after=watch)
    controller_class.stop_trial = wrapping.wrap_function(controller_class.stop_trial, guard, before=stop)
