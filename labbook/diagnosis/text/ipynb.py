"""The cells of a Jupyter notebook, and their outputs as text: what they printed and the tracebacks they ended in."""

from __future__ import annotations

import json
from dataclasses import replace

from labbook.frozen import dataclass
from labbook.model.run import is_launcher_error


@dataclass(frozen=True)
class Cell:
    """A code cell of a notebook.

    Args:
        number: Place among all cells, from 1.
        turn: Its place in the order in which the cells ran; `None` if it did not run.
        failed: Whether it ended with an error.
    """

    number: int
    source: str
    turn: int | None
    failed: bool = False


def read_cell_outputs(content: bytes) -> str:
    """The outputs of a `.ipynb` file in the order of its cells; the content as text when it is no notebook.

    Of a notebook in which only commands failed, the outputs of their cells.
    """
    cells = _parse_cells(content)
    if cells is None:
        return content.decode("utf-8", "replace")
    outputs = [[one for one in _outputs(cell) if isinstance(one, dict)] for cell in cells]
    errors = [[one.get("ename") for one in shown if one.get("output_type") == "error"] for shown in outputs]
    if any(errors) and all(is_launcher_error(str(name)) for names in errors for name in names):
        # A command failed, as in `%%bash`: what other cells printed is not about it.
        outputs = [shown for shown, names in zip(outputs, errors, strict=True) if names]
    return "\n".join(_text_of(one) for shown in outputs for one in shown)


def read_cells(content: bytes) -> list[Cell]:
    """The code cells of a `.ipynb` file, with the order in which they ran; empty when it is no notebook."""
    found = []
    for number, cell in enumerate(_parse_cells(content) or [], 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            failed = any(isinstance(one, dict) and one.get("output_type") == "error" for one in _outputs(cell))
            turn = cell.get("execution_count")
            found.append(Cell(number, _join(cell.get("source")), turn if isinstance(turn, int) else None, failed))
    return found


def read_cells_until(content: bytes, count: int, line: str) -> list[Cell]:
    """The code cells of a `.ipynb` file that a tool executed from the top until one failed.

    Args:
        count: Which cell with code failed, from 1, as in `In[2]`.
        line: What failed; where that cell does not have it, the file has changed and the list is empty.
    """
    cells = read_cells(content)
    with_code = [cell for cell in cells if cell.source.strip()]
    if len(with_code) < count or line not in with_code[count - 1].source:
        return []
    failed = with_code[count - 1].number
    turns = {cell.number: cell.number if cell.number <= failed else None for cell in cells}
    return [replace(cell, turn=turns[cell.number], failed=cell.number == failed) for cell in cells]


def _parse_cells(content: bytes) -> list[object] | None:
    """The cells of a notebook as in its file; `None` when it is no notebook."""
    try:
        document = json.loads(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    cells = document.get("cells") if isinstance(document, dict) else None
    return cells if isinstance(cells, list) else None


def _outputs(cell: object) -> list[object]:
    outputs = cell.get("outputs") if isinstance(cell, dict) else None
    return outputs if isinstance(outputs, list) else []


def _text_of(output: dict[str, object]) -> str:
    if output.get("output_type") == "error":
        trace = output.get("traceback")
        lines = [str(line) for line in trace] if isinstance(trace, list) else []
        return "\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}"
    return _join(output.get("text"))


def _join(text: object) -> str:
    """A text of a notebook file, which may be a list of lines."""
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")
