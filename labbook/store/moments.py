"""Reads the times in front matters and run ids."""

from __future__ import annotations

from datetime import date, datetime, timezone

from labbook.store.paths import is_run_id


def moment(value: object) -> float | None:
    """Returns the Unix seconds of a date or time, or of the text of one, or `None`. Without a zone it is UTC."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=timezone.utc).timestamp()
    if not isinstance(value, str):
        return None
    try:
        return moment(datetime.fromisoformat(value.strip().replace("Z", "+00:00")))
    except (ValueError, OverflowError):
        return None


def first_moment(values: list[object], run_id: str) -> float | None:
    """Returns the Unix seconds of the first value that is a time, else those of the run id, or `None`."""
    if is_run_id(run_id):
        stamp = f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}"
        values = [*values, stamp]
    return next((seconds for value in values if (seconds := moment(value)) is not None), None)
