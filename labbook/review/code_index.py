"""Index of all files of a review: classes, functions, calls, and the value of a name at a node.

Results are `None` or empty where the code cannot be resolved, so that rules rely on certain facts only.
"""

from __future__ import annotations

import ast
from dataclasses import field, replace

from labbook.frozen import dataclass
from labbook.review.definitions import MAX_DEPTH, Definitions, Origin
from labbook.review.names import (
    LOOPS,
    SCOPES,
    Function,
    assigned_value,
    assigns,
    defaults,
    dotted_target,
    last_name,
    last_value_in,
    member_key,
    parameters,
    returned_values,
    walk,
)
from labbook.review.source_file import Source

WRAPPERS = (
    *("torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.DataParallel"),
    *("torch.compile", "torch.jit.script", "paddle.DataParallel", "paddle.jit.to_static", "copy.deepcopy"),
    *("torch.nn.SyncBatchNorm.convert_sync_batchnorm", "paddle.nn.SyncBatchNorm.convert_sync_batchnorm"),
)
_SAME_OBJECT = {
    "to", "cuda", "cpu", "double", "float", "half", "train", "eval", "apply", "requires_grad_", "npu", "xpu",
}  # fmt: skip
_NAMESPACES = ("dict", "types.SimpleNamespace", "argparse.Namespace")
_MODULE_CONTAINERS = ("nn.ModuleDict", "nn.ModuleList", "nn.LayerDict", "nn.LayerList")
_PREPARED = {"Accelerator": ("prepare",), "Fabric": ("setup", "setup_dataloaders")}
"""Classes with methods that return their arguments in the same order."""


@dataclass(frozen=True)
class Kind:
    """Origin of an object: a call of `name` (an import) or of `definition` (a class of the program and its file)."""

    name: str
    source: Source
    call: ast.Call
    definition: tuple[Source, ast.ClassDef] | None = None
    wrapped: tuple[str, ...] = field(default=())


class Code(Definitions):
    """Index of files that belong together, with the values of names."""

    def function_named(self, source: Source, func: ast.expr) -> tuple[Source, Function] | None:
        """Return the function or, for `self.name` and `trainer.name`, the method that a call runs, if it is unique."""
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in ("self", "cls"):
            owner = source.class_of(func)
            found = self.method(source, owner, func.attr) if owner is not None else None
        else:
            found = self.own_definition(source, func, self.functions)
            if found is not None and found[0].class_of(found[1]) is not None:
                return None
        return found if found or source.dotted(func) else self._method_of_object(source, func)

    def _method_of_object(self, source: Source, func: ast.expr) -> tuple[Source, Function] | None:
        """Return the method that is called of an object of a class of the program: `trainer.fit()`, `update(loss)`."""
        pairs = [(func.value, func.attr)] if isinstance(func, ast.Attribute) else []
        for node, name in (*pairs, (func, "__call__")):
            kind = self.kind(source, node)
            if kind is not None and kind.definition is not None:
                return self.method(*kind.definition, name)
        return None

    def made(self, source: Source, node: ast.expr | None) -> ast.expr | None:
        """Return what the name `node` was last given, see `value`, or `node` itself where it is no name."""
        target = dotted_target(node) if node is not None else ""
        return self.value(source, target, node) if node is not None and target else node

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
            found = last_value_in(block[:index], target)
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
        return [assigned_value(node, target) for node in self.assignments(scope, target)]

    def assignments(self, scope: ast.AST, target: str) -> list[ast.AST]:
        """Return what assigns to a name in a function, class or module, without nested ones."""
        return self._assignments.get((scope, target), [])

    def kind(self, source: Source, node: ast.expr | None, depth: int = 0) -> Kind | None:
        """Resolve the origin of an object through names, parameters, attributes and wrappers."""
        if node is None or depth > MAX_DEPTH:
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
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            kinds = [self.kind(where, value, depth + 1) for where, value in self.origins(source, node)]
            first = kinds[0] if kinds else None
            if first is not None and all(
                k is not None and k.name == first.name and k.definition == first.definition for k in kinds
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
            return replace(inner, wrapped=(*inner.wrapped, dotted)) if inner is not None else None
        own = self.class_named(source, func)
        if own is not None:
            return Kind(own[1].name, source, node, own)
        factory = self.function_named(source, func)
        if factory is not None:
            kinds = [
                self.kind(factory[0], value, depth + 1) if value is not None else None
                for value in returned_values(factory[1])
            ]
            same = kinds and all(k is not None and kinds[0] is not None and k.name == kinds[0].name for k in kinds)
            return kinds[0] if same else None
        return Kind(dotted, source, node) if dotted else self._kind_of_reference(source, node)

    def _kind_of_reference(self, source: Source, call: ast.Call) -> Kind | None:
        """Resolve a call of the class that a name, an item of a table or `functools.partial` refers to."""
        made = self.makers(source, call.func) if not isinstance(call.func, ast.Call) else []
        if len(made) != 1:
            return None
        where, referred = made[0]
        if isinstance(referred, ast.Call) and where.dotted(referred.func) == "functools.partial" and referred.args:
            referred = referred.args[0]
        own = self.class_named(where, referred)
        if own is not None:
            return Kind(own[1].name, source, call, own)
        return Kind(where.dotted(referred), source, call) if where.dotted(referred) else None

    def is_model(self, kind: Kind | None, *names: str) -> bool:
        """Whether an object is a model of the program, or of a library under a name that begins with one of `names`."""
        if kind is None or kind.definition is None:
            return kind is not None and kind.name.startswith(names)
        return self.is_module(*kind.definition)

    def makers(self, source: Source, node: ast.expr, depth: int = 0) -> list[Origin]:
        """Return the calls, literals and imports that made a value, through all names; empty if one is unknown."""
        is_name = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
        if not is_name or source.dotted(node) or self.class_named(source, node) is not None:
            return [(source, node)]
        found: list[Origin] = []
        for where, value in self.origins(source, node) if depth < MAX_DEPTH else ():
            made = self.makers(where, value, depth + 1)
            if not made:
                return []
            found += made
        return found

    def origins(self, source: Source, node: ast.expr) -> list[Origin]:
        """Return the possible values of a name, an attribute or an item; empty if one of them is unknown."""
        target = dotted_target(node)
        if not target:
            return self._members(source, node)
        if target.startswith("self."):
            owner = source.class_of(node)
            return self._attribute(source, owner, target) if owner is not None else []
        last = self.value(source, target, node)
        scope: ast.AST = source.function(node) or source.tree
        if last is not None:
            return [(source, last)]
        while True:
            is_parameter = isinstance(scope, Function) and target in parameters(scope)
            found = self._assigned_origins(source, scope, target)
            if isinstance(scope, Function) and is_parameter:
                arguments = self.arguments(source, scope, target)
                is_unchanged = scope is source.function(node) and self._is_unchanged(source, scope, target, node)
                return arguments if not found or is_unchanged else [*found, *arguments] if arguments else []
            if found is None or found or scope is source.tree:
                return found or []
            scope = source.function(scope) or source.tree

    def _is_unchanged(self, source: Source, scope: ast.AST, target: str, node: ast.AST) -> bool:
        """Whether nothing is assigned to a parameter of a function before a node."""
        statement = source.statement(node)
        in_loop = any(isinstance(one, LOOPS) and source.function(one) is scope for one in source.parents_of(node))
        line = statement.lineno if statement is not None else 0
        return not in_loop and all(getattr(one, "lineno", 0) >= line for one in self._assignments[scope, target])

    def _assigned_origins(self, source: Source, scope: ast.AST, target: str) -> list[Origin] | None:
        """Return all values assigned to a name in a function, class or module; `None` if one of them is unknown."""
        found: list[Origin] = []
        for node in self.assignments(scope, target):
            value = assigned_value(node, target)
            values = [(source, value)] if value is not None else self.unpacked_origins(source, node, target)
            if not values:
                return None
            found += values
        return found

    def unpacked_origins(self, source: Source, node: ast.AST, target: str) -> list[Origin]:
        """Return what a name is given of the values that a call returns together; empty if it is unknown."""
        names = node.targets[0].elts if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) else []
        place = next((number for number, one in enumerate(names) if dotted_target(one) == target), None)
        call = getattr(node, "value", None)
        if place is None or not isinstance(call, ast.Call) or any(isinstance(one, ast.Starred) for one in names):
            return []
        kind = self.kind(source, call.func.value) if isinstance(call.func, ast.Attribute) else None
        prepares = _PREPARED.get(kind.name.rpartition(".")[2], ()) if kind is not None else ()
        if last_name(call.func) in prepares and len(call.args) == len(names):
            return [(source, call.args[place])]
        followed = self.function_named(source, call.func)
        returned = returned_values(followed[1]) if followed else []
        tuples = [one.elts for one in returned if isinstance(one, ast.Tuple) and len(one.elts) == len(names)]
        return [(followed[0], one[place]) for one in tuples] if followed and len(tuples) == len(returned) else []

    def _attribute(self, source: Source, owner: ast.ClassDef, target: str) -> list[Origin]:
        for where, cls in self.lineage(source, owner):
            found = self._assigned_origins(where, cls, target)
            if found is None:
                return []
            found = [one for one in found if not _is_none(one[1])]
            if found:
                return found
        return []

    def _members(self, source: Source, node: ast.expr) -> list[Origin]:
        """Return the values of an item or attribute of a dictionary, a namespace or an object of the program."""
        key = member_key(node)
        if key is None:
            return []
        if ("members", node) not in self.remembered:
            self.remembered["members", node] = []
            assert isinstance(node, (ast.Attribute, ast.Subscript))
            parts = [self._member_of(where, holder, key) for where, holder in self.makers(source, node.value)]
            known = [one for part in parts if part is not None for one in part]
            is_known = bool(parts) and None not in parts
            self.remembered["members", node] = [*known, *self.stored.get(key, ())] if is_known else []
        found: list[Origin] = self.remembered["members", node]
        return found

    def _member_of(self, source: Source, holder: ast.expr, key: str | int) -> list[Origin] | None:
        """Return the values of one member of what an expression makes; `None` if its members are unknown."""
        if isinstance(holder, ast.Dict):
            pairs = zip(holder.keys, holder.values, strict=True)
            found = [(source, value) for one, value in pairs if isinstance(one, ast.Constant) and one.value == key]
            return found if None not in holder.keys else None
        if isinstance(holder, (ast.List, ast.Tuple)):
            is_place = isinstance(key, int) and -len(holder.elts) <= key < len(holder.elts)
            return [(source, holder.elts[key])] if is_place else None  # type: ignore[index]
        if not isinstance(holder, ast.Call):
            return None
        name = source.dotted(holder.func) or last_name(holder.func)
        if name in _NAMESPACES:
            is_known = not holder.args and all(one.arg is not None for one in holder.keywords)
            return [(source, one.value) for one in holder.keywords if one.arg == key] if is_known else None
        if name.endswith(_MODULE_CONTAINERS) and holder.args:
            return self._member_of(source, holder.args[0], key)
        kind = self.kind(source, holder)
        if kind is not None and kind.definition is not None:
            return self._attribute(*kind.definition, f"self.{key}") or self._field(kind, *kind.definition, str(key))
        followed = self.function_named(source, holder.func)
        returned = returned_values(followed[1]) if followed else []
        if followed is None or len(returned) != 1 or returned[0] is None:
            return None
        made = self.makers(followed[0], returned[0])
        return self._member_of(*made[0], key) if len(made) == 1 and made[0][1] is not holder else None

    def _field(self, kind: Kind, source: Source, cls: ast.ClassDef, name: str) -> list[Origin] | None:
        """Return the argument for a field of a data class or named tuple."""
        is_plain = any("dataclass" in ast.unparse(one) for one in cls.decorator_list)
        if not is_plain and "typing.NamedTuple" not in self.bases(source, cls):
            return None
        fields = [
            one.target.id for one in cls.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        ]
        given = dict(zip(fields, kind.call.args, strict=False))
        given.update({one.arg: one.value for one in kind.call.keywords if one.arg})
        return [(kind.source, given[name])] if name in given else None

    def arguments(self, source: Source, function: Function, name: str) -> list[Origin]:
        """Return the arguments of all calls for a parameter; empty if one of them is unknown."""
        names = parameters(function)
        calls = self._calls_of(source, function)
        if source.class_of(function) is not None:
            names = names[1:]
        found: list[Origin] = []
        for where, call in calls:
            by_name = {k.arg: k.value for k in call.keywords}
            if name in by_name:
                found.append((where, by_name[name]))
            elif name in names and names.index(name) < len(call.args):
                if any(isinstance(arg, ast.Starred) for arg in call.args):
                    return []
                found.append((where, call.args[names.index(name)]))
            elif None in by_name or name not in (given := defaults(function)):
                return []
            elif not _is_none(given[name]):
                found.append((source, given[name]))
        return found

    def _calls_of(self, source: Source, function: Function) -> list[tuple[Source, ast.Call]]:
        """Return the calls of a function or method; empty if it is unknown of one call what it runs."""
        owner = source.class_of(function)
        if owner is not None and function.name == "__init__":
            return self.calls.get(owner.name, [])
        found = []
        for where, call in self.calls.get(function.name, ()):
            is_method = isinstance(call.func, ast.Attribute) and not where.dotted(call.func)
            if owner is None:
                found += [] if is_method else [(where, call)]
            elif is_method:
                followed = self.function_named(where, call.func)
                if followed is None:
                    return []
                found += [(where, call)] if followed[1] is function else []
        return found

    def callers(self, source: Source, function: Function) -> list[tuple[Source, ast.Call]]:
        """Calls of a function or method, matched by its name."""
        return [one for one in self.calls.get(function.name, ()) if source.function(one[1]) is not function]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
