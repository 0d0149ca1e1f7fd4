"""Looks at the batch of a dense step: inputs of the model, labels, and columns that never vary.

A framework's `model_inputs.py` reads the tensors.
"""

import math

from ..events.measurement_kinds import BATCH
from ..training.batch_fingerprints import STILL, histogram_fields
from .missing_marks import COLUMNS as MARKED_COLUMNS
from .missing_marks import ROWS as MARKED_ROWS
from .missing_marks import marked_columns
from .nested import tensors_in
from .row_scaling import are_rows_scaled
from .sequence_offsets import SHORTEST, describe_tokens, padded_share, series_ahead, tokens_ahead

MOST_LEAVES = 16
COLUMNS = 4096
"""Columns of a table that are checked for constant ones."""

TABLE_ROWS = 512
TABLE_COLUMNS = 1024
"""Rows and columns of a table that are compared with the target."""

TOKENS = 1 << 15
"""Tokens of a batch of sequences that are compared with the target."""

HIDDEN = -1e4
"""What is added to the score of a position that an attention hides, at most."""

_MOST_SEQUENCES = 4
_MOST_FEATURES = 8

_MOST_CLASSES = 50
_FEWEST_COLUMNS = 3
_FREE_ROWS = 8
"""Rows beyond one a class: with fewer, a column is constant within the classes by chance."""

_EXPLAINED = 1 - 1e-6

PLANES = (4, 8, 512)
"""Samples, channels and positions of pictures and signals that are compared with a target of the same form."""

_FEWEST_POSITIONS = 8
_DIFFERENT = 1e-3

CHANNELS = 16
"""Channels of an image whose mean and standard deviation are computed."""

FEW_IMAGES, SHORTEST_ROW = 16, 12
"""Colour images of which neighbours are compared, and the width that they have at least."""


class ModelInputs:
    """The batches of one process, at dense steps.

    A framework implements `leaf(path, leaf, role, model)`, `_column_ranges(values)`, `_merge_ranges(known, low, high)`,
    `_equal_columns(low, high)`, `_histogram(target)` and `_as_doubles(values)`: a copy of the first `TABLE_ROWS` rows
    in double precision, in host memory, as `_target_doubles(target)` of a target of one axis (`None`: not at hand), and
    `_planes(values)`: at most `PLANES` of (samples, channels, positions).
    """

    FRAMEWORK = ""

    def __init__(self, stats, without_modes, emit):
        self.stats = stats
        self.without_modes = without_modes
        self.emit = emit
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self._batch = None
        self._columns = {}
        self._pad = None
        self._table = None
        self._telling = {}
        self._sequences = []
        self._pictures = []

    def inspect(self, root, args, kwargs, batch):
        """Looks at the batch of a dense forward; the labels come with the loss.

        Of several in a step it is the first with most samples: a policy acts on one state before it is trained.
        """
        if not self.without_modes.is_possible() or not self._has_more_samples(args, kwargs):
            return
        with self.without_modes:
            self._batch = self._fields(root, args, kwargs, batch)

    def _has_more_samples(self, args, kwargs):
        if self._batch is None:
            return True
        inputs = tensors_in(args, self.stats, MOST_LEAVES) + tensors_in(kwargs, self.stats, MOST_LEAVES)
        known = self._batch["samples"]
        return known is not None and next((leaf.shape[0] for _, leaf in inputs if leaf.shape), 0) > known

    def write_event(self, step, losses):
        """Writes the event; `losses` know the target."""
        fields, self._batch = self._batch, None
        target, losses.target = losses.target, None
        if fields is None:
            return
        if target is not None and self.without_modes.is_possible():
            with self.without_modes:
                self._add_target(fields, target)
        self.emit(BATCH, framework=self.FRAMEWORK, step=step, **fields)

    def leaf(self, path, leaf, role, model):
        """Fields of one tensor of a batch.

        Args:
            path: Where it is in the batch.
            leaf: The tensor.
            role: "input", "label" or "other".
            model: Number of the model that was given it.
        """
        raise NotImplementedError

    def _fields(self, root, args, kwargs, batch):
        self._table = None
        inputs = tensors_in(args, self.stats, MOST_LEAVES) + tensors_in(kwargs, self.stats, MOST_LEAVES)
        given = [(path, leaf) for path, leaf in inputs if self._is_input(leaf)]
        leaves = [self.leaf(path, leaf, "input", root.index) for path, leaf in given[:MOST_LEAVES]]
        self._sequences = self._keep_sequences(given, leaves)
        self._pictures = self._keep_pictures(given, leaves)
        firsts = [leaf.shape[0] for _, leaf in inputs if leaf.shape]
        if batch is not None and batch.data is not None:
            delivered = tensors_in(batch.data, self.stats, MOST_LEAVES)
            firsts += [leaf.shape[0] for _, leaf in delivered if leaf.shape]
            batch.data = None
        return {
            "phase": "train",
            "loader": batch.loader if batch is not None else None,
            # What a loader returns may become tensors later, as tables of fastai do.
            "samples": (batch.samples if batch is not None else 0) or next(iter(firsts), None),
            "print": batch.print if batch is not None else None,
            "leaves": leaves,
            "labels": {"histogram": histogram_fields(batch.labels)} if batch is not None and batch.labels else None,
            "dims_equal": len(set(firsts)) < 2,
        }

    def _is_input(self, leaf):
        """Whether a tensor that a model was given is an input of the training, not computed by another model."""
        return True

    def _tokens(self, rows, role):
        tokens = describe_tokens(rows, self._pad)
        if role == "input" and tokens["pad"] is not None:
            self._pad = tokens["pad"]
        return tokens

    def _constant(self, values, key):
        """How many columns had one value in all batches so far, the first of them, and how many samples these held."""
        low, high = self._column_ranges(values)
        samples, known = values.shape[0], self._columns.get(key)
        merged = self._merge_ranges(known, low, high) if known is not None and known[0].shape == low.shape else None
        if merged is not None:
            low, high = merged
            samples += known[2]
        self._columns[key] = (low, high, samples)
        still = self._equal_columns(low, high)
        return len(still), still[:STILL], samples

    def _keep_table(self, values, fields, key, last=False):
        """Keeps the first table of a batch until the target of the loss is known.

        Args:
            values: Rows by columns.
            fields: Of the tensor in the event.
            key: Number of the model, and where the tensor is in its arguments.
            last: Whether these are the last steps of sequences, of which only a value that is the target itself counts.
        """
        if self._table is None and (1 if last else _FEWEST_COLUMNS) <= values.shape[1] <= TABLE_COLUMNS:
            self._table = (self._as_doubles(values), values.shape[0], fields, key, last)

    def _keep_sequences(self, given, leaves):
        """`(values, shape, fields)` of the first inputs that are sequences, of whole numbers or of real features."""
        found = []
        for (_, leaf), fields in zip(given, leaves):
            shape = tuple(leaf.shape)
            # Sequences of different lengths in one nested tensor have no number of steps.
            is_known = all(type(size) is int for size in shape)
            is_series = is_known and not fields["integer"] and len(shape) == 3 and shape[2] <= _MOST_FEATURES
            if (is_series or (fields["integer"] and len(shape) == 2)) and 0 < math.prod(shape) <= TOKENS:
                tokens = self.stats.numbers(leaf, TOKENS) if len(found) < _MOST_SEQUENCES else None
                if tokens is not None:
                    found.append((tokens, shape, fields))
                    if not is_series:
                        fields["padded"] = padded_share(tokens, shape)
        return found

    def is_padding_all(self, shape, hidden):
        """Whether an attention mask leaves exactly the padding of the batch: positions of one token, and none else.

        Args:
            shape: Of the mask over keys: samples, positions.
            hidden: Whether each position is hidden, in order; a list.

        Returns:
            `None` where the batch holds no tokens of that shape.
        """
        samples, columns = shape
        tokens = self._tokens_of((samples, columns))
        if columns > 1 and not any(hidden[::columns]):
            # A class token in front of the others, or a position that is left so that no sample is hidden as a whole.
            known = [token for at, token in enumerate(tokens or ()) if at % columns]
            tokens = known or self._tokens_of((samples, columns - 1))
            hidden = [is_hidden for at, is_hidden in enumerate(hidden) if at % columns]
            columns -= 1
        if tokens is None:
            return None
        seen, rest, counts = set(), set(), set()
        for at in range(0, len(hidden), columns):
            row = hidden[at : at + columns]
            counts.add(sum(row))
            for token, is_hidden in zip(tokens[at : at + columns], row):
                # Where -1e9 hides all of a sample its weights are even, and none is 0.
                (rest if is_hidden or not any(row) else seen).add(token)
        return len(seen) == 1 and len(rest) >= SHORTEST and len(counts) > 1 and not seen & rest

    def tokens_of_sample(self, length):
        """The tokens of the first sample at each of so many positions, `None` where one is put in front of them."""
        whole = ((tokens, shape) for tokens, shape, _ in self._sequences if len(shape) == 2)
        found = (tokens[:size] for tokens, (_, size) in whole if size in (length, length - 1))
        tokens = next(found, None)
        return [None] * (length - len(tokens)) + tokens if tokens else None

    def _tokens_of(self, shape):
        """The tokens of the batch in that shape, `None` where it holds none."""
        return next((tokens for tokens, known, _ in self._sequences if known == shape), None)

    def _compare_sequences(self, target):
        """Adds to the fields of the kept sequences by how many tokens the target is ahead of them."""
        kept, self._sequences = self._sequences, []
        length = math.prod(target.shape)
        kinds = [len(shape) == (2 if "int" in self.stats.dtype(target) else 3) for _, shape, _ in kept]
        wanted = self.stats.numbers(target, TOKENS) if any(kinds) and 0 < length <= TOKENS else None
        for (tokens, shape, fields), is_kind in zip(kept, kinds):
            if is_kind and wanted is not None:
                fields["ahead"] = (tokens_ahead if len(shape) == 2 else series_ahead)(tokens, shape, wanted)

    def _keep_pictures(self, given, leaves):
        """`(planes, form, fields)` of the first inputs that have channels and positions."""
        kept = []
        for (_, leaf), fields in zip(given, leaves):
            if len(leaf.shape) >= 3 and not fields["integer"] and len(kept) < _MOST_SEQUENCES:
                kept.append((self._planes(leaf), (leaf.shape[0], *leaf.shape[2:]), fields))
        return [one for one in kept if one[0] is not None]

    def _compare_pictures(self, target):
        """Adds to the fields of the first picture whether each target is a mixture of the channels of its inputs."""
        kept, self._pictures = self._pictures, []
        form = (target.shape[0], *target.shape[2:]) if len(target.shape) >= 3 else None
        kept = [one for one in kept if one[1] == form]
        wanted = self._planes(target) if kept else None
        if wanted is not None:
            kept[0][2]["mixed"] = is_mixture([planes for planes, _, _ in kept], wanted)

    def _compare_with_target(self, target):
        """Adds to the fields of the kept table which of its columns gave the target away in all batches so far."""
        kept, self._table = self._table, None
        sizes = [n for n in target.shape if n != 1]
        if kept is not None and not kept[4]:
            rows = kept[0][:MARKED_ROWS, :MARKED_COLUMNS].tolist()
            kept[2]["marked"] = marked_columns(rows)[:STILL]
            kept[2]["rows_scaled"] = kept[0].shape[1] <= MARKED_COLUMNS and are_rows_scaled(rows)
        if kept is None or sizes != [kept[1]]:
            return
        table, _, fields, key, last = kept
        values, find = self._target_doubles(target), find_target_columns if last else telling_columns
        telling = find(table, values) if values is not None else None
        if telling is None:
            return
        before, samples = self._telling.get(key, (telling, 0))
        both = [column for column in telling if column in set(before)]
        self._telling[key] = (both, samples + len(values))
        fields["telling"], fields["telling_n"] = both[:STILL], samples + len(values)

    def _add_target(self, fields, target):
        """Adds the target of the loss, a tensor, to `fields`, which are from `_fields`."""
        fields["leaves"] = [*fields["leaves"], self.leaf("target", target, "label", None)][: MOST_LEAVES + 1]
        self._compare_with_target(target)
        self._compare_sequences(target)
        self._compare_pictures(target)
        if fields["labels"] is None:
            counts = self._histogram(target)
            fields["labels"] = {"histogram": histogram_fields(counts)} if counts is not None else None
        if len(target.shape) == 1 and fields["samples"]:
            fields["dims_equal"] = fields["dims_equal"] and target.shape[0] % fields["samples"] == 0

    def _histogram(self, target):
        """How often each class is in the target of a loss; `None` where it has no classes."""
        raise NotImplementedError

    def _planes(self, values):
        """A copy in double precision of a part of floats, at most `PLANES`; `None` where they are not at hand."""
        raise NotImplementedError


def may_be_tokens(fields):
    """Whether a tensor of a batch has the form of sequences of ids; a mask has not."""
    is_whole = fields["integer"] and "bool" not in fields["dtype"]
    return is_whole and fields["role"] != "label" and len(fields["shape"]) == 2


def noise_row(shape):
    """Fields of normal random numbers that a forward drew, among those of the functions that it called."""
    return {"fn": "noise", "line": "", "calls": 1, "training": True, "shape": list(shape)}


def is_mixture(inputs, target):
    """Whether the target of each sample is a weighted sum of several channels, with other weights for each sample.

    A target that is one channel, scaled or not, is a task, as that of an autoencoder; one with the same weights for
    all samples as well, as that of grey from colours.

    Args:
        inputs: Arrays of numpy or tensors of torch in double precision, (samples, channels, positions).
        target: Likewise.
    """
    samples, _, positions = target.shape
    weights = []
    for at in range(samples):
        rows = [row - row.mean() for planes in inputs for row in planes[at]]
        if samples < 2 or not 1 < len(rows) <= PLANES[1] or positions < _FEWEST_POSITIONS * len(rows):
            return False
        products = [[float(a @ b) for b in rows] for a in rows]
        first = None
        for row in target[at]:
            row = row - row.mean()
            total, shared = float(row @ row), [float(row @ a) for a in rows]
            if not total or any(b * b > _EXPLAINED * total * g[i] for i, (b, g) in enumerate(zip(shared, products))):
                return False
            solved = _solve_linear(products, shared)
            if solved is None or sum(a * b for a, b in zip(solved, shared)) < _EXPLAINED * total:
                return False
            first = first or solved
        weights.append(first)
    largest = max(abs(weight) for row in weights for weight in row)
    return any(max(column) - min(column) > _DIFFERENT * largest for column in zip(*weights))


def _solve_linear(rows, wanted):
    """The solution of a few linear equations by elimination, `None` where there is none."""
    table = [[*row, value] for row, value in zip(rows, wanted)]
    for at in range(len(table)):
        pivot = max(range(at, len(table)), key=lambda n: abs(table[n][at]))
        table[at], table[pivot] = table[pivot], table[at]
        if not abs(table[at][at]) > 1e-12 * abs(rows[at][at]):
            return None
        for n, row in enumerate(table):
            if n != at:
                share = row[at] / table[at][at]
                table[n] = [value - share * other for value, other in zip(row, table[at])]
    return [row[-1] / row[at] for at, row in enumerate(table)]


def telling_columns(table, target):
    """Columns of a table that alone determine the target: each class has one value there, or a line fits all.

    Of two classes it is enough that one has a value that the other never has, as of a date that only events have.

    Args:
        table: Numbers, rows by columns, as an array of numpy or a tensor of torch in double precision.
        target: A number a row, likewise; whole numbers with few values are classes.

    Returns:
        Their indices, in order, or `None` where there are too few rows to decide. Tables in which most columns are so
        are tasks made to be solved from any of them: none is listed.
    """
    labels = set(target.tolist())
    classes = len(labels) <= _MOST_CLASSES and all(label.is_integer() for label in labels)
    if len(labels) < 2 or len(target) - (len(labels) if classes else 2) < _FREE_ROWS:
        return None
    table = table - table.mean(0)
    total = (table * table).sum(0)
    if classes:
        parts = [table[target == label] for label in labels]
        explained = sum(part.sum(0) ** 2 / len(part) for part in parts)
        for part, other in (parts, parts[::-1]) if len(parts) == 2 else ():
            if len(part) >= _FREE_ROWS:
                explained = explained + total * ((part == part[0]).all(0) & (other != part[0]).all(0))
    else:
        centred = target - target.mean()
        explained = (table.T @ centred) ** 2 / (centred * centred).sum()
    found = [at for at, tells in enumerate(((explained > _EXPLAINED * total) & (total > 0)).tolist()) if tells]
    return found if len(found) <= table.shape[1] // 2 else []


def find_target_columns(table, target):
    """Columns of a table that are the target itself, `None` where there are too few rows to decide; see above."""
    if len(set(target.tolist())) < _FREE_ROWS:
        return None
    return [at for at in range(table.shape[1]) if bool((table[:, at] == target).all())]
