"""A symptom page of the catalogue as data."""

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
"""Families of crashes. The family of a silent fault is the class of its check (`labbook.model.check.FAMILIES`)."""

SEVERITIES = ("error", "warning", "note")
"""error: the run ended, or its result is wrong. warning: it may be wrong, or wastes something. note: a hint."""


@dataclass(frozen=True)
class Pattern:
    """One pattern that identifies a symptom; every field that is set must match.

    Args:
        kind: "exception", "output", "warning" or "exit".
        text: Template of the message or line (`labbook.diagnosis.catalogue.pattern`); "" if type or exit status
            is enough.
        types: Names of exception classes, one of which must match; empty: any.
        exits: Signals ("SIGKILL") or exit statuses ("137"), for `exit`.
        frameworks: Frameworks that print this message; empty: any.
        weight: 3 certain, 2 likely, 1 a hint that any other pattern overrides.
        differ: "device" or "dtype": the captured `a` and `b` must differ in it, where both print the same message.
        anchor: The longest literal of `text`, normalised by `labbook.diagnosis.catalogue.pattern`; a quick first
            test.
        beginning: The first characters of `text` if it begins with so many literal ones that a message without its
            end is known by them; else "".
    """

    kind: str
    text: str = ""
    types: tuple[str, ...] = ()
    exits: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    weight: int = 3
    differ: str = ""
    anchor: str = ""
    beginning: str = ""


@dataclass(frozen=True)
class Wording:
    """Texts of a symptom page in one language.

    Args:
        title: One sentence without a full stop.
        see: *What you see*, Markdown.
        why: Causes of *Why it happens*, in order of likelihood; may contain `{name|words if unknown}`.
        attempts: Fixes of *What to try*, cheapest first; placeholders likewise.
        says: Evidence, one sentence with values of the message, or "".
        check: Name of the check that detects it, a short noun phrase, or "".
        expected: What the check expects of a healthy run, or "".
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
    """A real output: `text` as printed, and its origin ("torch 2.13", "paddle 3.3", ...)."""

    text: str
    origin: str = ""


@dataclass(frozen=True)
class Symptom:
    """One page of the catalogue.

    Args:
        id: Name of the file without its ending.
        family: One of `CRASH_FAMILIES`, or the class of the check.
        class_: Section of the catalogue ("shape", "autograd", "numeric", ...).
        tier: 1 certain, 2 a statistical test or likely, 3 a hint.
        patterns: Patterns in text and exit status; empty for symptoms that only a check detects.
        not_when: Templates; a message that contains one of them is not this symptom.
        causes_of: Ids of the consequences of this symptom.
        caused_by: Ids of symptoms that cause this one if they are found, too.
        when: Condition of a run -> numbers, from 1, of the causes and of the fixes to list first; with the prefix
            `LEFT_OUT` of `symptom_catalogue`, of those to leave out.
        instead: Condition of a run -> id of the symptom that the same evidence means then.
        line_of: Kinds of calls, one of which is the line of the program that it is about, the best first; see
            `labbook.findings.culprit_lines`.
        cured_by: What the fix usually changes, likeliest first: "option:lr", "code", "package:torch", "hardware", ...
        words: Search words, in any language.
        asked: How people describe it who have not read the page, in any language; only for searches.
        matches: Outputs with this symptom.
        misses: Similar outputs of other symptoms.
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
    when: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    line_of: tuple[str, ...] = ()
    cured_by: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    matches: tuple[Example, ...] = ()
    misses: tuple[Example, ...] = ()
    origin: str = ""

    def wording_in(self, language: str) -> Wording:
        """The texts in a language, else in English."""
        return self.wording.get(language) or self.wording["en"]
