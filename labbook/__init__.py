"""labbook: a laboratory notebook that writes itself.

`labbook record -- python train.py` turns a PyTorch or PaddlePaddle run into a Markdown entry committed to git.

Inside a program, `labbook.log(step=3, loss=0.2)` and `labbook.note("text")` add to the entry of the run that is being
recorded; outside a recorded run they do nothing. `labbook.checks` holds checks for before and during a training.
`labbook.diagnose(error)` says what an exception means, and `with labbook.diagnosed():`, which is a decorator as well,
says it on standard error for whatever is raised inside.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from labbook.api import log, note

__all__ = ["__version__", "checks", "diagnose", "diagnosed", "log", "note"]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module
    """What is imported only when it is asked for: `checks`, `diagnose`, `diagnosed`."""
    if name == "checks":
        return import_module("labbook.checks")
    if name == "diagnosed":
        return import_module("labbook.findings.exception_api").diagnosed
    if name == "diagnose":
        return import_module("labbook.findings.exception_api").diagnose_exception
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
