"""The experiment that a run belongs to."""

from __future__ import annotations

from pathlib import Path

from labbook.store.notebook import Notebook


def run_experiment(
    notebook: Notebook, script: str, chosen: str, project: str, root: str, *, is_missing: bool = False
) -> str:
    """Returns the experiment of the run: the chosen one, or that of its script and project.

    Args:
        is_missing: Whether there is no such script: a mistyped name creates no experiment, then the result may be "".
    """
    from labbook.store.experiment_of_script import choose_experiment, script_mode

    chosen = chosen or _started_experiment(notebook) or notebook.config.experiment
    mode = "" if is_missing else script_mode(Path(script))
    return choose_experiment(notebook, script, chosen, project=project, root=root, mode=mode)


def _started_experiment(notebook: Notebook) -> str:
    """Returns the experiment that `labbook new` started in this folder, if its page is still there."""
    from labbook.store.started_experiment import started_experiment

    try:
        slug = started_experiment(notebook, Path.cwd())
    except OSError:  # the folder was deleted
        return ""
    return slug if slug and (notebook.paths.experiments / f"{slug}.md").is_file() else ""
