"""A diagnosis as JSON data, for `labbook diagnose --json`."""

from __future__ import annotations

from typing import Any

from labbook.model.finding import Diagnosis, Finding


def diagnosis_data(diagnosis: Diagnosis) -> dict[str, Any]:
    """Returns the diagnosis as JSON data.

    Returns:
        `primary` (id of a symptom, or null), `family` of the primary finding (or null), `findings`, and `unsure`: the
        reason why there is no certain finding.
    """
    primary = diagnosis.primary
    return {
        "primary": (primary.symptom or None) if primary else None,
        "family": primary.family if primary else None,
        "findings": [finding_data(finding) for finding in diagnosis.findings],
        "unsure": diagnosis.unsure,
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """Returns one finding as JSON data."""
    return {
        "symptom": finding.symptom or None,
        "family": finding.family,
        "class": finding.class_,
        "tier": finding.tier,
        "severity": finding.severity,
        "title": finding.title,
        "where": dict(finding.where),
        "evidence": list(finding.evidence),
        "causes": list(finding.causes),
        "fixes": list(finding.fixes),
        "seen_before": [
            {
                "run": seen.run,
                "fix": seen.fix or None,
                "by": seen.by or None,
                "same": seen.same,
                "held": seen.held,
                "fits": seen.fits,
            }
            for seen in finding.seen_before
        ],
        "follows_from": finding.follows_from or None,
        "fingerprint": finding.fingerprint,
        "values": dict(finding.values),
        "exception": finding.exception or None,
        "message": finding.message,
    }
