"""Finds or creates the notebook of a folder: the chosen one, one in a parent folder, or the personal one."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from labbook.errors import GitError, LabbookError, NotebookError
from labbook.probe.events.protocol import ENV_NOTEBOOK
from labbook.store.config import Config, has_table, load_config
from labbook.store.git.git_process import create_repository, discover, git_program
from labbook.store.notebook import Notebook, not_writable
from labbook.store.paths import SETTINGS_FILE, NotebookPaths
from labbook.store.scaffold import ScaffoldFiles, write_scaffold

_PERSONAL_NAME = "notebook"


def find_notebook(
    start: Path,
    *,
    chosen: Path | None = None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    create_personal: bool = True,
) -> Notebook:
    """Return the notebook: the chosen one, one above `start`, that of the environment, or the personal one.

    Args:
        start: Folder to walk up from.
        chosen: Folder or settings file of a notebook, from the command line.
        environ: The environment; `LABBOOK_NOTEBOOK` names a notebook.
        flags: Settings from the command line.
        create_personal: Whether to create the personal notebook if it is needed and does not exist.

    Raises:
        NotebookError: The chosen folder is no notebook, settings are invalid, or the personal one cannot be created.
    """
    if chosen is not None:
        return _open_root(_resolve_named(chosen, "--notebook"), environ, flags)
    above = _walk_up(start)
    if above is not None:
        return _open_root(above, environ, flags)
    if environ.get(ENV_NOTEBOOK):
        return _open_root(_resolve_named(Path(environ[ENV_NOTEBOOK]), ENV_NOTEBOOK), environ, flags)
    root = personal_root()
    if not (root / SETTINGS_FILE).is_file():
        if not create_personal:
            raise NotebookError("errors.notebook.none", start=start)
        _create_personal(root, environ)
    return _open_root(root, environ, flags, personal=True)


def personal_root() -> Path:
    """Return the folder of the user's personal notebook; it may not exist."""
    from platformdirs import user_data_dir

    return Path(user_data_dir("labbook", appauthor=False)) / _PERSONAL_NAME


def create_notebook(
    root: Path,
    *,
    config: Config | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Notebook, ScaffoldFiles]:
    """Create a notebook in `root` and return it with the written files; existing files are not changed.

    Outside any repository, a new one is created in `root`, and entries go to its checked-out branch. Without git it is
    a plain folder.

    Args:
        root: Folder of the notebook; created if it does not exist.
        config: Settings to write; those of an existing notebook are not changed.
        environ: The environment, read for settings and language.

    Raises:
        NotebookError: The folder cannot be written.
        GitError: The repository cannot be created.
    """
    environ = os.environ if environ is None else environ
    wanted = Config() if config is None else config
    try:
        root.mkdir(parents=True, exist_ok=True)
        own = discover(root) is None
        if own and git_program() is not None:
            create_repository(root)
        if own and wanted.commit == "branch":
            wanted = replace(wanted, commit="checkout")
        written = write_scaffold(NotebookPaths(root.resolve()), wanted)
    except OSError as error:
        raise not_writable(root, error) from error
    made = _open_root(root, environ, None)
    if own and made.repository is not None:
        from labbook.store.commit.entry_commit import commit_files

        commit_files(made, list(written.files), f"Start the notebook {made.config.title}")
    return made, written


def _open_root(
    root: Path, environ: Mapping[str, str], flags: Mapping[str, object] | None, *, personal: bool = False
) -> Notebook:
    root = root.resolve()
    git = discover(root)
    return Notebook(
        NotebookPaths(root),
        load_config(root, environ, flags),
        # Imported only if needed: importing platformdirs takes some milliseconds.
        personal or (root.name == _PERSONAL_NAME and root == personal_root().resolve()),
        git.top if git else None,
        git.git_dir if git else None,
    )


def _resolve_named(path: Path, origin: str) -> Path:
    root = Path(os.path.expanduser(path))  # noqa: PTH111 - `Path.expanduser` raises RuntimeError for an unknown user
    root = root.parent if root.name in (SETTINGS_FILE, "pyproject.toml") else root
    if not root.is_dir():
        raise NotebookError("errors.notebook.no_folder", root=root, origin=origin, path=path)
    if not _is_notebook(root):
        raise NotebookError("errors.notebook.not_one", root=root, file=SETTINGS_FILE, origin=origin, path=path)
    return root


def _walk_up(start: Path) -> Path | None:
    resolved = start.resolve()
    return next((f for f in (resolved, *resolved.parents) if _is_notebook(f) and not _is_planted(f)), None)


def _is_notebook(folder: Path) -> bool:
    try:
        if (folder / SETTINGS_FILE).is_file():
            return True
        project = folder / "pyproject.toml"
        return project.is_file() and b"tool.labbook" in project.read_bytes() and has_table(project)
    except OSError:
        return False


def _is_planted(folder: Path) -> bool:
    """Whether other users may have written the settings: a folder like /tmp, and a file of another owner."""
    settings = folder / SETTINGS_FILE
    file = settings if settings.is_file() else folder / "pyproject.toml"
    try:
        owner = file.stat().st_uid
        return bool(folder.stat().st_mode & stat.S_IWOTH) and owner not in (os.getuid(), 0)
    except OSError:
        return True


def _create_personal(root: Path, environ: Mapping[str, str]) -> None:
    """Create the personal notebook atomically, so that concurrent recorders create a single one."""
    import tempfile  # with shutil and random, 8 ms

    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".notebook-", dir=root.parent) as folder:
            draft = Path(folder) / "notebook"
            try:
                create_notebook(draft, config=Config(title="Personal lab notebook", commit="checkout"), environ=environ)
            except GitError as error:
                raise NotebookError("errors.notebook.personal_not_created", root=root, reason=error) from error
            _move_into_place(draft, root)
    except OSError as error:
        raise not_writable(root, error) from error


def _move_into_place(draft: Path, root: Path) -> None:
    try:
        draft.rename(root)
    except OSError:
        # Created by another recorder; any other obstacle is an error.
        if not (root / SETTINGS_FILE).is_file():
            raise


def language_here(chosen: str | None = None) -> str:
    """Returns the language of the notebook here, or of a chosen one, "en" or "zh"; without one, that of the system."""
    try:
        path = Path(chosen) if chosen else None
        notebook = find_notebook(Path.cwd(), chosen=path, environ=os.environ, create_personal=False)
    except (LabbookError, OSError):
        return Config().language_in_use()
    return notebook.config.language_in_use()
