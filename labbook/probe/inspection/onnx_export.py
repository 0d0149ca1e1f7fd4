"""Exports the models of a program as ONNX at its first optimizer step, and ends the process.

For `labbook graph --onnx`, which runs a recorded program again for this alone: the model is the one that the program
made, with the inputs of its first training step. Weights that the run kept are loaded before. A framework implements
`_export(model, args, kwargs, path)` and `_load(model, path)`.
"""

import json
import os
import sys

from .model_lookup import class_name

_NESTED = ("model", "state_dict", "model_state_dict", "net", "network", "params")
"""Keys under which checkpoints have the weights of the model."""

_PREFIXES = ("module.", "_orig_mod.", "model.")
"""What wrappers put before the names of parameters: data parallel, compiled, Lightning."""


class OnnxExport:
    """The export of one process.

    Args:
        framework: The module `torch` or `paddle`.
        wanted: `{"file": path of the result without its ending, "weights": path of a checkpoint or ""}`.

    Attributes:
        PACKAGES: Packages that the framework needs for it.
    """

    PACKAGES = ()

    def __init__(self, framework, wanted):
        self.framework = framework
        self._wanted = wanted
        self._called = {}

    def on_forward(self, root, args, kwargs):
        """Processes the inputs of a training forward of an outermost model."""
        self._called[root.index] = (root, args, kwargs)

    def finish(self):
        """Writes the models and a report beside them, and ends the process without its exit handlers."""
        rows = []
        for number, (root, args, kwargs) in enumerate(self._called.values(), start=1):
            model = root.module()
            if model is not None:
                path = "%s%s.onnx" % (self._wanted["file"], "" if number == 1 else "-%d" % number)
                rows.append(self._attempt(model, args, kwargs, path))
        with open(self._wanted["file"] + ".json", "w", encoding="utf-8") as file:
            json.dump(rows, file)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass
        os._exit(0)

    def _attempt(self, model, args, kwargs, path):
        row = {"model": class_name(model), "file": path, "weights": "", "error": "", "missing": []}
        weights = self._wanted.get("weights")
        if weights:
            try:
                self._load(model, weights)
                row["weights"] = "loaded"
            except Exception as error:
                row["weights"] = first_line(error)
        try:
            model.eval()
            self._export(model, args, kwargs, path)
        except (Exception, SystemExit) as error:
            # paddle2onnx ends the process where it cannot convert a model.
            row["error"] = first_line(error.__context__ or error if isinstance(error, SystemExit) else error)
            row["missing"] = [name for name in self.PACKAGES if not is_installed(name)]
        return row

    def _export(self, model, args, kwargs, path):
        raise NotImplementedError

    def _load(self, model, path):
        raise NotImplementedError


def first_line(error):
    """The class and the first line of an exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "%s: %s" % (type(error).__name__, lines[0][:300] if lines else "")


def is_installed(name):
    """Whether a package can be imported."""
    from importlib.util import find_spec

    return find_spec(name) is not None


def weights_in(checkpoint, names):
    """The weights of a model in what a checkpoint holds, under the names of its parameters.

    Raises:
        ValueError: They are not there.
    """
    wanted = set(names)
    places = [checkpoint] + [checkpoint[key] for key in _NESTED if isinstance(checkpoint.get(key), dict)]
    for state in reversed(places):
        for prefix in ("", *_PREFIXES):
            found = {key[len(prefix) :]: value for key, value in state.items() if str(key).startswith(prefix)}
            if wanted <= set(found):
                return {name: found[name] for name in wanted}
    raise ValueError("the checkpoint has no weights for this model")
