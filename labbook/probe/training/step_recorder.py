"""Reduces the numbers of every optimizer step to few records, and limits the cost of measuring.

Independent of the framework. Each step is measured; the first `ONE_BY_ONE` steps of an optimizer are written one by
one, later ones as windows that carry the last value and minimum, maximum, mean and counts. A window ends when it is
full, when it is old, and at the first non-finite value. Steps shorter than `SHORTEST_S` are queued and processed in
batches, which costs less per step.
"""

from math import fsum, isfinite

from ..events.protocol import STEP
from .step_losses import step_loss
from .step_phases import NAMES as PHASES

ONE_BY_ONE = 1000
"""Steps with a record of their own. Source: chosen by us; a curve of 1000 points is as fine as a screen."""

RECENT_S = 1.0
"""Maximum age of an unwritten step, in seconds, while there are few records: the loss at a SIGKILL."""

SHORTEST_S = 0.05
"""Minimum time between two writes, in seconds: a write costs 30 microseconds, too much for a step of half a
millisecond. Also the loss of very short steps at a SIGKILL."""

AT_ONCE = 64
"""First steps of an optimizer that are never queued, so that a program that fails early is recorded completely."""

RECENT_LATER_S = 2.0
"""The same after `MANY_RECORDS` records: two days of slow steps stay under 30 MB."""

MANY_RECORDS = 4000
MAX_LOSSES = 16
"""Longest list of losses in one record; more of them (long accumulation, LBFGS) are aggregated."""

MAX_RATES = 16
_SUMS = ("counted", "summed", "names")
_MAX_ALARMS = 50


class StepRecorder:
    """The steps of one optimizer, as `step` events.

    Args:
        index: Number of the optimizer in this process.

    Attributes:
        skipped: Steps of the open window that a gradient scaler skipped.
        ready_s: Time until which steps are queued.
    """

    def __init__(self, emit, framework, index):
        self.step = 0
        self.skipped = 0
        self.skipped_in_all = 0
        self._emit = emit
        self._framework = framework
        self.index = index
        self._finite = True
        self._alarms = 0
        self._records = 0
        self._before = None
        self.ready_s = 0.0
        self._due = 0.0
        self._size = 1
        self._held = []
        self._taken = 0
        self._open_window()

    def _open_window(self):
        self._count = 0
        self._backwards = 0
        self._losses = []
        self._rates = []
        self._norms = []
        self._times = []
        self._last_losses = ()
        self._sums = []
        self._summed = self._parts = None
        self._last_rates = ()
        self._extra = None
        self._phases = []

    def add(self, losses, rates, norm, now, backwards, extra=None):
        """Add one step.

        Args:
            losses: Values passed to `backward` for this step.
            rates: Learning rates, one per parameter group.
            norm: Total gradient norm, `None` if it was not measured.
            now: Monotonic time at the end of the step, in seconds.
            backwards: Calls of `backward` for this step.
            extra: Additional fields of the record, or `None`; those of `StepLosses.select_losses` become sums of losses
                in it.

        Cost: 1 microsecond if it is queued, 5 more when it is processed.
        """
        self.defer(losses, rates, now, norm, backwards, extra)
        if now >= self.ready_s or self.step <= AT_ONCE or not _are_finite(losses, norm):
            self._take(now)

    def defer(self, losses, rates, now, norm=None, backwards=1, extra=None):
        """Queue a step with finite losses, as `add` does; `add` must follow immediately.

        Cost: half a microsecond.
        """
        self.step += 1
        before, self._before = self._before, now
        self._held.append((losses, rates, norm, None if before is None else now - before, backwards, extra))

    def _take(self, now):
        """Process the queued steps in order, and write due records."""
        held, self._held = self._held, []
        for losses, rates, norm, seconds, backwards, extra in held:
            self._taken += 1
            self._count += 1
            self._backwards += backwards
            if losses:
                self._last_losses = losses
                self._losses += losses
                if len(losses) == 1 and not extra:
                    self._sums.append(losses[0])
                else:
                    self._sum_losses(losses, backwards, extra)
            if norm is not None:
                self._norms.append(norm)
                self._normed = self._taken
            if rates:
                self._last_rates = rates
                self._rates.append(rates[0])
            if seconds is not None:
                self._times.append(seconds)
            if extra:
                self._extra = dict(self._extra, **extra) if self._extra else extra
                if "ph" in extra:
                    self._phases.append(extra["ph"])
            if self._size == 1:
                self._flush(now)
        # Only the last one may have a non-finite value: no later step is queued after it.
        finite = _are_finite(losses, norm)
        alarm = not finite and (self._finite or len(held) > 1) and self._alarms < _MAX_ALARMS
        self._finite = finite
        self._alarms += alarm
        if self._count and ((self._count >= self._size and now >= self.ready_s) or now >= self._due or alarm):
            self._flush(now)

    def _sum_losses(self, losses, backwards, extra):
        """Adds up the losses of one step."""
        counted = extra.get("counted") if extra else None
        total = step_loss(losses, counted)
        if total is not None:
            self._sums.append(total)
        if counted is not None or len(losses) > 1:
            self._summed = backwards if counted is None else extra["summed"]
        names = extra.get("names") if extra else None
        if names and len(names) == len(losses):
            self._parts = {}
            for at in range(len(losses)) if counted is None else counted:
                self._parts[names[at]] = self._parts.get(names[at], 0.0) + losses[at]

    def untimed(self):
        """Record no duration for the next step, because the end of the previous one is unknown."""
        self._before = None

    def skip(self):
        """Count a step that a gradient scaler skipped; it is no step of the optimizer."""
        if self._held:
            self._take(self._before)
        self.skipped += 1
        self.skipped_in_all += 1

    def flush(self):
        """Write the open window, unless it is empty."""
        if self._held:
            self._take(self._before or 0.0)
        if self._count or self.skipped:
            self._flush(self._before or 0.0)

    def _flush(self, now):
        fields = {"framework": self._framework, "opt": self.index, "step": self._taken, "n": self._count}
        losses = self._last_losses
        if losses:
            fields["loss"] = losses[0] if len(losses) == 1 else list(losses[:MAX_LOSSES])
        if self._last_rates:
            fields["lr"] = list(self._last_rates[:MAX_RATES])
        if self._norms:
            fields["grad_norm"] = self._norms[-1]
            if self._normed != self._taken:
                fields["norm_step"] = self._normed
        if self._times:
            fields["dt"] = round(self._times[-1], 7)
        if self._summed is not None and self._sums:
            fields["step_loss"] = self._sums[-1]
            fields["summed"] = self._summed
        if self._parts:
            fields["parts"] = self._parts
        if self._count > 1 or len(losses) > MAX_LOSSES:
            fields["agg"] = self._aggregates()
        fields["backwards"] = self._backwards
        if self.skipped:
            fields["skipped"] = self.skipped
            self.skipped = 0
        if self._extra:
            fields.update((name, value) for name, value in self._extra.items() if name not in _SUMS)
            if "ph" in fields:
                fields["ph"] = {name: round(seconds, 7) for name, seconds in zip(PHASES, fields["ph"])}
        self._open_window()
        self._records += 1
        self._due = now + (RECENT_S if self._records < MANY_RECORDS else RECENT_LATER_S)
        self.ready_s = now + SHORTEST_S
        if self._taken >= ONE_BY_ONE:
            self._size = window_size(self._taken)
        self._emit(STEP, **fields)

    def _aggregates(self):
        named = (("loss", self._losses), ("lr", self._rates), ("grad_norm", self._norms), ("dt", self._times))
        fields = {name: aggregate(values) for name, values in named if values}
        if self._summed is not None and self._sums:
            fields["step_loss"] = aggregate(self._sums)
        if self._phases:
            fields.update({name: aggregate([one[at] for one in self._phases]) for at, name in enumerate(PHASES)})
        return fields


def _are_finite(losses, norm):
    for value in losses:
        if value - value != 0.0:
            return False
    return norm is None or norm - norm == 0.0


def window_size(step):
    """Return the length of a window that ends near `step`: 2 after 1000 steps, 4 after 2000, ... 1024 after 512,000.

    Every doubling of the run adds 500 records; a million steps come to 6000.
    """
    return 1 << (step // ONE_BY_ONE).bit_length()


def aggregate(values):
    """Return `[min, max, mean, finite count, other count]`; the first three are `None` if none is finite."""
    total = sum(values)
    if not isfinite(total):
        count = len(values)
        values = [value for value in values if isfinite(value)]
        if not values:
            return [None, None, None, 0, count]
        return [min(values), max(values), _mean(values), len(values), count - len(values)]
    return [_round_value(min(values)), _round_value(max(values)), _round_value(total / len(values)), len(values), 0]


def _mean(values):
    try:
        return _round_value(fsum(values) / len(values))
    except OverflowError:
        return _round_value(sum(value / len(values) for value in values))


def _round_value(value):
    return float("%.7g" % value)


class Budget:
    """Decides at which steps gradient norms are measured: at every step if that is cheap, else every 2nd ... 64th.

    Args:
        fraction: Share of the time of a step that measuring may take on average.

    The first `ONE_BY_ONE` steps are always measured: their cost is bounded by their number.
    """

    WIDEST = 64
    REVIEW = 64
    """Steps between two reviews of the measured share."""

    def __init__(self, fraction):
        self.interval = 1
        self._fraction = max(float(fraction), 1e-6)
        self._cost = 0.0
        self._measured = 0
        self._steps = 0
        self._since = None

    def is_due(self, step):
        """Whether the gradients of this step (numbered from 1) are measured."""
        return step <= ONE_BY_ONE or self.interval == 1 or step % self.interval == 0

    def cost(self, seconds):
        """Add the duration of one measurement."""
        self._cost += seconds
        self._measured += 1

    def on_steps(self, now, count=1):
        """Count steps, the last of which ended at `now`; reviews the interval regularly."""
        if self._since is None:
            self._since = now
            return
        self._steps += count
        if self._steps >= self.REVIEW:
            self._review(now)

    def _review(self, now):
        step_s = (now - self._since) / self._steps
        if self._measured and step_s > 0:
            wanted = self._cost / self._measured / (self._fraction * step_s)
            while self.interval < wanted and self.interval < self.WIDEST:
                self.interval *= 2
            while self.interval > 1 and wanted < self.interval / 4:
                self.interval //= 2
        self._cost, self._measured, self._steps, self._since = 0.0, 0, 0, now
