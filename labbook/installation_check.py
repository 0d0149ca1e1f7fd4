"""Checks what recording needs on this machine and in this notebook, for `labbook doctor`."""

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
"""Source: the oldest release in which every git command that labbook calls has all its options."""


@dataclass(frozen=True)
class CheckedItem:
    """The result of one check.

    Args:
        name: What was checked.
        verdict: "ok", "warn" (an entry will lack something) or "fail" (recording cannot work).
        told: The result, in words.
        advice: What to do, "" if nothing has to be done.
    """

    name: str
    verdict: str
    told: str
    advice: str = ""


def check_installation(start: Path, chosen: Path | None, environ: Mapping[str, str]) -> list[CheckedItem]:
    """Returns the results of all checks; takes as long as importing the frameworks.

    Args:
        start: Folder in which a run would start.
        chosen: Notebook from the command line, or `None`.
        environ: The environment.
    """
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(check, environ) for check in (_check_python, _check_probe, _check_torch, _check_paddle)]
        rows = [
            _check_git(),
            *_check_variables(environ),
            *_check_notebook(start, chosen, environ),
            _check_terminal(),
            _check_gpu(),
            _check_site(),
        ]
        return rows + [each.result() for each in slow]


def _check_git() -> CheckedItem:
    from labbook.store.git_process import git_program

    program = git_program()
    if program is None:
        return CheckedItem("git", "warn", "not on the PATH: entries are written but not committed", "install git")
    output = _run_program([program, "--version"], os.environ, 10.0)[1].strip()
    numbers = output.removeprefix("git version ").split(" ")[0].split(".")
    version = tuple(int(part) for part in numbers[:2] if part.isdigit())
    if len(version) == 2 and version < _OLDEST_GIT:
        return CheckedItem("git", "warn", output, "install git 2.20 or newer")
    return CheckedItem("git", "ok", output)


def _check_variables(environ: Mapping[str, str]) -> list[CheckedItem]:
    """Returns a warning for each `LABBOOK_` variable that is no setting."""
    from dataclasses import fields
    from difflib import get_close_matches

    from labbook.probe.protocol import ENV_NOTEBOOK, ENV_PROBE
    from labbook.store.config import Config, environment_name

    known = {ENV_NOTEBOOK, ENV_PROBE, *(environment_name(each) for each in fields(Config))}
    rows = []
    for name in sorted(n for n in environ if n.startswith("LABBOOK_") and n not in known):
        near = get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]}?" if near else "remove it"
        rows.append(CheckedItem("environment", "warn", f"{name} is not a setting of labbook", advice))
    return rows


def _check_notebook(start: Path, chosen: Path | None, environ: Mapping[str, str]) -> list[CheckedItem]:
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
            result = f"none here; runs will go to your personal notebook {personal}"
            return [CheckedItem("notebook", "ok", result, "`labbook init` creates one for this folder")]
        return [CheckedItem("notebook", "fail", error.message, error.hint)]
    kind = "your personal notebook" if notebook.personal else notebook.config.title
    rows = [CheckedItem("notebook", "ok", f"{notebook.paths.root} ({kind})")]
    locked = why_not_writable(notebook)
    if locked:
        advice = "free disk space or fix the permissions, or choose another notebook with `--notebook`"
        return [*rows, CheckedItem("writing", "fail", locked, advice)]
    return [*rows, _check_commits(notebook), *_check_queues(notebook), *_check_journals(notebook)]


def _check_commits(notebook: Notebook) -> CheckedItem:
    from labbook.store.git_process import git_program
    from labbook.store.git_state import head_ref, operation

    config = notebook.config
    folders = notebook.git_folders()
    if config.commit == "off":
        return CheckedItem("commits", "ok", "switched off by the setting `commit`")
    if folders is None:
        advice = f"`labbook init {notebook.paths.root}` creates one" if git_program() else "install git"
        return CheckedItem("commits", "warn", "the notebook is in no git repository", advice)
    if config.commit == "branch":
        return _check_branch(notebook)
    running = operation(folders.git_dir)
    ref = head_ref(folders) if git_program() else "refs/heads/?"
    if running or not ref:
        reason = f"a {running} is in progress" if running else "no branch is checked out"
        advice = f"finish the {running}" if running else "check out a branch"
        advice += "; the next labbook command commits the entries"
        return CheckedItem("commits", "warn", f"{reason} in {folders.top}: entries are queued", advice)
    return CheckedItem("commits", "ok", f"on {ref.removeprefix('refs/heads/')}, checked out in {folders.top}")


def _check_branch(notebook: Notebook) -> CheckedItem:
    from labbook.store.branch_checkout import missing_files

    branch = notebook.config.branch
    result = f"on the branch {branch} of {notebook.repository}"
    missing = missing_files(notebook)
    if missing:
        advice = f"`labbook init {notebook.paths.root}` restores them"
        return CheckedItem("commits", "warn", f"{result}; {len(missing)} of its files are missing in notes/", advice)
    return CheckedItem("commits", "ok", result)


def _check_queues(notebook: Notebook) -> list[CheckedItem]:
    from labbook.store.commit_queue import QUEUE, WITHHELD, pending_commits

    kinds = (
        (QUEUE, "queued", "every labbook command tries again"),
        (WITHHELD, "withheld", "`labbook recover` masks possible secrets and commits"),
    )
    rows = []
    for queue, state, advice in kinds:
        items = pending_commits(notebook.paths, queue=queue)
        if items:
            result = f"{len(items)} commit{'s' if len(items) > 1 else ''} {state}: {items[0].reason}"
            rows.append(CheckedItem(queue, "warn", result, advice))
    return rows


def _check_journals(notebook: Notebook) -> list[CheckedItem]:
    """Counts journals that are not done: of running runs, and of runs whose recorder died."""
    from labbook.store.journal import open_journals

    running, dead = 0, 0
    for journal in open_journals(notebook.paths):
        if journal.claim():
            journal.release()
            dead += 1
        else:
            running += 1
    rows = [CheckedItem("runs", "ok", f"{running} being recorded now")] if running else []
    if dead:
        rows.append(
            CheckedItem("runs", "warn", f"{dead} whose recorder died", "`labbook recover` writes their entries")
        )
    return rows


def _check_terminal() -> CheckedItem:
    try:
        for descriptor in os.openpty():
            os.close(descriptor)
    except OSError as error:
        result = f"cannot open a pseudo-terminal: {error.strerror}"
        return CheckedItem("terminal", "warn", result, "programs will behave as if their output went to a file")
    return CheckedItem("terminal", "ok", "pseudo-terminals work")


def _check_gpu() -> CheckedItem:
    from labbook.capture.gpus import has_nvidia, open_gpus

    if not has_nvidia():
        return CheckedItem("gpu", "ok", "no NVIDIA device")
    try:
        count = len(open_gpus().facts())
    except Unavailable as error:
        return CheckedItem("gpu", "warn", f"GPU use is not measured: {error}")
    return CheckedItem("gpu", "ok", f"{count} NVIDIA device{'s' if count != 1 else ''}, measured through NVML")


def _check_site() -> CheckedItem:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return CheckedItem("site", "ok", f"mkdocs {version('mkdocs')}, mkdocs-material {version('mkdocs-material')}")
    except PackageNotFoundError as error:
        advice = "install labbook with its extra `site` (Python 3.11 or newer)"
        return CheckedItem("site", "warn", f"{error.name} is not installed: the site cannot be built", advice)


def _user_python(environ: Mapping[str, str]) -> str:
    path = environ.get("PATH")
    return shutil.which("python", path=path) or shutil.which("python3", path=path) or ""


def _check_python(environ: Mapping[str, str]) -> CheckedItem:
    program = _user_python(environ)
    if not program:
        return CheckedItem("python", "warn", "there is no `python` on the PATH", "activate an environment")
    code, output = _run_program([program, "-c", "import sys; print(*sys.version_info[:3], sep='.')"], environ, 30.0)
    if code:
        return CheckedItem(
            "python", "warn", f"{program} does not start: {output.strip()[-200:]}", "repair this environment"
        )
    return CheckedItem("python", "ok", f"{output.strip()} at {program}")


def _check_probe(environ: Mapping[str, str]) -> CheckedItem:
    """Starts the user's Python as a recorded run does, and looks for the probe's first event."""
    from labbook.probe.protocol import EVENTS_FOLDER, HELLO
    from labbook.record.child.probe_environment import inject_environment

    program = _user_python(environ)
    if not program:
        return CheckedItem("probe", "warn", "not tried: there is no `python` on the PATH")
    with tempfile.TemporaryDirectory(prefix="labbook-doctor-") as folder:
        events = Path(folder) / EVENTS_FOLDER
        events.mkdir()
        settings = {"dir": folder, "run": "doctor", "level": "normal", "budget": 0.01}
        _, output = _run_program([program, "-c", "pass"], inject_environment(environ, settings), 30.0)
        has_hello = any(f'"{HELLO}"' in file.read_text("utf-8", "replace") for file in events.iterdir())
    if has_hello:
        return CheckedItem("probe", "ok", "starts in this Python")
    advice = "use Python 3.8 or newer that reads PYTHONPATH (started without -I, -E and -S)"
    return CheckedItem("probe", "warn", f"does not start in this Python {output.strip()[-200:]}".strip(), advice)


def _framework_check(module: str, device: str) -> Callable[[Mapping[str, str]], CheckedItem]:
    script = (
        f"import importlib.util as u, sys\nif u.find_spec({module!r}) is None: sys.exit(7)\n"
        f"import {module} as m\nprint(m.__version__, 'with GPU' if {device} else 'without GPU')"
    )

    def check(environ: Mapping[str, str]) -> CheckedItem:
        program = _user_python(environ)
        code, output = _run_program([program, "-c", script], environ, _IMPORT_TIMEOUT_S) if program else (7, "")
        if code == 7:
            return CheckedItem(module, "ok", "not installed in this Python")
        last = (output.strip().splitlines() or [""])[-1]
        if code:
            return CheckedItem(module, "warn", f"cannot be imported: {last[:200]}", "runs that use it will fail")
        return CheckedItem(module, "ok", last)

    return check


_check_torch = _framework_check("torch", "m.cuda.is_available()")
_check_paddle = _framework_check("paddle", "m.device.is_compiled_with_cuda() and m.device.cuda.device_count()")


def _run_program(command: list[str], environ: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """Returns exit status and output of a program; -1 if it timed out or did not start."""
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
