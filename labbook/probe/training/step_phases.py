"""Where the time of a step goes: waiting for data, forward, backward, optimizer, and the rest.

Knows no framework. Times are those of the host; what a device does meanwhile counts where the host waits for it.
"""

NAMES = ("data", "forward", "backward", "optimizer", "other")
"""The phases, in the order of the times in the field `ph` that `StepPhases.step` gives."""


class StepPhases:
    """The times of the step under way, in seconds; each is added to where its phase ends.

    Args:
        clock: Monotonic time.
    """

    __slots__ = ("_begun", "_clock", "_skip", "backward", "data", "forward", "optimizer", "samples")

    def __init__(self, clock):
        self._clock = clock
        self._begun = None
        self._skip = False
        self.data = self.forward = self.backward = self.optimizer = 0.0
        self.samples = 0

    def spoiled(self):
        """The step under way is looked at: its times would tell of the probe."""
        self._skip = True

    def rest(self, now):
        """Takes the end of a step whose times were not taken."""
        self._begun = now

    def step(self, now):
        """Fields of a `step` record for the step that ends at `now`: `ph`, the seconds of `NAMES`, and `samples`.

        The first step and those that were looked at have no times; `None` where there is nothing to tell.
        """
        begun, self._begun = self._begun, now
        told = None
        if begun is not None and not self._skip:
            known = self.data + self.forward + self.backward + self.optimizer
            other = now - begun - known
            told = {"ph": (self.data, self.forward, self.backward, self.optimizer, other if other > 0.0 else 0.0)}
        if self.samples:
            if told is None:
                told = {}
            told["samples"] = self.samples
            self.samples = 0
        self._skip = False
        self.data = self.forward = self.backward = self.optimizer = 0.0
        return told
