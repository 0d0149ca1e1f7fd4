"""What a PyTorch tensor looks like, in a few numbers; large ones by a strided sample, their extremes exactly.

Nothing here draws a number, records a graph, calls factory functions, or looks at tensors that are no plain memory.
"""

from math import gcd
from threading import local

MOST = 4096
"""Elements that mean, deviation and shares are computed from. Source: chosen by us; a percent of a deviation."""

RUN = 16
"""Neighbours that a sample takes together: what lies in one line of a cache costs little more than one of them."""


def sizes(tensor):
    """The shape as a list, -1 for an axis of many lengths, as nested tensors have."""
    return [size if type(size) is int else -1 for size in tensor.shape]


class WithoutModes:
    """A context in which looking stays unseen: no graph, no mode or subclass of the program's own. Reusable."""

    def __init__(self, torch):
        c = torch._C
        self._grad_on = torch.is_grad_enabled
        self._set_grad = getattr(c, "_set_grad_enabled", None) or torch.set_grad_enabled
        self._function_modes = getattr(c, "_len_torch_function_stack", _do_nothing)
        self._dispatch_modes = getattr(c, "_len_torch_dispatch_stack", _do_nothing)
        self._without = getattr(c, "DisableTorchFunction", None)
        functorch = getattr(c, "_functorch", None)
        self._transforms = getattr(functorch, "peek_interpreter_stack", None) or _do_nothing
        self._capturing = capturing_of(torch)
        self._here = _Stack()

    def is_possible(self):
        """Whether tensors can be looked at now: no function transform, no mode that watches every call, no capture."""
        return not self._dispatch_modes() and self._transforms() is None and not self._capturing()

    def refusal_reason(self):
        """Why tensors cannot be looked at now; "" where they can."""
        if self._transforms() is not None:
            return "the model runs in a transform of torch.func"
        return "" if self.is_possible() else "another tool watches every call"

    def __enter__(self):
        context = None
        if self._without is not None:  # subclasses such as MONAI's MetaTensor slice and stack by code of their own
            context = self._without()
            context.__enter__()
        on = self._grad_on()
        if on:
            self._set_grad(False)
        self._here.stack.append((on, context))
        return self

    def __exit__(self, *error):
        on, context = self._here.stack.pop()
        if on:
            self._set_grad(True)
        if context is not None:
            context.__exit__(*error)

    def wrap(self, method):
        """`method`, called so that no function mode of the program sees what it does with tensors."""
        modes, without = self._function_modes, self._without
        if without is None:
            return method

        def call_without_modes(*args):
            if modes():
                with without():
                    return method(*args)
            return method(*args)

        return call_without_modes

    def only_devices(self, torch):
        """Whether all function modes of the program are default devices, which let calls pass as they are."""
        at = getattr(torch._C, "_get_function_stack_at", None)
        count = self._function_modes() or 0
        return not count or (at is not None and all(type(at(i)).__name__ == "DeviceContext" for i in range(count)))


def capturing_of(torch):
    """A function that returns whether a CUDA graph is being captured in this thread; never wakes a device.

    What runs then becomes a part of the program's graph, and reading a value would make the capture fail.
    """
    if not (torch.version.cuda or getattr(torch.version, "hip", None)):
        return _do_nothing
    cuda = torch.cuda
    return lambda: cuda.is_initialized() and cuda.is_current_stream_capturing()


def _do_nothing():
    return None


class _Stack(local):
    """What each thread has to put back: grad mode and function modes are its own."""

    def __init__(self):
        self.stack = []


class TensorStats:
    """Looks at tensors."""

    def __init__(self, torch):
        self.torch = torch
        self._plain = {torch.Tensor: True, torch.nn.Parameter: True}
        self._names = {}

    def dtype(self, tensor):
        """Name of its dtype, "float32"."""
        name = self._names.get(tensor.dtype)
        if name is None:
            name = self._names[tensor.dtype] = str(tensor.dtype).replace("torch.", "")
        return name

    def is_tensor(self, thing):
        """Whether it is a tensor, of whatever class."""
        return issubclass(type(thing), self.torch.Tensor)

    def is_plain(self, tensor):
        """Whether its elements can be read: not sparse, quantised, nested, fake, distributed, on no device at all."""
        kind = type(tensor)
        known = self._plain.get(kind)
        if known is None:
            own = getattr(kind, "__torch_dispatch__", None)
            base = getattr(self.torch.Tensor, "__torch_dispatch__", None)
            known = self._plain[kind] = getattr(own, "__func__", own) is getattr(base, "__func__", base)
        return (
            known
            and tensor.layout is self.torch.strided
            and not tensor.is_meta
            and not tensor.is_quantized
            and not getattr(tensor, "is_nested", False)
        )

    def runs(self, tensor, most, run=RUN):
        """At most `most` of its elements, in short runs all over it, as one axis that nothing else is written to.

        Only to be called where no graph is recorded.

        Cost: 8 microseconds for 4096 elements; strided ones take twice that and bring a cache line each.
        """
        count = tensor.numel()
        if most < 2 * run or not (tensor.is_contiguous() or _is_dense(tensor)):
            return self.flat(tensor, most).clone()
        if count <= most:
            return tensor.detach().as_strided((count,), (1,)).clone()
        blocks = most // run
        step = (count - run) // (blocks - 1)
        while gcd(step, tensor.shape[-1]) > 1:  # else the runs lie in the same columns of each row
            step -= 1
        return tensor.detach().as_strided((blocks, run), (step, 1)).reshape(-1)

    def flat(self, tensor, most):
        """At most about `most` of its elements, evenly strided, as one axis; a view where that is possible."""
        tensor = tensor.detach()
        count = tensor.numel()
        if tensor.is_contiguous():
            flat = tensor.view(-1)
        elif _is_dense(tensor):
            flat = tensor.as_strided((count,), (1,))
        else:
            while tensor.numel() > 4 * most and max(tensor.shape) > 1:
                axis = max(range(tensor.dim()), key=lambda at: tensor.shape[at])
                tensor = tensor[(slice(None),) * axis + (slice(None, None, 2),)]
            flat = tensor.reshape(-1)
            count = flat.numel()
        if count > most:
            flat = flat[:: (count // most) | 1]
        return flat

    def numbers(self, tensor, most):
        """A strided sample of a tensor in host memory as a list of numbers; `None` where that is not at hand."""
        if not tensor.is_cpu or not self.is_plain(tensor):
            return None
        return self.flat(tensor, most).tolist()

    def real_part(self, tensor):
        """A tensor of real numbers with the same values."""
        if tensor.is_complex():
            return self.torch.view_as_real(tensor.detach().resolve_conj())
        if tensor.dtype is self.torch.bool:
            return tensor.detach().to(self.torch.uint8)
        return tensor

    def kind(self, tensor):
        """`shape`, `dtype` and `device` of any tensor."""
        return {"shape": sizes(tensor), "dtype": self.dtype(tensor), "device": str(tensor.device)}

    def inspect(self, tensor, most=MOST, later=None):
        """`shape`, `dtype`, `min`, `max`, `mean`, `std`, `zero`, `bad`, `nan`; numbers are `None` where it has none.

        Args:
            most: Elements that mean, deviation and shares are computed from.
            later: A `BatchedStats` that may fill in `mean`, `std` and `zero` when it settles.

        Cost: 25 microseconds for a small tensor, one pass over a large one.
        """
        fields = {"shape": sizes(tensor), "dtype": self.dtype(tensor)}
        if not self.is_plain(tensor) or not tensor.numel():
            fields.update(min=None, max=None, mean=None, std=None, zero=None, bad=0, nan=False)
            return fields
        tensor = self.real_part(tensor.detach())
        torch = self.torch
        sample = self.runs(tensor, most)
        if (
            not sample.is_floating_point()
            or sample.dtype in (torch.float16, torch.bfloat16)
            or sample.element_size() < 2
        ):
            sample = sample.to(torch.float32)
        low, high = self.extremes(tensor if tensor.element_size() > 1 or not tensor.is_floating_point() else sample)
        if not tensor.is_cpu:
            nonzero = torch.count_nonzero(sample)
            variance, mean = torch.var_mean(sample, correction=0)
            wide = [number.to(torch.float32) for number in (low, high, mean, variance, nonzero)]
            low, high, mean, variance, nonzero = torch.stack(wide).tolist()
            std = _root(variance)
        else:
            low, high = low.item(), high.item()
            if later is not None and low - low == 0.0 and high - high == 0.0:
                fields.update(
                    min=round_number(low), max=round_number(high), mean=None, std=None, zero=None, bad=0, nan=False
                )
                later.moments(fields, sample)
                return fields
            nonzero = torch.count_nonzero(sample).item()
            mean, std = self.moments(sample)
        fields.update(
            min=round_number(low),
            max=round_number(high),
            mean=round_number(mean),
            std=round_number(std),
            bad=0,
            nan=False,
        )
        fields["zero"] = round_number(1.0 - nonzero / sample.numel())
        if mean - mean != 0.0 or low - low != 0.0 or high - high != 0.0:
            fields.update(self._summarize_finite(tensor, sample))
        return fields

    def extremes(self, tensor):
        """Its smallest and its largest value, as scalars; NaN where one of its values is.

        Cost: 18 microseconds for 262,144 numbers in host memory, each; `aminmax` takes 57.
        """
        if tensor.is_cpu and tensor.numel() > 4096:
            return tensor.amin(), tensor.amax()
        return self.torch.aminmax(tensor)

    def moments(self, sample):
        """`(mean, standard deviation)` of a flat sample of real numbers, as floats.

        Cost: 7 microseconds for 4096 numbers in host memory, where `var_mean`, which goes through them one by one,
        takes 70.
        """
        torch = self.torch
        if sample.is_cpu:
            middle = sample.mean()
            spread = torch.linalg.vector_norm(sample - middle).item()
            mean = middle.item()
            # Squares of large numbers overflow in single precision, where the deviation itself does not.
            if spread - spread == 0.0 or mean - mean != 0.0:
                return mean, spread / sample.numel() ** 0.5
        variance, mean = torch.var_mean(sample, correction=0)
        return mean.item(), _root(variance.item())

    def _summarize_finite(self, tensor, sample):
        """The numbers of a tensor with values that are not finite: over the finite ones, and how many are not."""
        torch = self.torch
        finite = torch.isfinite(tensor)
        fields = {
            "bad": tensor.numel() - int(finite.sum().item()),
            "nan": bool(torch.isnan(tensor).any().item()),
            "min": None,
            "max": None,
            "mean": None,
            "std": None,
        }
        # Extremes are those of the whole tensor here, too; numbers of one byte have no order of their own in torch.
        whole = tensor[finite] if tensor.element_size() > 1 else sample[torch.isfinite(sample)]
        kept = sample[torch.isfinite(sample)]
        if kept.numel():
            low, high = torch.aminmax(whole)
            variance, mean = torch.var_mean(kept.to(torch.float64), correction=0)
            fields.update(min=round_number(low.item()), max=round_number(high.item()), mean=round_number(mean.item()))
            fields["std"] = round_number(_root(variance.item()))
        return fields

    def bad(self, tensor):
        """How many of its values are not finite; 0 for a tensor that cannot be read. One pass, two when there are."""
        if not self.is_plain(tensor) or not tensor.numel():
            return 0
        tensor = self.real_part(tensor.detach())
        if not tensor.is_floating_point():
            return 0
        torch = self.torch
        if tensor.element_size() == 1:
            tensor = tensor.to(torch.float32)
        low, high = self.extremes(tensor)
        if self.is_finite(low.item()) and self.is_finite(high.item()):
            return 0
        return tensor.numel() - int(torch.isfinite(tensor).sum().item())

    @staticmethod
    def is_finite(number):
        """Whether a number is neither infinite nor NaN."""
        return number - number == 0


def round_number(number):
    """A number in seven digits; what is recorded of a tensor needs no more."""
    return number if type(number) is int else float("%.7g" % number)


def _root(variance):
    return variance**0.5 if variance >= 0 else variance


def _is_dense(tensor):
    """Whether its elements fill one piece of memory, each once."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True
