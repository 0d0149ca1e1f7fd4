"""The result of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from labbook.frozen import dataclass


@dataclass(frozen=True)
class EarlierRun:
    """An earlier run with the same failure, and its fix.

    Args:
        fix: Description of the fix, or "".
        by: Id of the run without the failure, or "".
        same: "fingerprint" (the same failure), "symptom" or "family".
        held: Number of later runs of that script without the failure, or `None`.
        fits: Whether the fix is one for this failure: the same failure, and what cured it touches it.
    """

    run: str
    fix: str = ""
    by: str = ""
    same: str = "fingerprint"
    held: int | None = None
    fits: bool = False


@dataclass(frozen=True)
class Finding:
    """One symptom found in a run.

    Args:
        symptom: Id of the catalogue; "" if only the family is known.
        family: One of `labbook.model.symptom.CRASH_FAMILIES`, or the class of a check.
        where: Any of `file`, `line`, `function`, `source`, `module`, `parameter`, `operation`, `step`,
            `after_step`, `rank`, `thread`.
        evidence: Sentences with the numbers of this run.
        causes: Likeliest for this run first.
        fixes: Cheapest for this run first.
        fingerprint: Versioned fingerprint of the failure, or "".
        values: Values captured from the message, by name.
        follows_from: Symptom, else family, of the finding that this one is a consequence of, or "".
        message: First line of the exception or of the output.
        exception: Name of the exception's class, or "".
        seen_before: Earlier runs with this failure, newest first.
    """

    symptom: str
    family: str
    class_: str
    tier: int
    severity: str
    title: str
    where: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    fingerprint: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    follows_from: str = ""
    message: str = ""
    exception: str = ""
    seen_before: tuple[EarlierRun, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """All findings of one run or text; the first is the primary one.

    Args:
        findings: Causes first, each followed by its consequences.
        unsure: Why no diagnosis is certain, one sentence, or "".
        fingerprints: Those of exceptions without a finding.
    """

    findings: tuple[Finding, ...] = ()
    unsure: str = ""
    fingerprints: tuple[str, ...] = ()

    @property
    def primary(self) -> Finding | None:
        """The finding that explains the failure, or `None`."""
        return self.findings[0] if self.findings else None

    def __str__(self) -> str:
        """Format the primary finding: title, evidence, likeliest cause, fixes."""
        first = self.primary
        if first is None:
            return self.unsure or "nothing was found"
        lines = [f"{first.title} ({first.symptom or first.family})"]
        if first.where.get("file"):
            lines.append(
                f"  {first.where['file']}:{first.where.get('line')}  {first.where.get('source') or ''}".rstrip()
            )
        lines += [f"  {sentence}" for sentence in first.evidence]
        lines += [f"  why: {cause}" for cause in first.causes[:1]]
        lines += [f"  {number}. {fix}" for number, fix in enumerate(first.fixes, 1)]
        return "\n".join(lines)
