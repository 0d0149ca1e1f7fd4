"""Reads the Python environment of the command's interpreter: kind, version, packages.

Facts: `version`, `executable`, `prefix`, `implementation`, `kind` ("conda", "uv", "poetry", "pipenv", "virtualenv",
"venv", "pyenv" or "system"), `conda_env`, `packages` (normalized name -> version), `count`, `origins` (packages that
are not from a registry: name -> `url`, `commit`, `editable`), `imported` and `loaded` (names of the packages that the
program imports, and of all that were loaded), `tool_version`, `files` (written into the entry's folder:
`environment.txt`, and `environment.yml` with conda), `guessed` (true if the probe did not start and the interpreter was
found by its name).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labbook.capture.command import find_program_file
from labbook.capture.conda_env import format_environment_yml, read_conda_environment
from labbook.capture.context import CaptureContext
from labbook.capture.launchers import is_python
from labbook.capture.requirements import format_requirement, normalize_name
from labbook.errors import Unavailable
from labbook.store.git.git_process import discover
from labbook.store.git.git_state import head_commit
from labbook.store.git.remotes import credential_free
from labbook.store.json_files import read_json_object, read_text_or_nothing

TEXT_FILE = "environment.txt"
YML_FILE = "environment.yml"
_METADATA_BYTES = 4096
_RECORD_BYTES = 256 * 1024
_TOP_LEVEL = re.compile(r"^(\w+)(?:/__init__)?\.", re.MULTILINE)
"""A top-level module or package in the list of the files that a package installed."""


def capture(context: CaptureContext) -> dict[str, Any]:
    """Returns the facts of the environment; writes its packages into the entry's folder.

    Raises:
        Unavailable: The run has no Python process, its environment cannot be found, or it is inside a container.
    """
    if context.in_container:
        # A folder of the same name on this machine has other packages.
        raise Unavailable("the packages are in the container, which the recorder sees from outside")
    hello = dict(context.python)
    guessed = not hello
    if guessed:
        hello = _guess_interpreter(context)
    prefix = Path(str(hello.get("prefix") or "")).expanduser()
    paths = [Path(str(p)).expanduser() for p in hello.get("sys_path") or () if p]
    packages, origins = find_packages(paths)
    facts: dict[str, Any] = {
        "version": str(hello.get("version") or ""),
        "implementation": str(hello.get("implementation") or "cpython"),
        "executable": str(hello.get("executable") or ""),
        "prefix": str(hello.get("prefix") or ""),
        "kind": environment_kind(prefix, Path(str(hello.get("base_prefix") or prefix)).expanduser()),
        "packages": packages,
        "count": len(packages),
        "origins": origins,
        "guessed": guessed,
    }
    files = {TEXT_FILE: format_environment_text(facts)}
    if facts["kind"] == "conda":
        conda = read_conda_environment(prefix, paths)
        facts |= {"conda_env": conda.name, "conda_count": len(conda.packages)}
        files[YML_FILE] = format_environment_yml(conda, packages, origins)
    else:
        facts |= _tool_facts(prefix)
    return facts | _write_lists(context, files)


def _write_lists(context: CaptureContext, files: Mapping[str, str]) -> dict[str, Any]:
    try:
        context.attachments.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (context.attachments / name).write_text(context.redactor.text(text), encoding="utf-8")
    except OSError as error:
        return {"files": [], "files_note": f"cannot write the list of packages: {error.strerror or error}"}
    return {"files": list(files)}


def _guess_interpreter(context: CaptureContext) -> dict[str, Any]:
    """Returns the fields of a hello event, derived from the interpreter that the command names.

    Raises:
        Unavailable: The command names no interpreter, or it has no folder of packages.
    """
    program = find_program_file(context.argv, context.cwd)
    name = program.interpreter or ("python" if program.kind in ("python", "module", "notebook") else "")
    if not name and context.argv:
        name = context.argv[0] if is_python(Path(context.argv[0]).name) else ""
    program_file = shutil.which(name, path=dict(context.environ).get("PATH")) if name else None
    if program_file is None:
        raise Unavailable("the probe started in no Python process, and the command names no interpreter")
    executable = Path(os.path.abspath(program_file))  # noqa: PTH100 - a link of a virtual environment must stay
    prefix = executable.parent.parent
    if not (prefix / "pyvenv.cfg").exists() and not (prefix / "conda-meta").is_dir():
        prefix = executable.resolve().parent.parent
    folders = sorted(prefix.glob("lib/python3.*/*-packages"))
    if not folders:
        raise Unavailable(f"the probe started in no Python process, and `{program_file}` has no folder of packages")
    settings = _read_pyvenv_cfg(prefix / "pyvenv.cfg")
    version = settings.get("version") or settings.get("version_info") or folders[0].parent.name.removeprefix("python")
    return {
        "version": version, "executable": str(executable), "prefix": str(prefix), "sys_path": [str(f) for f in folders],
        "base_prefix": str(Path(settings["home"]).parent) if settings.get("home") else str(prefix),
    }  # fmt: skip


def environment_kind(prefix: Path, base_prefix: Path) -> str:
    """Returns the kind of the environment at `prefix`."""
    if (prefix / "conda-meta").is_dir():
        return "conda"
    settings = _read_pyvenv_cfg(prefix / "pyvenv.cfg")
    if settings or prefix != base_prefix:
        if "uv" in settings:
            return "uv"
        if "pypoetry" in prefix.parts:
            return "poetry"
        if ".virtualenvs" in prefix.parts or "virtualenvs" in prefix.parts:
            return "pipenv" if (prefix / ".project").exists() else "virtualenv"
        return "virtualenv" if "virtualenv" in settings else "venv"
    return "pyenv" if ".pyenv" in prefix.parts else "system"


def _tool_facts(prefix: Path) -> dict[str, str]:
    settings = _read_pyvenv_cfg(prefix / "pyvenv.cfg")
    name = next((tool for tool in ("uv", "virtualenv") if tool in settings), "")
    return {"tool_version": f"{name} {settings[name]}"} if name else {}


def _read_pyvenv_cfg(file: Path) -> dict[str, str]:
    """Returns the lines `name = value` of a `pyvenv.cfg`; empty if there is none."""
    pairs = [line.partition("=") for line in read_text_or_nothing(file).splitlines() if "=" in line]
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def find_packages(paths: Iterable[Path]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Returns the packages on a `sys.path`; of several with one name the first, as in an import.

    Args:
        paths: Folders of `sys.path`; missing folders and archives are skipped.

    Returns:
        Name -> version, and name -> origin of packages from a folder, a repository or an address.

    Cost:
        One listing per folder and one look-up per package: 2 ms for 200 packages.
    """
    packages: dict[str, str] = {}
    origins: dict[str, dict[str, Any]] = {}
    for folder in dict.fromkeys(paths):
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208 - only names are needed
        except OSError:
            continue
        for entry in names:
            if entry.endswith(".dist-info"):
                raw, _, version = entry.removesuffix(".dist-info").rpartition("-")
            elif entry.endswith(".egg-info"):
                raw, version = _parse_egg(folder / entry)
            else:
                continue
            name = normalize_name(raw)
            if name and name not in packages:
                packages[name] = version
                origin = _read_origin(folder / entry)
                if origin:
                    origins[name] = origin
    return dict(sorted(packages.items())), dict(sorted(origins.items()))


def add_used_packages(
    facts: Mapping[str, Any], modules: tuple[Iterable[str], Iterable[str]], hello: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the facts with the names of the packages that the program imports (`imported`) and loads (`loaded`).

    `modules` are those that it imports from a package of another name: cv2 -> opencv-python.

    Args:
        facts: Facts of the environment.
        modules: The installed modules that the user's code imports, and all that were loaded.
        hello: The `hello` event of the main Python process.
    """
    packages = facts.get("packages")
    if not isinstance(packages, Mapping) or not any(modules):
        return dict(facts)
    known = {name: normalize_name(name) for names in modules for name in names if normalize_name(name) in packages}
    unknown = {name for names in modules for name in names} - known.keys()
    paths = [Path(str(path)).expanduser() for path in hello.get("sys_path") or () if path]
    found = _find_packages_of(unknown, paths)
    homes = {**found, **known}
    imported, loaded = (sorted({homes[name] for name in names if name in homes}) for names in modules)
    others = {name: found[name] for name in sorted(modules[0]) if name in found}
    return {**facts, "imported": imported, "loaded": loaded, **({"modules": others} if others else {})}


def _find_packages_of(modules: set[str], paths: Iterable[Path]) -> dict[str, str]:
    """Returns module -> package where the two have different names, from the lists of installed files.

    Cost: 40 ms for 200 packages.
    """
    found: dict[str, str] = {}
    for record in (file for folder in paths for file in folder.glob("*.dist-info/RECORD")):
        with contextlib.suppress(OSError), record.open(encoding="utf-8", errors="replace") as stream:
            name = normalize_name(record.parent.name.removesuffix(".dist-info").rpartition("-")[0])
            for module in modules.intersection(_TOP_LEVEL.findall(stream.read(_RECORD_BYTES))):
                found.setdefault(module, name)
    return found


def _parse_egg(entry: Path) -> tuple[str, str]:
    parts = entry.name.removesuffix(".egg-info").split("-")
    if len(parts) > 1:
        return parts[0], parts[1]
    # The folder of an editable installation has no version in its name.
    with contextlib.suppress(OSError), (entry / "PKG-INFO").open(encoding="utf-8", errors="replace") as stream:
        for line in stream.read(_METADATA_BYTES).splitlines():
            if line.startswith("Version:"):
                return parts[0], line.partition(":")[2].strip()
    return parts[0], ""


def _read_origin(entry: Path) -> dict[str, Any]:
    """Returns the origin of a package that is not from a registry, without credentials."""
    if entry.suffix == ".egg-info":
        inside = entry.parent.name in ("site-packages", "dist-packages")
        return {} if inside or not entry.is_dir() else _local_origin(entry.parent, editable=True)
    direct_url = read_json_object(entry / "direct_url.json")
    if not direct_url:
        return {}
    url = credential_free(str(direct_url.get("url") or ""))
    vcs, folder = direct_url.get("vcs_info"), direct_url.get("dir_info")
    if isinstance(vcs, dict):
        return {"url": f"{vcs.get('vcs', 'git')}+{url}", "commit": str(vcs.get("commit_id") or ""), "editable": False}
    if isinstance(folder, dict) and url.startswith("file://"):
        from urllib.parse import unquote

        return _local_origin(Path(unquote(url.removeprefix("file://"))), editable=bool(folder.get("editable")))
    return {"url": url, "commit": "", "editable": False}


def _local_origin(folder: Path, editable: bool) -> dict[str, Any]:
    """Returns the origin of a package in a local folder, with the commit checked out there."""
    repository = discover(folder) if folder.is_dir() else None
    commit = head_commit(repository) if repository is not None else ""
    return {"url": str(folder), "commit": commit, "editable": editable}


def format_environment_text(facts: Mapping[str, Any]) -> str:
    """Returns the packages as `pip freeze` lists them, after two lines of comment."""
    origins = facts["origins"]
    lines = [
        f"# Python {facts['version']} ({facts['implementation']}), {facts['kind']}, {facts['count']} packages",
        "# Written by labbook from the environment of the recorded command.",
    ]
    for name, version in facts["packages"].items():
        lines.append(format_requirement(name, version, origins.get(name)))
    return "\n".join(lines) + "\n"
