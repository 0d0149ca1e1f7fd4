"""Compares the environment of a recorded run with the one that is there, and sets the recorded variables."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.capture.command import find_program_file
from labbook.capture.launchers import is_python
from labbook.capture.python_env import find_packages
from labbook.compare.run_settings import INSTALLERS, captured_facts, environment_variables
from labbook.model.message import Message, message
from labbook.rerun.recorded_code import RecordedCode

_MAX_TOLD = 6
_OF_THE_MACHINE = ("CUDA_VISIBLE_DEVICES", "SLURM_", "OMPI_", "PMI_", "LABBOOK_", "PATH", "VIRTUAL_ENV", "CONDA_")


def recorded_variables(run: Mapping[str, Any], code: RecordedCode) -> dict[str, str]:
    """Returns the recorded environment variables that make sense on any machine, with folders of the code moved."""
    found = {}
    for name, value in (environment_variables(run) or {}).items():
        text = str(value)
        if isinstance(value, str) and "[REDACTED" not in text and not name.startswith(_OF_THE_MACHINE):
            found[str(name)] = code.move_paths(text)
    return found


def project_sources(run: Mapping[str, Any], code: RecordedCode) -> list[Path]:
    """Returns the folders of the worktree for packages that are installed from the project, to import from first.

    An editable installation leads to the checkout, which has other code by now. A package with compiled modules, which
    git does not hold, remains where it is.
    """
    found = []
    for folder in _project_folders(run, code).values():
        original = code.original_top / folder.relative_to(code.top)
        place = folder / "src" if (folder / "src").is_dir() else folder
        if place.is_dir() and not any(any(original.glob(f"{below}*.so")) for below in ("", "*/", "*/*/", "*/*/*/")):
            found.append(place)
    return list(dict.fromkeys(found))


def _project_folders(run: Mapping[str, Any], code: RecordedCode) -> dict[str, Path]:
    """Returns the packages that come from folders of the project: name -> the same folder of the worktree."""
    origins = captured_facts(run, "python").get("origins")
    urls = {name: str(origin.get("url")) for name, origin in origins.items()} if isinstance(origins, Mapping) else {}
    folders = {str(name): Path(url).expanduser() for name, url in urls.items() if "://" not in url}
    return {
        name: code.top / folder.relative_to(code.original_top)
        for name, folder in folders.items()
        if folder.is_relative_to(code.original_top)
    }


def compare_environment(run: Mapping[str, Any], command: Sequence[str], code: RecordedCode) -> list[Message]:
    """Returns how the environment in which a command would run differs from the recorded one, at most one sentence."""
    recorded = captured_facts(run, "python")
    was = recorded.get("packages")
    program = find_program_file(command, code.cwd)
    name = program.interpreter or (command[0] if command and is_python(Path(command[0]).name) else "python")
    interpreter = shutil.which(name, path=os.environ.get("PATH"))
    if not isinstance(was, Mapping) or not was or interpreter is None:
        return []
    version, paths = ask_interpreter(interpreter)
    now, _ = find_packages(paths)
    if not version:
        return []
    changes = [f"Python {version} ({recorded['version']})"] if version != recorded.get("version") else []
    for package in sorted({*was, *now} - INSTALLERS - {*_project_folders(run, code)}):
        before, present = str(was.get(package) or ""), now.get(package, "")
        # A package more does not change a program that ran without it.
        if before and before != present:
            changes.append(f"{package} {present or '-'} ({before})")
    if not changes:
        return []
    rest = len(changes) - _MAX_TOLD
    if rest > 0:
        return [message("rerun.packages_differ_more", what=changes[:_MAX_TOLD], more=rest)]
    return [message("rerun.packages_differ", what=changes)]


def ask_interpreter(interpreter: str) -> tuple[str, list[Path]]:
    """Returns the version and the `sys.path` of an interpreter, "" and nothing if it does not start."""
    code = "import sys; print('.'.join(map(str, sys.version_info[:3])), *sys.path[1:], sep='\\n')"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        version, *paths = done.stdout.splitlines()
        return version, [Path(path) for path in paths if path]
    return "", []


@contextlib.contextmanager
def set_environment(variables: Mapping[str, str], path: Path | None, sources: Sequence[Path] = ()) -> Iterator[None]:
    """Sets environment variables for a time.

    Args:
        variables: Name -> value.
        path: Folder that is searched for programs first, or `None`.
        sources: Folders that Python imports from first.
    """
    before = dict(os.environ)
    os.environ.update(variables)
    if path is not None:
        os.environ["PATH"] = f"{path}{os.pathsep}{os.environ.get('PATH', '')}"
        os.environ["VIRTUAL_ENV"] = str(path.parent)
        os.environ.pop("PYTHONHOME", None)
    if sources:
        present = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, sources), *present])
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
