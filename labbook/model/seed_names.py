"""Names the random generators that a program seeded."""

from __future__ import annotations

from collections.abc import Mapping

LATER = ", later"
"""Ending of the name of a generator that was seeded again after the first step."""


def describe_seeds(seeds: Mapping[str, object]) -> list[str]:
    """Returns generators with their seeds: "torch 0", "random 3" (of Python); with one of a later step "torch 0 → 4".

    Args:
        seeds: Generator -> seed, `None` where numbers were drawn without one; see `probe/events/protocol.py`.
    """
    later = {name[: -len(LATER)]: value for name, value in seeds.items() if name.endswith(LATER) and value is not None}
    known = {name: value for name, value in seeds.items() if not name.endswith(LATER) and value is not None}
    return [
        " ".join([generator_name(name), " → ".join(str(one[name]) for one in (known, later) if name in one)])
        for name in dict.fromkeys([*known, *later])
    ]


def generator_name(name: str) -> str:
    """Returns what a generator is called in entries: `random`, the module, of Python, as "python 3" is a version."""
    return "random" if name == "python" else name
