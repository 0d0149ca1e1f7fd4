"""labbook: a laboratory notebook that writes itself.

`labbook record -- python train.py` turns a PyTorch or PaddlePaddle run into a Markdown entry committed to git.

Inside a program, `labbook.log(step=3, loss=0.2)` and `labbook.note("text")` add to the entry of the run that is being
recorded; outside a recorded run they do nothing. `labbook.checks` holds checks for before and during a training.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from labbook.api import log, note

__all__ = ["__version__", "checks", "log", "note"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module
    """`labbook.checks`, imported when it is first asked for."""
    if name == "checks":
        return import_module("labbook.checks")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
