"""Decides at which optimizer steps tensors are inspected: often at first, later more rarely, within a budget.

Independent of the framework. A dense step (with inspection) costs a multiple of the overhead allowed per step, so their
number grows with the logarithm of the run's length; after an abnormal loss or gradient norm, a few more steps are
dense.
"""

from math import ceil, inf

FREE_S = {"light": 0.05, "normal": 0.2, "deep": 1.0}
"""Seconds of inspection that every run may spend, so that short runs are inspected, too. Source: chosen by us; less
than importing a framework takes."""

SHARE = {"light": 0.003, "normal": 0.008, "deep": 0.25}
"""Share of the elapsed time that inspection may take beyond that."""

FIRST = {"light": 2, "normal": 5, "deep": 50}
"""Steps at the start that are all dense."""

GROWTH = {"light": 2.0, "normal": 1.35, "deep": 1.08}
"""Ratio of the numbers of neighbouring dense steps after the first ones."""

SURE = 7
"""Number of dense steps that run when due although they are expensive, up to four times the free budget: checks need
several observations. Source: chosen by us."""

FEWEST_FIRST = 3
"""Minimum number of first steps that are all dense."""

PATTERNS = ((17, 1.0, 1.0), (8, 0.8, 1.35), (0, 0.6, 1.85))
"""Dense steps that the free time pays for, and factors of `FIRST` and `GROWTH`. There are few patterns, and one is
chosen once, by the cheapest dense step: a busy machine must not change which steps a short run is judged by."""

MOST = {"light": 120, "normal": 400, "deep": 2000}
"""Maximum number of dense steps in one process; limits the size of its journal."""

SLOWEST_S = 30.0
"""Maximum seconds between dense steps within the budget; later every 5 % of the elapsed time."""

AGAIN = 4
"""Consecutive dense steps after an abnormal value."""

ALARMS = 12
"""Maximum number of such sequences in one process, at least `APART` steps apart."""

APART = 50


class Schedule:
    """The dense steps of one process.

    Args:
        level: "light", "normal" or "deep".
        now: Monotonic time, in seconds.

    Attributes:
        looks: Number of dense steps so far.
        spent: Their cost in seconds.
        step_s: Duration of a step between the last two of them, in seconds.
    """

    def __init__(self, level, now):
        self.level = level if level in SHARE else "normal"
        self.looks = 0
        self.spent = 0.0
        self.alarms = 0
        self._begun = now
        self._next = 1
        self._next_s = now + SLOWEST_S
        self._again = 0
        self._last_alarm = -APART
        self.step_s = 0.0
        self._before = (0, now)
        self._limited = False
        self._price = 0.0
        self._chosen = None

    def is_due(self, step, now):
        """Whether the next step, number `step` (from 1), is dense.

        Cost: 0.2 microseconds if it is not.
        """
        if step < self._next and now < self._next_s:
            return False
        if self.looks >= MOST[self.level]:
            return False
        if step >= self._next or self.affordable(now):
            return True
        self._next_s = now + SLOWEST_S
        return False

    def next_dense_step(self):
        """Return `(step, time)` of the next dense step, whichever comes first, unless a value is abnormal before."""
        return (self._next, self._next_s) if self.looks < MOST[self.level] else (inf, inf)

    def looked(self, step, now, cost):
        """Process the end of a dense step with its cost in seconds, and plan the next one."""
        self.looks += 1
        self.spent += cost
        if self.looks > 1:  # the first one also describes the model
            self._price = min(cost, self._price) if self._price else cost
        steps = step - self._before[0]
        if steps > 0:
            self.step_s = max((now - self._before[1]) / steps, 1e-6)
        self._before = (step, now)
        if self._again > 0:
            self._again -= 1
            self._next = step + 1
        else:
            first, growth = self._pattern()
            self._next = step + 1 if step < first else max(step + 1, int(step * growth))
        self._next_s = now + max(SLOWEST_S, 0.05 * (now - self._begun))
        wait_s = self._seconds_over_budget(now)
        if wait_s > 0.0 and (self.looks >= SURE or self.spent > 4 * FREE_S[self.level]):
            self._again = 0
            self._next = max(self._next, step + ceil(wait_s / max(self.step_s, 1e-6)))
            self._next_s = max(self._next_s, now + wait_s)
            self._limited = True

    def _pattern(self):
        """Return the number of first dense steps and the ratio of later ones, adapted to the cost of a dense step."""
        first, growth = FIRST[self.level], GROWTH[self.level]
        if self._chosen is not None:
            return self._chosen
        if self.looks < FEWEST_FIRST or self.level == "deep":
            return first, growth
        affordable = FREE_S[self.level] / max(self._price, 1e-9)
        fewer, wider = next((fewer, wider) for least, fewer, wider in PATTERNS if affordable >= least)
        self._chosen = max(min(first, FEWEST_FIRST), int(first * fewer)), growth * wider
        return self._chosen

    def alarm(self, step):
        """Make the steps after `step` dense, because a value in it was abnormal.

        Returns:
            Whether they will be.
        """
        if self.alarms >= ALARMS or step - self._last_alarm < APART or self._again:
            return False
        self.alarms += 1
        self._last_alarm = step
        self._again = AGAIN
        self._next = step + 1
        return True

    def affordable(self, now):
        """Whether another dense step is within the budget now."""
        return self._seconds_over_budget(now) <= 0.0

    def left_out(self):
        """Return `(what, reason)` of unobserved steps; the reason is "" if all were observed."""
        return (
            "tensors at some of the planned steps",
            "the time budget of the probe was used up" if self._limited else "",
        )

    def _seconds_over_budget(self, now):
        """Seconds until the budget allows another dense step."""
        extra = self.spent - FREE_S[self.level] * (1 + 0.25 * self.alarms)
        return extra / SHARE[self.level] - (now - self._begun)


class UsualRange:
    """Detects abnormal values of a series of positive numbers by a running mean and mean deviation.

    A value is abnormal if it is not finite, or ten deviations and a factor of three above the mean.
    Source: chosen by us, to start dense steps, not as a verdict.
    """

    __slots__ = ("_count", "_deviation", "_mean")

    def __init__(self):
        self._mean = 0.0
        self._deviation = 0.0
        self._count = 0

    def accepts(self, value):
        """Whether `value` is normal; a normal value updates mean and deviation."""
        if value - value != 0.0:
            return False
        abnormal = value > self.highest_usual()
        self._count = count = self._count + 1
        rate = 1.0 / count if count < 32 else 0.03125
        difference = value - self._mean
        self._mean += rate * difference
        if abnormal:
            return False
        self._deviation += rate * (abs(difference) - self._deviation)
        return True

    def highest_usual(self):
        """The largest normal value; infinite while too few values are known."""
        if self._count < 20:
            return inf
        return self._mean + max(10.0 * self._deviation, 2.0 * abs(self._mean))
