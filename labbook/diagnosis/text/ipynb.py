"""The outputs of a Jupyter notebook as text: what its cells printed and the tracebacks they ended in."""

from __future__ import annotations

import json

from labbook.model.run import is_launcher_error


def read_cell_outputs(content: bytes) -> str:
    """The outputs of a `.ipynb` file in the order of its cells; the content as text when it is no notebook.

    Of a notebook in which only commands failed, the outputs of their cells.
    """
    text = content.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        return text
    outputs = [[one for one in _outputs(cell) if isinstance(one, dict)] for cell in cells]
    errors = [[one.get("ename") for one in shown if one.get("output_type") == "error"] for shown in outputs]
    if any(errors) and all(is_launcher_error(str(name)) for names in errors for name in names):
        # A command failed, as in `%%bash`: what other cells printed is not about it.
        outputs = [shown for shown, names in zip(outputs, errors, strict=True) if names]
    return "\n".join(_text_of(one) for shown in outputs for one in shown)


def _outputs(cell: object) -> list[object]:
    outputs = cell.get("outputs") if isinstance(cell, dict) else None
    return outputs if isinstance(outputs, list) else []


def _text_of(output: dict[str, object]) -> str:
    if output.get("output_type") == "error":
        trace = output.get("traceback")
        lines = [str(line) for line in trace] if isinstance(trace, list) else []
        return "\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}"
    text = output.get("text")
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")
