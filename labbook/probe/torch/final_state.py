"""Saves the state of a PyTorch training when its process ends."""

import time

from ..inspection import final_state
from .checkpoints import state_of
from .framework_state import is_gpu_in_use


class FinalState(final_state.FinalState):
    """The state of one process that uses PyTorch, as `torch.save` writes it and `torch.load` reads it."""

    ENDING = ".pt"

    def _modules(self, model):
        return model.modules()

    def _tensors(self, model):
        return {name: tensor.detach() for name, tensor in state_of(model).items()}

    def _random_states(self):
        torch = self._adapter.module
        states = {"torch": torch.get_rng_state()}
        if is_gpu_in_use(torch):
            states["cuda"] = torch.cuda.get_rng_state_all()
        return states

    def _bytes_of(self, tensor):
        if not isinstance(tensor, self._adapter.module.Tensor):
            return 0
        return tensor.numel() * tensor.element_size()

    def _is_idle(self, deadline):
        torch = self._adapter.module
        if not is_gpu_in_use(torch):
            return True
        events = []
        for index in range(torch.cuda.device_count()):
            with torch.cuda.device(index):
                events.append(torch.cuda.Event())
                events[-1].record()
        while not all(event.query() for event in events):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True
