"""Finds in the graph of a PyTorch loss the first operation that can be shown to have made a value that is not finite.

What is shown is what the graph has kept for backward: results, and arguments by which a result is computed again.
"""

from .loss_expression import _saved_tensor, kind

MOST = 400
"""Nodes that are walked."""

LARGEST = 1 << 24
"""Elements up to which a result is computed again. Source: chosen by us; no memory must run out for a search."""

PARTIAL = frozenset(
    [
        *("Log", "Log2", "Log10", "Log1P", "Exp", "Exp2", "Expm1", "Sqrt", "Rsqrt", "Reciprocal", "Div", "Pow", "Acos"),
        *("Asin", "Acosh", "Atanh", "Std", "Var", "StdMean", "VarMean", "Mean", "Xlogy", "Erfinv", "LinalgVectorNorm"),
        *("Norm", "Cdist", "Cosh", "Sinh", "NllLoss", "NllLoss2D", "Logsumexp", "Atan2", "Fmod", "Remainder"),
        *("Lgamma", "LinalgInvEx", "LinalgCholeskyEx", "Logcumsumexp", "Prod"),
    ]
)
"""Operations that can give a value that is not finite for arguments that are finite."""

STEEP = frozenset(
    [
        *("Sqrt", "Rsqrt", "Pow", "Log", "Log2", "Log10", "Log1P", "Div", "Reciprocal", "Acos", "Asin", "Acosh"),
        *("Atanh", "Atan2", "Std", "StdMean", "LinalgVectorNorm", "Norm", "Cdist", "Xlogy", "Erfinv"),
    ]
)
"""Operations whose derivative is infinite, or none, for some argument."""

_AGAIN = frozenset(
    ["Log", "Log2", "Log10", "Log1P", "Acos", "Asin", "Acosh", "Atanh", "Cosh", "Sinh", "Erfinv", "Lgamma"]
)
_PAIRED = frozenset(["Add", "Sub", "Mul", "Div", "Where", "Maximum", "Minimum"])
_SECOND = ("other", "exponent", "mat2")


class NonfiniteOrigin:
    """One search.

    Args:
        outputs: Weak references to what the model returned: what made that is none of the expression. Without any
            the whole graph is.

    Attributes:
        nodes: Operations of the expression, the one that made the loss first, each before those it takes from.
    """

    def __init__(self, torch, stats, tensors, outputs=()):
        self.torch = torch
        self.stats = stats
        held = [tensor for tensor in (output() for output in outputs) if tensor is not None]
        self._ends = {tensor.grad_fn: tensor for tensor in held if tensor.grad_fn is not None}
        self._is_whole = not outputs
        self._edges = {}
        self._given = {}
        self._known = {}
        self._tainted = set()
        self.nodes = []
        self._walk([t.grad_fn for t in tensors or () if t is not None and t.grad_fn is not None])

    def _walk(self, roots):
        """Processes the nodes, each before those it takes from; a model begins where a node takes a leaf itself."""
        done, finished = set(), []
        waiting = [(node, False) for node in roots]
        while waiting:
            node, over = waiting.pop()
            if over:
                finished.append(node)
                continue
            if node in done or node in self._ends or len(done) >= MOST:
                continue
            done.add(node)
            below = [following for following, _ in node.next_functions if following is not None]
            computed = [following for following in below if not hasattr(following, "variable")]
            self._edges[node] = computed if self._is_whole or len(computed) == len(below) else []
            waiting.append((node, True))
            waiting += [(following, False) for following in reversed(self._edges[node])]
        self.nodes = finished[::-1]

    def may(self, names):
        """The operations among `names` that are not shown to have given finite values; no powers that are smooth."""
        found = [node for node in self.nodes if kind(node) in names and node not in self._tainted]
        found = [node for node in found if any(self._known.get(node, (1, 1))[:2])]
        return [node for node in found if not _is_smooth(node, names is STEEP)]

    def find_first(self):
        """The first operation that made a value that is not finite; `None` where none can be shown.

        Returns:
            `op`, `nan`, `inf`, `of` (elements), `low`, `high` (of its argument, or null), `zeros` (of its divisor, or
            null), `exponent` (or null), `then` ({`op`, `nan`} of the next one that made NaN of its infinities, or
            null), `given` (whether an argument without a graph must have been it); and the node itself under `node`.
        """
        self._count_evidence()
        bad = {node: counts for node, counts in self._known.items() if counts[0] or counts[1]}
        for node in reversed(self.nodes):
            if any(one in bad or one in self._tainted for one in self._edges[node]):
                self._tainted.add(node)
        first = [node for node in self.nodes if node in bad and node not in self._tainted]
        own = [node for node in first if self._is_fine_below(node) and not self._has_nonfinite_input(node)]
        # Sums and products of what is finite are no NaN, so a target, or a weight, was.
        given = [n for n in first if bad[n][0] and kind(n) in _PAIRED and self._is_fine_below(n, given=True)]
        given = given or [node for node in reversed(self.nodes) if self._has_nonfinite_input(node)]
        if not own and not given:
            return None
        node = (own or given)[0]
        nan, inf, of = bad.get(node, (0, 0, 0))
        fields = {"node": node, "op": kind(node), "nan": nan, "inf": inf, "of": of, "low": None, "high": None}
        fields.update(zeros=None, exponent=_exponent(node), then=None, given=not own)
        argument = self._argument(node, "self", 0)
        if argument is not None and argument.numel() and argument.is_floating_point():
            fields["low"], fields["high"] = argument.min().item(), argument.max().item()
        divisor = self._saved_tensor(node, "other") if kind(node) == "Div" else None
        if divisor is not None:
            fields["zeros"] = int((divisor == 0).sum().item())
        if not nan:
            fields["then"] = self._find_next(node, bad)
        return fields

    def _find_next(self, node, bad):
        """The next operation towards the loss that is shown to have made NaN."""
        over = {node}
        for one in reversed(self.nodes):
            if any(below in over for below in self._edges[one]):
                over.add(one)
                if one in bad and bad[one][0]:
                    return {"op": kind(one), "nan": bad[one][0]}
        return None

    def _count_evidence(self):
        """Counts what of each node can be shown."""
        for node in self.nodes:
            for name, at in (("self", 0), *((name, 1) for name in _SECOND)):
                value = self._saved_tensor(node, name)
                following = self._edge(node, at)
                if value is not None and following is not None:
                    self._given.setdefault(following, value)
        for node in reversed(self.nodes):
            result = self._result(node)
            if result is not None:
                self._given[node] = result
                self._known[node] = self._counts(result)
            else:
                average = self._average(node)
                if average is not None:
                    self._known[node] = average

    def _edge(self, node, at):
        """The operation that made an argument of another; the second argument may be the only one with a graph."""
        edges = node.next_functions
        if at and len(edges) == 1 and kind(node) == "Pow":
            at = 0
        return edges[at][0] if at < len(edges) else None

    def _result(self, node):
        result = self._saved_tensor(node, "result")
        if result is None:
            result = self._given.get(node)
        return result if result is not None else self._recompute(node)

    def _recompute(self, node):
        """What an operation gave, computed again from what it keeps."""
        name, own = kind(node), self._saved_tensor(node, "self")
        if name in _AGAIN and own is not None:
            return getattr(self.torch, name.lower())(own)
        if name == "Pow" and own is not None and isinstance(_exponent(node), (int, float)):
            return own ** _exponent(node)
        if name == "Var" and own is not None:
            correction = getattr(node, "_saved_correction", None)
            dim = getattr(node, "_saved_dim", None)
            return self.torch.var(own, dim, correction=1 if correction is None else correction)
        if name == "Mul":
            one, other = self._argument(node, "self", 0), self._argument(node, "other", 1)
            return None if one is None or other is None else one * other
        if name == "Div":
            divisor = self._saved_tensor(node, "other")
            divided = self._argument(node, "self", 0)
            if divisor is not None and divided is not None:
                return divided / divisor
            # Whatever is divided by 0 is not finite, and what by anything else almost always is.
            return None if divisor is None or not bool((divisor == 0).any()) else 1.0 / divisor
        return None

    def _average(self, node):
        """`(NaN, infinities, elements)` of a mean over no element, or a loss all of whose targets are left out.

        `None` for any other operation, and where that is unknown.
        """
        name, empty = kind(node), None
        if name == "Mean":
            sizes, dims = getattr(node, "_saved_self_sym_sizes", None), getattr(node, "_saved_dim", None)
            if sizes is not None and dims:
                empty = any(sizes[at - (1 << 64) if at >= 1 << 63 else at] == 0 for at in dims)
            else:
                empty = getattr(node, "_saved_self_sym_numel", 1) == 0
        if name in ("NllLoss", "NllLoss2D"):
            weight = self._saved_tensor(node, "total_weight") if getattr(node, "_saved_reduction", 0) == 1 else None
            empty = weight is not None and weight.item() == 0
        return None if empty is None else (int(empty), 0, 1)

    def _argument(self, node, name, at):
        """An argument: as the operation keeps it, or as what made it does."""
        value = self._saved_tensor(node, name)
        following = self._edge(node, at)
        if value is None and following is not None:
            end = self._ends.get(following)
            if end is not None:
                return end.detach() if self.stats.is_tensor(end) else None
            value = self._saved_tensor(following, "result")
            return value if value is not None else self._given.get(following)
        return value

    def _has_nonfinite_input(self, node):
        """Whether an argument without a graph was not finite already."""
        for name, at in (("self", 0), *((name, 1) for name in _SECOND)):
            value = self._saved_tensor(node, name)
            if value is not None and self._edge(node, at) is None and any(self._counts(value)[:2]):
                return True
        return False

    def _is_fine_below(self, node, given=False):
        """Whether it made its value itself: all that it was computed from is finite, as far as it can go wrong.

        What cannot be shown may be sums, products and views of what is finite, but nothing of `PARTIAL`.

        Args:
            given: Whether only what has a graph matters.
        """
        divisor = self._saved_tensor(node, "other") if kind(node) == "Div" else None
        if divisor is not None and bool((divisor == 0).any()):
            return True
        if kind(node) in ("Mean", "NllLoss", "NllLoss2D"):
            return True
        waiting, seen = [node], set()
        while waiting:
            one = waiting.pop()
            for at, (following, _) in enumerate(one.next_functions):
                if following is None:
                    # An argument without a graph, as a target, or no argument at all.
                    kept = self._saved_tensor(one, "self" if at == 0 else "other")
                    if kind(one) in _PAIRED and kept is None and not (given and one is node):
                        return False
                elif following in self._known:
                    if any(self._known[following][:2]):
                        return False
                elif following not in seen and following not in self._ends and following in self._edges:
                    # A node of the model, which is none of the expression, has no edges here.
                    if self._has_nonfinite_input(following) or (self._edges[following] and kind(following) in PARTIAL):
                        return False
                    seen.add(following)
                    waiting.append(following)
        return True

    def _saved_tensor(self, node, name):
        value = _saved_tensor(node, name)
        if value is None or not self.stats.is_tensor(value) or value.numel() > LARGEST:
            return None
        return value.detach()

    def _counts(self, value):
        """`(NaN, infinities, elements)`."""
        if not (value.is_floating_point() or value.is_complex()):
            return 0, 0, value.numel()
        nan = int(self.torch.isnan(value).sum().item())
        return nan, int(self.torch.isinf(value).sum().item()), value.numel()

    def chain(self, marked=None):
        """What the loss was computed by, from the outside in: `Mean <- Neg <- Log!`; `!` marks the node `marked`."""
        names, node = [], self.nodes[0] if self.nodes else None
        path = self._path(marked) if marked is not None else ()
        while node is not None and len(names) < 8:
            names.append(kind(node) + ("!" if node is marked else ""))
            edges = [following for following, _ in node.next_functions if following is not None]
            edges = [one for one in edges if not hasattr(one, "variable") and one not in self._ends]
            node = next((one for one in edges if one in path), edges[0] if edges else None)
        if marked is not None and not any(name.endswith("!") for name in names):
            names = [*names[:6], "...", kind(marked) + "!"]
        return " <- ".join(names)

    def _path(self, node):
        """The nodes over which a node reaches the loss."""
        over = {node}
        for one in reversed(self.nodes):
            if any(below in over for below in self._edges[one]):
                over.add(one)
        return over


def _exponent(node):
    value = None
    if kind(node) == "Pow" and not hasattr(node, "_raw_saved_exponent"):
        try:
            value = getattr(node, "_saved_exponent", None)
        except RuntimeError:  # it was freed with the graph
            return None
    return value if type(value) in (int, float) else None


def _is_smooth(node, steep):
    exponent = _exponent(node)
    return exponent is not None and exponent >= 1 and (steep or exponent == int(exponent))
