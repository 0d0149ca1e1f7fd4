"""Watches the data loaders of PaddlePaddle: their settings, how long batches are waited for, what they look like."""

import sys

from ..events.protocol import LOADER
from ..inspection.nested import tensors_in
from ..torch import dataloader
from ..torch.dataloader import _LEAVES, _MOST_LABELS, _PRINTED, _ROW, _length, _shuffles
from ..training.batch_fingerprints import ROWS_OF_A_BATCH, fingerprint, histogram, short_print
from ..training.call_site import line_of, user_frame


class BatchFingerprints(dataloader.BatchFingerprints):
    """Takes fingerprints of batches.

    Args:
        stats: Looks at tensors.
        without_modes: The context to look in.
    """

    def take(self, data, batch, wants, rows):
        """Fills in a `Batch`.

        Args:
            data: Nested tensors.
            batch: The `Batch`.
            wants: Whether a fingerprint is wanted.
            rows: Whether its first samples are wanted, too.

        Cost: 3 microseconds; 20 with a fingerprint, 60 with samples.
        """
        leaves = tensors_in(data, self.stats, _LEAVES)
        if not leaves:
            return
        first = leaves[0][1]
        shape = list(first.shape)
        batch.samples = shape[0] if shape else 1
        if not wants:
            return
        numbers = None
        for _, leaf in leaves[:4]:
            taken = self.stats.numbers(leaf, _PRINTED)
            if not taken or type(taken[0]) is complex:
                continue
            numbers = taken if numbers is None else numbers + taken
            if min(taken) != max(taken):
                break
        if numbers is None:
            return
        batch.print = fingerprint(numbers, shape)
        labels = self.labels(leaves, batch.samples)
        if labels is not None:
            batch.labels = histogram(labels)
        if rows:
            batch.rows = self._rows(first, labels)

    def labels(self, leaves, samples):
        """The labels among the leaves of a batch, one whole number a sample, as a list; `None` where there are none."""
        for _, leaf in reversed(leaves[1:]):
            shape = list(leaf.shape)
            if not shape or shape[0] != samples or leaf.size != samples or not 0 < samples <= _MOST_LABELS:
                continue
            if "int" in self.stats.dtype(leaf):
                return self.stats.numbers(leaf, _MOST_LABELS)
        return None

    def _rows(self, first, labels):
        view = self.stats.view(first) if first.place.is_cpu_place() else None
        if view is None or view.ndim < 2 or not view.size or view.dtype.kind == "c":
            return ()
        few = view[:ROWS_OF_A_BATCH]
        few = few.reshape(few.shape[0], -1)
        rows = few[:, :: max(1, few.shape[1] // _ROW)].tolist()
        fingerprints = [short_print(row) for row in rows]
        return [[row, labels[at]] if labels else [row] for at, row in enumerate(fingerprints)]


class DataLoaders(dataloader.DataLoaders):
    """The data loaders of one process.

    Args:
        fingerprints: Takes fingerprints.
        emit: `emit(kind, **fields)` writes an event.
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        monitor: Takes the batches; set by the eyes.
    """

    def install(self, paddle, patches):
        """Watches `paddle.io.DataLoader` and its iterators."""
        loader = paddle.io.DataLoader
        patches.put(loader, "__iter__", self._watched_iteration(loader.__iter__))
        home = sys.modules["paddle.io.dataloader.dataloader_iter"]
        for name in ("_DataLoaderIterSingleProcess", "_DataLoaderIterMultiProcess"):
            kind = getattr(home, name)
            patches.put(kind, "__next__", self._watched_next(kind.__next__))

    def _tell(self, loader, index):
        batches = getattr(loader, "batch_sampler", None)
        sampler = getattr(batches, "sampler", None)
        kind = type(sampler if sampler is not None else batches).__name__
        iterable = str(getattr(loader, "dataset_kind", "")).endswith("1") or "Iterable" in kind
        size = getattr(batches, "batch_size", None)
        self._emit(
            LOADER,
            framework="paddle",
            index=index,
            batch_size=size if type(size) is int else None,
            workers=loader.num_workers,
            shuffle=False if iterable else shuffles(batches, sampler, kind),
            sampler=kind,
            drop_last=bool(getattr(batches, "drop_last", loader.drop_last)),
            pin_memory=bool(getattr(loader, "pin_memory", False)),
            persistent=bool(getattr(loader, "_persistent_workers", False)),
            prefetch=getattr(loader, "prefetch_factor", None),
            length=None if iterable else _length(loader.dataset),
            batches=None if iterable else _length(batches),
            dataset=type(loader.dataset).__name__,
            iterable=iterable,
            line=line_of(user_frame()),
            drawn_alike=self._drawn_alike(loader),
        )


def shuffles(batches, sampler, kind):
    """Whether batches come in another order in each epoch."""
    if kind == "SequenceSampler":
        return False
    if sampler is not None:
        return _shuffles(sampler, kind)
    shuffle = getattr(batches, "shuffle", None)
    return shuffle if type(shuffle) is bool else True
