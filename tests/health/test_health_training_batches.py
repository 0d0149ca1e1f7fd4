"""What counts as an input of a training."""

import pytest

from labbook.health.evidence.training_batches import input_leaves
from labbook.model.signals import Signals


@pytest.mark.parametrize(
    ("path", "shape", "options", "is_data"),
    [
        ("1", [1, 32, 8], {"hidden_size": 8, "num_layers": 1}, False),
        ("1.0", [2, 32, 8], {"hidden_size": 8, "num_layers": 1}, False),  # both directions
        ("1", [32, 8], {"hidden_size": 8}, False),  # of a cell
        ("0", [1, 32, 8], {"hidden_size": 8, "num_layers": 1}, True),
        ("1", [32, 9, 8], {"hidden_size": 8, "num_layers": 1}, True),
        ("1", [32, 8], {"hidden_size": 8, "num_layers": 1}, True),
        ("1", [1, 32, 8], {}, True),
    ],
)
def test_the_state_of_a_recurrent_layer_is_no_input(make_model, path, shape, options, is_data):
    model = make_model("GRU")
    model["modules"][-1]["options"] = options
    leaf = {"path": path, "role": "input", "shape": shape, "integer": False}
    batch = {"step": 1, "phase": "train", "samples": 32, "leaves": [leaf]}
    assert bool(input_leaves(Signals("torch", models=(model,), batches=(batch,)))) == is_data
