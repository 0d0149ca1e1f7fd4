"""Runs the recorded command in the recorded container image, with the engine that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import labbook
from labbook.compare.run_settings import captured_facts
from labbook.frozen import dataclass
from labbook.model.message import Message, message
from labbook.probe.events.protocol import ENV_PROBE
from labbook.rerun.recorded_code import RecordedCode

_IMAGE_VARIABLES = ("CONTAINER_IMAGE", "DOCKER_IMAGE", "IMAGE_NAME")
_DOCKER_LIKE = ("docker", "podman", "nerdctl")
_APPTAINER_LIKE = ("apptainer", "singularity")
_INIT_PROGRAMS = {"podman": "catatonit", "nerdctl": "tini"}
_INIT_FOLDERS = ("/usr/libexec/podman", "/usr/lib/podman", "/usr/local/libexec/podman", "/usr/local/lib/podman")
"""Programs that `--init` starts, of other packages than the engine. Source: `init_path` in containers.conf(5)."""

_ANSWER_S = 20
_OF_IMAGE = ("kind", "image", "image_hints")
"""Facts that hold in the rerun; a name of an image may have another id by now."""


@dataclass(frozen=True)
class Container:
    """The container to run a command in.

    Args:
        engine: Program that starts it.
        facts: What the original run recorded of its container, for the entry of the rerun.
    """

    engine: str
    image: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def recorded_container(run: Mapping[str, Any]) -> tuple[Container | None, list[Message]]:
    """Returns the container of a run if it can be started here, else why not; nothing for a run without a container."""
    facts = captured_facts(run, "container")
    if str(facts.get("kind") or "none") in ("none", "wsl", "lxc"):
        return None, []
    hints = facts.get("image_hints")
    hints = hints if isinstance(hints, Mapping) else {}
    image = str(facts.get("image") or next((hints[name] for name in _IMAGE_VARIABLES if hints.get(name)), ""))
    if not image:
        return None, [message("rerun.image_unknown")]
    wanted = _APPTAINER_LIKE if facts["kind"] == "apptainer" else (*_DOCKER_LIKE, *_APPTAINER_LIKE)
    for name in wanted:
        engine = shutil.which(name)
        if engine is not None and _answers(engine):
            return Container(engine, image, {k: facts[k] for k in _OF_IMAGE if k in facts}), []
    return None, [message("rerun.no_engine", image=image, engines=list(wanted))]


def _answers(engine: str) -> bool:
    """Whether the engine works: the client of docker is often there without its daemon."""
    words = ["version"] if Path(engine).name in _APPTAINER_LIKE else ["info"]
    try:
        done = subprocess.run([engine, *words], capture_output=True, timeout=_ANSWER_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def container_launcher(
    container: Container,
    code: RecordedCode,
    notebook_root: Path,
    variables: Iterable[str],
    inputs: Iterable[Path] = (),
    *,
    with_gpus: bool,
) -> list[str]:
    """Returns the words before a command that run it in a container.

    The code, the checkout with its data, other inputs, the notebook and labbook itself are mounted under the paths that
    they have here, so that the probe finds its files and links to data work.

    Args:
        inputs: Files and folders that the run had read.
        notebook_root: Where the probe writes.
        variables: Names of environment variables that are passed on; the probe's are added.
        with_gpus: Whether the recorded run had GPUs.
    """
    places = [code.top, code.original_top, notebook_root, Path(labbook.__file__).resolve().parent]
    if not code.cwd.is_relative_to(code.top):
        places += [code.cwd, code.original]
    places += [code.checkout] if code.checkout is not None else []
    places = [place for place in places if place.is_dir()]
    places += [path for path in inputs if path.exists() and not any(map(path.is_relative_to, places))]
    mounts = list(dict.fromkeys(map(str, places)))
    names = sorted({*variables, ENV_PROBE, "PYTHONPATH"})
    if Path(container.engine).name in _APPTAINER_LIKE:
        image = container.image if "://" in container.image or Path(container.image).exists() else ""
        binds = [word for mount in mounts for word in ("--bind", mount)]
        gpus = ["--nv"] if with_gpus else []
        return [
            container.engine, "exec", *gpus, *binds, "--pwd", str(code.cwd),
            image or f"docker://{container.image}",
        ]  # fmt: skip
    binds = [word for mount in mounts for word in ("--volume", f"{mount}:{mount}")]
    passed = [word for name in names for word in ("--env", name)]
    gpus = ["--gpus", "all"] if with_gpus else []
    return [
        container.engine, "run", "--rm", *_engine_words(container.engine), "--ipc=host",
        "--security-opt", "label=disable", "--user", f"{os.getuid()}:{os.getgid()}", *gpus,
        *binds, *passed, "--workdir", str(code.cwd), container.image,
    ]  # fmt: skip


def _engine_words(engine: str) -> list[str]:
    """Returns the options that differ between Docker, Podman and nerdctl."""
    name = Path(engine).name
    words = ["--userns=keep-id"] if name == "podman" and os.getuid() else []  # else mounted folders are not the user's
    init = _INIT_PROGRAMS.get(name)
    if init is None or shutil.which(init, path=os.pathsep.join((*_INIT_FOLDERS, os.environ.get("PATH", "")))):
        words.append("--init")
    return words
