"""Experiments: named pages (`exp003_digits-cnn_dynamic`) that group runs."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from labbook.errors import EntryError, NotebookError, UsageError
from labbook.frozen import dataclass
from labbook.model.metric_kinds import MetricGoal
from labbook.store.json_files import read_run_facts
from labbook.store.locks import hold_lock
from labbook.store.newest_runs import is_of_project, newest_run_ids
from labbook.store.notebook import Notebook
from labbook.store.paths import check_stays_inside, new_run_id
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import read_text

MODES = ("dynamic", "static", "compiled")
"""How a framework executes the model; the last part of an experiment's name."""

_GOAL = re.compile(r"^(metric|direction):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)
_MODE_CALLS = re.compile(rb"^(?!\s*#).*\b(enable_static|disable_static)\s*\(", re.MULTILINE)
_SCRIPT_BYTES = 256 << 10
_PAGE = re.compile(r"exp(\d{3,6})_.+")
_HEAD_BYTES = 8192
_NAME_CHARACTERS = 40
_LOCK_WAIT_S = 10.0
_USUAL = "hypothesis"
_NAMING = ("script:", "project:", "root:")


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


class _Origin(NamedTuple):
    """What the runs of an experiment are runs of.

    Args:
        script: The program, "" for runs without one, `None` for any.
        project: Name of its project, for a notebook that serves many.
        root: Identity of that project; "" for the notebook's own.
    """

    script: str | None
    project: str = ""
    root: str = ""


def experiments(notebook: Notebook) -> list[Experiment]:
    """Return all experiments of the notebook, by number."""
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
    with _locked(notebook):
        _restore_pages(notebook)
        made = _create(notebook, name, mode, _Origin(script), template)
    if commit:
        _commit(notebook, made)
    return made.slug


def choose_experiment(
    notebook: Notebook, script: str, chosen: str = "", *, project: str = "", root: str = "", mode: str = "dynamic"
) -> str:
    """Return the slug of a run's experiment: the chosen one, or that of its script, created on first use.

    Args:
        script: The program of the run, or "".
        chosen: Slug, number ("3", "exp003") or part of the name of an experiment; "" for that of the script.
        project: The name of the project of the script, for a notebook that serves many.
        root: The identity of that project; "" for the notebook's own.
        mode: "dynamic", "static" or "compiled", for the name of a new experiment; "": none is created, and without one
            the result is "".

    Raises:
        UsageError: No experiment or several match `chosen`; names the nearest.
        NotebookError: The page of a new experiment cannot be written, or a link leads notes out of the notebook.
    """
    # The first step of a run: a run that cannot write its entry here uses another notebook.
    for folder in (notebook.paths.experiments, notebook.paths.entry(new_run_id()).parent):
        check_stays_inside(folder, notebook.paths.root)
    if chosen:
        return find_experiment(notebook, chosen).slug
    origin = _Origin(script, project, root)
    found = _find_script_experiment(notebook, origin)
    if found is not None or not mode:
        return found.slug if found is not None else ""
    with _locked(notebook):
        # Another recorder of the same script may have created it, or the branch has a page that is not on disk (in a
        # fresh clone, or after switching branches).
        _restore_pages(notebook)
        found = _find_script_experiment(notebook, origin)
        made = found or _create(notebook, _new_name(notebook, script, project), mode, origin)
    if found is None:
        _commit(notebook, made)
    return made.slug


def script_mode(script: Path) -> str:
    """Return "static" for a script that calls `enable_static` and never `disable_static`, else "dynamic".

    A heuristic: the name of an experiment is chosen before its first run. At most the first 256 KiB are read.
    """
    try:
        with script.open("rb") as stream:
            calls = set(_MODE_CALLS.findall(stream.read(_SCRIPT_BYTES)))
    except (OSError, ValueError):
        return "dynamic"
    return "static" if calls == {b"enable_static"} else "dynamic"


def _new_name(notebook: Notebook, script: str, project: str) -> str:
    """Returns the name of a new experiment, with the project where another experiment has the same name without it."""
    name = _name_of(script, "")
    part = slug_part(name)
    taken = any(re.fullmatch(rf"exp\d+_{re.escape(part)}_\w+", each.slug) for each in experiments(notebook))
    return _name_of(script, project) if notebook.personal or taken else name


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
        with page.open("rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8", "replace").split("\n---", 1)[0]
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


def _locked(notebook: Notebook) -> AbstractContextManager[int | None]:
    from labbook.store.notebook import prepare_private

    prepare_private(notebook)
    return hold_lock(notebook.paths.private / "experiments.lock", _LOCK_WAIT_S)


def _restore_pages(notebook: Notebook) -> None:
    from labbook.store.commit.branch_checkout import restore_before_writing

    restore_before_writing(notebook, notebook.paths.experiments)


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


def _create(notebook: Notebook, name: str, mode: str, origin: _Origin, template: str = "") -> Experiment:
    known = experiments(notebook)
    number = max((each.number for each in known), default=0) + 1
    slug = f"exp{number:03d}_{slug_part(name)}_{mode}"
    path = notebook.paths.experiments / f"{slug}.md"
    text = _page_text(notebook, slug, " ".join(name.split()), mode, origin, template)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise NotebookError("errors.experiment.not_written", path=path, reason=error) from error
    return Experiment(slug, path)


def _page_text(notebook: Notebook, slug: str, title: str, mode: str, origin: _Origin, template: str) -> str:
    from labbook.store.text.templates import Templates

    language = notebook.config.language_in_use()
    meta: dict[str, object] = {"schema": 1, "experiment": slug, "title": title, "mode": mode}
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


def _commit(notebook: Notebook, made: Experiment) -> None:
    from labbook.store.commit.entry_commit import commit_files

    commit_files(notebook, [made.path], f"Start {made.slug}\n", only_new=True)


def _find_script_experiment(notebook: Notebook, origin: _Origin) -> Experiment | None:
    """Returns the newest experiment of a script of a project.

    A page without a root was written by a user, or by a version that did not separate projects: it belongs to the
    project of its newest run, or to the first project that runs the script.
    """
    script, root = origin.script or "", origin.root
    wanted = {name: _emitted(name, value or "") for name, value in origin._asdict().items()}
    for each in reversed(experiments(notebook)):
        head = _read_head(each.path, script)
        if head is None or head.get("script") != wanted["script"]:
            continue
        if head.get("root"):
            if head["root"] == wanted["root"]:
                return each
        elif head.get("project") or not root:
            if head.get("project", "") == wanted["project"]:
                return each
        elif _is_of_project(notebook, each.slug, root):
            return each
    return None


def _emitted(name: str, value: str) -> str:
    """Returns a value as it is in a front matter; the script of a run without one is empty, not missing."""
    return (
        frontmatter.emit({name: value}).splitlines()[1].partition(":")[2].strip() if value or name == "script" else ""
    )


def _read_head(page: Path, script: str) -> dict[str, str] | None:
    """Returns script, project and root of a page as they are written there; `None` if it cannot be of the script.

    Source: measured, loading the YAML parser takes a tenth of the time of recording a short command: it is used for
    pages that people changed only.
    """
    try:
        with page.open("rb") as stream:
            lines = stream.read(_HEAD_BYTES).decode("utf-8", "replace").split("\n---", 1)[0].splitlines()
    except OSError:
        return None
    named = {line.partition(":")[0]: line.partition(":")[2].strip() for line in lines if line.startswith(_NAMING)}
    if all(re.fullmatch(r"[a-z_]+:( .*)?", line) for line in lines[1:]):
        return named
    if PurePosixPath(script).name not in named.get("script", ""):
        return None
    try:
        meta = frontmatter.parse(read_text(page), str(page))[0]
    except (OSError, EntryError):
        return None
    return {
        name: _emitted(name, str(meta[name])) for name in ("script", "project", "root") if meta.get(name) is not None
    }


def _is_of_project(notebook: Notebook, slug: str, root: str) -> bool:
    """Whether the newest run of an experiment is of a project; also if it has no run."""
    for run_id in newest_run_ids(notebook.paths):
        facts = read_run_facts(notebook.paths, run_id)
        if facts.get("experiment") == slug:
            return is_of_project(facts, root)
    return True


def _name_of(script: str, project: str) -> str:
    """Derive a name: `train.py` gives "train", `models/cnn/train.py` gives "cnn train"."""
    path = PurePosixPath(script)
    words = [project, *(part for part in path.parent.parts[-1:] if part not in ("/", "..", ".")), path.stem]
    return " ".join(word for word in words if slug_part(word)) or "scratch"


def find_experiment(notebook: Notebook, chosen: str) -> Experiment:
    """Returns the experiment that a person names.

    Args:
        chosen: Slug, number ("3", "exp003") or part of the name.

    Raises:
        UsageError: No experiment or several match; names the nearest.
    """
    matches = list(_match(experiments(notebook), chosen))
    if not matches:
        _restore_pages(notebook)
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
