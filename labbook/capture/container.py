"""Reads the container and the batch job of a run, as far as they are visible from inside.

Facts: `kind` ("docker", "podman", "kubernetes", "apptainer", "lxc", "wsl", "container", or "none"), `image`,
`image_id`, `image_hints` (variables by which images describe themselves), `job` (batch system and its identifiers).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labbook.capture.context import CaptureContext
from labbook.frozen import dataclass
from labbook.store.git.remotes import credential_free
from labbook.store.json_files import read_text_or_nothing

_VARIABLES = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
"""Variables by which images describe themselves, and those of each batch system; the first one of a system says that
the run is a job of it."""

_LONG_ID = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True)
class SystemFiles:
    """Reads files of the system; tests use another root folder.

    Args:
        root: The folder used as "/".
    """

    root: Path = Path("/")

    def text(self, path: str) -> str:
        """Returns the content of a file, "" if there is none."""
        return read_text_or_nothing(self.root / path)


def capture(context: CaptureContext) -> dict[str, Any]:
    """Returns the facts of container and job; the module's docstring lists them."""
    return container_facts(context.environ, SystemFiles()) | _job(context.environ)


def container_facts(environ: Mapping[str, str], files: SystemFiles) -> dict[str, Any]:
    """Returns the kind of the container, and its image if it is known."""
    kind = _kind(environ, files)
    facts: dict[str, Any] = {"kind": kind}
    podman = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', files.text("run/.containerenv"), re.MULTILINE))
    image = podman.get("image") or environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or ""
    if image:
        facts["image"] = credential_free(image) if "://" in image else image
    if podman.get("imageid"):
        facts["image_id"] = podman["imageid"]
    hints = {name: environ[name] for name in _VARIABLES["image_hints"] if environ.get(name)}
    if hints and kind != "none":
        facts["image_hints"] = hints
    if kind in ("docker", "kubernetes", "container"):
        match = _LONG_ID.search(files.text("proc/self/mountinfo"))
        if match is not None:
            facts["container_id"] = match[0][:12]
        if not image:
            facts["image_note"] = "the image is not visible from inside a container; set CONTAINER_IMAGE to record it"
    return facts


def _kind(environ: Mapping[str, str], files: SystemFiles) -> str:
    groups = files.text("proc/1/cgroup")
    if environ.get("KUBERNETES_SERVICE_HOST") or "kubepods" in groups:
        return "kubernetes"
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or environ.get("APPTAINER_NAME"):
        return "apptainer"
    if (files.root / "run/.containerenv").exists() or "libpod" in groups:
        return "podman"
    if (files.root / ".dockerenv").exists() or "/docker/" in groups:
        return "docker"
    named = environ.get("container", "")
    if named or "/lxc/" in groups:
        return named if named in ("lxc", "podman", "docker") else "lxc" if "/lxc/" in groups else "container"
    return "wsl" if "microsoft" in files.text("proc/sys/kernel/osrelease").lower() else "none"


def _job(environ: Mapping[str, str]) -> dict[str, Any]:
    for system, names in _VARIABLES["jobs"].items():
        if environ.get(names[0]):
            return {"job": {"system": system} | {name: environ[name] for name in names if environ.get(name)}}
    return {}
