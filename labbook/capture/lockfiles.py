"""Lock files and declarations of dependencies beside the code, and whether what is installed agrees with them.

Facts: `files`: list of `path`, `kind`, `sha256`, `locks` (whether it fixes versions), `hashed` (whether it fixes
contents too), `pins` (how many), `matches` (true, false, or `None` when it could not be compared), `mismatches` (list
of `name`, `locked`, `installed`; the first 20), `mismatch_count`, `not_installed` (count), `not_locked` (how many
installed packages the file does not name).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.capture.command import find_program_file
from labbook.capture.requirements import normal_name
from labbook.errors import Unavailable
from labbook.store.git_process import discover

if TYPE_CHECKING:
    from labbook.capture.context import CaptureContext

Pins = dict[str, set[str]]
"""Package -> versions that the file allows; several where it distinguishes platforms."""

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
_SHOWN = 20
_NOT_THE_PROJECTS = frozenset({"pip", "setuptools", "wheel", "distribute", "pkg-resources"})
"""Packages that installers bring along; lock files leave them out."""

_TOML_PACKAGE = re.compile(r'^\[\[packages?\]\]\s*\nname = "([^"]+)"\s*\nversion = "([^"]+)"', re.MULTILINE)
_TOML_PACKAGE_SWAPPED = re.compile(
    r'^\[\[package\]\]\s*\n(?:.*\n)*?name = "([^"]+)"\n(?:.*\n)*?version = "([^"]+)"', re.MULTILINE
)
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*===?\s*([^\s;,#\\*]+)\s*(?:[;#\\].*)?$")
_CONDA_LOCK = re.compile(r"^ *- name: (\S+)\n +version: (\S+)", re.MULTILINE)
_CONDA_PIN = re.compile(
    r"^\s*-\s+[\"']?(?:[\w./-]+::)?([A-Za-z0-9_][\w.-]*)={1,2}([\w.!+]+)(=[\w.]+)?[\"']?\s*$", re.MULTILINE
)


def capture(context: CaptureContext, packages: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The lock files in the code's top folder, the script's folder and the working folder.

    Args:
        context: The run.
        packages: What is installed; `None` when it is not known, then nothing is compared.

    Raises:
        Unavailable: There are none.
    """
    program = find_program_file(context.argv, context.cwd)
    folder = program.path.parent if program.path is not None else program.folder
    repository = discover(folder) if folder.is_dir() else None
    top = repository.top if repository is not None else context.cwd
    found = [describe(file, top, packages) for file in _candidates((top, folder.resolve(), context.cwd.resolve()))]
    if not found:
        raise Unavailable("no lock file beside the code")
    return {"files": found}


def _candidates(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in dict.fromkeys(folders):
        with contextlib.suppress(OSError):
            for file in sorted(folder.iterdir()):
                if lockfile_kind(file.name) and file.is_file() and not file.is_symlink():
                    yield file
            for file in sorted((folder / "requirements").glob("*.txt")):
                yield file


def lockfile_kind(name: str) -> str:
    """What sort of dependency file a name stands for, "" for none."""
    if re.fullmatch(r"(?:[\w.-]*[-_.])?requirements?[\w.-]*\.(?:txt|in)", name) or name == "constraints.txt":
        return "requirements"
    if re.fullmatch(r"pylock(\.[\w-]+)?\.toml", name):
        return "pylock"
    return _KINDS.get(name, "")


def describe(file: Path, top: Path, packages: Mapping[str, str] | None) -> dict[str, Any]:
    """The facts of one dependency file."""
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
    return facts | (_compared(pins, packages) if packages and pins else {})


def read_pins(kind: str, text: str) -> tuple[Pins, bool]:
    """The versions that a file fixes, and whether it fixes all that it names."""
    if kind in ("uv", "poetry", "pdm", "pylock"):
        found = _TOML_PACKAGE.findall(text) or _TOML_PACKAGE_SWAPPED.findall(text)
        return _grouped(found), True
    if kind == "pipenv":
        return _pipenv(text), True
    if kind == "conda-lock":
        return _grouped(_CONDA_LOCK.findall(text)), True
    if kind == "conda":
        names = [ln for ln in text.splitlines() if re.match(r"\s+-\s+\S", ln) and not ln.rstrip().endswith(":")]
        pins = _grouped((name, version) for name, version, _ in _CONDA_PIN.findall(text))
        channels = len(re.findall(r"^channels:\s*\n((?:\s*-\s+.*\n)+)", text, re.MULTILINE)[:1])
        return pins, bool(channels or names) and len(pins) >= len(names) - _channel_lines(text)
    return _requirements(text)


def _channel_lines(text: str) -> int:
    found = re.search(r"^channels:\s*\n((?:\s*-\s+.*\n)+)", text, re.MULTILINE)
    return len(found[1].splitlines()) if found else 0


def _requirements(text: str) -> tuple[Pins, bool]:
    pins: Pins = {}
    complete = True
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.sub(r"\s--hash[= ]\S+", "", line).split(" #")[0].strip()
        if not bare or bare.startswith(("#", "--hash")):
            continue
        if bare.startswith("-"):
            # Another file, or a folder, brings in versions that stand elsewhere.
            complete = complete and not bare.startswith(("-r", "--requirement", "-e", "--editable"))
            continue
        matched = _PIN.match(bare)
        if matched is None:
            complete = complete and bool(re.search(r" @ .*[0-9a-f]{40}", bare))
        else:
            pins.setdefault(normal_name(matched[1]), set()).add(matched[2])
    return pins, complete


def _pipenv(text: str) -> Pins:
    pins: Pins = {}
    with contextlib.suppress(ValueError, AttributeError):
        for section in ("default", "develop"):
            for name, entry in json.loads(text).get(section, {}).items():
                version = str(entry.get("version") or "")
                if version.startswith("=="):
                    pins.setdefault(normal_name(name), set()).add(version.lstrip("="))
    return pins


def _grouped(pairs: Any) -> Pins:  # noqa: ANN401 - any iterable of pairs
    pins: Pins = {}
    for name, version in pairs:
        pins.setdefault(normal_name(name), set()).add(version.strip("\"'"))
    return pins


def _is_hashed(kind: str, text: str) -> bool:
    if kind == "requirements":
        return "--hash" in text
    return kind not in ("conda",) and ("sha256" in text or "hash" in text)


def _compared(pins: Pins, packages: Mapping[str, str]) -> dict[str, Any]:
    wrong = [
        {"name": name, "locked": " or ".join(sorted(versions)), "installed": packages[name]}
        for name, versions in sorted(pins.items())
        if name in packages and not any(_same(packages[name], version) for version in versions)
    ]
    present = sum(name in packages for name in pins)
    return {
        "matches": None if not present else not wrong,
        "mismatches": wrong[:_SHOWN],
        "mismatch_count": len(wrong),
        "not_installed": len(pins) - present,
        "not_locked": sum(name not in pins and name not in _NOT_THE_PROJECTS for name in packages),
    }


def _same(installed: str, locked: str) -> bool:
    """Whether two versions name one release; trailing zeros, and a local part not asked for, count nothing."""
    if "+" not in locked:
        installed = installed.partition("+")[0]
    short = [re.sub(r"(?:\.0)+$", "", v.lower().replace("_", "-").replace("-", ".")) for v in (installed, locked)]
    return short[0] == short[1]
