"""Finds the project of a command: the repository of its program, or its folder outside git.

Two projects have programs of the same name, `train.py`: they share no experiment, no previous run and no fix.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from labbook.capture.command import find_program_file
from labbook.store.project_folder import Project, find_repository, identify_project


def find_project(argv: Sequence[str], cwd: Path, notebook: Path) -> Project:
    """Returns the project of a command.

    Args:
        notebook: Root of the notebook. The repository or folder that holds it is its own project.
    """
    program = find_program_file(argv, cwd)
    installed = program.path is None or "site-packages" in program.path.parts or program.kind == "program"
    folder = program.folder if installed or program.path is None else program.path.resolve().parent
    top = find_repository(folder)
    if top is None and folder.resolve().is_relative_to(cwd.resolve()):
        folder = cwd
    return identify_project(folder, top, notebook)
