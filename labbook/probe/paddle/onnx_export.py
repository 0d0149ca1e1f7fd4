"""Exports PaddlePaddle models as ONNX."""

from ..inspection import onnx_export


class OnnxExport(onnx_export.OnnxExport):
    """The export of one process that uses PaddlePaddle."""

    PACKAGES = ("paddle2onnx",)

    def _export(self, model, args, kwargs, path):
        paddle = self.framework
        model = getattr(model, "_layers", model)
        spec = []
        for value in list(args) + list(kwargs.values()):
            if isinstance(value, paddle.Tensor):
                shape = [None] * min(1, value.ndim) + list(value.shape)[1:]
                spec.append(paddle.static.InputSpec(shape, str(value.dtype).rpartition(".")[2]))
        paddle.onnx.export(model, path[: -len(".onnx")], input_spec=spec, opset_version=13)

    def _load(self, model, path):
        held = model.state_dict()
        model.set_state_dict(onnx_export.weights_in(self.framework.load(path), held))
