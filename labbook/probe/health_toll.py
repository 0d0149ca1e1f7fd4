"""Tells what looks at tensors really cost.

The clock around them tells less than the steps do: a look pushes the data of the program out of the caches, and what
comes after it is slower.
"""

from collections import deque

DEAREST = 3.0
UNKNOWN = 1.5
"""How many times what is counted a look may cost, and does before there are steps to compare with. Measured: 1.3 on a
transformer, 2 to 3 on a small network."""


class Toll:
    """What the looks of one process cost.

    Args:
        now: Monotonic time, in seconds.

    Attributes:
        counted: Seconds in which something was looked at, so far.
    """

    __slots__ = ("_before", "_ordinary", "_ratios", "_steps", "counted")

    def __init__(self, now):
        self.counted = 0.0
        self._before = now
        self._steps = 0
        self._ordinary = deque(maxlen=9)
        self._ratios = deque(maxlen=7)

    def ordinary(self, step, now, waited):
        """Takes a step that was not looked at.

        Args:
            step: Its number.
            now: When it ended.
            waited: Seconds of it in which it waited for data; `None` where it tells nothing about others, because there
                was an evaluation in it.
        """
        if waited is not None:
            self._ordinary.append((now - self._before - waited) / max(step - self._steps, 1))
        self._before, self._steps = now, step

    def looked(self, step, now, waited, counted):
        """Takes a step that was looked at.

        Args:
            step: Its number.
            now: When it and its look ended.
            waited: As for `ordinary`.
            counted: Seconds in which something was looked at.

        Returns:
            Seconds that the look cost: `counted` times a factor from 1 to `DEAREST` that the last looks have shown,
            beside the steps around them.
        """
        self.counted += counted
        if waited is not None and len(self._ordinary) > 2 and counted > 0.0 and step == self._steps + 1:
            usual = sorted(self._ordinary)[len(self._ordinary) // 2]
            self._ratios.append((now - self._before - waited - usual) / counted)
        self._before, self._steps = now, step
        factor = sorted(self._ratios)[len(self._ratios) // 2] if self._ratios else UNKNOWN
        return counted * min(max(factor, 1.0), DEAREST)
