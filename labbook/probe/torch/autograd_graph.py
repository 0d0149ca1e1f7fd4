"""Walks the autograd graph of a PyTorch backward call: the parameters that it reaches, and those that it misses."""

import sys

from ..inspection import graph_operations
from ..inspection.graph_operations import AGAIN, FIRST, MOST_FOREIGN, MOST_NODES, backward_line, operations_of
from ..training.call_site import place_of, user_frame
from ..wrapping import leave_out_one_frame
from .loss_expression import GRAPH, count_penalised, find_broadcast, is_bootstrapped, is_one, kind, roots
from .loss_terms import LossTerms


class AutogradGraph(graph_operations.AutogradGraph):
    """The graphs of one process that uses PyTorch."""

    def __init__(self, torch, inspector):
        self.torch = torch
        self.terms = LossTerms(torch, inspector)
        super().__init__(inspector, GRAPH)

    def forget(self):
        """Begins anew, in a forked child."""
        super().forget()
        self.blown = self.constant = None
        self._optimizers = 0
        self.terms.forget()

    def inspect(self, number, tensors):
        """Walks the graph of a backward call where that is due.

        Args:
            number: Of the call, from 1.
        """
        constant = self.terms.backward(tensors)
        if constant is not None:
            self.constant = constant
            if self._last is not None:
                self.write_event(*self._last)
        if number <= 2 or (self.policy.ratios and number <= AGAIN):
            self._inspect_ratio(tensors)
        made = self.inspector.monitor.loop.optimizers_made
        # The second call may be the loss of another model, as of a generator; a new optimizer begins another training.
        if number <= 2 or made != self._optimizers:
            self._optimizers = made
            self.terms.arm(tensors, made)
        if not (number == 1 or number == AGAIN or (self.missing and number <= FIRST)):
            return
        leaves = self.reach(tensors)
        if number == 1:
            self._rows = self._take_operations(tensors)
            self.inspector.roots.discover(list(leaves.values()))
            self.inspector.observe_forwards(leaves)
        if number == 1:
            self.penalised = count_penalised(tensors)
        if self.bootstrapped is None and is_bootstrapped(tensors):
            self.bootstrapped = backward_line()
        self.policy.look(number, roots(tensors), backward_line)
        if self.blown is None:
            self.blown = self._find_broadcast(tensors)
        self.reached.update(leaves)
        self._pending = (leaves, user_frame())

    def _inspect_ratio(self, tensors):
        with self.inspector.without_modes:
            ratio = self.policy.look_at_ratio(roots(tensors), backward_line)
            one = is_one(ratio) if ratio is not None else None
        if one is not None:
            self.policy.ratios.append(one)

    def _take_operations(self, tensors):
        """The rows of the graph; leaves are identified by their parameters."""
        return operations_of(
            [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None],
            lambda node: node,
            kind,
            lambda node: [following for following, _ in node.next_functions if following is not None],
            lambda node: id(node.variable) if type(node).__name__ == "AccumulateGrad" else None,
        )

    def _find_broadcast(self, tensors):
        with self.inspector.without_modes:
            found = find_broadcast(tensors)
        if found is not None:
            found["line"] = backward_line()
        return found

    def reach(self, tensors):
        """Id -> leaf that the graph of these tensors reaches; what a custom function hides is missing.

        Cost: 3 microseconds a node.
        """
        leaves, seen = {}, set()
        waiting = []
        for tensor in tensors:
            if tensor.grad_fn is not None:
                waiting.append(tensor.grad_fn)
            elif tensor.requires_grad:
                leaves[id(tensor)] = tensor
        while waiting and len(seen) < MOST_NODES:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None:
                leaves[id(variable)] = variable
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    waiting.append(following)
        return leaves

    def on_backward_end(self, number):
        """Processes the end of the backward call: what has a gradient now was reached after all."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        leaves, frame = pending
        missing = []
        names = {}
        for root in self.inspector.followed_models():
            module = root.module()
            table = self.inspector.table(root)
            if not root.called or module is None or table is None:
                continue
            for at, held in enumerate(table.held):
                parameter = held()
                if parameter is None or not parameter.requires_grad:
                    continue
                names.setdefault(id(parameter), table.names[at])
                if id(parameter) not in self.reached and parameter.grad is None:
                    missing.append((table.names[at], parameter, table.owners[at], root))
        self.missing = [name for name, _, _, _ in missing]
        self._name_operations(names)
        # What is kept beyond this call holds no tensor: inputs and models are freed when they would be without us.
        self._last = (number, self._foreign_leaves(leaves))
        if number in (1, AGAIN) or (self._told == 1 and self.cut is not None):
            self.write_event(*self._last)
        if missing and self.cut is None and number <= FIRST:
            self.inspector.watch_for_detach(missing, frame)

    def _foreign_leaves(self, leaves):
        held = self.inspector.optimized_ids()
        for root in self.inspector.roots.living_models():
            held |= self.inspector.roots.ids(root)
        strange = [
            leaf for key, leaf in leaves.items() if key not in held and isinstance(leaf, self.torch.nn.Parameter)
        ]
        for root in self.inspector.roots.register(strange):
            held |= self.inspector.roots.ids(root)
        foreign = []
        for key, leaf in leaves.items():
            if key not in held and key not in self.inspector.roots.unsearched:
                kind = isinstance(leaf, self.torch.nn.Parameter)
                foreign.append({"shape": list(leaf.shape), "parameter": kind})
        return foreign[:MOST_FOREIGN]

    def write_event(self, number, foreign):
        """Writes the event."""
        held = sum(one.requires_grad for one in self.inspector.trained_parameters())
        self._emit(number, held=held, foreign=foreign, blown=self.blown, constant=self.constant)

    def on_cut(self, cut):
        """Records where a graph was cut."""
        self.cut = cut
        if self._last is not None:
            self.write_event(*self._last)


_LOST = {
    "detach": "detach", "detach_": "detach", "numpy": "numpy", "__array__": "numpy", "tolist": "item",
    "item": "item", "__float__": "item", "__int__": "item", "argmax": "argmax", "argmin": "argmax",
    "argsort": "argmax", "round": "round", "sign": "sign", "floor": "floor", "ceil": "ceil",
}  # fmt: skip
_HARMLESS = frozenset([
    "__get__", "__bool__", "__len__", "__repr__", "__format__", "size", "dim", "numel", "is_contiguous", "stride",
    "shape", "device", "dtype", "type", "is_floating_point", "requires_grad_", "is_same_size", "__contains__", "eq",
    "ne", "lt", "le", "gt", "ge", "__eq__", "isnan", "isinf", "isfinite", "data_ptr", "storage_offset",
    "element_size", "register_hook", "retain_grad", "backward", "is_complex", "__hash__", "allclose", "equal",
    "any", "all", "get_device", "is_nonzero", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like",
    "randn_like", "new_zeros", "new_ones", "new_empty", "new_full",
])  # fmt: skip


def cut_mode(torch, took):
    """A function mode that calls `took(op, place)` for each call in which a tensor with a graph lost it.

    Args:
        took: Called with the name of the operation and `file`, `line`, `function`, `source` of the user's line.
    """

    class CutMode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            graph_before = _has_graph(torch, args) or _has_graph(torch, tuple(kwargs.values()))
            try:
                result = func(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            if graph_before and not _has_graph(torch, (result,)):
                op = describe_cut(torch, func)
                if op is not None:
                    took(op, place_of(user_frame()))
            return result

    return CutMode()


def describe_cut(torch, func):
    """What cut the graph in this call, as the protocol names it; `None` where nothing is lost."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        owner = getattr(getattr(func, "__self__", None), "__name__", "")
        return "data" if owner == "data" else None
    if name in _LOST:
        return _LOST[name]
    if name in _HARMLESS or name.startswith("is_"):
        return None
    return name if torch.is_grad_enabled() else "no_grad"


def _has_graph(torch, things, depth=0):
    for thing in things[:16]:
        if isinstance(thing, torch.Tensor):
            if thing.requires_grad:
                return True
        elif isinstance(thing, (list, tuple)) and depth < 2 and _has_graph(torch, tuple(thing), depth + 1):
            return True
    return False


def top_of_stack(torch):
    """The function mode on top, `None` without one."""
    overrides = sys.modules["torch.overrides"]
    current = getattr(overrides, "_get_current_function_mode", None)
    return current() if current is not None else None


def take_off(torch, mode):
    """Removes a function mode that is on top; another one, which the program's are above, is switched off instead."""
    if top_of_stack(torch) is mode:
        mode.__exit__(None, None, None)
    else:
        mode.off = True
