"""Watches the data loaders of PyTorch: their settings, how long a batch is waited for, and what batches look like."""

import sys

from ..inspection import dataloader
from ..inspection.dataloader import MOST_LABELS, PRINTED, ROW, is_shuffling, length_of, share_of
from ..training.batch_fingerprints import ROWS_OF_A_BATCH
from ..wrapping import as_import_machinery, transparent_wrapper


class BatchFingerprints(dataloader.BatchFingerprints):
    """Takes fingerprints of batches of PyTorch's tensors."""

    def labels(self, leaves, samples):
        """The labels among the leaves of a batch, one whole number a sample, as a list; `None` where there are none."""
        for _, leaf in reversed(leaves[1:]):
            if leaf.is_floating_point() or leaf.is_complex() or not leaf.is_cpu or not self.stats.is_plain(leaf):
                continue
            if leaf.dim() and leaf.shape[0] == samples == leaf.numel() and 0 < samples <= MOST_LABELS:
                return [int(label) for label in leaf.reshape(-1).tolist()]
        return None

    def _numbers(self, leaf):
        return self.stats.numbers(self.stats.real_part(leaf), PRINTED) if leaf.is_cpu and leaf.numel() else None

    def _first_rows(self, first):
        if not first.is_cpu or first.dim() < 2 or not first.numel() or not self.stats.is_plain(first):
            return ()
        few = self.stats.real_part(first.detach())[:ROWS_OF_A_BATCH]
        few = few.reshape(few.shape[0], -1)
        return few[:, :: max(1, few.shape[1] // ROW)].tolist()


class DataLoaders(dataloader.DataLoaders):
    """The data loaders of one process that uses PyTorch."""

    FRAMEWORK = "torch"

    def install(self, module):
        """Watches `torch.utils.data.dataloader`."""
        begins, ends = module.DataLoader.__iter__, module._BaseDataLoaderIter.__next__
        module.DataLoader.__iter__ = self._wrap_iter(begins)
        module._BaseDataLoaderIter.__next__ = self._wrap_next(ends)

    def install_stateful(self, module):
        """Watches `torchdata.stateful_dataloader.stateful_dataloader`, which iterates on its own."""
        module.StatefulDataLoader.__iter__ = self._wrap_iter(module.StatefulDataLoader.__iter__)

    def install_fastai(self, module):
        """Watches `fastai.data.load`, whose loaders are no `DataLoader` and use the iterators of PyTorch."""
        begun = self._on_iteration_start

        def watch(kind):
            def make(inner):
                iterator = kind(inner)
                begun(inner.d, iterator)
                return iterator

            return transparent_wrapper(as_import_machinery(make), kind)

        module._loaders = tuple(watch(kind) for kind in module._loaders)

    def _owner_ahead(self, loader):
        """That of accelerate, which fetches the next batch first, to know which one is the last."""
        state = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
        owners = state().dataloader_references if state is not None and state._shared_state else ()
        ahead = (one for one in owners if one is not None and not one.end_of_dataloader)
        return next((one for one in ahead if one.base_dataloader is loader), None)

    def _settings(self, loader):
        if hasattr(type(loader), "create_batches"):
            return _settings_of_fastai(loader)
        dataset, batches = loader.dataset, _batches_of(loader)
        iterable = getattr(loader, "_dataset_kind", 0) == 1
        sampler = getattr(batches, "sampler", batches)
        kind = type(sampler).__name__
        size = getattr(batches, "batch_size", None)
        return {
            "batch_size": size if type(size) is int else None,
            "workers": loader.num_workers,
            "shuffle": is_shuffling(sampler, kind),
            "sampler": kind,
            "drop_last": bool(getattr(batches, "drop_last", False)),
            "pin_memory": bool(loader.pin_memory),
            "length": None if iterable else length_of(dataset),
            **share_of(getattr(sampler, "num_replicas", None), getattr(sampler, "num_samples", None)),
            "batches": None if iterable else length_of(loader),
            "dataset": type(dataset).__name__,
            "iterable": iterable,
        }


def _settings_of_fastai(loader):
    own = type(loader).__name__ if "get_idxs" in vars(type(loader)) else ""
    return {
        "batch_size": loader.bs,
        "workers": loader.fake_l.num_workers,
        "shuffle": bool(loader.shuffle),
        "sampler": "RandomSampler" if loader.shuffle else own or "SequentialSampler",
        "drop_last": bool(loader.drop_last),
        "pin_memory": bool(loader.pin_memory),
        "length": loader.n,
        "batches": length_of(loader),
        "dataset": type(loader.dataset).__name__,
        "iterable": not loader.indexed,
    }


def _batches_of(loader):
    """What says which samples form a batch: the loader itself, or a batch sampler that it was given.

    Such a loader shows a sampler in order that it never asks. Libraries that share batches among processes wrap the
    batch sampler of the program, once or several times.
    """
    batches = loader.batch_sampler if loader.batch_size is None else None
    for _ in range(4):
        if hasattr(batches, "sampler") or not hasattr(batches, "batch_sampler"):
            break
        batches = batches.batch_sampler
    return loader if batches is None else batches
