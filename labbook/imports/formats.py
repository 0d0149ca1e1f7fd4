"""The formats that can be imported, and which one a path looks like."""

from __future__ import annotations

from pathlib import Path

from labbook.imports.csv_logs import CSV
from labbook.imports.huggingface_files import HUGGINGFACE
from labbook.imports.mlflow_store import MLFLOW
from labbook.imports.swanlab_files import SWANLAB
from labbook.imports.tensorboard_files import TENSORBOARD
from labbook.imports.trackio_database import TRACKIO
from labbook.imports.visualdl_files import VISUALDL
from labbook.imports.wandb_files import WANDB

_READERS = (TENSORBOARD, VISUALDL, MLFLOW, WANDB, SWANLAB, TRACKIO, HUGGINGFACE, CSV)
FORMATS = {reader.name: reader for reader in _READERS}
"""Name on the command line -> reader. CSV is last: other tools write CSV files, too."""


def likely_formats(path: Path) -> list[str]:
    """Returns the names of the formats that a path looks like."""
    return [name for name, reader in FORMATS.items() if reader.recognizes(path)]
