"""Writes the workflow with which a CI service builds and publishes the site of a notebook.

The workflows are data: `templates/ci/`, with `providers.toml` for their paths. They are written into the working tree;
committing them is left to the user.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from labbook.errors import NotebookError, UsageError
from labbook.frozen import dataclass
from labbook.store.commit.branch_checkout import notebook_prefix
from labbook.store.config import read_toml
from labbook.store.git.git_state import head_ref
from labbook.store.notebook import Notebook
from labbook.store.scaffold import fill_template
from labbook.store.text.words_files import builtin_folder


@dataclass(frozen=True)
class Workflow:
    """The files of a workflow, as absolute paths.

    Args:
        file: The file with the job.
        kept: Files that have the same text already.
        include_in: Existing file that must include `file`, or `None`.
        branch: Branch whose pushes start the workflow.
    """

    file: Path
    written: tuple[Path, ...]
    kept: tuple[Path, ...]
    include_in: Path | None
    branch: str


def write_workflow(notebook: Notebook, provider: str, *, force: bool = False) -> Workflow:
    """Writes the workflow of a provider below the top folder of the repository.

    Args:
        provider: A table of `providers.toml`: "github", "gitlab" or "gitee".
        force: Whether to replace an existing file of another text; a main file of the user is never replaced.

    Raises:
        UsageError: The file exists with another text, or the entries are not committed to a repository.
        NotebookError: A file cannot be written.
    """
    folders = notebook.git_folders()
    if folders is None or folders.bare or notebook.config.commit == "off":
        raise UsageError("errors.workflow.not_committed", root=notebook.paths.root)
    source = builtin_folder() / "ci"
    names = read_toml(source / "providers.toml")[0][provider]
    branch = head_ref(folders).removeprefix("refs/heads/") or "main"
    values = _values(notebook, notebook_prefix(notebook, folders) or ".", branch)
    file = folders.top / names["file"]
    texts = {file: fill_template(source / names["template"], values)}
    main = folders.top / names["main_file"] if "main_file" in names else None
    if main is not None and not main.exists():
        texts[main] = fill_template(source / names["main_template"], values)
    try:
        kept = [path for path, text in texts.items() if path.is_file() and path.read_bytes() == text.encode()]
        if file.exists() and file not in kept and not force:
            raise UsageError("errors.workflow.exists", file=file)
        for path in texts.keys() - kept:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(texts[path].encode())
        unlinked = main is not None and names["file"] not in main.read_text("utf-8", "replace")
    except OSError as error:
        raise NotebookError("errors.file.not_written", path=str(error.filename or file), reason=error) from error
    written = tuple(path for path in texts if path not in kept)
    return Workflow(file, written, tuple(kept), main if unlinked else None, branch)


def _values(notebook: Notebook, root: str, code_branch: str) -> dict[str, str]:
    """Returns the values of the placeholders, quoted for YAML and for the shell."""
    fetch = ": the entries are on the branch that is checked out"
    if notebook.config.commit == "branch":
        refs = f"+refs/heads/{notebook.config.branch}:refs/remotes/origin/{notebook.config.branch}"
        fetch = f"git fetch --depth=1 origin {_quote_for_shell(refs)}"
    return {
        "code_branch": json.dumps(code_branch, ensure_ascii=False),
        "root": _quote_for_shell(root),
        "fetch": fetch,
        "fetch_yaml": json.dumps(fetch, ensure_ascii=False),
    }


def _quote_for_shell(text: str) -> str:
    """Returns a word for the shell in which a CI service finds no expression of its own: `${{`."""
    return shlex.quote(text).replace("{{", "{''{")
