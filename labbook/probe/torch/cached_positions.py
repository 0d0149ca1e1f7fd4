"""Follows the tokens that a model generates one by one from a cache: their positions, and the cache itself."""

from weakref import ref

from ..inspection.nested import first_tensor
from ..training.evaluation import LOOKED
from .cached_keys import CachedKeys
from .compiler import has_compiled
from .module_calls import Observer

MOST = 8
"""Tokens of a phase that are looked at."""

_SHORTEST = 3


class CachedPositions:
    """The lookup tables of a model that is given a prompt, and then single tokens, without gradients.

    Args:
        inspector: The `TensorInspector` of the process.
    """

    def __init__(self, inspector):
        self._inspector = inspector
        self._keys = CachedKeys(inspector)
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self._tables = {}
        self._prompt = None
        self._observed = []
        self._keys.forget()

    def begins(self, root, args, kwargs):
        """Observes the tables of a model in the forward that is about to run, where it is given sequences of ids."""
        self.end()
        inspector = self._inspector
        given = first_tensor((args, kwargs), inspector.stats)
        if given is None or given.dim() != 2 or given.is_floating_point() or has_compiled():
            return
        evaluation, single = inspector.monitor.evaluation, given.shape[1] == 1
        if not single:
            self._prompt = (root.index, given.shape[1], 0, {})
            self._keys.forget()
        elif self._prompt is None or self._prompt[0] != root.index or self._prompt[2] >= MOST or not evaluation.open:
            return
        else:
            index, length, count, ids = self._prompt
            self._prompt = (index, length, count + 1, ids)
        for number, table in self._tables_of(root):
            module = table()
            if module is not None:
                observer = Observer(None, self._make_hook(number, single))
                self._observed.append((id(module), observer))
                inspector.calls.add(module, observer)
        if single and evaluation.phases < LOOKED:
            self._keys.begin(self._prompt[1])

    def end(self):
        """Observes nothing any more."""
        self._keys.end()
        observed, self._observed = self._observed, []
        for key, observer in observed:
            self._inspector.calls.remove(key, observer)

    def _tables_of(self, root):
        known = self._tables.get(root.index)
        if known is None:
            numbers, module = self._inspector.table(root), root.module()
            kind = self._inspector.framework.nn.Embedding
            found = [one for one in module.modules() if isinstance(one, kind)] if module is not None else []
            rows = [(numbers.modules.get(id(one)), ref(one)) for one in found] if numbers is not None else []
            known = self._tables[root.index] = [row for row in rows if row[0] is not None]
        return known

    def _make_hook(self, number, single):
        def look(module, args, output):
            try:
                ids = first_tensor(args, self._inspector.stats)
                if ids is not None and self._inspector.without_modes.is_possible():
                    with self._inspector.without_modes:
                        self._look(number, ids, single)
            except Exception as error:
                self._inspector.failed("torch.look at cached positions", error)

        return look

    def _look(self, number, ids, single):
        """Remembers the ids of a prompt; of a token, notes how far its id is from the one that follows them."""
        index, length, count, known = self._prompt
        if not single:
            known[number] = ids.detach()
            return
        held = known.get(number)
        if held is not None and type(held) is not tuple:
            low, high = (int(value) for value in held.aminmax())
            # Positions count up through the prompt; tokens do not.
            is_row = length >= _SHORTEST and high - low + 1 == length and held.numel() % length == 0
            held = known[number] = (low, high) if is_row else None
        if held is not None and ids.numel() and ids.min() == ids.max():
            position = int(ids.max())
            if position != held[0] + count - 1:  # else a prompt of one token began a sequence of its own
                self._inspector.monitor.evaluation.positions.append([index, number, position - held[1] - count])
