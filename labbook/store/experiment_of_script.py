"""The experiment of a script: found by what its page says, created on first use."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from labbook.errors import EntryError
from labbook.store.experiment_creation import Origin, commit_page, create_page, lock_pages
from labbook.store.experiments import Experiment, experiments, find_experiment, slug_part
from labbook.store.json_files import read_run_facts
from labbook.store.newest_runs import is_of_project, newest_run_ids
from labbook.store.notebook import Notebook
from labbook.store.paths import check_stays_inside, new_run_id
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import read_head, read_text

_MODE_CALLS = re.compile(rb"^(?!\s*#).*?\b((?:en|dis)able_static|to_static|(?<!re\.)\w*compile)\b", re.MULTILINE)
_SCRIPT_BYTES = 256 << 10
_MOST_FILES = 50
_NAMING = ("script:", "project:", "root:")


def choose_experiment(
    notebook: Notebook, script: str, chosen: str = "", *, project: str = "", root: str = "", mode: str = "dynamic"
) -> str:
    """Return the slug of a run's experiment: the chosen one, or that of its script, created on first use.

    Args:
        script: The program of the run, or "".
        chosen: Slug, number ("3", "exp003") or part of the name of an experiment; "" for that of the script.
        project: The name of the project of the script, for a notebook that serves many.
        root: The identity of that project; "" for the notebook's own.
        mode: As of `create_page`, for the name of a new experiment; "": none is created, and without one the result
            is "".

    Raises:
        UsageError: No experiment or several match `chosen`; names the nearest.
        NotebookError: The page of a new experiment cannot be written, or a link leads notes out of the notebook.
    """
    # The first step of a run: a run that cannot write its entry here uses another notebook.
    for folder in (notebook.paths.experiments, notebook.paths.entry(new_run_id()).parent):
        check_stays_inside(folder, notebook.paths.root)
    if chosen:
        return find_experiment(notebook, chosen).slug
    origin = Origin(script, project, root)
    found = _find_script_experiment(notebook, origin)
    if found is not None or not mode:
        return found.slug if found is not None else ""
    with lock_pages(notebook):
        # Another recorder of the same script may have created it, or the branch has a page that was not on disk.
        found = _find_script_experiment(notebook, origin)
        made = found or create_page(notebook, _new_name(notebook, script, project), mode, origin)
    if found is None:
        commit_page(notebook, made)
    return made.slug


def script_mode(script: Path | None) -> str:
    """Return "static", "dynamic", or "unknown": the name of an experiment is chosen before its first run.

    Read are at most 256 KiB of the script and of 50 Python files beside it or in packages there, which it may import:
    where one of them compiles something or switches between modes, only the run shows what the mode is.
    """
    if script is None:
        return "unknown"
    own = _mode_calls(script)
    packages = [marker.parent for marker in script.parent.glob("*/__init__.py")]  # not a folder of a million images
    near = sorted(file for folder in (script.parent, *packages) for file in folder.glob("*.py"))[:_MOST_FILES]
    calls = own.union(*map(_mode_calls, near))
    return "dynamic" if not calls else "static" if own == calls == {b"enable_static"} else "unknown"


def _mode_calls(file: Path) -> set[bytes]:
    try:
        with file.open("rb") as stream:
            return set(_MODE_CALLS.findall(stream.read(_SCRIPT_BYTES)))
    except (OSError, ValueError):
        return set()


def _new_name(notebook: Notebook, script: str, project: str) -> str:
    """Returns the name of a new experiment, with the project where another experiment has the same name without it."""
    name = _name_of(script, "")
    part = slug_part(name)
    taken = any(re.fullmatch(rf"exp\d+_{re.escape(part)}(_\w+)?", each.slug) for each in experiments(notebook))
    return _name_of(script, project) if notebook.personal or taken else name


def _name_of(script: str, project: str) -> str:
    """Derive a name: `train.py` gives "train", `models/cnn/train.py` gives "cnn train"."""
    path = PurePosixPath(script)
    words = [project, *(part for part in path.parent.parts[-1:] if part not in ("/", "..", ".")), path.stem]
    return " ".join(word for word in words if slug_part(word)) or "scratch"


def _find_script_experiment(notebook: Notebook, origin: Origin) -> Experiment | None:
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
        lines = read_head(page).splitlines()
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
