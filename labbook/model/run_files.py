"""Files of a run: those that it read or wrote, those that are kept, and the runs that wrote what it read."""

from __future__ import annotations

import re
from pathlib import PurePath, PurePosixPath

from labbook.frozen import dataclass

_SHORT = 16
WEIGHT_ENDINGS = (
    ".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".pdparams", ".pdopt", ".pdmodel", ".h5", ".npz", ".pkl", ".tar",
    ".msgpack",
)  # fmt: skip
"""Endings of files that hold weights or the state of a training. Source: the frameworks' documentation."""

_BESIDE_WEIGHTS = re.compile(
    r"(?<![a-z])(?:optim(?:izer)?|opt|(?:lr_)?sched(?:uler)?|scaler|rng(?:_?states?)?|random_states?)(?![a-z])",
    re.IGNORECASE,
)
"""Names of files that are of use only with the weights: `optimizer.pt`. Source: Transformers, Accelerate, PaddleNLP."""


def short_fingerprint(fingerprint: str) -> str:
    """Returns a fingerprint as the front matter has it: 64 bits of the digest, with its kind."""
    kind, _, digest = fingerprint.partition(":")
    return f"{kind}:{digest[:_SHORT]}"


def is_checkpoint(path: str) -> bool:
    """Whether a path has the ending of a file with weights or the state of a training."""
    return PurePosixPath(path).suffix.lower() in WEIGHT_ENDINGS


def is_beside_weights(path: PurePath) -> bool:
    """Whether a file has the state of an optimizer, a scheduler or random numbers, without the weights."""
    return path.suffix == ".pdopt" or bool(_BESIDE_WEIGHTS.search(path.stem))


def name_without_part(path: PurePath) -> str:
    """Returns the stem of a checkpoint without the part that a file has: `3` of `model_3` and of `optimizer_3`."""
    return re.sub(r"[-_.]+|model|net(?:work)?|weights|params", "", _BESIDE_WEIGHTS.sub("", path.stem))


@dataclass(frozen=True)
class FileUse:
    """A file, or a folder of `members` files, that the program read or wrote.

    Args:
        path: As shown in the entry: relative to the working folder if it is inside.
        mode: "read", "written" or "read and written".
        size_bytes: Sum over the members; -1 if unknown.
        fingerprint: "sha256:..." (full), "sampled:..." (large file), "manifest:..." (folder), or "" with `reason`.
        members: 1 for a file, else the number of files in this row.
        before: Fingerprint of a file when it was read, before the run wrote it; "" if it was not, or is unknown.
        reason: Why there is no fingerprint ("gone", "unreadable", "changed while it was read").
        samples: "sampled:..." of a written file that is fingerprinted whole but that the probe of a later run would
            sample; else "".
        tracked: Digest by DVC or git-annex, such as "dvc md5:..." or "git-annex SHA256E:...", or "".
    """

    path: str
    mode: str
    size_bytes: int
    fingerprint: str = ""
    members: int = 1
    reason: str = ""
    before: str = ""
    samples: str = ""
    tracked: str = ""


@dataclass(frozen=True)
class Artifact:
    """A file that was to be kept: one that matches the setting `artifacts`, or that the program passed to `keep`.

    Args:
        path: As shown in the entry: relative to the working folder if it is inside.
        name: The name given to `labbook.keep()`, else the path.
        digest: "sha256:..." of the bytes that are kept, or "" with `reason`.
        size_bytes: Size of the file; -1 if unknown.
        via: "setting", "keep" or "snapshot".
        reason: Why the file is not kept, or what is uncertain about the copy; "" if it is kept as it was.
        step: Last optimizer step before the call of `keep`, or `None`.
    """

    path: str
    name: str
    digest: str = ""
    size_bytes: int = -1
    via: str = "setting"
    reason: str = ""
    step: int | None = None

    @property
    def hex(self) -> str:
        """The digest without its prefix, "" without one."""
        return self.digest.partition(":")[2]


@dataclass(frozen=True)
class Parent:
    """An earlier run that wrote a file which this run read.

    Args:
        path: Path of the file as this run read it.
        wrote: Path of the file as that run wrote it.
        fingerprint: Fingerprint that both recorded.
        loss: Last training loss of that run, or `None`.
    """

    run: str
    path: str
    wrote: str
    fingerprint: str
    loss: float | None = None
    title: str = ""
