"""Estimates what inspecting tensors really costs.

What is measured around them is less: a look pushes the data of the program out of the caches, and what comes after it
is slower. So a step that was looked at is compared with the steps around it. All is the processor's time of the thread
that trains: the clock goes on where other programs run on the machine, or where a step waits for data.
"""

from collections import deque

LEAST, DEAREST = 0.5, 3.0
UNKNOWN = 1.5
"""How many times what is counted a look may cost, and does before there are steps to compare with. Measured: 1.3 on a
transformer, 2 to 3 on a small network."""


class ProbeOverhead:
    """What the looks of one process cost.

    Args:
        clock: The processor's time of this thread, in seconds.

    Attributes:
        counted: Seconds in which something was looked at, so far.
    """

    __slots__ = ("_before", "_clock", "_ordinary", "_ratios", "_steps", "counted")

    def __init__(self, clock):
        self.counted = 0.0
        self._clock = clock
        self._before = clock()
        self._steps = 0
        self._ordinary = deque(maxlen=9)
        self._ratios = deque(maxlen=7)

    def ordinary(self, step, usual=True):
        """Takes the end of a step that was not looked at.

        Args:
            step: Its number.
            usual: Whether it tells anything about others: there was no evaluation in it.
        """
        now = self._clock()
        if usual:
            self._ordinary.append((now - self._before) / max(step - self._steps, 1))
        self._before, self._steps = now, step

    def looked(self, step, counted, usual=True):
        """Takes the end of a step that was looked at.

        Args:
            step: Its number.
            counted: Seconds in which something was looked at.
            usual: As for `ordinary`.

        Returns:
            Seconds that the look cost: `counted` times a factor from `LEAST` to `DEAREST` that the last looks have
            shown, beside the steps around them.
        """
        now = self._clock()
        self.counted += counted
        if usual and len(self._ordinary) > 2 and counted > 0.0 and step == self._steps + 1:
            between = sorted(self._ordinary)[len(self._ordinary) // 2]
            self._ratios.append((now - self._before - between) / counted)
        self._before, self._steps = now, step
        if step == 1:
            return counted  # most of it describes the model
        factor = sorted(self._ratios)[len(self._ratios) // 2] if self._ratios else UNKNOWN
        return counted * min(max(factor, LEAST), DEAREST)
