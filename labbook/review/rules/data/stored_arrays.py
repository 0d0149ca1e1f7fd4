"""Rules about arrays in lists that are changed in place, and windows and columns that contain what is predicted."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.expressions import number, signed_terms
from labbook.review.names import (
    LOOPS,
    assigned_names,
    assigned_pairs,
    dotted_target,
    member_key,
    of_type,
    returned_values,
    walk,
)
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_ARRAYS = ("numpy.", "torch.", "paddle.")
_MADE = frozenset({"zeros", "ones", "empty", "full", "array", "tensor", "to_tensor", "zeros_like", "arange", "randn"})
_IN_PLACE = frozenset({"fill", "fill_", "zero_", "copy_", "add_", "sub_", "mul_", "set_value"})
_TARGET = re.compile(r"(?:self\.)?(?:\w+_)?(?:y|ys|targets?|labels?)(?:_\w+)?(?: = |\.append\()")
_PAST = re.compile(r"(?:^|_)(?:lag|lagged|prev|previous|past)(?:$|_|\d)", re.IGNORECASE)
_DEPTH = 3


@warning("stored_array_changes", "Python, Programming FAQ: assignment makes references, not copies")
def stored_without_copy(code: Code, source: Source) -> Iterator[Hit]:
    """A list is given the same array in each turn of a loop, and the array is changed in place: all items are equal."""
    for call in code.calls_in(source, "append"):
        given = call.args[0] if len(call.args) == 1 else None
        items = given.elts if isinstance(given, ast.Tuple) else [given]
        for name in (one for one in items if isinstance(one, ast.Name)):
            array = _array_of_object(code, source, name) or _array_of_loop(code, source, name)
            if array:
                yield Hit(call, {"stored": name.id, "array": array})
                break


def _array_of_object(code: Code, source: Source, node: ast.expr, depth: int = 0) -> str:
    """Return "self.state" where a value is this array of an object, which is made once and changed in its methods."""
    target, owner = dotted_target(node), source.class_of(node)
    if target.startswith("self.") and owner is not None:
        methods = [one for one in owner.body if isinstance(one, ast.FunctionDef) and one.name != "__init__"]
        is_one = _is_array_made_once(code, source, owner, target)
        return target if is_one and _changes(walk(methods, True), target) else ""
    values = code.origins(source, node) if isinstance(node, ast.Name) else _returned(code, source, node)
    found = {_array_of_object(code, where, value, depth + 1) for where, value in values} if depth < _DEPTH else set()
    return found.pop() if len(found) == 1 else ""


def _returned(code: Code, source: Source, node: ast.expr) -> list[tuple[Source, ast.expr]]:
    """Return what the function of the program returns that a node calls."""
    followed = code.function_named(source, node.func) if isinstance(node, ast.Call) else None
    ends = returned_values(followed[1]) if followed else []
    return [(followed[0], one) for one in ends if followed and one is not None]


def _array_of_loop(code: Code, source: Source, name: ast.Name) -> str:
    """Return a name where its array is made before a loop, and changed and stored in each turn of it."""
    loop = next((one for one in source.parents_of(name) if isinstance(one, (*LOOPS, ast.If))), None)
    scope = source.function(name) or source.tree
    is_fresh = loop is not None and any(dotted_target(one) == name.id for one in _stores(loop.body))
    if loop is None or isinstance(loop, ast.If) or is_fresh or not _is_array_made_once(code, source, scope, name.id):
        return ""
    return name.id if _changes(walk(loop.body), name.id) else ""


def _stores(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    return (one for one in of_type(walk(body), ast.Name) if isinstance(one.ctx, ast.Store))


def _is_array_made_once(code: Code, source: Source, scope: ast.AST, target: str) -> bool:
    """Whether all that a name is given is one call that makes an array."""
    values = code.assigned_values(scope, target)
    made = values[0] if len(values) == 1 else None
    return is_call(made, *_MADE) and source.dotted(made.func).startswith(_ARRAYS)


def _changes(nodes: Iterator[ast.AST], target: str) -> bool:
    """Whether one of the nodes changes an array in place: its items, or by a method."""
    for node in nodes:
        changed: list[ast.expr] = []
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            changed = [one.value for one in targets if isinstance(one, ast.Subscript)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _IN_PLACE:
            changed = [node.func.value]
        if any(dotted_target(one) == target for one in changed):
            return True
    return False


@warning("target_in_inputs", "Python reference, slicings: `x[i:i + n]` ends before `x[i + n]`", row="data")
def target_in_window(code: Code, source: Source) -> Iterator[Hit]:
    """A window of a series goes on to the value that is to be predicted from it."""
    for loop in (node for node in source.nodes if isinstance(node, LOOPS)):
        cuts = [one for one in of_type(walk(loop.body), ast.Subscript) if isinstance(one.ctx, ast.Load)]
        windows = [one for one in cuts if isinstance(one.slice, ast.Slice) and one.slice.lower and one.slice.upper]
        for window in windows:
            for value in cuts:
                statement = source.statement(value)
                same = ast.unparse(value.value) == ast.unparse(window.value) and isinstance(value.slice, ast.BinOp)
                apart = statement is not source.statement(window) and _TARGET.match(ast.unparse(statement or value))
                if same and apart and _is_inside(value, window):
                    yield Hit(window, {"window": ast.unparse(window), "target": ast.unparse(value)})


def _is_inside(value: ast.Subscript, window: ast.Subscript) -> bool:
    """Whether `x[i + n]` is the last value of a window that begins at `i`: both ends differ by 1 in numbers alone."""
    assert isinstance(window.slice, ast.Slice) and window.slice.lower is not None and window.slice.upper is not None
    start = ast.unparse(window.slice.lower)
    terms: Counter[str] = Counter()
    for node, turned in ((window.slice.upper, 1), (value.slice, -1)):
        for sign, term in signed_terms(node, turned):
            terms[ast.unparse(term) if number(term) is None else ""] += sign * int(number(term) or 1)
    begins = start in {ast.unparse(term) for _, term in signed_terms(value.slice)}
    return begins and terms.pop("", 0) == 1 and not any(terms.values())


@warning("target_in_inputs", "pandas.DataFrame.shift: a negative period takes the value of a later row", row="data")
def column_looks_ahead(code: Code, source: Source) -> Iterator[Hit]:
    """A column named as a lag has later values, or a feature is a centred mean of the column to be predicted."""
    for node in source.of_type(ast.Assign):
        column = node.targets[0].slice if isinstance(node.targets[0], ast.Subscript) else None
        name = "".join(str(one.value) for one in of_type(ast.walk(column), ast.Constant)) if column is not None else ""
        calls = list(of_type(ast.walk(node.value), ast.Call)) if name else []
        later = any(is_call(one, "shift") and _is_negative(one) for one in calls)
        centred = any(is_call(one, "rolling") and _is_centred(one) for one in calls)
        read = {str(key) for one in of_type(ast.walk(node.value), ast.Subscript) if (key := member_key(one))}
        if (later and _PAST.search(name)) or (centred and _is_feature_of(source, name, read)):
            yield Hit(node, {"column": name, "code": ast.unparse(node.value)})


def _is_negative(call: ast.Call) -> bool:
    periods = argument(call, 0, "periods")
    return isinstance(periods, ast.UnaryOp) and isinstance(periods.op, ast.USub)


def _is_centred(call: ast.Call) -> bool:
    center = argument(call, None, "center")
    return isinstance(center, ast.Constant) and center.value is True


def _is_feature_of(source: Source, name: str, columns: Set[str]) -> bool:
    """Whether a column is in a list of names that lacks one of these columns, which is read by itself elsewhere."""
    lists = [[getattr(item, "value", "") for item in one.elts] for one in source.of_type(ast.List)]
    reads = (one for one in source.of_type(ast.Subscript) if isinstance(one.ctx, ast.Load))
    targets = columns & {str(member_key(one)) for one in reads if not _gives_column(source.statement(one))}
    return any(name in names and targets - set(names) for names in lists)


def _gives_column(statement: ast.stmt | None) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript)


@warning("value_never_used", "PyFlakes: a value that is assigned again before it is read")
def element_overwritten(code: Code, source: Source) -> Iterator[Hit]:
    """A loop stores a value in an array, and another one at the same place before anything reads the array."""
    for loop in (one for one in source.nodes if isinstance(one, LOOPS)):
        for at, statement in enumerate(loop.body):
            for place, value in _stored_elements(statement):
                again = _stored_again(place, loop.body[at + 1 :])
                if again is not None and not isinstance(value, ast.Constant):
                    yield Hit(again, {"place": ast.unparse(place), "first": ast.unparse(statement)})


def _stored_elements(statement: ast.stmt) -> list[tuple[ast.Subscript, ast.expr | None]]:
    """The elements of named arrays that a statement assigns, each with what it is given."""
    pairs = assigned_pairs(statement) if isinstance(statement, ast.Assign) else []
    return [(one, value) for one, value in pairs if isinstance(one, ast.Subscript) and isinstance(one.value, ast.Name)]


def _stored_again(place: ast.Subscript, following: Sequence[ast.stmt]) -> ast.stmt | None:
    """The next statement that assigns the element, `None` where a line before reads the array or moves the index."""
    array = dotted_target(place.value)
    index = {one.id for one in of_type(ast.walk(place.slice), ast.Name)}
    for statement in following:
        names = list(of_type(ast.walk(statement), ast.Name))
        reads = sum(one.id == array for one in names)
        same = any(ast.unparse(one) == ast.unparse(place) for one, _ in _stored_elements(statement))
        if same and reads == 1:
            return statement
        if reads or any(isinstance(one.ctx, ast.Store) and one.id in index for one in names):
            return None
    return None


@warning("q_target_wrong", "Mnih et al. 2015, Algorithm 1: state, action, reward, next state")
def state_stored_twice(code: Code, source: Source) -> Iterator[Hit]:
    """A transition has the state before the step at the place of the state after it."""
    for call in (one for one in source.of_type(ast.Call) if is_call(one, "append", "push", "add", "store", "remember")):
        given = call.args[0].elts if call.args and isinstance(call.args[0], ast.Tuple) else call.args
        names = [dotted_target(one) for one in given]
        again = next((one for one in names if one and names.count(one) > 1), "")
        if len(names) < 4 or not re.search(r"state|obs|^s$", again):
            continue
        scope = source.function(call) or source.tree
        stepped = [one for one in of_type(ast.walk(scope), ast.Assign) if is_call(one.value, "step")]
        results = {name for one in stepped for name in assigned_names(one)} - {again}
        unread = [one for one in results if re.search(r"next|new|_$|2$|^n?s_", one) and one not in names]
        if unread:
            yield Hit(call, {"code": ast.unparse(call), "state": again, "after": unread[0]})
