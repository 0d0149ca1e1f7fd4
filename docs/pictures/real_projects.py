"""Makes the pictures of runs of public projects, from their source distributions: `make pictures-real`.

- `gp-notebook.png`: a notebook of GPyTorch, executed by `labbook record`, as the team site shows it;
- `model.png`: the diagram of the network that an example of DeepXDE trains;
- `reproduce-different.svg`: the same run again, which differs because the example sets no seed.

Needs the package index, and `gpytorch`, `deepxde` and `matplotlib` in the environment; no line of theirs is changed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from browser import screenshots
from make import IMAGES, Notebook, still_picture

_NOTEBOOK = "examples/01_Exact_GPs/Simple_GP_Regression.ipynb"
_TRAIN = ["labbook", "record", "--max-steps", "120", "--", "python", "examples/function/func.py"]


def main() -> None:
    """Makes the pictures; the source distributions are downloaded if no folder with them is named."""
    with tempfile.TemporaryDirectory(prefix="labbook-") as temporary:
        folder = Path(temporary)
        sources = Path(sys.argv[1]) if sys.argv[1:] else _download(folder / "sources")
        _notebook_picture(_project("gpytorch", sources, folder))
        _run_pictures(_project("deepxde", sources, folder))


def _download(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(folder)]
    for name in ("gpytorch", "deepxde"):
        subprocess.run([*pip, "--no-binary", name, name], check=True)
    return folder


def _project(name: str, sources: Path, folder: Path) -> Notebook:
    """Returns a project with a notebook, made from the source distribution of a package."""
    with tarfile.open(next(sources.glob(f"{name}-*.tar.gz"))) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    source = next((folder / "unpacked").glob(f"{name}-*"))
    project = Notebook(folder / name, "en", source)
    project.environment |= {"PYTHONPATH": ".", "DDE_BACKEND": "pytorch", "MPLBACKEND": "Agg"}
    return project


def _notebook_picture(project: Notebook) -> None:
    project.environment |= {"PYTHONPATH": "", "MPLBACKEND": ""}
    project.show("labbook", "record", _NOTEBOOK)
    _page_picture(project, "gp-notebook", 1000, "Cell 11")


def _run_pictures(project: Notebook) -> None:
    project.show(*_TRAIN)
    _page_picture(project, "model", 620, "all trainable")
    again = ["labbook", "reproduce", "last"]
    scene = (again, project.show(*again, status=1))
    still_picture("reproduce-different", [scene], "The result of a program without a seed differs when it is run again")


def _page_picture(project: Notebook, name: str, height: int, start: str) -> None:
    """Takes a picture of the entry that was written last, from a heading on."""
    project.run(["labbook", "site", "build"])
    entry = max(project.folder.glob("notes/runs/*/*/*/*.md"))
    page = entry.relative_to(project.folder / "notes").with_suffix(".html").as_posix()
    screenshots(project.folder / "site", {page: IMAGES / f"{name}.png"}, (1280, height), "en", start=start)
    shutil.rmtree(project.folder / "site")


if __name__ == "__main__":
    main()
