"""Looks at what the modules of a PyTorch model return, in one forward."""

from weakref import ref

from ..inspection import module_outputs
from ..inspection.module_outputs import FLAT, RECTIFIERS
from ..inspection.nested import first_tensor, tensors_in
from .batched_stats import BatchedStats, share
from .module_calls import Observer
from .tensor_stats import MOST, RUN

SATURATED = 5.0
"""|input| of tanh and sigmoid beyond which they are flat. Source: DeepDiagnosis."""

_ROWS = 32
_UNITS = 256


class ModuleOutputs(module_outputs.ModuleOutputs):
    """The modules of one process that uses PyTorch, at dense forwards.

    Args:
        failed: `failed(where, error)` takes failures of ours.
        clock: The processor's time of this thread.
        calls: The `ModuleCalls` of the process.
    """

    def __init__(self, torch, stats, without_modes, failed, clock, calls):
        super().__init__(stats, failed, clock)
        self.torch = torch
        self.without_modes = without_modes
        self._calls = calls
        self._observed = []
        self._batched = BatchedStats(torch)
        self.clear()

    def clear(self):
        """Forgets what the last look has found."""
        super().clear()
        self._batched.clear()

    def settle(self):
        """Computes what the looks have left to be computed, after the forward."""
        with self.without_modes:
            self._batched.settle()

    def begin(self, root, table, first):
        """Observes the modules of a model in its next forward.

        Args:
            table: id of a module -> its number.
            first: Whether inputs and outputs are described, for the table of modules.
        """
        self.end()
        module = root.module()
        self._root = root
        self._first = first
        for one in module.modules():
            number = table.get(id(one))
            if number is not None and one is not module:
                observer = Observer(None, self._make_hook(number, ref(one)))
                self._observed.append((id(one), observer))
                self._calls.add(one, observer)

    def end(self):
        """Observes no module any more."""
        observed, self._observed = self._observed, []
        for key, observer in observed:
            self._calls.remove(key, observer)
        super().end()

    def _make_hook(self, number, owner):
        without_modes, failed = self.without_modes, self._failed

        def look(module, args, output):
            if owner() is not module:
                return
            began = self.clock()
            try:
                if without_modes.is_possible():
                    with without_modes:
                        self._inspect(number, module, args, output)
            except Exception as error:
                failed("torch.look at module", error)
            self.cost += self.clock() - began

        return look

    def inspect_root(self, module, args, output):
        """Looks at what the model itself returned."""
        if self.without_modes.is_possible():
            with self.without_modes:
                self._find_views_of(args)
                self._inspect(0, module, args, output)
                fields = self.found.get(0)
                if fields is not None and fields["calls"] == 1:
                    fields["alike"] = self._are_alike(args)

    def _inspect_output(self, number, module, args, tensor):
        maker = self._returned.get(id(tensor))
        given = first_tensor(args, self.stats)
        kind = type(module).__name__
        if maker is not None and maker[0]() is tensor and maker[3] == self._version(tensor) and maker[4] is not None:
            fields = self._batched.fill_same(maker[4])  # a container returns what its last part has returned
        else:
            fields = self.stats.inspect(tensor, later=self._batched)
            self._queue_batch_variation(fields, tensor)
        fields.update(i=number, calls=1, training=module.training)
        fields["in_bad"] = self._bad_inputs(args) if fields["bad"] else 0
        fields["sat"] = self._saturated_share(given) if kind in FLAT and given is not None else None
        if kind in RECTIFIERS:
            fields.update(self.dead((id(self._root), number), tensor))
        fields["cast"] = self._cast(tensor)
        if module.training and given is not None and isinstance(module, self.torch.nn.modules.batchnorm._BatchNorm):
            fields["bn"] = self._norm(module, given)
        return fields

    def _is_plain(self, tensor):
        return self.stats.is_plain(tensor)

    def _row_variance(self, tensor):
        return tensor.detach().float().var(-1, correction=0).min().item()

    def _bad(self, tensor):
        return self.stats.bad(tensor)

    def _version(self, tensor):
        return None if tensor.is_inference() else tensor._version

    def _are_alike(self, args):
        """Whether all samples of all inputs are equal, `None` where there is no batch."""
        batches = [t for _, t in tensors_in(args, self.stats, 4) if self.stats.is_plain(t) and t.dim() and len(t) > 1]
        return all(self.torch.equal(t[:_ROWS], t[:1].expand_as(t[:_ROWS])) for t in batches) if batches else None

    def _saturated_share(self, tensor):
        if not self.stats.is_plain(tensor) or not tensor.is_floating_point() or not tensor.numel():
            return None
        sample = self.stats.runs(tensor, MOST)
        return self.torch.count_nonzero(sample.abs() > SATURATED).item() / sample.numel()

    def batch_variation(self, tensor):
        """How much the samples of a batch differ: v / (v + m), `None` where that is unknown.

        Here v is the variance over the first axis, averaged over units, m the mean square of the units' means.
        """
        rows = self._rows(tensor)
        if rows is None:
            return None
        mean = rows.mean(0)
        norm = self.torch.linalg.vector_norm
        return share(norm(rows - mean).item() ** 2 / rows.numel(), norm(mean).item() ** 2 / mean.numel())

    def _queue_batch_variation(self, fields, tensor):
        fields["across"] = None
        rows = self._rows(tensor)
        if rows is not None:
            if rows.is_cpu:
                self._batched.queue_batch_variation(fields, rows)
            else:
                fields["across"] = self.batch_variation(tensor)

    def _rows(self, tensor):
        """Some units of some samples of a batch, a row for each sample; `None` where it has no samples."""
        if not self.stats.is_plain(tensor) or tensor.dim() < 2 or tensor.shape[0] < 2 or not tensor.is_floating_point():
            return None
        if not tensor.numel():
            return None
        rows = tensor.detach()
        if rows.shape[0] > _ROWS:
            rows = rows[:: rows.shape[0] // _ROWS]
        count, units = rows.shape[0], rows[0].numel()
        if units <= _UNITS:
            rows = rows.reshape(count, units)
        elif tensor.is_contiguous():
            blocks = _UNITS // RUN
            rows = rows.as_strided((count, blocks, RUN), (rows.stride(0), (units - RUN) // (blocks - 1), 1))
            rows = rows.reshape(count, _UNITS)
        else:
            rows = rows.reshape(count, units)[:, :: (units // _UNITS) | 1]
        wide = rows.to(self.torch.float32)
        return wide.clone() if wide.data_ptr() == tensor.data_ptr() else wide

    def _silent_units(self, tensor):
        if not self.stats.is_plain(tensor) or tensor.dim() < 2 or not tensor.numel():
            return None
        unit = 1 if tensor.dim() in (2,) or tensor.dim() > 3 else tensor.dim() - 1
        value = tensor.detach()
        samples = value.shape[0]
        while value.numel() > 1 << 20 and value.shape[0] > 1:
            value = value[::2]
            samples = value.shape[0]
        axes = [at for at in range(value.dim()) if at != unit]
        # What a rectifier returns is never negative; the largest is found ten times faster than all others counted.
        return (value.amax(axes) == 0 if axes else value == 0), samples

    def _is_comparable(self, one, other):
        return one.shape == other.shape and one.device == other.device

    def _size(self, silent):
        return silent.numel()

    def _cast(self, tensor):
        torch = self.torch
        try:
            if torch.is_autocast_enabled(tensor.device.type):
                return str(torch.get_autocast_dtype(tensor.device.type)).replace("torch.", "")
        except (TypeError, RuntimeError, AttributeError):  # an older PyTorch asks without a device
            if torch.is_autocast_enabled():
                return str(torch.get_autocast_gpu_dtype()).replace("torch.", "")
        return None

    def _norm(self, module, given):
        """Values for each channel, and how far the running variance is from that of the batch."""
        if not self.stats.is_plain(given) or given.dim() < 2 or not given.numel():
            return None
        channels = given.shape[1]
        if channels != module.num_features:  # a subclass for another layout, such as time before samples
            return None
        fields = {"n": given.numel() // max(channels, 1), "ratio": None}
        running = module.running_var
        if running is not None and fields["n"] > 1:
            axes = [at for at in range(given.dim()) if at != 1]
            variance = given.detach().to(self.torch.float32).var(axes, correction=0)
            ratio = (running.detach().to(self.torch.float32) / variance).median().item()
            fields["ratio"] = ratio
        return fields
