"""Builds the recorded Python environment again: by conda, uv, or venv and pip."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.compare.run_settings import captured_facts
from labbook.errors import NotebookError, UsageError
from labbook.frozen import dataclass
from labbook.model.message import Message, message
from labbook.rerun.recorded_code import RecordedCode, cache_folder
from labbook.rerun.recorded_environment import ask_interpreter
from labbook.store.locks import hold_lock
from labbook.store.notebook import Notebook

_BUILD_S = 3600
_CONDA = ("mamba", "micromamba", "conda")
_YES = {"CONDA_ALWAYS_YES": "true", "MAMBA_ALWAYS_YES": "true"}
"""`conda env create` knows `--yes` since version 23.5 only."""
_INDEXES = {
    "torch": "https://download.pytorch.org/whl/{build}",
    "paddlepaddle-gpu": "https://www.paddlepaddle.org.cn/packages/stable/{build}/",
}
"""Package -> index of its builds for a CUDA version, which its version names: `2.13.0+cu126`. Source: the installation
pages of both frameworks."""
_BUILD = re.compile(r"\+(cpu|cu\d+|rocm[\d.]+|xpu)$")
_UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|NameResolution|ProxyError|dns error|error sending request"
    r"|Network is unreachable|Temporary failure in name resolution|CondaHTTPError|ConnectionRefused|Connection refused",
    re.IGNORECASE,
)
_HOST = re.compile(r"(?:https?://(?:[^@/\s]*@)?|host=')([\w.-]+)")


@dataclass(frozen=True)
class RebuiltEnvironment:
    """An environment with the recorded packages.

    Args:
        sources: Folders of local packages, which Python imports from first.
        notes: What is not as it was recorded.
    """

    programs: Path
    sources: tuple[Path, ...] = ()
    notes: tuple[Message, ...] = ()


def rebuild_environment(notebook: Notebook, run: Mapping[str, Any], code: RecordedCode) -> RebuiltEnvironment:
    """Builds the recorded environment, once for each list of packages.

    Args:
        notebook: The notebook with the run's `environment.yml`.
        run: The `run.json`.
        code: Its code in a folder; packages that were installed from it are imported from there.

    Raises:
        UsageError: The packages were not recorded.
        NotebookError: The environment cannot be built.
    """
    python = captured_facts(run, "python")
    packages = python.get("packages")
    if not isinstance(packages, Mapping) or not packages:
        raise UsageError("errors.rerun.no_packages", run=run.get("id"))
    sources, notes = _local_sources(python, code)
    lines = _requirement_lines(python)
    version = str(python.get("version") or "")
    yml = notebook.paths.attachments(str(run.get("id"))) / "environment.yml"
    conda = next((found for name in _CONDA if (found := shutil.which(name))), "")
    with_conda = python.get("kind") == "conda" and bool(conda) and yml.is_file()
    if python.get("kind") == "conda" and not with_conda:
        notes.append(message("rerun.without_conda"))
    recipe = yml.read_text("utf-8", "replace") if with_conda else "\n".join([version, *lines])
    folder = cache_folder() / "environments" / hashlib.sha256(recipe.encode()).hexdigest()[:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Another rerun may build the same one now.
    with hold_lock(folder.with_suffix(".lock"), _BUILD_S):
        if not (folder / "complete").is_file():
            listed = folder.with_suffix(".txt")
            listed.write_text("\n".join(lines) + "\n", "utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            commands = _conda_commands(conda, yml, folder) if with_conda else _build_commands(folder, version, listed)
            try:
                notes += _build(commands, listed)
            except NotebookError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            (folder / "complete").touch()
    return RebuiltEnvironment(folder / "bin", tuple(sources), tuple(notes))


def _build(commands: Sequence[list[str]], listed: Path) -> list[Message]:
    """Makes an environment; the last command installs the packages of `listed`.

    uv ends at an index that does not answer, though a mirror in its settings has the packages: then without that index.
    """
    try:
        for command in commands:
            _call(command)
    except NotebookError as error:
        lines = listed.read_text("utf-8").splitlines()
        rest = [line for line in lines if not line.startswith("--extra-index-url")]
        if error.key != "errors.rerun.registry_unreachable" or rest == lines or str(listed) not in commands[-1]:
            raise
        listed.write_text("\n".join(rest) + "\n", "utf-8")
        try:
            _call(commands[-1])
        except NotebookError:
            raise error from None
        return [message("rerun.without_index", index=next(line for line in lines if line not in rest).split()[1])]
    return []


def _requirement_lines(python: Mapping[str, Any]) -> list[str]:
    """Returns the lines of a requirements file: pinned packages, those of a repository by commit, and indexes."""
    origins: Any = python.get("origins") or {}
    pins, indexes = [], []
    for name, version in sorted(python["packages"].items()):
        origin = origins.get(name)
        if origin is not None and "://" in str(origin.get("url")):
            commit = str(origin.get("commit") or "")
            pins.append(f"{name} @ {origin['url']}" + (f"@{commit}" if commit else ""))
        elif origin is None and version:
            pins.append(f"{name}=={version}")
            build = _BUILD.search(version)
            if build and name in _INDEXES:
                indexes.append(f"--extra-index-url {_INDEXES[name].format(build=build[1])}")
    return [*indexes, *pins]


def _local_sources(python: Mapping[str, Any], code: RecordedCode) -> tuple[list[Path], list[Message]]:
    """Returns the folders of packages that were installed from a folder, and what is to be known about them."""
    sources: list[Path] = []
    notes = []
    origins = python.get("origins")
    for name, origin in origins.items() if isinstance(origins, Mapping) else ():
        url = str(origin.get("url") or "")
        if "://" in url:
            continue
        folder = Path(url).expanduser()
        if folder.is_relative_to(code.original_top):
            folder = code.top / folder.relative_to(code.original_top)
        elif folder.is_dir():
            notes.append(
                message("rerun.local_package", name=name, folder=url, commit=str(origin.get("commit") or "-")[:9])
            )
        else:
            notes.append(message("rerun.local_package_gone", name=name, folder=url))
        sources += [place for place in (folder / "src", folder) if place.is_dir()]
    return list(dict.fromkeys(sources)), notes


def _conda_commands(conda: str, yml: Path, folder: Path) -> list[list[str]]:
    words = ["create"] if Path(conda).name == "micromamba" else ["env", "create"]
    return [[conda, *words, "--quiet", "--prefix", str(folder), "--file", str(yml)]]


def _build_commands(folder: Path, version: str, listed: Path) -> list[list[str]]:
    python = str(folder / "bin" / "python")
    uv = shutil.which("uv")
    if uv is not None:
        install = [uv, "pip", "install", "--quiet", "--python", python, "--index-strategy", "unsafe-best-match"]
        make = [uv, "venv", "--quiet", "--python", version or "3", str(folder)]
        return [make, [*install, "--no-deps", "-r", str(listed)]]
    short = ".".join(version.split(".")[:2])
    interpreter = _find_interpreter(version, short) if short else sys.executable
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    return [[interpreter, "-m", "venv", str(folder)], [*pip, "-r", str(listed)]]


def _interpreters(short: str) -> Iterator[str]:
    """Yields interpreters of this machine, those that are likelier of a version first.

    The `python3.8` of pyenv exists without being a Python 3.8; it is asked for its version like every other.
    """
    for name in (f"python{short}", "python3", "python"):
        if found := shutil.which(name):
            yield found
    yield sys.executable
    versions = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    yield from map(str, sorted(versions.glob(f"{short}*/bin/python"), reverse=True))


def _find_interpreter(version: str, short: str) -> str:
    """Returns an interpreter of the recorded version, without its last number.

    Raises:
        NotebookError: There is none; names the versions that are there.
    """
    present = set()
    for candidate in _interpreters(short):
        found = ".".join(ask_interpreter(candidate)[0].split(".")[:2])
        if found == short:
            return candidate
        present.add(found)
    raise NotebookError(
        "errors.rerun.no_python", version=version, present=", ".join(sorted(present - {""})) or "-", short=short
    )


def _call(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BUILD_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_YES},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotebookError("errors.rerun.environment_not_built", reason=error) from error
    if done.returncode:
        text = f"{done.stderr}\n{done.stdout}"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        line = next((line for line in lines if re.match(r"(?i)(error|×|x )\b", line)), "")
        line = line or next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "-")
        line = re.sub(r"(?i)^error:\s*|\s*\(from versions: .*\)", "", line)
        if _UNREACHABLE.search(text):
            host = _HOST.search(text)
            named = "" if host is None or host[1] in line else f"{host[1]}: "
            raise NotebookError("errors.rerun.registry_unreachable", reason=f"{named}{line}"[:300])
        raise NotebookError("errors.rerun.package_not_installed", reason=line[:300])
