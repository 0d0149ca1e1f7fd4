"""The export of a model as ONNX, where a converter fails."""

from __future__ import annotations

import sys
import types

from labbook.probe.inspection.onnx_export import OnnxExport


def test_a_converter_that_ends_the_process_is_no_program_without_a_step():
    """paddle2onnx prints the reason and calls `sys.exit`, for example where `self` has another name."""

    class Converter(OnnxExport):
        def _export(self, model, args, kwargs, path):
            try:
                raise ValueError("`forward()` requires `x`")
            except ValueError:
                sys.exit(255)

    row = Converter(None, {})._attempt(types.SimpleNamespace(eval=lambda: None), (), {}, "m.onnx")
    assert row["error"] == "ValueError: `forward()` requires `x`"
