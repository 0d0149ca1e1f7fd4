"""Rules about the state of recurrent layers: carried through a loop, read at the last layer, put into a row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.expressions import default_number, number
from labbook.review.names import assigned_value, assigns, dotted_target, last_name, loop_of, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_RECURRENT = re.compile(r"(?:torch|paddle)\.nn\.(?:Simple)?(?:RNN|LSTM|GRU)(?:Cell)?")
_STATE = re.compile(r"(?:^|_)(?:h|hx|hid|hidden|states?|hidden_state|h_n|carry)$")
_TURNED = re.compile(r"\.(?:t|transpose|permute|swapaxes)\(|\.m?T\b|rearrange")
_STARTS = ("zeros", "zeros_like", "new_zeros", "init_hidden", "initHidden", "init_state", "initial_state")


@warning(
    "recurrent_state_lost", "torch.nn.GRU: the state that it returns is the input of the next step; the same in paddle"
)
def state_not_carried(code: Code, source: Source) -> Iterator[Hit]:
    """In a loop over time, a recurrent layer starts every step from the same state."""
    for node in source.of_type(ast.Assign):
        if not isinstance(node.value, ast.Call) or len(node.value.args) < 2:
            continue
        call, owner = node.value, source.class_of(node)
        loop = loop_of(source, node)
        function = source.function(node)
        if loop is None or source.function(loop) is not function:
            continue
        if not (_counts_time(code, source, call, loop) if owner is None else code.is_module(source, owner)):
            continue
        states = [dotted_target(one) for one in _elements(call.args[1])]
        if not all(states) or not _is_step(code, source, call) or not _follows(code, source, node, loop):
            continue
        if not any(_is_carried(loop, node, state) for state in states):
            yield Hit(call, {"call": ast.unparse(call), "state": states[0]})


@warning("recurrent_state_lost", "torch.nn.GRUCell: the state is 0 if it is not given; the same in paddle")
def cell_without_state(code: Code, source: Source) -> Iterator[Hit]:
    """In a loop over time, a recurrent cell gets no state, so that every step starts from 0."""
    for node in source.of_type(ast.Assign):
        call, loop = node.value, loop_of(source, node)
        if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords or not dotted_target(call.func):
            continue
        kind, owner = code.kind(source, call.func), source.class_of(node)
        is_cell = kind is not None and _RECURRENT.fullmatch(kind.name) and kind.name.endswith("Cell")
        in_model = owner is not None and code.is_module(source, owner)
        if is_cell and in_model and loop is not None and source.function(loop) is source.function(node):
            yield Hit(call, {"call": ast.unparse(call), "cell": ast.unparse(call.func)})


def _follows(code: Code, source: Source, step: ast.Assign, loop: ast.AST) -> bool:
    """Whether a step reads the next element of a sequence, or its own output, and not another sequence."""
    call: ast.Call = step.value  # type: ignore[assignment]
    names = {dotted_target(one) for one in ast.walk(call.args[0])} - {""}
    kind = code.kind(source, call.func)
    body: list[ast.stmt] = loop.body  # type: ignore[attr-defined]
    if kind is not None and kind.name.endswith("Cell"):
        return any(assigns(one, name) for name in names for one in [loop, *walk(body)])
    fed_back = any(assigns(one, name) and one.lineno >= step.lineno for name in names for one in walk(body))  # type: ignore[attr-defined]
    counter = dotted_target(loop.target) if isinstance(loop, ast.For) else ""
    slices = [one.slice for one in of_type(ast.walk(call.args[0]), ast.Subscript)]
    times = (one for one in slices if isinstance(one, ast.Tuple) and counter)
    return fed_back or any(counter in ast.unparse(one).replace(":", " ").replace(",", " ").split() for one in times)


def _counts_time(code: Code, source: Source, call: ast.Call, loop: ast.AST) -> bool:
    """Whether a loop outside a model steps a recurrent cell over a range of times, within one step of training."""
    kind = code.kind(source, call.func)
    is_range = isinstance(loop, ast.For) and is_call(loop.iter, "range")
    is_inner = is_range and not any(is_call(one, "backward", "step") for one in walk(loop.body))  # type: ignore[attr-defined]
    return is_inner and kind is not None and kind.name.endswith("Cell")


def _elements(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _is_step(code: Code, source: Source, call: ast.Call) -> bool:
    """Whether a call is one step of a recurrent layer, or of a model that is given its state."""
    kind = code.kind(source, call.func)
    if kind is None or kind.definition is None:
        return kind is not None and _RECURRENT.fullmatch(kind.name) is not None
    forward = code.method(*kind.definition, "forward")
    names = [one.arg for one in forward[1].args.args] if forward is not None else []
    return len(names) > 2 and _STATE.search(names[2]) is not None


def _is_carried(loop: ast.AST, step: ast.Assign, state: str) -> bool:
    """Whether a step gets the state of the step before: assigned in the loop, and not begun anew before the step."""
    body: list[ast.stmt] = loop.body  # type: ignore[attr-defined]
    given = [one for one in walk(body) if assigns(one, state)]
    before = (one for one in body if one.lineno < step.lineno and assigns(one, state))
    starts = (value for one in before if isinstance(value := assigned_value(one, state), ast.Call))
    return bool(given) and not any(last_name(one.func) in _STARTS for one in starts)


@warning(
    "recurrent_state_lost",
    "torch.nn.LSTM: h_n has the layers on its first axis, the last layer at its end; the same in paddle",
)
def state_of_first_layer(code: Code, source: Source) -> Iterator[Hit]:
    """Of the last states of several recurrent layers, only those of the first layer are read."""
    for scope, name, kind in _last_states(code, source):
        directions = 2 if _is_bidirectional(kind) else 1
        if _layers(code, kind) < 2:
            continue
        loads = [one for one in of_type(ast.walk(scope), ast.Name) if one.id == name]
        reads = [source.parents.get(one) for one in loads if isinstance(one.ctx, ast.Load)]
        places = [_index(one) if isinstance(one, ast.Subscript) else None for one in reads]
        if places and set(places) <= set(range(directions)):
            yield Hit(reads[0], {"read": ast.unparse(reads[0]), "layers": str(_layers(code, kind))})  # type: ignore[arg-type]


@warning("reshaped_not_permuted", "torch.nn.LSTM: h_n is (layers * directions, batch, features); the same in paddle")
def state_not_transposed(code: Code, source: Source) -> Iterator[Hit]:
    """`view` makes rows of the states of several layers or directions, whose first axis is not the batch."""
    for scope, name, kind in _last_states(code, source):
        if _layers(code, kind) * (2 if _is_bidirectional(kind) else 1) < 2:
            continue
        for call in of_type(ast.walk(scope), ast.Call):
            owner = receiver(call)
            form = call.args[0].elts if call.args and isinstance(call.args[0], (ast.List, ast.Tuple)) else call.args
            is_view = owner is not None and last_name(call.func) in ("view", "reshape") and dotted_target(owner) == name
            if is_view and len(form) == 2 and not _is_assigned_again(scope, name, call):
                yield Hit(call, {"code": ast.unparse(call), "state": name})


@warning(
    "reshaped_not_permuted",
    "PyTorch examples, word_language_model: `batchify` transposes; view fills one row after the other",
)
def stream_interleaved(code: Code, source: Source) -> Iterator[Hit]:
    """A stream is made rows of a batch by `view(-1, batch)`, and the next row is read as the next step of each."""
    for call in code.calls_in(source, "view", "reshape") if any(map(_reads_next_rows, code.sources)) else ():
        stream, function = receiver(call), source.function(call)
        if (
            stream is None
            or len(call.args) != 2
            or _TURNED.search(ast.unparse(function or source.statement(call) or call))
        ):
            continue
        columns, cut = ast.unparse(call.args[1]), code.made(source, stream)
        parts = ast.walk(cut) if isinstance(cut, ast.Subscript) or is_call(cut, "narrow") else ()
        products = (one for one in of_type(parts, ast.BinOp) if isinstance(one.op, ast.Mult))
        if any(columns in (ast.unparse(one.left), ast.unparse(one.right)) for one in products):
            yield Hit(call, {"code": ast.unparse(call), "columns": columns})


def _reads_next_rows(source: Source) -> bool:
    """Whether a file reads the rows `x[i:i + n]` and, as their targets, those that begin at `x[i + 1]`."""
    cuts = (one for one in source.of_type(ast.Subscript) if isinstance(one.slice, ast.Slice) and one.slice.lower)
    starts = {(ast.unparse(one.value), ast.unparse(one.slice.lower)) for one in cuts}  # type: ignore[attr-defined]
    return any((rows, f"{start} + 1") in starts for rows, start in starts)


def _last_states(code: Code, source: Source) -> Iterator[tuple[ast.AST, str, Kind]]:
    """The names that are given the last hidden states of a layer: `h` of `_, (h, _) = self.lstm(x)`."""
    for node in source.nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not isinstance(node.value, ast.Call):  # type: ignore[attr-defined]
            continue
        kind = code.kind(source, node.value.func)  # type: ignore[attr-defined]
        if kind is None or not _RECURRENT.fullmatch(kind.name) or kind.name.endswith("Cell"):
            continue
        last = target.elts[1]
        is_pair = isinstance(last, ast.Tuple) and len(last.elts) == 2
        state = last.elts[0] if isinstance(last, ast.Tuple) and is_pair else last
        if is_pair == kind.name.endswith("LSTM") and isinstance(state, ast.Name):
            yield source.function(node) or source.tree, state.id, kind


def _is_bidirectional(kind: Kind) -> bool:
    text = " ".join(ast.unparse(one) for one in kind.call.keywords)
    return "bidirectional=True" in text or re.search(r"direction='bidirect", text) is not None


def _layers(code: Code, kind: Kind) -> int:
    """The number of layers of a recurrent layer; 0 if it is not written as a number."""
    given = argument(kind.call, 2, "num_layers")
    if given is None:
        return 1
    value = code.made(kind.source, given)
    if value is None and isinstance(given, ast.Name):
        return int(default_number(kind.source, given) or 0)
    return int(number(value) or 0)


def _index(node: ast.Subscript) -> int | None:
    return node.slice.value if isinstance(node.slice, ast.Constant) and type(node.slice.value) is int else None


def _is_assigned_again(scope: ast.AST, name: str, call: ast.Call) -> bool:
    """Whether a name has another value before a call: it was transposed."""
    before = [one for one in ast.walk(scope) if assigns(one, name) and one.lineno < call.lineno]  # type: ignore[attr-defined]
    return len(before) > 1
