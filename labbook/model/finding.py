"""What a diagnosis says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from labbook.frozen import dataclass


@dataclass(frozen=True)
class Seen:
    """An earlier run with the same failure, and what cured it.

    Args:
        run: Its id.
        fix: What the fix was, in words, or "".
        by: The run that cured it, or "".
        same: "fingerprint" (the same failure), "symptom" or "family".
        held: How many later runs of that script did not show it again, or `None`.
    """

    run: str
    fix: str = ""
    by: str = ""
    same: str = "fingerprint"
    held: int | None = None


@dataclass(frozen=True)
class Finding:
    """One symptom that a run shows.

    Args:
        symptom: Id of the catalogue; "" when only the family is known.
        family: One of `labbook.model.symptom.CRASH_FAMILIES`, or the class of a check.
        where: Any of `file`, `line`, `function`, `source`, `module`, `parameter`, `operation`, `step`, `rank`,
            `thread`.
        evidence: Sentences with the numbers of this run.
        causes: Likeliest for this run first.
        fixes: For this run, cheapest first.
        fingerprint: Identity of the failure, versioned; "" where there is none.
        values: What the message's template captured, by name.
        follows_from: Symptom, else family, of the finding that this one is a consequence of, or "".
        message: First line of the exception or of the output.
        exception: Name of the exception's class, or "".
        seen_before: Newest first.
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
    seen_before: tuple[Seen, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """All findings of one run or text; the first is the primary one.

    Args:
        findings: Causes first; consequences behind what they follow from.
        unsure: Why nothing certain can be said, one sentence, or "".
    """

    findings: tuple[Finding, ...] = ()
    unsure: str = ""

    @property
    def primary(self) -> Finding | None:
        """The finding that explains the failure; `None` when there is none."""
        return self.findings[0] if self.findings else None

    def __str__(self) -> str:
        """The primary finding as people read it: what, evidence, likeliest cause, fixes."""
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
