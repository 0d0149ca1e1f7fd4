"""Finds the line at which a PaddlePaddle tensor lost its graph, in one forward and between it and `backward`."""

import sys

from ..training.call_site import place_of, user_frame
from ..wrapping import TemporaryPatches, is_ours, transparent_wrapper

MOST_CUTS = 16


class DetachFinder:
    """Watches, from a dense forward to the backward call after it, where tensors with a graph lose it.

    While it is on, methods of `paddle.Tensor` are wrapped; they do what they always do.

    Args:
        failed: `failed(where, error)` counts a failure of the probe.
    """

    def __init__(self, paddle, failed):
        self._paddle = paddle
        self._failed = failed
        self._patches = TemporaryPatches()
        self._quiet = 0
        self.cuts = []

    @property
    def on(self):
        """Whether it is watching."""
        return bool(self._patches)

    def begin(self):
        """Begins to watch."""
        self.cuts = []
        if self._patches:
            return
        tensor = self._paddle.Tensor
        for name, op in _METHODS.items():
            original = getattr(tensor, name, None)
            if original is not None:
                self._patches.put(tensor, name, self._method(original, op))
        self._watch_data(tensor)
        self._watch_stop_gradient(tensor)
        self._watch_no_grad()
        for home, name, op in ((self._paddle, "to_tensor", "to_tensor"), (self._paddle, "argmax", "argmax")):
            self._patches.put(home, name, self._method(getattr(home, name), op))

    def end(self):
        """Ends it: everything is as it was before."""
        self._patches.remove()

    def _note(self, op):
        frame = user_frame()
        place = place_of(frame)
        if place and len(self.cuts) < MOST_CUTS:
            cut = dict(op=op, **place)
            if cut not in self.cuts:
                self.cuts.append(cut)

    def _inspect(self, op, given):
        if self._quiet:
            return
        self._quiet += 1
        try:
            if issubclass(type(given), self._paddle.Tensor) and not given.stop_gradient and not given.is_leaf:
                self._note(op)
        except Exception as error:
            self._failed("paddle.cut", error)
        finally:
            self._quiet -= 1

    def _method(self, original, op):
        look = self._inspect

        def call_detaching(*args, **kwargs):
            if args and not is_ours(sys._getframe(1).f_code):
                look(op, args[0])
            self._quiet += 1  # what it calls itself is no line of the program
            try:
                return original(*args, **kwargs)
            finally:
                self._quiet -= 1

        return transparent_wrapper(call_detaching, original)

    def _watch_data(self, tensor):
        original = tensor.__dict__.get("data")
        if original is None or not hasattr(original, "__get__"):
            return
        look = self._inspect

        def read(given):
            look("data", given)
            return original.__get__(given, type(given))

        def write(given, value):
            original.__set__(given, value)

        self._patches.put(tensor, "data", property(read, write))

    def _watch_stop_gradient(self, tensor):
        original = tensor.__dict__.get("stop_gradient")
        if original is None:
            return
        note, failed = self._note, self._failed
        read = original.__get__

        def write(given, value):
            try:
                mine = self._quiet or is_ours(sys._getframe(1).f_code)
                if value and not mine and not read(given) and not given.is_leaf:
                    note("stop_gradient")
            except Exception as error:
                failed("paddle.cut", error)
            original.__set__(given, value)

        self._patches.put(tensor, "stop_gradient", property(lambda given: read(given), write))

    def _watch_no_grad(self):
        kind = self._paddle.no_grad
        original, note, failed, enabled = kind.__enter__, self._note, self._failed, self._paddle.is_grad_enabled

        def enter(context):
            try:
                if enabled() and not self._quiet:
                    note("no_grad")
            except Exception as error:
                failed("paddle.cut", error)
            return original(context)

        self._patches.put(kind, "__enter__", transparent_wrapper(enter, original))


_METHODS = {
    "detach": "detach",
    "detach_": "detach",
    "numpy": "numpy",
    "__array__": "numpy",
    "tolist": "numpy",
    "item": "item",
    "__float__": "item",
    "argmax": "argmax",
}
"""Method of a tensor -> the name that a cut by it is recorded under."""

_ORDER = ("detach", "data", "stop_gradient", "no_grad", "to_tensor", "argmax", "numpy", "item")


def most_likely_cut(cuts, inside):
    """The cut that explains missing gradients best, `None` without any.

    Args:
        cuts: Those seen in the forward, and those seen between it and the backward call.
        inside: Whether parameters were missing already at the output of the model.
    """
    forward, after = cuts
    for group in (forward, after) if inside else (after, forward):
        if group:
            return min(group, key=lambda cut: _ORDER.index(cut["op"]))
    return None
