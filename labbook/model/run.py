"""The record of one execution of a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from labbook.frozen import dataclass
from labbook.model.finding import Finding
from labbook.model.message import Message
from labbook.model.run_files import Artifact, FileUse, Parent
from labbook.model.series import Series
from labbook.model.signals import Signals

NOTEBOOK_REPORTS = ("CellExecutionError", "DeadKernelError")
"""Classes by which the runner of a notebook reports the failure of a cell."""

LAUNCHER_ERRORS = (
    *("ChildFailedError", "CalledProcessError", "ProcessExitedException", "ProcessRaisedException", "RayTaskError"),
    *("WorkerGroupError", "ControllerError", "ActorDiedError"),
    *NOTEBOOK_REPORTS,
)
"""Classes by which a launcher, or the runner of a notebook, reports the failure of what it started."""


def is_launcher_error(name: str) -> bool:
    """Whether a class, such as `RayTaskError(ValueError)`, reports the failure of what a launcher started."""
    return name.partition("(")[0] in LAUNCHER_ERRORS


def reports_child(raised: CaughtException) -> bool:
    """Whether an exception is a launcher's report of the failure of what it started, or was raised from one."""
    causes = (name for name, _, relation in raised.chain if relation == "cause")
    return any(map(is_launcher_error, (raised.type, *causes)))


INTERRUPTS = ("KeyboardInterrupt", "SystemExit")
"""Classes by which a program is stopped, not by an error of its own."""

Facts = Mapping[str, Any]
"""Plain data (JSON) of a capture source; its module documents the keys. `{"unavailable": reason}` if it has none."""


@dataclass(frozen=True)
class Frame:
    """One line of a traceback; `user` is true outside the interpreter's and site-packages' folders."""

    file: str
    line: int
    function: str
    source: str = ""
    user: bool = False


@dataclass(frozen=True)
class CaughtException:
    """An uncaught exception recorded by the probe.

    Args:
        where: "main", "thread" or "child".
        chain: Chained exceptions, as (type, message, "cause", "context" or "member" of a group), nearest first.
        frames: Innermost last.
        step: Last optimizer step before it, or `None`.
        ended_process: Whether the process ended because of it.
        tensors: Tensors named on the failing line, each with `name`, `shape`, `dtype` and `device`.
        names: The name that does not exist (`missing`), similar ones that do (`near`), all if few (`known`), and `own`
            where the function, class or module that lacks it is in the project.
    """

    where: str
    type: str
    module: str
    message: str
    frames: tuple[Frame, ...] = ()
    chain: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    thread: str = ""
    pid: int = 0
    rank: int | None = None
    step: int | None = None
    t: float = 0.0
    ended_process: bool = False
    tensors: tuple[Facts, ...] = ()
    names: Facts = field(default_factory=dict)


@dataclass(frozen=True)
class Arguments:
    """Options as the program parsed them; `unchanged` names those that have their default value."""

    source: str
    name: str
    values: Facts
    unchanged: tuple[str, ...] = ()

    def is_default(self, name: str) -> bool:
        """Whether an option, or the group that it is in, as `optimizer` of `optimizer.lr`, has its default value."""
        return name in self.unchanged or name.partition(".")[0] in self.unchanged


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file that the program opened; `text` is redacted and may be cut (`truncated`)."""

    path: str
    format: str
    text: str
    truncated: bool = False


@dataclass(frozen=True)
class Process:
    """A Python process of the run.

    Args:
        probed: Whether the probe started in it.
        role: "main", "child", "fork" or "unobserved".
    """

    pid: int
    ppid: int
    argv: tuple[str, ...]
    role: str
    executable: str = ""
    version: str = ""
    rank: int | None = None
    steps: int = 0
    elapsed_s: float | None = None
    probed: bool = True


@dataclass(frozen=True)
class Framework:
    """A training framework used by the program; `state` merges all recorded facts (seeds, mode, amp, ...)."""

    name: str
    version: str
    build: Facts = field(default_factory=dict)
    devices: tuple[Facts, ...] = ()
    state: Facts = field(default_factory=dict)
    optimizers: tuple[Facts, ...] = ()
    declined: Facts = field(default_factory=dict)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """Names of the devices that the parameters were on, in lower case; empty if unknown."""
        device = self.state.get("device")
        return tuple(str(name).lower() for name in (device if isinstance(device, (list, tuple)) else [device]) if name)

    @property
    def is_on_cpu(self) -> bool:
        """Whether all parameters are known to have been on the CPU."""
        return bool(self.parameter_devices) and all("cpu" in name for name in self.parameter_devices)


@dataclass(frozen=True)
class ProbeReport:
    """How well the run was observed.

    Args:
        status: "ok", "partial" (some process or signal was not observed), "failed", "absent" (it did not start) or
            "imported" (a run of another tool).
        overhead_fraction: Time in the probe divided by time of the process, as measured by the probe.
        unobserved: What was not observed, as (what, reason).
        errors: Caught failures of the probe, as (where, error, count).
        setup_s: Seconds in the probe during warm-up and at exit; `None` if not measured separately.
        sustained_s: Seconds in the probe after warm-up.
        sustained_fraction: `sustained_s` divided by the time of the process after warm-up.
    """

    status: str
    overhead_fraction: float | None = None
    unobserved: tuple[tuple[str, str], ...] = ()
    errors: tuple[tuple[str, str, int], ...] = ()
    setup_s: float | None = None
    sustained_s: float | None = None
    sustained_fraction: float | None = None


@dataclass(frozen=True)
class Console:
    """The stored part of the output: redacted, without escape sequences, progress bars folded.

    Args:
        text: First part, notable lines and last part; a line between them marks omissions.
        lines: Number of lines that the program printed.
        left_out: Number of these that are not in `text`.
        redactions: Number of masked secrets, by rule.
    """

    text: str = ""
    lines: int = 0
    left_out: int = 0
    redactions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """One difference from the previous run.

    Args:
        kind: "argument", "config", "code", "package", "hardware", "input", "metric", "environment" or "command";
            "model" in comparisons of runs.
        what: Name ("--lr", "model.py", "numpy").
        before: Value in the previous run, "" if absent.
        now: Value in this run, "" if absent.
        detail: A unified diff or a sentence, "" if the values are complete.
        messages: Messages of `what`, `before`, `now` and `detail`, by these names, where they are sentences.
    """

    kind: str
    what: str
    before: str
    now: str
    detail: str = ""
    messages: Mapping[str, Message] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckResult:
    """One row of the health checklist.

    Its texts are English; other languages are written from the messages. Runs recorded before messages existed have
    none.

    Args:
        id: Id of the symptom in the catalogue, if it has a page.
        verdict: "ok", "warn", "fail", "note" or "not observed".
        detail: Advice for a row that is not ok; one line of Markdown.
        tier: 1: a logical invariant. 2: a statistical test. 3: a hint.
        family: Class of the catalogue ("numeric", "gradient", ...).
        evidence: Sentences with numbers and locations.
        where: Any of `module`, `parameter`, `file`, `line`, `function`, `source`, `step`, `rank`.
        explained_by: Id of the row whose consequence this one is, or "".
        observed_message: Message of `observed`.
        evidence_messages: Messages of the sentences of `evidence`.
        page_words: Language -> `title`, `expected` and `detail`; English is in the fields of these names.
        run_messages: Messages of `expected` and `detail` if they are specific to this run.
        passed: Ids of the checks without a row of their own that this row counts as passed, or that did not apply.
    """

    id: str
    title: str
    expected: str
    observed: str
    verdict: str
    detail: str = ""
    tier: int = 0
    family: str = ""
    evidence: tuple[str, ...] = ()
    where: Facts = field(default_factory=dict)
    explained_by: str = ""
    observed_message: Message | None = None
    evidence_messages: tuple[Message, ...] = ()
    page_words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    run_messages: Mapping[str, Message] = field(default_factory=dict)
    passed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """One execution of a command, with everything that its entry needs.

    Times are Unix seconds (UTC). All texts are redacted.

    Args:
        id: `YYYYMMDD-HHMMSS-xxxx`, UTC.
        status: "running" (not ended yet), "finished" (exit status 0), "failed" (another one), "interrupted" (Ctrl-C,
            SIGTERM or `--stop-on`; the first two also where the program then ends by itself with 0), "killed" (a signal
            that cannot be caught killed the command or the recorder) or "lost" (the recorder died, the end is unknown).
        signal: Name of the signal that ended the command ("SIGKILL"), or "".
        project: The project of the code, if it is not the notebook's own; see `labbook.capture.project`.
        sources: Files of the user's code that the run loaded, the main program first; empty if unknown.
        copies: Source file -> a copy as of the start, if one was edited meanwhile.
        packages: Installed top-level modules that the run loaded; empty if unknown.
        sweep: Name of the sweep that the run is a trial of, or "".
        script: The program in the command, relative to the code's root ("train.py"), used to find earlier runs.
        artifacts: Files that were to be kept.
        parents: Earlier runs that wrote what this run read, one for each such file.
        resumed_from: Id of the run that wrote the checkpoint with which this training began, or "".
        captured: Capture source -> its facts ("command", "code", "python", "hardware", "container", "resources").
        printed: Series read from the console that repeat one in `series`; for comparison, not stored.
        signals: Measurements of each training process; too large for `run.json`, where they are omitted.
        health: Summary of `signals` for the pages; `labbook.health.model_summary` documents the keys.
        primary: Name of the main series ("val_acc"), or "".
        direction: "max" or "min" if the user chose the direction of that series, "none" if this kind of training has no
            best value of it; "" to know it by the name.
        verdict: One of `labbook.model.verdict.VERDICTS`, or "" before it was judged.
        verdict_reason: Id of the symptom behind the verdict, one of `labbook.model.verdict.REASONS`, or "".
        asked: Requests of the user to the probe, and calls of `labbook.checks` by the program; see
            `labbook/record/run_from_journal/request_events.py`.
        previous: Id of the previous run of the same script, or "".
        rerun_of: Id of the run that it repeats, or "".
        symptoms: Ids of the symptoms of this run, the primary one first.
        families: Families of these, and of failures of which only the family is known.
        fingerprints: Fingerprints of its failures (`labbook.diagnosis.fingerprint`), the primary one first.
        findings: Findings of the diagnosis, the cause first.
        imported_from: For a run of another tool: `tool`, `path`, `run` (its name there), `digest` of the imported data,
            `description`, `texts` (each with `tag`, `step`, `text`) and `pictures` (each with `tag`, `step`, `file`).
        unsure: Why no diagnosis is certain, one sentence, or "".
    """

    id: str
    status: str
    argv: tuple[str, ...]
    cwd: str
    started: float
    ended: float | None = None
    exit_code: int | None = None
    signal: str = ""
    experiment: str = ""
    sweep: str = ""
    script: str = ""
    project: str = ""
    title: str = ""
    author: str = ""
    host: str = ""
    mode: str = ""
    frameworks: tuple[Framework, ...] = ()
    arguments: tuple[Arguments, ...] = ()
    configs: tuple[ConfigFile, ...] = ()
    sources: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict, repr=False, metadata={"stored": False})
    packages: tuple[str, ...] = ()
    series: tuple[Series, ...] = ()
    exceptions: tuple[CaughtException, ...] = ()
    warnings: tuple[Facts, ...] = ()
    files: tuple[FileUse, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    parents: tuple[Parent, ...] = ()
    resumed_from: str = ""
    processes: tuple[Process, ...] = ()
    probe: ProbeReport = ProbeReport("absent")
    console: Console = Console()
    captured: Mapping[str, Facts] = field(default_factory=dict)
    printed: tuple[Series, ...] = field(default=(), repr=False, metadata={"stored": False})
    signals: tuple[Signals, ...] = field(default=(), repr=False, metadata={"stored": False})
    health: Facts = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()
    asked: Facts = field(default_factory=dict)
    previous: str = ""
    rerun_of: str = ""
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    unsure: str = ""
    fix: str = ""
    primary: str = ""
    direction: str = ""
    verdict: str = ""
    verdict_reason: str = ""
    imported_from: Facts = field(default_factory=dict)

    def facts(self, source: str) -> Facts:
        """Return the facts of a capture source; empty if it was not available."""
        found = self.captured.get(source)
        return found if isinstance(found, Mapping) and "unavailable" not in found else {}

    @property
    def trains_in_turn(self) -> bool:
        """Whether it has several trainings, or phases of one, whose optimizers step one after another."""
        return bool(self.facts("trainings") or self.facts("phases"))

    @property
    def captured_in(self) -> str:
        """Id of the run whose attachments have the patch and the package list: that of a trial is the run around it."""
        return str(self.facts("trial").get("run") or self.id)

    @property
    def steps(self) -> int:
        """Number of optimizer steps of the process with most of them, 0 if unknown."""
        return max((process.steps for process in self.processes), default=0)

    @property
    def clips_by_call(self) -> bool:
        """Whether the program calls a function that clips gradients, after which those of parameters are inspected."""
        return any(signals.loop.get("clip", {}).get("calls") for signals in self.signals)

    @property
    def duration_s(self) -> float | None:
        """Seconds from start to end, or `None` while running."""
        return None if self.ended is None else max(0.0, self.ended - self.started)
