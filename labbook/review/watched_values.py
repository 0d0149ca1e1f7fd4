"""Finds the values that a program compares with its best: it saves a model by them, stops early, chooses a training.

A value is followed through names, arguments, returned values and items with a constant key to where the program prints
or logs it. Which one is watched, and whether more of it is better, is what the code does, whatever its name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from labbook.frozen import dataclass
from labbook.model.metric_kinds import metric_kind
from labbook.review.call_syntax import argument
from labbook.review.code_index import Code
from labbook.review.definitions import Origin
from labbook.review.names import (
    LOOPS,
    Function,
    assigned_pairs,
    dotted_target,
    last_name,
    last_names,
    member_key,
    of_type,
    parameters,
    returned_values,
    walk,
)
from labbook.review.printed_values import PrintedValue, bare_value, printed_value, templates
from labbook.review.source_file import Source, Unreadable, read_source

SAVED, CHOSEN, SCHEDULED, PRINTED_LAST = range(4)
"""How a program watches a value, the surest first."""

_FLIPPED = {"max": "min", "min": "max", "": ""}
_SAVES = re.compile(r"save|checkpoint|ckpt|deepcopy|state_dict|patience|wait|counter|bad_epochs|early", re.IGNORECASE)
_BEST = re.compile(r"(?<![a-z])(?:best|top|highest|lowest|record|champion)|最", re.IGNORECASE)
_PICKERS = {"argmax": "max", "argmin": "min", "nanargmax": "max", "nanargmin": "min"}
_PLATEAU = ("ReduceLROnPlateau", "ReduceOnPlateau")
_MOST_ALIASES = 40
_MOST_ORIGINS = 2


@dataclass(frozen=True)
class WatchedValue:
    """A value that a program watches.

    Args:
        how: `SAVED`, `CHOSEN`, `SCHEDULED` or `PRINTED_LAST`.
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


def find_watched_values(files: list[Path]) -> list[WatchedValue]:
    """Returns the values that a program watches, the surest first; files that cannot be read are left out."""
    sources: list[Source] = []
    for path in files:
        with suppress(Unreadable, OSError):
            sources.append(read_source(path, path.name))
    finder = _Finder(Code(sources))
    found = [finder.follow(*one) for source in sources for one in finder.watched_in(source)]
    found += finder.printed_last(sources)
    return sorted((one for one in found if one.labels or one.lines), key=lambda one: one.how)


class _Finder:
    """Follows values through the files of a program."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._templates = [(source, *one) for source in code.sources for one in templates(source)]
        self._logged = [(name, source, value) for source in code.sources for name, value in _logged(source)]

    def watched_in(self, source: Source) -> Iterator[tuple[int, str, Source, ast.expr]]:
        """Yields how a value of a file is watched, its direction, and the value."""
        for node in source.nodes:
            if isinstance(node, ast.If):
                for how, direction, value in self._kept_by(source, node):
                    yield how, direction, source, value
            elif isinstance(node, ast.Assign):
                yield from _running_best(source, node)
            elif isinstance(node, ast.Call):
                for how, direction, value in self._picked_by(source, node):
                    yield how, direction, source, value

    def _kept_by(self, source: Source, node: ast.If) -> Iterator[tuple[int, str, ast.expr]]:
        """Yields the value that replaces what a condition compares it with: `if acc > best: best = acc`."""
        test = node.test
        if isinstance(test, ast.Name):
            scope = source.function(node) or source.tree
            test = next((each for each in self._code.assigned_values(scope, test.id) if each is not None), test)
        for compare in of_type(ast.walk(test), ast.Compare):
            if len(compare.ops) != 1 or not isinstance(compare.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                continue
            less = isinstance(compare.ops[0], (ast.Lt, ast.LtE))
            sides = compare.left, compare.comparators[0]
            words = {each for part in (node.body, node.orelse) for one in part for each in last_names(one)}
            how = SAVED if any(map(_SAVES.search, words)) else CHOSEN
            for value, best, is_less in ((*sides, less), (sides[1], sides[0], not less)):
                for block, is_taken in ((node.body, True), (node.orelse, False)):
                    if _keeps(block, value, _bound(best)):
                        yield how, "min" if is_less == is_taken else "max", bare_value(value)[0]

                if how == SAVED and isinstance(best, ast.Call) and last_name(best.func) in ("max", "min"):
                    yield how, last_name(best.func), bare_value(value)[0]  # if acc <= max(before): wait += 1

    def _picked_by(self, source: Source, node: ast.Call) -> Iterator[tuple[int, str, ast.expr]]:
        """Yields what a call chooses by: `max(history, key=...)`, `np.argmin(curve)`, `scheduler.step(score)`."""
        name = last_name(node.func)
        key = argument(node, None, "key")
        if name in ("max", "min", "sorted", "sort") and isinstance(key, ast.Lambda):
            turned = getattr(argument(node, None, "reverse"), "value", False) is True
            value, negative = bare_value(key.body)
            is_most = name == "max" or (name.startswith("sort") and turned)
            if isinstance(member_key(value), str) and (not name.startswith("sort") or _is_head(source, node)):
                yield CHOSEN, "max" if is_most != negative else "min", value
        elif name in _PICKERS and len(node.args) == 1 and not node.keywords:
            for where, call in self._code.calls.get("append", ()):
                if where is source and ast.dump(call.func.value) == ast.dump(node.args[0]):  # type: ignore[attr-defined]
                    yield CHOSEN, _PICKERS[name], call.args[0]
        elif name == "step" and len(node.args) == 1 and isinstance(node.func, ast.Attribute):
            kind = self._code.kind(source, node.func.value)
            if kind is not None and kind.name.rpartition(".")[2] in _PLATEAU:
                mode = argument(kind.call, 1, "mode")
                yield SCHEDULED, "max" if getattr(mode, "value", "") == "max" else "min", node.args[0]

    def printed_last(self, sources: list[Source]) -> list[WatchedValue]:
        """Returns the values of the last line of the program that prints one, where a loop prints or logs them, too."""
        for source, node, parts in reversed(self._templates):
            if source is not sources[0] or not self._runs_once(source, node):
                continue
            values = [each for each in parts if isinstance(each, ast.expr) and not isinstance(each, ast.Constant)]
            found = [self.follow(PRINTED_LAST, "", source, each) for each in values]
            printed = [line for one in found for line, _ in one.lines if line.in_loop]
            if len(printed) > len(set(printed)):
                return []  # results of several trainings, which one function printed
            return [one for one in found if any(line.in_loop or metric_kind(line.label).split for line, _ in one.lines)]
        return []

    def _runs_once(self, source: Source, node: ast.AST) -> bool:
        """Whether a node is outside of loops and functions, or in a function that only such a line calls."""
        if any(isinstance(one, (*LOOPS, ast.ClassDef)) for one in source.parents_of(node)):
            return False
        function = source.function(node)
        calls = self._code.calls.get(function.name, []) if function is not None else []
        once = len(calls) == 1 and source.function(calls[0][1]) is None
        return function is None or (once and self._runs_once(*calls[0]))

    def follow(self, how: int, direction: str, source: Source, value: ast.expr) -> WatchedValue:
        """Returns a watched value with all places where it is printed or logged."""
        aliases = self._aliases(source, value)
        labels = {str(key[1]): negative for key, negative in aliases.items() if key[0] == "key"}
        lines: list[tuple[PrintedValue, bool]] = []
        for where, node, parts in self._templates:
            for place, part in enumerate(parts):
                if not isinstance(part, ast.expr) or (alias := self._find_alias(where, part, aliases)) is None:
                    continue
                if (printed := printed_value(where, node, parts, place)) is not None:
                    lines.append((replace(printed, is_copy=alias[1]), alias[0]))
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
        for one in of_type(walk(scope.body), ast.Assign):
            for left, right in assigned_pairs(one):
                if dotted_target(left) == target and right is not None:
                    found.append((source, right))
                elif isinstance(left, ast.Tuple) and isinstance(right, ast.Call):
                    found += self._unpack_origins(source, left, right, target)
        return found if len(found) <= _MOST_ORIGINS else []

    def _arguments(self, source: Source, function: Function, name: str) -> list[Origin]:
        """Returns what the calls of a function, or of a method of an object whose class is known, give a parameter."""
        if source.class_of(function) is None:
            return self._code.arguments(source, function, name)
        calls = self._code.calls.get(function.name, ())
        if function.name == "__call__":
            calls = [(where, call) for where in self._code.sources for call in where.of_type(ast.Call)]
        place = parameters(function).index(name) - 1
        found: list[Origin] = []
        for where, call in calls:
            followed = self._code.function_named(where, call.func)
            value = argument(call, place, name)
            if followed is not None and followed[1] is function and value is not None:
                found.append((where, value))
        return found

    def _unpack_origins(self, source: Source, left: ast.Tuple, call: ast.Call, target: str) -> list[Origin]:
        followed = self._code.function_named(source, call.func)
        at = next((n for n, one in enumerate(left.elts) if dotted_target(one) == target), None)
        if followed is None or at is None:
            return []
        tuples = [one for one in returned_values(followed[1]) if isinstance(one, ast.Tuple)]
        return [(followed[0], one.elts[at]) for one in tuples if len(one.elts) == len(left.elts)]


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


def _bound(node: ast.expr) -> ast.expr:
    """Returns what a limit is made of: `best` of `best - min_delta`."""
    return _bound(node.left) if isinstance(node, ast.BinOp) else node


def _keeps(block: list[ast.stmt], value: ast.expr, best: ast.expr) -> bool:
    """Whether statements give the value to what it was compared with, alone or as an item of a dictionary."""
    new, old = ast.dump(bare_value(value)[0]), ast.unparse(best)
    if isinstance(value, ast.Constant) or old == ast.unparse(value):
        return False
    for node in of_type(walk(block), ast.Assign):
        for left, right in assigned_pairs(node):
            if right is None:
                continue
            items = zip(right.keys, right.values, strict=True) if isinstance(right, ast.Dict) else ()
            kept = [right, *(one for key, one in items if getattr(key, "value", None) == member_key(best))]
            is_same = ast.unparse(left) == old or (
                isinstance(best, ast.Subscript) and ast.unparse(left) == ast.unparse(best.value) and len(kept) > 1
            )
            if is_same and any(ast.dump(bare_value(each)[0]) == new for each in kept):
                return True
    return False


def _running_best(source: Source, node: ast.Assign) -> Iterator[tuple[int, str, Source, ast.expr]]:
    """Yields the new value of `best = max(best, acc)`, if the name says that it is a best one."""
    call, left = node.value, ast.unparse(node.targets[0])
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("max", "min"):
        others = [one for one in call.args if ast.unparse(one) != left]
        if len(call.args) == 2 and len(others) == 1 and _BEST.search(left):
            yield CHOSEN, call.func.id, source, others[0]


def _is_head(source: Source, node: ast.Call) -> bool:
    """Whether only the first one of a sorted list is used."""
    outer = source.parents.get(node)
    return isinstance(outer, ast.Subscript) and getattr(outer.slice, "value", None) == 0


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
