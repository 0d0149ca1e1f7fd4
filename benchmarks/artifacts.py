"""Keeping files: what it costs the training, and how long storing and uploading take next to plain tools.

    python benchmarks/artifacts.py [--rounds 5] [--mib 64] [--files 4]

Three questions, each with interleaved rounds, medians and a ratio:

- `training`: processor time of a program that writes checkpoints, recorded with `artifacts = ["*.pt"]` and without
- `keep`: copying and hashing files into the objects of a notebook, next to `cp` and `sha256sum`
- `upload`: `labbook artifact push` to a folder, which reads everything back, next to `dvc add` and `dvc push` where DVC
  is installed, else next to two copies by `cp`
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from labbook.artifacts.object_store import ObjectFolder
from labbook.artifacts.upload import upload_pending
from labbook.store.config import Config
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths

TRAIN = """
import json, os, sys, time
begun = time.process_time()
values = [float(number) for number in range(20000)]
for step in range(200):
    values = [value * 0.999 + 0.001 for value in values]
    if step % 40 == 39:
        with open(f"step{step}.pt", "wb") as stream:
            stream.write(os.urandom(1 << 20) * 8)
print(json.dumps(time.process_time() - begun))
"""


def interleaved(rounds: int, **subjects: Callable[[], float]) -> dict[str, float]:
    """Name -> median of its seconds; every round runs each subject once."""
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds):
        order = list(subjects) if number % 2 else list(reversed(list(subjects)))
        for name in order:
            seconds[name].append(subjects[name]())
    return {name: statistics.median(values) for name, values in seconds.items()}


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout


def training(folder: Path, rounds: int) -> dict[str, float]:
    books = {}
    for name, setting in (("without", "[]"), ("with", '["*.pt"]')):
        book = books[name] = folder / name
        book.mkdir()
        (book / "labbook.toml").write_text(f'commit = "off"\nartifacts = {setting}\n')
        (book / "train.py").write_text(TRAIN)

    def record(book: Path) -> float:
        os.sync()  # what the round before has written is not to be written back during this one
        out = run(sys.executable, "-m", "labbook", "record", "--", sys.executable, "train.py", cwd=book)
        return float(json.loads(out.strip().splitlines()[-1]))

    return interleaved(rounds, without=lambda: record(books["without"]), kept=lambda: record(books["with"]))


def make_files(folder: Path, count: int, mib: int) -> list[Path]:
    files = []
    for number in range(count):
        path = folder / f"weights{number}.pt"
        path.write_bytes(os.urandom(1 << 20) * mib)
        files.append(path)
    return files


def keep(folder: Path, files: list[Path], rounds: int) -> dict[str, float]:
    def by_labbook() -> float:
        place = folder / "objects"
        seconds = timed(lambda: [ObjectFolder(place).add(path, 1 << 40) for path in files])
        shutil.rmtree(place)
        return seconds

    def by_tools() -> float:
        place = folder / "copies"
        place.mkdir()
        names = [str(path) for path in files]
        seconds = timed(lambda: (run("cp", *names, str(place), cwd=folder), run("sha256sum", *names, cwd=folder)))
        shutil.rmtree(place)
        return seconds

    return interleaved(rounds, labbook=by_labbook, cp_and_sha256sum=by_tools)


def upload(folder: Path, files: list[Path], rounds: int) -> dict[str, float]:
    dvc = shutil.which("dvc", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")

    def by_labbook() -> float:
        root, store = folder / "book", folder / "store"
        root.mkdir()
        book = Notebook(NotebookPaths(root), replace(Config(), artifact_store=str(store)))

        def work() -> None:
            for path in files:
                ObjectFolder(book.paths.artifacts).add(path, 1 << 40)
            state = upload_pending(book)
            assert state.pending == 0, state.error

        seconds = timed(work)
        shutil.rmtree(root)
        shutil.rmtree(store)
        return seconds

    def by_dvc() -> float:
        repository, store = folder / "dvc", folder / "dvcstore"
        repository.mkdir()
        store.mkdir()
        run(dvc, "init", "--no-scm", "-q", cwd=repository)
        run(dvc, "remote", "add", "-q", "-d", "store", str(store), cwd=repository)
        names = [path.name for path in files]
        for path in files:
            shutil.copyfile(path, repository / path.name)
        seconds = timed(lambda: (run(dvc, "add", "-q", *names, cwd=repository), run(dvc, "push", "-q", cwd=repository)))
        shutil.rmtree(repository)
        shutil.rmtree(store)
        return seconds

    def by_cp() -> float:
        names = [str(path) for path in files]
        places = [folder / "first", folder / "second"]
        for place in places:
            place.mkdir()
        seconds = timed(lambda: [run("cp", *names, str(place), cwd=folder) for place in places])
        for place in places:
            shutil.rmtree(place)
        return seconds

    peers = {"dvc_add_and_push": by_dvc} if dvc else {"cp_twice": by_cp}
    return interleaved(rounds, labbook=by_labbook, **peers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=64, help="size of each file")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = make_files(folder, options.files, options.mib)
        found = {
            "training": training(folder, options.rounds),
            "keep": keep(folder, files, options.rounds),
            "upload": upload(folder, files, options.rounds),
        }
    if options.json:
        print(json.dumps(found))
        return
    for question, medians in found.items():
        (one, first), (other, second) = medians.items()
        print(f"{question:9} {one} {first:.3f} s, {other} {second:.3f} s, ratio {one}/{other} {first / second:.2f}")


if __name__ == "__main__":
    main()
