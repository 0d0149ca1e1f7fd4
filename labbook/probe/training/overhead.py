"""Estimates the true cost of inspecting tensors.

The duration of an inspection is less: it evicts the program's data from the caches, so that later code is slower.
Therefore an inspected step is compared with its neighbours. All times are CPU times of the training thread: wall time
includes other programs on the machine and waiting for data.
"""

from collections import deque

LEAST, DEAREST = 0.5, 3.0
UNKNOWN = 1.5
"""Limits of the ratio of cost to measured duration, and its value before there are steps to compare with. Measured: 1.3
on a transformer, 2 to 3 on a small network."""


class ProbeOverhead:
    """Cost of the inspections of one process.

    Args:
        clock: CPU time of this thread, in seconds.

    Attributes:
        counted: Measured seconds of all inspections.
    """

    __slots__ = ("_before", "_clock", "_ordinary", "_ratios", "_steps", "counted")

    def __init__(self, clock):
        self.counted = 0.0
        self._clock = clock
        self._before = clock()
        self._steps = 0
        self._ordinary = deque(maxlen=9)
        self._ratios = deque(maxlen=7)

    def on_ordinary_step(self, step, usual=True):
        """Process the end of a step without inspection.

        Args:
            usual: Whether the step is comparable with others: it contained no evaluation.
        """
        now = self._clock()
        if usual:
            self._ordinary.append((now - self._before) / max(step - self._steps, 1))
        self._before, self._steps = now, step

    def looked(self, step, counted, usual=True):
        """Process the end of an inspected step.

        Args:
            counted: Measured seconds of its inspection.
            usual: As for `ordinary`.

        Returns:
            Cost of the inspection in seconds: `counted` times a factor from `LEAST` to `DEAREST`, estimated from the
            last inspected steps and their neighbours.
        """
        now = self._clock()
        self.counted += counted
        if usual and len(self._ordinary) > 2 and counted > 0.0 and step == self._steps + 1:
            between = sorted(self._ordinary)[len(self._ordinary) // 2]
            self._ratios.append((now - self._before - between) / counted)
        self._before, self._steps = now, step
        if step == 1:
            return counted  # mostly the description of the model
        factor = sorted(self._ratios)[len(self._ratios) // 2] if self._ratios else UNKNOWN
        return counted * min(max(factor, LEAST), DEAREST)
