"""A name that does not exist arrives with those that do, and looking for them runs no line of the program."""

from __future__ import annotations

import sys

import pytest

OWN = {"own": True}
ENCODER = ["skipkeys", "ensure_ascii", "check_circular", "allow_nan", "sort_keys", "indent", "separators", "default"]
HEAD = """
import collections
import json
class Counts(collections.Counter):
    pass
class Layer:
    width = 3
    def __init__(self, in_features, bias=True):
        self.weight = 1
    def reset(self, seed=0):
        pass
class Sly:
    kept = 1
    @property
    def trap(self):
        print("a property ran")
    def __getattr__(self, name):
        print("__getattr__ ran")
        raise AttributeError("'Sly' object has no attribute '%s'" % name)
    def __len__(self):
        print("__len__ ran")
        return 0
class Row(dict):
    def keys(self):
        print("keys ran")
        return []
layer, batch, row = Layer(3), {"images": 1, "labels": 2}, Row(Label=1)
class Box:
    history = {"accuracy": [], "loss": []}
box = Box()
learning_rate = 0.1
"""


@pytest.mark.parametrize(
    ("line", "missing", "near", "known", "own"),
    [
        ("layer.wieght", "wieght", ["weight"], [], OWN),
        ("Layer.widht", "widht", ["width"], [], OWN),
        ("layer.xyzzy", "xyzzy", [], [], OWN),
        ("sys.maxsise", "maxsise", ["maxsize"], [], {}),
        ("sys.xyzzy", "xyzzy", [], [], {}),
        ("json.JSONEncoder(kipkeys=1)", "kipkeys", ["skipkeys"], ENCODER, {}),
        ("Counts().updat", "updat", ["update"], [], {}),
        ("batch['image']", "image", ["images"], ["images", "labels"], {}),
        ("box.history['acc']", "acc", [], ["accuracy", "loss"], {}),
        ("row['label']", "label", ["Label"], ["Label"], {}),
        ("learning_rat + 1", "learning_rat", ["learning_rate"], [], {}),
        ("Layer(in_feature=3)", "in_feature", ["in_features"], ["in_features", "bias"], OWN),
        ("layer.reset(sed=1)", "sed", ["seed"], ["seed"], OWN),
    ],
)
def test_names_that_exist_come_with_one_that_does_not(probed, line, missing, near, known, own):
    if not line.endswith((")", "]", "1")) and sys.version_info < (3, 10):
        pytest.skip("before 3.10 an AttributeError does not refer to its object")
    probed.write("fail.py", f"import sys\n{HEAD}\n{line}\n")
    done = probed(sys.executable, "fail.py", check=None)
    (event,) = done.of("exception")
    assert event["names"] == {"missing": missing, "near": near, "known": known, **own}
    assert done.out == "" and not done.of("probe_error")


@pytest.mark.parametrize("line", ["Sly().missing", "1 / 0", "{}['key']", "raise KeyError(('a', 1))"])
def test_no_line_of_the_program_runs_and_unknown_names_are_left_out(probed, line):
    probed.write("fail.py", f"{HEAD}\nprint('begins')\n{line}\n")
    done = probed(sys.executable, "fail.py", check=None)
    (event,) = done.of("exception")
    sly = {"missing": "missing", "near": [], "known": [], **OWN}
    assert event["names"] == (sly if "Sly" in line and sys.version_info >= (3, 10) else {})
    # Python asks for the missing name itself, before the exception.
    assert done.out.replace("__getattr__ ran\n", "", 1) == "begins\n" and not done.of("probe_error")
