"""Checks to call from a training program, the same for PyTorch and PaddlePaddle.

`checklist(model, loader, optimizer, loss)` looks at data, model, loss, gradients and one step before a long training;
`overfit_one_batch(...)`, `gradcheck(...)` and `trace(...)` answer one question each. Everything they touch is put back:
weights, gradients, optimizer, modes and random state are bitwise as before. Results print as tables; inside a recorded
run they land in the entry. Only the framework whose objects were given is imported.
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
