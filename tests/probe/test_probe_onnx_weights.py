from __future__ import annotations

import pytest

from labbook.probe.inspection.onnx_export import weights_in


@pytest.mark.parametrize(
    "checkpoint",
    [
        {"body.weight": 1, "more": 2},
        {"epoch": 3, "model": {"body.weight": 1}},
        {"state_dict": {"model.body.weight": 1}, "optimizer": {"body.weight": 7}},
        {"model_state_dict": {"module.body.weight": 1}},
        {"_orig_mod.body.weight": 1},
    ],
)
def test_weights_are_found_in_the_usual_checkpoints(checkpoint):
    assert weights_in(checkpoint, ["body.weight"]) == {"body.weight": 1}


def test_other_weights_are_refused():
    with pytest.raises(ValueError, match="no weights for this model"):
        weights_in({"model": {"other": 1}}, ["body.weight"])
