"""Numbers the steps of a program that may have several optimizers, and says which of very short steps are followed."""

RESTS_FROM = 512
"""Steps after which a loop with very short steps is no longer followed at each of them."""

EARLY = (172, 192)
"""Steps between which following is measured for the first time. Source: chosen by us; no look is planned there."""

VERY_DEAR = 0.2
"""As `DEAR`, for a loop that is no longer followed at each step after the second of `EARLY` already."""

DEAR = 0.04
"""Share of a step's time that following it may cost; where it costs more, most steps are not followed. Following one
takes 50 to 150 microseconds, so these are steps of less than a few milliseconds. Source: chosen by us."""

ROUND = 512
AWAKE = 8
"""Of each `ROUND` very short steps the first ones, so many, are followed and what that costs is measured; at the others
only non-finite values are looked for."""

PATIENCE = 16
"""Steps of other optimizers after which one that has not stepped leads no more: another phase of the program."""


class StepSampler:
    """Counts the steps of one process and chooses which are followed. One optimizer leads: its steps are counted.

    Args:
        now: Monotonic time, in seconds.

    Attributes:
        steps: Steps of the program so far.
        step_s: Seconds of a step, over the last full round; 0 before.
        follow_s: Seconds that following a step costs, over the first steps of a round: the smaller number of the last
            two rounds, for a look at tensors may fall on the border; 0 before.
        fast: Whether steps are so short beside that that most of them are not followed.
    """

    __slots__ = (
        "_early",
        "_lead",
        "_measured",
        "_misses",
        "_round_s",
        "_spent",
        "_spoiled",
        "fast",
        "follow_s",
        "step_s",
        "steps",
    )

    def __init__(self, now):
        self.steps = 0
        self._early = (now, 0.0)
        self.step_s = self.follow_s = 0.0
        self.fast = False
        self._lead = None
        self._misses = 0
        self._round_s = now
        self._spent = 0.0
        self._measured = None
        self._spoiled = False

    def is_leading(self, recorder):
        """Whether the optimizer of this meter, which has just stepped, leads; it will when nobody else does."""
        lead = self._lead
        if lead is recorder:
            self._misses = 0
            return True
        if lead is None or lead.owner() is None:
            self._lead = recorder
            self._misses = 0
            return True
        self._misses += 1
        if self._misses > PATIENCE:
            self._lead = None
        return False

    def end_of_step(self, now, spent, looked=False):
        """Counts a step of the program.

        Args:
            now: When it ended.
            spent: Seconds spent in following steps so far, without looks at tensors.
            looked: Whether tensors were looked at in it: what following cost meanwhile is not known then.
        """
        self.steps += 1
        self._spoiled = self._spoiled or looked
        if self.steps == EARLY[0]:
            self._early, self._spoiled = (now, spent), False
        elif self.steps == EARLY[1] and not self._spoiled:
            count = EARLY[1] - EARLY[0]
            self.step_s, self.follow_s = (now - self._early[0]) / count, (spent - self._early[1]) / count
            self.fast = self.follow_s > VERY_DEAR * self.step_s
        place = self.steps % ROUND
        if place == AWAKE and not self._spoiled:
            before, self._measured = self._measured, max((spent - self._spent) / AWAKE, 0.0)
            self.follow_s = self._measured if before is None else min(before, self._measured)
        elif not place:
            self._spent, self._spoiled = spent, False
            self.step_s = (now - self._round_s) / ROUND
            self._round_s = now
            self.fast = (self.fast or self.steps >= RESTS_FROM) and self.follow_s > DEAR * self.step_s

    def is_skipped(self):
        """Whether the next step is one of those that are not followed where steps are very short."""
        return self.steps % ROUND >= AWAKE

    def left_out(self):
        """`(what, reason)` of what was not observed; the reason is "" where everything was."""
        reason = "steps take only %.2g ms: %d of %d are followed" % (1000 * self.step_s, AWAKE, ROUND)
        return "some counts of the loop", reason if self.fast else ""
