"""Reads lock files of the code and compares them with the installed packages.

Facts: `files`: list of `path`, `kind`, `sha256`, `locks` (whether it pins versions), `hashed` (whether it pins contents
too), `pins` (count), `matches` (true, false, or `None` if it could not be compared), `mismatches` (list of `name`,
`locked`, `installed`; the first 20), `mismatch_count`, `not_installed` (count), `not_locked` (number of installed
packages that are not in the file).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labbook.capture.command import find_program_file
from labbook.capture.context import CaptureContext
from labbook.capture.requirements import normalize_name
from labbook.errors import Unavailable
from labbook.store.git.git_process import discover
from labbook.store.text.frontmatter import load_tagged
from labbook.store.toml_parser import parse_toml

Pins = dict[str, set[str]]
"""Package -> versions that the file allows; several if they differ by platform."""

_KINDS = {
    "uv.lock": "uv",
    "poetry.lock": "poetry",
    "pdm.lock": "pdm",
    "pylock.toml": "pylock",
    "Pipfile.lock": "pipenv",
    "conda-lock.yml": "conda-lock",
    "environment.yml": "conda",
    "environment.yaml": "conda",
    "pyproject.toml": "pyproject",
    "Pipfile": "pipenv declaration",
    "setup.py": "setup.py",
}
_DECLARATIONS = frozenset({"pyproject", "pipenv declaration", "setup.py"})
_MAX_BYTES = 8 * 1024 * 1024
_MAX_MISMATCHES = 20
_INSTALLER_PACKAGES = frozenset({"pip", "setuptools", "wheel", "distribute", "pkg-resources"})
"""Packages of installers, which lock files omit."""

_TOML_PACKAGE = re.compile(r'^\[\[packages?\]\]\s*\nname = "([^"]+)"\s*\nversion = "([^"]+)"', re.MULTILINE)
_CONDA_LOCK = re.compile(r"^ *- name: (\S+)\n +version: (\S+)", re.MULTILINE)
"""Packages as uv, poetry, pdm, pip and conda-lock write them. The end of a run waits for this reading. Source:
measured, 11 ms against 180 ms of `tomllib` (`uv.lock`, 620 kB), 2 ms against 250 ms of PyYAML (900 packages)."""

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*===?\s*([^\s;,#\\*]+)\s*(?:[;#\\].*)?$")
_CONDA_PIN = re.compile(r"(?:[\w./-]+::)?([A-Za-z0-9_][\w.-]*)={1,2}([\w.!+]+)(?:=[\w.]+)?")


def capture(context: CaptureContext, packages: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the lock files in the top folder, the script's folder and the working folder.

    Args:
        packages: The installed packages; `None` if unknown, then nothing is compared.

    Raises:
        Unavailable: There are none.
    """
    program = find_program_file(context.argv, context.cwd)
    folder = program.home
    repository = discover(folder) if folder.is_dir() else None
    top = repository.top if repository is not None else context.cwd
    folders = (top, folder.resolve(), context.cwd.resolve())
    files = [_describe_lockfile(file, top, packages) for file in _find_lockfiles(folders)]
    if not files:
        raise Unavailable("no lock file beside the code")
    return {"files": files}


def _find_lockfiles(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in dict.fromkeys(folders):
        with contextlib.suppress(OSError):
            for file in sorted(folder.iterdir()):
                if lockfile_kind(file.name) and file.is_file() and not file.is_symlink():
                    yield file
            yield from filter(Path.is_file, sorted((folder / "requirements").glob("*.txt")))


def lockfile_kind(name: str) -> str:
    """Returns the kind of a dependency file from its name, "" for other files."""
    if re.fullmatch(r"(?:[\w.-]*[-_.])?requirements?[\w.-]*\.(?:txt|in)", name) or name == "constraints.txt":
        return "requirements"
    if re.fullmatch(r"pylock(\.[\w-]+)?\.toml", name):
        return "pylock"
    return _KINDS.get(name, "")


def _describe_lockfile(file: Path, top: Path, packages: Mapping[str, str] | None) -> dict[str, Any]:
    kind = lockfile_kind(file.name) or "requirements"
    shown = file.relative_to(top).as_posix() if file.is_relative_to(top) else file.name
    try:
        content = file.read_bytes() if file.stat().st_size <= _MAX_BYTES else b""
    except OSError as error:
        return {"path": shown, "kind": kind, "sha256": "", "locks": False, "matches": None, "note": str(error.strerror)}
    text = content.decode("utf-8", "replace")
    facts: dict[str, Any] = {
        "path": shown,
        "kind": kind,
        "sha256": hashlib.sha256(content).hexdigest() if content else "",
        "locks": False,
        "hashed": False,
        "pins": 0,
        "matches": None,
    }
    if kind in _DECLARATIONS:
        return facts
    pins, complete = read_pins(kind, text)
    facts |= {"pins": len(pins), "locks": bool(pins) and complete, "hashed": _is_hashed(kind, text)}
    return facts | (_compare_pins(pins, packages) if packages and pins else {})


def read_pins(kind: str, text: str) -> tuple[Pins, bool]:
    """Returns the pinned versions of a file, and whether it pins every package that it names."""
    if kind in ("uv", "poetry", "pdm", "pylock"):
        return _group_pins(_TOML_PACKAGE.findall(text) or _parse_toml_packages(text)), True
    if kind == "pipenv":
        return _parse_pipenv(text), True
    if kind == "conda-lock":
        return _group_pins(_CONDA_LOCK.findall(text)), True
    if kind == "conda":
        return _parse_conda_environment(text)
    return _parse_requirements(text)


def _parse_toml_packages(text: str) -> list[tuple[str, str]]:
    """Returns name and version of each package, for files that list other keys first."""
    try:
        document = parse_toml(text)
    except ValueError:
        return []
    packages = document.get("package") or document.get("packages")
    return [
        (str(package["name"]), str(package["version"]))
        for package in (packages if isinstance(packages, list) else ())
        if isinstance(package, Mapping) and package.get("name") and package.get("version")
    ]


def _parse_conda_environment(text: str) -> tuple[Pins, bool]:
    try:
        document = load_tagged(text, str)
    except ValueError:
        return {}, False
    dependencies = document.get("dependencies") if isinstance(document, Mapping) else None
    lines: list[str] = []
    for dependency in dependencies if isinstance(dependencies, list) else ():
        lines += dependency.get("pip") or () if isinstance(dependency, Mapping) else (str(dependency),)
    matches = [_CONDA_PIN.fullmatch(str(line).strip()) for line in lines]
    return _group_pins((match[1], match[2]) for match in matches if match), all(matches)


def _parse_requirements(text: str) -> tuple[Pins, bool]:
    pins: Pins = {}
    complete = True
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.sub(r"\s--hash[= ]\S+", "", line).split(" #")[0].strip()
        if not bare or bare.startswith(("#", "--hash")):
            continue
        if bare.startswith("-"):
            # Another file, or a folder, adds versions that are not in this file.
            complete = complete and not bare.startswith(("-r", "--requirement", "-e", "--editable"))
            continue
        matched = _PIN.match(bare)
        if matched is None:
            complete = complete and bool(re.search(r" @ .*[0-9a-f]{40}", bare))
        else:
            pins.setdefault(normalize_name(matched[1]), set()).add(matched[2])
    return pins, complete


def _parse_pipenv(text: str) -> Pins:
    pins: Pins = {}
    with contextlib.suppress(ValueError, AttributeError):
        for section in ("default", "develop"):
            for name, entry in json.loads(text).get(section, {}).items():
                version = str(entry.get("version") or "")
                if version.startswith("=="):
                    pins.setdefault(normalize_name(name), set()).add(version.lstrip("="))
    return pins


def _group_pins(pairs: Any) -> Pins:  # noqa: ANN401 - any iterable of pairs
    pins: Pins = {}
    for name, version in pairs:
        pins.setdefault(normalize_name(name), set()).add(version.strip("\"'"))
    return pins


def _is_hashed(kind: str, text: str) -> bool:
    if kind == "requirements":
        return "--hash" in text
    return kind != "conda" and ("sha256" in text or "hash" in text)


def _compare_pins(pins: Pins, packages: Mapping[str, str]) -> dict[str, Any]:
    wrong = [
        {"name": name, "locked": " or ".join(sorted(versions)), "installed": packages[name]}
        for name, versions in sorted(pins.items())
        if name in packages and not any(_is_same_version(packages[name], version) for version in versions)
    ]
    present = sum(name in packages for name in pins)
    return {
        "matches": None if not present else not wrong,
        "mismatches": wrong[:_MAX_MISMATCHES],
        "mismatch_count": len(wrong),
        "not_installed": len(pins) - present,
        "not_locked": sum(name not in pins and name not in _INSTALLER_PACKAGES for name in packages),
    }


def _is_same_version(installed: str, locked: str) -> bool:
    """Whether two versions are the same release; trailing zeros and an unpinned local part are ignored."""
    if "+" not in locked:
        installed = installed.partition("+")[0]
    short = [re.sub(r"(?:\.0)+$", "", v.lower().replace("_", "-").replace("-", ".")) for v in (installed, locked)]
    return short[0] == short[1]
