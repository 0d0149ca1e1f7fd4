"""What works on this machine and in this notebook, and what to do where something does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.errors import LabbookError, Unavailable
from labbook.frozen import dataclass

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook

_IMPORT_TIMEOUT_S = 90.0
_OLDEST_GIT = (2, 20)
"""Source: oldest release of which each command that is used here has all its options."""


@dataclass(frozen=True)
class Readiness:
    """One thing that was looked at.

    Args:
        name: What.
        verdict: "ok", "warn" (an entry will lack something) or "fail" (recording cannot work).
        told: What was found.
        advice: What to do, "" when nothing has to be done.
    """

    name: str
    verdict: str
    told: str
    advice: str = ""


def readiness(start: Path, chosen: Path | None, environ: Mapping[str, str]) -> list[Readiness]:
    """Looks at everything that recording needs; takes as long as importing the frameworks does.

    Args:
        start: Folder that a run would be started in.
        chosen: Notebook from the command line, or `None`.
        environ: The environment.
    """
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(check, environ) for check in (_python, _probe, _torch, _paddle)]
        rows = [_git(), *_variables(environ), *_notebook_rows(start, chosen, environ), _terminal(), _gpu(), _site()]
        return rows + [each.result() for each in slow]


def _git() -> Readiness:
    from labbook.store.git_process import git_program

    program = git_program()
    if program is None:
        return Readiness("git", "warn", "not on the PATH: entries are written, not committed", "install git")
    said = _ask([program, "--version"], os.environ, 10.0)[1].strip()
    numbers = said.removeprefix("git version ").split(" ")[0].split(".")
    found = tuple(int(part) for part in numbers[:2] if part.isdigit())
    if len(found) == 2 and found < _OLDEST_GIT:
        return Readiness("git", "warn", said, "labbook is tested with 2.20 and newer; install a newer git")
    return Readiness("git", "ok", said)


def _variables(environ: Mapping[str, str]) -> list[Readiness]:
    """Variables that look like settings and are none."""
    from dataclasses import fields
    from difflib import get_close_matches

    from labbook.probe.events.protocol import ENV_NOTEBOOK, ENV_PROBE
    from labbook.store.config import Config, environment_name

    known = {ENV_NOTEBOOK, ENV_PROBE, *(environment_name(each) for each in fields(Config))}
    rows = []
    for name in sorted(n for n in environ if n.startswith("LABBOOK_") and n not in known):
        near = get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]}?" if near else "remove it"
        rows.append(Readiness("environment", "warn", f"{name} is no setting of labbook", advice))
    return rows


def _notebook_rows(start: Path, chosen: Path | None, environ: Mapping[str, str]) -> list[Readiness]:
    from labbook.store.notebook import find_notebook, personal_root, why_not_writable
    from labbook.store.paths import SETTINGS_FILE

    personal = personal_root()
    try:
        notebook = find_notebook(start, chosen=chosen, environ=environ, create_personal=False)
    except LabbookError as error:
        if (
            chosen is None
            and not (personal / SETTINGS_FILE).exists()
            and error.message.startswith("there is no notebook")
        ):
            told = f"none here; runs will go to your personal notebook {personal}"
            return [Readiness("notebook", "ok", told, "`labbook init` makes one for this folder")]
        return [Readiness("notebook", "fail", error.message, error.hint)]
    kind = "your personal notebook" if notebook.personal else notebook.config.title
    rows = [Readiness("notebook", "ok", f"{notebook.paths.root} ({kind})")]
    locked = why_not_writable(notebook)
    if locked:
        advice = "free space or permissions, or choose another with `--notebook`"
        return [*rows, Readiness("writing", "fail", locked, advice)]
    return [*rows, _commits(notebook), *_waiting(notebook), *_open_runs(notebook)]


def _commits(notebook: Notebook) -> Readiness:
    from labbook.store.git_process import git_program
    from labbook.store.git_state import head_ref, operation

    config = notebook.config
    folders = notebook.git_folders()
    if config.commit == "off":
        return Readiness("commits", "ok", "switched off by the setting `commit`")
    if folders is None:
        advice = f"`labbook init {notebook.paths.root}` makes it one" if git_program() else "install git"
        return Readiness("commits", "warn", "the notebook is in no git repository", advice)
    if config.commit == "branch":
        return _own_branch(notebook)
    doing = operation(folders.git_dir)
    ref = head_ref(folders) if git_program() else "refs/heads/?"
    if doing or not ref:
        told = f"a {doing} is in progress" if doing else "no branch is checked out"
        return Readiness(
            "commits", "warn", f"{told} in {folders.top}: entries wait", "finish it; they are committed then"
        )
    return Readiness("commits", "ok", f"on {ref.removeprefix('refs/heads/')}, checked out in {folders.top}")


def _own_branch(notebook: Notebook) -> Readiness:
    from labbook.store.branch_checkout import missing_files

    branch = notebook.config.branch
    told = f"on the branch {branch} of {notebook.repository}"
    missing = missing_files(notebook)
    if missing:
        advice = f"`labbook init {notebook.paths.root}` brings them back"
        return Readiness("commits", "warn", f"{told}; {len(missing)} of its files are not in notes/", advice)
    return Readiness("commits", "ok", told)


def _waiting(notebook: Notebook) -> list[Readiness]:
    from labbook.store.commit_queue import QUEUE, WITHHELD, pending_commits

    kinds = (
        (QUEUE, "had to wait", "every labbook command tries again"),
        (WITHHELD, "withheld", "`labbook recover` masks what may be a secret and commits"),
    )
    found = []
    for queue, how, advice in kinds:
        items = pending_commits(notebook.paths, queue=queue)
        if items:
            told = f"{len(items)} commit{'s' if len(items) > 1 else ''} {how}: {items[0].reason}"
            found.append(Readiness(queue, "warn", told, advice))
    return found


def _open_runs(notebook: Notebook) -> list[Readiness]:
    """Journals that are not done: of runs that go on now, or whose recorder died."""
    from labbook.store.journal import open_journals

    going, dead = 0, 0
    for journal in open_journals(notebook.paths):
        if journal.claim():
            journal.release()
            dead += 1
        else:
            going += 1
    rows = [Readiness("runs", "ok", f"{going} being recorded now")] if going else []
    if dead:
        rows.append(Readiness("runs", "warn", f"{dead} without an end: the recorder died", "`labbook recover`"))
    return rows


def _terminal() -> Readiness:
    try:
        for descriptor in os.openpty():
            os.close(descriptor)
    except OSError as error:
        told = f"no pseudo-terminal can be opened: {error.strerror}"
        return Readiness("terminal", "warn", told, "programs will behave as if their output went to a file")
    return Readiness("terminal", "ok", "pseudo-terminals work")


def _gpu() -> Readiness:
    from labbook.capture.gpus import has_nvidia, open_gpus

    if not has_nvidia():
        return Readiness("gpu", "ok", "no NVIDIA device")
    try:
        count = len(open_gpus().facts())
    except Unavailable as error:
        return Readiness("gpu", "warn", f"the use of the devices is not measured: {error}")
    return Readiness("gpu", "ok", f"{count} NVIDIA device{'s' if count != 1 else ''}, measured through NVML")


def _site() -> Readiness:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Readiness("site", "ok", f"mkdocs {version('mkdocs')}, mkdocs-material {version('mkdocs-material')}")
    except PackageNotFoundError as error:
        advice = "install labbook with its extra `site` (Python 3.11 or newer)"
        return Readiness("site", "warn", f"{error.name} is not installed: no site can be built", advice)


def _user_python(environ: Mapping[str, str]) -> str:
    path = environ.get("PATH")
    return shutil.which("python", path=path) or shutil.which("python3", path=path) or ""


def _python(environ: Mapping[str, str]) -> Readiness:
    program = _user_python(environ)
    if not program:
        return Readiness("python", "warn", "there is no `python` on the PATH", "activate an environment")
    code, said = _ask([program, "-c", "import sys; print(*sys.version_info[:3], sep='.')"], environ, 30.0)
    if code:
        return Readiness(
            "python", "warn", f"{program} does not start: {said.strip()[-200:]}", "repair that environment"
        )
    return Readiness("python", "ok", f"{said.strip()} at {program}")


def _probe(environ: Mapping[str, str]) -> Readiness:
    """Starts the user's Python as a recorded run would and looks for the hello of the probe."""
    from labbook.probe.events.protocol import EVENTS_FOLDER, HELLO
    from labbook.record.child.probe_environment import inject_environment

    program = _user_python(environ)
    if not program:
        return Readiness("probe", "warn", "not tried: there is no `python`")
    with tempfile.TemporaryDirectory(prefix="labbook-doctor-") as folder:
        events = Path(folder) / EVENTS_FOLDER
        events.mkdir()
        settings = {"dir": folder, "run": "doctor", "level": "normal", "budget": 0.01}
        _, said = _ask([program, "-c", "pass"], inject_environment(environ, settings), 30.0)
        heard = any(f'"{HELLO}"' in file.read_text("utf-8", "replace") for file in events.iterdir())
    if heard:
        return Readiness("probe", "ok", "starts in this Python")
    advice = "it needs Python 3.8 or newer that heeds PYTHONPATH (not started with -I, -E or -S)"
    return Readiness("probe", "warn", f"did not say hello {said.strip()[-200:]}".strip(), advice)


def _framework(module: str, device: str) -> Callable[[Mapping[str, str]], Readiness]:
    asked = (
        f"import importlib.util as u, sys\nif u.find_spec({module!r}) is None: sys.exit(7)\n"
        f"import {module} as m\nprint(m.__version__, 'with GPU' if {device} else 'without GPU')"
    )

    def check(environ: Mapping[str, str]) -> Readiness:
        program = _user_python(environ)
        code, said = _ask([program, "-c", asked], environ, _IMPORT_TIMEOUT_S) if program else (7, "")
        if code == 7:
            return Readiness(module, "ok", "not installed in this Python")
        last = (said.strip().splitlines() or [""])[-1]
        if code:
            return Readiness(module, "warn", f"cannot be imported: {last[:200]}", "runs that use it will fail")
        return Readiness(module, "ok", last)

    return check


_torch = _framework("torch", "m.cuda.is_available()")
_paddle = _framework("paddle", "m.device.is_compiled_with_cuda() and m.device.cuda.device_count()")


def _ask(command: list[str], environ: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """Exit status of a program and all it said; -1 when it did not end in time or could not be started."""
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
            cwd=tempfile.gettempdir(),
        )
    except subprocess.TimeoutExpired:
        return -1, f"it did not end within {timeout_s:g} s"
    except OSError as error:
        return -1, error.strerror or str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")
