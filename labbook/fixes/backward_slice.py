"""Finds the lines, options and keys whose values reach the line at which a run failed.

A backward slice by names: from the statements of the traceback to the assignments of the names in them, the arguments
of calls, what called functions return, and the conditions around each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush

from labbook.frozen import dataclass
from labbook.review.names import LOOPS, Function, last_name

_MOST_DEPTH = 8
_MOST_STATEMENTS = 6000
"""Limits of a slice. Source: chosen by us; 6,000 statements are parsed and followed in some 50 ms."""

_CALLED_ALONE = ("forward", "__call__", "__getitem__", "__iter__", "__next__", "__len__", "training_step")
"""Methods that run where an object is used without naming them."""


@dataclass(frozen=True)
class Slice:
    """What reaches a failing line.

    Args:
        lines: File and line without indentation -> steps to the failing line.
        names: Attribute, or text in quotes, such as the name of an option, a variable or a key -> steps.
    """

    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    names: Mapping[str, int] = field(default_factory=dict)

    def find_line(self, file: str, line: str) -> int | None:
        """Returns the steps from a line to the failing one, `None` if it does not reach it."""
        return self.lines.get((file, line.strip()))


@dataclass(frozen=True)
class _Statement:
    """A simple statement, or the head of a compound one.

    Args:
        sets: Names that it assigns, attributes with a dot in front.
        uses: Names and attributes that it reads.
        texts: Its strings.
        around: Heads of the compound statements around it.
    """

    file: str
    first: int
    last: int
    scope: str
    sets: frozenset[str]
    uses: frozenset[str]
    texts: frozenset[str]
    calls: tuple[ast.Call, ...]
    around: tuple[int, ...]
    is_loop: bool


def slice_backward(code: Mapping[str, str], failing: Sequence[tuple[str, int]], is_of_data: bool = False) -> Slice:
    """Returns what reaches the failing lines of some files.

    Args:
        code: File -> its text. One that is no valid Python is left out.
        failing: File and number of the failing line, then those of its callers.
        is_of_data: Whether classes with a method `forward`, the models, are left out.
    """
    program = _Program(code)
    found: dict[int, int] = {}
    waiting = [(depth, n) for depth, (file, line) in enumerate(failing) for n in program.find_statements(file, line)]
    heapify(waiting)
    while waiting:
        depth, number = heappop(waiting)
        if number in found or depth > _MOST_DEPTH or (is_of_data and program.is_of_model(number)):
            continue
        found[number] = depth
        for source, steps in program.find_sources(number):
            heappush(waiting, (depth + steps, source))
    return program.describe(found)


def is_in_loop(text: str, line: int) -> bool:
    """Whether a line is in a loop of its function, or in a text that is no valid Python."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return True
    loops = [node for node in nodes if isinstance(node, LOOPS)]
    inner = max(
        (n.lineno for n in nodes if isinstance(n, Function) and n.lineno <= line <= (n.end_lineno or line)), default=0
    )
    return any(max(inner, loop.lineno) == loop.lineno <= line <= (loop.end_lineno or line) for loop in loops)


class _Program:
    """The statements of some files, and where each name is assigned."""

    def __init__(self, code: Mapping[str, str]) -> None:
        self._lines = {file: text.splitlines() for file, text in code.items()}
        self.statements: list[_Statement] = []
        self._set: dict[str, list[int]] = {}
        self._parameters: dict[str, list[str]] = {}
        self._returns: dict[str, list[int]] = {}
        self._calls: dict[str, list[int]] = {}
        for file, text in code.items():
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError):
                continue
            self._read(file, tree.body, "", ())
        for number, statement in enumerate(self.statements):
            for name in statement.sets:
                self._set.setdefault(name, []).append(number)
            for call in statement.calls:
                self._calls.setdefault(last_name(call.func), []).append(number)

    def find_statements(self, file: str, line: int) -> list[int]:
        """Returns the innermost statement of a line."""
        spans = [
            (one.last - one.first, number)
            for number, one in enumerate(self.statements)
            if one.file == file and one.first <= line <= one.last
        ]
        return [number for _, number in sorted(spans)[:1]]

    def is_of_model(self, number: int) -> bool:
        """Whether a statement is in a class with a method `forward`."""
        return f"{self.statements[number].scope.rpartition('.')[0]}.forward" in self._parameters

    def find_sources(self, number: int) -> Iterator[tuple[int, int]]:
        """Returns the statements whose values or conditions a statement uses, each with its steps: of a loop two."""
        statement = self.statements[number]
        yield from ((n, 1 + self.statements[n].is_loop) for n in statement.around)
        for name in statement.uses:
            yield from ((n, 1) for n in self._find_sources_of(name, statement))
        for call in statement.calls:
            yield from ((n, 1) for n in self._returns.get(last_name(call.func), ()))

    def _find_sources_of(self, name: str, statement: _Statement) -> Iterable[int]:
        known = self._set.get(name, [])
        if name[0] == ".":
            return known
        here = [n for n in known if self.statements[n].file == statement.file]
        own = [n for n in here if self.statements[n].scope == statement.scope]
        function = statement.scope.rpartition(".")[2]
        if statement.scope and name in self._parameters.get(statement.scope, ()):
            cls = statement.scope.rpartition(".")[0].rpartition(".")[2]
            return own + self._calls.get(cls if function == "__init__" else function, [])
        outside = [n for n in known if not self.statements[n].scope]
        return own or [n for n in outside if n in here] or outside

    def _read(self, file: str, body: Sequence[ast.stmt], scope: str, around: tuple[int, ...]) -> None:
        for node in body:
            if len(self.statements) >= _MOST_STATEMENTS:
                return
            if isinstance(node, Function):
                inner = f"{scope}.{node.name}" if scope else node.name
                arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                self._parameters[inner] = [one.arg for one in arguments]
                start = len(self.statements)
                self._add(file, node, scope, (), [node.args, *node.decorator_list], {node.name})
                self._read(file, node.body, inner, ())
                self._note_returns(node.name, inner, start)
            elif isinstance(node, ast.ClassDef):
                self._read(file, node.body, f"{scope}.{node.name}" if scope else node.name, ())
                for name in _CALLED_ALONE:
                    own = [n for n in self._returns.get(name, ()) if self.statements[n].scope == f"{node.name}.{name}"]
                    self._returns.setdefault(node.name, []).extend(own)
            else:
                inside = [getattr(node, part, None) or [] for part in ("body", "orelse", "finalbody", "handlers")]
                blocks = [part for part in inside if part and isinstance(part, list)]
                head = [one for one in ast.iter_child_nodes(node) if not any(one in part for part in blocks)]
                number = self._add(file, node, scope, around, head)
                for part in blocks:
                    handled = [inner for one in part if isinstance(one, ast.ExceptHandler) for inner in one.body]
                    self._read(file, handled or part, scope, (*around, number))

    def _note_returns(self, name: str, scope: str, start: int) -> None:
        inside = [n for n in range(start, len(self.statements)) if self.statements[n].scope == scope]
        self._returns.setdefault(name, []).extend(n for n in inside if ".return" in self.statements[n].sets)

    def _add(
        self,
        file: str,
        node: ast.stmt,
        scope: str,
        around: tuple[int, ...],
        head: Sequence[ast.AST],
        also: Iterable[str] = (),
    ) -> int:
        inner = [one for part in head for one in ast.walk(part)]
        sets, uses = set(also), set()
        is_class_body = scope.rpartition(".")[2][:1].isupper()
        for one in inner:
            if not isinstance(one, ast.Name | ast.Attribute):
                continue
            name = one.id if isinstance(one, ast.Name) else f".{one.attr}"
            if isinstance(one.ctx, ast.Load):
                uses.add(name)
            else:
                sets |= {name, f".{name}"} if is_class_body and name[0] != "." else {name}
        calls = tuple(one for one in inner if isinstance(one, ast.Call))
        texts = frozenset(one.value for one in inner if isinstance(one, ast.Constant) and isinstance(one.value, str))
        if isinstance(node, ast.AugAssign):
            uses |= sets
        if isinstance(node, ast.Assign):
            parts = [one.value for one in node.targets if isinstance(one, ast.Subscript)]
            sets |= {one.id for one in parts if isinstance(one, ast.Name)}
        if isinstance(node, ast.Return) or any(isinstance(one, ast.Yield | ast.YieldFrom) for one in inner):
            sets.add(".return")
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            sets |= _find_changed(node.value)
        first, is_loop = node.lineno, isinstance(node, LOOPS)
        ends = [getattr(one, "end_lineno", None) or first for one in inner]
        is_simple = len(head) == len(list(ast.iter_child_nodes(node)))
        last = (node.end_lineno or first) if is_simple else max([first, *ends])
        self.statements.append(
            _Statement(file, first, last, scope, frozenset(sets), frozenset(uses), texts, calls, around, is_loop)
        )
        return len(self.statements) - 1

    def describe(self, found: Mapping[int, int]) -> Slice:
        """Returns the lines and names of the statements that were found."""
        lines: dict[tuple[str, str], int] = {}
        names: dict[str, int] = {}
        for number, depth in sorted(found.items(), key=lambda pair: pair[1]):
            statement = self.statements[number]
            for name in (*statement.texts, *(use.lstrip(".") for use in statement.uses)):
                names.setdefault(name, depth)
            for line in self._lines[statement.file][statement.first - 1 : statement.last]:
                lines.setdefault((statement.file, line.strip()), depth)
        return Slice(lines, names)


def _find_changed(call: ast.Call) -> set[str]:
    """Returns what a call that stands alone changes: its object, or the option that a parser gets."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.startswith("-"):
        return {"." + first.value.lstrip("-").replace("-", "_")}
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    while isinstance(owner, ast.Attribute | ast.Subscript):
        if isinstance(owner, ast.Attribute):
            return {f".{owner.attr}"}
        owner = owner.value
    return {owner.id} if isinstance(owner, ast.Name) else set()
