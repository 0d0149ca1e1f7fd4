"""Follows a training without an optimizer: the program changes its parameters itself after `backward`.

Independent of the framework. A step is a change of parameters between a call of `backward` and the next forward or
`backward`, so that accumulated gradients are one step. It is recorded like the step of an optimizer that has the
parameters that the first loss reaches. A later model with parameters of its own, as each fit of a Bayesian optimisation
makes one, is another optimizer.
"""

from weakref import ref

MOST_COMPARED = 16
"""Parameters of which a value is compared. Source: chosen by us; each update by gradients changes most of them."""

MOST_IDLE = 4096
"""Calls of `backward` without an update, after which no other model is looked for. Source: chosen by us."""

_PARAMETERS = ("Parameter", "EagerParamBase")

TYPE = "none of the framework, parameters are updated without one"


class UpdatesByHand:
    """The updates of one process; it has the attributes of an optimizer that the adapters read.

    Args:
        monitor: The `TrainingMonitor`.
        parameters: What the first loss reaches.

    Attributes:
        is_certain: Whether it is known that the last call of `backward` had no update, where none was found.
    """

    _learning_rate = None

    def __init__(self, adapter, monitor, parameters):
        self._adapter, self._monitor = adapter, monitor
        self._held = [ref(one) for one in parameters]
        self._before = None
        self._norm = None
        self._steps = self._usual = 0
        self._idle = 0
        self.is_certain = True

    @property
    def _parameter_list(self):
        return [one for one in (held() for held in self._held) if one is not None]

    @property
    def param_groups(self):
        """The parameters, as the groups of an optimizer."""
        return [{"params": self._parameter_list}]

    def get_lr(self):
        """The learning rate: only the program knows it."""
        return

    def successor(self, leaves_of, tensors, losses):
        """Returns the updates that follow this call of `backward`: others than these if it is of another model.

        Args:
            leaves_of: Returns what tensors are computed from; called after calls that changed none of these parameters.
            tensors: The losses.
            losses: Their values.
        """
        if not self._steps or not 0 < self._idle <= MOST_IDLE:
            return self
        parameters, own = leaves_of(tensors), {id(one) for one in self._parameter_list}
        # The input that an acquisition function or an attack is optimised over is no parameter.
        is_other = parameters and all(type(one).__name__ in _PARAMETERS for one in parameters)
        if not is_other or any(id(one) in own for one in parameters):
            return self
        # Calls since the last update were of something else, as of an acquisition function.
        local = self._adapter.training.local
        local.losses, local.starts, local.backwards = list(losses), [], 1
        return UpdatesByHand(self._adapter, self._monitor, parameters)

    def backward_ended(self, gradients=None):
        """Processes the end of a call of `backward`.

        Args:
            gradients: The gradients, where they were returned by the call and are not in the parameters.
        """
        stats, monitor = self._monitor.inspector.parameters, self._monitor
        parameters = self._parameter_list
        compared = parameters[:: 1 + len(parameters) // MOST_COMPARED]
        self._before = [(ref(one), *stats.trace(one)) for one in compared]
        self.is_certain = bool(parameters) and all(value is not None for *_, value in self._before)
        norm = None
        if gradients is not None:
            norm = self._adapter.values.norm({}, gradients)
        elif monitor.dense or self._steps < 64 or not self._steps % 16:
            norm = self._adapter.gradient_norm(self, {}, {})
        self._norm = norm if type(norm) is float else None
        if self._steps and self._monitor.dense:
            self._begin()

    def _begin(self):
        training = self._adapter.training
        recorder = training.recorders.get(id(self))
        if recorder is not None:
            self._monitor.step_begins(self, recorder, self._norm, False)
            self._monitor._step_began = None

    def check(self, is_over=False):
        """Records a step if parameters have changed since the last call of `backward`.

        Args:
            is_over: Whether the process ends: parameters may be gone, and then it counts what usually happened.
        """
        before, self._before = self._before, None
        if before is None:
            return
        stats, gone = self._monitor.inspector.parameters, False
        for held, place, trace, value in before:
            parameter = held()
            gone = gone or parameter is None
            if parameter is not None and stats.has_changed(parameter, place, trace, value):
                break
        else:
            if not (gone and is_over and self._usual == self._adapter.training.local.backwards):
                self._idle += 1
                return
        self._idle = 0
        self._step()

    def _step(self):
        adapter, training = self._adapter, self._adapter.training
        recorder = training.recorder(self)
        if recorder is None:
            return
        if not self._steps:
            self._monitor.inspector.first_step(self)
            self._monitor.stale_gradients.before_step(self._monitor.loop, self, recorder, self._norm)
        self._steps += 1
        self._usual = training.local.backwards
        adapter.finish_slow_step(self, recorder, self._norm)
