"""Experiments: named pages (`exp003_digits-cnn_dynamic`) that group runs. Lists and finds them, and their metric."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from labbook.errors import UsageError
from labbook.frozen import dataclass
from labbook.model.metric_kinds import MetricGoal
from labbook.store.notebook import Notebook
from labbook.store.text.entry_text import read_head

_GOAL = re.compile(r"^(metric|direction):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)
_PAGE = re.compile(r"exp(\d{3,6})_.+")
_NAME_CHARACTERS = 40


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Args:
        slug: `exp003_digits-cnn_dynamic`.
    """

    slug: str
    path: Path

    @property
    def number(self) -> int:
        """The 3 of `exp003`."""
        found = _PAGE.fullmatch(self.slug)
        return int(found[1]) if found else 0


def experiments(notebook: Notebook) -> list[Experiment]:
    """Return all experiments of the notebook, by number."""
    folder = notebook.paths.experiments
    pages = folder.glob("exp*.md") if folder.is_dir() else ()
    found = [Experiment(page.stem, page) for page in pages if _PAGE.fullmatch(page.stem)]
    return sorted(found, key=lambda each: (each.number, each.slug))


def find_experiment(notebook: Notebook, chosen: str) -> Experiment:
    """Returns the experiment that a person names.

    Args:
        chosen: Slug, number ("3", "exp003") or part of the name.

    Raises:
        UsageError: No experiment or several match; names the nearest.
    """
    matches = list(_match(experiments(notebook), chosen))
    if not matches:
        restore_pages(notebook)
    known = experiments(notebook)
    matches = matches or list(_match(known, chosen))
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            "errors.experiment.several", chosen=chosen, count=len(matches), slugs=[each.slug for each in matches[:5]]
        )
    from difflib import get_close_matches

    near = get_close_matches(chosen, [each.slug for each in known], n=1, cutoff=0.4)
    raise UsageError(
        "errors.experiment.unknown",
        chosen=chosen,
        near="".join(near),
        advice="errors.experiment.near_advice" if near else "",
    )


def _match(known: list[Experiment], chosen: str) -> Iterator[Experiment]:
    """Return the experiment with that slug or number, else all whose names contain the words."""
    exact = [each for each in known if each.slug == chosen]
    number = re.fullmatch(r"(?:exp)?(\d+)", chosen)
    if exact or number:
        yield from exact or [each for each in known if number and each.number == int(number[1])]
        return
    part = slug_part(chosen)
    yield from (each for each in known if part and part in slug_part(each.slug))


def restore_pages(notebook: Notebook) -> None:
    """Writes the pages that are on the branch of the notebook and not on disk."""
    from labbook.store.commit.branch_checkout import restore_before_writing

    restore_before_writing(notebook, notebook.paths.experiments)


def metric_goal(notebook: Notebook, slug: str) -> MetricGoal:
    """Returns the metric that people chose: `metric` and `direction` of the experiment's page, else of the settings.

    Args:
        slug: The experiment, "" for none.
    """
    meta = _goal_lines(notebook.paths.experiments / f"{slug}.md") if slug else {}
    settings = notebook.config
    if not meta.get("metric"):
        return MetricGoal(settings.metric, meta.get("direction") or settings.direction)
    same = meta["metric"] == settings.metric
    return MetricGoal(meta["metric"], meta.get("direction") or (settings.direction if same else ""))


def _goal_lines(page: Path) -> dict[str, str]:
    """Returns `metric` and `direction` of a page; no parser is needed for two lines of text."""
    try:
        head = read_head(page)
    except OSError:
        return {}
    found = {key: value.strip("\"'") for key, value in _GOAL.findall(head) if value}
    if found.get("direction") not in ("max", "min"):
        found.pop("direction", None)
    return found


def slug_part(name: str) -> str:
    """Make a part of a file name: letters and digits of any language, joined by dashes."""
    text = unicodedata.normalize("NFKC", name).lower()
    kept = "".join(c if unicodedata.category(c)[0] in "LNM" else "-" for c in text)
    # File names are limited in bytes: a Chinese character takes three, some four.
    short = re.sub("-+", "-", kept).strip("-")[:_NAME_CHARACTERS].encode()[:160].decode("utf-8", "ignore")
    return short.strip("-")
