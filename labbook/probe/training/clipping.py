"""Reads the gradient norm from calls of gradient clipping; independent of the framework."""

from types import GeneratorType

from ..wrapping import leave_out_one_frame, transparent_wrapper


class Clip:
    """Result of one call of a clipping function.

    Args:
        value: Total gradient norm of the parameters before clipping.
        local: Whether this is only the part of this rank.
    """

    __slots__ = ("_key", "_members", "local", "norm")

    def __init__(self, parameters, value, local):
        self.norm = value
        self.local = local
        self._key = (len(parameters), id(parameters[0]), id(parameters[-1])) if parameters else None
        self._members = parameters

    def share_of(self, scratch, optimizer, parameters, gradient):
        """Which gradients of an optimizer were clipped: "all" and no others, "some" or "none", determined once.

        Args:
            scratch: A dict that belongs to the optimizer.
            optimizer: The optimizer that is about to step.
            parameters: `parameters(optimizer)` returns its parameters.
            gradient: `gradient(parameter)` returns its gradient, or `None`.
        """
        if self._key is None:
            return "none"
        known = scratch.setdefault("clips", {})
        if self._key not in known:
            clipped = {id(p) for p in self._members if gradient(p) is not None}
            own = {id(p) for p in parameters(optimizer) if gradient(p) is not None}
            known[self._key] = "all" if clipped == own else "some" if clipped & own else "none"
        return known[self._key]


def wrap_clip(adapter, original, norm_type, is_scaled=None):
    """Wrap a clipping function; its norm is stored for the following step.

    Args:
        norm_type: `norm_type(args, kwargs)` returns the order of the norm that `original` returns, `None` if it returns
            none; the 2-norm is then measured first.
        is_scaled: `is_scaled(local)` returns whether gradients still carry the factor of a gradient scaler.
    """
    is_compiling, failed, local = adapter.is_compiling, adapter.probe.failed, adapter.training.local
    tensor, gradient = adapter.module.Tensor, adapter.values.gradient

    def clip(*args, **kwargs):
        if is_compiling():
            return original(*args, **kwargs)
        parameters, norm, scratch = (), None, {}
        try:
            given = args[0] if args else kwargs["parameters"]
            if issubclass(type(given), tensor):
                parameters = [given]
            elif type(given) in (list, tuple):
                parameters = given
            else:
                parameters = list(given)
                # A generator is not converted: the original treats generators and lists differently.
                given = (p for p in parameters) if type(given) is GeneratorType else parameters
            if args:
                args = (given, *args[1:])
            else:
                kwargs["parameters"] = given
            if norm_type(args, kwargs) not in (2, 2.0):
                norm = adapter.values.norm(scratch, [g for g in map(gradient, parameters) if g is not None])
        except Exception as error:
            failed(adapter.name + ".clip", error)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        try:
            if norm is None and result is not None:
                norm = adapter.values.scalar(result)
                scratch["local"] = adapter.values.is_split(result)
            if is_scaled is not None and local.scales and adapter.monitor is not None and is_scaled(local):
                adapter.monitor.loop.clip["scaled"] += 1
            if norm is not None:
                local.clips.append(Clip(parameters, norm, scratch.get("local", False)))
                if adapter.monitor is not None:
                    adapter.monitor.on_clip(norm, _limit(args, kwargs), original.__name__)
        except Exception as error:
            failed(adapter.name + ".clip", error)
        return result

    return transparent_wrapper(clip, original)


def norm_order(args, kwargs):
    """Returns the order of the norm that `clip_grad_norm_` is called with."""
    return args[2] if len(args) > 2 else kwargs.get("norm_type", 2)


def _limit(args, kwargs):
    """Return the second argument of a clipping function: the maximum norm or value."""
    limit = args[1] if len(args) > 1 else kwargs.get("max_norm", kwargs.get("clip_value"))
    return float(limit) if type(limit) in (int, float) else None
