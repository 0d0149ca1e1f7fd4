"""Looks at the parameters and gradients of a PyTorch optimizer, before and after one of its steps."""

from weakref import ref

from ..inspection import parameter_stats
from ..inspection.parameter_stats import CHECKED_FOR_STALE, CLEARED, FEW, MOST_FINGERPRINTED, MOST_PARAMETERS
from ..training.batch_fingerprints import fingerprint
from .batched_stats import BatchedStats
from .collectives import has_several_ranks
from .tensor_stats import round_number

SAMPLE = 256
"""Elements of each parameter that are compared before and after a step."""

_RUN = 8
_GRADIENT_SAMPLE = 1024


class ParameterStats(parameter_stats.ParameterStats):
    """The parameters of one process that uses PyTorch, at dense steps."""

    def __init__(self, torch, stats, without_modes, values):
        super().__init__(stats, values)
        self.torch = torch
        self.without_modes = without_modes
        self._batched = BatchedStats(torch)

    def gradients_of(self, optimizer):
        """The gradients in the parameters of an optimizer."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    yield parameter.grad

    def is_zero(self, gradient):
        """Whether a gradient is 0, by a few of its values; false where reading it would wait for a device."""
        if not self.stats.is_plain(gradient) or not gradient.is_cpu:
            return False
        return not self.stats.runs(gradient, CLEARED).any().item()

    def sample_values(self, gradient):
        """A few values of a gradient or parameter; `None` where reading it would wait for a device."""
        if not self.stats.is_plain(gradient) or not gradient.is_cpu:
            return None
        return self.stats.flat(gradient.detach(), FEW).tolist()

    def mark(self, parameter):
        """What changes when the gradient of a parameter is written."""
        gradient = parameter.grad
        return None if gradient is None else (id(gradient), gradient._version)

    def trace(self, parameter):
        """`(place, mark, value)` of a parameter: where its gradient is largest, and what an update changes.

        `value` is `None` where reading it would wait for a device.
        """
        gradient, mark = parameter.grad, (parameter._version, parameter.data_ptr())
        if not self.stats.is_plain(parameter) or not parameter.is_cpu:
            return 0, mark, None
        known = gradient is not None and self.stats.is_plain(gradient) and gradient.numel()
        with self.without_modes:
            place = int(gradient.detach().abs().reshape(-1).argmax()) if known else 0
            return place, mark, parameter.detach().reshape(-1)[place].item() if parameter.numel() else 0.0

    def has_changed(self, parameter, place, mark, value):
        """Whether a parameter was written since `trace`."""
        if (parameter._version, parameter.data_ptr()) != mark:
            return True
        if value is None or not parameter.numel():
            return False
        with self.without_modes:
            return parameter.detach().reshape(-1)[place].item() != value

    def clear(self):
        """Forgets what was kept of a step."""
        super().clear()
        self._scale_of_closure = None

    def inspect_gradients(self, optimizer, table, closure):
        """Looks at gradients, and keeps a sample of the parameters.

        Args:
            table: id of a parameter -> its number in the model.
            closure: Whether gradients are only computed inside the step; they are looked at after it, where they stay.
        """
        self.clear()
        if not self.without_modes.is_possible():
            return
        held = []
        for group in optimizer.param_groups:
            rate = group.get("lr")
            moves = type(rate) is not float or rate > 0
            held += [(p, moves) for p in group["params"] if self.stats.is_plain(p) and p.numel()]
        held = held[:MOST_PARAMETERS]
        scale = self._scale(optimizer)
        with self.without_modes:
            self._params = [p for p, _ in held]
            self._gradient_fields = [{"i": table.get(id(p)), "w": None, "g": None} for p in self._params]
            if not closure:
                self._gradients(scale)
            elif not any(group.get("nesterov") for group in optimizer.param_groups):
                # Momentum of Nesterov is added to the gradients in place.
                self._scale_of_closure = scale
            self._before = self._sample()
            self._live = [
                at
                for at, (p, moves) in enumerate(held)
                if moves and (closure or (self._gradient_fields[at].get("g") or 0.0) > 0.0)
            ]

    def _scale(self, optimizer):
        """What a fused optimizer's gradients still carry."""
        scale = getattr(optimizer, "grad_scale", None)
        return float(scale.item()) if scale is not None and hasattr(scale, "item") else 1.0

    def _gradients(self, scale):
        """Fills in what is recorded of the gradients."""
        seen = []
        for fields, parameter in zip(self._gradient_fields, self._params):
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient.layout is self.torch.sparse_coo and not gradient.is_quantized:
                gradient = gradient.coalesce().values()
            if self.stats.is_plain(gradient) and gradient.numel():
                seen.append((fields, self.stats.real_part(gradient.detach())))
        norms = self._norms([gradient for _, gradient in seen])
        samples = {}
        for (fields, gradient), norm in zip(seen, norms):
            sample = self.stats.runs(gradient, _GRADIENT_SAMPLE, _RUN)
            if sample.dtype not in (self.torch.float32, self.torch.float64):
                sample = sample.to(self.torch.float32)
            fields["g"] = round_number(norm / scale)
            if norm - norm != 0.0:
                fields["g_bad"] = gradient.numel() - int(self.torch.isfinite(gradient).sum().item())
                fields["g_zero"] = round_number((gradient == 0).sum().item() / gradient.numel())
            samples.setdefault((sample.numel(), sample.dtype, sample.device), []).append((fields, sample))
        for held in samples.values():
            for fields, _, _, nonzero in self._batched.queue_sample_stats([sample for _, sample in held], held):
                fields.setdefault("g_zero", round_number(1.0 - nonzero))  # the sign of NaN is 0

    def _norms(self, tensors):
        """The 2-norm of each of these tensors of real numbers, in single precision or better; all at once."""
        torch = self.torch
        kinds = {(tensor.dtype, tensor.device) for tensor in tensors}
        if len(kinds) == 1 and next(iter(kinds))[0] in (torch.float32, torch.float64):
            return torch.stack(torch._foreach_norm(tensors, 2)).tolist()
        norm = torch.linalg.vector_norm
        return [norm(t, 2, dtype=torch.float32 if t.element_size() < 4 else None).item() for t in tensors]

    def _sample(self):
        """A sample of every parameter, one after another, in as many digits as the widest has."""
        # Evenly strided: runs would meet few rows of a table, and a step may change few rows of it.
        parts = [self.stats.flat(self.stats.real_part(p), SAMPLE) for p in self._params]
        if not parts:
            return None
        self._lengths = [part.numel() for part in parts]
        if len({(part.dtype, part.device) for part in parts}) > 1:
            parts = [part.to("cpu", self.torch.float64) for part in parts]
        return self.torch.cat(parts)

    def inspect_parameters(self):
        """Looks at the parameters that the step has changed.

        Returns:
            `(params, unchanged)`: what is recorded of each, and whether every element of the sample is bitwise as
            before,
            `None` where there was nothing to change.
        """
        if self._before is None or not self.without_modes.is_possible():
            return self._gradient_fields, None
        with self.without_modes:
            before, after = self._before, self._sample()
            if after is None or after.numel() != before.numel():
                return self._gradient_fields, None
            wide = self.torch.float64 if before.dtype is self.torch.float64 else self.torch.float32
            moved = (after.to(wide) - before.to(wide)).split(self._lengths)
            old = before.to(wide).split(self._lengths)
            norms = self.torch._foreach_norm(list(moved) + list(old), 2)
            norms = self.torch.stack([norm.to(norms[0].dtype) for norm in norms]).tolist()
            self._weights()
            if self._scale_of_closure is not None:
                self._gradients(self._scale_of_closure)
            count = len(self._params)
            for at in range(count):
                fields = self._gradient_fields[at]
                fields["ratio"] = round_number(norms[at] / norms[count + at]) if norms[count + at] else None
            self._add_moved(before, after)
            unchanged = self._unchanged(before, after)
            self._after = after
            return self._gradient_fields, unchanged

    def _weights(self):
        values = [self.stats.real_part(parameter.detach()) for parameter in self._params]
        numbers = [value for value in values if value.is_floating_point()]
        norms = iter(self._norms(numbers))
        for fields, value in zip(self._gradient_fields, values):
            norm = next(norms) if value.is_floating_point() else None
            fields["w"] = round_number(norm) if norm is not None else None
            fields["bad"] = 0
            if norm is not None and norm - norm != 0.0:
                fields["bad"] = value.numel() - int(self.torch.isfinite(value).sum().item())

    def _add_moved(self, before, after):
        """Fills in which share of the sample of weights of low precision a step has changed."""
        parts = zip(self._gradient_fields, self._params, before.split(self._lengths), after.split(self._lengths))
        for fields, parameter, was, now in parts:
            if parameter.dtype in (self.torch.bfloat16, self.torch.float16):
                fields["moved"] = self.torch.count_nonzero(was != now).item() / len(was)

    def _unchanged(self, before, after):
        if not self._live:
            return None
        was, now = before.split(self._lengths), after.split(self._lengths)
        return all(self.torch.equal(was[at], now[at]) for at in self._live)

    def print_of_all(self):
        """A fingerprint of the sample after the step; distributed runs only, else `None`."""
        if self._before is None or not has_several_ranks(self.torch):
            return None
        sample = self._after
        return fingerprint(sample[:: max(1, sample.numel() // MOST_FINGERPRINTED)].tolist(), (sample.numel(),))

    def _some_gradients(self, optimizer, scratch):
        held = scratch.get("few")
        groups = optimizer.param_groups
        key = (len(groups), len(groups[0]["params"]), len(groups[-1]["params"]))
        if held is None or scratch["few_of"] != key:
            every_one = [p for group in groups for p in group["params"]]
            # Weakly: a model that is released is freed although its optimizer's meter is kept.
            held = scratch["few"] = [ref(p) for p in every_one[:: max(1, len(every_one) // CHECKED_FOR_STALE)]]
            scratch["few_of"] = key
        return [g for one in held if (p := one()) is not None and (g := p.grad) is not None]

    def _can_read(self, gradient, every):
        return (every or gradient.is_cpu) and self.without_modes.is_possible()


def has_gradient(optimizer):
    """Whether any parameter of an optimizer has a gradient."""
    return any(p.grad is not None for group in optimizer.param_groups for p in group["params"])


def gradient_version(optimizer):
    """A mark that changes when a gradient of an optimizer is written; looks at two of them."""
    marks = []
    for group in (optimizer.param_groups[0], optimizer.param_groups[-1]):
        if group["params"]:
            gradient = group["params"][-1].grad
            marks.append(None if gradient is None else (id(gradient), gradient._version))
    return marks
