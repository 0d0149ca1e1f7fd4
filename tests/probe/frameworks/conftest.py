"""Runs small training programs as child processes, with and without the probe, and reads what it wrote."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "tests" / "programs"
INJECT = ROOT / "labbook" / "probe" / "inject"


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
    """`play(program)` runs a program of scenarios and gives a `Scene` for each of them, by name."""

    def scenes(program):
        outcome = run(program)
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
def run(tmp_path_factory):
    """`run(program, *arguments, probe=True, launcher=(), **environment)` gives an `Outcome`.

    A program whose name does not end in `.py` is source text.
    """

    def start(program, *arguments, probe=True, launcher=(), settings=None, expect=0, timeout=100, **environment):
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
