"""Looks at the parameters and gradients of a PaddlePaddle optimizer, before and after one of its steps."""

import os

from ..inspection import parameter_stats
from ..inspection.parameter_stats import CHECKED_FOR_STALE, CLEARED, FEW, MOST_FINGERPRINTED, MOST_PARAMETERS
from ..training.batch_fingerprints import fingerprint
from . import framework_state

_GRADIENT_SAMPLE = 4096


MARKED = 16
"""Values of a gradient that show whether it was written."""


class ParameterStats(parameter_stats.ParameterStats):
    """The parameters of one process that uses PaddlePaddle, at dense steps."""

    def gradients_of(self, optimizer):
        """The gradients in the parameters of an optimizer."""
        for parameter in framework_state.parameters(optimizer):
            gradient = parameter._grad_ivar()
            if gradient is not None and gradient._is_initialized():
                yield gradient

    def is_zero(self, gradient):
        """Whether a gradient is 0, by a few of its values; false where reading it would wait for a device."""
        view = self.stats.view(gradient) if gradient.place.is_cpu_place() else None
        return view is not None and not view.reshape(-1)[:CLEARED].any()

    def sample_values(self, gradient):
        """A few values of a gradient or parameter; `None` where reading it would wait for a device."""
        view = self.stats.view(gradient) if gradient.place.is_cpu_place() else None
        return None if view is None else self.stats.flat(view, FEW).tolist()

    def mark(self, parameter):
        """What changes when the gradient of a parameter is written: adding to it leaves its memory and its version."""
        gradient = parameter._grad_ivar()
        if gradient is None or not gradient._is_initialized():
            return None
        view = self.stats.view(gradient) if gradient.place.is_cpu_place() else None
        return object() if view is None else view.reshape(-1)[:: 1 + view.size // MARKED].tobytes()

    def trace(self, parameter):
        """`(place, mark, value)` of a parameter: where its gradient is largest, and what an update changes.

        `value` is `None` where reading it would wait for a device.
        """
        gradient = parameter._grad_ivar()
        mark = (parameter.inplace_version, parameter.data_ptr())
        view = self.stats.view(parameter) if parameter.place.is_cpu_place() else None
        if view is None or not view.size:
            return 0, mark, None
        known = gradient is not None and gradient._is_initialized() and gradient.is_dense()
        slope = self.stats.view(gradient) if known else None
        place = int(abs(slope.reshape(-1)).argmax()) if slope is not None and slope.size == view.size else 0
        return place, mark, float(view.reshape(-1)[place])

    def has_changed(self, parameter, place, mark, value):
        """Whether a parameter was written since `trace`."""
        if (parameter.inplace_version, parameter.data_ptr()) != mark:
            return True
        view = self.stats.view(parameter) if value is not None else None
        return view is not None and float(view.reshape(-1)[place]) != value

    def clear(self):
        """Forgets what was kept of a step."""
        super().clear()
        self._after = None
        self._live = []

    def inspect_gradients(self, optimizer, table, closure):
        """Looks at gradients, and keeps a sample of the parameters.

        Args:
            table: id of a parameter -> its number in the model.
            closure: Whether gradients are only computed inside the step; then only the sample is taken.
        """
        self.clear()
        held = [p for p in framework_state.parameters(optimizer) if not p.stop_gradient and p._is_initialized()][
            :MOST_PARAMETERS
        ]
        rate = framework_state.number(optimizer.get_lr())
        self._params = held
        self._gradient_fields = [self._gradient(p, table.get(id(p)), closure) for p in held]
        self._before = [self.stats.copy_sample(p) for p in held]
        if rate is None or rate > 0:
            self._live = [
                at
                for at, fields in enumerate(self._gradient_fields)
                if self._before[at] is not None and (closure or (fields["g"] or 0.0) > 0.0)
            ]

    def _gradient(self, parameter, number, closure):
        fields = {"i": number, "w": None, "g": None}
        gradient = parameter._grad_ivar()
        if closure or gradient is None or not gradient._is_initialized():
            return fields
        norm = self.stats.norm(gradient)
        view = self.stats.view(gradient)
        if norm is None or view is None or not view.size:
            return fields
        row = self.stats.flat(view, _GRADIENT_SAMPLE)
        fields["g"] = norm
        fields.update(self.stats.gradient(row))
        if norm - norm != 0.0:
            fields["g_bad"] = self.stats.bad(view)
        return fields

    def inspect_parameters(self):
        """Looks at the parameters that the step has changed.

        Returns:
            `(params, unchanged)`: what is recorded of each, and whether every element of the sample is bitwise as
            before,
            `None` where there was nothing to change.
        """
        if self._before is None:
            return self._gradient_fields, None
        self._after = [self.stats.copy_sample(p) for p in self._params]
        equal = []
        for at, (was, now) in enumerate(zip(self._before, self._after)):
            fields = self._gradient_fields[at]
            fields["ratio"] = None
            if was is not None and now is not None and was.shape == now.shape and was.dtype == now.dtype:
                fields["ratio"], same = self.stats.change(was, now)
                if at in self._live:
                    equal.append(same)
            fields["w"] = self.stats.norm(self._params[at])
            fields["bad"] = 0
            if fields["w"] is not None and fields["w"] - fields["w"] != 0.0:
                view = self.stats.view(self._params[at])
                fields["bad"] = self.stats.bad(view) if view is not None else 0
        return self._gradient_fields, all(equal) if equal else None

    def print_of_all(self):
        """A fingerprint of the sample after the step; distributed runs only, else `None`."""
        ranks = os.environ.get("PADDLE_TRAINERS_NUM") or os.environ.get("WORLD_SIZE") or "1"
        if self._after is None or not ranks.isdigit() or int(ranks) < 2:
            return None
        row = [number for part in self._after if part is not None for number in part.tolist()]
        return fingerprint(row[:: max(1, len(row) // MOST_FINGERPRINTED)], (len(row),))

    def _some_gradients(self, optimizer, scratch):
        held = framework_state.parameters(optimizer)
        few = held[:: max(1, len(held) // CHECKED_FOR_STALE)]
        return [g for p in few if (g := p._grad_ivar()) is not None and g._is_initialized()]

    def _can_read(self, gradient, every):
        return every or gradient.place.is_cpu_place()


def has_gradient(optimizer):
    """Whether any parameter of an optimizer has a gradient."""
    for one in getattr(optimizer, "_parameter_list", None) or ():
        held = one["params"] if type(one) is dict else (one,)
        for parameter in held:
            if parameter._grad_ivar() is not None:
                return True
    return False


def gradient_version(optimizer):
    """A mark that changes when a gradient of an optimizer is written; looks at two of them."""
    marks = []
    groups = framework_state.parameter_groups(optimizer)
    for group in (groups[0], groups[-1]) if groups else ():
        if group:
            gradient = group[-1]._grad_ivar()
            known = gradient is not None and gradient._is_initialized() and gradient.is_dense()
            marks.append((gradient.data_ptr(), gradient.inplace_version) if known else None)
    return marks
