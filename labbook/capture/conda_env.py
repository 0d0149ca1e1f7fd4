"""Reads a conda environment from its own records, and writes its `environment.yml`."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labbook.capture.requirements import format_requirement, normalize_name
from labbook.frozen import dataclass

_CHANNEL = re.compile(rb'"channel":\s*"([^"]*)"')
_PLAIN = re.compile(r"[A-Za-z_][\w.=+!-]*")
_PLATFORM = re.compile(r"/(?:linux|osx|win|noarch)[\w-]*$")


@dataclass(frozen=True)
class CondaEnvironment:
    """The packages of one conda environment.

    Args:
        name: Name of the environment ("base" for the root one).
        packages: Packages as `name=version=build`, sorted.
        channels: Channels of the packages, the most used first.
        pip_packages: Normalized names of the Python packages that conda did not install.
    """

    name: str
    packages: tuple[str, ...]
    channels: tuple[str, ...]
    pip_packages: frozenset[str]


def read_conda_environment(prefix: Path, sys_path: Iterable[Path]) -> CondaEnvironment:
    """Returns the environment at `prefix`, from the file names in its `conda-meta` folder."""
    records = sorted((prefix / "conda-meta").glob("*.json"))
    packages = []
    for record in records:
        parts = record.stem.rsplit("-", 2)
        if len(parts) == 3:
            packages.append("=".join(parts))
    name = "base" if (prefix / "condabin").is_dir() or (prefix / "envs").is_dir() else prefix.name
    return CondaEnvironment(
        name, tuple(sorted(packages)), tuple(_list_channels(prefix, records)), frozenset(_list_pip_packages(sys_path))
    )


def _list_channels(prefix: Path, records: Iterable[Path]) -> list[str]:
    """Returns the channels, most used first, from the history or from the records of a few packages."""
    counts: Counter[str] = Counter()
    with contextlib.suppress(OSError):
        for line in (prefix / "conda-meta" / "history").read_text("utf-8", "replace").splitlines():
            if line.startswith("+") and "::" in line:
                counts[_short_channel(line[1:].partition("::")[0])] += 1
    if not counts:
        for record in list(records)[:20]:
            with contextlib.suppress(OSError):
                match = _CHANNEL.search(record.read_bytes())
                if match is not None:
                    counts[_short_channel(match[1].decode("utf-8", "replace"))] += 1
    return [channel for channel, _ in counts.most_common() if channel] or ["defaults"]


def _short_channel(address: str) -> str:
    """Returns the short name of a channel, or its address without credentials."""
    from labbook.store.git.remotes import credential_free

    bare = _PLATFORM.sub("", address.rstrip("/"))
    bare = bare.replace("https://conda.anaconda.org/", "").replace("https://repo.anaconda.com/pkgs/main", "defaults")
    if bare.startswith(("https://repo.anaconda.com/pkgs/", "pkgs/")):
        return "defaults"
    if "://" not in bare:
        return bare
    # A private channel carries its token in the path: https://host/t/<token>/channel.
    return re.sub(r"/t/[^/]+/", "/", credential_free(bare))


def _list_pip_packages(sys_path: Iterable[Path]) -> Iterable[str]:
    for folder in dict.fromkeys(sys_path):
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder):  # noqa: PTH208 - only names are needed
                if entry.endswith(".dist-info"):
                    installer = b""
                    with contextlib.suppress(OSError):
                        installer = (folder / entry / "INSTALLER").read_bytes()[:40].strip()
                    if installer != b"conda":
                        yield normalize_name(entry.removesuffix(".dist-info").rpartition("-")[0])


def format_environment_yml(
    conda: CondaEnvironment, packages: Mapping[str, str], origins: Mapping[str, Mapping[str, Any]]
) -> str:
    """Returns an `environment.yml` for `conda env create -f`, with packages of pip under `pip`."""
    lines = [f"name: {_scalar(conda.name)}", "channels:"]
    lines += [f"  - {_scalar(channel)}" for channel in conda.channels]
    lines.append("dependencies:")
    lines += [f"  - {_scalar(package)}" for package in conda.packages]
    own = {p.partition("=")[0] for p in conda.packages}
    pip = []
    for name, version in packages.items():
        if name in conda.pip_packages and name not in own:
            pip += format_requirement(name, version, origins.get(name)).splitlines()
    if any(not line.startswith("#") for line in pip):
        if "pip" not in own:
            lines.append("  - pip")
        lines.append("  - pip:")
        lines += [f"      {line}" if line.startswith("#") else f"      - {_scalar(line)}" for line in pip]
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """Returns a YAML string, quoted if a parser could read it as another type."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
    return text if plain else json.dumps(text, ensure_ascii=False)
