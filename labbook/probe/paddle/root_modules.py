"""Finds the outermost models of a PaddlePaddle program: the layers that are called by no other layer.

PaddlePaddle has no hooks for the whole process, and a layer with hooks of its own takes a slower path. So the call of
the class `Layer` is wrapped once; no layer of the program is touched. Inside an outermost call the wrapper only passes
on, unless a dense step has asked to look.
"""

import inspect
import sys
import threading
from types import FunctionType
from weakref import ref

from ..inspection import root_modules
from ..inspection.model_lookup import SpareParameters, class_name
from ..inspection.root_modules import MOST_ROOTS, stochastic_modules
from ..wrapping import leave_out_one_frame, transparent_wrapper

_MOST_REFUSED = 2048
_MOST_CALLERS = 16
"""Frames above a layer's call in which the `forward` of its model is looked for."""


class Inside(threading.local):
    """Whether this thread is inside an outermost call."""

    on = False


class RootModules(root_modules.RootModules):
    """All outermost models of this process.

    Attributes:
        look: What looks at the layers of the forward under way, `None` at ordinary steps: `look.call(layer, original,
            args, kwargs)`.
        abandoned: Called when an outermost call raised.
        spares: Finds the models of parameters that belong to none that was seen to run.
    """

    CHILDREN = "_sub_layers"

    def __init__(self, adapter):
        super().__init__(adapter.module, adapter.probe.failed)
        self.look = None
        self.abandoned = _do_nothing
        self.inside = Inside()
        self._local = adapter.training.local
        self._dynamic = adapter.module.in_dynamic_mode
        self.spares = SpareParameters(adapter.module.nn.Layer, "_sub_layers")
        self._held = set()
        self._optimizers = 0
        self._refused = {}
        self._patches, self._since = None, {}

    def forget(self):
        """Lets go of what belongs to the parent, in a forked child."""
        self.look = None
        self.inside.on = False

    def discover(self, parameters):
        """Processes the parameters of a new optimizer: models that own some of them are followed."""
        self._optimizers += 1
        self._held.update(map(id, parameters))

    def install(self, patches):
        """Wraps the call of all layers."""
        kind = self.framework.nn.Layer
        self._patches, original = patches, kind.__call__
        patches.replace(kind, "__call__", transparent_wrapper(self._wrap(original), original))

    def _wrap(self, original):
        inside, find, outermost, local = self.inside, self._find, self._outermost, self._local

        def call_layer(layer, *args, **kwargs):
            try:
                if inside.on:
                    look = self.look
                    if look is None:
                        return original(layer, *args, **kwargs)
                    return look.call(layer, original, args, kwargs)
                if local.in_backward:  # recomputation: the layer is part of a forward that was seen
                    return original(layer, *args, **kwargs)
                root = find(layer)
                if root is None:
                    return original(layer, *args, **kwargs)
                return outermost(root, original, layer, args, kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise

        return call_layer

    def _find(self, layer):
        key = id(layer)
        root = self._known.get(key)
        if root is not None and root.owner() is layer:
            return root if self._dynamic() else None
        refused = self._refused.get(key)
        try:
            if refused is not None and refused[0] == self._optimizers and refused[1]() is layer:
                if self._held and not self.framework.is_grad_enabled():
                    monitor = self.monitor
                    monitor.inspector.progress.evaluate(layer, class_name(layer), monitor.step)
                return None
            return self._on_first_call(layer)
        except Exception as error:
            self._failed("paddle.roots", error)
            return None

    def _on_first_call(self, layer):
        """Decides about a layer that is called by no other: it is followed when an optimizer trains some of it."""
        if not self._dynamic():
            return None
        own = [p for p in self.parameters_of(layer) if not p.stop_gradient]
        wanted = any(id(p) in self._held for p in own) if self._held else bool(own)
        if not wanted or self._count >= 8 * MOST_ROOTS:
            return self._refuse(layer)
        whole = self._running_model(layer)
        if whole is not None and self._observe_forward(whole):
            return None  # its next call is seen before any of its layers, or these are asked again
        return self._follow(layer) or self._refuse(layer)

    def _running_model(self, layer):
        """The outermost model that contains a layer and is called as `model.forward(x)` now; `None` without one."""
        found, frame = None, sys._getframe(3)
        for _ in range(_MOST_CALLERS):
            frame = frame.f_back
            if frame is None:
                break
            code = frame.f_code
            if code.co_name == "forward" and code.co_argcount:
                owner = frame.f_locals.get(code.co_varnames[0])
                if isinstance(owner, self.framework.nn.Layer) and owner is not layer:
                    found = owner if any(one is layer for one in owner.sublayers()) else found
        return found

    def _observe_forward(self, layer):
        """Follows a model by direct calls of `forward`; whether that is possible. The one under way is not seen.

        Its parameters are the initial ones if no step was made yet. It is not possible where another call of it was
        not seen either, as by a function that the program took from the class.
        """
        loop, known = self.monitor.loop, self._known.get(id(layer))
        if known is not None and known.owner() is layer:
            return loop.backwards == self._since.get(id(layer))
        self._since[id(layer)] = loop.backwards
        home = next(kind for kind in type(layer).__mro__ if "forward" in kind.__dict__)
        original = home.__dict__["forward"]
        if type(original) is not FunctionType:
            return False
        root = self._follow(layer)
        if root is None:
            return False
        inspector = self.monitor.inspector
        if not loop.steps and (table := inspector.table(root)) is not None:
            table.initial = inspector.describer.initial(table)
        if not hasattr(original, "_labbook"):
            inside, local, find, outermost = self.inside, self._local, self._known.get, self._outermost
            dynamic, leave_out = self._dynamic, leave_out_one_frame

            def forward(layer, *args, **kwargs):
                root = None if inside.on or local.in_backward else find(id(layer))
                try:
                    if root is None or root.owner() is not layer or not dynamic():
                        return original(layer, *args, **kwargs)
                    return outermost(root, original, layer, args, kwargs)
                except BaseException as error:
                    leave_out(error)
                    raise

            # The compiler looks up in its globals what the source of the original names.
            replacement = FunctionType(forward.__code__, original.__globals__, "forward", None, forward.__closure__)
            replacement.__signature__ = inspect.signature(original)  # `getfullargspec` does not look behind wrappers
            replacement._labbook = True
            transparent_wrapper(replacement, original)
            for name in [name for name, value in home.__dict__.items() if value is original]:  # PARL: `value = forward`
                self._patches.replace(home, name, replacement)
        return True

    def register(self, parameters):
        """Follows models that no optimizer trains, because a backward call reaches these parameters of theirs."""
        reached = set(map(id, parameters))
        for key, (_, held) in list(self._refused.items()):
            layer = held()
            own = map(id, self.parameters_of(layer)) if layer is not None else ()
            if not reached.isdisjoint(own) and self._follow(layer) is not None:
                del self._refused[key]

    def _follow(self, layer):
        """The `RootModule` of a new model, `None` where there are too many."""
        self._drop_gone()
        if len(self._known) >= MOST_ROOTS or self._count >= 8 * MOST_ROOTS:
            return None
        normalisation = self.framework.nn.layer.norm._BatchNormBase
        return self._number(
            layer, stochastic_modules(layer.sublayers(include_self=True), normalisation), hidden_reason(layer)
        )

    def _refuse(self, layer):
        if len(self._refused) >= _MOST_REFUSED:
            self._refused.clear()
        self._refused[id(layer)] = (self._optimizers, ref(layer))

    def _outermost(self, root, original, layer, args, kwargs):
        monitor, training, failed, inside = self.monitor, self.monitor.training, self._failed, self.inside
        clock, grad_on = training.clock, self.framework.is_grad_enabled
        followed = False
        if (
            monitor.fast_path.steady is not None
            and layer.training
            and grad_on()
            and monitor.fast_path.accept_forward(root, args, kwargs)
        ):
            root.called += 1
        else:
            began = clock()
            try:
                grad = grad_on()
                if grad:
                    root.called += 1
                followed = monitor.forward_begins(root, args, kwargs, grad, layer.training)
            except Exception as error:
                failed("paddle.forward begins", error)
            training.overhead_s += clock() - began
        inside.on = True
        try:
            output = original(layer, *args, **kwargs)
        except BaseException as error:
            monitor.inside = None
            self.abandoned()
            leave_out_one_frame(error)
            raise
        finally:
            inside.on = False
        if not followed:
            return output
        began = clock()
        try:
            monitor.forward_ended(root, output)
        except Exception as error:
            failed("paddle.forward ended", error)
        training.overhead_s += clock() - began
        return output


def _do_nothing():
    return None


def hidden_reason(layer):
    """Why the inside of a model cannot be looked at, "" when it can."""
    for one in layer.sublayers(include_self=True):
        if type(getattr(one, "forward", None)).__name__.endswith("StaticFunction"):
            return "the model is compiled"
        if type(one).__name__ == "TranslatedLayer":
            return "the model is a loaded program"
    return ""


def is_statistic(layer, name):
    """Whether a parameter is a running statistic of batch normalisation: PaddlePaddle keeps those as parameters."""
    return name in ("_mean", "_variance") and hasattr(layer, "_momentum")
