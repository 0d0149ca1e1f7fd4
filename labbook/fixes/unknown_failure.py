"""The exception that ended a run as a finding of its own, where no page of the catalogue describes it."""

from __future__ import annotations

from labbook.diagnosis.families.message_family import family_of_message
from labbook.diagnosis.finding_builder import locate_exception
from labbook.diagnosis.fingerprint import fingerprint_exception
from labbook.diagnosis.run_evidence import read_caught_exception
from labbook.model.finding import Finding
from labbook.model.run import Run
from labbook.report.ending_exception import ending_exception

_MOST_MESSAGE = 300


def describe_exception(run: Run) -> Finding | None:
    """Returns the exception that ended a run, with its own message as title; `None` if none did."""
    first = ending_exception(run)
    if first is None:
        return None
    exception = read_caught_exception(first)
    reading = family_of_message(exception)
    family = reading.family if reading is not None else "other"
    message = " ".join(first.message.split())[:_MOST_MESSAGE]
    framework = next((f.name for f in run.frameworks if f.optimizers), "") or next((f.name for f in run.frameworks), "")
    return Finding(
        symptom="",
        family=family,
        class_=family,
        tier=1,
        severity="error",
        title=f"{first.type}: {message}" if message else first.type,
        where=locate_exception(exception),
        fingerprint=fingerprint_exception(exception, framework),
        message=message,
        exception=first.type,
    )
