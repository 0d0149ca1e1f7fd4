"""`labbook init`: creates a notebook."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.help_text import HelpCommand
from labbook.store.config import Config
from labbook.store.project_template import PROJECTS, write_project

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


_NEXT_STEPS = {
    "github": "terminal.init.github",
    "gitlab": "terminal.init.gitlab",
    "gitee": "terminal.init.gitee",
}


@click.command(cls=HelpCommand)
@click.argument("path", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--title", help="Name of the notebook. Default: Lab notebook.")
@click.option(
    "--language", type=click.Choice(["en", "zh"]), help="Language of entries, site and terminal. Default: the system's."
)
@click.option(
    "--commit",
    type=click.Choice(["branch", "checkout", "off"]),
    help="Commit entries to the separate branch `labbook`, to the checked-out branch, or not at all. Default: branch.",
)
@click.option(
    "--ci",
    type=click.Choice(list(_NEXT_STEPS)),
    help="Also write a workflow of this CI service that builds and publishes the site. It is not committed.",
)
@click.option("--force", is_flag=True, help="Replace an existing workflow.")
@click.option(
    "--template",
    type=click.Choice(PROJECTS),
    help="Also write a small project that trains: configuration, script, test, README.",
)
def command(
    path: Path,
    title: str | None,
    language: str | None,
    commit: str | None,
    ci: str | None,
    force: bool,
    template: str | None,
) -> None:
    """Create a notebook in a folder.

    PATH is the folder, by default the working folder. In a git repository, entries are committed to a separate
    branch, `labbook`; your branch, index and working tree do not change. Outside of one, the folder becomes a git
    repository.

    Existing files are not overwritten. Run it again to add missing files, and in a fresh clone to restore the entries.
    """
    from labbook.commands.options import terminal_sentences
    from labbook.store.commit.branch_checkout import restore_missing
    from labbook.store.notebook_finder import create_notebook

    wanted: dict[str, str] = {"language": language or Config().language_in_use()}
    wanted |= {key: value for key, value in (("title", title), ("commit", commit)) if value is not None}
    had_gitignore = Path(path, ".gitignore").exists()
    notebook, written = create_notebook(path, config=Config(**wanted))  # type: ignore[arg-type]
    say = terminal_sentences(notebook)
    root = notebook.paths.root
    _print_files(say, root, written.files, written.kept, had_gitignore=had_gitignore)
    restored = restore_missing(notebook)
    if restored:
        click.echo(say.line("terminal.init.restored", count=len(restored), branch=notebook.config.branch))
    if written.files or (ci is None and template is None):
        click.echo(say.line("terminal.init.created" if written.files else "terminal.init.exists", root=str(root)))
    click.echo(_describe_destination(notebook, say))
    if written.files and notebook.repository is not None and notebook.config.commit == "branch":
        click.echo(say.line("terminal.init.add_files", commands=_git_commands(root, written.files, "notebook")))
    if template is not None:
        _write_project(notebook, template, say)
    if ci is not None:
        _write_workflow(notebook, ci, say, force=force)
        return
    folder = _shorter_path(root)
    enter = "" if folder == "." else f"cd {shlex.quote(folder)} && "
    click.echo(say.line("terminal.init.next" if template is None else "terminal.init.next_project", enter=enter))


def _print_files(
    say: Sentences, root: Path, written: Iterable[Path], kept: Iterable[Path], *, had_gitignore: bool = False
) -> None:
    """Prints which files were written, and which were there before."""
    for file in written:
        is_extended = had_gitignore and file.name == ".gitignore"
        key = "terminal.init.extended" if is_extended else "terminal.init.wrote"
        click.echo(say.line(key, file=str(file.relative_to(root))))
    for file in kept:
        click.echo(say.line("terminal.init.unchanged", file=str(file.relative_to(root))))


def _write_project(notebook: Notebook, template: str, say: Sentences) -> None:
    root = notebook.paths.root
    made = write_project(root, template, notebook.config.language_in_use())
    _print_files(say, root, made.files, made.kept)
    if made.files and notebook.repository is not None:
        click.echo(say.line("terminal.init.add_project", commands=_git_commands(root, made.files, "project")))


def _write_workflow(notebook: Notebook, provider: str, say: Sentences, *, force: bool) -> None:
    from labbook.store.ci_workflow import write_workflow

    made = write_workflow(notebook, provider, force=force)
    top = Path(str(notebook.repository))
    _print_files(say, top, made.written, made.kept)
    if made.include_in is not None:
        name = str(made.include_in.relative_to(top))
        click.echo(say.line("terminal.init.include", file=name, include=str(made.file.relative_to(top))))
    if made.written:
        click.echo(
            say.line("terminal.init.commit_workflow", commands=_git_commands(top, made.written, "site workflow"))
        )
    click.echo(say.line(_NEXT_STEPS[provider], branch=made.branch))


def _describe_destination(notebook: Notebook, say: Sentences) -> str:
    if notebook.repository is None:
        return say.line("terminal.init.no_git")
    if notebook.config.commit == "off":
        return say.line("terminal.init.not_committed")
    repository = str(notebook.repository)
    if notebook.config.commit == "checkout":
        return say.line("terminal.init.on_checkout", repository=repository)
    return say.line("terminal.init.on_branch", branch=notebook.config.branch, repository=repository)


def _git_commands(root: Path, files: tuple[Path, ...], what: str) -> str:
    """Returns the shell commands that commit new files."""
    folder = _shorter_path(root)
    git = "git" if folder == "." else f"git -C {shlex.quote(folder)}"
    names = " ".join(shlex.quote(str(file.relative_to(root))) for file in files)
    return f"{git} add {names} && {git} commit -m {shlex.quote(f'Add the {what}')}"


def _shorter_path(folder: Path) -> str:
    """Returns the path from here or from the root, which is shorter."""
    return min(os.path.relpath(folder), str(folder), key=len)
