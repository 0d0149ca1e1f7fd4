"""Watches the data loaders of PyTorch: their settings, how long a batch is waited for, and what batches look like."""

from weakref import WeakKeyDictionary

from ..events.protocol import LOADER
from ..inspection.nested import tensors_in
from ..training.batch_fingerprints import ROWS_OF_A_BATCH, Batch, fingerprint, histogram, short_print
from ..training.call_site import line_of, user_frame
from ..training.worker_seeds import drawn_alike
from ..wrapping import as_import_machinery, leave_out_one_frame, transparent_wrapper

MOST_LOADERS = 32
_PRINTED = 128
_ROW = 32
_MOST_LABELS = 4096
_LEAVES = 8


class BatchFingerprints:
    """Takes fingerprints of batches.

    Args:
        stats: Looks at tensors.
        without_modes: The context to look in.
    """

    def __init__(self, stats, without_modes):
        self.stats = stats
        self.without_modes = without_modes

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
        batch.samples = first.shape[0] if first.dim() else 1
        if not wants or not self.without_modes.is_possible():
            return
        with self.without_modes:
            numbers = None
            for _, leaf in leaves[:4]:
                taken = self.stats.numbers(self.stats.real(leaf), _PRINTED) if leaf.is_cpu and leaf.numel() else None
                if taken is None:
                    continue
                numbers = taken if numbers is None else numbers + taken
                if min(taken) != max(taken):
                    break
            if numbers is None:
                return
            batch.print = fingerprint(numbers, first.shape)
            labels = self.labels(leaves, batch.samples)
            if labels is not None:
                batch.labels = histogram(labels)
            if rows:
                batch.rows = self._rows(first, labels)

    def labels(self, leaves, samples):
        """The labels among the leaves of a batch, one whole number a sample, as a list; `None` where there are none."""
        for _, leaf in reversed(leaves[1:]):
            if leaf.is_floating_point() or leaf.is_complex() or not leaf.is_cpu or not self.stats.is_plain(leaf):
                continue
            if leaf.dim() and leaf.shape[0] == samples == leaf.numel() and 0 < samples <= _MOST_LABELS:
                return [int(label) for label in leaf.reshape(-1).tolist()]
        return None

    def _rows(self, first, labels):
        if not first.is_cpu or first.dim() < 2 or not first.numel() or not self.stats.is_plain(first):
            return ()
        few = self.stats.real(first.detach())[:ROWS_OF_A_BATCH]
        few = few.reshape(few.shape[0], -1)
        rows = few[:, :: max(1, few.shape[1] // _ROW)].tolist()
        fingerprints = [short_print(row) for row in rows]
        return [[row, labels[at]] if labels else [row] for at, row in enumerate(fingerprints)]


class DataLoaders:
    """The data loaders of one process.

    Args:
        fingerprints: Takes fingerprints.
        emit: `emit(kind, **fields)` writes an event.
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        monitor: Takes the batches; set by the eyes.
    """

    def __init__(self, fingerprints, emit, failed):
        self.fingerprints = fingerprints
        self.monitor = None
        self._emit = emit
        self._failed = failed
        self._loaders = WeakKeyDictionary()
        self._iterators = WeakKeyDictionary()
        self._count = 0

    def install(self, module):
        """Watches `torch.utils.data.dataloader`."""
        begins, ends = module.DataLoader.__iter__, module._BaseDataLoaderIter.__next__
        module.DataLoader.__iter__ = self._watched_iteration(begins)
        module._BaseDataLoaderIter.__next__ = self._watched_next(ends)

    def _watched_iteration(self, original):
        begun = self._begun

        def iterate(loader):
            iterator = original(loader)
            begun(loader, iterator)
            return iterator

        return transparent_wrapper(as_import_machinery(iterate), original)

    def _watched_next(self, original):
        delivered, health_of = self.fingerprints.without_modes.wrap(self._delivered), self

        def following(iterator):
            monitor = health_of.monitor
            if monitor is None:
                return original(iterator)
            began = monitor.clock()
            try:
                data = original(iterator)
            except BaseException as error:  # StopIteration and the program's own, passed on
                leave(error)
                raise
            delivered(iterator, data, began)
            return data

        leave = leave_out_one_frame
        return transparent_wrapper(as_import_machinery(following), original)

    def _begun(self, loader, iterator):
        try:
            if self.monitor is not None:
                self.monitor.probe.watchdog.begin()
            known = self._loaders.get(loader)
            if known is None:
                if self._count >= MOST_LOADERS:
                    return
                known = self._loaders[loader] = [self._count, -1]
                self._count += 1
                self._tell(loader, known[0])
            known[1] += 1
            self._iterators[iterator] = (known[0], known[1])
        except Exception as error:
            self._failed("torch.loader", error)

    def _delivered(self, iterator, data, began):
        monitor = self.monitor
        try:
            now = monitor.training.moved = monitor.clock()
            waited = now - began
            if monitor.skipping:
                monitor.fresh = None
                return
            known = self._iterators.get(iterator)
            if known is None or (monitor.thread is not None and not monitor.is_followed_thread()):
                return
            batch = Batch(*known)
            wants, rows = monitor.windows.wants(*known)
            self.fingerprints.take(data, batch, wants or monitor.dense, rows)
            if monitor.dense:
                batch.data = data
            monitor.batch(batch, waited)
            monitor.training.overhead_s += monitor.clock() - began - waited
        except Exception as error:
            self._failed("torch.batch", error)

    def workers(self):
        """Process ids of the workers of the loaders that are being iterated."""
        found = [one for iterator in list(self._iterators) for one in getattr(iterator, "_workers", ())]
        return sorted(pid for one in found if (pid := getattr(one, "pid", None)))

    def _tell(self, loader, index):
        dataset, sampler = loader.dataset, getattr(loader, "sampler", None)
        iterable = getattr(loader, "_dataset_kind", 0) == 1
        kind = type(sampler).__name__
        self._emit(
            LOADER,
            framework="torch",
            index=index,
            batch_size=loader.batch_size if type(loader.batch_size) is int else None,
            workers=loader.num_workers,
            shuffle=_shuffles(sampler, kind),
            sampler=kind,
            drop_last=bool(loader.drop_last),
            pin_memory=bool(loader.pin_memory),
            persistent=bool(getattr(loader, "persistent_workers", False)),
            prefetch=getattr(loader, "prefetch_factor", None),
            length=_length(dataset),
            batches=None if iterable else _length(loader),
            dataset=type(dataset).__name__,
            iterable=iterable,
            line=line_of(user_frame()),
            drawn_alike=self._drawn_alike(loader),
        )

    def _drawn_alike(self, loader):
        try:
            return loader.num_workers > 1 and drawn_alike(loader)
        except Exception as error:
            self._failed("torch.worker seeds", error)
            return None


def _shuffles(sampler, kind):
    if kind in ("SequentialSampler", "_InfiniteConstantSampler"):
        return False
    shuffle = getattr(sampler, "shuffle", None)
    return shuffle if type(shuffle) is bool else "Sequential" not in kind


def _length(thing):
    """Length of a plain container or map dataset; of one whose `__len__` is the program's own, as it says."""
    if not hasattr(type(thing), "__len__"):
        return None
    try:
        return len(thing)
    except TypeError:  # an iterable dataset behind a loader
        return None
