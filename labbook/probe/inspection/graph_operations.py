"""What the autograd graphs of both frameworks have in common: their event, and the list of their operations.

The operations are listed without holding any tensor, those nearest to the loss first. `FIRST` and `AGAIN` choose the
backward calls whose graph is walked.
"""

from collections import deque

from ..events.measurement_kinds import GRAPH
from ..training.call_site import line_of, user_frame
from .policy_loss import PolicyLoss

FIRST = 4
"""Backward calls at the start that are looked at as long as a parameter is missing."""

AGAIN = 20
"""The later backward call that is looked at in any case."""

MOST = 400
"""Most operations. Source: chosen by us; 10 kB of an event, 2 ms once."""

MOST_NODES = 200000
"""Nodes of one graph that are visited: 0.2 s in PaddlePaddle, 0.6 s in PyTorch."""

MOST_FOREIGN = 20
_MOST_NAMES = 100


class AutogradGraph:
    """The graphs of one process.

    Args:
        inspector: The `TensorInspector`.
        loss_graph: The `LossGraph` of the framework.

    Attributes:
        reached: What distinguishes the leaves that backward calls have reached so far.
        missing: Names of the parameters of called models that got no gradient.
    """

    def __init__(self, inspector, loss_graph):
        self.inspector = inspector
        self._loss_graph = loss_graph
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self.reached = set()
        self.missing = []
        self.cut = self.bootstrapped = None
        self.penalised = 0
        self.policy = PolicyLoss(self._loss_graph)
        self._pending = self._rows = self._operations = self._last = None
        self._told = 0

    def _name_operations(self, names):
        """Keeps the rows of the graph for the next event, with the names of its leaves."""
        if self._rows is not None:
            rows, is_cut = self._rows
            self._rows, self._operations = None, {"operations": replace_names(rows, names), "more": is_cut}

    def _emit(self, number, **fields):
        """Writes the event of a look at a backward call."""
        self._told = number
        operations, self._operations = self._operations or {"operations": None, "more": None}, None
        self.inspector.emit(
            GRAPH,
            framework=self.inspector.adapter.name,
            step=self.inspector.monitor.step,
            backward=number,
            reachable=len(self.reached),
            unreachable=self.missing[:_MOST_NAMES],
            unreachable_n=len(self.missing),
            cut=self.cut,
            penalised=self.penalised,
            bootstrapped=self.bootstrapped,
            **fields,
            **self.policy.fields(),
            **operations,
        )

    def finish(self):
        """Writes the last inspection, where a short run ended before the next one."""
        if self._last is not None and self._told and self._told < self._last[0]:
            self.write_event(*self._last)
        self._last = None


def backward_line():
    """The user's line that calls `backward`."""
    return line_of(user_frame())


def operations_of(first, key_of, name_of, below, leaf_of):
    """Rows of the operations below some nodes, breadth first.

    Args:
        first: The nodes that made the losses.
        key_of: `key_of(node)`: what distinguishes nodes while they live.
        name_of: `name_of(node)`: name of its operation.
        below: `below(node)`: the nodes that it takes from.
        leaf_of: `leaf_of(node)`: what distinguishes the leaf that it accumulates into, or `None` for an operation.

    Returns:
        `(rows, is_cut)`: rows `[name, indices of the rows that it takes from, leaf or None]`, and whether there are
        more. Rows of leaves have no name.

    Cost: 3 microseconds a node.
    """
    held, index, rows = [], {}, []
    waiting = deque()

    def visit(node):
        key = key_of(node)
        at = index.get(key)
        if at is None and len(rows) < MOST:
            at = index[key] = len(rows)
            leaf = leaf_of(node)
            rows.append(["" if leaf is not None else name_of(node), [], leaf])
            held.append(node)  # a key identifies its node only while the node lives
            if leaf is None:
                waiting.append((node, at))
        return at

    for node in first:
        visit(node)
    is_cut = False
    while waiting:
        node, at = waiting.popleft()
        for following in below(node):
            found = visit(following)
            is_cut = is_cut or found is None
            if found is not None:
                rows[at][1].append(found)
    return rows, is_cut


def replace_names(rows, names):
    """The rows with the names of parameters in place of what distinguishes leaves, "" for another tensor.

    Args:
        rows: As `operations_of` returns them.
        names: What distinguishes a leaf -> its name.
    """
    return [[name, taken, names.get(leaf, "") if leaf is not None else None] for name, taken, leaf in rows]
