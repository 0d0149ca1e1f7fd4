"""One file of code: its text, its syntax tree, what its names stand for, and which lines are silenced."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

LARGEST_BYTES = 2 << 20
"""Larger files are data. Source: chosen by us."""

_SILENCED = re.compile(r"#\s*labbook:\s*ok\b[\s:]*([\w\s,-]*)")
_MAGIC = re.compile(r"^(\s*)(?:[%!?]|[\w.\[\]]+\?{1,2}\s*$)")


class Unreadable(Exception):  # noqa: N818 - it is an answer, not an error
    """A file, or a cell of a notebook, that cannot be read as Python; says where."""


class Source:
    """A file that was parsed.

    Args:
        path: Where it is.
        shown: How it is named.
        text: Python text; for a notebook that of all its cells.
        cells: For a notebook (line of the text, cell from 1, line of the cell) in order, else empty.
        problems: What could not be read of it.
    """

    def __init__(
        self,
        path: Path,
        shown: str,
        text: str,
        cells: list[tuple[int, int]] | None = None,
        problems: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.shown = shown
        self.lines = text.splitlines()
        self.cells = cells or []
        self.problems = problems
        self.tree = _parsed(text, shown)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.blocks: dict[ast.stmt, tuple[list[ast.stmt], int]] = {}
        self.nodes: list[ast.AST] = []
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
        """What a name stands for by the imports ("torch.nn.functional.relu"); "" for a name of the program's own."""
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

    def silenced(self, node: ast.AST, rule: str) -> bool:
        """Whether the line of a node, or the last line of a call that it is, says that a rule does not matter there."""
        number = getattr(node, "lineno", 1)
        for at in {number, getattr(node, "end_lineno", number) if isinstance(node, ast.expr) else number}:
            text = self.lines[at - 1] if at <= len(self.lines) else ""
            said = _SILENCED.search(text)
            if said is not None:
                names = set(re.split(r"[\s,]+", said.group(1).strip())) - {""}
                if not names or rule in names:
                    return True
        return False

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function that a node stands in, or `None`."""
        for outer in self.above(node):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return outer
        return None

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class that a node stands in, or `None`."""
        return next((outer for outer in self.above(node) if isinstance(outer, ast.ClassDef)), None)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement that a node is part of."""
        while not isinstance(node, ast.stmt):
            if node not in self.parents:
                return None
            node = self.parents[node]
        return node


def read_source(path: Path, shown: str) -> Source:
    """The source of a Python file or notebook.

    Raises:
        Unreadable: It cannot be read, or is no Python; with the line.
    """
    try:
        if path.stat().st_size > LARGEST_BYTES and path.suffix != ".ipynb":
            raise Unreadable(f"{shown}: larger than {LARGEST_BYTES >> 20} MiB, so it is taken for data")
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{shown}: cannot be read: {error.strerror or error}") from error
    text = raw.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\f", "\n")
    return _notebook(path, shown, text) if path.suffix == ".ipynb" else Source(path, shown, text)


def _notebook(path: Path, shown: str, text: str) -> Source:
    try:
        cells = json.loads(text)["cells"]
        codes = [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(cells, 1)
            if cell.get("cell_type") == "code" and isinstance(cell.get("source"), (list, str))
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{shown}: is no notebook ({type(error).__name__})") from error
    lines: list[str] = []
    starts: list[tuple[int, int]] = []
    problems: list[str] = []
    for number, code in codes:
        plain = _without_magics(code)
        try:
            _parsed(plain, f"{shown}[{number}]")
        except Unreadable as error:
            problems.append(str(error))
            continue
        starts.append((len(lines) + 1, number))
        lines += plain.splitlines() or [""]
    return Source(path, shown, "\n".join(lines) + "\n", starts, tuple(problems))


def _without_magics(code: str) -> str:
    if code.lstrip().startswith("%%") and not re.match(r"\s*%%(time|timeit|capture|prun)", code):
        return ""
    return "\n".join(_MAGIC.sub(r"\1pass  # ", line) if _MAGIC.match(line) else line for line in code.splitlines())


def _parsed(text: str, shown: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # Odd escapes in the strings of other people's code are no matter of ours.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise Unreadable(f"{shown}:{error.lineno or 1}: is no Python 3 ({error.msg})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{shown}: cannot be parsed ({type(error).__name__})") from error
