"""Index of all files of a review: classes, functions, calls, and the value of a name at a node.

Results are `None` or empty where the code cannot be resolved, so that rules rely on certain facts only.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

from labbook.frozen import dataclass
from labbook.review.source_file import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = TypeVar("Definition")
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_ASSIGNING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor, ast.NamedExpr, ast.withitem)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

MODULES = ("torch.nn.Module", "paddle.nn.Layer", "torch.nn.Sequential", "paddle.nn.Sequential")
WRAPPERS = (
    *("torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.DataParallel"),
    *("torch.compile", "torch.jit.script", "paddle.DataParallel", "paddle.jit.to_static", "copy.deepcopy"),
    *("torch.nn.SyncBatchNorm.convert_sync_batchnorm", "paddle.nn.SyncBatchNorm.convert_sync_batchnorm"),
)
_SAME_OBJECT = {
    "to",
    "cuda",
    "cpu",
    "double",
    "float",
    "half",
    "train",
    "eval",
    "apply",
    "requires_grad_",
    "npu",
    "xpu",
}
_MAX_DEPTH = 8


@dataclass(frozen=True)
class Kind:
    """Origin of an object: a call of `name` (an import) or of `class_node` (a class of the program)."""

    name: str
    source: Source
    call: ast.Call
    class_node: ast.ClassDef | None = None
    class_source: Source | None = None
    wrapped: tuple[str, ...] = field(default=())


class Code:
    """Index of files that belong together."""

    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.classes: dict[str, list[tuple[Source, ast.ClassDef]]] = defaultdict(list)
        self.functions: dict[str, list[tuple[Source, Function]]] = defaultdict(list)
        self.calls: dict[str, list[tuple[Source, ast.Call]]] = defaultdict(list)
        self.loaded: dict[str, int] = defaultdict(int)
        self.texts: set[str] = set()
        self.remembered: dict[object, Any] = {}
        self._assignments: dict[tuple[ast.AST, str], list[ast.AST]] = defaultdict(list)
        for source in sources:
            self._collect(source)

    def _collect(self, source: Source) -> None:
        for node in source.nodes:
            if isinstance(node, _ASSIGNING):
                self._note(source, node)
            if isinstance(node, ast.ClassDef):
                self.classes[node.name].append((source, node))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[node.name].append((source, node))
            elif isinstance(node, ast.Call):
                self.calls[last_name(node.func)].append((source, node))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self.loaded[node.attr] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
                self.texts.add(node.value)

    def _note(self, source: Source, node: ast.AST) -> None:
        """Record the scope (for attributes of `self`, also the class) in which names are assigned."""
        scope: ast.AST = next((outer for outer in source.parents_of(node) if isinstance(outer, SCOPES)), source.tree)
        for name in set(_assigned_names(node)):
            self._assignments[scope, name].append(node)
            if name.startswith("self."):
                owner = source.class_of(node)
                if owner is not None and owner is not scope:
                    self._assignments[owner, name].append(node)

    def class_named(self, source: Source, func: ast.expr) -> tuple[Source, ast.ClassDef] | None:
        """Return the class of the program that an expression names, if it is unique."""
        return self._own_definition(source, func, self.classes)

    def function_named(self, source: Source, func: ast.expr) -> tuple[Source, Function] | None:
        """Return the function or, for `self.name`, the method that a call runs, if it is unique."""
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in ("self", "cls"):
            owner = source.class_of(func)
            return self.method(source, owner, func.attr) if owner is not None else None
        found = self._own_definition(source, func, self.functions)
        return found if found and found[0].class_of(found[1]) is None else None

    def method(self, source: Source, owner: ast.ClassDef, name: str) -> tuple[Source, Function] | None:
        """Return a method of a class or of its base classes."""
        for where, cls in self.lineage(source, owner):
            for node in cls.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                    return where, node
        return None

    def lineage(self, source: Source, owner: ast.ClassDef) -> list[tuple[Source, ast.ClassDef]]:
        """Return a class and its base classes in the program, nearest first."""
        found = [(source, owner)]
        for where, cls in found:
            for base in cls.bases:
                other = self.class_named(where, base)
                if other is not None and other not in found and len(found) < _MAX_DEPTH:
                    found.append(other)
        return found

    def bases(self, source: Source, owner: ast.ClassDef) -> set[str]:
        """Dotted names of the base classes outside the program; "?" for an unresolved one."""
        outer: set[str] = set()
        for where, cls in self.lineage(source, owner):
            for base in cls.bases:
                if self.class_named(where, base) is None:
                    outer.add(where.dotted(base) or "?")
        return outer

    def is_module(self, source: Source, owner: ast.ClassDef) -> bool:
        """Whether all base classes of a class are modules of torch or layers of paddle."""
        outer = self.bases(source, owner) - {"abc.ABC", "object"}
        return bool(outer) and outer <= set(MODULES)

    def _own_definition(
        self, source: Source, func: ast.expr, table: Mapping[str, Sequence[tuple[Source, Definition]]]
    ) -> tuple[Source, Definition] | None:
        dotted = source.dotted(func)
        if isinstance(func, ast.Name) and not dotted:
            here = [one for one in table.get(func.id, ()) if one[0] is source]
            if here or not source.stars:
                return here[0] if len(here) == 1 else None
        elif not dotted:
            return None
        name = last_name(func) if not dotted else dotted.rsplit(".", 1)[-1]
        home = dotted.rsplit(".", 1)[0].rsplit(".", 1)[-1] if "." in dotted.lstrip(".") else ""
        found = [one for one in table.get(name, ()) if not dotted or one[0] is not source]
        if home:
            near = [one for one in found if home in (one[0].path.stem, one[0].path.parent.name)]
            found = near
        elif dotted and not dotted.startswith("."):
            return None
        return found[0] if len(found) == 1 else None

    # Values of names.

    def made(self, source: Source, node: ast.expr) -> ast.expr | None:
        """Return what the name `node` was last given, see `value`, or `node` itself where it is no name."""
        target = dotted_target(node)
        return self.value(source, target, node) if target else node

    def value(self, source: Source, target: str, at: ast.AST) -> ast.expr | None:
        """Return the expression last assigned to a name ("x", "self.net") before a node in the same function.

        `None` if branches or loops leave several, or if the name is a parameter or assigned elsewhere.
        """
        scope: ast.AST = next((outer for outer in source.parents_of(at) if isinstance(outer, SCOPES)), source.tree)
        if (scope, target) not in self._assignments:
            return None
        statement: ast.AST | None = source.statement(at)
        while isinstance(statement, ast.stmt):
            block, index = source.blocks.get(statement, ([], 0))
            found = _last_in(block[:index], target)
            if found is not None:
                return found if isinstance(found, ast.expr) else None
            outer = source.parents.get(statement)
            if isinstance(outer, ast.ExceptHandler):
                outer = source.parents.get(outer)
            if isinstance(outer, LOOPS) and (
                any(assigns(node, target) for node in walk(outer.body)) or assigns(outer, target)
            ):
                return None
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
                return None
            statement = outer
        return None

    def assigned_values(self, scope: ast.AST, target: str) -> list[ast.expr | None]:
        """All values assigned to a name in a function, class or module, without nested ones; `None`: unknown."""
        return [assigned_value(node, target) for node in self._assignments.get((scope, target), ())]

    def kind(self, source: Source, node: ast.expr, depth: int = 0) -> Kind | None:
        """Resolve the origin of an object through names, parameters, attributes and wrappers."""
        if depth > _MAX_DEPTH:
            return None
        if node not in self.remembered:
            # Ends the recursion of a name that refers to itself.
            self.remembered[node] = None
            self.remembered[node] = self._kind(source, node, depth)
        found: Kind | None = self.remembered[node]
        return found

    def _kind(self, source: Source, node: ast.expr, depth: int) -> Kind | None:
        if isinstance(node, ast.Call):
            return self._kind_of_call(source, node, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            kinds = [self.kind(where, value, depth + 1) for where, value in self.origins(source, node)]
            first = kinds[0] if kinds else None
            if first is not None and all(
                k is not None and k.name == first.name and k.class_node is first.class_node for k in kinds
            ):
                return first
        return None

    def _kind_of_call(self, source: Source, node: ast.Call, depth: int) -> Kind | None:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _SAME_OBJECT and not source.dotted(func):
            return self.kind(source, func.value, depth + 1)
        dotted = source.dotted(func)
        if dotted in WRAPPERS and node.args:
            inner = self.kind(source, node.args[0], depth + 1)
            if inner is None:
                return None
            return Kind(
                inner.name, inner.source, inner.call, inner.class_node, inner.class_source, (*inner.wrapped, dotted)
            )
        own = self.class_named(source, func)
        if own is not None:
            return Kind(own[1].name, source, node, own[1], own[0])
        factory = self.function_named(source, func)
        if factory is not None:
            kinds = [
                self.kind(factory[0], one.value, depth + 1) if one.value is not None else None
                for one in walk(factory[1].body)
                if isinstance(one, ast.Return)
            ]
            same = kinds and all(k is not None and kinds[0] is not None and k.name == kinds[0].name for k in kinds)
            return kinds[0] if same else None
        return Kind(dotted, source, node) if dotted else None

    def origins(self, source: Source, node: ast.expr) -> list[tuple[Source, ast.expr]]:
        """Return the possible values of a name or attribute; empty if one of them is unknown."""
        target = dotted_target(node)
        if not target:
            return []
        scope: ast.AST | None = source.function(node)
        if target.startswith("self."):
            owner = source.class_of(node)
            return self._attribute(source, owner, target) if owner is not None else []
        while scope is not None:
            last = self.value(source, target, node) if source.function(node) is scope else None
            found = [last] if last is not None else self.assigned_values(scope, target)
            if found:
                return [(source, one) for one in found if one is not None] if None not in found else []
            if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) and target in parameters(scope):
                return self.arguments(source, scope, target)
            scope = source.function(scope)
        found = [self.value(source, target, node)] if source.function(node) is None else []
        found = found if found and found[0] is not None else self.assigned_values(source.tree, target)
        return [(source, one) for one in found if one is not None] if found and None not in found else []

    def _attribute(self, source: Source, owner: ast.ClassDef, target: str) -> list[tuple[Source, ast.expr]]:
        found: list[tuple[Source, ast.expr]] = []
        for where, cls in self.lineage(source, owner):
            for value in self.assigned_values(cls, target):
                if value is None:
                    return []
                if not (isinstance(value, ast.Constant) and value.value is None):
                    found.append((where, value))
            if found:
                break
        return found

    def arguments(self, source: Source, function: Function, name: str) -> list[tuple[Source, ast.expr]]:
        """Return the arguments of all calls for a parameter; empty if one of them is unknown."""
        names = parameters(function)
        owner = source.class_of(function)
        called = function.name
        if owner is not None:
            called = owner.name if function.name == "__init__" else ""
            names = names[1:]
        found: list[tuple[Source, ast.expr]] = []
        for where, call in self.calls.get(called, ()):
            if owner is None and (isinstance(call.func, ast.Attribute) and not where.dotted(call.func)):
                continue
            by_name = {k.arg: k.value for k in call.keywords}
            if name in by_name:
                found.append((where, by_name[name]))
            elif name in names and names.index(name) < len(call.args):
                if any(isinstance(arg, ast.Starred) for arg in call.args):
                    return []
                found.append((where, call.args[names.index(name)]))
            elif None in by_name:
                return []
            else:
                return []
        return found

    def callers(self, source: Source, function: Function) -> list[tuple[Source, ast.Call]]:
        """Calls of a function or method, matched by its name."""
        return [one for one in self.calls.get(function.name, ()) if source.function(one[1]) is not function]


def parameters(function: Function) -> list[str]:
    """Names of the parameters, in order."""
    args = function.args
    return [one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def dotted_target(node: ast.AST) -> str:
    """Return the name of an expression ("x", "self.net"), or ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    return ""


def last_name(node: ast.AST) -> str:
    """Return the last part of a name: "step" of `self.optimizer.step`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def walk(body: Sequence[ast.AST], into: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes of statements in source order; nested functions and classes only with `into`."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if into or not isinstance(node, SCOPES):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor, ast.NamedExpr)):
        return [node.target]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [node.optional_vars]
    return []


def _assigned_names(node: ast.AST) -> list[str]:
    """Names that a node assigns."""
    found = []
    for outer in _targets(node):
        for one in [outer] if not isinstance(outer, (ast.Tuple, ast.List)) else walk([outer]):
            name = dotted_target(one)
            if name and not isinstance(getattr(one, "ctx", None), ast.Load):
                found.append(name)
    return found


def assigns(node: ast.AST, target: str) -> bool:
    """Whether a node assigns a name."""
    return isinstance(node, _ASSIGNING) and target in _assigned_names(node)


def assigned_value(node: ast.AST, target: str) -> ast.expr | None:
    """Return the expression assigned to a name; `None` if it is unpacked from a larger one."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        for one in _targets(node):
            if dotted_target(one) == target:
                return node.value
            if (
                isinstance(one, ast.Tuple)
                and isinstance(node.value, ast.Tuple)
                and len(one.elts) == len(node.value.elts)
            ):
                for left, right in zip(one.elts, node.value.elts, strict=True):
                    if dotted_target(left) == target:
                        return right
    return None


def _last_in(block: list[ast.stmt], target: str) -> ast.expr | bool | None:
    """Return the last value of a name in a block; `False` if it is uncertain, `None` if it is not assigned."""
    for statement in reversed(block):
        if isinstance(statement, SCOPES):
            continue
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            inner = _last_in(statement.body, target)
            if inner is not None:
                return inner
        if any(assigns(node, target) for node in walk([statement])):
            return assigned_value(statement, target) or False
    return None
