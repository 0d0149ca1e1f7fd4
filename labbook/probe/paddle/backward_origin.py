"""Finds the operator in whose backward a gradient first stops being finite, by hooks on what each operator returned."""

from _thread import get_ident

from ..inspection.nested import tensors_in
from ..training.call_site import place_of, user_frame
from .nonfinite_watcher import NonfiniteWatcher

_UNSEEN = "an operator of the program's own"


class BackwardOrigin(NonfiniteWatcher):
    """Notes who takes each tensor of one forward, while it is entered, and which gradient was the first bad one.

    Hooks are put on results of operators only, which are released after the backward; never on parameters.
    """

    def __init__(self, paddle, inspector):
        super().__init__(paddle, inspector)
        self._takers = {}
        self._kept = []
        self._first = None

    def _operator(self, name, original):
        thread, name = get_ident(), name.strip("_")

        def operator(*args, **kwargs):
            result = original(*args, **kwargs)
            if not self._busy and get_ident() == thread:
                self._busy = True
                try:
                    self._follow(name, (args, kwargs), result)
                finally:
                    self._busy = False
            return result

        return operator

    def _follow(self, name, given, result):
        place = None
        for _, tensor in tensors_in(given, self.stats):
            if not tensor.stop_gradient:
                place = place or place_of(user_frame())
                self._kept.append(tensor)  # its id is only its own as long as it lives
                self._takers.setdefault(id(tensor), []).append((name, place))
        for _, tensor in tensors_in([result], self.stats):
            if not tensor.stop_gradient and not tensor.is_leaf:
                self._kept.append(tensor)
                tensor._register_grad_hook(self._watch(id(tensor)))

    def _watch(self, key):
        def hook(gradient):
            if self._first is None and self._is_bad(gradient):
                self._first = key

        return hook

    def _is_bad(self, gradient):
        view = self.stats.view(gradient) if gradient is not None else None
        return view is not None and self.stats.bad(view) > 0

    def find_culprit(self, leaves, gradients):
        """`(operator, its place)` after the backward, `None` where all gradients are finite.

        Args:
            leaves: What gradients were asked for.
        """
        key = self._first
        if key is None:
            key = next((id(leaf) for leaf, one in zip(leaves, gradients) if self._is_bad(one)), None)
        if key is None:
            return None
        takers = self._takers.get(key)
        return (takers[-1][0] + "_grad", takers[-1][1]) if takers else (_UNSEEN, {})
