"""A parsed source file: text, syntax tree, imported names, silenced lines."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from labbook.errors import LabbookError

Node = TypeVar("Node", bound=ast.AST)

LARGEST_BYTES = 2 << 20
"""Larger files are data. Source: chosen by us."""

_SILENCED = re.compile(r"#\s*labbook:\s*ok\b[\s:]*([\w\s,-]*)")
_MAGIC = re.compile(r"^(\s*)(?:[%!?]|[\w.\[\]]+\?{1,2}\s*$)")


class Unreadable(LabbookError):  # noqa: N818 - an expected result, not a failure
    """A file or notebook cell that cannot be parsed as Python; the message contains the location."""


class Source:
    """A parsed file.

    Args:
        label: Name of the file in messages.
        text: Python code; for a notebook, the code of all cells.
        cells: For a notebook, (first line in the text, number of the cell from 1) in order, else empty.
        problems: Cells that could not be read.
    """

    def __init__(
        self,
        path: Path,
        label: str,
        text: str,
        cells: list[tuple[int, int]] | None = None,
        problems: tuple[Unreadable, ...] = (),
    ) -> None:
        self.path = path
        self.label = label
        self.lines = text.splitlines()
        self.cells = cells or []
        self.problems = problems
        self.tree = _parse(text, label)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.blocks: dict[ast.stmt, tuple[list[ast.stmt], int]] = {}
        self.nodes: list[ast.AST] = []
        self._by_type: dict[type[ast.AST], list[Any]] = {}
        self._index()
        self.names: dict[str, str] = {}
        self.stars: list[str] = []
        for node in self.nodes:
            self._import(node)

    def _index(self) -> None:
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            self.nodes.append(node)
            children = list(ast.iter_child_nodes(node))
            for child in children:
                self.parents[child] = node
            waiting += reversed(children)
            for _, value in ast.iter_fields(node):
                if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                    self.blocks.update({statement: (value, number) for number, statement in enumerate(value)})

    def of_type(self, kind: type[Node]) -> list[Node]:
        """Return the nodes of one kind of syntax, in source order."""
        if kind not in self._by_type:
            self._by_type[kind] = [node for node in self.nodes if isinstance(node, kind)]
        return self._by_type[kind]

    def _import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    self.names[alias.asname] = alias.name
                else:
                    self.names[alias.name.split(".")[0]] = alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(module)
                else:
                    joined = f"{module}{alias.name}" if module.endswith(".") else f"{module}.{alias.name}"
                    self.names[alias.asname or alias.name] = joined

    def dotted(self, node: ast.AST | None) -> str:
        """Resolve a name by the imports ("torch.nn.functional.relu"); "" for a name defined in the program."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return ""
        name = ".".join([self.names[node.id], *reversed(parts)])
        return name.replace("torch.nn.modules.", "torch.nn.") if name.count(".") == 3 else name

    def line(self, node: ast.AST) -> tuple[int, int, str]:
        """Line and cell of a node (the cell is 0 outside notebooks), and the text of its line."""
        number = getattr(node, "lineno", 1)
        text = self.lines[number - 1].strip() if number <= len(self.lines) else ""
        cell, first = 0, 0
        for start, which in self.cells:
            if start <= number:
                cell, first = which, start - 1
        return number - first, cell, text

    def is_silenced(self, node: ast.AST, rule: str) -> bool:
        """Whether a `# labbook: ok` comment on the first or last line of a node silences a rule."""
        number = getattr(node, "lineno", 1)
        for at in {number, getattr(node, "end_lineno", number) if isinstance(node, ast.expr) else number}:
            text = self.lines[at - 1] if at <= len(self.lines) else ""
            match = _SILENCED.search(text)
            if match is not None:
                names = set(re.split(r"[\s,]+", match.group(1).strip())) - {""}
                if not names or rule in names:
                    return True
        return False

    def parents_of(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the parents of a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def leaves_loop(self, node: ast.stmt) -> bool:
        """Whether the loop around a statement always ends after it."""
        block, index = self.blocks.get(node, ([], 0))
        return any(isinstance(one, (ast.Break, ast.Return)) for one in block[index:])

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the function that contains a node, or `None`."""
        for outer in self.parents_of(node):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return outer
        return None

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class that contains a node, or `None`."""
        return next((outer for outer in self.parents_of(node) if isinstance(outer, ast.ClassDef)), None)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """Return the statement that contains a node."""
        while not isinstance(node, ast.stmt):
            if node not in self.parents:
                return None
            node = self.parents[node]
        return node


def read_source(path: Path, label: str) -> Source:
    """Parse a Python file or notebook.

    Raises:
        Unreadable: The file cannot be read or parsed.
    """
    try:
        if path.stat().st_size > LARGEST_BYTES and path.suffix != ".ipynb":
            raise Unreadable("errors.review.large", path=label, size=LARGEST_BYTES >> 20)
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable("errors.review.not_readable", path=label, reason=error) from error
    text = raw.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\f", "\n")
    return _notebook(path, label, text) if path.suffix == ".ipynb" else Source(path, label, text)


def _notebook(path: Path, label: str, text: str) -> Source:
    try:
        cells = json.loads(text)["cells"]
        codes = [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(cells, 1)
            if cell.get("cell_type") == "code" and isinstance(cell.get("source"), (list, str))
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable("errors.review.no_notebook", path=label, kind=type(error).__name__) from error
    lines: list[str] = []
    starts: list[tuple[int, int]] = []
    problems: list[Unreadable] = []
    for number, code in codes:
        python = _without_magics(code)
        try:
            _parse(python, f"{label}[{number}]")
        except Unreadable as error:
            problems.append(error)
            continue
        starts.append((len(lines) + 1, number))
        lines += python.splitlines() or [""]
    return Source(path, label, "\n".join(lines) + "\n", starts, tuple(problems))


def _without_magics(code: str) -> str:
    if code.lstrip().startswith("%%") and not re.match(r"\s*%%(time|timeit|capture|prun)", code):
        return ""
    return "\n".join(_MAGIC.sub(r"\1pass  # ", line) if _MAGIC.match(line) else line for line in code.splitlines())


def _parse(text: str, label: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # Invalid escape sequences in reviewed code are not reported.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise Unreadable("errors.review.no_python", path=label, line=error.lineno or 1, reason=error.msg) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable("errors.review.not_parsed", path=label, kind=type(error).__name__) from error
