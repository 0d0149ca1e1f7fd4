"""A known failure of the catalogue: one Markdown file, read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from labbook.frozen import dataclass

CRASH_FAMILIES = (
    *("cuda_oom", "host_oom_killed", "shape_mismatch", "dtype_mismatch", "device_mismatch", "inplace_modification"),
    *("backward_twice", "no_grad_path", "non_scalar_backward", "nan_or_inf", "index_out_of_range"),
    *("cuda_device_assert", "cudnn_error", "cuda_driver_mismatch", "nccl_or_collective", "ddp_unused_parameters"),
    *("dataloader_worker_died", "shared_memory", "pickling_error", "checkpoint_key_mismatch"),
    *("checkpoint_size_mismatch", "checkpoint_load_error", "missing_dependency", "import_abi_mismatch"),
    *("api_version_mismatch", "file_not_found", "permission_error", "disk_full", "port_in_use", "data_empty"),
    *("data_decode_error", "config_error", "type_error_user_code", "illegal_instruction_or_segfault"),
    *("illegal_memory_access", "unsupported_op", "compile_error", "timeout", "interrupted", "other"),
)
"""Families of crashes. A silent fault's family is the class of its check (`labbook.model.check.FAMILIES`)."""

SEVERITIES = ("error", "warning", "note")
"""error: the run ended, or its result is wrong. warning: it may be wrong, or wastes something. note: a hint."""


@dataclass(frozen=True)
class Pattern:
    """One shape in which a symptom shows itself; every field that is given has to fit.

    Args:
        kind: "exception", "output", "warning" or "exit".
        text: Template of the message or line (`labbook.diagnosis.catalogue.pattern`); "" when type or exit alone
            decide.
        types: Names of exception classes, of which the exception must be one; empty: any.
        exits: Signals ("SIGKILL") or exit statuses ("137"), for `exit`.
        frameworks: Where only one framework says it so; empty: any.
        weight: How much it says: 3 certain, 2 likely, 1 a hint that loses against anything else.
        differ: "device" or "dtype": what the captured `a` and `b` must differ in; the same sentence is said of both.
        anchor: The longest literal of `text`, as `labbook.diagnosis.catalogue.pattern` compares it: without it
            nothing fits.
    """

    kind: str
    text: str = ""
    types: tuple[str, ...] = ()
    exits: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    weight: int = 3
    differ: str = ""
    anchor: str = ""


@dataclass(frozen=True)
class Wording:
    """What a symptom's page says in one language.

    Args:
        title: One sentence without a full stop.
        see: *What you see*, Markdown.
        why: Causes of *Why it happens*, in order of likelihood; may hold `{name|words when not known}`.
        attempts: Fixes of *What to try*, cheapest first; the same.
        says: Evidence in one sentence with the values of the message, or "".
        check: Name of the row of the check that finds it, a short noun phrase, or "".
        expected: What that check expects of a healthy run, or "".
    """

    title: str
    see: str = ""
    why: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()
    says: str = ""
    check: str = ""
    expected: str = ""


@dataclass(frozen=True)
class Example:
    """A real output of the page: `text` as printed, and where it came from ("torch 2.13", "paddle 3.3", ...)."""

    text: str
    origin: str = ""


@dataclass(frozen=True)
class Symptom:
    """One page of the catalogue.

    Args:
        id: Name of the file without its ending.
        family: One of `CRASH_FAMILIES`, or the class of the check.
        class_: Section of the catalogue ("shape", "autograd", "numeric", ...).
        tier: 1 certain, 2 a test or a likely reading, 3 a hint.
        patterns: How text and endings show it; empty for symptoms that only a check finds.
        not_when: Templates; where one of them is in the same message, this symptom is not meant.
        causes_of: Ids of symptoms that follow from this one.
        caused_by: Ids of symptoms that this one follows from, when they are found too.
        when: Condition of a run -> (cause, fix): numbers, from 1, of the cause and of the fix that come first then.
        instead: Condition of a run -> id of the symptom that the same evidence means then.
        cured_by: What usually changes with the fix, best first: "argument:lr", "code", "package:torch", "hardware", ...
        words: What people type when they look for it, in any language.
        matches: Outputs that show it.
        misses: Outputs that look alike and are something else.
        origin: The file it was read from.
    """

    id: str
    family: str
    class_: str
    tier: int
    severity: str
    frameworks: tuple[str, ...]
    wording: Mapping[str, Wording]
    patterns: tuple[Pattern, ...] = ()
    not_when: tuple[str, ...] = ()
    causes_of: tuple[str, ...] = ()
    caused_by: tuple[str, ...] = ()
    when: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    cured_by: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    matches: tuple[Example, ...] = ()
    misses: tuple[Example, ...] = ()
    origin: str = ""

    def said(self, language: str) -> Wording:
        """The wording of a language, English where there is none."""
        return self.wording.get(language) or self.wording["en"]
