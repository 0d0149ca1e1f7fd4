"""Watches the data loaders of PaddlePaddle: their settings, how long batches are waited for, what they look like."""

import sys

from ..inspection import dataloader
from ..inspection.dataloader import MOST_LABELS, PRINTED, ROW, is_shuffling, length_of, share_of
from ..training.batch_fingerprints import ROWS_OF_A_BATCH


class BatchFingerprints(dataloader.BatchFingerprints):
    """Takes fingerprints of batches of PaddlePaddle's tensors."""

    def labels(self, leaves, samples):
        """The labels among the leaves of a batch, one whole number a sample, as a list; `None` where there are none."""
        for _, leaf in reversed(leaves[1:]):
            shape = list(leaf.shape)
            if not shape or shape[0] != samples or leaf.size != samples or not 0 < samples <= MOST_LABELS:
                continue
            if "int" in self.stats.dtype(leaf):
                return self.stats.numbers(leaf, MOST_LABELS)
        return None

    def _numbers(self, leaf):
        numbers = self.stats.numbers(leaf, PRINTED)
        return None if numbers and type(numbers[0]) is complex else numbers

    def _first_rows(self, first):
        view = self.stats.view(first) if first.place.is_cpu_place() else None
        if view is None or view.ndim < 2 or not view.size or view.dtype.kind == "c":
            return ()
        few = view[:ROWS_OF_A_BATCH]
        few = few.reshape(few.shape[0], -1)
        return few[:, :: max(1, few.shape[1] // ROW)].tolist()


class DataLoaders(dataloader.DataLoaders):
    """The data loaders of one process that uses PaddlePaddle."""

    FRAMEWORK = "paddle"

    def install(self, paddle, patches):
        """Watches `paddle.io.DataLoader` and its iterators."""
        loader = paddle.io.DataLoader
        patches.replace(loader, "__iter__", self._wrap_iter(loader.__iter__), in_static=True)
        home = sys.modules["paddle.io.dataloader.dataloader_iter"]
        for name in ("_DataLoaderIterSingleProcess", "_DataLoaderIterMultiProcess"):
            kind = getattr(home, name)
            patches.replace(kind, "__next__", self._wrap_next(kind.__next__), in_static=True)

    def _settings(self, loader):
        batches = getattr(loader, "batch_sampler", None)
        sampler = getattr(batches, "sampler", None)
        kind = type(sampler if sampler is not None else batches).__name__
        iterable = str(getattr(loader, "dataset_kind", "")).endswith("1") or "Iterable" in kind
        size = getattr(batches, "batch_size", None)
        return {
            "batch_size": size if type(size) is int else None,
            "workers": loader.num_workers,
            "shuffle": False if iterable else _shuffles(batches, sampler, kind),
            "sampler": kind,
            "drop_last": bool(getattr(batches, "drop_last", loader.drop_last)),
            "pin_memory": bool(getattr(loader, "pin_memory", False)),
            "length": None if iterable else length_of(loader.dataset),
            **share_of(getattr(batches, "nranks", None), getattr(batches, "num_samples", None)),
            "batches": None if iterable else length_of(batches),
            "dataset": type(loader.dataset).__name__,
            "iterable": iterable,
        }


def _shuffles(batches, sampler, kind):
    """Whether batches come in another order in each epoch."""
    if kind == "SequenceSampler":
        return False
    if sampler is not None:
        return is_shuffling(sampler, kind)
    shuffle = getattr(batches, "shuffle", None)
    return shuffle if type(shuffle) is bool else True
