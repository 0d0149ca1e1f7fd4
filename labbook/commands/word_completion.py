"""Shell completion of what a notebook has: runs, experiments, symptoms, and the keys of a query."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.errors import LabbookError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from labbook.store.notebook import Notebook

Named = Sequence[tuple[str, str]]
"""Words of the shell completion with their help."""


def _completion(
    words: Callable[[Notebook, str], Named],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Returns a completion of words that a notebook has; nothing without a notebook."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from labbook.store.notebook_finder import find_notebook

        chosen = context.params.get("notebook")
        try:
            notebook = find_notebook(Path.cwd(), chosen=Path(chosen) if chosen else None, environ=os.environ)
            found = words(notebook, incomplete)
        except LabbookError:
            return []
        return [CompletionItem(name, help=title) for name, title in found if name.startswith(incomplete)]

    return complete


def _runs(notebook: Notebook, beginning: str) -> Named:
    from labbook.index.query import run_names

    return [*run_names(notebook, beginning), ("last", "")]


def _experiments(notebook: Notebook, _beginning: str) -> Named:
    from labbook.store.experiments import experiments

    return [(each.slug, "") for each in experiments(notebook)]


def _symptoms(notebook: Notebook, _beginning: str) -> Named:
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue

    catalogue = load_catalogue(notebook.paths.symptoms)
    return [(name, catalogue.title(name)) for name in catalogue.symptoms]


def _keys(notebook: Notebook, beginning: str) -> Named:
    from labbook.index.query import read_field_names

    return [(f"{name}:", "") for name in read_field_names(notebook).all_names() if name.startswith(beginning)]


complete_runs = _completion(_runs)
complete_experiments = _completion(_experiments)
complete_symptoms = _completion(_symptoms)
complete_keys = _completion(_keys)
complete_names = _completion(lambda notebook, beginning: [(key[:-1], "") for key, _ in _keys(notebook, beginning)])
complete_targets = _completion(lambda notebook, beginning: [*_runs(notebook, beginning), *_experiments(notebook, "")])
