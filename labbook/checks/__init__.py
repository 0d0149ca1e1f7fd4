"""Checks to call from a training program, the same for PyTorch and PaddlePaddle.

Start with `checklist(model, loader, optimizer, loss)` in `check_suite`: it examines data, model, loss, gradients and
one step before a long training. `overfit_one_batch`, `gradcheck` and `trace` each run one check. Results
(`results`) print as tables; inside a recorded run they appear in the entry (`report_to_run`).

`backend.py` is the interface to a framework, with two implementations, `torch_backend` and `paddle_backend`;
`backend_choice` imports only that of the framework whose objects were passed. `state_guard` restores everything that
a check touches: weights, gradients, optimizer, modes and random state are bitwise the same afterwards.

To add a row to the checklist, write a function in `rows_data` or `rows_step`. Automatic checks of a recorded run
belong to `health/`.
"""

from labbook.checks.check_suite import checklist
from labbook.checks.gradients import gradcheck
from labbook.checks.layers import trace
from labbook.checks.overfit import overfit_one_batch
from labbook.checks.results import Checklist, GradCheck, Overfit, Result, Row, Trace

__all__ = [
    "Checklist",
    "GradCheck",
    "Overfit",
    "Result",
    "Row",
    "Trace",
    "checklist",
    "gradcheck",
    "overfit_one_batch",
    "trace",
]
