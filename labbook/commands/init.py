"""`labbook init`: makes a team notebook."""

from __future__ import annotations

import os
from pathlib import Path

import click

_EPILOG = """\b
Examples:
  labbook init                       # in the repository of your code, or in an empty folder
  labbook init ../team-notebook --title "Vision team"
  labbook init --language zh
  labbook init --commit checkout     # entries go on the branch that you have checked out
"""


@click.command(epilog=_EPILOG)
@click.argument("path", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--title", help="Name of the notebook.")
@click.option("--language", type=click.Choice(["en", "zh"]), help="Language of entries; else that of the system.")
@click.option(
    "--commit",
    type=click.Choice(["branch", "checkout", "off"]),
    help="Commit entries on a branch of their own, on the one checked out, or not at all.",
)
def command(path: Path, title: str | None, language: str | None, commit: str | None) -> None:
    """Make a notebook in PATH, the working folder by default.

    In a git repository, entries are committed on a branch of their own, `labbook`; your branch, index and work tree
    stay as they are. Elsewhere the folder becomes a repository. Files that exist are kept; running it again adds what
    is missing, in a fresh clone the entries too.
    """
    from labbook.store.branch_checkout import restore_missing
    from labbook.store.config import Config
    from labbook.store.notebook import create_notebook

    wanted: dict[str, str] = {"language": language or Config().language_in_use()}
    wanted |= {key: value for key, value in (("title", title), ("commit", commit)) if value is not None}
    notebook, written = create_notebook(path, config=Config(**wanted))  # type: ignore[arg-type]
    root = notebook.paths.root
    for file in written.files:
        click.echo(f"wrote  {file.relative_to(root)}")
    for file in written.kept:
        click.echo(f"kept   {file.relative_to(root)}")
    restored = restore_missing(notebook)
    if restored:
        count = f"{len(restored)} file{'s' if len(restored) > 1 else ''}"
        click.echo(f"brought back {count} from the branch {notebook.config.branch}")
    click.echo(f"{'the notebook is' if written.files else 'nothing to do: there is a notebook'} in {root}")
    click.echo(_where_entries_go(notebook.config.commit, notebook.config.branch, notebook.repository))
    if written.files and notebook.repository is not None and notebook.config.commit == "branch":
        click.echo(f"commit these files with your code: git -C {_short(root)} add {_names(written.files, root)}")
    click.echo("next: labbook record -- python train.py")


def _where_entries_go(commit: str, branch: str, repository: Path | None) -> str:
    if repository is None:
        return "entries are plain files: there is no git here"
    if commit == "off":
        return "entries are not committed"
    if commit == "checkout":
        return f"entries are committed on the branch that is checked out in {repository}"
    return f"entries are committed on the branch {branch} of {repository}"


def _short(root: Path) -> str:
    relative = os.path.relpath(root)
    return relative if len(relative) < len(str(root)) else str(root)


def _names(files: tuple[Path, ...], root: Path) -> str:
    import shlex

    return " ".join(shlex.quote(str(file.relative_to(root))) for file in files)
