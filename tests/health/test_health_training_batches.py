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


@pytest.mark.parametrize(("given", "verdict"), [(None, "note"), (12.0, "note"), (3.0, "ok")])
def test_an_input_that_the_first_layer_does_not_get_is_not_judged(ask, make_model, looks, given, verdict):
    """The observations that a probabilistic model is called with, beside its features."""
    leaf = {
        "path": "1",
        "role": "input",
        "shape": [32],
        "integer": False,
        "mean": 9.4,
        "std": 2.0,
        "min": 4.4,
        "max": 15,
    }
    row = {"i": 1, "std": 1.0, **({"given": {"shape": [8], "min": 0.0, "max": given}} if given else {})}
    batches = tuple({"step": n, "phase": "train", "samples": 32, "leaves": [leaf]} for n in range(1, 21))
    signals = {
        "batches": batches,
        "models": (make_model("Linear", "Linear"),),
        "tensors": looks(modules=lambda _: [row]),
    }
    assert ask("input_not_normalised", signals=signals).verdict == verdict
