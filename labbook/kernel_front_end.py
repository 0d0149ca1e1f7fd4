"""The front end of the kernel that this process is: its shell, its notebook, links among its outputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote


def find_shell() -> Any:  # noqa: ANN401 - of IPython
    """Returns the shell of IPython in which this process runs, or `None`; a kernel's has a `kernel`."""
    get: Callable[[], Any] | None = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get() if get is not None else None


def kernel_command(shell: Any) -> list[str]:  # noqa: ANN401 - of IPython
    """Returns the command of this process; of a kernel, with its notebook if the front end names it."""
    if hasattr(shell, "kernel"):
        path = _notebook_file(shell)
        return ["jupyter", "notebook", *([os.path.relpath(path)] if path else [])]
    words = getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv]
    return [str(word) for word in words]


def file_link(path: str) -> str:
    """Returns a file as an HTML link that JupyterLab and VS Code open; "" where no notebook is known."""
    notebook = _notebook_file(find_shell())
    if not notebook:
        return ""
    # Front ends read links from the folder of the notebook, which may not be the working folder.
    target = os.path.relpath(path, Path(notebook).absolute().parent)
    return f'<a href="{quote(target)}" target="_blank">{escape(path)}</a>'


def _notebook_file(shell: Any) -> str:  # noqa: ANN401 - of IPython
    """Returns the notebook of a kernel, "" if the front end does not name it."""
    named = str(getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", ""))
    return named if named.endswith(".ipynb") and Path(named).is_file() else ""
