"""What the program of a run has and does, as far as it is known: conditions of causes and fixes on symptom pages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from statistics import median

from labbook.diagnosis.catalogue.run_conditions import OBSERVED
from labbook.diagnosis.catalogue.symptom_catalogue import LEFT_OUT, REFUTED
from labbook.diagnosis.toml_data import compile_patterns
from labbook.model.events.inspection_kinds import Flight
from labbook.model.run import Run
from labbook.model.run_code import source_path

CODE, FINE = "code: ", "ok: "
"""Begin conditions: the program's text has one of these words; the check of this id found nothing."""
_RE = compile_patterns(__file__)
_MOST_FILES, _MOST_BYTES = 30, 200_000
_OWN_LOOP = re.compile(r"\.backward\(|\.minimize\(")
_TINY = 1e-3
"""Norm of the gradients of a whole model that is small. Source: chosen by us; healthy programs here have 0.01 to 10."""
_MARK = "!"
"""Marks, in a chain of operations, the one that the flight recorder saw create the value."""
_FEW_NORMS, _ROSE = 4, 5.0
"""Source: chosen by us; noise of gradient norms is below a factor of three in the healthy runs of the bench."""
_PART = re.compile(r"\w\.\w+(?:\[\w+\])?\.parameters\(|named_parameters|filter\(")
_RECURRENT = re.compile(r"rnn|lstm|gru|recur|cell|mamba|ssm", re.IGNORECASE)
_ADAPTIVE = re.compile(r"ada|rms|lamb|lion", re.IGNORECASE)


def read_program_text(run: Run) -> str:
    """Returns the text of all files that a program loaded; "" where one cannot be read, or a library trains.

    A word that it lacks is then nowhere in the program.
    """
    if not 0 < len(run.sources) <= _MOST_FILES:
        return ""
    with suppress(OSError):
        paths = [source_path(run, name) for name in run.sources]
        if all(path.stat().st_size <= _MOST_BYTES for path in paths):
            text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)
            return text if _OWN_LOOP.search(text) else ""
    return ""


def conditions_of_page(when: Iterable[str], cases: Iterable[str], code: str) -> Iterator[str]:
    """Yields the conditions of a page on words of the program and on cases of its check, met or known not to be.

    Args:
        when: Conditions of the page.
        cases: What its check observed; a case that it did not observe is not there.
        code: Text of the program; see `read_program_text`.
    """
    cases = set(cases)
    for key in when:
        condition = key.removeprefix(LEFT_OUT).removeprefix(REFUTED)
        kind, _, rest = condition.partition(" ")
        if kind == CODE.strip() and code:
            yield condition if any(word in code for word in rest.split("|")) else f"{REFUTED}{condition}"
        elif kind == OBSERVED.strip():
            yield condition if rest in cases else f"{REFUTED}{condition}"


def iter_traits(run: Run, code: str) -> Iterator[tuple[str, bool | None]]:
    """Yields conditions of the training, each with whether it is met, `None` where that is not known."""
    seen = [one for one in run.signals if one.loop]
    states = [one.state for one in run.frameworks if one.state]
    losses = [loss for one in run.signals for loss in one.losses]
    types = {str(row.get("type", "")) for one in seen for model in one.models for row in model.get("modules", ())}
    optimizers = [one for each in run.signals for one in each.optimizers]
    rates = [series.values for series in run.series if (series.name, series.source) == ("lr", "probe")]
    norms = [value for one in run.series if one.name == "grad_norm" for value in one.values if value > 0]
    flights = [one.flight for one in run.signals if one.flight]
    clips = any(one.loop.get("clip", {}).get("calls") for one in run.signals)
    rising, is_recurrent = any(map(_gradients_rose, flights)), any(map(_RECURRENT.search, types))
    is_steady = bool(flights) and not any(map(_may_have_risen, flights))
    known: dict[str, tuple[object, bool]] = {
        "adaptive": (optimizers, any(_ADAPTIVE.search(str(one.get("type"))) for one in optimizers)),
        "amp": (states, any(state.get("amp") for state in states)),
        "clips": (seen, clips or any(one.get("options", {}).get("grad_clip") for one in optimizers)),
        "distributed": (run.processes, len({one.rank for one in run.processes if one.rank is not None}) > 1),
        "evaluated": (seen, any(one.evaluations or one.loop.get("forwards", {}).get("eval_nograd") for one in seen)),
        "explodes": (types and is_steady, rising or is_recurrent),
        "gives_part": (code, bool(_PART.search(code))),
        "loss_summed": (losses, any(one.get("training", True) and one.get("reduction") == "sum" for one in losses)),
        "out_of_domain": (
            any(_MARK in one.get("op", "") for one in flights),
            any(map(_is_out_of_domain, flights)),
        ),
        "recurrent": (types, is_recurrent),
        "resumed": (seen, any(one.loaded for one in run.signals)),
        "rising": (is_steady, rising),
        "scheduled": (rates, any(len(set(one)) > 1 for one in rates) or any("scheduler" in one.loop for one in seen)),
        "several_optimizers": (optimizers, len(optimizers) > 1),
        "tiny_gradients": (norms, bool(norms) and median(norms) < _TINY),
    }
    for name, (is_observed, is_met) in known.items():
        yield name, True if is_met else False if is_observed else None
    for check in run.checks:
        if check.verdict in ("ok", "warn", "fail"):
            yield from ((f"{FINE}{name}", check.verdict == "ok") for name in (check.id, *check.passed))


def _is_out_of_domain(flight: Flight) -> bool:
    """Whether the operation that created the first non-finite value is finite only for some arguments."""
    chain = flight.get("op", "").split()
    marked = [one for one in chain if one.endswith(_MARK)]
    return any(_RE["partial"].search(one) for one in marked or chain)


def _known_norms(flight: Flight) -> list[float]:
    return [n for row in flight.get("recent", []) if (n := row.get("grad_norm")) is not None and math.isfinite(n)]


def _may_have_risen(flight: Flight) -> bool:
    """Whether gradient norms grew, or too few of them are known after the first step."""
    return _gradients_rose(flight) or (flight.get("step") != 1 and len(_known_norms(flight)) < _FEW_NORMS)


def _gradients_rose(flight: Flight) -> bool:
    """Whether gradient norms grew in the last steps before a non-finite value."""
    known = _known_norms(flight)
    early = known[: max(len(known) // 2, 1)]
    return len(known) > 1 and max(known[-2:]) > _ROSE * median(early) > 0.0


def both_ways(traits: Iterable[tuple[str, bool | None]]) -> frozenset[str]:
    """Returns the names of conditions that are met, and those that are known not to be, marked as `REFUTED`."""
    return frozenset(name if is_met else f"{REFUTED}{name}" for name, is_met in traits if is_met is not None)
