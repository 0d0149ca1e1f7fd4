"""The autograd graph of PaddlePaddle: which parameters a backward call reaches, and where a tensor lost its graph."""

from itertools import islice

from ..inspection import graph_operations
from ..inspection.graph_operations import AGAIN, FIRST, MOST_FOREIGN, MOST_NODES, backward_line, operations_of
from ..inspection.model_lookup import parameters_of
from ..inspection.policy_loss import LossGraph
from ..process.gc_scan import live_instances
from .detach_finder import most_likely_cut

_LEAF = "GradNodeAccumulation"
_MOST_TERMS = 20000
_ARITHMETIC = (
    "add", "subtract", "multiply", "divide", "scale", "pow", "square", "sqrt", "abs", "sum", "mean", "p_norm",
)  # fmt: skip
"""Beginnings of the names of operations that a penalty on parameters is made of, as nodes have them."""

_KINDS = {
    "multiply": "Mul", "subtract": "Sub", "divide": "Div", "clip": "Clamp", "square": "Pow", "elementwise_pow": "Pow",
    "concat": "Cat", "gather_nd": "Index", "index_select": "Index", "index_sample": "Gather",
    "take_along_axis": "Gather", "cast": "ToCopy", "reshape": "View", "flatten": "View", "assign": "Clone",
    "cross_entropy_with_softmax": "NllLoss", "mean_all": "Mean", "div_scale": "Scale",
    "logsigmoid": "LogSigmoid",
}  # fmt: skip
"""Operation -> its name in PyTorch, where that is another one."""

_LINEAR = ("mean", "mean_all", "sum", "add", "subtract", "divide", "scale")
_SHAPING = ("cast", "squeeze", "unsqueeze", "reshape", "flatten", "assign")


def node_of(tensor):
    """The address of the node that accumulates the gradient of a leaf, `None` for one that takes none."""
    if tensor.stop_gradient:
        return None
    node = tensor.grad_fn
    return None if node is None else node.node_ptr()


def _roots(tensors):
    return [tensor.grad_fn for tensor in tensors if not tensor.stop_gradient and tensor.grad_fn is not None]


def _walk(nodes, leads_on):
    """Yields `(address, name, node)` of these nodes and of each below them once.

    Args:
        nodes: Of the graph, such as those of what a backward call is made on.
        leads_on: `leads_on(name)`: whether to go on below a node of this name.

    Cost: 1 microsecond a node.
    """
    waiting = list(nodes)
    held = {}
    while waiting:
        node = waiting.pop()
        address, name = node.node_ptr(), node.name()
        if address in held:
            continue
        held[address] = node  # an address identifies its node only while the node lives
        yield address, name, node
        if leads_on(name):
            waiting.extend(following for following in node.next_functions if following is not None)


def reached_leaves(tensors):
    """Addresses of the accumulating nodes that backward calls on these tensors reach; `None` for too large a graph."""
    return _collect_leaves(_roots(tensors))


def _collect_leaves(nodes):
    found = set()
    for count, (address, name, _) in enumerate(_walk(nodes, lambda name: not name.startswith(_LEAF))):
        if count == MOST_NODES:
            return None
        if name.startswith(_LEAF):
            found.add(address)
    return found


def _operations(tensors):
    """The rows of the graph; leaves are identified by the addresses of their nodes."""
    return operations_of(
        _roots(tensors),
        lambda node: node.node_ptr(),
        lambda node: node.name().rpartition("::")[2].replace("GradNode", "").replace("_grad_node", ""),
        lambda node: [following for following in node.next_functions if following is not None],
        lambda node: node.node_ptr() if node.name().startswith(_LEAF) else None,
    )


def count_penalised(tensors):
    """How many leaves the losses reach by plain arithmetic alone, as the parameters in an L1 or L2 penalty.

    What is added as it is counts for none: the bias of a linear layer, whose product is an operation of its own.
    """
    found = set()
    for _, name, node in islice(_walk(_roots(tensors), _is_arithmetic), _MOST_TERMS):
        if _is_arithmetic(name) and _normalize_name(name) != "add":
            below = (following for following in node.next_functions if following is not None)
            found.update(leaf.node_ptr() for leaf in below if leaf.name().startswith(_LEAF))
    return len(found)


def _is_arithmetic(name):
    return _normalize_name(name).startswith(_ARITHMETIC)


def is_bootstrapped(tensors):
    """Whether one side of a difference is reward + discount * value, and reaches a leaf that the other one reaches.

    The graph keeps no values: a discounted value is one that is scaled, or a maximum that is masked where episodes end.
    A difference that is summed as it is, as in the likelihood of a flow, is no error.
    """
    feeds = {}
    for address, name, node in islice(_walk(_roots(tensors), _is_arithmetic), _MOST_TERMS):
        name, sides = _normalize_name(name), node.next_functions
        feeds.update((side.node_ptr(), name) for side in sides if side is not None)
        is_error = name == "huber_loss" or (name == "subtract" and feeds.get(address) not in (None, *_LINEAR))
        if is_error and len(sides) == 2 and None not in sides and sum(map(_is_discounted, sides)) == 1:
            one, other = (_collect_leaves([side]) or set() for side in sides)
            if one & other:
                return True
    return False


def _is_discounted(node):
    """Whether an operation adds something without a gradient to a discounted value."""
    node = _skip_reshapes(node)
    below = _single_input(node) if _normalize_name(node.name()) == "add" else None
    passed = set()
    while below is not None and _normalize_name(below.name()) in ("scale", "multiply", *_SHAPING):
        passed.add(_normalize_name(below.name()))
        below = _single_input(below)
    return "scale" in passed or (
        below is not None and bool(passed) and _normalize_name(below.name()) in ("max", "amax")
    )


def _single_input(node):
    """The only operation that one takes from: its other argument has no gradient."""
    below = [following for following in node.next_functions if following is not None]
    return below[0] if len(below) == 1 else None


def _skip_reshapes(node):
    """The first operation that is no change of shape or type."""
    while _normalize_name(node.name()) in _SHAPING and _single_input(node) is not None:
        node = _single_input(node)
    return node


def _normalize_name(name):
    """`PNormGradNode`, `p_norm_grad` and the like as `p_norm`."""
    words = "".join("_" + c.lower() if c.isupper() else c for c in name.rpartition("::")[2])
    return words.strip("_").replace("_grad_node", "").replace("_grad", "")


def _kind(node):
    """Name of an operation as PyTorch has it."""
    name = _normalize_name(node.name())
    return _KINDS.get(name) or name.title().replace("_", "")


LOSS_GRAPH = LossGraph(
    _kind, lambda node: node.next_functions, lambda node: node.node_ptr(), lambda node: None
)  # the graph keeps no values
"""The graphs of PaddlePaddle."""


def owners(paddle, addresses):
    """The parameters behind accumulating nodes that belong to no known module, by a sweep over all objects.

    Cost: that of the sweep.
    """
    trained = [
        parameter for parameter in live_instances(paddle.base.framework.EagerParamBase) if not parameter.stop_gradient
    ]
    return [parameter for parameter in trained if node_of(parameter) in addresses]


class AutogradGraph(graph_operations.AutogradGraph):
    """The graphs of one process that uses PaddlePaddle.

    `bare` says that the last loss had no graph at all, and that the step after it is watched. `read` is the number of
    the last backward call whose nodes were read: PaddlePaddle 3.3 never frees what `Tensor.grad_fn` returns.

    Args:
        cuts: The `DetachFinder`.
    """

    def __init__(self, paddle, inspector, cuts):
        self.paddle = paddle
        self.cuts = cuts
        super().__init__(inspector, LOSS_GRAPH)

    def forget(self):
        """Begins anew, in a forked child."""
        super().forget()
        self.bare = False
        self.read = 0
        self._inside = []
        self._output = None
        self._told_cut = self._told_terms = False

    def watches(self, number):
        """Whether the forward before backward call `number` is watched for cuts."""
        return self.cut is None and (number == 1 or (bool(self.missing) and number <= FIRST))

    def forward_ended(self, tensors):
        """Processes what the model returned, in a forward that is watched for cuts."""
        self._inside, self.cuts.cuts = self.cuts.cuts, []
        self._output = reached_leaves(tensors)

    def inspect(self, number, tensors):
        """Walks the graph of a backward call where that is due.

        Args:
            number: Of the call, from 1.
        """
        bare, self.bare = self.bare, False
        if self.cuts.on:
            self.cuts.end()
        self._look_at_ratio(number, tensors)
        if not (number == 1 or number == AGAIN or ((self.missing or bare) and number <= FIRST)):
            return
        self.read = number
        found = reached_leaves(tensors)
        if found is None:
            return
        if bare and not found and self.cut is None:
            self.cut = most_likely_cut(([], self.cuts.cuts), False)
        if number == 1:
            self.penalised = count_penalised(tensors)
            self.bootstrapped = backward_line() if is_bootstrapped(tensors) else None
            self._rows = _operations(tensors)
        self.policy.look(number, _roots(tensors), backward_line)
        self.reached |= found
        self._pending = (number, found)

    def _look_at_ratio(self, number, tensors):
        """Notes the ratio of a clipped policy loss; its values are watched from the first graph on that shows one."""
        watched = self.inspector.functions.ratios
        if number <= 2 and not watched.on:
            self.read = number
            watched.on = self.policy.look_at_ratio(_roots(tensors), backward_line) is not None
        self.policy.ratios += watched.take()
        watched.on = watched.on and number < AGAIN

    def on_backward_end(self, number):
        """Processes the end of the backward call: what has a gradient now was reached after all."""
        pending, self._pending = self._pending, None
        if pending is None:
            if not self._told_terms and self.inspector.functions.pairs.constant and self._last is not None:
                self.write_event(number, *self._last[1:])
            return
        number, found = pending
        missing, names = self._parameters_without_gradient()
        self.missing = [name for name, _ in missing]
        self._name_operations(names)
        if missing and self.cut is None:
            output = self._output or ()
            inside = any(node not in output for _, node in missing)
            self.cut = most_likely_cut((self._inside, self.cuts.cuts), inside)
        self._inside, self._output, self.cuts.cuts = [], None, []
        self._last = (number, found)
        if number in (1, AGAIN) or (self.cut is not None and not self._told_cut):
            self.write_event(*self._last)
        if not found and self.cut is None and number < FIRST:
            # What cut this graph may be around model and loss alike: all of the next step is watched.
            self.bare = True
            self.cuts.begin()

    def _parameters_without_gradient(self):
        """Returns names and nodes of trainable parameters of called models that got none, and all names by node."""
        missing = []
        names = {}
        for root, table in self.inspector.tables():
            for at, held in enumerate(table.held if root.called else ()):
                parameter = held()
                if parameter is None or parameter.stop_gradient:
                    continue
                if self._rows is not None:
                    names.setdefault(node_of(parameter), table.names[at])
                if parameter._grad_ivar() is None and node_of(parameter) not in self.reached:
                    missing.append((table.names[at], node_of(parameter)))
        return missing, names

    def _foreign_leaves(self, found):
        strange = found - self._known_leaves()
        if not strange:
            return []
        parameters = owners(self.paddle, strange)
        self.inspector.roots.register(parameters)
        strange -= self._known_leaves()
        parameters = [one for one in parameters if node_of(one) in strange]
        fields = [{"shape": list(one.shape), "parameter": True} for one in parameters[:MOST_FOREIGN]]
        others = strange - {node_of(one) for one in parameters}
        fields += [{"shape": None, "parameter": False}] * len(others)
        return fields[:MOST_FOREIGN]

    def _known_leaves(self):
        """Nodes of the parameters of optimizers and models."""
        known = set(map(node_of, self.inspector.trained_parameters()))
        for root in self.inspector.roots.living_models():
            layer = root.module()
            known.update(map(node_of, parameters_of(layer, "_sub_layers") if layer is not None else []))
        return known

    def write_event(self, number, found):
        """Writes the event."""
        self._told_cut = self.cut is not None
        pairs = self.inspector.functions.pairs
        self._told_terms = pairs.constant is not None
        held = sum(not one.stop_gradient for one in self.inspector.trained_parameters())
        foreign = self._foreign_leaves(found)
        self._emit(number, held=held, foreign=foreign, blown=pairs.blown, constant=pairs.constant)
