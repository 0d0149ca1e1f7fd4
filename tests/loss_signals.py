"""Loss calls, and losses of simulated trainings, for the tests of health checks."""

import math


def loss(**fields):
    """Signals with one loss call of a healthy classifier; `fields` replace its own."""
    call = {"fn": "cross_entropy", "line": "t.py:7", "training": True, "calls": 50, "observed": 20, "classes": 10}
    shapes = {
        "input": {"shape": [32, 10], "min": -3.0, "max": 3.0, "zero": 0.0},
        "target": {"shape": [32], "dtype": "int64"},
    }
    return {"losses": ({**call, "reduction": "mean", "value_first": 2.3, **shapes, **fields},)}


def classifier(values, classes=10, **fields):
    """Returns the signals of a cross entropy with these values; `fields` are further facts of the function."""
    call = {
        "fn": "cross_entropy",
        "training": True,
        "calls": len(values),
        "classes": classes,
        "step": 1,
        "observed": 20,
    }
    ends = {"value_first": values[0], "value_last": values[-1], "reduction": "mean", "line": "t.py:1"}
    return {"losses": ({**call, **ends, **fields},)}


def flat(random_, level=2.3, n=300, noise=0.03):
    """Returns noisy values around a level."""
    return [level * math.exp(random_.gauss(0, noise)) for _ in range(n)]
