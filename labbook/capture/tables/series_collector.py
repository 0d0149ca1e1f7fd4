"""Collects points of series by name, in little memory."""

from __future__ import annotations

from array import array

from labbook.model.series import Series


class SeriesCollector:
    """Collects points by name; a million of them take 16 MB."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._points: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, name: str, step: int, value: float, begun: set[str] | None = None) -> None:
        """Adds a point; steps and values beyond 64 bits are limited to them.

        Args:
            begun: For a point of one of several files, the names of the series that this file has begun; changed. The
                first point of a later file restarts a series that had reached its step, as a resumed run does.
        """
        if begun is not None and name not in begun:
            begun.add(name)
            self._restart(name, step)
        found = self._points.get(name)
        if found is None:
            found = self._points[name] = (array("q"), array("d"))
        found[0].append(step if -(2**63) <= step < 2**63 else 2**63 - 1)
        found[1].append(value)

    def add_number(self, name: str, step: int, value: object, begun: set[str] | None = None) -> bool:
        """Adds a point if the value is a number, a truth value or one of "NaN", "Infinity", "-Infinity".

        Args:
            value: Anything.
            begun: As of `add`.
        """
        if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf", "infinity", "-infinity"):
            value = float(value)
        if not isinstance(value, (int, float)):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        self.add(name, step, number, begun)
        return True

    def _restart(self, name: str, step: int) -> None:
        """Removes the points of a series that has reached a step, from that step on."""
        last = self.last_step(name)
        if last is not None and step <= last:
            steps, values = self._points[name]
            left = [place for place, old in enumerate(steps) if old < step]
            self._points[name] = array("q", (steps[i] for i in left)), array("d", (values[i] for i in left))

    def last_step(self, name: str) -> int | None:
        """Returns the step of the last point of a series, or `None`."""
        found = self._points.get(name)
        return found[0][-1] if found else None

    def series(self) -> tuple[Series, ...]:
        """Returns the series by name, their points in the order of steps."""
        return tuple(self._series(name) for name in sorted(self._points))

    def _series(self, name: str) -> Series:
        steps, values = self._points[name]
        ascending = all(steps[i] <= steps[i + 1] for i in range(len(steps) - 1))
        order = range(len(steps)) if ascending else sorted(range(len(steps)), key=steps.__getitem__)
        return Series.of_values(name, self._source, (steps[i] for i in order), (values[i] for i in order))
