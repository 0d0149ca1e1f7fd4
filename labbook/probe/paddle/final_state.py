"""Saves the state of a PaddlePaddle training when its process ends."""

import time
from math import prod

from ..inspection import final_state
from .checkpoints import states_of


class FinalState(final_state.FinalState):
    """The state of one process that uses PaddlePaddle, as `paddle.save` writes it and `paddle.load` reads it."""

    ENDING = ".pdparams"

    def _modules(self, model):
        return model.sublayers(include_self=True)

    def _tensors(self, model):
        return dict(states_of(model))

    def _random_states(self):
        paddle = self._adapter.module
        states = {"paddle": paddle.base.core.default_cpu_generator().get_state()}
        if self._adapter.facts.is_gpu_in_use(paddle):
            states["cuda"] = paddle.get_cuda_rng_state()
        return states

    def _bytes_of(self, tensor):
        if not isinstance(tensor, self._adapter.module.Tensor):
            return 0
        return prod(tensor.shape) * tensor.element_size()

    def _is_idle(self, deadline):
        paddle = self._adapter.module
        if not self._adapter.facts.is_gpu_in_use(paddle):
            return True
        event = paddle.device.cuda.Event()
        event.record()
        while not event.query():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True
