"""Checks of the installation and the notebook, each with advice where something does not work."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

from labbook.errors import LabbookError, Unavailable
from labbook.frozen import dataclass
from labbook.model.message import Message, advice_of, message, message_of
from labbook.store.notebook import Notebook

_IMPORT_TIMEOUT_S = 90.0
_OLDEST_GIT = (2, 20)
"""Source: oldest release in which every command that is used here has all its options."""
_MAX_OUTPUT = 200


@dataclass(frozen=True)
class Readiness:
    """The result of one check.

    Args:
        name: Subject of the check: "git", "notebook" ...
        verdict: "ok", "warn" (entries will lack something) or "fail" (runs cannot be recorded).
        advice: What to do, `None` when nothing has to be done.
    """

    name: str
    verdict: str
    found: Message | str
    advice: Message | None = None


def check_installation(start: Path, chosen: Path | None, environ: Mapping[str, str]) -> list[Readiness]:
    """Returns the results of all checks; takes as long as importing the frameworks does."""
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(check, environ) for check in (_python, _probe, _torch, _paddle)]
        rows = [_git(), *_variables(environ), *_notebook_rows(start, chosen, environ), _terminal(), _gpu(), _site()]
        return rows + [each.result() for each in slow]


def _git() -> Readiness:
    from labbook.store.git.git_process import git_program

    program = git_program()
    if program is None:
        return Readiness("git", "warn", message("doctor.git.missing"), message("doctor.git.install"))
    version = _run([program, "--version"], os.environ, 10.0)[1].strip()
    numbers = version.removeprefix("git version ").split(" ")[0].split(".")
    parts = tuple(int(part) for part in numbers[:2] if part.isdigit())
    if len(parts) == 2 and parts < _OLDEST_GIT:
        return Readiness("git", "warn", version, message("doctor.git.update"))
    return Readiness("git", "ok", version)


def _variables(environ: Mapping[str, str]) -> list[Readiness]:
    """Returns a warning for each variable that looks like a setting and is none."""
    from difflib import get_close_matches

    from labbook.probe.events.protocol import ENV_NOTEBOOK, ENV_PROBE
    from labbook.store.config import Config, environment_name

    known = {ENV_NOTEBOOK, ENV_PROBE, *(environment_name(each) for each in fields(Config))}
    rows = []
    for name in sorted(n for n in environ if n.startswith("LABBOOK_") and n not in known):
        near = get_close_matches(name, known, n=1)
        advice = message("doctor.variable.near", name=near[0]) if near else message("doctor.variable.remove")
        rows.append(Readiness("environment", "warn", message("doctor.variable.unknown", name=name), advice))
    return rows


def _notebook_rows(start: Path, chosen: Path | None, environ: Mapping[str, str]) -> list[Readiness]:
    from labbook.store.config import unknown_settings
    from labbook.store.notebook import write_obstacle
    from labbook.store.notebook_finder import find_notebook, personal_root
    from labbook.store.paths import SETTINGS_FILE

    personal = personal_root()
    try:
        notebook = find_notebook(start, chosen=chosen, environ=environ, create_personal=False)
    except LabbookError as error:
        if chosen is None and not (personal / SETTINGS_FILE).exists() and error.key == "errors.notebook.none":
            state = message("doctor.notebook.none", personal=str(personal))
            return [Readiness("notebook", "ok", state, message("doctor.notebook.init"))]
        return [Readiness("notebook", "fail", message_of(error), advice_of(error))]
    root = str(notebook.paths.root)
    if notebook.personal:
        rows = [Readiness("notebook", "ok", message("doctor.notebook.personal", root=root))]
    else:
        rows = [Readiness("notebook", "ok", message("doctor.notebook.team", root=root, title=notebook.config.title))]
    rows += [Readiness("settings", "warn", problem) for problem in unknown_settings(notebook.paths.root)]
    locked = write_obstacle(notebook)
    if locked:
        return [*rows, Readiness("writing", "fail", locked, message("doctor.notebook.not_writable"))]
    return [
        *rows,
        _commits(notebook),
        *_waiting(notebook),
        *_remote(notebook),
        *_open_runs(notebook),
        *_uploads(notebook),
    ]


def _commits(notebook: Notebook) -> Readiness:
    from labbook.store.git.git_process import git_program
    from labbook.store.git.git_state import head_ref, operation

    config = notebook.config
    folders = notebook.git_folders()
    if config.commit == "off":
        return Readiness("commits", "ok", message("doctor.commits.off"))
    if folders is None:
        root = str(notebook.paths.root)
        advice = message("doctor.commits.init", root=root) if git_program() else message("doctor.git.install")
        return Readiness("commits", "warn", message("doctor.commits.no_repository"), advice)
    if config.commit == "branch":
        return _own_branch(notebook)
    doing = operation(folders.git_dir)
    ref = head_ref(folders) if git_program() else "refs/heads/?"
    top = str(folders.top)
    if doing:
        state = message("doctor.commits.in_progress", operation=doing, top=top)
        return Readiness("commits", "warn", state, message("doctor.commits.finish"))
    if not ref:
        state = message("doctor.commits.detached", top=top)
        return Readiness("commits", "warn", state, message("doctor.commits.checkout"))
    branch = ref.removeprefix("refs/heads/")
    return Readiness("commits", "ok", message("doctor.commits.on_checkout", branch=branch, top=top))


def _own_branch(notebook: Notebook) -> Readiness:
    from labbook.store.commit.branch_checkout import missing_files
    from labbook.store.git.git_state import is_partial_clone

    branch, repository = notebook.config.branch, str(notebook.repository)
    missing = missing_files(notebook)
    if missing:
        state = message("doctor.commits.missing", branch=branch, repository=repository, count=len(missing))
        folders = notebook.git_folders()
        lacking = folders is not None and is_partial_clone(folders)
        advice = message("doctor.commits.fetch" if lacking else "doctor.commits.restore", root=str(notebook.paths.root))
        return Readiness("commits", "warn", state, advice)
    return Readiness("commits", "ok", message("doctor.commits.on_branch", branch=branch, repository=repository))


def _waiting(notebook: Notebook) -> list[Readiness]:
    from labbook.store.commit.commit_queue import QUEUE, WITHHELD, pending_commits

    rows = []
    queued = pending_commits(notebook.paths, queue=QUEUE)
    if queued:
        state = message("doctor.commits.queued", count=len(queued), reason=queued[0].reason)
        rows.append(Readiness(QUEUE, "warn", state, message("doctor.commits.retried")))
    withheld = pending_commits(notebook.paths, queue=WITHHELD)
    if withheld:
        state = message("doctor.commits.withheld", count=len(withheld), reason=withheld[0].reason)
        rows.append(Readiness(WITHHELD, "warn", state, message("doctor.commits.release")))
    return rows


def _remote(notebook: Notebook) -> list[Readiness]:
    """Returns the remote of the notebook, what is not shared yet as far as known here, and the last sync; no network.

    The remote-tracking branch is compared: what others have sent since the last fetch is unknown.
    """
    from labbook.sharing.disk_update import notebook_ref
    from labbook.sharing.remote_git import choose_remote, count_apart, list_remotes, tracking_ref
    from labbook.store.commit.sync_state import last_failure, read_state

    try:
        folders = notebook.git_folders()
        if folders is None or notebook.config.commit == "off":
            return []
        if not list_remotes(folders) and not notebook.config.remote:
            return [Readiness("remote", "ok", message("doctor.remote.none"), message("doctor.remote.add"))]
        remote = choose_remote(notebook)
        ref = notebook_ref(notebook, folders)
        apart = count_apart(folders, ref, tracking_ref(remote.name, ref))
    except LabbookError as error:
        return [Readiness("remote", "warn", message_of(error), advice_of(error))]
    names = {"remote": remote.name, "address": remote.address}
    if apart is None:
        state = message("doctor.remote.never", **names)
    elif any(apart):
        state = message("doctor.remote.apart", **names, ahead=apart[0], behind=apart[1])
    else:
        state = message("doctor.remote.equal", **names)
    rows = [Readiness("remote", "ok", state, None if apart == (0, 0) else message("doctor.remote.sync"))]
    last = read_state(notebook)
    shown = last_failure(last)
    if shown is not None:
        failed = message("doctor.remote.failed", time=str(last.get("time") or "?"), error=message_of(shown))
        rows.append(Readiness("sync", "warn", failed, advice_of(shown) or message("doctor.remote.sync")))
    elif last.get("time"):
        done = message("doctor.remote.synced", time=str(last["time"]), remote=str(last.get("remote") or "?"))
        rows.append(Readiness("sync", "ok", done))
    return rows


def _open_runs(notebook: Notebook) -> list[Readiness]:
    """Returns how many runs go on now, and how many have lost their recorder."""
    from labbook.store.journal import open_journals

    going, dead = 0, 0
    for journal in open_journals(notebook.paths):
        if journal.claim():
            journal.release()
            dead += 1
        else:
            going += 1
    rows = [Readiness("runs", "ok", message("doctor.runs.recording", count=going))] if going else []
    if dead:
        state = message("doctor.runs.lost", count=dead)
        rows.append(Readiness("runs", "warn", state, message("doctor.runs.recover")))
    return rows


def _uploads(notebook: Notebook) -> list[Readiness]:
    """Returns the state of the store of kept files, if one is set."""
    from labbook.artifacts.object_store import open_store
    from labbook.artifacts.upload import upload_state
    from labbook.store.git.remotes import credential_free

    if not notebook.config.artifact_store.strip():
        return []
    store = credential_free(notebook.config.artifact_store)
    try:
        open_store(notebook.config.artifact_store, notebook.paths.root)
    except LabbookError as error:
        return [Readiness("artifacts", "warn", message_of(error), advice_of(error))]
    state = upload_state(notebook)
    if state.error:
        failed = message("doctor.artifacts.failed", store=store, count=state.pending, error=state.error[:_MAX_OUTPUT])
        return [Readiness("artifacts", "warn", failed, message("doctor.artifacts.push"))]
    if state.pending:
        return [Readiness("artifacts", "ok", message("doctor.artifacts.waiting", store=store, count=state.pending))]
    return [Readiness("artifacts", "ok", message("doctor.artifacts.done", store=store))]


def _terminal() -> Readiness:
    try:
        for descriptor in os.openpty():
            os.close(descriptor)
    except OSError as error:
        state = message("doctor.terminal.none", error=error.strerror or str(error))
        return Readiness("terminal", "warn", state, message("doctor.terminal.effect"))
    return Readiness("terminal", "ok", message("doctor.terminal.ok"))


def _gpu() -> Readiness:
    from labbook.capture.gpus import has_nvidia, open_gpus

    if not has_nvidia():
        return Readiness("gpu", "ok", message("doctor.gpu.none"))
    try:
        count = len(open_gpus().facts())
    except Unavailable as error:
        return Readiness("gpu", "warn", message("doctor.gpu.not_measured", reason=str(error)))
    return Readiness("gpu", "ok", message("doctor.gpu.measured", count=count))


def _site() -> Readiness:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Readiness("site", "ok", f"mkdocs {version('mkdocs')}, mkdocs-material {version('mkdocs-material')}")
    except PackageNotFoundError as error:
        state = message("doctor.site.missing", package=str(error.name))
        return Readiness("site", "warn", state, message("doctor.site.install"))


def _user_python(environ: Mapping[str, str]) -> str:
    path = environ.get("PATH")
    return shutil.which("python", path=path) or shutil.which("python3", path=path) or ""


def _python(environ: Mapping[str, str]) -> Readiness:
    program = _user_python(environ)
    if not program:
        return Readiness("python", "warn", message("doctor.python.none"), message("doctor.python.activate"))
    code, output = _run([program, "-c", "import sys; print(*sys.version_info[:3], sep='.')"], environ, 30.0)
    if code:
        state = message("doctor.python.broken", program=program, output=output.strip()[-_MAX_OUTPUT:])
        return Readiness("python", "warn", state, message("doctor.python.repair"))
    return Readiness("python", "ok", message("doctor.python.ok", version=output.strip(), program=program))


def _probe(environ: Mapping[str, str]) -> Readiness:
    """Starts the user's Python as a recorded run would and looks for the first event of the probe."""
    from labbook.probe.events.protocol import EVENTS_FOLDER, HELLO
    from labbook.record.child.probe_environment import inject_environment

    program = _user_python(environ)
    if not program:
        return Readiness("probe", "warn", message("doctor.probe.no_python"))
    with tempfile.TemporaryDirectory(prefix="labbook-doctor-") as folder:
        events = Path(folder) / EVENTS_FOLDER
        events.mkdir()
        settings = {"dir": folder, "run": "doctor", "level": "normal", "budget": 0.01}
        _, output = _run([program, "-c", "pass"], inject_environment(environ, settings), 30.0)
        started = any(f'"{HELLO}"' in file.read_text("utf-8", "replace") for file in events.iterdir())
    if started:
        return Readiness("probe", "ok", message("doctor.probe.ok"))
    state = message("doctor.probe.not_started", output=output.strip()[-_MAX_OUTPUT:])
    return Readiness("probe", "warn", state, message("doctor.probe.needs"))


def _framework(module: str, device: str) -> Callable[[Mapping[str, str]], Readiness]:
    program_text = (
        f"import importlib.util as u, sys\nif u.find_spec({module!r}) is None: sys.exit(7)\n"
        f"import {module} as m\nprint(m.__version__, bool({device}))"
    )

    def check(environ: Mapping[str, str]) -> Readiness:
        program = _user_python(environ)
        code, output = _run([program, "-c", program_text], environ, _IMPORT_TIMEOUT_S) if program else (7, "")
        if code == 7:
            return Readiness(module, "ok", message("doctor.framework.none"))
        last = (output.strip().splitlines() or [""])[-1]
        if code:
            state = message("doctor.framework.broken", output=last[:_MAX_OUTPUT])
            return Readiness(module, "warn", state, message("doctor.framework.effect"))
        version, _, has_gpu = last.partition(" ")
        key = "doctor.framework.with_gpu" if has_gpu == "True" else "doctor.framework.without_gpu"
        return Readiness(module, "ok", message(key, version=version))

    return check


_torch = _framework("torch", "m.cuda.is_available()")
_paddle = _framework("paddle", "m.device.is_compiled_with_cuda() and m.device.cuda.device_count()")


def _run(command: list[str], environ: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """Returns exit status and output of a program; -1 when it could not be started or did not end in time."""
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
        return -1, f"timeout: {timeout_s:g} s"
    except OSError as error:
        return -1, error.strerror or str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")
