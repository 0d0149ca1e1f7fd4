"""Looks at what the modules of a model return, in one forward: the part without a framework."""

import math
from collections import deque
from weakref import ref

from .nested import first_batch, first_tensor, tensors_in

MOST_MODULES = 400
"""Modules, and pairs of connected modules, that are followed; a larger model is observed in its first ones."""

MOST_TIMES = 64
"""Calls of a recurrent cell in one forward whose state is looked at."""

MOST_SAMPLES = 2048
"""Samples over which a unit must be 0 to count as dead."""

FLAT = ("Tanh", "Sigmoid")
RECTIFIERS = ("ReLU", "ReLU6")
_PASSING = ("Dropout", "Identity")
_MOST_NORMALISED = 1 << 22
"""Elements of an input of a normalisation that are looked at."""


def _kinds(module):
    """Which base classes of recurrent layers and cells a module has."""
    return {kind.__name__ for kind in type(module).__mro__} & {"RNNBase", "RNNCellBase"}


class ModuleOutputs:
    """The modules of one process, at dense forwards.

    A framework implements `begin(root, table, first)`, `inspect_root(module, args, output)`, `_inspect_output(number,
    module, args, tensor)`: the fields of a module that has returned this tensor, `_row_variance(tensor)`: the smallest
    variance of a row, `_bad(tensor)`: how many values of a tensor are not finite, `_is_plain(tensor)`: whether its
    memory can be looked at, and `_silent_units(tensor)`: `(silent, samples)`, which units were 0 for all of so many
    samples, or `None`; `silent` is an array of the framework with `_size(silent)` elements.

    Args:
        failed: `failed(where, error)` takes failures of ours.
        clock: The processor's time of this thread.

    Attributes:
        found: Number of a module -> what was seen of its output.
        facts: Number of a module -> shapes and dtypes of its inputs and outputs, in the first forward.
        order: Numbers in the order of the calls.
        feeds: Pairs of numbers: the second module was given what the first returned.
    """

    def __init__(self, stats, failed, clock):
        self.stats = stats
        self._failed = failed
        self.clock = clock
        self.cost = 0.0
        self._dead = {}
        self._states = {}

    def clear(self):
        """Forgets what the last look has found."""
        self.found = {}
        self.facts = {}
        self.order = []
        self.feeds = []
        self.end()
        self._root = None

    def end(self):
        """Lets go of what a forward has returned."""
        self._returned = {}
        self._made = {}
        self._taken = []
        self._recurrent = []

    def settle(self):
        """Computes what the looks have left to be computed, after the forward."""

    def take_seconds(self):
        """Seconds that the looks at modules took since this was asked last."""
        cost, self.cost = self.cost, 0.0
        return cost

    def _inspect(self, number, module, args, output):
        known = self.found.get(number)
        tensor = first_batch(output, self.stats)
        if self._recurrent:
            self._find_step(args)
        if known is not None:
            known["calls"] += 1
            self._remember(number, tensor, source=self._source(module, args))
            if "carried" in known and _kinds(module) == {
                "RNNCellBase"
            }:  # called once a time step: its last state counts
                is_short = known["calls"] <= MOST_TIMES
                self._states[(id(self._root), number)] = self._moments(tensor) if is_short else None
            return
        self._trace(number, args)
        source = self._source(module, args)
        if self._first:
            self.order.append(number)
            self.facts[number] = {
                "input": [self.stats.kind(t) for _, t in tensors_in(args, self.stats, 4)],
                "output": [self.stats.kind(t) for _, t in tensors_in(output, self.stats, 4)],
            }
            self._find_view(number, args, tensor)
        if tensor is None:
            return
        fields = self._inspect_output(number, module, args, tensor)
        if not self.found:
            fields["given"] = self._describe_input(args)
        kinds = _kinds(module)
        if kinds:
            ended = output[1:] if "RNNBase" in kinds else output
            fields["carried"] = self._is_carried((id(self._root), number), args, ended)
            if "RNNBase" in kinds and self._first and len(tensor.shape) == 3:
                axis = 1 if vars(module).get("batch_first", not vars(module).get("time_major", True)) else 0
                self._recurrent.append((tensor, number, axis))  # a view of it keeps its memory, not it
        if "norm" in type(module).__name__.lower() and type(module).__module__.split(".")[0] not in ("torch", "paddle"):
            fields["row_var"] = self._least_row_variance(first_tensor(args, self.stats))
        if isinstance(vars(module).get("num_embeddings", vars(module).get("_num_embeddings")), int):
            fields["ids"] = self._range_of_ids(args)
        self.found[number] = fields
        self._remember(number, tensor, fields, source)

    def _least_row_variance(self, given):
        """The smallest variance over the last axis of what a normalisation was given; `None` for images, too."""
        if given is None or "float" not in self.stats.dtype(given) or not self._is_plain(given):
            return None
        is_looked_at = len(given.shape) in (2, 3) and 0 < math.prod(given.shape) <= _MOST_NORMALISED
        return self._row_variance(given) if is_looked_at else None

    def _describe_input(self, args):
        """Statistics of what the first module is given: of the input, once the model itself has scaled it."""
        given = first_tensor(args, self.stats)
        if given is None or "float" not in self.stats.dtype(given):
            return None
        look = self.stats.inspect(given)
        return {name: look[name] for name in ("shape", "min", "max", "mean", "std")}

    def _range_of_ids(self, args):
        """Smallest and largest id that a lookup table was given, and how many; `None` where they cannot be read."""
        given = first_tensor(args, self.stats)
        look = self.stats.inspect(given) if given is not None else {"min": None}
        return [int(look["min"]), int(look["max"]), math.prod(look["shape"])] if look["min"] is not None else None

    def _find_view(self, number, args, output):
        """Notes a module that is given the memory of another one's output as if its axes were in another order."""
        taken, made = (self._place(tensor) for tensor in (first_tensor(args, self.stats), output))
        if taken is not None:
            self._taken.append((number, *taken))
            maker, form = self._made.get(taken[0], (None, ()))
            if maker is not None and maker() is not None:
                self._compare_axes(number, form, taken[1])
        if made is not None:
            self._made[made[0]] = (ref(output), made[1])

    def _find_views_of(self, args):
        """Notes the modules that are given the memory of the model's own arguments in that way."""
        for _, tensor in tensors_in(args, self.stats, 4):
            address, form = self._place(tensor) or (0, ())
            for number, at, taken in self._taken:
                if at == address:
                    self._compare_axes(number, form, taken)

    def _find_step(self, args):
        """Notes which time step of a recurrent layer's output a module was given, -1 for anything else of it."""
        given = first_tensor(args, self.stats)
        if given is None or not self._is_plain(given):
            return
        for output, number, axis in self._recurrent:
            if not self._is_plain(output):
                continue
            form, stride = list(output.shape), (getattr(output, "strides", None) or output.stride())[axis]
            at = (given.data_ptr() - output.data_ptr()) // output.element_size()
            if 0 <= at < math.prod(form):
                alone = at % stride == 0 and list(given.shape) == form[:axis] + form[axis + 1 :]
                self.facts[number].setdefault("steps_read", []).append(at // stride if alone else -1)

    def _compare_axes(self, number, form, taken):
        if len(form) == len(taken) > 2 and form != taken and sorted(form) == sorted(taken) and min(form) > 1:
            self.facts[number]["view_of"] = list(form)

    def _place(self, tensor):
        """Address and shape of a tensor whose elements lie in the order of its axes, else `None`."""
        if tensor is None or not self._is_plain(tensor) or not tensor.is_contiguous():
            return None
        return tensor.data_ptr(), tuple(tensor.shape)

    def _remember(self, number, tensor, fields=None, source=None):
        """Remembers which module returned a tensor; `source`: the one in front, where this one is a dropout."""
        if tensor is not None:
            bad = fields["bad"] if fields is not None else 0
            self._returned[id(tensor)] = (ref(tensor), number, bad, self._version(tensor), fields, source)

    def _version(self, tensor):
        """How often a tensor was written to; `None` where nobody counts that."""

    def _maker(self, args):
        """What is known of the module that returned the very tensor which another one was given."""
        given = first_tensor(args, self.stats)
        maker = self._returned.get(id(given)) if given is not None else None
        return maker if maker is not None and maker[0]() is given and maker[3] == self._version(given) else None

    def _trace(self, number, args):
        """Notes which module returned the very tensor that this one was given, and which one is behind a dropout."""
        maker = self._maker(args) if self._first else None
        for source in (maker[1], maker[5]) if maker is not None else ():
            if source not in (None, number) and len(self.feeds) < MOST_MODULES:
                self.feeds.append([source, number])

    def _source(self, module, args):
        """The module that a dropout passes on; `None` for another kind of module."""
        maker = self._maker(args) if self._first and type(module).__name__.startswith(_PASSING) else None
        return (maker[5] if maker[5] is not None else maker[1]) if maker is not None else None

    def _bad_inputs(self, args):
        bad = 0
        for _, tensor in tensors_in(args, self.stats, 4):
            maker = self._returned.get(id(tensor))
            bad += maker[2] if maker is not None and maker[0]() is tensor else self._bad(tensor)
        return bad

    def dead(self, key, tensor):
        """`dead` and `dead_n` of a rectifier: units that were 0 for all of the last samples, over several looks."""
        found = self._silent_units(tensor)
        if found is None:
            return {"dead": None, "dead_n": 0}
        silent, samples = found
        seen = self._dead.get(key)
        if seen is None or not self._is_comparable(seen[0][1], silent):
            if len(self._dead) > MOST_MODULES:
                self._dead.clear()
            seen = self._dead[key] = deque()
        seen.append((samples, silent))
        while sum(count for count, _ in seen) - seen[0][0] >= MOST_SAMPLES:
            seen.popleft()
        always = silent
        for _, one in seen:
            always = always & one
        return {"dead": always.sum().item() / self._size(always), "dead_n": int(sum(count for count, _ in seen))}

    def _is_carried(self, key, args, ended):
        """Whether a recurrent layer or cell begins with the state at which its last call in the last look ended."""
        begin, end = (first_tensor(part, self.stats) for part in (args[1:], ended))
        before = self._states.pop(key, None)
        if end is not None and len(self._states) < MOST_MODULES:
            self._states[key] = self._moments(end)
        return begin is not None and before is not None and self._moments(begin) == before

    def _moments(self, state):
        """What distinguishes one state from another; `None` for one that is 0, as at the start of a sequence."""
        look = self.stats.inspect(state)
        return (look["shape"], look["min"], look["max"], look["mean"]) if look["std"] else None

    def _is_comparable(self, one, other):
        """Whether two arrays of `_silent_units` can be compared."""
        return one.shape == other.shape
