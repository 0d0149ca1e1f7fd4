"""Finds the values that a program compares with its best: it saves a model by them, stops early, chooses a training.

Which value is watched, and whether more of it is better, is what the code does, whatever the name. `value_flow` follows
it to where the program prints or logs it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from labbook.model.metric_kinds import metric_kind, name_words
from labbook.review.call_syntax import argument
from labbook.review.code_index import Code
from labbook.review.gradient_flow import computes_without_gradients, is_under_no_grad
from labbook.review.names import (
    LOOPS,
    Function,
    assigned_pairs,
    defaults,
    dotted_target,
    last_name,
    last_names,
    member_key,
    of_type,
    parameters,
    walk,
)
from labbook.review.printed_values import bare_value, words_before
from labbook.review.source_file import Source, Unreadable, read_source
from labbook.review.value_flow import ValueFlow, WatchedValue

SAVED, STOPPED, CHOSEN, SCHEDULED, PRINTED_LAST, EVALUATED = range(6)
"""How a program watches a value, the surest first."""

_SAVES = re.compile(r"save|checkpoint|ckpt|copy|state_dict", re.IGNORECASE)
_STOPS = re.compile(r"patience|wait|count|bad|stale|early|stop", re.IGNORECASE)
_BEST = re.compile(r"(?<![a-z])(?:best|top|highest|lowest|record|champion)|最", re.IGNORECASE)
_MORE_OR_LESS = re.compile(r"(max|great|high)|min(?!_?delta)|less|low")
_PICKERS = {"argmax": "max", "argmin": "min", "nanargmax": "max", "nanargmin": "min"}
_PLATEAU = ("ReduceLROnPlateau", "ReduceOnPlateau")

_NEVER_WATCHED = frozenset({
    "time", "sec", "secs", "seconds", "dt", "elapsed", "duration", "ms", "latency", "fps", "throughput", "speed",
    "grad", "gradnorm", "norm", "gn", "lr", "mem", "memory", "gpu", "length", "len", "size", "count", "params",
    "step", "epoch", "iter",
})  # fmt: skip
"""Words of extremes that say nothing of a model: the slowest epoch, the largest gradient, the longest sentence."""


def says_nothing_of_model(name: str) -> bool:
    """Whether a value is a time, a speed, a size, a gradient or a counter, by its name."""
    return not _NEVER_WATCHED.isdisjoint(name_words(name))


def find_watched_values(files: list[Path]) -> tuple[list[WatchedValue], frozenset[str]]:
    """Returns the values that a program watches, the surest first, and the words before all values that it prints.

    Files that cannot be read are left out.
    """
    sources: list[Source] = []
    for path in files:
        with suppress(Unreadable, OSError):
            sources.append(read_source(path, path.name))
    finder = _Finder(Code(sources))
    watched = [one for source in sources for one in finder.watched_in(source)]
    found = [finder.follow(*one) for one in watched if not says_nothing_of_model(last_name(one[3]))]
    found += [*finder.printed_last(sources), *finder.evaluated()]
    known = sorted((one for one in found if one.labels or one.lines), key=lambda one: one.how)
    return known, frozenset(finder.labels())


class _Finder:
    """Finds watched values in the files of a program."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._flow = ValueFlow(code)
        self.follow = self._flow.follow

    def labels(self) -> set[str]:
        """Returns the words before all values that the program prints."""
        texts = [pair for _, _, parts in self._flow.templates for pair in pairwise(parts)]
        return {words_before(text) for text, value in texts if isinstance(text, str) and not isinstance(value, str)}

    def watched_in(self, source: Source) -> Iterator[tuple[int, str, Source, ast.expr]]:
        """Yields how a value of a file is watched, its direction, and the value."""
        comparisons: dict[tuple[ast.AST, str], list[tuple[int, str, ast.expr]]] = {}
        for node in source.of_type(ast.If):
            for each in self._find_replaced(source, node):
                comparisons.setdefault((source.function(node) or source.tree, ast.dump(each[2])), []).append(each)
        for ways in comparisons.values():
            directions = {direction for _, direction, _ in ways}
            one = directions.pop() if len(directions) == 1 else ""
            yield min(how for how, _, _ in ways), one or self._mode_of(source, ways[0][2]), source, ways[0][2]
        for assignment in source.of_type(ast.Assign):
            yield from _running_best(source, assignment)
        for call in source.of_type(ast.Call):
            for how, direction, value in self._picked_by(source, call):
                yield how, direction, source, value

    def _find_replaced(self, source: Source, node: ast.If) -> Iterator[tuple[int, str, ast.expr]]:
        """Yields the value that replaces what a condition compares it with: `if acc > best: best = acc`."""
        test = node.test
        if isinstance(test, ast.Name):
            scope = source.function(node) or source.tree
            test = next((each for each in self._code.assigned_values(scope, test.id) if each is not None), test)
        for call in of_type(ast.walk(test), ast.Call):  # is_better(acc, best), best.is_below(acc)
            direction = self._direction_of_test(source, call)
            is_stored = any(_stores(node.body, call.args[0], best) for best in call.args[1:])
            if is_stored or (direction and call.args and _stores(node.body, call.args[0], call.func, is_method=True)):
                yield _read_purpose(node), direction, bare_value(call.args[0])[0]
        for compare in of_type(ast.walk(test), ast.Compare):
            if len(compare.ops) == 1 and isinstance(compare.ops[0], ast.Eq) and _read_purpose(node) == SAVED:
                yield from self._extremes(source, [compare.left, *compare.comparators])
            if len(compare.ops) != 1 or not isinstance(compare.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                continue
            less = isinstance(compare.ops[0], (ast.Lt, ast.LtE))
            sides = compare.left, compare.comparators[0]
            for value, best, is_less in ((*sides, less), (sides[1], sides[0], not less)):
                for block, is_taken in ((node.body, True), (node.orelse, False)):
                    if _stores(block, value, _bound(best)):
                        yield _read_purpose(node), "min" if is_less == is_taken else "max", bare_value(value)[0]

                is_extreme = isinstance(best, ast.Call) and last_name(best.func) in ("max", "min")
                if isinstance(best, ast.Call) and is_extreme and _read_purpose(node) == STOPPED:
                    yield STOPPED, last_name(best.func), bare_value(value)[0]  # if acc <= max(before): wait += 1

    def _direction_of_test(self, source: Source, call: ast.Call) -> str:
        """Returns the direction in which a function of the program compares its first argument; "" if it is unknown."""
        followed = self._code.function_named(source, call.func)
        names = (
            [name for name in parameters(followed[1]) if name not in ("self", "cls")] if followed is not None else []
        )
        found = set()
        for compare in of_type(walk(followed[1].body), ast.Compare) if followed is not None and names else ():
            sides = [getattr(one, "id", "") for one in (compare.left, compare.comparators[0])]
            if names[0] in sides and isinstance(compare.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                is_less = isinstance(compare.ops[0], (ast.Lt, ast.LtE))
                found.add("min" if is_less == (sides[0] == names[0]) else "max")
        return found.pop() if len(found) == 1 else ""

    def _extremes(self, source: Source, sides: list[ast.expr]) -> Iterator[tuple[int, str, ast.expr]]:
        """Yields what a list has of which one value is the extreme: `if scores[-1] == min(scores): save()`."""
        for call in of_type(sides, ast.Call):
            if last_name(call.func) in ("max", "min") and len(call.args) == 1:
                for value in self._appended(source, call.args[0]):
                    yield SAVED, last_name(call.func), value

    def _appended(self, source: Source, values: ast.expr) -> Iterator[ast.expr]:
        """Yields what is appended to a list in its file."""
        for where, call in self._code.calls.get("append", ()):
            owner = call.func.value if isinstance(call.func, ast.Attribute) and where is source else None
            if owner is not None and call.args and ast.dump(owner) == ast.dump(values):
                yield call.args[0]

    def _mode_of(self, source: Source, node: ast.expr) -> str:
        """Returns the direction that the calls of a function or class that knows both are given, or ""."""
        owner, function = source.class_of(node), source.function(node)
        name = owner.name if owner is not None else function.name if function is not None else ""
        modes = {self._mode_of_call(function, owner, call) for _, call in self._code.calls.get(name, ())}
        return modes.pop() if len(modes) == 1 else ""

    @staticmethod
    def _mode_of_call(function: Function | None, owner: ast.ClassDef | None, call: ast.Call) -> str:
        """Returns the direction of one call: that of its arguments, else of the defaults that it does not change."""
        own = owner.body if owner is not None else ()
        made = next((one for one in own if isinstance(one, Function) and one.name == "__init__"), function)
        names = parameters(made)[owner is not None :] if made is not None else []
        changed = {*names[: len(call.args)], *(one.arg for one in call.keywords)}
        left = defaults(made).items() if made is not None else ()
        usual = [ast.keyword(name, value) for name, value in left if name not in changed]
        return next((found for one in (*call.args, *call.keywords, *usual) if (found := _read_mode(one))), "")

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
            place = member_key(value)
            if isinstance(place, int):
                listed = node.func.value if name == "sort" and isinstance(node.func, ast.Attribute) else node.args[0]
                for row in self._appended(source, listed):
                    if isinstance(row, ast.Tuple) and -len(row.elts) <= place < len(row.elts):
                        yield CHOSEN, "max" if is_most != negative else "min", row.elts[place]
        elif name in ("max", "min") and isinstance(key, ast.Attribute) and key.attr in ("get", "__getitem__"):
            for assigned in source.of_type(ast.Assign):  # scores[step] = score; min(scores, key=scores.get)
                for left, right in assigned_pairs(assigned):
                    if isinstance(left, ast.Subscript) and ast.unparse(left.value) == ast.unparse(key.value):
                        yield from ((CHOSEN, name, one) for one in (left, right) if one is not None)
        elif name in _PICKERS and len(node.args) == 1 and not node.keywords:
            for value in self._appended(source, node.args[0]):
                yield CHOSEN, _PICKERS[name], value
        elif name == "step" and len(node.args) == 1 and isinstance(node.func, ast.Attribute):
            kind = self._code.kind(source, node.func.value)
            if kind is not None and kind.name.rpartition(".")[2] in _PLATEAU:
                mode = argument(kind.call, 1, "mode")
                yield SCHEDULED, "max" if getattr(mode, "value", "") == "max" else "min", node.args[0]

    def printed_last(self, sources: list[Source]) -> list[WatchedValue]:
        """Returns the values of the last line of the program that prints one, where a loop prints or logs them, too."""
        for source, node, parts in reversed(self._flow.templates):
            if source is not sources[0] or not self._runs_once(source, node):
                continue
            values = [each for each in parts if isinstance(each, ast.expr) and not isinstance(each, ast.Constant)]
            found = [self.follow(PRINTED_LAST, "", source, each) for each in values]
            printed = [line for one in found for line, _ in one.lines if line.in_loop]
            if len(printed) > len(set(printed)):
                return []  # results of several trainings, which one function printed
            return [one for one in found if any(line.in_loop or metric_kind(line.label).split for line, _ in one.lines)]
        return []

    def evaluated(self) -> Iterator[WatchedValue]:
        """Yields the values that a loop prints and that are computed without gradients, as those of an evaluation."""
        for source, node, parts in self._flow.templates:
            for value in parts:
                if isinstance(value, ast.expr) and self._is_evaluated(source, node, bare_value(value)[0]):
                    found = self.follow(EVALUATED, "", source, value)
                    yield replace(found, lines=tuple(one for one in found.lines if one[0].in_loop))

    def _is_evaluated(self, source: Source, node: ast.AST, value: ast.expr) -> bool:
        """Whether what a statement prints comes from a block, or only from functions, without gradients."""
        given = self._code.assignments(source.function(node) or source.tree, dotted_target(value))
        if is_under_no_grad(source, node):
            return any(is_under_no_grad(source, one) for one in given)
        calls = [getattr(one, "value", one) for one in given or [value]]
        functions = [self._code.function_named(source, one.func) for one in calls if isinstance(one, ast.Call)]
        return bool(functions) and all(one is not None and computes_without_gradients(one[1]) for one in functions)

    def _runs_once(self, source: Source, node: ast.AST) -> bool:
        """Whether a node is outside of loops and functions, or in a function that only such a line calls."""
        if any(isinstance(one, (*LOOPS, ast.ClassDef)) for one in source.parents_of(node)):
            return False
        function = source.function(node)
        calls = self._code.calls.get(function.name, []) if function is not None else []
        once = len(calls) == 1 and source.function(calls[0][1]) is None
        return function is None or (once and self._runs_once(*calls[0]))


def _read_purpose(node: ast.If) -> int:
    """Returns whether a branch of a condition saves something, else whether it counts towards a stop."""
    words = {each for part in (node.body, node.orelse) for one in part for each in last_names(one)}
    return SAVED if any(map(_SAVES.search, words)) else STOPPED if any(map(_STOPS.search, words)) else CHOSEN


def _read_mode(node: ast.AST) -> str:
    """Returns the direction that an argument says: "max", `mode="min"`, `greater_is_better=True`; else ""."""
    value = getattr(node.value if isinstance(node, ast.keyword) else node, "value", None)
    if value in ("min", "max"):
        return str(value)
    found = _MORE_OR_LESS.search(node.arg or "") if isinstance(node, ast.keyword) and isinstance(value, bool) else None
    return "" if found is None else "max" if bool(found[1]) == value else "min"


def _bound(node: ast.expr) -> ast.expr:
    """Returns what a limit is made of: `best` of `best - min_delta`."""
    return _bound(node.left) if isinstance(node, ast.BinOp) else node


def _stores(block: list[ast.stmt], value: ast.expr, best: ast.expr, *, is_method: bool = False) -> bool:
    """Whether statements give the value to what it was compared with, alone or as an item of a dictionary.

    Args:
        is_method: Whether a method of an object compares it, which then stores it as an attribute.
    """
    new, old = ast.dump(bare_value(value)[0]), ast.unparse(best)
    if isinstance(value, ast.Constant) or old == ast.unparse(value):
        return False
    of = best.value if isinstance(best, (ast.Subscript, ast.Attribute)) else best
    updated = f"{ast.unparse(of)}.update"
    for call in of_type(walk(block), ast.Call):  # best.update(acc=acc)
        given = [one.value for one in call.keywords if one.arg == member_key(best)]
        if ast.unparse(call.func) == updated and any(ast.dump(bare_value(one)[0]) == new for one in given):
            return True
    for node in of_type(walk(block), ast.Assign):
        for left, right in assigned_pairs(node):
            if right is None:
                continue
            items: list[tuple[object, ast.expr]] = []  # best = {"acc": acc}, best = acc, epoch
            if isinstance(right, ast.Dict):
                items = [(getattr(key, "value", None), one) for key, one in zip(right.keys, right.values, strict=True)]
            elif isinstance(right, (ast.Tuple, ast.List)):
                items = list(enumerate(right.elts))
            stored = [right, *(one for key, one in items if key == member_key(best))]
            whole = left.value if isinstance(left, ast.Attribute) and is_method else left
            is_part = (
                of is not best and ast.unparse(whole) == ast.unparse(of) and (len(stored) > 1 or whole is not left)
            )
            is_same = ast.unparse(left) == old or is_part
            if is_same and any(ast.dump(bare_value(each)[0]) == new for each in stored):
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
