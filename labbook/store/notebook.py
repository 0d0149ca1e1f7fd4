"""The notebook of a run: where its files lie, its settings, and the repository around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from labbook.errors import NotebookError
from labbook.frozen import dataclass
from labbook.model.message import Message
from labbook.store.config import Config
from labbook.store.git.git_process import GitFolders, discover
from labbook.store.paths import NotebookPaths
from labbook.store.private_folder import make_private


@dataclass(frozen=True)
class Notebook:
    """One notebook.

    Args:
        personal: Whether it is the user's personal notebook.
        repository: Top folder of the git repository that it lies in, or `None`.
        git_dir: Git folder of that repository, or `None`.
        notify: Shows the user of a command which run the word "last" is, or `None`.
    """

    paths: NotebookPaths
    config: Config
    personal: bool = False
    repository: Path | None = None
    git_dir: Path | None = None
    notify: Callable[[Message], None] | None = None

    def redaction_rules(self) -> Path | None:
        """The file with the notebook's own redaction rules, or `None`."""
        return self.paths.root / self.config.redact_rules if self.config.redact_rules else None

    def git_folders(self) -> GitFolders | None:
        """The repository that the notebook lies in, or `None`."""
        return discover(self.paths.root)


def prepare_private(notebook: Notebook) -> None:
    """Makes the private folder, readable by its owner only and ignored by git wherever the notebook lies.

    Raises:
        NotebookError: The notebook cannot be written.
    """
    try:
        make_private(notebook.paths.private)
    except OSError as error:
        raise not_writable(notebook.paths.root, error) from error


def write_obstacle(notebook: Notebook) -> str:
    """Why nothing can be written into the notebook, or "" when it can."""
    import tempfile  # with shutil and random, 8 ms

    try:
        prepare_private(notebook)
        with tempfile.TemporaryFile(dir=notebook.paths.private):
            pass
        notebook.paths.notes.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=notebook.paths.notes):
            return ""
    except NotebookError as error:
        return error.message
    except OSError as error:
        return not_writable(notebook.paths.root, error).message


def not_writable(root: Path, error: OSError) -> NotebookError:
    """Returns the error for a notebook that the system does not let us write."""
    return NotebookError("errors.notebook.not_writable", path=root, reason=error)
