"""A capture context over real folders, a real notebook and the real redactor."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from labbook.capture.context import CaptureContext
from labbook.probe.redaction.redactor import Redactor
from labbook.store.config import Config
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths

IDENTITY = ("-c", "user.name=Wei", "-c", "user.email=wei@example.com", "-c", "init.defaultBranch=main")


@pytest.fixture
def git_in():
    """Runs git in a folder, with an identity, and returns what it printed."""

    def call(folder: Path, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, capture_output=True, check=False)
        assert not check or done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    return call


@pytest.fixture
def make_context(tmp_path):
    """A context for a command that runs in a folder."""

    def make(cwd: Path, *argv: str, python=None, environ=None, root: Path | None = None, known=(), **settings):
        config = Config(**settings)
        notebook = Notebook(NotebookPaths(root or tmp_path / "book"), config)
        attachments = notebook.paths.attachments("20261121-153012-k3f9")
        attachments.mkdir(parents=True, exist_ok=True)
        return CaptureContext(
            argv=argv,
            cwd=cwd,
            environ=dict(os.environ) if environ is None else environ,
            config=config,
            attachments=attachments,
            notebook=notebook,
            redactor=Redactor(known=known),
            python=python or {},
        )

    return make


@pytest.fixture
def code(tmp_path, git_in) -> Path:
    """A repository with one committed script."""
    folder = tmp_path / "code"
    folder.mkdir()
    git_in(folder, "init", "-q")
    (folder / "train.py").write_text("import sys\n\nlr = 0.1\nsteps = 10\nprint(lr)\n")
    git_in(folder, "add", ".")
    git_in(folder, "commit", "-qm", "first")
    return folder
