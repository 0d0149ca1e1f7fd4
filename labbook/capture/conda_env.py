"""A conda environment, read from its own records without calling conda, and the file that makes it again."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labbook.capture.requirements import normal_name, requirement
from labbook.frozen import dataclass

_CHANNEL = re.compile(rb'"channel":\s*"([^"]*)"')
_PLAIN = re.compile(r"[A-Za-z_][\w.=+!-]*")
_PLATFORM = re.compile(r"/(?:linux|osx|win|noarch)[\w-]*$")


@dataclass(frozen=True)
class CondaEnvironment:
    """What conda installed at one place.

    Args:
        name: Name of the environment ("base" for the root one).
        packages: Package as `name=version=build`, in order of names.
        channels: Where they came from, the most used first.
        by_pip: Python packages that conda did not install, by their registry name.
    """

    name: str
    packages: tuple[str, ...]
    channels: tuple[str, ...]
    by_pip: frozenset[str]


def conda_facts(prefix: Path, sys_path: Iterable[Path]) -> CondaEnvironment:
    """What stands in `conda-meta` at `prefix`; the names of its files already say name, version and build.

    Args:
        prefix: The environment's folder.
        sys_path: Folders in which Python packages lie.
    """
    records = sorted((prefix / "conda-meta").glob("*.json"))
    found = []
    for record in records:
        parts = record.stem.rsplit("-", 2)
        if len(parts) == 3:
            found.append("=".join(parts))
    name = "base" if (prefix / "condabin").is_dir() or (prefix / "envs").is_dir() else prefix.name
    return CondaEnvironment(name, tuple(sorted(found)), tuple(_channels(prefix, records)), frozenset(_by_pip(sys_path)))


def _channels(prefix: Path, records: Iterable[Path]) -> list[str]:
    """Channels by how many packages came from them; from the history, else from the records of a few packages."""
    counts: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for line in (prefix / "conda-meta" / "history").read_text("utf-8", "replace").splitlines():
            if line.startswith("+") and "::" in line:
                channel = _channel(line[1:].partition("::")[0])
                counts[channel] = counts.get(channel, 0) + 1
    if not counts:
        for record in list(records)[:20]:
            with contextlib.suppress(OSError):
                found = _CHANNEL.search(record.read_bytes())
                if found is not None:
                    channel = _channel(found[1].decode("utf-8", "replace"))
                    counts[channel] = counts.get(channel, 0) + 1
    return sorted((c for c in counts if c), key=lambda c: -counts[c]) or ["defaults"]


def _channel(address: str) -> str:
    """The short name of a channel, or its address without credentials."""
    from labbook.store.remotes import credential_free

    bare = _PLATFORM.sub("", address.rstrip("/"))
    bare = bare.replace("https://conda.anaconda.org/", "").replace("https://repo.anaconda.com/pkgs/main", "defaults")
    if bare.startswith(("https://repo.anaconda.com/pkgs/", "pkgs/")):
        return "defaults"
    if "://" not in bare:
        return bare
    # A private channel carries its token in the path: https://host/t/<token>/channel.
    return re.sub(r"/t/[^/]+/", "/", credential_free(bare))


def _by_pip(sys_path: Iterable[Path]) -> Iterable[str]:
    for folder in dict.fromkeys(sys_path):
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder):  # noqa: PTH208 - names are all that is needed
                if entry.endswith(".dist-info"):
                    installer = b""
                    with contextlib.suppress(OSError):
                        installer = (folder / entry / "INSTALLER").read_bytes()[:40].strip()
                    if installer != b"conda":
                        yield normal_name(entry.removesuffix(".dist-info").rpartition("-")[0])


def environment_yml(
    conda: CondaEnvironment, packages: Mapping[str, str], origins: Mapping[str, Mapping[str, Any]]
) -> str:
    """The text of an `environment.yml` that `conda env create -f` accepts; what pip installed stands under `pip`."""
    lines = [f"name: {_scalar(conda.name)}", "channels:"]
    lines += [f"  - {_scalar(channel)}" for channel in conda.channels]
    lines.append("dependencies:")
    lines += [f"  - {_scalar(package)}" for package in conda.packages]
    own = {p.partition("=")[0] for p in conda.packages}
    pip = []
    for name, version in packages.items():
        if name in conda.by_pip and name not in own:
            pip += requirement(name, version, origins.get(name)).splitlines()
    if any(not line.startswith("#") for line in pip):
        if "pip" not in own:
            lines.append("  - pip")
        lines.append("  - pip:")
        lines += [f"      {line}" if line.startswith("#") else f"      - {_scalar(line)}" for line in pip]
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """A string as YAML reads it back: quoted whenever it could be taken for something else."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
    return text if plain else json.dumps(text, ensure_ascii=False)
