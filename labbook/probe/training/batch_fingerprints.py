"""What batches a program sees, in order: fingerprints, labels, and the first samples of each loader.

Knows no framework. A window is one epoch of one loader in one phase; it is written when the epoch ends.
"""

from array import array
from math import log

from ..events.jsonl import Masked
from ..events.protocol import PRINTS

try:
    from _blake2 import blake2b as _blake2b
except ImportError:  # an interpreter without the C module
    from hashlib import blake2b as _blake2b

EPOCHS = 4
"""Epochs of a loader whose batches are told one by one."""

BATCHES = 1000
"""Batches of an epoch that are told one by one; longer lists are cut by the encoder of the journal."""

ROWS = 1000
"""Samples of a loader that are reported, the first 16 of each batch: enough to compare sets of a few batches."""

ROWS_OF_A_BATCH = 16
CLASSES = 200
STILL = 8
"""Columns of one value that are named."""

_MOST_WINDOWS = 64


def fingerprint(numbers, shape=()):
    """16 hex digits for a list of numbers and a shape.

    Cost: 3 microseconds for 128 numbers.
    """
    try:
        data = array("d", numbers).tobytes()
    except (TypeError, OverflowError):
        data = repr(numbers).encode()
    return Masked(_blake2b(data + repr(tuple(shape)).encode(), digest_size=8).hexdigest())


def short_print(numbers):
    """8 hex digits for one sample."""
    try:
        data = array("d", numbers).tobytes()
    except (TypeError, OverflowError):
        data = repr(numbers).encode()
    return Masked(_blake2b(data, digest_size=4).hexdigest())


def histogram(labels):
    """Class -> how often it occurs in a list of whole numbers."""
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return counts


def entropy(counts):
    """Entropy of a histogram, in nats."""
    total = sum(counts.values())
    return -sum(n / total * log(n / total) for n in counts.values()) if total else 0.0


def told_histogram(counts):
    """A histogram as the protocol tells it: its most frequent classes, in order."""
    few = sorted(counts.items(), key=lambda item: -item[1])[:CLASSES]
    return {str(label): count for label, count in sorted(few, key=lambda item: str(item[0]).zfill(12))}


class Batch:
    """What is known of one batch.

    Attributes:
        loader: Index of its loader, `None` when it came from none.
        epoch: Iteration of that loader.
        samples: Length of its first axis.
        print: Its fingerprint, `None` where it was not taken.
        labels: Histogram of its labels, `None` where there are none.
        rows: Prints of its first samples, with labels where known.
        data: The batch itself, only while a dense step needs it.
    """

    __slots__ = ("data", "entry", "epoch", "labels", "loader", "print", "rows", "samples")

    def __init__(self, loader, epoch):
        self.loader = loader
        self.epoch = epoch
        self.samples = 0
        self.print = None
        self.labels = None
        self.rows = ()
        self.data = None
        self.entry = None


class Windows:
    """The windows of one process.

    Args:
        emit: `emit(kind, **fields)` writes an event.
        framework: Its name.

    Attributes:
        evaluated: Batches of loaders that were evaluated since the last one that was trained on, at most two.
    """

    def __init__(self, emit, framework):
        self._emit = emit
        self._framework = framework
        self._open = {}
        self._written = 0
        self._rows = {}
        self._cut = False
        self.evaluated = []

    def cut(self):
        """Takes that not every batch is seen from here on.

        No order of a later epoch of a loader is told then: a part of it would differ from the whole of another.
        """
        if self._cut:
            return
        self._cut = True
        for (loader, _), window in self._open.items():
            if loader is not None and window.epoch:
                window.cut()

    def also_trained(self, samples):
        """The one batch that was just evaluated, where a forward of as many samples trains on it; else `None`.

        A teacher or an older policy is often asked about a batch before the model is trained on it.
        """
        found, self.evaluated = self.evaluated, []
        return found[0] if len(found) == 1 and found[0].samples == samples else None

    def wants(self, loader, epoch):
        """`(whether a batch of this epoch needs a fingerprint, whether rows are wanted)`."""
        if epoch >= EPOCHS:
            return False, False
        window = None
        for key in self._open:
            if key[0] == loader:
                window = self._open[key]
        if window is not None and window.epoch == epoch and len(window.fingerprints) >= BATCHES:
            return False, False
        return True, self._rows.get(loader, 0) < ROWS

    def add(self, batch, phase):
        """Takes a batch, once it is known whether it was trained on or evaluated."""
        if phase != "eval":
            self.evaluated = []
        elif batch.loader is not None and len(self.evaluated) < 2:
            batch.data = None
            self.evaluated.append(batch)
        key = (batch.loader, phase)
        window = self._open.get(key)
        if window is not None and window.epoch != batch.epoch:
            self._write(key, window)
            window = None
        if window is None:
            if len(self._open) >= _MOST_WINDOWS:
                return
            window = self._open[key] = Window(batch.epoch)
            if self._cut and batch.loader is not None and batch.epoch:
                window.cut()
        window.add(batch)
        if batch.rows:
            self._rows[batch.loader] = self._rows.get(batch.loader, 0) + len(batch.rows)

    def count(self, loader, phase, samples):
        """Counts a batch that is not told."""
        window = self._open.get((loader, phase))
        if window is not None:
            window.batches += 1
            window.samples += samples

    def repeated(self, loader, phase):
        """How many batches of the open window had the print of the one before."""
        window = self._open.get((loader, phase))
        return window.repeated if window is not None else 0

    def flush(self):
        """Writes all open windows."""
        for key, window in list(self._open.items()):
            self._write(key, window)

    def _write(self, key, window):
        del self._open[key]
        self._written += 1
        if self._written > 40 and window.epoch > EPOCHS and self._written & (self._written - 1):
            return  # later epochs only now and then: they are counts without prints
        loader, phase = key
        self._emit(PRINTS, framework=self._framework, loader=loader, phase=phase, epoch=window.epoch, **window.told())


class Window:
    """One epoch of one loader."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.batches = 0
        self.samples = 0
        self.repeated = 0
        self.fingerprints = []
        self.labels = []
        self.rows = []
        self.counts = {}
        self._last = None
        self._is_cut = False

    def cut(self):
        """Has no order told, because batches are missing in it."""
        self._is_cut = True
        self.fingerprints, self.labels = [], []

    def add(self, batch):
        """Takes a batch."""
        self.batches += 1
        self.samples += batch.samples
        if batch.print is not None:
            if batch.print == self._last:
                self.repeated += 1
            self._last = batch.print
            if self.epoch < EPOCHS and len(self.fingerprints) < BATCHES and not self._is_cut:
                self.fingerprints.append(batch.print)
                if batch.labels:
                    most = max(batch.labels, key=batch.labels.get)
                    self.labels.append([round(entropy(batch.labels), 4), most])
        if batch.labels and self.epoch < EPOCHS:
            for label, count in batch.labels.items():
                if label in self.counts or len(self.counts) < 4 * CLASSES:
                    self.counts[label] = self.counts.get(label, 0) + count
        if batch.rows and len(self.rows) < ROWS:
            self.rows += batch.rows

    def told(self):
        """Fields of the event."""
        return {
            "batches": self.batches,
            "samples": self.samples,
            "prints": self.fingerprints,
            "repeated": self.repeated,
            "labels": self.labels if len(self.labels) == len(self.fingerprints) else [],
            "rows": self.rows,
            "histogram": told_histogram(self.counts) if self.counts else None,
        }
