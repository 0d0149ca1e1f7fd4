"""The outputs of a Jupyter notebook as text: what its cells printed and the tracebacks they ended in."""

from __future__ import annotations

import json
from collections.abc import Iterator


def read_cell_outputs(content: bytes) -> str:
    """All outputs of a `.ipynb` file in the order of its cells; the content as text when it is no notebook."""
    text = content.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        return text
    return "\n".join(part for cell in cells if isinstance(cell, dict) for part in _parts(cell))


def _parts(cell: dict[str, object]) -> Iterator[str]:
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        if output.get("output_type") == "error":
            trace = output.get("traceback")
            lines = [str(line) for line in trace] if isinstance(trace, list) else []
            yield "\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}"
        else:
            text = output.get("text")
            yield "".join(map(str, text)) if isinstance(text, list) else str(text or "")
