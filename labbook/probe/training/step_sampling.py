"""Numbers the steps of a program with one or more optimizers, and selects which very short steps are followed."""

RESTS_FROM = 512
"""Steps after which not every step of a loop with very short steps is followed."""

EARLY = (172, 192)
"""Steps between which the cost of following is first measured. Source: chosen by us; no dense step is planned there."""

VERY_DEAR = 0.2
"""As `DEAR`, for a loop in which following is reduced after the second step of `EARLY`."""

DEAR = 0.04
"""Maximum share of a step's time for following it; above it, most steps are not followed. Following one takes 50 to 150
microseconds, so this concerns steps of less than a few milliseconds. Source: chosen by us."""

ROUND = 512
AWAKE = 8
"""Number of steps at the start of each `ROUND` very short steps that are followed, with their cost measured; the others
are only checked for non-finite values."""

PATIENCE = 16
"""Steps of other optimizers after which an idle optimizer is no longer the leader: another phase of the program."""


class StepSampler:
    """Counts the steps of one process and chooses which are followed. One optimizer leads: its steps are counted.

    Args:
        now: Monotonic time, in seconds.

    Attributes:
        steps: Steps of the program so far.
        step_s: Seconds of a step, over the last full round; 0 before.
        follow_s: Cost of following a step in seconds, over the first steps of a round: the smaller of the last two
            rounds, because a dense step may fall on the border; 0 before.
        fast: Whether steps are so short that most of them are not followed.
        unfollowed: Steps of optimizers that were not followed.
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
        "unfollowed",
    )

    def __init__(self, now):
        self.steps = 0
        self._early = (now, 0.0)
        self.step_s = self.follow_s = 0.0
        self.fast = False
        self.unfollowed = 0
        self._lead = None
        self._misses = 0
        self._round_s = now
        self._spent = 0.0
        self._measured = None
        self._spoiled = False

    def is_leading(self, recorder):
        """Whether the optimizer of this recorder, which has just stepped, leads; it becomes the leader if none is."""
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
        """Count a step of the program.

        Args:
            spent: Seconds spent in following steps so far, without inspection of tensors.
            looked: Whether tensors were inspected in it; the cost of following is then unknown.
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
        """Whether the next step is not followed, in a loop with very short steps."""
        return self.steps % ROUND >= AWAKE

    def left_out(self):
        """Return `(what, reason)` of unobserved steps; the reason is "" if all were observed."""
        what = "details of some optimizer steps, such as gradient norms (unless a clipping call gives them)"
        return what, "the steps are too short to follow each in full" if self.unfollowed else ""
