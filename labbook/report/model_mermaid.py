"""Writes the modules of a model in the language of Mermaid, which git hosts draw in a code block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from labbook.model.run import Run
from labbook.report.model_svg import drawn_models, row_words, state_words

_COLORS = {
    "nonfinite": "#cf222e",
    "exploding": "#cf222e",
    "vanishing": "#8250df",
    "no_gradient": "#bf3989",
    "dead": "#9a6700",
    "saturated": "#bc4c00",
    "frozen": "#0969da",
    "not_called": "#6e7781",
}
"""State -> colour of the border. The words in the box say the same."""


def model_mermaid(run: Run, labels: Mapping[str, str]) -> str:
    """Returns a flow chart of the modules in the order in which they run; modules with others inside are frames.

    Args:
        run: A run with `health["models"]`.
        labels: The section `diagram` of the words file.
    """
    lines = ["flowchart TD"]
    used: dict[str, list[str]] = {}
    for number, model in enumerate(drawn_models(run)):
        _add(lines, model["tree"], 0, len(model["tree"]), f"m{number}_", labels, used)
    for state, nodes in used.items():
        lines.append(f"  classDef {state} stroke:{_COLORS[state]},stroke-width:3px")
        lines.append(f"  class {','.join(nodes)} {state}")
    return "\n".join(lines) + "\n"


def _add(
    lines: list[str],
    rows: Sequence[Mapping[str, Any]],
    start: int,
    stop: int,
    prefix: str,
    labels: Mapping[str, str],
    used: dict[str, list[str]],
) -> None:
    """Adds the rows of one depth, with those inside them, and the arrows between them."""
    depth = int(rows[start]["depth"])
    heads = [at for at in range(start, stop) if int(rows[at]["depth"]) == depth]
    indent = "  " * (depth + 1)
    for at, end in zip(heads, [*heads[1:], stop], strict=True):
        row, name = rows[at], f"{prefix}{at}"
        if row["states"]:
            used.setdefault(str(row["states"][0]["state"]), []).append(name)
        if end == at + 1:
            lines.append(f'{indent}{name}["{_label(row, labels, "<br/>")}"]')
            continue
        lines.append(f'{indent}subgraph {name}["{_label(row, labels, " · ")}"]')
        lines.append(f"{indent}  direction TB")
        _add(lines, rows, at + 1, end, prefix, labels, used)
        lines.append(f"{indent}end")
    lines += [f"{indent}{prefix}{a} --> {prefix}{b}" for a, b in pairwise(heads)]


def _label(row: Mapping[str, Any], labels: Mapping[str, str], separator: str) -> str:
    title = " ".join(filter(None, row_words(row, labels)))
    states = [state_words(one, row, labels) for one in row["states"]]
    return separator.join(escape_mermaid(text) for text in filter(None, [title, str(row["output"]), *states]))


def escape_mermaid(text: str) -> str:
    """Returns a text for a quoted label; characters with a meaning in Mermaid are written as numbers."""
    return "".join(f"#{ord(c)};" if c in '"#[]{}|`<>&' else c for c in text)
