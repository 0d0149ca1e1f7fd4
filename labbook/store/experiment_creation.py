"""Creates the page of a new experiment, and commits it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from labbook.errors import NotebookError, UsageError
from labbook.store.experiments import Experiment, experiments, restore_pages, slug_part
from labbook.store.locks import hold_lock
from labbook.store.notebook import Notebook
from labbook.store.paths import check_stays_inside
from labbook.store.text import frontmatter

MODES = ("dynamic", "static", "compiled")
"""How a framework executes the model; the last part of an experiment's name."""

_LOCK_WAIT_S = 10.0
_USUAL = "hypothesis"


class Origin(NamedTuple):
    """What the runs of an experiment are runs of.

    Args:
        script: The program, "" for runs without one, `None` for any.
        project: Name of its project, for a notebook that serves many.
        root: Identity of that project; "" for the notebook's own.
    """

    script: str | None
    project: str = ""
    root: str = ""


def new_experiment(
    notebook: Notebook,
    name: str,
    *,
    mode: str = "dynamic",
    script: str | None = None,
    template: str = "",
    commit: bool = True,
) -> str:
    """Create the page of a new experiment and return its slug, with the number after the highest one.

    Args:
        name: Subject of the experiment, in any language.
        mode: "dynamic", "static" or "compiled".
        script: The script whose future runs belong to it; `None`: no script, "": runs without a script.
        template: Name of the template of its page, "" or "hypothesis" for the usual one.
        commit: Whether the page is committed at once.

    Raises:
        UsageError: The name has no usable characters, or the mode or template is unknown.
        NotebookError: The page cannot be written.
    """
    _check(notebook, name, mode, template)
    check_stays_inside(notebook.paths.experiments, notebook.paths.root)
    with lock_pages(notebook):
        made = create_page(notebook, name, mode, Origin(script), template)
    if commit:
        commit_page(notebook, made)
    return made.slug


def _check(notebook: Notebook, name: str, mode: str, template: str) -> None:
    from labbook.store.recorder_redaction import make_redactor, scan_bytes

    # Its page is committed immediately, and the file name contains the name.
    redactor = make_redactor(os.environ, (), notebook.redaction_rules())
    for hit in scan_bytes(name.encode("utf-8", "replace"), redactor):
        raise UsageError("errors.experiment.secret", rule=hit.rule)
    if not slug_part(name):
        raise UsageError("errors.experiment.no_letters", name=name)
    if mode not in MODES:
        raise UsageError("errors.experiment.no_mode", mode=mode, modes=list(MODES))
    known = experiment_templates(notebook) if template else []
    if template and template not in known:
        raise UsageError("errors.experiment.no_template", template=template, known=known)


def experiment_templates(notebook: Notebook) -> list[str]:
    """Returns the names of templates for pages of experiments: `experiment_NAME.md.j2` of labbook and the notebook."""
    from labbook.store.text.words_files import builtin_folder

    folders = (builtin_folder(), notebook.paths.templates)
    pages = [page.name for folder in folders for page in folder.glob("experiment_*.md.j2")]
    return sorted({_USUAL, *(name.removeprefix("experiment_").removesuffix(".md.j2") for name in pages)})


@contextmanager
def lock_pages(notebook: Notebook) -> Iterator[None]:
    """Keeps other processes from creating pages, and restores those that are on the branch and not on disk.

    A fresh clone has such pages, and a work tree after switching branches.
    """
    from labbook.store.notebook import prepare_private

    prepare_private(notebook)
    with hold_lock(notebook.paths.private / "experiments.lock", _LOCK_WAIT_S):
        restore_pages(notebook)
        yield


def create_page(notebook: Notebook, name: str, mode: str, origin: Origin, template: str = "") -> Experiment:
    """Writes the page of a new experiment; called with `lock_pages`.

    Args:
        mode: One of `MODES`; any other, such as "unknown", is neither in the name nor on the page.

    Raises:
        NotebookError: The page cannot be written.
    """
    known = experiments(notebook)
    number = max((each.number for each in known), default=0) + 1
    slug = "_".join([f"exp{number:03d}", slug_part(name), *([mode] if mode in MODES else ())])
    path = notebook.paths.experiments / f"{slug}.md"
    text = _page_text(notebook, slug, " ".join(name.split()), mode, origin, template)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise NotebookError("errors.experiment.not_written", path=path, reason=error) from error
    return Experiment(slug, path)


def _page_text(notebook: Notebook, slug: str, title: str, mode: str, origin: Origin, template: str) -> str:
    from labbook.store.text.templates import Templates

    language = notebook.config.language_in_use()
    meta: dict[str, object] = {"schema": 1, "experiment": slug, "title": title}
    if mode in MODES:
        meta["mode"] = mode
    if origin.script is not None:
        meta["script"] = origin.script
    if origin.project:
        meta["project"] = origin.project
    if origin.root:
        meta["root"] = origin.root
    if notebook.config.author:
        meta["author"] = notebook.config.author
    meta["created"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # A broken template of the notebook must not prevent recording.
    body, _ = Templates(notebook.paths.templates, language).render_anyway(
        "experiment.md.j2" if template in ("", _USUAL) else f"experiment_{template}.md.j2", {"title": title}
    )
    return f"{frontmatter.emit(meta)}\n{body.rstrip()}\n"


def commit_page(notebook: Notebook, made: Experiment) -> None:
    """Commits the page of a new experiment."""
    from labbook.store.commit.entry_commit import commit_files

    commit_files(notebook, [made.path], f"Start {made.slug}\n", only_new=True)
