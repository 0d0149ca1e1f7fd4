"""Looks at the batches that reach PyTorch models: their inputs, labels, and columns that never vary."""

from ..events.protocol import BATCH
from ..inspection.nested import tensors_in
from ..training.batch_fingerprints import STILL, histogram, told_histogram

MOST_LEAVES = 16
_COLUMNS = 4096
_CHANNELS = 16


class ModelInputs:
    """The batches of one process, at dense steps.

    Args:
        torch: The module.
        stats: Looks at tensors.
        without_modes: The context to look in.
        emit: `emit(kind, **fields)` writes an event.
    """

    def __init__(self, torch, stats, without_modes, emit):
        self.torch = torch
        self.stats = stats
        self.without_modes = without_modes
        self.emit = emit
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self._batch = None
        self._columns = {}

    def look(self, root, args, kwargs, batch):
        """Looks at the batch of a dense forward, the first of its step; the labels come with the loss."""
        if self._batch is not None or not self.without_modes.is_possible():
            return
        with self.without_modes:
            inputs = tensors_in(args, self.stats, MOST_LEAVES) + tensors_in(kwargs, self.stats, MOST_LEAVES)
            # What another model has computed is no input of the training.
            given = [(path, leaf) for path, leaf in inputs if leaf.grad_fn is None]
            leaves = [self.leaf(path, leaf, "input", root.index) for path, leaf in given[:MOST_LEAVES]]
            firsts = [leaf.shape[0] for _, leaf in inputs if leaf.dim()]
            if batch is not None and batch.data is not None:
                delivered = tensors_in(batch.data, self.stats, MOST_LEAVES)
                firsts += [leaf.shape[0] for _, leaf in delivered if leaf.dim()]
                batch.data = None
        self._batch = {
            "phase": "train",
            "loader": batch.loader if batch is not None else None,
            "samples": batch.samples if batch is not None else (firsts[0] if firsts else None),
            "print": batch.print if batch is not None else None,
            "leaves": leaves,
            "labels": {"histogram": told_histogram(batch.labels)} if batch is not None and batch.labels else None,
            "dims_equal": len(set(firsts)) < 2,
        }

    def leaf(self, path, leaf, role, model):
        """What is told of one leaf.

        Args:
            path: Where it is in the batch.
            leaf: It.
            role: "input", "label" or "other".
            model: Number of the model that was given it.
        """
        told = {"path": path, "role": role, "device": str(leaf.device)}
        told.update(self.stats.look(leaf))
        told["integer"] = not (leaf.is_floating_point() or leaf.is_complex())
        told["constant"] = None
        if self.stats.is_plain(leaf) and leaf.is_floating_point() and leaf.numel():
            if leaf.dim() == 4 and leaf.shape[1] <= _CHANNELS:
                few = leaf.detach()[:: max(1, leaf.numel() >> 20)].to(self.torch.float32)
                variance, mean = self.torch.var_mean(few, (0, 2, 3), correction=0)
                told["channels"] = [[m, v**0.5] for m, v in zip(mean.tolist(), variance.tolist())]
            elif leaf.dim() == 2 and leaf.shape[1] <= _COLUMNS and role == "input":
                told["constant"], told["constant_at"], told["constant_n"] = self._constant(leaf, (model, path))
        return told

    def _constant(self, leaf, key):
        """How many columns had one value in all batches so far, the first of them, and how many samples these held."""
        low, high = self.torch.aminmax(leaf.detach(), dim=0)
        known = self._columns.get(key)
        samples = leaf.shape[0]
        if known is not None and known[0].shape == low.shape and known[0].device == low.device:
            low, high = self.torch.minimum(low, known[0]), self.torch.maximum(high, known[1])
            samples += known[2]
        self._columns[key] = (low, high, samples)
        still = (low == high).nonzero().flatten().tolist()
        return len(still), still[:STILL], samples

    def tell(self, step, losses):
        """Writes the event; `losses` know the target."""
        told, self._batch = self._batch, None
        target, losses.target = losses.target, None
        if told is None:
            return
        if target is not None and self.without_modes.is_possible():
            with self.without_modes:
                told["leaves"] = [*told["leaves"], self.leaf("target", target, "label", None)][: MOST_LEAVES + 1]
                if told["labels"] is None and self._are_labels(target):
                    counts = histogram([int(label) for label in target.reshape(-1)[:65536].tolist()])
                    told["labels"] = {"histogram": told_histogram(counts)}
                first = target.shape[0] if target.dim() else None
                if first is not None and told["samples"] and target.dim() == 1:
                    told["dims_equal"] = told["dims_equal"] and first % told["samples"] == 0
        self.emit(BATCH, framework="torch", step=step, **told)

    def _are_labels(self, target):
        whole = not target.is_floating_point() and not target.is_complex()
        return whole and self.stats.is_plain(target) and 0 < target.numel() <= 1 << 20
