"""Records the batches of a program in order: fingerprints, labels, and the first samples of each loader.

Independent of the framework. A window is one epoch of one loader in one phase; it is written when the epoch ends.
"""

from array import array
from math import log

from ..events.jsonl import MaskedString
from ..events.measurement_kinds import PRINTS

try:
    from _blake2 import blake2b as _blake2b
except ImportError:  # an interpreter without the C module
    from hashlib import blake2b as _blake2b

EPOCHS = 4
"""Epochs of a loader whose batches are recorded individually."""

BATCHES = 1000
"""Batches of an epoch that are recorded individually; the encoder of the journal cuts longer lists."""

ROWS = 1000
"""Recorded samples per loader, the first 16 of each batch: enough to compare sets of a few batches."""

ROWS_OF_A_BATCH = 16
CLASSES = 200
STILL = 8
"""Maximum number of constant columns that are listed."""

_MOST_WINDOWS = 64
_MOSTLY = 0.75
"""Share of the batches of an epoch that have its batch size. Source: chosen by us."""


def fingerprint(numbers, shape=()):
    """Return a fingerprint of 16 hex digits of a list of numbers and a shape.

    Cost: 3 microseconds for 128 numbers.
    """
    try:
        data = array("d", numbers).tobytes()
    except (TypeError, OverflowError):
        data = repr(numbers).encode()
    return MaskedString(_blake2b(data + repr(tuple(shape)).encode(), digest_size=8).hexdigest())


def short_print(numbers):
    """Return a fingerprint of 8 hex digits of one sample."""
    try:
        data = array("d", numbers).tobytes()
    except (TypeError, OverflowError):
        data = repr(numbers).encode()
    return MaskedString(_blake2b(data, digest_size=4).hexdigest())


def histogram(labels):
    """Return class -> count for a list of integers."""
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return counts


def entropy(counts):
    """Return the entropy of a histogram, in nats."""
    total = sum(counts.values())
    return -sum(n / total * log(n / total) for n in counts.values()) if total else 0.0


def histogram_fields(counts):
    """Return a histogram in the form of the protocol: its most frequent classes, in order."""
    few = sorted(counts.items(), key=lambda item: -item[1])[:CLASSES]
    return {str(label): count for label, count in sorted(few, key=lambda item: str(item[0]).zfill(12))}


class Batch:
    """Facts about one batch.

    Attributes:
        loader: Index of its loader, or `None`.
        epoch: Iteration of that loader.
        samples: Length of the first axis.
        print: Its fingerprint, `None` if it was not computed.
        labels: Histogram of its labels, or `None`.
        rows: Fingerprints of its first samples, with labels if known.
        data: The batch, only while a dense step needs it.
        targets: Tensors of it that may be labels, only until the forward begins.
    """

    __slots__ = ("data", "entry", "epoch", "labels", "loader", "print", "rows", "samples", "targets")

    def __init__(self, loader, epoch):
        self.loader = loader
        self.epoch = epoch
        self.samples = 0
        self.print = None
        self.labels = None
        self.rows = ()
        self.data = None
        self.targets = ()
        self.entry = None


class Windows:
    """The windows of one process.

    Attributes:
        evaluated: Batches of loaders that were evaluated since the last training batch, at most two.
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
        """Note that not every batch is observed from now on.

        The order of later epochs is then not recorded: a part of an epoch cannot be compared with a whole one.
        """
        if self._cut:
            return
        self._cut = True
        for (loader, _), window in self._open.items():
            if loader is not None and window.epoch:
                window.cut()

    def trained_counterpart(self, samples):
        """Return the batch just evaluated if a training forward has as many samples; else `None`.

        A teacher or an older policy is often evaluated on a batch before the model is trained on it.
        """
        found, self.evaluated = self.evaluated, []
        return found[0] if len(found) == 1 and found[0].samples == samples else None

    def wants(self, loader, epoch):
        """Return whether a batch of this epoch needs a fingerprint, and whether it needs rows."""
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
        """Add a batch, once it is known whether it was trained on or evaluated."""
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
        """Count a batch that is not recorded."""
        window = self._open.get((loader, phase))
        if window is not None:
            window.batches += 1
            window.samples += samples

    def flush(self):
        """Write all open windows."""
        for key, window in list(self._open.items()):
            self._write(key, window)

    def _write(self, key, window):
        del self._open[key]
        self._written += 1
        if self._written > 40 and window.epoch > EPOCHS and self._written & (self._written - 1):
            return  # later epochs are recorded rarely, as counts without fingerprints
        loader, phase = key
        if loader is None and phase == "train":
            window.drop_larger()
        self._emit(
            PRINTS, framework=self._framework, loader=loader, phase=phase, epoch=window.epoch, **window.window_fields()
        )


class Window:
    """One epoch of one loader."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.batches = 0
        self.samples = 0
        self.repeated = 0
        self.fingerprints = []
        self.labels = []
        self.sizes = []
        self.rows = []
        self.counts = {}
        self._last = None
        self._is_cut = False

    def cut(self):
        """Do not record the order, because batches are missing."""
        self._is_cut = True
        self.fingerprints, self.labels, self.sizes = [], [], []

    def drop_larger(self):
        """Leave out batches that are larger than nearly all others.

        They are evaluations in training mode, as `(model(X) == y).mean()` over all data: no batch is cut from them.
        """
        size = max(set(self.sizes), key=self.sizes.count, default=0)
        if self.sizes.count(size) < _MOSTLY * len(self.sizes) or len(self.labels) not in (0, len(self.sizes)):
            return
        kept = [at for at, samples in enumerate(self.sizes) if samples <= size]
        self.fingerprints = [self.fingerprints[at] for at in kept]
        self.labels = [self.labels[at] for at in kept if self.labels]

    def add(self, batch):
        """Processes a batch."""
        self.batches += 1
        self.samples += batch.samples
        if batch.print is not None:
            if batch.print == self._last:
                self.repeated += 1
            self._last = batch.print
            if self.epoch < EPOCHS and len(self.fingerprints) < BATCHES and not self._is_cut:
                self.fingerprints.append(batch.print)
                self.sizes.append(batch.samples)
                if batch.labels:
                    most = max(batch.labels, key=batch.labels.get)
                    self.labels.append([round(entropy(batch.labels), 4), most])
        if batch.labels and self.epoch < EPOCHS:
            for label, count in batch.labels.items():
                if label in self.counts or len(self.counts) < 4 * CLASSES:
                    self.counts[label] = self.counts.get(label, 0) + count
        if batch.rows and len(self.rows) < ROWS:
            self.rows += batch.rows

    def window_fields(self):
        """Return the fields of the event."""
        return {
            "batches": self.batches,
            "samples": self.samples,
            "prints": self.fingerprints,
            "repeated": self.repeated,
            "labels": self.labels if len(self.labels) == len(self.fingerprints) else [],
            "rows": self.rows,
            "histogram": histogram_fields(self.counts) if self.counts else None,
        }
