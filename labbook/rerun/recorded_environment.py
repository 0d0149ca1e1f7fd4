"""Compares the environment of a recorded run with the one that is there, and builds the recorded one again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labbook.compare.run_settings import captured_facts, environment_variables
from labbook.errors import NotebookError, UsageError
from labbook.rerun.recorded_code import RecordedCode, cache_folder

_BUILD_S = 3600
_OF_THE_MACHINE = ("CUDA_VISIBLE_DEVICES", "SLURM_", "OMPI_", "PMI_", "LABBOOK_", "PATH", "VIRTUAL_ENV", "CONDA_")


def recorded_variables(run: Mapping[str, Any], code: RecordedCode) -> dict[str, str]:
    """Returns the recorded environment variables that make sense on any machine, with folders of the code moved.

    Args:
        run: The `run.json`.
        code: Its code in a folder.
    """
    found = {}
    for name, value in (environment_variables(run) or {}).items():
        text = str(value)
        if isinstance(value, str) and "[REDACTED" not in text and not name.startswith(_OF_THE_MACHINE):
            found[str(name)] = text.replace(str(code.original), str(code.cwd))
    return found


def rebuilt_environment(run: Mapping[str, Any]) -> Path:
    """Builds the recorded Python environment, once for each list of packages, and returns its `bin` folder.

    Args:
        run: The `run.json`.

    Raises:
        UsageError: The packages were not recorded.
        NotebookError: The environment cannot be built.
    """
    python = captured_facts(run, "python")
    packages = python.get("packages")
    if not isinstance(packages, Mapping) or not packages:
        raise UsageError("errors.rerun.no_packages", run=run.get("id"))
    wanted = sorted(f"{name}=={version}" for name, version in packages.items() if version)
    version = str(python.get("version") or "")
    key = hashlib.sha256("\n".join([version, *wanted]).encode()).hexdigest()[:16]
    folder = cache_folder() / "environments" / key
    if (folder / "complete").is_file():
        return folder / "bin"
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    listed = folder.with_suffix(".txt")
    listed.write_text("\n".join(wanted) + "\n", "utf-8")
    for command in _build_commands(folder, version, listed):
        _call(command)
    (folder / "complete").touch()
    return folder / "bin"


def _build_commands(folder: Path, version: str, listed: Path) -> list[list[str]]:
    uv = shutil.which("uv")
    if uv is not None:
        install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), "--no-deps", "-r"]
        return [[uv, "venv", "--quiet", "--python", version or "3", str(folder)], [*install, str(listed)]]
    short = ".".join(version.split(".")[:2])
    interpreter = next((found for name in (f"python{short}", "python3") if (found := shutil.which(name))), "")
    present = _version_of(interpreter) if interpreter else "none"
    if short and present != short:
        raise NotebookError("errors.rerun.no_python", version=version, present=present, short=short)
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    return [[interpreter, "-m", "venv", str(folder)], [*pip, "--no-deps", "-r", str(listed)]]


def _version_of(interpreter: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.strip()
    return ""


def _call(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_BUILD_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotebookError("errors.rerun.environment_not_built", reason=error) from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        line = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no reason given")
        raise NotebookError("errors.rerun.package_not_installed", reason=line.strip()[:300])


def with_environment(variables: Mapping[str, str], path: Path | None) -> contextlib.AbstractContextManager[None]:
    """Sets environment variables for a time.

    Args:
        variables: Name -> value.
        path: Folder that is searched for programs first, or `None`.
    """

    @contextlib.contextmanager
    def during() -> Any:  # noqa: ANN401 - a generator
        before = dict(os.environ)
        os.environ.update(variables)
        if path is not None:
            os.environ["PATH"] = f"{path}{os.pathsep}{os.environ.get('PATH', '')}"
            os.environ["VIRTUAL_ENV"] = str(path.parent)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    return during()
