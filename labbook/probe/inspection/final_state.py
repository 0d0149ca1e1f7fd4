"""Saves the state of a training when its process ends: for the settings `snapshot` and `snapshot_state`.

It is saved after the last line of the program, from what still exists then, so that no step is delayed or changed. A
failed program leaves its models in the traceback. The model of a program that trains inside a function would be gone;
for `snapshot = "last"` the models of the last optimizers are held until the process ends.
"""

import atexit
import os
import random
import sys
import time
from io import BytesIO

from ..events.protocol import KEEP
from ..training.profiling import is_first_rank
from .run_totals import living_optimizers

FOLDER = "state"
"""Folder of the journal that the state is written to; the recorder moves it to the kept files."""

_WHAT = "state of the training at its end"
_LONGEST_S = 60.0
"""Longest time of writing. Source: chosen by us; a disk of 100 MB/s writes 6 GB in it."""

_DEVICE_S = 10.0
"""Longest wait for a device, which may wait for another rank that has died. Source: chosen by us."""

_FREE_BYTES = 256 << 20
_TOGETHER = 10
"""Optimizers that begin within so many steps are trained together, as those of a GAN. Source: chosen by us."""

_SHARDED = ("FullyShardedDataParallel", "FSDP", "DeepSpeedEngine", "GroupSharded", "Pipeline")
"""Beginnings of the names of classes whose parameters are spread over the ranks. Source: the frameworks' sources."""


class FinalState:
    """The state of one process.

    A framework implements `_tensors(model)`: name -> tensor, `_random_states()`, `_bytes_of(tensor)`: size of a tensor,
    or 0 for anything else, and `_is_idle(deadline)`: whether the devices have done all they were given before a time.
    """

    ENDING = ""

    def __init__(self, adapter, inspector):
        self._adapter = adapter
        self._probe = adapter.probe
        self._inspector = inspector
        self.forget()
        self._probe.at_end(self.save)
        self._probe.after_fork(self.forget)
        # Before the handlers of the framework, which were registered before.
        atexit.register(self._probe.guard("state")(self.save))

    def forget(self):
        """Begins anew, in a forked child or a further recording."""
        self._held = []
        self._done = False

    def follow(self, optimizer):
        """Holds an optimizer at its first step, with its model and schedulers; lets go of those trained before it."""
        if (self._probe.settings.get("state") or {}).get("when") != "last":
            return
        now = self._inspector.monitor.step
        kept = (now, optimizer, self._model_of(optimizer), self._inspector.loading.schedulers_of(optimizer))
        self._held = [one for one in self._held if one[0] >= now - _TOGETHER] + [kept]

    def save(self):
        """Writes the state, once, or the reason why it cannot be written."""
        wanted = self._probe.settings.get("state")
        if self._done or not wanted or not is_first_rank():
            return
        if wanted["when"] == "failed" and not self._probe.exceptions.failed:
            return
        self._done = True
        reason = "the search for it failed"
        try:
            with self._inspector.without_modes:
                reason = self._save(wanted["limit"])
        finally:
            self._held = []
            if reason:
                self._probe.unobserved(_WHAT, reason)

    def _save(self, limit):
        optimizers = [optimizer for _, optimizer in living_optimizers(self._inspector)]
        models = []
        for model in map(self._model_of, optimizers):
            if model is not None and all(model is not other for other in models):
                models.append(model)
        if not models:
            return "the model was freed before the process ended" if self._probe.step else ""
        if any(type(one).__name__.startswith(_SHARDED) for model in models for one in self._modules(model)):
            return "its parameters are spread over several processes"
        if not self._is_idle(time.monotonic() + _DEVICE_S):
            return "the device did not answer"
        state = {"step": self._probe.step, "random": self._all_random_states()}
        state["data"] = self._inspector.loaders.positions()
        for name, parts in self._parts(models, optimizers).items():
            for number, part in enumerate(parts, start=1):
                state[name if number == 1 else "%s_%d" % (name, number)] = part
        size = self._size(state)
        if size > limit:
            return "it is larger than the setting `snapshot_state`"
        folder = os.path.join(self._probe.journal, FOLDER)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        space = os.statvfs(folder)
        if space.f_bavail * space.f_frsize < size + _FREE_BYTES:
            return "no space left for the copy"
        return self._write_file(state, os.path.join(folder, "%s-%d%s" % (self._adapter.name, os.getpid(), self.ENDING)))

    def _parts(self, models, optimizers):
        parts = {"model": [self._tensors(model) for model in models], "optimizer": [], "scheduler": []}
        for optimizer in optimizers:
            parts["optimizer"].append(optimizer.state_dict())
            parts["scheduler"] += [one.state_dict() for one in self._inspector.loading.schedulers_of(optimizer)]
        return parts

    def _write_file(self, state, path):
        with BoundedFile(path, time.monotonic() + _LONGEST_S) as file:
            self._adapter.module.save(state, file)
        if file.problem:
            os.unlink(path)
            return file.problem
        status = os.stat(path)
        self._probe.event(
            KEEP,
            path=path,
            name="snapshot/state" + self.ENDING,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            step=self._probe.step,
        )
        return ""

    def _model_of(self, optimizer):
        held = self._adapter.facts.parameters(optimizer)
        root = self._inspector.roots.owner_of(held[0]) if held else None
        return root.module() if root is not None else None

    def _modules(self, model):
        """The model and all modules below it."""
        raise NotImplementedError

    def _all_random_states(self):
        """The states of all random generators, in types that a restricted `load` accepts too."""
        states = dict(self._random_states(), python=random.getstate())
        numpy = getattr(sys.modules.get("numpy"), "random", None)
        if numpy is not None:
            name, keys, *rest = numpy.get_state()
            states["numpy"] = (name, keys.tolist(), *rest)
        return states

    def _size(self, part):
        if isinstance(part, dict):
            return sum(map(self._size, part.values()))
        if isinstance(part, (list, tuple)):
            return sum(map(self._size, part))
        return self._bytes_of(part)


class BoundedFile(BytesIO):
    """A file that drops what is written after a deadline or after an error, which the frameworks do not survive.

    Args:
        path: It must not exist.
        deadline: On the monotonic clock.

    Attributes:
        problem: Why the file is incomplete, or "".
    """

    def __init__(self, path, deadline):
        super().__init__()
        self._deadline = deadline
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.problem = ""

    def write(self, data):
        """Writes bytes to the file; returns their number in any case."""
        view = memoryview(data).cast("B")
        size = view.nbytes
        try:
            while view.nbytes and not self.problem:
                if time.monotonic() > self._deadline:
                    self.problem = "it took longer than a minute"
                    break
                view = view[os.write(self._descriptor, view[: 16 << 20]) :]
        except OSError:
            self.problem = "no space left for the copy"
        return size

    def close(self):
        """Closes the file."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()
