"""Looks at the batch of a dense step: what a PaddlePaddle model was given, and the labels that its loss was given."""

from ..inspection import model_inputs
from ..inspection.model_inputs import (
    CHANNELS,
    COLUMNS,
    FEW_IMAGES,
    PLANES,
    SHORTEST_ROW,
    TABLE_ROWS,
    may_be_tokens,
)
from ..inspection.sequence_offsets import MOST_TOKENS, PARTS, SHORTEST_SERIES
from ..training.batch_fingerprints import histogram


class ModelInputs(model_inputs.ModelInputs):
    """The batches of one process that uses PaddlePaddle, at dense steps."""

    FRAMEWORK = "paddle"

    def leaf(self, path, leaf, role, model):
        """Fields of one tensor of a batch."""
        fields = {"path": path, "role": role}
        fields.update(self.stats.kind(leaf))
        fields.update(self.stats.inspect(leaf))
        fields["integer"] = not ("float" in fields["dtype"] or "complex" in fields["dtype"])
        fields["constant"] = None
        view = self.stats.whole_view(leaf)
        if view is not None and view.dtype.kind == "f" and view.size:
            if view.ndim == 4 and view.shape[1] <= CHANNELS:
                fields["channels"] = self.stats.channels(view)
                if view.shape[1] == 3 and view.shape[3] >= SHORTEST_ROW:
                    few = view[:FEW_IMAGES].astype("float32")
                    fields["lags"] = [float(abs(few[..., n:] - few[..., :-n]).mean()) for n in (1, 2, 3)]
            elif view.ndim == 2 and view.shape[1] <= COLUMNS and role == "input":
                fields["constant"], fields["constant_at"], fields["constant_n"] = self._constant(view, (model, path))
                self._keep_table(view, fields, (model, path))
            elif view.ndim == 3 and view.shape[1] > 1 and role == "input":
                self._keep_table(view[:, -1], fields, (model, path), last=True)
            if view.ndim == 3 and view.shape[1] >= SHORTEST_SERIES:
                size, long = -(-view.shape[1] // PARTS), view.astype("float64")
                parts = [long[:, at : at + size] for at in range(0, view.shape[1], size)]
                fields["parts"] = [[float(part.mean()), float(part.std())] for part in parts]
        elif view is not None and may_be_tokens(fields) and view.size:
            rows = view[: max(1, MOST_TOKENS // view.shape[1]), :MOST_TOKENS]
            fields["tokens"] = self._tokens(rows.tolist(), role)
        return fields

    def _column_ranges(self, values):
        return self.stats.constant_columns(values)

    def _merge_ranges(self, known, low, high):
        return self.stats.merge_extremes(known, low, high)

    def _as_doubles(self, values):
        return values[:TABLE_ROWS].astype("float64")

    def _target_doubles(self, target):
        view = self.stats.whole_view(target)
        return self._as_doubles(view.reshape(-1)) if view is not None else None

    def _planes(self, values):
        samples, channels, positions = PLANES
        view = self.stats.whole_view(values)
        if view is None or view.dtype.kind != "f" or not 0 < view.shape[1] <= channels or not view.size:
            return None
        rows = view[:samples].reshape(min(samples, view.shape[0]), view.shape[1], -1)
        return rows[..., :: max(1, rows.shape[2] // positions)][..., :positions].astype("float64")

    def _equal_columns(self, low, high):
        return (low == high).nonzero()[0].tolist()

    def _histogram(self, target):
        if "int" not in self.stats.dtype(target) or not 0 < target.size <= 1 << 20:
            return None
        labels = self.stats.numbers(target, 65536)
        return histogram(labels) if labels is not None else None
