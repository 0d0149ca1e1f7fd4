"""labbook: a laboratory notebook that writes itself.

`labbook record -- python train.py` turns a PyTorch or PaddlePaddle run into a Markdown entry committed to git.

Inside a program, `labbook.log(step=3, loss=0.2)`, `labbook.note("text")` and `labbook.keep("best.pt")` add to the entry
of the run that is being recorded; outside a recorded run they do nothing. `with labbook.trial(lr=lr):` makes each of
several trainings in one program an entry of its own. `labbook.checks` holds checks for before and
during a training. `labbook.diagnose(error)` says what an exception means, and `with labbook.diagnosed():`, which is a
decorator as well, says it on standard error for whatever is raised inside.
`labbook.list_runs("lr<0.02 status:finished")` and `labbook.search("loss nan")` query the notebook as the commands do;
`labbook.last()` is the newest run, and shows itself in a Jupyter notebook.
`with labbook.recording():` records a part of a running process, and `%load_ext labbook` cells of a Jupyter notebook.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from labbook.api import keep, log, note, trial

__all__ = [
    "__version__",
    "checks",
    "diagnose",
    "diagnosed",
    "keep",
    "last",
    "list_runs",
    "log",
    "note",
    "recording",
    "search",
    "trial",
]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module
    """What is imported only when it is asked for: modules and functions with many imports."""
    if name == "checks":
        return import_module("labbook.checks")
    if name == "diagnosed":
        return import_module("labbook.findings.exception_api").diagnosed
    if name == "diagnose":
        return import_module("labbook.findings.exception_api").diagnose_exception
    if name == "list_runs":
        return import_module("labbook.findings.query_api").list_runs
    if name == "last":
        return import_module("labbook.last_run").last
    if name == "recording":
        return import_module("labbook.live_recording").recording
    if name == "search":
        return import_module("labbook.findings.query_api").search_notes
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:  # noqa: ANN401 - of IPython
    """Registers the magics of `%load_ext labbook`."""
    import_module("labbook.notebook_magics").load(shell)
