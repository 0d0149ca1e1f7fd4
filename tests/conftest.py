"""Shared by all tests: a notebook of their own and the command line as a user runs it."""

from __future__ import annotations

import atexit
import functools
import gc
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
from forked_python import ForkedPython
from order_of_tests import (
    pytest_collection_modifyitems,
    pytest_generate_tests,
    pytest_ignore_collect,
    pytest_xdist_make_scheduler,
)

from labbook.capture.context import CaptureContext
from labbook.probe.redaction.redactor import Redactor
from labbook.store.config import Config
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "programs"

__all__ = (
    "pytest_collection_modifyitems",
    "pytest_generate_tests",
    "pytest_ignore_collect",
    "pytest_xdist_make_scheduler",
)

# The same examples in each run: a failure is that of the change. `make test-all` looks for new ones.
settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=200, deadline=None)
settings.load_profile("quick")  # `make test-all` names the other


STARTS_A_PROCESS = frozenset(
    ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "pty.spawn", "socket.connect")
)
FRAMEWORKS = frozenset(("torch", "paddle"))
_impurities: list[str] = []
"""What the present test did that a pure test must not do."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-transcripts", action="store_true", help="write what the commands print into tests/transcripts/*.txt"
    )


def pytest_configure() -> None:
    """Signals as a user's shell leaves them: what starts the tests may ignore some, and programs inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without compiled files each of some thousand processes would compile all of labbook again, 0.2 s each, and each
    # start of pytest all of the tests, 10 s.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Programs that train are many here, and each would take all cores and wait for them in busy loops.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # The garbage collector would look through some thousand tests again and again: a tenth of the time.
    gc.set_threshold(50_000, 50, 50)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_DFL)
    sys.addaudithook(note_impurity)


def pytest_collection_finish() -> None:
    """No framework is loaded yet: a file of tests that imports one at its head costs each worker 4 s."""
    if loaded := FRAMEWORKS.intersection(sys.modules):
        raise pytest.UsageError(f"imported at the head of a file of tests: {', '.join(sorted(loaded))}")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Spares the collector thousands of tests, 2 s several times, and the first process the files of all others."""
    gc.freeze()
    if not session.testsfailed and hasattr(session.config, "workerinput"):
        subprocess.run(["rm", "-rf", str(session.config._tmp_path_factory.getbasetemp())], check=False)


def note_impurity(event: str, arguments: tuple) -> None:
    """Audit hook: remembers the start of a process, a connection, and the import of a framework."""
    if event in STARTS_A_PROCESS or (event == "import" and arguments[0] in FRAMEWORKS):
        _impurities.append(f"{event} {arguments[0]!r}" if arguments else event)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fails a pure test that does what a pure test must not do, so that `make check` stays fast."""
    yield
    if _impurities and item.get_closest_marker("pure"):
        pytest.fail(f"not pure, mark it with `@pytest.mark.process`: {_impurities}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _impurities.clear()


def leave_surroundings(home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the user's notebook, git settings and probe out of what runs now."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ".local" / "share"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in list(os.environ):
        if name.startswith("LABBOOK_") and name != "LABBOOK_TEST_PYTHONS":
            monkeypatch.delenv(name)
    # On GitHub Actions, `labbook record` would report the runs of the tests.
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory) -> Path:
    """Cache of all tests: without it each command that diagnoses would read all symptom pages, two seconds each."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session", autouse=True)
def own_surroundings_of_shared_runs(tmp_path_factory, shared_cache) -> Iterator[None]:
    """Fixtures that several tests share see no more of the user than the tests do."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        leave_surroundings(tmp_path_factory.mktemp("home"), shared_cache, monkeypatch)
        yield


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory) -> Callable[[str], Path]:
    """Makes a new folder; pytest's own `mktemp` reads the names of all earlier ones each time, thousands here."""
    base, numbers = tmp_path_factory.getbasetemp(), itertools.count()

    def make(name: str) -> Path:
        folder = base / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)[:30]}{next(numbers)}"
        folder.mkdir()
        return folder

    return make


@pytest.fixture
def tmp_path(request, make_folder) -> Path:
    """As pytest's."""
    return make_folder(request.node.name)


@pytest.fixture(autouse=True)
def own_surroundings(make_folder, shared_cache, monkeypatch):
    """Each test has a home of its own."""
    leave_surroundings(make_folder("home-"), shared_cache, monkeypatch)


@pytest.fixture
def each() -> Callable[[Iterable, Callable[..., None]], None]:
    """Runs a check for every case of a property in one test, and names all the cases in which it fails."""

    def check_each(cases: Iterable, check: Callable[..., None]) -> None:
        count, failed = 0, []
        for case in cases:
            count += 1
            try:
                check(*case) if isinstance(case, tuple) else check(case)
            except AssertionError as error:
                failed.append(f"{case!r}: {error}")
        assert count, "no case"
        assert not failed, f"{len(failed)} of {count} cases:\n" + "\n\n".join(failed[:20])

    return check_each


@functools.cache
def forked_labbook(imported: str) -> ForkedPython:
    """An interpreter that has imported labbook, in which this worker runs commands."""
    forked = ForkedPython(imported)
    atexit.register(forked.close)
    return forked


READ_AT_START = ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONPATH", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONWARNINGS")
"""Variables that an interpreter reads at its start: a command with another value takes a new one."""


class Labbook:
    """Runs `labbook` as a user does, in one folder.

    Commands run in forks of an interpreter that has imported labbook, which is most of their time; what is started with
    options of `subprocess.run` takes a new interpreter, and so does `fresh=True`. With `framework="torch"` a recorded
    Python program is a fork as well, and does not import PyTorch itself.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, *arguments: str, check: bool = True, timeout: float = 100, fresh: bool = False, **options
    ) -> subprocess.CompletedProcess:
        cwd = options.pop("cwd", self.folder)
        imported = "labbook and torch" if options.pop("framework", "") == "torch" else "labbook"
        words = ["-m", "labbook", *arguments]
        environ = options.get("env", os.environ)
        as_here = all(environ.get(name) == os.environ.get(name) for name in READ_AT_START)
        if fresh or not as_here or options.keys() - {"env"}:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=cwd,
                capture_output=True,
                text=True,
                timeout=timeout,
                stdin=subprocess.DEVNULL,
                **options,
            )
        else:
            done = forked_labbook(imported).run(words, dict(environ), cwd, timeout)
        if check:
            assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def record(self, *command: str, **options) -> subprocess.CompletedProcess:
        return self("record", "--", *command, **options)

    def run(self, which: str = "last") -> dict:
        """The facts of a run, as `labbook show --json` prints them."""
        return json.loads(self("show", which, "--json").stdout)

    def entry(self, which: str = "last") -> str:
        """The Markdown of an entry."""
        return (self.folder / self.run(which)["entry"]).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def git():
    """Runs git in a folder and returns what it printed."""

    def call(folder: Path, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    return call


@pytest.fixture(scope="session")
def make_book(tmp_path_factory):
    """Makes a team notebook that is its own repository, in a new folder: a copy of one that `labbook init` made."""
    template = tmp_path_factory.mktemp("book") / "template"
    template.mkdir()
    Labbook(template)("init")

    def make(folder: Path) -> Labbook:
        shutil.copytree(template, folder)
        return Labbook(folder)

    return make


@pytest.fixture
def book(tmp_path, make_book) -> Labbook:
    """A team notebook that is its own repository."""
    return make_book(tmp_path / "book")


@pytest.fixture(scope="session")
def make_project(tmp_path_factory, git):
    """Makes a notebook inside a code repository with one committed script, in a new folder: a copy of the first."""
    template = tmp_path_factory.mktemp("project") / "template"
    template.mkdir()
    git(template, "init", "-q", "-b", "main")
    git(template, "config", "user.name", "Wei")
    git(template, "config", "user.email", "wei@example.com")
    (template / "train.py").write_text("import sys\nprint('loss: 0.5')\n")
    git(template, "add", "train.py")
    git(template, "commit", "-qm", "first")
    Labbook(template)("init")

    def make(folder: Path) -> Labbook:
        shutil.copytree(template, folder)
        # The copies of the files are new to the index.
        git(folder, "update-index", "--refresh")
        return Labbook(folder)

    return make


@pytest.fixture
def project(tmp_path, make_project) -> Labbook:
    """A notebook inside a code repository with one committed script."""
    return make_project(tmp_path / "project")


class Notes:
    """A notebook whose notes are written by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "labbook.toml").write_text('title = "Team"\nlanguage = "en"\ncommit = "off"\n')

    @property
    def labbook(self) -> Labbook:
        """The command line in this notebook."""
        return Labbook(self.folder)

    @property
    def notebook(self):
        from labbook.store.notebook_finder import find_notebook

        return find_notebook(self.folder, chosen=self.folder, environ={})

    def page(self, path: str, text: str | bytes) -> Path:
        """Writes one file below `notes/`."""
        file = self.folder / "notes" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
        return file

    def run(self, run_id: str, body: str = "", **meta) -> Path:
        """Writes the entry of a run."""
        from labbook.store.text.frontmatter import emit

        day = f"{run_id[:4]}/{run_id[4:6]}/{run_id[6:8]}"
        started = f"{day.replace('/', '-')}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}Z"
        facts = {"id": run_id, "title": "train.py: finished", "status": "finished", "started": started, **meta}
        return self.page(f"runs/{day}/{run_id}.md", f"{emit(facts)}\n# {facts['title']}\n\n{body}\n")


@pytest.fixture
def notes(tmp_path) -> Notes:
    """An empty notebook, and functions that write notes into it."""
    return Notes(tmp_path / "notebook")


IDENTITY = ("-c", "user.name=Wei", "-c", "user.email=wei@example.com", "-c", "init.defaultBranch=main")


@pytest.fixture(scope="session")
def git_in():
    """Runs git in a folder, with an identity, and returns what it printed."""

    def call(folder: Path, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, capture_output=True, check=False)
        assert not check or done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    return call


@pytest.fixture
def make_context(tmp_path):
    """A context for a command that runs in a folder."""

    def make(cwd: Path, *argv: str, python=None, environ=None, root: Path | None = None, known=(), **settings):
        config = Config(**settings)
        notebook = Notebook(NotebookPaths(root or tmp_path / "book"), config)
        attachments = notebook.paths.attachments("20261121-153012-k3f9")
        attachments.mkdir(parents=True, exist_ok=True)
        return CaptureContext(
            argv=argv,
            cwd=cwd,
            environ=dict(os.environ) if environ is None else environ,
            config=config,
            attachments=attachments,
            notebook=notebook,
            redactor=Redactor(known=known),
            python=python or {},
        )

    return make


@pytest.fixture
def code(tmp_path, git_in) -> Path:
    """A repository with one committed script."""
    folder = tmp_path / "code"
    folder.mkdir()
    git_in(folder, "init", "-q")
    (folder / "train.py").write_text("import sys\n\nlr = 0.1\nsteps = 10\nprint(lr)\n")
    git_in(folder, "add", ".")
    git_in(folder, "commit", "-qm", "first")
    return folder
