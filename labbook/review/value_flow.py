"""Follows a value through the code of a program: under which names it is logged, and how it is printed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from labbook.frozen import dataclass
from labbook.review.call_syntax import argument
from labbook.review.code_index import Code
from labbook.review.definitions import Origin
from labbook.review.names import (
    Function,
    assigned_value,
    dotted_target,
    last_name,
    member_key,
    parameters,
    returned_values,
)
from labbook.review.printed_values import PrintedValue, bare_value, printed_value, templates
from labbook.review.source_file import Source

_FLIPPED = {"max": "min", "min": "max", "": ""}
_MOST_ALIASES = 40
_MOST_ORIGINS = 2


@dataclass(frozen=True)
class WatchedValue:
    """A value that a program watches.

    Args:
        how: `SAVED`, `STOPPED`, `CHOSEN`, `SCHEDULED` or `PRINTED_LAST`.
        direction: "max" or "min"; "" if the code does not say it.
        labels: Names under which it is logged, each with whether it is logged as its negative.
        lines: How it is printed, with whether as its negative.
    """

    how: int
    direction: str
    labels: tuple[tuple[str, bool], ...]
    lines: tuple[tuple[PrintedValue, bool], ...]

    def direction_as(self, *, negative: bool) -> str:
        """Returns the direction of what is printed or logged."""
        return _FLIPPED[self.direction] if negative else self.direction


class ValueFlow:
    """Follows values through the files of a program: names, arguments, returned values, items with a constant key."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self.templates = [(source, *one) for source in code.sources for one in templates(source)]
        self._logged = [(name, source, value) for source in code.sources for name, value in _logged(source)]

    def follow(self, how: int, direction: str, source: Source, value: ast.expr) -> WatchedValue:
        """Returns a watched value with all places where it is printed or logged."""
        aliases = self._aliases(source, value)
        labels = {str(key[1]): negative for key, negative in aliases.items() if key[0] == "key"}
        lines: list[tuple[PrintedValue, bool]] = []
        for where, node, parts in self.templates:
            for place, part in enumerate(parts):
                if not isinstance(part, ast.expr) or (alias := self._find_alias(where, part, aliases)) is None:
                    continue
                if (printed := printed_value(where, node, parts, place)) is not None:
                    bare = bare_value(part)[0]
                    call = ast.unparse(bare) if isinstance(bare, ast.Call) else ""
                    lines.append((replace(printed, is_copy=alias[1], call=call), alias[0]))
        for label, where, logged in self._logged:
            if (alias := self._find_alias(where, logged, aliases)) is not None:
                labels.setdefault(label, alias[0])
        return WatchedValue(how, direction, tuple(labels.items()), tuple(lines))

    def _find_alias(
        self, source: Source, node: ast.expr, aliases: dict[tuple[object, str], bool]
    ) -> tuple[bool, bool] | None:
        """Returns whether an expression is the negative of a followed value, and whether it is only given that value.

        `None` if it is another one.
        """
        bare, negative = bare_value(node)
        found = [(key, negative) for key in _keys(source, bare)]
        for where, origin in self._origins(source, bare) if isinstance(bare, ast.Name) else ():
            value, is_turned = bare_value(origin)
            found += [(key, negative != is_turned) for key in _keys(where, value)[:1]]
        known = [(turned != aliases[key], at > 0) for at, (key, turned) in enumerate(found) if key in aliases]
        return known[0] if known else None

    def _aliases(self, source: Source, value: ast.expr) -> dict[tuple[object, str], bool]:
        """Returns the keys of the names of a value, each with whether it has the negative value."""
        found: dict[tuple[object, str], bool] = {}
        waiting: list[tuple[Source, ast.expr, bool]] = [(source, value, False)]
        while waiting and len(found) < _MOST_ALIASES:
            where, node, negative = waiting.pop()
            bare, is_turned = bare_value(node)
            negative ^= is_turned
            keys = _keys(where, bare)
            if not keys or keys[0] in found:
                continue
            for key in keys:
                found.setdefault(key, negative)
            waiting += [(*origin, negative) for origin in self._origins(where, bare)]
        return found

    def _origins(self, source: Source, node: ast.expr) -> list[Origin]:
        """Returns what a name or a call has its value from."""
        if isinstance(node, ast.Call):
            followed = self._code.function_named(source, node.func)
            values = returned_values(followed[1]) if followed is not None else []
            return [(followed[0], one) for one in values if one is not None] if followed and len(values) == 1 else []
        target = dotted_target(node)
        if not target:
            key = member_key(node)
            stored = [(where, one) for name, where, one in self._logged if name == key]
            return stored if len(stored) <= _MOST_ORIGINS else []
        scope = source.function(node) or source.tree
        if isinstance(scope, Function) and target in parameters(scope):
            return self._arguments(source, scope, target)
        found: list[Origin] = []
        for one in self._code.assignments(scope, target):
            given = assigned_value(one, target)
            found += [(source, given)] if given is not None else self._code.unpacked_origins(source, one, target)
        return found if len(found) <= _MOST_ORIGINS else []

    def _arguments(self, source: Source, function: Function, name: str) -> list[Origin]:
        """Returns what the calls of a function, or of a method of an object whose class is known, give a parameter."""
        if source.class_of(function) is None:
            found = self._code.arguments(source, function, name)
            return found if len({ast.dump(value) for _, value in found}) == 1 else []
        calls = self._code.calls.get(function.name, ())
        if function.name == "__call__":
            calls = [(where, call) for where in self._code.sources for call in where.of_type(ast.Call)]
        place = parameters(function).index(name) - 1
        found = []
        for where, call in calls:
            followed = self._code.function_named(where, call.func)
            value = argument(call, place, name)
            if followed is not None and followed[1] is function and value is not None:
                found.append((where, value))
        return found if len({ast.dump(value) for _, value in found}) == 1 else []


def _keys(source: Source, node: ast.expr) -> list[tuple[object, str]]:
    """Returns what identifies a value, the surest first: its name in its function, the constant key of an item."""
    text = dotted_target(node)
    if text.startswith("self."):
        return [(source.class_of(node), text)]
    if not text and not isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        return []
    own: tuple[object, str] = (source.function(node) or source.tree, text or ast.unparse(node))
    if isinstance(node, ast.Call):
        return [("call", own[1])]
    key = member_key(node) if isinstance(node, ast.Subscript) else None
    return [own, ("key", key)] if isinstance(key, str) else [own]


def _logged(source: Source) -> Iterator[tuple[str, ast.expr]]:
    """Yields each name with the value that is logged under it: in a dictionary, by a keyword, in a row of a table."""
    rows = [call.args[0] for call in source.of_type(ast.Call) if last_name(call.func) == "writerow" and call.args]
    lists = [row.elts for row in rows if isinstance(row, (ast.List, ast.Tuple))]
    titles = [[str(getattr(one, "value", "")) for one in row] for row in lists if all(map(_is_text, row))]
    for row in lists:
        for title in titles:
            yield from zip(title, row, strict=True) if len(title) == len(row) else ()
    for node in source.nodes:
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from ((str(key.value), one) for key, one in pairs if isinstance(key, ast.Constant))
        elif isinstance(node, ast.Call):
            yield from ((one.arg, one.value) for one in node.keywords if one.arg and last_name(node.func) != "print")
            if len(node.args) > 1 and _is_text(node.args[0]) and "%" not in ast.unparse(node.args[0]):
                yield str(getattr(node.args[0], "value", "")), node.args[1]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
