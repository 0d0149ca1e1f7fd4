"""Runs made by hand, and simulated ones: series of healthy and of faulty trainings."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from labbook.diagnosis.catalogue.check_pages import check_pages
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.health.checklist import CHECKS, answer, checklist
from labbook.model.run import Framework, ProbeReport, Process, Run
from labbook.model.series import Series
from labbook.model.signals import Signals
from labbook.store.event_reader import read_event
from labbook.store.text.sentences import Sentences

PAGES = check_pages(load_catalogue().symptoms)


def series_of(name, values, source="probe", rank=None, steps=None):
    values = tuple(values)
    steps = tuple(steps) if steps is not None else tuple(range(1, len(values) + 1))
    bad = sum(not math.isfinite(v) for v in values)
    return Series(name, source, steps, values, values, values, len(values), bad, rank)


KINDS = {
    "models": "model",
    "tensors": "tensors",
    "batches": "batch",
    "prints": "prints",
    "losses": "loss_call",
    "loaded": "loaded",
    "graphs": "graph",
    "loop": "loop",
    "evaluations": "evaluation",
    "loaders": "loader",
    "memory": "memory",
    "flight": "flight",
    "moments": "moment",
    "optimizers": "optimizer",
}
"""Field of `Signals` -> kind of its events."""


def as_read(signals):
    """The same signals, their events as they come out of a journal."""

    def read(kind, event):
        return {key: value for key, value in read_event({**event, "k": kind}).items() if key != "k"}

    seen = {name: getattr(signals, name) for name in KINDS}
    events = {
        name: read(KINDS[name], value) if isinstance(value, dict) else tuple(read(KINDS[name], one) for one in value)
        for name, value in seen.items()
    }
    return dataclasses.replace(signals, **events)


def run_of(*series, signals=None, steps=None, framework="torch", **fields):
    state = fields.pop("state", {"seeds": {"torch": 1}, "deterministic": {"use_deterministic_algorithms": True}})
    steps = steps if steps is not None else max((len(s.values) for s in series), default=3)
    several = signals if isinstance(signals, (list, tuple)) else [signals] if signals is not None else []
    made = tuple(
        as_read(s if isinstance(s, Signals) else Signals(framework, **{"spans": {0: (1.0, 2.0)}, **s})) for s in several
    )
    defaults = {
        "frameworks": (Framework(framework, "2", state=state),),
        "processes": (Process(1, 0, ("train.py",), "main", steps=steps),),
        "probe": ProbeReport("ok", 0.004),
        "signals": made,
        "exit_code": 0,
    }
    status, argv = fields.pop("status", "finished"), fields.pop("argv", ("python",))
    return Run("i", status, argv, "/", 0.0, series=series, **{**defaults, **fields})


@pytest.fixture(scope="session")
def make_series():
    return series_of


@pytest.fixture(scope="session")
def make_run():
    return run_of


@pytest.fixture(scope="session")
def read_signals():
    return as_read


@pytest.fixture(scope="session")
def rows_of():
    return lambda run: {row.id: row for row in checklist(run, PAGES)}


@pytest.fixture(scope="session")
def pages():
    """What the symptom pages say of the checks."""
    return PAGES


def asked(check_id, *series, signals=None, **fields):
    """The answer of one check with its messages in English; `None` when its question does not arise."""
    check = next(c for c in CHECKS if c.id == check_id)
    outcome = answer(check, run_of(*series, signals=signals if signals is not None else {}, **fields))
    return outcome and in_english(outcome)


def in_english(outcome):
    """The outcome with sentences in place of messages; a key or value that is missing fails the test."""
    fill = Sentences("en").fill
    seen = {"observed": fill(outcome.observed), "evidence": tuple(fill(one) for one in outcome.evidence if one)}
    for name in ("expected", "advice"):
        seen[name] = fill(getattr(outcome, name)) if getattr(outcome, name) is not None else ""
    # Every sentence has to be possible in every language.
    for one in (outcome.observed, *outcome.evidence, outcome.expected, outcome.advice):
        assert not one or Sentences("zh").fill(one)
    return dataclasses.replace(outcome, **seen)


@pytest.fixture(scope="session")
def ask():
    return asked


def parameter(i, name, shape, module=0, trainable=True, **init):
    seen = {"mean": 0.0, "std": 0.1, "min": -0.3, "max": 0.3, "zero": 0.0, "bad": 0, "rows_equal": False, "fan_in": 100}
    return {
        "i": i,
        "name": name,
        "shape": list(shape),
        "module": module,
        "trainable": trainable,
        "init": {**seen, **init},
    }


def module(i, name, kind, order, parameters=0, **options):
    return {"i": i, "name": name, "type": kind, "order": order, "parameters": parameters, "options": options}


@pytest.fixture(scope="session")
def make_model():
    """`make_model(kinds)`: a chain of modules, a weight matrix for each linear or convolution layer."""

    def made(*kinds, options=None, feeds=(), **fields):
        modules = [module(0, "", "Net", len(kinds))]
        parameters = []
        for i, kind in enumerate(kinds, 1):
            weights = 1000 if kind.startswith(("Linear", "Conv", "LSTM")) else 20 if "Norm" in kind else 0
            modules.append(module(i, f"layer{i}", kind, i - 1, weights, **(options or {}).get(i, {})))
            if weights == 1000:
                own = fields.get("init", {}).get(i, {})
                parameters.append(parameter(len(parameters), f"layer{i}.weight", (10, 100), i, **own))
        extra = {k: v for k, v in fields.items() if k != "init"}
        return {"model": 0, "root": "Net", "modules": modules, "parameters": parameters, "feeds": list(feeds), **extra}

    return made


@pytest.fixture(scope="session")
def looks():
    """`looks(params=f, modules=g)`: tensor events at dense steps; f(step) and g(step) give their rows."""

    def made(*, steps=(1, 2, 3, 5, 8, 12, 20, 30, 40, 60, 80, 100, 150), **rows):
        return tuple({"step": s, "opt": 0, "model": 0, **{key: row(s) for key, row in rows.items()}} for s in steps)

    return made


def rates(random_, n):
    """A learning rate schedule: constant, cosine, warm-up, steps, one cycle."""
    top = 10 ** random_.uniform(-5, -0.5)
    kind = random_.choice(("constant", "cosine", "warm-up", "steps", "cycle", "linear"))
    warm = random_.randint(1, max(1, n // 5))
    shapes = {
        "constant": lambda i: 1.0,
        "cosine": lambda i: 0.5 * (1 + math.cos(math.pi * i / n)),
        "warm-up": lambda i: min(1.0, (i + 1) / warm),
        "steps": lambda i: 0.1 ** (3 * i // n),
        "cycle": lambda i: min((i + 1) / (0.3 * n), max(0.0, (n - i) / (0.7 * n))),
        "linear": lambda i: (n - i) / n,
    }
    return [top * shapes[kind](i) for i in range(n)]


def healthy_levels(random_, n, speed):
    """The loss without its noise: how fast a run learns follows from the rate's own integral."""
    total, done = sum(speed), 0.0
    kind = random_.choice(("exponential", "power", "sigmoid", "two phases", "late", "grokking"))
    fall = random_.uniform(0.25, 0.999)
    rate = random_.uniform(1.5, 30)
    levels = []
    for value in speed:
        done += value
        x = done / total
        gone = {
            "exponential": 1 - math.exp(-rate * x),
            "power": 1 - (1 + rate * 5 * x) ** -0.5,
            "sigmoid": 1 / (1 + math.exp(-12 * (x - 0.3))),
            "two phases": 0.5 * (1 - math.exp(-rate * x)) + 0.5 * (1 - math.exp(-rate * max(0.0, x - 0.5))),
            "late": 0.3 * (1 - math.exp(-rate * x)) + 0.7 / (1 + math.exp(-20 * (x - 0.7))),
            "grokking": 1 - math.exp(-rate * x) * (1 - 0.1 * math.sin(20 * x)),
        }[kind]
        levels.append(1 - fall * gone)
    return levels


def noisy(random_, levels, n):
    """Multiplied or added noise, normal or heavy-tailed, of a size that leaves a trend; epochs with harder batches."""
    size = random_.choice((0.01, 0.05, 0.1, 0.2, 0.3))
    heavy, added = random_.random() < 0.3, random_.random() < 0.3
    period = random_.choice((0, 0, 5, 10, 37, 100))
    hardness = [random_.gauss(0, size) for _ in range(period)] if period else []
    values, drift = [], 0.0
    correlated = random_.choice((0.0, 0.0, 0.5, 0.8))
    for i, level in enumerate(levels):
        draw = random_.gauss(0, size)
        if heavy:
            draw *= math.sqrt(4 / max(0.2, random_.gammavariate(2, 2)))
        drift = correlated * drift + draw * math.sqrt(1 - correlated**2)
        noise = drift + (hardness[i % period] if period else 0.0)
        values.append(level + min(0.5, size) * noise if added else level * math.exp(noise))
    return values


def healthy_run(seed):
    """A run of a training that learns: 20 to 2000 steps, any scale, any schedule; sometimes a classifier's."""
    random_ = random.Random(seed)
    n = int(10 ** random_.uniform(1.3, 3.3))
    speed = rates(random_, n)
    values = noisy(random_, healthy_levels(random_, n, speed), n)
    classes = random_.choice((0, 0, 2, 10, 100, 1000))
    begin = math.log(classes) * random_.uniform(0.95, 1.1) if classes else 10 ** random_.uniform(-3, 3)
    floor = 1e-4 * begin
    losses = [begin, *(max(floor, begin * v) for v in values[1:])]
    norms = gradient_norms(random_, losses)
    signals = {"losses": ()}
    if classes:
        fn = "cross_entropy" if classes > 2 else random_.choice(("cross_entropy", "bce_with_logits"))
        seen = {"fn": fn, "line": "t.py:1", "training": True, "calls": n, "classes": classes, "reduction": "mean"}
        numbers = {"value_first": losses[0], "value_last": losses[-1], "observed": min(n, 40), "prob_rows": 0.0}
        signals["losses"] = ({**seen, **numbers, "step": 1, "input": {"shape": [32, classes], "min": -3.0}},)
    times = [0.01 * math.exp(random_.gauss(0, 0.2)) * (1 + 20 * (random_.random() < 0.01)) for _ in range(n)]
    validation = healthy_validation(random_, losses)
    series = [series_of("loss", losses), series_of("grad_norm", norms), series_of("lr", speed)]
    series += [series_of("step_time_s", times), *validation]
    return run_of(*series, signals={**signals, **memory_of(random_, n)}, steps=n)


def gradient_norms(random_, losses):
    """Norms that shrink, stay or grow a little with the loss, with heavy tails."""
    power = random_.choice((-0.3, 0.0, 0.5, 1.0))
    scale, size = 10 ** random_.uniform(-3, 3), random_.choice((0.1, 0.3, 0.6))
    return [
        scale * loss**power * math.exp(random_.gauss(0, size)) * (1 + 8 * (random_.random() < 0.005)) for loss in losses
    ]


def healthy_validation(random_, losses):
    """Validation losses a little above the training loss, that level off and may turn up slightly."""
    epochs = random_.randint(0, 30)
    if epochs < 2:
        return []
    gap, turn, size = random_.uniform(1.0, 1.3), random_.uniform(0.0, 0.15), random_.uniform(0.005, 0.05)
    values = []
    for epoch in range(epochs):
        x = (epoch + 1) / epochs
        level = losses[0] * (0.3 + 0.7 * math.exp(-4 * x)) * gap * (1 + turn * max(0.0, x - 0.6))
        values.append(level * math.exp(random_.gauss(0, size)))
    return [series_of("val_loss", values, "tensorboard")]


def memory_of(random_, n):
    """Host memory that grows at first, then stays, with noise."""
    looks = sorted({min(n, int(1.3**k)) for k in range(40)})
    base = 10 ** random_.uniform(8, 9.6)
    late = random_.uniform(0.0, 0.05)
    sizes = [base * (1 + 0.2 * (1 - math.exp(-s / 10)) + late * s / n + random_.gauss(0, 0.002)) for s in looks]
    rows = zip(looks, sizes, strict=True)
    return {"memory": tuple({"step": s, "rss": size, "graphs": 1, "graphs_of": s} for s, size in rows)}


@pytest.fixture(scope="session")
def simulate():
    return healthy_run
