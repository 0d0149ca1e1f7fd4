"""Numbers the steps of a program that may have several optimizers, and says which of very short steps are followed."""

RESTS_FROM = 512
"""Steps after which a loop with very short steps is no longer followed at each of them."""

FAST_S = 0.0015
"""Shorter steps are very short: following one costs 20 to 50 microseconds."""

ROUND = 128
AWAKE = 16
"""Of each `ROUND` very short steps so many are followed; at the others only non-finite values are looked for."""

PATIENCE = 16
"""Steps of other optimizers after which one that has not stepped leads no more: another phase of the program."""


class Pace:
    """The pace of one process. One optimizer leads: its steps are the steps of the program.

    Args:
        now: Monotonic time, in seconds.

    Attributes:
        steps: Steps of the program so far.
        step_s: Seconds of a step, over the last full round; 0 before.
        fast: Whether steps are so short that most of them are not followed.
    """

    __slots__ = ("_lead", "_misses", "_round_s", "fast", "step_s", "steps")

    def __init__(self, now):
        self.steps = 0
        self.step_s = 0.0
        self.fast = False
        self._lead = None
        self._misses = 0
        self._round_s = now

    def leads(self, meter):
        """Whether the optimizer of this meter, which has just stepped, leads; it will when nobody else does."""
        lead = self._lead
        if lead is meter:
            self._misses = 0
            return True
        if lead is None or lead.owner() is None:
            self._lead = meter
            self._misses = 0
            return True
        self._misses += 1
        if self._misses > PATIENCE:
            self._lead = None
        return False

    def turned(self, now):
        """Counts a step of the program, which ended at `now`."""
        self.steps += 1
        if not self.steps % ROUND:
            self.step_s = (now - self._round_s) / ROUND
            self._round_s = now
            self.fast = self.steps >= RESTS_FROM and self.step_s < FAST_S

    def asleep(self):
        """Whether the next step is one of those that are not followed where steps are very short."""
        return self.steps % ROUND >= AWAKE
