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

TYPE_CHECKING = False  # `typing` and the modules below take longer to import than Ctrl-C may be without effect
if TYPE_CHECKING:
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

__version__ = "0.3.0"

_HOMES = {
    "checks": ("labbook.checks", ""),
    "diagnose": ("labbook.findings.exception_api", "diagnose_exception"),
    "diagnosed": ("labbook.findings.exception_api", "diagnosed"),
    "keep": ("labbook.api", "keep"),
    "last": ("labbook.last_run", "last"),
    "list_runs": ("labbook.findings.query_api", "list_runs"),
    "log": ("labbook.api", "log"),
    "note": ("labbook.api", "note"),
    "recording": ("labbook.live_recording", "recording"),
    "search": ("labbook.findings.query_api", "search_notes"),
    "trial": ("labbook.api", "trial"),
}
"""Name -> module and function ("" for the module), imported when the name is used."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module or a function
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, function = _HOMES[name]
    return getattr(import_module(module), function) if function else import_module(module)


def load_ipython_extension(shell: Any) -> None:  # noqa: ANN401 - of IPython
    """Registers the magics of `%load_ext labbook`."""
    import_module("labbook.notebook_magics").load(shell)
