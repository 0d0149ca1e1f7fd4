"""The environment of a recorded command: that of the user, with the probe in front of `PYTHONPATH`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import labbook
from labbook.probe.events.protocol import ENV_PROBE


def inject_environment(
    environ: Mapping[str, str], settings: Mapping[str, object], inject_dir: Path | None = None
) -> dict[str, str]:
    """A copy of `environ` in which every Python from 3.8 on starts the probe; nothing else is changed.

    An empty `PYTHONPATH` is treated like none: a colon with nothing behind it would put the working folder on
    `sys.path`, which is not what the user has without labbook.

    Args:
        environ: The environment that the command would have.
        settings: Settings of the probe, see `protocol.ENV_PROBE`; `root` is added.
        inject_dir: The folder that holds nothing but `sitecustomize.py`; that of this installation by default.
    """
    root = Path(labbook.__file__).resolve().parent
    folder = str(inject_dir if inject_dir is not None else root / "probe" / "inject")
    before = environ.get("PYTHONPATH", "")
    changed = dict(environ)
    entries = [entry for entry in before.split(os.pathsep) if entry != folder] if before else []
    changed["PYTHONPATH"] = os.pathsep.join([folder, *entries])
    changed[ENV_PROBE] = json.dumps({"root": str(root), **settings}, ensure_ascii=True)
    return changed
