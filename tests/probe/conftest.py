"""Runs programs under the probe, on every Python that is installed, without a recorder around it."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from forked_python import ForkedPython

from labbook.record.child.probe_environment import inject_environment
from labbook.store.event_reader import read_event

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
INJECT = ROOT / "labbook" / "probe" / "inject"
SUPPORTED = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
OLD = ("2.7", "3.6")
BETWEEN = {"3.9", "3.10", "3.12"} - {f"{sys.version_info[0]}.{sys.version_info[1]}"}
"""Neither the oldest, nor the newest, nor that of the tests: left to `make test-all`."""


def version_of(python: str) -> str:
    """`3.11` for an interpreter; empty when it does not run."""
    code = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=100).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


@cache
def find_interpreters() -> dict[str, str]:
    """Version -> path: this interpreter, `LABBOOK_TEST_PYTHONS`, pyenv's folder, `python3.x` on the path."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    chosen = [path for path in re.split(r"[\s:]+", os.environ.get("LABBOOK_TEST_PYTHONS", "")) if path]
    pyenv = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv" / "versions"
    for path in [*chosen, *sorted(str(path) for path in pyenv.glob("*/bin/python"))]:
        # Each start costs each of three workers 0.05 s; pyenv's folders are named after what is in them.
        named = re.search(r"(\d\.\d+)\.\d+/bin/python$", path)
        found.setdefault(named[1] if named else version_of(path), path)
    for version in OLD + SUPPORTED:
        if version not in found and (path := shutil.which(f"python{version}")) and version_of(path) == version:
            found[version] = path
    return found


def interpreter(request) -> str:
    """Path of the interpreter of a version; found only now, as every worker collects all files."""
    if request.param not in find_interpreters():
        pytest.skip(f"no Python {request.param} here")
    return find_interpreters()[request.param]


versions = [pytest.param(v, marks=pytest.mark.long) if v in BETWEEN else v for v in SUPPORTED]
python = pytest.fixture(interpreter, params=versions, name="python")
old_python = pytest.fixture(interpreter, params=OLD, name="old_python")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves all but one interpreter of each further case of a test to `make test-all`, another for each case."""
    present = [version for version in SUPPORTED if version not in BETWEEN and version in find_interpreters()]
    turns: dict[str, dict[str, int]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or "python" not in callspec.params or len(callspec.params) == 1:
            continue
        version = callspec.params["python"]
        of_test = turns.setdefault(item.nodeid.partition("[")[0], {"": len(turns)})
        turn = of_test.setdefault(callspec.id.replace(version, "", 1), of_test[""] + len(of_test))
        if version != present[turn % len(present)]:
            item.add_marker(pytest.mark.long)


@dataclass
class Probed:
    """What a program under the probe did, and what the probe wrote about each process."""

    code: int
    out: str
    err: str
    files: dict[str, list[dict]]

    @property
    def events(self) -> list[dict]:
        return [event for events in self.files.values() for event in events]

    def of(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["k"] == kind]

    def options(self, source: str) -> list[dict]:
        """Options that a kind of parser, or variables of the program, had."""
        return [event["values"] for event in self.of("arguments") if event["source"] == source]

    @property
    def hellos(self) -> list[dict]:
        return self.of("hello")

    def paths(self, mode: str = "") -> set[str]:
        """Names of the files that were seen, those opened in `mode` at their last mention."""
        last = {item["path"]: item for event in self.of("files") for item in event["items"]}
        return {Path(path).name for path, item in last.items() if not mode or item["mode"] == mode}


class Prober:
    """Runs commands in a folder, with and without the probe.

    Args:
        folder: Where they run.
        journal: Where the probe writes.
        forked: Runs Python programs in place of a new interpreter.
    """

    def __init__(self, folder: Path, journal: Path, forked: ForkedPython | None = None) -> None:
        self.folder = folder
        self.journal = journal
        self.forked = forked
        self.settings: dict[str, object] = {}

    def environment(self, **changes: str) -> dict[str, str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
        environ.pop("PYTHONPATH", None)
        environ.update(changes)
        return environ

    def injected(self, **changes: str) -> dict[str, str]:
        (self.journal / "events").mkdir(parents=True, exist_ok=True)
        settings = {"dir": str(self.journal), "run": "r", "level": "normal", "budget": 0.01, **self.settings}
        return inject_environment(self.environment(**changes), settings)

    def plain(self, *command: str, **changes: str) -> subprocess.CompletedProcess:
        return self._run(command, self.environment(**changes))

    def __call__(self, *command: str, check: bool | None = True, **changes: str) -> Probed:
        for old in self.journal.glob("events/*"):
            old.unlink()
        done = self._run(command, self.injected(**changes))
        if check:
            assert done.returncode == 0, done.stderr
        return Probed(done.returncode, done.stdout, done.stderr, self.read())

    def read(self) -> dict[str, list[dict]]:
        files = {}
        for path in sorted((self.journal / "events").glob("*.jsonl")):
            # Two threads that write at once may leave an empty line between their events.
            lines = filter(None, path.read_text(encoding="ascii").splitlines())
            files[path.name] = [json.loads(line, parse_constant=_refuse) for line in lines]
            misfits = [misfit for event in files[path.name] for misfit in unread(event, read_event(event), event["k"])]
            assert not misfits, "fields that `labbook.model.events` does not know, or knows as another type"
        return files

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    def _run(self, command, environ):
        if self.forked:
            assert command[0] == sys.executable
            return self.forked.run(list(command[1:]), environ, self.folder, 100)
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=100,
            stdin=subprocess.DEVNULL,
        )


def unread(raw: object, read: object, place: str) -> Iterator[tuple[str, object]]:
    """What of a written event is missing in the event that was read: (path of the field, its value).

    A null is the same as a missing field, and so is a number that is not finite where only finite ones count.
    """
    if isinstance(raw, dict) and isinstance(read, dict):
        for name, value in raw.items():
            if name in read:
                yield from unread(value, read[name], f"{place}.{name}")
            elif value not in (None, "nan", "inf", "-inf"):
                yield f"{place}.{name}", value
    elif isinstance(raw, list) and isinstance(read, (list, tuple)) and len(raw) == len(read):
        for one, other in zip(raw, read, strict=True):
            yield from unread(one, other, f"{place}[]")
    elif raw not in (read, "nan", "inf", "-inf"):
        yield place, raw


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no strict JSON")


@pytest.fixture(scope="session")
def forked() -> Iterator[Callable[[str], ForkedPython]]:
    """`forked(framework)` gives the interpreter that has imported it."""
    known: dict[str, ForkedPython] = {}

    def of(framework: str) -> ForkedPython:
        if framework not in known:
            known[framework] = ForkedPython(framework)
        return known[framework]

    yield of
    for one in known.values():
        one.close()


@pytest.fixture
def probed(tmp_path, request, forked) -> Prober:
    """A folder to run programs in, and a journal beside it; with the mark `forked(framework)` they run in forks."""
    folder = tmp_path / "work"
    folder.mkdir()
    mark = request.node.get_closest_marker("forked")
    return Prober(folder, tmp_path / "journal", forked(*mark.args) if mark and mark.args else None)


@dataclass
class Outcome:
    """What a program left behind: exit code, output, and the events of each of its processes."""

    code: int
    out: str
    err: str
    processes: list[list[dict]] = field(default_factory=list)
    folder: Path = Path()

    @property
    def events(self):
        """Events of all processes, in the order of their files."""
        return [event for process in self.processes for event in process]

    def of(self, kind):
        """All events of one kind."""
        return [event for event in self.events if event["k"] == kind]

    def steps(self, opt=0):
        """The step events of one optimizer."""
        return [event for event in self.of("step") if event["opt"] == opt]

    def merged(self, kind="state"):
        """The fields of all events of a kind, the last one wins."""
        merged = {}
        for event in self.of(kind):
            for name, value in event.items():
                both = isinstance(value, dict) and isinstance(merged.get(name), dict)
                merged[name] = {**merged[name], **value} if both else value
        return merged

    @property
    def result(self):
        """The last line of the output as JSON."""
        return json.loads(self.out.strip().splitlines()[-1])


class Scene(Outcome):
    """What one scenario of a program left behind."""

    truth: dict

    @property
    def optimizers(self):
        """Numbers of the optimizers that stepped, in order."""
        return list(dict.fromkeys(event["opt"] for event in self.of("step")))

    def norms(self, which=0):
        """Recorded gradient norms of one optimizer of the scene."""
        return [float(e["grad_norm"]) for e in self.steps(self.optimizers[which]) if "grad_norm" in e]

    def losses(self, which=0):
        """Recorded losses of one optimizer of the scene."""
        return [e["loss"] for e in self.steps(self.optimizers[which]) if "loss" in e]


@pytest.fixture(scope="session")
def play(run):
    """`play(program, *arguments, fork=None)` runs a program of scenarios; gives a `Scene` for each, by name."""

    def scenes(program, *arguments, fork=None):
        outcome = run(program, *arguments, fork=fork)
        truth, found, name = outcome.result, {}, None
        for event in outcome.events:
            if event["k"] == "note":
                name = event["text"]
                found[name] = Scene(0, "", "", [[]])
                found[name].truth = truth[name]
            elif name is not None:
                found[name].processes[0].append(event)
        assert sorted(found) == sorted(truth)
        assert outcome.of("probe_error") == []
        return found

    return scenes


@pytest.fixture(scope="session")
def run(tmp_path_factory, forked):
    """`run(program, *arguments, probe=True, fork=None, launcher=(), **environment)` gives an `Outcome`.

    A program whose name does not end in `.py` is source text. With `fork` it runs in a fork of an interpreter that has
    imported this framework.
    """

    def start(
        program, *arguments, probe=True, fork=None, launcher=(), settings=None, expect=0, timeout=100, **environment
    ):
        folder = tmp_path_factory.mktemp("journal")
        (folder / "events").mkdir()
        if program.endswith(".py"):
            command = [sys.executable, *launcher, str(PROGRAMS / program), *map(str, arguments)]
        else:
            source = folder / "program.py"
            source.write_text(program)
            command = [sys.executable, *launcher, str(source), *map(str, arguments)]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LABBOOK", "PYTHONPATH", "COV_"))}
        env |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **environment}
        if probe:
            env["PYTHONPATH"] = str(INJECT)
            chosen = {
                "dir": str(folder),
                "run": "20261121-153012-test",
                "level": "normal",
                "root": str(ROOT / "labbook"),
            }
            env["LABBOOK_PROBE"] = json.dumps(chosen | {"budget": 0.01} | (settings or {}))
        if fork:
            assert not launcher
            done = forked(fork).run(command[1:], env, folder, timeout)
        else:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, cwd=folder)
        assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return Outcome(done.returncode, done.stdout, done.stderr, read_events(folder), folder)

    return start


def read_events(folder):
    """The events of each process; every line must be strict JSON."""
    processes = []
    for path in sorted((folder / "events").glob("*.jsonl")):
        # Two threads that write at once may leave an empty line between their events.
        lines = filter(None, path.read_text(encoding="utf-8").splitlines())
        processes.append([json.loads(line, parse_constant=lambda text: pytest.fail(text)) for line in lines])
    return processes


@pytest.fixture
def healthy():
    """`healthy(outcome)` fails when the probe counted a failure of its own."""

    def check(outcome):
        assert outcome.of("probe_error") == []
        assert outcome.of("hello"), "the probe did not start"
        return outcome

    return check
