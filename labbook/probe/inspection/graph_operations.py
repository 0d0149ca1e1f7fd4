"""Lists the operations of an autograd graph, those nearest to the loss first, without holding any tensor.

`FIRST` and `AGAIN` choose the backward calls whose graph is walked.
"""

from collections import deque

FIRST = 4
"""Backward calls at the start that are looked at as long as a parameter is missing."""

AGAIN = 20
"""The later backward call that is looked at in any case."""

MOST = 400
"""Most operations. Source: chosen by us; 10 kB of an event, 2 ms once."""


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
