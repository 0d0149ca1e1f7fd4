"""Definitions in all files of a review: classes, functions and calls by their names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from labbook.review.names import ASSIGNING, SCOPES, Function, assigned_names, dotted_target, last_name, member_key
from labbook.review.source_file import Source

Definition = TypeVar("Definition")
Origin = tuple[Source, ast.expr]
"""An expression and its file."""

MODULES = (
    *("torch.nn.Module", "paddle.nn.Layer", "torch.nn.Sequential", "paddle.nn.Sequential"),
    *("lightning.LightningModule", "lightning.pytorch.LightningModule", "pytorch_lightning.LightningModule"),
)
LAYERS = ("torch.nn.", "paddle.nn.")
"""Begins of the names of layers of the frameworks."""

LIBRARY_MODELS = (*LAYERS, "torchvision.models.", "paddle.vision.models.")
"""Begins of the names of layers and models of libraries."""

MAX_DEPTH = 8


class Definitions:
    """Index of the definitions, calls and assignments in files that belong together."""

    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.classes: dict[str, list[tuple[Source, ast.ClassDef]]] = defaultdict(list)
        self.functions: dict[str, list[tuple[Source, Function]]] = defaultdict(list)
        self.calls: dict[str, list[tuple[Source, ast.Call]]] = defaultdict(list)
        self.loaded: dict[str, int] = defaultdict(int)
        self.texts: set[str] = set()
        self.remembered: dict[object, Any] = {}
        self._assignments: dict[tuple[ast.AST, str], list[ast.AST]] = defaultdict(list)
        self.stored: dict[str | int, list[Origin]] = defaultdict(list)
        for source in sources:
            self._collect(source)

    def _collect(self, source: Source) -> None:
        for node in source.nodes:
            if isinstance(node, ASSIGNING):
                self._note(source, node)
            if isinstance(node, ast.ClassDef):
                self.classes[node.name].append((source, node))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[node.name].append((source, node))
            elif isinstance(node, ast.Call):
                self.calls[self._called_name(source, node.func)].append((source, node))
                for one in node.keywords if last_name(node.func) == "update" else ():
                    self.stored[one.arg or ""].append((source, one.value))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self.loaded[node.attr] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
                self.texts.add(node.value)

    @staticmethod
    def _called_name(source: Source, func: ast.expr) -> str:
        """Return the last part of the name under which a called function or class is defined."""
        is_alias = isinstance(func, ast.Name) and func.id in source.names
        return source.dotted(func).rpartition(".")[2] if is_alias else last_name(func)

    def _note(self, source: Source, node: ast.AST) -> None:
        """Record the scope (for attributes of `self`, also the class) in which names are assigned."""
        scope: ast.AST = next((outer for outer in source.parents_of(node) if isinstance(outer, SCOPES)), source.tree)
        for name in set(assigned_names(node)):
            self._assignments[scope, name].append(node)
            if name.startswith("self."):
                owner = source.class_of(node)
                if owner is not None and owner is not scope:
                    self._assignments[owner, name].append(node)
        if not isinstance(node, ast.Assign):
            return
        for target in node.targets:
            key = member_key(target)
            if key is not None and not dotted_target(target):
                self.stored[key].append((source, node.value))

    def calls_in(self, source: Source, *names: str) -> Iterator[ast.Call]:
        """Yield the calls in a file of functions, methods and classes with these names."""
        return (call for name in names for where, call in self.calls.get(name, ()) if where is source)

    def class_named(self, source: Source, func: ast.expr) -> tuple[Source, ast.ClassDef] | None:
        """Return the class of the program that an expression names, if it is unique."""
        return self.own_definition(source, func, self.classes)

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
                if other is not None and other not in found and len(found) < MAX_DEPTH:
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

    def own_definition(
        self, source: Source, func: ast.expr, table: Mapping[str, Sequence[tuple[Source, Definition]]]
    ) -> tuple[Source, Definition] | None:
        """Return the definition in a table that an expression names, if it is unique."""
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
