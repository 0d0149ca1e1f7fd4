"""The environment of a recorded command: the user's, with the probe on `PYTHONPATH`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

import labbook
from labbook.probe.events.protocol import ENV_PROBE


def inject_environment(
    environ: Mapping[str, str], settings: Mapping[str, object], inject_dir: Path | None = None
) -> dict[str, str]:
    """Returns a copy of `environ` in which every Python from 3.8 on starts the probe.

    An empty `PYTHONPATH` is treated like a missing one: a trailing colon would put the working folder on `sys.path`.

    Args:
        environ: The environment that the command would have.
        settings: Settings of the probe, see `protocol.ENV_PROBE`; `root` is added.
        inject_dir: The folder that contains only `sitecustomize.py`; by default that of this installation.
    """
    root = Path(labbook.__file__).resolve().parent
    folder = str(inject_dir if inject_dir is not None else root / "probe" / "inject")
    before = environ.get("PYTHONPATH", "")
    changed = dict(environ)
    entries = [entry for entry in before.split(os.pathsep) if entry != folder] if before else []
    changed["PYTHONPATH"] = os.pathsep.join([folder, *entries])
    changed[ENV_PROBE] = json.dumps({"root": str(root), **settings}, ensure_ascii=True)
    return changed


def keep_probe(argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Returns a command in which an `env PYTHONPATH=...` in front keeps the folder of the probe.

    Args:
        environ: The environment made by `inject_environment`.
    """
    words = list(argv)
    folder = environ.get("PYTHONPATH", "").split(os.pathsep)[0]
    if not words or PurePath(words[0]).name != "env" or not folder:
        return words
    for at, word in enumerate(words[1:], 1):
        name, equals, value = word.partition("=")
        if not equals and not word.startswith("-"):
            break
        if name == "PYTHONPATH" and equals and folder not in value.split(os.pathsep):
            words[at] = f"PYTHONPATH={os.pathsep.join([folder, value] if value else [folder])}"
    return words
