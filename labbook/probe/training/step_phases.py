"""Time of a step by phase: waiting for data, forward, backward, optimizer, the rest, and the probe's own work.

Independent of the framework. Times are measured on the host; work of a device counts where the host waits for it.
"""

NAMES = ("data", "forward", "backward", "optimizer", "other", "probe")
"""The phases, in the order of the times in the field `ph` that `StepPhases.step` returns."""


class StepPhases:
    """Times of the current step, in seconds; each is added at the end of its phase.

    Args:
        clock: Monotonic time.
        read_overhead: Returns the seconds that the probe has spent in following the training so far.

    `collective` are the seconds in collective calls of the program outside of the backward and the optimizer, which the
    times of other phases contain; it is `None` until the first call, and NaN once a call did not wait for its end.
    `calls` is their number in this step; it is known in dense steps, too.
    """

    __slots__ = (
        "_begun",
        "_clock",
        "_overhead",
        "_read_overhead",
        "_skip",
        "backward",
        "calls",
        "collective",
        "data",
        "forward",
        "optimizer",
        "samples",
    )

    def __init__(self, clock, read_overhead=float):
        self._clock = clock
        self._read_overhead = read_overhead
        self._overhead = 0.0
        self._begun = None
        self._skip = False
        self.data = self.forward = self.backward = self.optimizer = 0.0
        self.collective = None
        self.calls = 0
        self.samples = 0

    def waited(self, seconds, is_known):
        """Add the time of a collective call."""
        self.calls += 1
        self.collective = (self.collective or 0.0) + seconds if is_known else float("nan")

    def _forget_collective(self):
        self.calls = 0
        if self.collective == self.collective and self.collective is not None:
            self.collective = 0.0

    def discard_step(self):
        """Discard the times of the current step: it is dense, so that they include the probe."""
        self._skip = True

    def skip_step(self, now):
        """Process the end of a step without times."""
        self._begun = now
        self._overhead = self._read_overhead()
        self._forget_collective()
        self._forget_times()

    def step(self, now):
        """Return fields of the `step` record of the step that ends at `now`.

        They are `ph`, seconds by `NAMES`, `collective`, `calls` and `samples`. The first step and dense steps have
        no times; `None` without any fields.
        """
        begun, self._begun = self._begun, now
        before, self._overhead = self._overhead, self._read_overhead()
        fields = None
        if begun is not None and not self._skip:
            known = self.data + self.forward + self.backward + self.optimizer
            # The probe works between the phases; on a busy machine its waits are longer than the step.
            probe = self._overhead - before
            other = max(now - begun - known - probe, 0.0)
            fields = {"ph": (self.data, self.forward, self.backward, self.optimizer, other, probe)}
            if self.collective is not None:
                fields["collective"] = round(self.collective, 7)
        if self.collective is not None:
            fields = fields or {}
            fields["calls"] = self.calls
        self._forget_collective()
        if self.samples:
            if fields is None:
                fields = {}
            fields["samples"] = self.samples
        self._skip = False
        self._forget_times()
        return fields

    def _forget_times(self):
        """What was measured before a step that has no times is no part of the next one."""
        self.samples = 0
        self.data = self.forward = self.backward = self.optimizer = 0.0
