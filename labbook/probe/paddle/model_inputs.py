"""Looks at the batch of a dense step: what a PaddlePaddle model was given, and the labels that its loss was given."""

from ..inspection.nested import tensors_in
from ..training.batch_fingerprints import STILL, histogram, told_histogram

MOST_LEAVES = 16
_COLUMNS = 4096
_CHANNELS = 16


class ModelInputs:
    """The batches of one process, at dense steps.

    Args:
        stats: Looks at tensors.
    """

    def __init__(self, stats):
        self.stats = stats
        self._columns = {}

    def look(self, root, args, kwargs, batch):
        """Fields of the `batch` event; the labels come with the loss."""
        inputs = tensors_in(args, self.stats, MOST_LEAVES) + tensors_in(kwargs, self.stats, MOST_LEAVES)
        leaves = [self.leaf(path, leaf, "input", root.index) for path, leaf in inputs[:MOST_LEAVES]]
        firsts = [leaf.shape[0] for _, leaf in inputs if leaf.shape]
        if batch is not None and batch.data is not None:
            delivered = tensors_in(batch.data, self.stats, MOST_LEAVES)
            firsts += [leaf.shape[0] for _, leaf in delivered if leaf.shape]
            batch.data = None
        return {
            "phase": "train",
            "loader": batch.loader if batch is not None else None,
            "samples": batch.samples if batch is not None else (firsts[0] if firsts else None),
            "print": batch.print if batch is not None else None,
            "leaves": leaves,
            "labels": {"histogram": told_histogram(batch.labels)} if batch is not None and batch.labels else None,
            "dims_equal": len(set(firsts)) < 2,
        }

    def leaf(self, path, leaf, role, model):
        """What is told of one tensor of a batch."""
        told = {"path": path, "role": role}
        told.update(self.stats.kind(leaf))
        told.update(self.stats.look(leaf))
        told["integer"] = not ("float" in told["dtype"] or "complex" in told["dtype"])
        told["constant"] = None
        view = self.stats.whole_view(leaf)
        if view is not None and view.dtype.kind == "f" and view.size:
            if view.ndim == 4 and view.shape[1] <= _CHANNELS:
                told["channels"] = self.stats.channels(view)
            elif view.ndim == 2 and view.shape[1] <= _COLUMNS and role == "input":
                told["constant"], told["constant_at"], told["constant_n"] = self._constant(view, (model, path))
        return told

    def _constant(self, view, key):
        """How many columns had one value in all batches so far, the first of them, and how many samples these held."""
        low, high = self.stats.constant_columns(view)
        samples = view.shape[0]
        known = self._columns.get(key)
        if known is not None and known[0].shape == low.shape:
            low, high = self.stats.merged(known, low, high)
            samples += known[2]
        self._columns[key] = (low, high, samples)
        still = (low == high).nonzero()[0].tolist()
        return len(still), still[:STILL], samples

    def labelled(self, told, target):
        """The fields with the labels that the loss was given, `None` where it was given none."""
        if target is None:
            return told
        told["leaves"] = [*told["leaves"], self.leaf("target", target, "label", None)][: MOST_LEAVES + 1]
        if told["labels"] is None and "int" in self.stats.dtype(target) and 0 < target.size <= 1 << 20:
            labels = self.stats.numbers(target, 65536)
            told["labels"] = {"histogram": told_histogram(histogram(labels))} if labels is not None else None
        if target.shape and told["samples"] and len(target.shape) == 1:
            told["dims_equal"] = told["dims_equal"] and target.shape[0] % told["samples"] == 0
        return told
