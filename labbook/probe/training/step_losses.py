"""Finds out which calls of `backward` made the gradients of an optimizer step; knows no framework.

What is stepped on is the sum of the losses whose gradients were added up since they were cleared. Usually those are
all losses since the step before: one, or several micro-batches. A gradient that is only looked at is cleared before
the next call of `backward`; and where several optimizers step after several losses, a loss need not reach the
parameters of each. Of a closure that a step evaluates several times, as that of L-BFGS, the first evaluation counts,
which `step` returns.
"""

from .call_site import backward_expression, user_frame
from .discarded_gradients import DiscardedGradients

FIRST_LOOKS = 8
"""Steps of several calls of `backward` that are looked at after an optimizer was made, however short they are."""

MOST_NAMES = 16
"""Calls of `backward` in a step whose losses are recorded by their names in the program."""

_MOST_KNOWN = 64
_MOST_BACKWARDS = 256
"""Calls of `backward` before a step that are distinguished; later ones count as those before."""


class StepLosses:
    """The calls of `backward` since the last step, in the thread that is followed, by optimizer.

    Only further calls before a step are looked at; where each step has one, the cost is that of `user_frame`.

    Args:
        inspector: What looks at tensors: its `followed_optimizers()` are the optimizers whose gradients this thread may
            read, its `is_cleared(optimizer)` says whether none of their gradients is other than 0, and its
            `gradient_marks(optimizer)` change when any of them is written; its `gradient_values(optimizer)` are some of
            their values; its `is_given_to_compiler()` says whether functions that this thread calls now would be
            compiled.
    """

    def __init__(self, inspector):
        self._inspector = inspector
        self._since = {}
        self._until = {}
        self._without = {}
        self._names = {}
        self._marks = []
        self._number = -1
        self._looked = True
        self._usual = {}
        self._made = 0
        self._left = FIRST_LOOKS
        self._discarded = DiscardedGradients(inspector)

    def wants_look(self, loop):
        """Whether to look at a call of `backward` also in a step that is not followed.

        Args:
            loop: The `LoopCounts`.
        """
        if self._made != loop.optimizers_made:
            self._made = loop.optimizers_made
            self._left = FIRST_LOOKS
        return self._left > 0

    def not_looked(self):
        """Notes that a call of `backward` is not looked at: its step is recorded like the last one that was."""
        self._looked = False
        self._number = _MOST_BACKWARDS

    def backward_begins(self, local, loop, skipping):
        """Looks at the gradients before a call of `backward`.

        Args:
            local: The `Local` values of the thread, in which the call is counted already.
            loop: The `LoopCounts`.
            skipping: Whether the step is not followed.
        """
        if (skipping and not self.wants_look(loop)) or self._inspector.is_given_to_compiler():
            self.not_looked()
            return
        number, self._marks = local.backwards - 1, []
        if number <= self._number:
            self._since.clear()
            self._until.clear()
            self._without.clear()
            self._names.clear()
            self._discarded.begin()
            self._looked = True
        self._number = number
        if number < _MOST_BACKWARDS:
            frame = user_frame()
            if number < MOST_NAMES:
                self._names[number] = backward_expression(frame)
            self._discarded.backward_begins(number, None if local.in_step else frame)
        again = local.in_step and number > local.before_step
        if not 0 < number < _MOST_BACKWARDS:
            return
        optimizers = self._inspector.followed_optimizers()
        for optimizer in optimizers:
            if self._inspector.is_cleared(optimizer):
                if again:
                    self._until.setdefault(id(optimizer), number)
                else:
                    self._since[id(optimizer)] = number
                self._discarded.on_clear(optimizer)
        if len(optimizers) > 1:
            self._marks = [(optimizer, self._inspector.gradient_marks(optimizer)) for optimizer in optimizers]

    def backward_ended(self):
        """Notes the optimizers whose gradients the call of `backward` has not written."""
        marked, self._marks = self._marks, []
        for optimizer, before in marked:
            if self._inspector.gradient_marks(optimizer) == before:
                self._without.setdefault(id(optimizer), set()).add(self._number)
        if self._discarded.several and self._number < _MOST_BACKWARDS:
            self._discarded.backward_ended(self._inspector.followed_optimizers())

    def use_of_gradients(self, optimizer, backwards):
        """What became of the gradients of several micro-batches; see `DiscardedGradients.result`."""
        return self._discarded.result(optimizer, backwards) if self._looked else None

    def select_losses(self, optimizer, losses, backwards, starts, first=False):
        """Which losses of a step count, and what the program calls them, for `StepRecorder.add`.

        Args:
            losses: What the calls of `backward` since the step before were called on.
            backwards: How many calls there were.
            starts: Position in `losses` of what the second call was called on, the third, ...
            first: Whether this is its first step.

        Returns:
            `None`, or some of: `counted`, the positions of those whose gradients the optimizer holds, and `summed`, how
            many calls of `backward` made them, where that is not all; `names`, a name a loss, where they have several
            and in the first step.
        """
        numbers, names = self._find_contributions(id(optimizer), backwards)
        fields = {}
        if numbers is not None:
            edges = [0, *starts, len(losses)]
            known = [number for number in numbers if number + 1 < len(edges)]
            fields["counted"] = [at for number in known for at in range(edges[number], edges[number + 1])]
            fields["summed"] = len(numbers)
        if losses and len(names) == len(losses):
            own = {names[at] for at in fields.get("counted", range(len(losses)))}
            if "" not in own and (first or len(own) > 1):
                fields["names"] = names
        return fields or None

    def _find_contributions(self, key, backwards):
        """`(numbers of the calls of backward that made the gradients of a step or `None` for all, their names)`."""
        if not self._looked:
            return self._as_usual(key, backwards)
        since, until = self._since.get(key, 0), self._until.get(key, backwards)
        without = self._without.get(key, ())
        found = None
        if since or without or until < backwards:
            found = [number for number in range(since, until) if number not in without] or None
        names = [self._names.get(number, "") for number in range(backwards)]
        self._left -= backwards > 1
        if len(self._usual) > _MOST_KNOWN:  # a program that makes new optimizers all the time
            self._usual.clear()
        self._usual[key] = (backwards, found, names)
        return self._usual[key][1:]

    def _as_usual(self, key, backwards):
        """As in the last step of this optimizer that was looked at: the same calls, or as many first or last ones."""
        before, found, names = self._usual.get(key, (backwards, None, ()))
        if before == backwards:
            return found, names
        if found is not None and found == list(range(len(found))):
            return found[:backwards], ()
        if found is None or found != list(range(before - len(found), before)):
            return None, ()
        return list(range(max(0, backwards - len(found)), backwards)), ()


def step_loss(losses, counted=None):
    """The loss of a step: the sum of the losses whose gradients it was made with; `None` without any.

    Args:
        losses: Floats.
        counted: Positions of those, `None` for all.
    """
    if counted is not None:
        losses = [losses[at] for at in counted if at < len(losses)]
    return sum(losses) if losses else None
