"""Statistics of PaddlePaddle tensors at dense steps, read from host memory without a copy where they lie there.

Operators of PaddlePaddle cost 3 microseconds each, write to its own memory pool, and use up names of tensors; NumPy,
which PaddlePaddle imports itself, reads the same memory through DLPack. What lies on a device comes over as a strided
sample. Nothing here draws random numbers, changes a tensor or communicates between ranks.
"""

import sys
from math import isfinite, prod

WHOLE = 65536
"""Elements up to which means are taken over the whole tensor; larger ones are sampled. Source: chosen by us, the
standard error of a mean over so many is 0.4 % of the standard deviation."""

SAMPLE = 256
"""Elements of a parameter that updates are measured on."""

ON_DEVICE = 16384
"""Elements of one tensor that are fetched from a device."""

CLIP = 5.0
"""|input| beyond which tanh and sigmoid are called saturated. Source: DeepDiagnosis, see `saturated_activation`."""


class TensorStats:
    """Looks at tensors."""

    def __init__(self, paddle):
        self.paddle = paddle
        self._ops = paddle._C_ops
        self._numpy = sys.modules["numpy"]
        self._quiet = {"all": "ignore"}
        self._half = paddle.bfloat16
        self._share = getattr(self._numpy, "from_dlpack", None)
        self._copy = paddle.Tensor.numpy
        self._names = {}

    def dtype(self, tensor):
        """Name of its dtype, "float32"."""
        name = self._names.get(tensor.dtype)
        if name is None:
            name = self._names[tensor.dtype] = str(tensor.dtype).replace("paddle.", "")
        return name

    def is_tensor(self, thing):
        """Whether it is a tensor, of whatever class."""
        return issubclass(type(thing), self.paddle.Tensor)

    def kind(self, tensor):
        """`shape`, `dtype` and `device` of any tensor."""
        place = str(tensor.place).replace("Place(", "").rstrip(")") if tensor._is_initialized() else "none"
        return {"shape": list(tensor.shape), "dtype": self.dtype(tensor), "device": place}

    def inspect(self, tensor):
        """`shape`, `dtype`, `min`, `max`, `mean`, `std`, `zero`, `bad`, `nan`; numbers are `None` where it has none.

        Cost: 30 microseconds for a small tensor, one pass over a large one.
        """
        fields = {"shape": list(tensor.shape), "dtype": self.dtype(tensor)}
        view = self.view(tensor)
        if view is None or not view.size:
            fields.update(min=None, max=None, mean=None, std=None, zero=None, bad=0, nan=False)
        else:
            fields.update(self.stats(view))
        return fields

    def whole_view(self, tensor):
        """All values of a tensor in its shape, `None` where only a part is at hand."""
        view = self.view(tensor)
        return view if view is not None and view.shape == tuple(tensor.shape) else None

    def numbers(self, tensor, most):
        """A strided sample of a tensor in host memory as a list of numbers; `None` where that is not at hand."""
        if tensor.is_dist() or not tensor._is_initialized() or not tensor.place.is_cpu_place() or not tensor.is_dense():
            return None
        view = self.view(tensor)
        return None if view is None else self.flat(view, most).tolist()

    def view(self, tensor):
        """The values of a tensor as an array on the host, `None` where it has none that can be read here.

        On a CPU it is the tensor's own memory: it is only good until the program goes on, and never to be written to.
        """
        tensor = self._dense_part(tensor)
        if tensor is None:
            return None
        half = tensor.dtype == self._half
        if not tensor.place.is_cpu_place():
            tensor = tensor.detach()
            return self._fetched(self._ops.cast(tensor, self.paddle.float32) if half else tensor)
        if half:
            # NumPy has no such type: its bits are the upper half of a float.
            bits = self._copy(tensor).view("uint16").astype("uint32")
            return (bits << 16).view("float32")
        if self._share is not None:
            try:
                return self._share(SharedMemory(tensor))
            except (AttributeError, RuntimeError, BufferError, TypeError):  # a type that DLPack has no name for
                pass
        return self._copy(tensor)

    def _dense_part(self, tensor):
        """The part of a tensor in this process, as a dense tensor; `None` where it has no memory."""
        if tensor.is_dist():
            tensor = tensor._local_value()
        if not tensor._is_initialized() or tensor.is_dense():
            return tensor if tensor._is_initialized() else None
        if tensor.is_selected_rows():
            return self._ops.merge_selected_rows(tensor)._get_tensor_from_selected_rows()
        return tensor.values()

    def _fetched(self, tensor):
        size = prod(tensor.shape)
        if size > ON_DEVICE:
            step = -(-size // ON_DEVICE)
            flat = self._ops.reshape(tensor, [-1])
            tensor = self._ops.strided_slice(flat, [0], [0], [size], [step])
        return tensor.numpy()

    def flat(self, view, most=WHOLE):
        """All values in one row, or a strided sample where there are more than `most`."""
        if view.size <= most:
            return view.reshape(-1)
        step = -(-view.size // most)
        if view.flags.c_contiguous:
            return view.reshape(-1)[::step]
        return self._numpy.array(view.flat[::step])

    def read_values(self, tensor):
        """The values of a small tensor as a list of numbers, `None` where they cannot be read."""
        view = self.view(tensor)
        return None if view is None else view.reshape(-1).tolist()

    def range_of(self, view):
        """`(min, max, bad, nan)`: extremes of the finite values, count of the others, whether NaN is among them."""
        numpy = self._numpy
        if not view.size:
            return None, None, 0, False
        if view.dtype.kind == "c":
            view = numpy.abs(view)
        if view.dtype.kind == "b":
            view = view.view("uint8")
        low, high = view.min(), view.max()
        if view.dtype.kind != "f" or (isfinite(low) and isfinite(high)):
            return _python_number(low), _python_number(high), 0, False
        finite = numpy.isfinite(view)
        bad = int(view.size - finite.sum())
        if bad == view.size:
            return None, None, bad, bool(numpy.isnan(view).any())
        kept = view[finite]
        return _python_number(kept.min()), _python_number(kept.max()), bad, bool(numpy.isnan(view).any())

    def moments(self, row):
        """`(mean, std, share of zeros)` of the finite values in a row; `None` for an empty one."""
        numpy = self._numpy
        if not row.size:
            return None, None, None
        zero = 1.0 - numpy.count_nonzero(row) / row.size
        if row.dtype.kind == "c":
            row = numpy.abs(row)
        row = row.astype("float64" if row.dtype.kind != "f" or row.itemsize > 4 else "float32")
        mean = row.mean(dtype="float64")
        if not isfinite(mean):
            row = row[numpy.isfinite(row)].astype("float64")
            if not row.size:
                return None, None, zero
            mean = row.mean()
        away = row - row.dtype.type(mean)
        deviation = (away * away).mean(dtype="float64") ** 0.5
        return float(mean), float(deviation), float(zero)

    def nans(self, view):
        """How many values are NaN."""
        return int(self._numpy.isnan(view).sum())

    def gradient(self, row):
        """`g_zero` of a row."""
        with self._numpy.errstate(**self._quiet):
            return {"g_zero": self.moments(row)[2]}

    def stats(self, view):
        """`min`, `max`, `mean`, `std`, `zero`, `bad` and `nan` of an array."""
        with self._numpy.errstate(**self._quiet):
            low, high, bad, nan = self.range_of(view)
            mean, deviation, zero = self.moments(self.flat(view))
        return {"min": low, "max": high, "mean": mean, "std": deviation, "zero": zero, "bad": bad, "nan": nan}

    def bad(self, view):
        """How many values are not finite."""
        numpy = self._numpy
        if view.dtype.kind not in "fc" or not view.size:
            return 0
        with numpy.errstate(**self._quiet):
            if view.dtype.kind == "f" and isfinite(view.min()) and isfinite(view.max()):
                return 0  # NaN would be both, and nothing was written
            return int(view.size - numpy.isfinite(view).sum())

    def norm(self, tensor):
        """2-norm of a dense tensor in single precision or better, as a float; waits for a device."""
        tensor = self._dense_part(tensor)
        if tensor is None:
            return None
        if tensor.is_complex():
            tensor = self._ops.as_real(tensor.detach())
        if tensor.dtype not in (self.paddle.float32, self.paddle.float64):
            tensor = self._ops.cast(tensor.detach(), self.paddle.float32)
        return self._ops.squared_l2_norm(tensor.detach()).item() ** 0.5

    def copy_dense(self, dense):
        """A copy of the values of a dense tensor of a scope, which is in host memory."""
        return self._numpy.array(dense)

    def norm_of(self, view):
        """2-norm of an array, as a float."""
        with self._numpy.errstate(**self._quiet):
            return float(self._numpy.sqrt((view.astype("float64") ** 2).sum()))

    def copy_sample(self, tensor):
        """A copy of a strided sample of a parameter as an array, `None` where it cannot be read."""
        view = self.view(tensor)
        if view is None or not view.size:
            return None
        return self._numpy.array(self.flat(view, SAMPLE))

    def change(self, before, after):
        """`(norm of the difference / norm before, bitwise equal)` of two samples."""
        numpy = self._numpy
        same = before.tobytes() == after.tobytes()
        if before.dtype.kind == "c":
            before, after = before.view(before.real.dtype), after.view(after.real.dtype)
        with numpy.errstate(**self._quiet):
            before, after = before.astype("float64"), after.astype("float64")
            weight = float(numpy.sqrt((before * before).sum()))
            moved = float(numpy.sqrt(((after - before) ** 2).sum()))
        return (moved / weight if weight > 0.0 else None), same

    def rows_equal(self, view, last):
        """Whether all units of a weight hold the same values, bit by bit.

        Args:
            view: The weight.
            last: Whether units lie along the last axis, as in `Linear`; else along the first.
        """
        if view.ndim < 2:
            return False
        units = view.shape[-1] if last else view.shape[0]
        if units < 2:
            return False
        first = view[..., :1] if last else view[:1]
        return bool((view == first).all())

    def saturated_share(self, view):
        """Share of values beyond `CLIP`."""
        row = self.flat(view)
        with self._numpy.errstate(**self._quiet):
            return float((self._numpy.abs(row) > CLIP).mean()) if row.size else None

    def batch_variation(self, view):
        """V / (v + m): v the variance over the first axis averaged over units, m the mean square of the units' means.

        Returns:
            A share; 0.0 when both are 0; `None` for fewer than 2 samples or values that are not finite.
        """
        if view.ndim < 1 or view.shape[0] < 2 or not view.size or view.dtype.kind != "f":
            return None
        numpy = self._numpy
        table = view.reshape(view.shape[0], -1)
        if table.size > WHOLE:
            table = table[: max(2, min(64, table.shape[0])), :: max(1, table.shape[1] // 1024)]
        with numpy.errstate(**self._quiet):
            table = table.astype("float64")
            variance = float(table.var(axis=0).mean())
            means = table.mean(axis=0)
            square = float((means * means).mean())
        if not isfinite(variance) or not isfinite(square):
            return None
        return variance / (variance + square) if variance + square > 0.0 else 0.0

    def silent_units(self, view):
        """`(array of units that were 0 in all samples, samples)`; channels of images, else the last axis."""
        numpy = self._numpy
        if view.ndim < 2:
            return None, 0
        axis = 1 if view.ndim >= 4 else view.ndim - 1
        others = tuple(one for one in range(view.ndim) if one != axis)
        return ~numpy.any(view != 0, axis=others), view.shape[0]

    def variance_ratio(self, view, running, axis):
        """Median over channels of the running variance by that of the batch; `None` where it is not finite."""
        numpy = self._numpy
        count = view.size // view.shape[axis]
        with numpy.errstate(**self._quiet):
            total = square = 0.0
            some = max(1, WHOLE * view.shape[0] // view.size)  # large copies would change how the program gets memory
            for at in range(0, view.shape[0], some):
                part = numpy.moveaxis(view[at : at + some].astype("float64"), axis, 0).reshape(view.shape[axis], -1)
                total, square = total + part.sum(axis=1), square + numpy.einsum("ij,ij->i", part, part)
            variance = numpy.maximum(square / count - (total / count) ** 2, 0.0)
            ratio = float(numpy.median(running.astype("float64") / variance))
        return ratio if isfinite(ratio) else None

    def is_never_iterated(self, layer, hook):
        """Whether the vectors of a spectral norm are still random: after one iteration `u` is W v, but for its length.

        Args:
            layer: Whose weight it divides.
            hook: The hook that does; its `name` and `dim` are used.
        """
        held = [getattr(layer, hook.name + end, None) for end in ("_orig", "_u", "_v")]
        if not all(self.is_tensor(one) and one._is_initialized() and one.place.is_cpu_place() for one in held):
            return False
        weight, u, v = (self.view(one) for one in held)
        made = self._numpy.moveaxis(weight, hook.dim, 0).reshape(weight.shape[hook.dim], -1) @ v
        length = float((made * made).sum() * (u * u).sum()) ** 0.5
        return bool(length > 0.0 and abs(float((made * u).sum())) < 0.5 * length)

    def constant_columns(self, view):
        """`(lowest, highest)` of each column of a table, as arrays to be merged over batches."""
        return view.min(axis=0), view.max(axis=0)

    def merge_extremes(self, known, low, high):
        """The extremes of columns over this batch and those before."""
        return self._numpy.minimum(low, known[0]), self._numpy.maximum(high, known[1])

    def channels(self, view):
        """[[mean, std], ...] over axis 1 of images, of at most 16 channels."""
        numpy = self._numpy
        with numpy.errstate(**self._quiet):
            images = view[: max(1, min(view.shape[0], 64)), :16].astype("float64")
            means, deviations = images.mean(axis=(0, 2, 3)), images.std(axis=(0, 2, 3))
        return [[_python_number(mean), _python_number(deviation)] for mean, deviation in zip(means, deviations)]

    def rows_sum_to_one(self, view, axis, logs):
        """Whether values (or, with `logs`, their exponentials) are at least 0 and sum to 1 along an axis."""
        numpy = self._numpy
        with numpy.errstate(**self._quiet):
            table = view.astype("float64")
            if logs:
                if table.max() > 1e-4:
                    return False
                table = numpy.exp(table)
            elif table.min() < 0.0:
                return False
            return bool((numpy.abs(table.sum(axis=axis) - 1.0) <= 1e-4).all())


class SharedMemory:
    """The memory of a dense tensor on the host, for `numpy.from_dlpack`; the tensor itself refuses where it trains."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **options):
        """The capsule; it keeps the memory alive, `get_tensor` alone does not."""
        return self._tensor.get_tensor()._to_dlpack()

    def __dlpack_device__(self):
        """The host."""
        return (1, 0)


def _python_number(value):
    """A NumPy number as Python's own."""
    return value.item() if hasattr(value, "item") else value
