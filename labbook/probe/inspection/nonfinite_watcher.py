"""Notes the operations of one forward whose results are not finite, and finds the one where it began."""

from ..training.call_site import place_of, user_frame

MOST_EVENTS = 2000
FILLS = frozenset([
    "masked_fill", "masked_fill_", "full", "full_like", "fill_", "where", "new_full", "triu", "tril", "tensor",
    "as_tensor", "zeros_like", "ones_like", "empty", "empty_like", "__setitem__", "index_fill", "index_fill_",
    "constant_", "pad", "__get__", "detach", "clone", "to", "view", "reshape", "expand", "unsqueeze", "squeeze",
    "transpose", "permute", "contiguous", "repeat",
])  # fmt: skip
"""Operations that put infinities where the program wants them, as in attention masks, or only pass them on."""


class NonfiniteWatcher:
    """The operations of one forward whose results are not finite.

    A framework implements `kinds`, and has `on_operation` called around each operation.

    Attributes:
        modules: The modules that are being called, the innermost last.
    """

    FILLS = FILLS

    def __init__(self, stats):
        self.stats = stats
        self.modules = []
        self._events = []

    def on_operation(self, name, before, result):
        """Notes an operation that gave NaN or infinity and was not given any.

        Args:
            before: The `kinds` of its arguments.
        """
        nan, inf = self.kinds([result])
        if not ((nan and not before[0]) or (inf and not any(before))) or len(self._events) >= MOST_EVENTS:
            return
        module = self.modules[-1] if self.modules else None
        place = place_of(user_frame())
        self._events.append({"op": name, "nan": nan, "from_inf": before[1], "module": module, "place": place})

    def cause(self):
        """The operation where it began: the first NaN, or the infinity that it came from; `None` without one."""
        made = [event for event in self._events if event["op"] not in self.FILLS]
        first = next((event for event in made if event["nan"]), None)
        if first is None:
            return made[0] if made else (self._events[0] if self._events else None)
        if first["from_inf"]:
            before = made[: made.index(first)]
            return next((event for event in before if not event["nan"]), first)
        return first
