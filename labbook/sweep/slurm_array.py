"""Writes the array script of a sweep for `sbatch`: one task for each trial, each recorded by labbook."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from labbook.store.notebook import Notebook, prepare_private
from labbook.sweep.sweep_runner import SweepRequest

_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=0-{last}{most}
{options}
export LABBOOK_SWEEP={name}
cd {folder} || exit 1
trials=(
{trials}
)
# Each trial is quoted for the shell.
eval "exec {labbook} -- ${{trials[$SLURM_ARRAY_TASK_ID]}}"
"""


def array_script(notebook: Notebook, request: SweepRequest, options: Sequence[str], folder: str) -> str:
    """Returns the script.

    Args:
        notebook: Notebook of the entries; it must be reachable under the same path on the nodes.
    """
    prepare_private(notebook)
    labbook = (sys.executable, "-m", "labbook", "record", "--notebook", str(notebook.paths.root))
    return _SCRIPT.format(
        name=shlex.quote(request.name),
        last=len(request.commands) - 1,
        most=f"%{request.jobs}" if request.jobs > 1 else "",
        options="".join(f"#SBATCH {option}\n" for option in options),
        folder=shlex.quote(folder),
        trials="\n".join(f"  {shlex.quote(shlex.join(command))}" for command in request.commands),
        labbook=shlex.join([*labbook, *request.record_options]).replace('"', '\\"').replace("$", "\\$"),
    )
