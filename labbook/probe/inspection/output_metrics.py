"""Computes metrics of validation passes from the outputs of the model and the labels of its batches.

Each is computed in the usual way over all samples, and in ways that are common mistakes: of the last batch alone, as a
mean over batches of different sizes, with logits compared with 0.5. A check looks for these in what the program logs.
"""

from collections import Counter
from math import prod

MOST_ELEMENTS = 1 << 17
MOST_PAIRS = 1 << 12
"""Labels of a batch up to which pairs of predicted and right class are counted, for F1."""

MOST_CLASSES = 32
MOST_PASSES = 8


def compare(outputs, labels, array, ignored=None):
    """Return counts and sums of one batch by name; `None` if the labels do not belong to these outputs.

    Args:
        outputs: A tensor of the model.
        labels: Tensors that may be its labels; exactly one has to fit.
        array: `array(tensor)`: its values as an array of NumPy or a tensor without a graph, `None` if not at hand.
        ignored: Label that the loss leaves out; those that are no class are left out in any case.
    """
    shape = tuple(outputs.shape)
    if len(shape) < 1 or not 0 < prod(shape) <= MOST_ELEMENTS:
        return None
    found = [(one, axis) for one in labels for axis in _axes(shape, _without_last(tuple(one.shape)))]
    if len(found) != 1:
        return None
    values, wanted = array(outputs), array(found[0][0])
    if values is None or wanted is None or not _is_real(values):
        return None
    axis = found[0][1]
    if axis is not None:
        return None if _is_real(wanted) else _compare_classes(values, wanted, axis, ignored)
    values, wanted = values.reshape(-1), wanted.reshape(-1)
    if bool(((wanted == 0) | (wanted == 1)).all()):
        return _compare_flags(values, wanted == 1)
    return _compare_numbers(values, wanted)


def _without_last(shape):
    """A shape without a last axis of length 1: labels of (N, 1) are those of (N,)."""
    return shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape


def _axes(shape, labels):
    """The axes of outputs that may be their classes, `None` for one output a label."""
    if _without_last(shape) == labels:
        return [None]
    if len(shape) != len(labels) + 1 or not labels:
        return []
    return [axis for axis in {1, len(shape) - 1} if shape[axis] > 1 and shape[:axis] + shape[axis + 1 :] == labels]


def _is_real(array):
    return "float" in str(array.dtype)


def _compare_classes(values, wanted, axis, ignored):
    classes, best = values.shape[axis], values.argmax(axis).reshape(-1)
    wanted = wanted.reshape(-1)
    n = prod(best.shape)
    if classes <= MOST_CLASSES and n <= MOST_PAIRS:
        pairs = Counter(zip(best.tolist(), wanted.tolist()))
        kept = {pair: count for pair, count in pairs.items() if 0 <= pair[1] < classes and pair[1] != ignored}
        row = {"right": _equal_pairs(kept), "n": sum(kept.values()), "all_right": _equal_pairs(pairs), "all_n": n}
        return dict(row, pairs=Counter(kept), classes=classes)
    kept, equal = (wanted >= 0) & (wanted < classes), best == wanted
    if ignored is not None:
        kept = kept & (wanted != ignored)
    return {"right": int((equal & kept).sum()), "n": int(kept.sum()), "all_right": int(equal.sum()), "all_n": n}


def _equal_pairs(pairs):
    return sum(count for (best, wanted), count in pairs.items() if best == wanted)


def _compare_flags(values, wanted):
    """Of one output a sample: a probability, or a logit where one is outside of 0 to 1."""
    high, n = values > 0.5, prod(wanted.shape)
    row = {"n": n, "all_n": n, "high": int((high == wanted).sum()), "positive": int(((values > 0) == wanted).sum())}
    row["least"], row["most"] = float(values.min()), float(values.max())
    for name, chosen in (("high", high), ("positive", values > 0)):
        hits = int((chosen & wanted).sum())
        row[name + "_hits"], row[name + "_sum"] = hits, int(chosen.sum()) + int(wanted.sum())
    return row


def _compare_numbers(values, wanted):
    values, wanted = values * 1.0, wanted * 1.0  # whole numbers have no mean
    n, off = prod(wanted.shape), values - wanted
    a, b = float(values.mean()), float(wanted.mean())
    spread = float(((values - a) ** 2).mean()) + float(((wanted - b) ** 2).mean())
    row = {"n": n, "squares": float((off * off).sum()), "sizes": float(abs(off).sum())}
    row["crossed"] = spread + (a - b) ** 2
    return row


class HeldOutMetrics:
    """The metrics of the passes over held-out data in one evaluation phase.

    Args:
        compare: `compare(output, targets)`: a row as of the function, or `None`.
    """

    def __init__(self, compare):
        self._compare = compare
        self.begin()

    def begin(self):
        """Begin a phase."""
        self._passes, self._forwards, self._place, self._targets, self._is_compared = {}, {}, None, (), False

    def forward(self, place, batch):
        """Take the labels of a batch; `place`: loader and its pass, `None` without a loader."""
        self._place, self._targets, self._is_compared = place, (), False
        self._forwards[place] = self._forwards.get(place, 0) + 1
        if batch is not None:
            self._targets, batch.targets = batch.targets, ()

    def outputs(self, output):
        """Compare the output of the forward with the labels that a loader has given."""
        targets, self._targets = self._targets, ()
        if targets:
            self._add_row(output, targets)

    def pair(self, output, target):
        """Compare what a loss function is given, where the forward was not compared."""
        if not self._is_compared:
            self._add_row(output, [target])

    def _add_row(self, output, targets):
        if self._place not in self._passes and len(self._passes) >= MOST_PASSES:
            return
        row = self._compare(output, targets)
        if row is not None:
            self._is_compared = True
            self._passes.setdefault(self._place, PassMetrics()).rows.append(row)

    def fields(self):
        """Return a row of the event for each pass of which all forwards were compared."""
        return [one.fields(at) for at, one in self._passes.items() if one.is_whole(self._forwards[at])]


class PassMetrics:
    """One pass over a loader in an evaluation; `rows`: what `compare` has returned for its batches."""

    def __init__(self):
        self.rows = []

    def is_whole(self, forwards):
        """Whether all forwards of the pass were compared, and in the same way."""
        kinds = {frozenset(row) for row in self.rows}
        return len(self.rows) == forwards and len(kinds) == 1 and sum(row["n"] for row in self.rows) > 0

    def fields(self, place):
        """Return the fields of a row of the event; `place`: loader and its pass, `None` without a loader."""
        rows, n = self.rows, [row["n"] for row in self.rows]
        loader, epoch = place or (None, None)
        found = {"loader": loader, "epoch": epoch, "batches": len(rows), "n": sum(n)}
        found["values"] = {}
        if "squares" in rows[0]:
            found["values"] = _error_metrics(rows)
            return found
        if "most" in rows[0]:
            is_logit = min(row["least"] for row in rows) < 0 or max(row["most"] for row in rows) > 1
            right, wrong = ("positive", "high") if is_logit else ("high", "positive")
            for row in rows:
                row["right"] = row["all_right"] = row[right]
        found["right"] = sum(row["right"] for row in rows)
        accuracy = found["values"]["accuracy"] = _variants([(row["right"], row["n"]) for row in rows])
        accuracy["ignored"] = sum(row["all_right"] for row in rows) / sum(row["all_n"] for row in rows)
        if "most" in rows[0]:
            accuracy["half" if is_logit else "zero"] = sum(row[wrong] for row in rows) / sum(n)
            found["values"]["f1"] = _variants([(2 * row[right + "_hits"], row[right + "_sum"]) for row in rows])
        elif "pairs" in rows[0]:
            found["values"].update(_class_scores(rows))
        return found


def _variants(parts):
    """A share over all batches, its mean over the batches, and that of the last one; parts: `(part, whole)`."""
    shares = [part / whole if whole else 0.0 for part, whole in parts]
    whole = sum(one for _, one in parts)
    mean = sum(shares) / len(shares)
    return {"all": sum(one for one, _ in parts) / whole if whole else 0.0, "mean": mean, "last": shares[-1]}


def _error_metrics(rows):
    total = sum(row["n"] for row in rows)
    found = {}
    for name, field in (("mse", "squares"), ("mae", "sizes")):
        found[name] = _variants([(row[field], row["n"]) for row in rows])
    crossed = [row["crossed"] for row in rows]
    found["mse"]["crossed"] = sum(c * row["n"] for c, row in zip(crossed, rows)) / total
    roots = [(row["squares"] / row["n"]) ** 0.5 for row in rows]
    found["rmse"] = {"all": found["mse"]["all"] ** 0.5, "mean": sum(roots) / len(roots), "last": roots[-1]}
    found["rmse"]["crossed"] = found["mse"]["crossed"] ** 0.5
    found["rmse"]["squared"], found["mse"]["root"] = found["mse"]["all"], found["rmse"]["all"]
    return found


def _class_scores(rows):
    """F1 of class 1 of two, and the mean over the classes, as scikit-learn has them."""
    parts = [row["pairs"] for row in rows]
    whole = sum(parts, Counter())
    found = {}
    for name, score in (("f1", _f1_of_one), ("macro", _f1_of_all)):
        if name == "macro" or rows[0]["classes"] == 2:
            scores = [score(part) for part in parts]
            found[name] = {"all": score(whole), "mean": sum(scores) / len(scores), "last": scores[-1]}
    return found


def _f1_of_one(pairs, label=1):
    hits = pairs[label, label]
    given = sum(count for (best, wanted), count in pairs.items() for one in (best, wanted) if one == label)
    return 2 * hits / given if given else 0.0


def _f1_of_all(pairs):
    labels = {label for pair in pairs for label in pair}
    return sum(_f1_of_one(pairs, label) for label in labels) / len(labels) if labels else 0.0
