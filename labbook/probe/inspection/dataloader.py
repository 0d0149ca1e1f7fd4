"""Watches data loaders: their settings, how long a batch is waited for, and what batches look like.

A framework's `dataloader.py` reads tensors, puts the wrappers in place and lists the settings of a loader.
"""

from weakref import WeakKeyDictionary

from ..events.measurement_kinds import LOADER
from ..training.batch_fingerprints import Batch, fingerprint, histogram, short_print
from ..training.call_site import line_of, user_frame
from ..training.stored_data import compare, is_due, marks_of
from ..training.worker_seeds import has_identical_workers, shared_generator
from ..wrapping import as_import_machinery, leave_out_one_frame, transparent_wrapper
from .nested import tensors_in

MOST_LOADERS = 32
MOST_LABELS = 4096
PRINTED = 128
"""Numbers of a tensor that its fingerprint is computed from."""

ROW = 32
"""Numbers of a sample that its fingerprint is computed from."""

_LEAVES = 8
_MOST_LENGTHS = 8
"""Different numbers of batches that the passes of a loader are counted by."""


class BatchFingerprints:
    """Takes fingerprints of batches."""

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
        batch.targets = [leaf for _, leaf in leaves[1:]]
        first = leaves[0][1]
        shape = first.shape
        batch.samples = shape[0] if shape else 1
        if not wants or not self.without_modes.is_possible():
            return
        with self.without_modes:
            numbers = self._numbers_of(leaves[:4])
            if numbers is None:
                return
            batch.print = fingerprint(numbers, shape)
            labels = self.labels(leaves, batch.samples)
            if labels is not None:
                batch.labels = histogram(labels)
            if rows:
                fingerprints = [short_print(row) for row in self._first_rows(first)]
                batch.rows = [[row, labels[at]] if labels else [row] for at, row in enumerate(fingerprints)]

    def _numbers_of(self, leaves):
        """Numbers of the first tensors, up to the first that is not constant; `None` where none can be read."""
        numbers = None
        for _, leaf in leaves:
            taken = self._numbers(leaf)
            if not taken:
                continue
            numbers = taken if numbers is None else numbers + taken
            if min(taken) != max(taken):
                break
        return numbers

    def labels(self, leaves, samples):
        """The labels among the leaves of a batch, one whole number a sample, as a list; `None` where there are none."""
        raise NotImplementedError

    def _numbers(self, leaf):
        """A sample of the real numbers in a tensor, `None` where they are not at hand."""
        raise NotImplementedError

    def _first_rows(self, first):
        """The first samples of a tensor, each a list of numbers; empty where they are not at hand."""
        raise NotImplementedError


class DataLoaders:
    """The data loaders of one process.

    Args:
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        monitor: Takes the batches; set by the inspector.
        current: Loader and epoch of the batch delivered last; `None` if none was, or the loader is not followed.
    """

    FRAMEWORK = ""

    def __init__(self, fingerprints, emit, failed):
        self.fingerprints = fingerprints
        self.monitor = None
        self._emit = emit
        self._failed = failed
        self.forget()

    def forget(self):
        """Begins anew, in a forked child or a trial: its event file has the loaders that it iterates over."""
        self._loaders = WeakKeyDictionary()
        self._iterators = WeakKeyDictionary()
        self._positions = []
        self.current = None

    def _wrap_iter(self, original):
        begun = self._on_iteration_start

        def iterate(loader):
            iterator = original(loader)
            begun(loader, iterator)
            return iterator

        return transparent_wrapper(as_import_machinery(iterate), original)

    def _wrap_next(self, original):
        without_modes, health_of = self.fingerprints.without_modes, self
        delivered, marks = without_modes.wrap(self._on_batch), without_modes.wrap(self._mark_stored_data)

        def iterate(iterator):
            monitor = health_of.monitor
            if monitor is None:
                return original(iterator)
            stored = marks(iterator)
            began = monitor.clock()
            try:
                data = original(iterator)
            except BaseException as error:  # StopIteration and the program's own, passed on
                leave(error)
                raise
            delivered(iterator, data, began, stored)
            return data

        leave = leave_out_one_frame
        return transparent_wrapper(as_import_machinery(iterate), original)

    def _on_iteration_start(self, loader, iterator):
        try:
            if self.monitor is not None:
                self.monitor.probe.watchdog.begin()
            known = self._loaders.get(loader)
            if known is None:
                if len(self._positions) >= MOST_LOADERS:
                    return
                known = {"loader": len(self._positions), "line": line_of(user_frame()), "epoch": -1, "batch": 0}
                self._loaders[loader] = known
                self._positions.append(known)
                self._describe(loader, known)
            self._count_pass(known)
            known["epoch"] += 1
            known["batch"] = 0
            self._iterators[iterator] = known
        except Exception as error:
            self._failed(self.FRAMEWORK + ".loader", error)

    def _count_pass(self, known):
        """Counts the batches of the pass of a loader that is over now that the next one begins."""
        if known["batch"] and self.monitor is not None:
            passes = self.monitor.loop.facts.setdefault("passes", {}).setdefault(str(known["loader"]), {})
            if len(passes) < _MOST_LENGTHS or str(known["batch"]) in passes:
                passes[str(known["batch"])] = passes.get(str(known["batch"]), 0) + 1

    def _mark_stored_data(self, iterator):
        """Marks of what the data set has stored, where they are compared around this batch; else `None`."""
        try:
            known = self._iterators.get(iterator)
            return marks_of(iterator) if known is not None and is_due(known) else None
        except Exception as error:
            self._failed(self.FRAMEWORK + ".stored data", error)
            return None

    def _on_batch(self, iterator, data, began, stored=None):
        monitor = self.monitor
        try:
            now = monitor.training.moved = monitor.clock()
            waited = now - began
            known = self._iterators.get(iterator)
            if known is not None:
                known["batch"] += 1
                if stored:
                    counts = compare(known, iterator, stored)
                    if counts["changed"]:
                        monitor.loop.facts["stored_data"] = counts
            self.current = known and (known["loader"], known["epoch"])
            followed = monitor.thread is None or monitor.is_followed_thread()
            if followed and (monitor.skipping or known is None):
                monitor.fresh, monitor.windows.evaluated = None, []  # the next forward is of no earlier batch
            if monitor.skipping or known is None or not followed:
                return
            place = known["loader"], known["epoch"]
            batch = Batch(*place)
            wants, rows = monitor.windows.wants(*place)
            self.fingerprints.take(data, batch, wants or monitor.dense, rows)
            if monitor.dense:
                batch.data = data
            monitor.batch(batch, waited)
            monitor.training.overhead_s += monitor.clock() - began - waited
        except Exception as error:
            self._failed(self.FRAMEWORK + ".batch", error)

    def workers(self):
        """Process ids of the workers of the loaders that are being iterated."""
        found = [one for iterator in list(self._iterators) for one in getattr(iterator, "_workers", ())]
        return sorted(pid for one in found if (pid := getattr(one, "pid", None)))

    def positions(self):
        """Where each loader is: epoch and number of its batches; with its own `state_dict()` if it has one and exists.

        That is the `StatefulDataLoader` of torchdata, which Accelerate and Transformers use, too.
        """
        found = {}
        for loader, known in list(self._loaders.items()):
            found[known["loader"]] = position = dict(known)
            try:
                owner = self._owner_ahead(loader)
                if owner is not None:
                    position["batch"] -= 1
                if callable(getattr(loader, "state_dict", None)):
                    position["state"] = (loader if owner is None else owner).state_dict()
            except Exception as error:
                self._failed(self.FRAMEWORK + ".position", error)
        return [found.get(known["loader"], known) for known in self._positions]

    def _owner_ahead(self, loader):
        """What iterates over a loader for the program and has one batch more than it gave away, or `None`."""
        return

    def _describe(self, loader, known):
        """Writes the `loader` event."""
        settings = self._settings(loader)
        others = [one for one in list(self._loaders) if one.dataset is not loader.dataset]
        self._emit(
            LOADER,
            framework=self.FRAMEWORK,
            index=known["loader"],
            **settings,
            alike=sum(self._settings(one) == settings for one in others),
            line=known["line"],
            drawn_alike=self._worker_facts(has_identical_workers, loader),
            generator=self._worker_facts(shared_generator, loader) or None,
        )

    def _settings(self, loader):
        """Fields of the `loader` event that are settings of the loader."""
        raise NotImplementedError

    def _worker_facts(self, judge, loader):
        try:
            return loader.num_workers > 1 and judge(loader)
        except Exception as error:
            self._failed(self.FRAMEWORK + ".worker seeds", error)
            return None


def is_shuffling(sampler, kind):
    """Whether a sampler of this class gives another order in each epoch."""
    if kind in ("SequentialSampler", "_InfiniteConstantSampler"):
        return False
    shuffle = getattr(sampler, "shuffle", None)
    return shuffle if type(shuffle) is bool else "Sequential" not in kind


def share_of(ranks, samples):
    """Fields of the `loader` event of a sampler that gives each of several ranks so many samples."""
    shares = type(ranks) is int and ranks > 1 and type(samples) is int
    return {"share": samples, "ranks": ranks} if shares else {}


def length_of(thing):
    """Length of a plain container or map dataset; of one whose `__len__` is the program's own, as it says."""
    if not hasattr(type(thing), "__len__"):
        return None
    try:
        return len(thing)
    except TypeError:  # an iterable dataset behind a loader
        return None
