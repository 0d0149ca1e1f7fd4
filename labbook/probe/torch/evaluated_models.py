"""Follows the models of a PyTorch program that evaluates and does not train.

Models are known by their optimizers, or by the first call of `backward`. Before either, those that load a state or
that `eval()` is called on are observed lightly; what was seen of them is dropped when the program begins to train.
"""

from weakref import ref

from ..inspection.model_lookup import class_name
from ..inspection.root_modules import MOST_ROOTS, stochastic_modules
from ..wrapping import as_import_machinery, transparent_wrapper
from .module_calls import Observer


class EvaluatedModels:
    """The models of one process before it trains.

    Args:
        inspector: The `TensorInspector`.
    """

    def __init__(self, torch, inspector):
        self.torch = torch
        self.inspector = inspector
        self._known = {}
        self._inside = None
        self._ended = False

    def forget(self):
        """Begins anew, in a forked child."""
        self._inside = None

    def install(self, is_compiling):
        """Reports the models that `eval()` is called on."""
        kind, add, failed = self.torch.nn.Module, self.add, self.inspector.failed
        original = kind.eval

        def set_mode(self):
            module = original(self)
            try:
                if not is_compiling():
                    add(self)
            except Exception as error:
                failed("torch.evaluated", error)
            return module

        kind.eval = transparent_wrapper(as_import_machinery(set_mode), original)
        kind.eval._torchdynamo_inline = original

    def add(self, module):
        """Observes a model, unless the program trains already."""
        known = self._known.get(id(module))
        if self._ended or (known is not None and known[0]() is module):
            return
        if self._has_training():
            self.end()
            return
        if len(self._known) >= MOST_ROOTS or isinstance(module, self.torch.jit.ScriptModule):
            return
        stochastic = stochastic_modules(module.modules(), self.torch.nn.modules.batchnorm._BatchNorm)
        observer = Observer(
            lambda module, args, kwargs: self._run_guarded(self._begins, module, stochastic, args, kwargs),
            lambda module, args, output: self._leave(module),
            self._leave,
        )
        self._known[id(module)] = (ref(module), observer)
        self.inspector.calls.add(module, observer)

    def _has_training(self):
        loop, training = self.inspector.monitor.loop, self.inspector.adapter.training
        return bool(loop.optimizers_made or loop.backwards or training.steps)

    def end(self):
        """Forgets all models: the program trains. A phase that is under way was no validation of a training."""
        if self._ended:
            return
        self._ended = True
        for key, (_, observer) in self._known.items():
            self.inspector.calls.remove(key, observer)
        self._known.clear()
        evaluation = self.inspector.monitor.evaluation
        if not evaluation.phases:
            evaluation.open = False

    def _run_guarded(self, call, *args):
        try:
            call(*args)
        except Exception as error:
            self.inspector.failed("torch.evaluated", error)

    def _begins(self, module, stochastic, args, kwargs):
        inspector = self.inspector
        if self._inside is not None or inspector.adapter.is_compiling():
            return
        self._inside = ref(module)
        training = module.training and any(one.training for one in stochastic) if stochastic else module.training
        evaluation, grad = inspector.monitor.evaluation, self.torch.is_grad_enabled()
        evaluation.forward(1, class_name(module), training, grad, bool(stochastic))
        batch = inspector.batch_of(args, kwargs, False, 0)
        if batch is not None:
            evaluation.batch(batch)
        inspector.look_at_inputs(args, kwargs)

    def _leave(self, module):
        if self._inside is not None and self._inside() is module:
            self._inside = None
