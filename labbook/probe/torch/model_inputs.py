"""Looks at the batches that reach PyTorch models: their inputs, labels, and columns that never vary."""

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
    """The batches of one process that uses PyTorch, at dense steps."""

    FRAMEWORK = "torch"

    def __init__(self, torch, stats, without_modes, emit):
        super().__init__(stats, without_modes, emit)
        self.torch = torch

    def _is_input(self, leaf):
        return leaf.grad_fn is None

    def leaf(self, path, leaf, role, model):
        """Fields of one tensor of a batch."""
        fields = {"path": path, "role": role, "device": str(leaf.device)}
        fields.update(self.stats.inspect(leaf))
        fields["integer"] = not (leaf.is_floating_point() or leaf.is_complex())
        fields["constant"] = None
        if self.stats.is_plain(leaf) and leaf.is_floating_point() and leaf.numel():
            if leaf.dim() == 4 and leaf.shape[1] <= CHANNELS:
                few = leaf.detach()[:: max(1, leaf.numel() >> 20)].to(self.torch.float32)
                variance, mean = self.torch.var_mean(few, (0, 2, 3), correction=0)
                fields["channels"] = [[m, v**0.5] for m, v in zip(mean.tolist(), variance.tolist())]
                if leaf.shape[1] == 3 and leaf.shape[3] >= SHORTEST_ROW:
                    few = few[:FEW_IMAGES]
                    fields["lags"] = [(few[..., n:] - few[..., :-n]).abs().mean().item() for n in (1, 2, 3)]
            elif leaf.dim() == 2 and leaf.shape[1] <= COLUMNS and role == "input":
                fields["constant"], fields["constant_at"], fields["constant_n"] = self._constant(leaf, (model, path))
                self._keep_table(leaf, fields, (model, path))
            elif leaf.dim() == 3 and leaf.shape[1] > 1 and role == "input":
                self._keep_table(leaf[:, -1], fields, (model, path), last=True)
            if leaf.dim() == 3 and leaf.shape[1] >= SHORTEST_SERIES:
                parts = leaf.detach().to(self.torch.float32).tensor_split(PARTS, 1)
                fields["parts"] = [[part.mean().item(), part.std(correction=0).item()] for part in parts]
        elif may_be_tokens(fields) and self.stats.is_plain(leaf) and leaf.numel():
            rows = leaf.detach()[: max(1, MOST_TOKENS // leaf.shape[1])]
            fields["tokens"] = self._tokens(rows[:, :MOST_TOKENS].tolist(), role)
        return fields

    def _column_ranges(self, values):
        return self.torch.aminmax(values.detach(), dim=0)

    def _merge_ranges(self, known, low, high):
        if known[0].device != low.device:
            return None
        return self.torch.minimum(low, known[0]), self.torch.maximum(high, known[1])

    def _as_doubles(self, values):
        return values.detach()[:TABLE_ROWS].cpu().to(self.torch.float64)

    def _target_doubles(self, target):
        return self._as_doubles(target.reshape(-1)) if self.stats.is_plain(target) else None

    def _planes(self, values):
        samples, channels, positions = PLANES
        if not self.stats.is_plain(values) or not values.is_floating_point() or not 0 < values.shape[1] <= channels:
            return None
        rows = values.detach()[:samples].flatten(2)
        return rows[..., :: max(1, rows.shape[2] // positions)][..., :positions].cpu().to(self.torch.float64)

    def _equal_columns(self, low, high):
        return (low == high).nonzero().flatten().tolist()

    def _histogram(self, target):
        whole = not target.is_floating_point() and not target.is_complex()
        if not whole or not self.stats.is_plain(target) or not 0 < target.numel() <= 1 << 20:
            return None
        return histogram([int(label) for label in target.reshape(-1)[:65536].tolist()])
