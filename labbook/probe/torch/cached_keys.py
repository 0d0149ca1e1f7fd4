"""Compares the cache of keys and values that single tokens are joined to with what the token before left in it.

A function mode is on the stack for the forwards of a few tokens. It reads what `torch.cat` is given and returns.
"""

from ..training.call_site import line_of, user_frame
from ..wrapping import leave_out_one_frame
from .autograd_graph import take_off

_JOINING = frozenset(["cat", "concat", "concatenate"])
MOST_JOINS = 16
"""Joins of a forward that are followed: keys and values of eight layers."""

_MOST_ELEMENTS = 1 << 20
_MOST_POSITIONS = 64


class CachedKeys:
    """The joins of a cache with a single token, over the tokens that follow a prompt.

    Args:
        inspector: The `TensorInspector` of the process.
    """

    def __init__(self, inspector):
        self._inspector = inspector
        self._mode = None
        self.forget()

    def forget(self):
        """Begins anew: another prompt, or a forked child."""
        self._left = {}
        self._place = self._prompt = 0

    def begin(self, prompt):
        """Puts the mode on for the forward of a single token that is about to run, after so many of a prompt."""
        torch, inspector = self._inspector.framework, self._inspector
        self.end()
        possible = hasattr(torch.overrides, "TorchFunctionMode") and inspector.without_modes.only_devices(torch)
        if possible and not inspector.is_given_to_compiler():
            self._place, self._prompt = 0, prompt
            self._mode = self._watching(torch)
            self._mode.__enter__()

    def end(self):
        """Removes the mode, where it is on top."""
        mode, self._mode = self._mode, None
        if mode is not None:
            take_off(self._inspector.framework, mode)

    def _watching(self, torch):
        look, failed = self._look, self._inspector.failed

        class Watching(torch.overrides.TorchFunctionMode):
            off = False

            def __torch_function__(self, func, types, args=(), kwargs=None):
                kwargs = kwargs or {}
                try:
                    result = func(*args, **kwargs)
                except BaseException as error:
                    leave_out_one_frame(error)
                    raise
                if getattr(func, "__name__", "") in _JOINING and not self.off:
                    try:
                        look(args, kwargs, result)
                    except Exception as error:
                        failed("torch.look at cached keys", error)
                return result

        return Watching()

    def _look(self, args, kwargs, result):
        """Adds how a cache differs from what the token before left to the evaluation phase."""
        given = args[0] if args else kwargs.get("tensors")
        axis = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        if not self._is_join(given, axis, result):
            return
        place, self._place = self._place, self._place + 1
        if place >= MOST_JOINS or not self._inspector.without_modes.is_possible():
            return
        with self._inspector.without_modes:
            before = self._left.get(place)
            self._left[place] = result.detach().movedim(axis, 1).clone()
            if before is not None:
                change = describe_change(before, given[0].detach().movedim(axis, 1))
                if change == "lost" and given[0].shape[axis] != self._prompt:
                    change = "other"  # a prefix that each token is joined to
                row = self._inspector.monitor.evaluation.caches.setdefault(place, {"line": line_of(user_frame())})
                row[change] = row.get(change, 0) + 1

    def _is_join(self, given, axis, result):
        """Whether a cache is joined with what belongs to a single token."""
        stats = self._inspector.stats
        if not isinstance(given, (list, tuple)) or len(given) != 2 or not isinstance(axis, int):
            return False
        if not all(stats.is_tensor(one) and stats.is_plain(one) and one.is_floating_point() for one in given):
            return False
        cache, token = given
        fits = cache.dim() >= 3 and axis % cache.dim() and result.numel() <= _MOST_ELEMENTS
        return bool(fits) and token.shape[axis] == 1 < cache.shape[axis] <= _MOST_POSITIONS


def describe_change(before, now):
    """What became of a cache until the next token: "kept", "moved", "lost" or "other".

    Args:
        before: Batch, positions, features: the cache with the last token.
        now: The cache that the next token is joined to.

    Returns:
        "kept" also where it was cut at its beginning or its samples were reordered, as in a beam search; "moved": the
        same positions in another order; "lost": the last token is not in it.
    """
    if before.dim() != now.dim() or before.shape[2:] != now.shape[2:]:
        return "other"
    sample, length = now[0].flatten(1), now.shape[1]
    rows = before.flatten(2)
    if any(length <= len(row) and _equal(row[len(row) - length :], sample) for row in rows):
        return "kept"
    if length == rows.shape[1] - 1 and any(_equal(row[:length], sample) for row in rows):
        return "lost"
    if length == rows.shape[1] and any(_equal_in_another_order(row, sample) for row in rows):
        return "moved"
    return "other"


def _equal(one, other):
    return bool((one == other).all())


def _equal_in_another_order(one, other):
    same = (one[:, None] == other[None]).all(-1)
    return bool(same.any(0).all() and same.any(1).all())
