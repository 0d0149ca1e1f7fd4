"""Everything that is known of one execution of a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from labbook.frozen import dataclass
from labbook.model.finding import Finding
from labbook.model.message import Message
from labbook.model.series import Series
from labbook.model.signals import Signals

STATUSES = ("running", "finished", "failed", "interrupted", "killed", "lost")
"""running: not ended yet. finished: exit status 0. failed: another exit status. interrupted: Ctrl-C, SIGTERM or
`--stop-on`. killed: the command, or the recorder, was killed by a signal that cannot be caught. lost: the recorder died
and how the command ended is not known."""

Facts = Mapping[str, Any]
"""Plain data (JSON) of a capture source; its module documents the keys. `{"unavailable": reason}` when it declined."""


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
    """An uncaught exception as the probe saw it.

    Args:
        where: "main", "thread" or "child".
        chain: The exceptions behind it, as (type, message, "cause", "context" or "member" of a group), nearest first.
        frames: Innermost last.
        step: Last optimizer step before it, or `None`.
        ended_process: Whether the process ended by it.
        tensors: Tensors that the failing line names, each with `name`, `shape`, `dtype` and `device`.
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


@dataclass(frozen=True)
class Arguments:
    """Options as the program parsed them."""

    source: str
    name: str
    values: Facts


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file that the program opened; `text` is redacted and may be cut (`truncated`)."""

    path: str
    format: str
    text: str
    truncated: bool = False


@dataclass(frozen=True)
class FileUse:
    """A file, or a folder of `members` files, that the program read or wrote.

    Args:
        path: As shown in the entry: relative to the working folder where it lies inside it.
        mode: "read", "written" or "read and written".
        size_bytes: Sum over the members; -1 when not known.
        fingerprint: "sha256:..." (full), "sampled:..." (large file), "manifest:..." (folder), or "" with `reason`.
        members: 1 for a file, else how many files are rolled up in this row.
        reason: Why there is no fingerprint ("gone", "unreadable", "changed while it was read").
    """

    path: str
    mode: str
    size_bytes: int
    fingerprint: str = ""
    members: int = 1
    reason: str = ""


@dataclass(frozen=True)
class Process:
    """A Python process of the run.

    Args:
        probed: Whether the probe said hello in it.
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
    """A training framework as the program used it; `state` merges all facts the probe saw (seeds, mode, amp, ...)."""

    name: str
    version: str
    build: Facts = field(default_factory=dict)
    devices: tuple[Facts, ...] = ()
    state: Facts = field(default_factory=dict)
    optimizers: tuple[Facts, ...] = ()
    declined: Facts = field(default_factory=dict)


@dataclass(frozen=True)
class ProbeReport:
    """How well the run was observed.

    Args:
        status: "ok", "partial" (some process or signal was not observed), "failed" or "absent" (no hello).
        overhead_fraction: Time in the probe over time of the process, by its own measurement.
        unobserved: What could not be observed, as (what, reason).
        errors: Guarded failures of the probe, as (where, error, count).
        setup_s: Seconds in the probe until training had settled, and at exit; `None` where that is not known apart.
        sustained_s: Seconds in the probe after that.
        sustained_fraction: Those over the time of the process after that.
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
    """What is kept of the output, redacted, without escapes, progress bars folded.

    Args:
        text: First part, notable lines and last part, with a line in between that says what was left out.
        lines: How many lines the program printed.
        left_out: How many of them are not in `text`.
        redactions: How many secrets were masked, by rule.
    """

    text: str = ""
    lines: int = 0
    left_out: int = 0
    redactions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """One difference from the run before.

    Args:
        kind: "argument", "config", "code", "package", "hardware", "input", "metric", "environment" or "command".
        what: Which one ("--lr", "model.py", "numpy").
        before: Its value then, "" when absent.
        now: Its value now, "" when absent.
        detail: A unified diff or sentence, "" when the values say it all.
        messages: What `before` and `now` say, by these names, where they are sentences.
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

    Its texts are English. The messages beside them are what other languages are written from; runs that were recorded
    before there were messages have none.

    Args:
        id: The symptom's id in the catalogue where it has one.
        verdict: "ok", "warn", "fail", "note" or "not observed".
        detail: What usually helps, for a row that is not ok; Markdown of one line.
        tier: 1: a logical invariant. 2: a statistical test. 3: a hint.
        family: Class of the catalogue ("numeric", "gradient", ...).
        evidence: Sentences with numbers and places.
        where: Any of `module`, `parameter`, `file`, `line`, `function`, `source`, `step`, `rank`.
        explained_by: Id of the row that this one follows from, or "".
        observed_message: What `observed` says.
        evidence_messages: What each sentence of `evidence` says.
        page_words: Language -> `title`, `expected` and `detail` in it; English is in the fields of these names.
        run_messages: What `expected` and `detail` say where this run has words of its own for them.
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


@dataclass(frozen=True)
class Run:
    """One execution of a command, complete enough to write its entry from.

    Times are Unix seconds (UTC). Everything here is already redacted.

    Args:
        id: `YYYYMMDD-HHMMSS-xxxx`, UTC.
        signal: Name of the signal that ended the command ("SIGKILL"), or "".
        script: The program behind the command, relative to the code's root ("train.py"), used to find earlier runs.
        captured: Capture source -> its facts ("command", "code", "python", "hardware", "container", "resources").
        printed: Series read from the console that repeat one in `series`; kept to compare them, not stored.
        signals: What the probe measured inside each process that trained; too large for `run.json`, and left out there.
        health: What is kept of it for the pages; `labbook.health.model_summary` documents the keys.
        primary: Name of the series that stands for the run ("val_acc"), or "".
        direction: "max" or "min" where people chose the direction of that series, "none" where the kind of training has
            no best value of it; "" to know it by the name.
        verdict: One of `labbook.model.verdict.VERDICTS`, or "" before it was judged.
        verdict_reason: Id of the symptom behind the verdict, one of `labbook.model.verdict.REASONS`, or "".
        asked: What the user asked the probe to do besides looking, and what the program asked `labbook.checks`; see
            `labbook/record/run_from_journal/request_events.py`.
        previous: Id of the run of the same script before this one, or "".
        symptoms: Ids of the catalogue that this run shows, the primary one first.
        families: Their families, and those of failures of which only the family is known.
        fingerprints: Identities of its failures (`labbook.diagnosis.fingerprint`), the primary one first.
        findings: What the diagnosis says, the cause first.
        unsure: Why it says nothing certain, one sentence, or "".
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
    script: str = ""
    title: str = ""
    author: str = ""
    host: str = ""
    mode: str = ""
    frameworks: tuple[Framework, ...] = ()
    arguments: tuple[Arguments, ...] = ()
    configs: tuple[ConfigFile, ...] = ()
    series: tuple[Series, ...] = ()
    exceptions: tuple[CaughtException, ...] = ()
    warnings: tuple[Facts, ...] = ()
    files: tuple[FileUse, ...] = ()
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

    @property
    def duration_s(self) -> float | None:
        """Seconds from start to end, or `None` while running."""
        return None if self.ended is None else max(0.0, self.ended - self.started)
