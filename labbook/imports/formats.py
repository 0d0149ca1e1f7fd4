"""The formats that can be imported, and which one a path looks like."""

from __future__ import annotations

from pathlib import Path

from labbook.imports.csv_logs import CSVReader
from labbook.imports.imported_run import Reader
from labbook.imports.mlflow_store import MLflowReader
from labbook.imports.swanlab_files import SwanLabReader
from labbook.imports.tensorboard_files import TensorBoardReader
from labbook.imports.trackio_database import TrackioReader
from labbook.imports.visualdl_files import VisualDLReader
from labbook.imports.wandb_files import WandbReader

FORMATS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        TensorBoardReader(),
        VisualDLReader(),
        MLflowReader(),
        WandbReader(),
        SwanLabReader(),
        TrackioReader(),
        CSVReader(),
    )
}
"""Name on the command line -> reader. CSV is last: other tools write CSV files, too."""


def likely_formats(path: Path) -> list[str]:
    """Returns the names of the formats that a path looks like."""
    return [name for name, reader in FORMATS.items() if reader.recognizes(path)]
