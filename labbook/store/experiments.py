"""Experiments: a named question with a page, `exp003_digits-cnn_dynamic`, that many runs belong to."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from labbook.errors import EntryError, NotebookError, UsageError
from labbook.frozen import dataclass
from labbook.model.metric_kinds import MetricGoal
from labbook.store.entry_text import read_text
from labbook.store.locks import hold_lock
from labbook.store.paths import check_stays_inside, new_run_id

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook

MODES = ("dynamic", "static", "compiled")
"""How a framework executes the model; the last part of an experiment's name."""

_GOAL = re.compile(r"^(metric|direction):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)
_PAGE = re.compile(r"exp(\d{3,6})_.+")
_HEAD_BYTES = 8192
_NAME_CHARACTERS = 40
_LOCK_WAIT_S = 10.0


@dataclass(frozen=True)
class Experiment:
    """One experiment, by its page.

    Args:
        slug: `exp003_digits-cnn_dynamic`.
        path: Its page.
    """

    slug: str
    path: Path

    @property
    def number(self) -> int:
        """The 3 of `exp003`."""
        found = _PAGE.fullmatch(self.slug)
        return int(found[1]) if found else 0


def experiments(notebook: Notebook) -> list[Experiment]:
    """All experiments of the notebook, by number."""
    folder = notebook.paths.experiments
    pages = folder.glob("exp*.md") if folder.is_dir() else ()
    found = [Experiment(page.stem, page) for page in pages if _PAGE.fullmatch(page.stem)]
    return sorted(found, key=lambda each: (each.number, each.slug))


def new_experiment(
    notebook: Notebook,
    name: str,
    *,
    mode: str = "dynamic",
    script: str | None = None,
    project: str = "",
    commit: bool = True,
) -> str:
    """Makes the page of a new experiment and returns its slug; numbers are never given twice.

    Args:
        notebook: Where to make it.
        name: What it is about, in any language.
        mode: "dynamic", "static" or "compiled".
        script: The script whose runs belong to it from now on; `None` for none, "" for runs without a script.
        project: The folder that the script is of, for a notebook that serves many.
        commit: Whether the page is committed at once.

    Raises:
        UsageError: Nothing of the name can be used, or there is no such mode.
        NotebookError: The page cannot be written.
    """
    _check(notebook, name, mode)
    check_stays_inside(notebook.paths.experiments, notebook.paths.root)
    with _locked(notebook):
        _restore_pages(notebook)
        made = _create(notebook, name, mode, script, project)
    if commit:
        _commit(notebook, made)
    return made.slug


def choose_experiment(notebook: Notebook, script: str, chosen: str = "", *, project: str = "") -> str:
    """The slug of the experiment that a run belongs to: the chosen one, or that of its script, made on first use.

    Args:
        notebook: Where to look.
        script: The program of the run, "" when it has none.
        chosen: Slug, number ("3", "exp003") or a part of the name of an experiment; "" for that of the script.
        project: The folder that the script is of, for a notebook that serves many.

    Raises:
        UsageError: The chosen experiment does not exist, or several are meant; names the nearest.
        NotebookError: The page of a new experiment cannot be written, or a link leads notes out of the notebook.
    """
    # The first step of a run: one whose entry would be written elsewhere goes to another notebook.
    for folder in (notebook.paths.experiments, notebook.paths.entry(new_run_id()).parent):
        check_stays_inside(folder, notebook.paths.root)
    if chosen:
        return _existing(notebook, chosen).slug
    found = _of_script(notebook, script, project)
    if found is not None:
        return found.slug
    with _locked(notebook):
        # Another recorder of the same script may have been faster, and the branch may have a page that is not on disk:
        # in a fresh clone, or after switching branches.
        _restore_pages(notebook)
        found = _of_script(notebook, script, project)
        made = found or _create(notebook, _name_of(script, project), "dynamic", script, project)
    if found is None:
        _commit(notebook, made)
    return made.slug


def metric_goal(notebook: Notebook, slug: str) -> MetricGoal:
    """Returns the metric that people chose: `metric` and `direction` of the experiment's page, else of the settings.

    Args:
        notebook: Where to look.
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
        with page.open("rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8", "replace").split("\n---", 1)[0]
    except OSError:
        return {}
    found = {key: value.strip("\"'") for key, value in _GOAL.findall(head) if value}
    if found.get("direction") not in ("max", "min"):
        found.pop("direction", None)
    return found


def slug_part(name: str) -> str:
    """`name` as a part of a file name: letters and digits of any language, joined by dashes."""
    text = unicodedata.normalize("NFKC", name).lower()
    kept = "".join(c if unicodedata.category(c)[0] in "LNM" else "-" for c in text)
    # File names are limited in bytes: a Chinese character takes three, some four.
    short = re.sub("-+", "-", kept).strip("-")[:_NAME_CHARACTERS].encode()[:160].decode("utf-8", "ignore")
    return short.strip("-")


def _locked(notebook: Notebook) -> AbstractContextManager[int | None]:
    from labbook.store.notebook import prepare_private

    prepare_private(notebook)
    return hold_lock(notebook.paths.private / "experiments.lock", _LOCK_WAIT_S)


def _restore_pages(notebook: Notebook) -> None:
    from labbook.store.branch_checkout import restore_before_writing

    restore_before_writing(notebook, notebook.paths.experiments)


def _check(notebook: Notebook, name: str, mode: str) -> None:
    from labbook.store.recorder_redaction import make_redactor, scan_bytes

    # Its page is committed at once, and its file carries the name.
    redactor = make_redactor(os.environ, (), notebook.redaction_rules())
    for hit in scan_bytes(name.encode("utf-8", "replace"), redactor):
        raise UsageError(f"the name may hold a secret ({hit.rule}): no experiment was made", hint="leave the value out")
    if not slug_part(name):
        raise UsageError(f"{name!r} has no letter or digit to make a name of", hint='like: labbook new "digits cnn"')
    if mode not in MODES:
        raise UsageError(f"there is no mode {mode!r}", hint="it is one of " + ", ".join(MODES))


def _create(notebook: Notebook, name: str, mode: str, script: str | None, project: str) -> Experiment:
    known = experiments(notebook)
    number = max((each.number for each in known), default=0) + 1
    slug = f"exp{number:03d}_{slug_part(name)}_{mode}"
    path = notebook.paths.experiments / f"{slug}.md"
    text = _page_text(notebook, slug, " ".join(name.split()), mode, script, project)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise NotebookError(
            f"cannot write the experiment's page {path}: {error.strerror or error}",
            hint="free space or permissions there",
        ) from error
    return Experiment(slug, path)


def _page_text(notebook: Notebook, slug: str, title: str, mode: str, script: str | None, project: str) -> str:
    from labbook.store import frontmatter
    from labbook.store.templates import Templates

    language = notebook.config.language_in_use()
    meta: dict[str, object] = {"schema": 1, "experiment": slug, "title": title, "mode": mode}
    if script is not None:
        meta["script"] = script
    if project:
        meta["project"] = project
    if notebook.config.author:
        meta["author"] = notebook.config.author
    meta["created"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # A broken template of the notebook's own must not keep a run from being recorded.
    body, _ = Templates(notebook.paths.templates, language).render_anyway("experiment.md.j2", {"title": title})
    return f"{frontmatter.emit(meta)}\n{body.rstrip()}\n"


def _commit(notebook: Notebook, made: Experiment) -> None:
    from labbook.store.entry_commit import commit_files

    commit_files(notebook, [made.path], f"Start {made.slug}\n", only_new=True)


def _of_script(notebook: Notebook, script: str, project: str) -> Experiment | None:
    """The newest experiment whose page names the script."""
    for each in reversed(experiments(notebook)):
        if _is_plainly_of(each.path, script, project):
            return each
        meta = _meta(each.path, PurePosixPath(script).name)
        if meta is not None and meta.get("script") == script and (meta.get("project") or "") == project:
            return each
    return None


def _is_plainly_of(page: Path, script: str, project: str) -> bool:
    """Whether the page names script and project in the very lines that labbook writes: then no parser is needed.

    Source: measured, loading the YAML parser takes a tenth of the time of recording a short command.
    """
    from labbook.store import frontmatter

    wanted = frontmatter.emit({"script": script, **({"project": project} if project else {})}).splitlines()[1:-1]
    try:
        with page.open("rb") as stream:
            lines = stream.read(_HEAD_BYTES).decode("utf-8", "replace").split("\n---", 1)[0].splitlines()
    except OSError:
        return False
    plain = all(re.fullmatch(r"[a-z_]+:( .*)?", line) for line in lines[1:])
    named = [line for line in lines if line.startswith(("script:", "project:"))]
    return plain and sorted(named) == sorted(wanted)


def _meta(page: Path, word: str) -> dict[str, object] | None:
    """Front matter of a page that has `word` in its `script:` line; the others are not worth a parser."""
    from labbook.store import frontmatter

    try:
        with page.open("rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
        line = re.search(r"^script:(.*)$", head, re.MULTILINE)
        return frontmatter.parse(read_text(page), str(page))[0] if line and word in line[1] else None
    except (OSError, EntryError):
        return None


def _name_of(script: str, project: str) -> str:
    """`train.py` gives "train", `models/cnn/train.py` gives "cnn train": the file alone says little."""
    path = PurePosixPath(script)
    words = [project, *(part for part in path.parent.parts[-1:] if part not in ("/", "..", ".")), path.stem]
    return " ".join(word for word in words if slug_part(word)) or "scratch"


def _existing(notebook: Notebook, chosen: str) -> Experiment:
    meant = list(_meant(experiments(notebook), chosen))
    if not meant:
        _restore_pages(notebook)
    known = experiments(notebook)
    meant = meant or list(_meant(known, chosen))
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise UsageError(
            f"{chosen!r} may be any of {len(meant)} experiments",
            hint="say which: " + ", ".join(each.slug for each in meant[:5]),
        )
    from difflib import get_close_matches

    near = get_close_matches(chosen, [each.slug for each in known], n=1, cutoff=0.4)
    advice = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no experiment {chosen!r}", hint=f"{advice}`labbook new {chosen!r}` starts it")


def _meant(known: list[Experiment], chosen: str) -> Iterator[Experiment]:
    """The experiment of that slug or number, else all that have the words in their names."""
    exact = [each for each in known if each.slug == chosen]
    number = re.fullmatch(r"(?:exp)?(\d+)", chosen)
    if exact or number:
        yield from exact or [each for each in known if number and each.number == int(number[1])]
        return
    part = slug_part(chosen)
    yield from (each for each in known if part and part in slug_part(each.slug))
