"""Exports PyTorch models as ONNX."""

import inspect

from ..inspection import onnx_export


class OnnxExport(onnx_export.OnnxExport):
    """The export of one process that uses PyTorch."""

    PACKAGES = ("onnx",)

    def _export(self, model, args, kwargs, path):
        torch = self.framework
        model = getattr(model, "_orig_mod", model)
        if type(model).__name__.startswith(("DistributedDataParallel", "DataParallel")):
            model = model.module
        options = {}
        names = _input_names(model, args, kwargs)
        values = list(args) + list(kwargs.values())
        if names and all(isinstance(value, torch.Tensor) for value in values):
            axes = {name: {0: "batch"} for name, value in zip(names, values) if value.dim()}
            options = {"input_names": names, "dynamic_axes": axes}
        if "dynamo" in inspect.signature(torch.onnx.export).parameters:
            # The exporter by tracing needs the package onnx alone, and takes what the program really ran.
            options["dynamo"] = False
        arguments = tuple(args) + ((dict(kwargs),) if kwargs else ())
        with torch.no_grad():
            try:
                torch.onnx.export(model, arguments, path, **options)
            except Exception:
                if "dynamo" not in options or not onnx_export.is_installed("onnxscript"):
                    raise
                torch.onnx.export(model, tuple(args), path, kwargs=dict(kwargs) or None, dynamo=True)

    def _load(self, model, path):
        held = model.state_dict()
        checkpoint = self.framework.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(onnx_export.weights_in(checkpoint, held))


def _input_names(model, args, kwargs):
    """The names of the inputs that were given, as `forward` calls them; none if it does not show them."""
    try:
        known = [
            name
            for name, one in inspect.signature(model.forward).parameters.items()
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return []
    if len(args) > len(known):
        return []
    names = known[: len(args)] + list(kwargs)
    return names if len(set(names)) == len(names) else []
