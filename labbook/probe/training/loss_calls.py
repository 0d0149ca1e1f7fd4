"""Statistics of the arguments of loss functions over a run, for each call in the code.

Independent of the framework.
"""

from ..events.measurement_kinds import LOSS_CALL

ALWAYS = 5
"""Calls of a line that are always inspected."""

EVERY_EVALUATION = 16
MOST_SITES = 64


class LossCallSite:
    """A call of a loss function in the code, of which a line may have several.

    Args:
        number: Counts the calls of a process.
        function: Name of the loss function in the protocol.
        line: "train.py:41".
        step: Step of the first call.

    Attributes:
        observed: Calls whose values were inspected.
        refused: Inspected calls that raised.
    """

    def __init__(self, number, function, line, training, step):
        self.number = number
        self.function = function
        self.line = line
        self.training = training
        self.step = step
        self.calls = 0
        self.observed = 0
        self.refused = 0
        self._kinds, self._moments = {}, {}
        self._facts = {}
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._first = self._last = self._least = None
        self._targets = self._ignored = 0
        self._told = 0

    def is_due(self, dense):
        """Whether to inspect the current call."""
        self.calls += 1
        if self.calls <= ALWAYS:
            return True
        return dense if self.training else self.calls % EVERY_EVALUATION == 0

    def add_call(self, facts, value):
        """Add the arguments of one call.

        Args:
            facts: `input` and `target` ({`shape`, `dtype`, `min`, `max`}), `classes`, `reduction`, `items`, `weight`,
                `class_weights`, `soft`, `ignored` and `targets` (counts), and booleans or counts for the names in
                `_COUNTED`.
            value: The result, `None` if unknown. A call on nothing, as of a mask that chose no sample, shows nothing
                of the others.
        """
        if 0 in (facts.get("input") or {}).get("shape", ()):
            return
        self.observed += 1
        for name in ("input", "target"):
            self._kind(name, facts.get(name))
        for name in ("classes", "reduction", "weight", "class_weights", "soft", "ignore_index", *_MEASURED):
            if facts.get(name) is not None:
                self._facts[name] = facts[name]
        if value is not None and self._first is None:
            self._facts["items"] = facts.get("items")  # of the call that gave the first value: batches differ in size
        for name in _COUNTED:
            self._counts[name] += facts.get(name) or 0
        self._targets += facts.get("targets") or 0
        self._ignored += facts.get("ignored") or 0
        if facts.get("targets") and facts.get("ignored") == facts["targets"]:
            self._counts["all_ignored"] += 1
        if value is not None:
            self.value(value)

    def _kind(self, name, look):
        if look is None:
            return
        known = self._kinds.get(name)
        merged = {key: look.get(key) for key in ("shape", "dtype", "min", "max", "zero") if key in look}
        if known is not None:
            merged["shape"] = known.get("shape")  # of the first call: the last batch of an epoch is often smaller
            for key, pick in (("min", min), ("max", max)):
                values = [v for v in (known.get(key), look.get(key)) if v is not None]
                merged[key] = pick(values) if values else None
        if look.get("mean") is not None and look.get("std") is not None:
            n, total, squares = self._moments.get(name, (0, 0.0, 0.0))
            n, total, squares = n + 1, total + look["mean"], squares + look["mean"] ** 2 + look["std"] ** 2
            self._moments[name] = n, total, squares
            merged.update(mean=total / n, std=max(squares / n - (total / n) ** 2, 0.0) ** 0.5)
        elif known is not None:
            merged.update(mean=known.get("mean"), std=known.get("std"))
        self._kinds[name] = merged

    def value(self, value):
        """Add a result."""
        if self._first is None:
            self._first = value
        self._last = value
        if self._least is None or value < self._least:
            self._least = value
        if value < 0.0:
            self._counts["negative"] += 1

    def has_changed(self):
        """Whether anything changed since it was last written."""
        return self.calls > self._told

    def site_fields(self, framework):
        """Return the fields of the event."""
        self._told = self.calls
        observed = max(self.observed, 1)
        fields = {
            "framework": framework,
            "call": self.number,
            "fn": self.function,
            "line": self.line,
            "training": self.training,
            "step": self.step,
            "calls": self.calls,
            "observed": self.observed,
            "input": self._kinds.get("input"),
            "target": self._kinds.get("target"),
            "classes": self._facts.get("classes"),
            "reduction": self._facts.get("reduction"),
            "items": self._facts.get("items"),
            "weight": bool(self._facts.get("weight")),
            "class_weights": self._facts.get("class_weights"),
            "soft": bool(self._facts.get("soft")),
            "ignored": self._ignored / self._targets if self._targets else 0.0,
            "ignore_index": self._facts.get("ignore_index"),
            "value_first": self._first,
            "value_last": self._last,
            "value_min": self._least,
        }
        for name in _COUNTED:
            fields[name] = self._counts[name]
        for name in _MEASURED:
            fields[name] = self._facts.get(name)
        for name in _SHARES:
            fields[name] = self._counts[name] / observed
        return fields


_MEASURED = ("near", "far", "margin", "smoothing")
_SHARES = ("prob_rows", "logprob_rows", "prob_columns", "unit_range")
_COUNTED = (
    *_SHARES,
    *(
        "outside",
        "broadcast",
        "negative",
        "all_ignored",
        "not_probabilities",
        "self_pairs",
        "self_negatives",
        "target_trained",
    ),
)


class LossCallSites:
    """All calls of loss functions in the code."""

    def __init__(self, emit, framework):
        self._emit = emit
        self._framework = framework
        self._sites = {}

    def find(self, function, key, training):
        """Return the site of a call by its place in the code, `None` if it is new."""
        return self._sites.get((function, key, training))

    def add(self, function, key, training, line, step):
        """Create a site; `None` if there are too many."""
        if len(self._sites) >= MOST_SITES:
            return None
        site = self._sites[function, key, training] = LossCallSite(len(self._sites), function, line, training, step)
        return site

    def write_event(self, site):
        """Write one site."""
        self._emit(LOSS_CALL, **site.site_fields(self._framework))

    def write_changed(self):
        """Write the sites that were called since they were last written."""
        for site in list(self._sites.values()):
            if site.has_changed():
                self.write_event(site)
