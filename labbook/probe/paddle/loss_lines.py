"""Learns in the first looks the line of the program of each operation of a loss that can give NaN or infinity.

PaddlePaddle keeps no lines in its graph, so these operators are replaced between a model and the backward call.
"""

from _thread import get_ident

from ..training.call_site import place_of, user_frame
from ..wrapping import TemporaryPatches

LOOKS = 3

PARTIAL = {
    name: "".join(part.capitalize() for part in name.split("_"))
    for name in (
        *("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "rsqrt", "reciprocal", "divide", "p_norm", "pow"),
        *("frobenius_norm", "acos", "asin", "acosh", "atanh", "cosh", "sinh", "logsumexp", "logcumsumexp"),
    )
}
PARTIAL["elementwise_pow"] = "Pow"
"""Operations that can give a value that is not finite for finite ones -> their names in the graph."""

_OPERATORS = {"__div__": "Divide", "__truediv__": "Divide", "__rdiv__": "Divide", "__rtruediv__": "Divide"}
_OPERATORS.update(__pow__="Pow", __rpow__="Pow")
_MOST = 200


class LossLines:
    """The lines of the losses of one process.

    Args:
        failed: `failed(where, error)` takes failures of ours.
    """

    def __init__(self, paddle, failed):
        self._tensor = paddle.Tensor
        self._operations = paddle._C_ops
        self._failed = failed
        self._patches = TemporaryPatches()
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self.end()
        self._known = []

    def begin(self):
        """Watches until `end`."""
        if len(self._known) >= LOOKS or self._patches:
            return
        for home, names in ((self._operations, PARTIAL), (self._tensor, _OPERATORS)):
            for name, kind in names.items():
                original = home.__dict__.get(name)
                if original is not None:
                    self._patches.put(home, name, self._wrap(original, kind, name))

    def backward(self):
        """Keeps what was seen since `begin`, and ends the look."""
        if self._patches:
            self._known.append(self._seen)
        self.end()

    def end(self):
        """Puts the operators back."""
        self._patches.remove()
        self._seen = []

    def find_lines(self, kind, count):
        """Where an operation is: `file`, `line`, `function`, `source`, for each line; `[{}]` where it is not sure.

        Args:
            kind: As the graph names it.
            count: How often the graph of the loss has it; it was as often in each look, on the same lines.
        """
        looks = [[place for k, place, _ in seen if k == kind] for seen in self._known]
        if not looks or any(len(places) != count or places != looks[0] for places in looks):
            return [{}]
        return [place for at, place in enumerate(looks[0]) if place not in looks[0][:at]]

    def is_smooth(self, kind, count, steep):
        """Whether an operation was only ever a power that is finite, with its derivative, where its argument is.

        Args:
            kind: As the graph names it.
            count: How often the graph of the loss has it.
            steep: Whether the argument is known to be in its domain, so that only the derivative may be infinite.
        """
        looks = [[by for k, _, by in seen if k == kind] for seen in self._known]
        return kind == "Pow" and all(
            len(some) == count and all(by is not None and by >= 1 and (steep or by == int(by)) for by in some)
            for some in looks or [()]
        )

    def _wrap(self, original, kind, name):
        thread = get_ident()

        def operator(*args, **kwargs):
            result = original(*args, **kwargs)
            if get_ident() == thread and len(self._seen) < _MOST:
                try:
                    self._take(kind, name, args, result)
                except Exception as error:
                    self._failed("paddle.lines", error)
            return result

        return operator

    def _take(self, kind, name, args, result):
        if not isinstance(result, self._tensor) or result.stop_gradient:
            return
        by = args[1] if len(args) > 1 else None
        number = type(by) in (int, float)
        if kind == "Divide" and number and "r" not in name.replace("true", ""):
            return  # by a number: the graph calls it DivScale
        exponent = by if kind == "Pow" and number and name != "__rpow__" else None
        self._seen.append((kind, place_of(user_frame()), exponent))
