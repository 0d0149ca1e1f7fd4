"""Finds runs of static programs that disturb a training: parameters initialized again, evaluation that trains."""

import re

from ..training.call_site import line_of, user_frame

_EVALUATES = re.compile(r"(?:^|_)(?:eval|evaluate|evaluation|val|valid|validate|validation|test|infer|predict)(?:_|$)")
_EPOCH = re.compile(r"(?:^|_)(?:epoch|pass)(?:_|$)")
_MOST_FUNCTIONS = 256
_MOST_SITES = 16
_MOST_MARKS = 1 << 16
_PHASES = 3
_MOST_FRAMES = 8


class CallSite:
    """A line that runs a training program.

    Attributes:
        runs: Of it.
        fetched: Those that fetch the loss.
        phases: How often it was run after another line.
        first: Mark of what is fed first in each phase; `None` where that differs.
    """

    def __init__(self, line):
        self.line = line
        self.runs = self.fetched = self.phases = 0
        self.first = None

    def begin(self, mark):
        """Begins a phase."""
        self.phases += 1
        self.first = mark if self.phases == 1 or mark == self.first else None


class ProgramMisuse:
    """The runs of one process that are no steps, or should be none."""

    def __init__(self):
        self._sites, self._marks = {}, set()
        self._site = self._last = None
        self._named = {}
        self._restarts = {"count": 0, "rising": 0, "line": ""}
        self._updates = {"count": 0, "function": "", "line": ""}
        self._epoch = None
        self._is_trained_elsewhere = False

    def on_run(self, has_stepped):
        """Processes a run of a training program; in a function named as an evaluation, it may be a mistake.

        Args:
            has_stepped: Whether the program ran before.
        """
        frame = user_frame()
        key = (frame.f_code, frame.f_lineno) if frame is not None else None
        self._site = self._sites.get(key)
        if self._site is None and len(self._sites) < _MOST_SITES:
            self._site = self._sites[key] = CallSite(line_of(frame))
        function = next((one.f_code.co_name for one in _frames(frame) if self._evaluates(one.f_code)), "")
        if not function:
            self._is_trained_elsewhere = True
        elif has_stepped and self._is_trained_elsewhere:
            self._updated(frame, function)

    def on_run_end(self, has_loss, mark):
        """Processes the end of this run.

        Args:
            has_loss: Whether it fetched the loss.
            mark: What tells apart what was fed.
        """
        site = self._site
        if site is None:
            return
        if site is not self._last:
            site.begin(mark)
        self._last = site
        site.runs += 1
        site.fetched += has_loss
        if has_loss and len(self._marks) < _MOST_MARKS:
            self._marks.add(mark)

    def _judges(self):
        """The line that runs a training program to judge it, `None` without one.

        It never fetches the loss, all others always do; each of its phases begins with the same data, which the others
        never feed.
        """
        sites = self._sites.values()
        trains = sum(site.runs for site in sites if site.fetched == site.runs)
        others = [site for site in sites if site.fetched < site.runs]
        if len(others) != 1 or others[0].fetched or not others[0].runs < trains or len(self._marks) >= _MOST_MARKS:
            return None
        known = others[0].first is None or others[0].first in self._marks
        return others[0] if others[0].phases >= _PHASES and not known else None

    def ran_copy(self):
        """Processes a run of a copy of a training program that was made with its optimizer."""
        self._updated(user_frame(), "")

    def restarted(self):
        """Processes a run of the program that initializes the parameters, after steps."""
        frame = user_frame()
        fields, self._epoch = self._epoch, _epoch_in(frame)
        self._restarts["count"] += 1
        # Folds and seeds begin anew rightly: only one in a loop over epochs is known to be wrong.
        if self._epoch is not None and (fields is None or self._epoch > fields):
            self._restarts.update(rising=self._restarts["rising"] + 1, line=line_of(frame))

    def _evaluates(self, code):
        known = self._named.get(code)
        if known is None and len(self._named) < _MOST_FUNCTIONS:
            known = self._named[code] = bool(_EVALUATES.search(code.co_name))
        return known

    def _updated(self, frame, function):
        self._updates.update(count=self._updates["count"] + 1, function=function, line=line_of(frame))

    def fields(self):
        """Fields of the event of the loop."""
        fields = {"restarts": self._restarts} if self._restarts["count"] else {}
        updates = self._updates
        site = self._judges() if not updates["count"] else None
        if site is not None:
            updates = {"count": site.runs, "function": "", "line": site.line, "held_out": True}
        return dict(fields, evaluation_updates=updates) if updates["count"] else fields


def _frames(frame):
    """The frames from one up, those of functions."""
    found = []
    while frame is not None and frame.f_code.co_name != "<module>" and len(found) < _MOST_FRAMES:
        found.append(frame)
        frame = frame.f_back
    return found


def _epoch_in(frame):
    """The number of the epoch, as the innermost variable of that name has it; `None` without one."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        for name, value in list(frame.f_locals.items()):
            if type(value) is int and _EPOCH.search(name):
                return value
        frame = frame.f_back
    return None
