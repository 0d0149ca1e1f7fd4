"""Rules about values and layers inside a forward: computed and never used, joined with themselves, made anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.definitions import LAYERS
from labbook.review.expressions import number
from labbook.review.gradient_flow import is_under_no_grad
from labbook.review.names import Function, dotted_target, last_name, of_type, parameters, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, error, note, warning

_SHORTCUT = re.compile(r"(?:^|_)(?:identity|residual|shortcut|skip|res)(?:$|_)", re.IGNORECASE)
_NO_TENSOR = re.compile(
    r"\b(?:shape|size|len|device|dtype|dim|ndim|int|float|str|getattr|isinstance|range|time|item|is_available|type|print"
    r"|clone|training|bool|numel|get|pop|warn|warning|next|list|tuple|dict|id|format|is_scripting|is_tracing|finfo)\b"
)
_MATTERS = re.compile(
    r"mask|pad|len|adj|edge|memory|context|cond|emb|state|hidden|enc|^t$|time|weight|pos|skip|residual|start|offset|^pe$",
    re.IGNORECASE,
)
_HIDES_OR_ORDERS = re.compile(r"mask|tril|triu|causal|pos(?:ition)?s?(?:$|_)|^pe$|sinusoid|freqs", re.IGNORECASE)
_READS_BUFFERS = ("buffers", "named_buffers", "get_buffer", "_buffers", "getattr", "vars", "__dict__")
_FACTOR = re.compile(r"(?:^|_)(?:coeff?|coefficient|lambda\d?|lambd|weight)$", re.IGNORECASE)
_MOST_ARGUMENTS = 4
_LOOKS_UP = ("locals", "vars", "eval", "exec")
_JOINS = ("torch.cat", "torch.concat", "torch.concatenate", "paddle.concat")
_WITH_PARAMETERS = re.compile(
    r"(?:torch|paddle)\.nn\.(?:Linear|Conv\w+|BatchNorm\w*|LayerNorm|GroupNorm|Embedding|(?:Simple)?RNN|LSTM|GRU|Bilinear"
    r"|Multi[Hh]eadAttention|Transformer\w*|PReLU)"
)
_LAYER_LISTS = ("nn.ModuleList", "nn.LayerList")
_SHARED = re.compile(r"(?:^|_|\.)(?:shared?|tied|common|recurrent)(?:$|_)", re.IGNORECASE)
_DROPOUT = re.compile(r"(?:torch|paddle)\.nn\.(?:Alpha)?Dropout\w*")
_ACTIVATION = re.compile(
    r"(?:torch|paddle)\.nn\.(?:\w*ReLU6?|\w*ELU|Tanh|\w*[Ss]igmoid|Softmax|LogSoftmax|SiLU|Mish|\w+Pool\dd|Flatten)"
)
_FUNCTIONS = ("torch.nn.functional.", "paddle.nn.functional.")
_NEW_TENSORS = frozenset(
    {
        "unsqueeze",
        "squeeze",
        "permute",
        "transpose",
        "view",
        "reshape",
        "flatten",
        "clamp",
        "softmax",
        "relu",
        "sigmoid",
    }
)
"""Methods that leave a tensor as it is and return another one."""


def _forwards(code: Code, source: Source) -> Iterator[tuple[ast.ClassDef, Function]]:
    for cls in source.of_type(ast.ClassDef):
        found = next((one for one in cls.body if isinstance(one, ast.FunctionDef) and one.name == "forward"), None)
        if found is not None and code.is_module(source, cls):
            yield cls, found


@warning("value_never_used", "PyFlakes: local variable is assigned but never used")
def unused_value(code: Code, source: Source) -> Iterator[Hit]:
    """A forward computes a value, such as a mask or a shortcut, and nothing reads it."""
    for cls, forward in _forwards(code, source):
        nodes = list(ast.walk(forward))
        if any(is_call(one, *_LOOKS_UP) for one in nodes):
            continue
        statements = [one for one in of_type(walk(forward.body), ast.Assign) if len(one.targets) == 1]
        read = _read_names(source, nodes)
        for node in statements:
            name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
            if name and name not in read and not name.startswith("_") and _is_computed(name, node.value):
                yield Hit(node, {"name": name, "model": cls.name}, _severity(name))
                break


def _read_names(source: Source, nodes: list[ast.AST]) -> set[str]:
    """The names that are read other than to make their own next value."""
    read = set()
    for node in of_type(nodes, ast.Name):
        if not isinstance(node.ctx, ast.Store):
            statement = source.statement(node)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if not isinstance(target, ast.Name) or target.id != node.id:
                read.add(node.id)
    return read


def _is_computed(name: str, value: ast.expr) -> bool:
    """Whether a value is computed from tensors, or is what a shortcut should add."""
    if isinstance(value, ast.Name):
        return _SHORTCUT.search(name) is not None
    is_result = isinstance(value, (ast.Call, ast.BinOp, ast.Compare, ast.UnaryOp)) and not isinstance(
        value, ast.Constant
    )
    return is_result and not _NO_TENSOR.search(ast.unparse(value))


@warning("value_never_used", "PyFlakes: local variable is assigned but never used")
def unused_input(code: Code, source: Source) -> Iterator[Hit]:
    """A forward is given a value, such as a mask, an adjacency matrix or a position, and never reads it."""
    forwards = list(_forwards(code, source))
    for cls, forward in forwards:
        names = [one.arg for one in forward.args.args][1:]
        required = len(names) - len(forward.args.defaults)
        body = [one for one in forward.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
        # Classes of one signature can take each other's place, unless one is made of the other.
        twins = (one for one, other in forwards if [arg.arg for arg in other.args.args][1:] == names)
        alike = any(one is not cls and cls.name not in ast.unparse(one) for one in twins)
        # A long list of arguments with defaults is an interface, which may keep what it does not need any more.
        is_interface = bool(forward.args.defaults) and len(names) > _MOST_ARGUMENTS
        if len(names) < 2 or alike or is_interface or forward.args.kwarg or cls.decorator_list:
            continue
        if not body or isinstance(body[0], (ast.Raise, ast.Pass)) or code.lineage(source, cls)[1:]:
            continue
        nodes = [one for part in forward.body for one in ast.walk(part)]
        if any(is_call(one, *_LOOKS_UP) for one in nodes):
            continue
        read = _read_names(source, nodes)
        for at, name in enumerate(names):
            if name in read or name.startswith("_") or "unused" in name:
                continue
            if _is_called_with(code, cls, at, name if at >= required else ""):
                yield Hit(forward, {"name": name, "model": cls.name}, _severity(name))
            break


def _severity(name: str) -> str:
    """A note, unless the name of what is not used says that it matters: it may only be left over."""
    return "" if _MATTERS.search(name) else "note"


def _is_called_with(code: Code, cls: ast.ClassDef, at: int, optional: str) -> bool:
    """Whether the program itself passes a model its argument number `at`; a library, such as a solver, may have to.

    Args:
        optional: Name of an argument with a default. It counts where it is computed: a constant, or a default that is
            passed on, may only fill a signature.
    """
    for source in code.sources:
        for call in source.of_type(ast.Call):
            named = [one.value for one in call.keywords if one.arg == optional and optional]
            given = call.args[at] if len(call.args) > at else next(iter(named), None)
            if given is None or (optional and not _is_computed_for(source, given)):
                continue
            kind = code.kind(source, call.func)
            # `cls(...)` makes the model, `cls(...)(x)` calls it.
            if kind is not None and kind.definition == (source, cls) and code.class_named(source, call.func) is None:
                return True
    return False


def _is_computed_for(source: Source, given: ast.expr) -> bool:
    """Whether an argument is more than a constant, or a parameter with a default that is passed on."""
    function = source.function(given)
    arguments = function.args if function is not None else None
    defaults = arguments.args[len(arguments.args) - len(arguments.defaults) :] if arguments is not None else []
    optional = {one.arg for one in [*defaults, *(arguments.kwonlyargs if arguments is not None else ())]}
    return not isinstance(given, ast.Constant) and dotted_target(given) not in optional


@warning("value_never_used", "PyFlakes: local variable is assigned but never used")
def unread_buffer(code: Code, source: Source) -> Iterator[Hit]:
    """A model registers a mask or a table of positions as a buffer, and no line of the program reads it."""
    if any(code.loaded.get(name) or code.calls.get(name) for name in _READS_BUFFERS):
        return
    for call in (one for _, one in code.calls.get("register_buffer", ()) if one in source.parents and one.args):
        cls, name = source.class_of(call), getattr(call.args[0], "value", None)
        if cls is None or not isinstance(name, str) or not _HIDES_OR_ORDERS.search(name) or code.loaded.get(name):
            continue
        value = call.args[1] if len(call.args) > 1 else None
        if is_call(value, "tensor", "to_tensor") and value.args and number(value.args[0]) is not None:
            continue
        # A model that makes its mask in the forward keeps the buffer for old checkpoints.
        made = [one for one in of_type(ast.walk(cls), ast.Name) if one.id == name]
        if code.is_module(source, cls) and {source.function(one) for one in made} <= {source.function(call)}:
            yield Hit(call, {"name": name, "model": cls.name})


@warning("value_never_used", "chosen by us: a factor of a loss that no line reads")
def unread_factor(code: Code, source: Source) -> Iterator[Hit]:
    """An object stores the factor of a term that it was given, and no line of the program reads it."""
    if any(code.calls.get(name) or code.loaded.get(name) for name in (*_READS_BUFFERS, "hparams")):
        return
    for made in (one for one in source.of_type(ast.Assign) if len(one.targets) == 1):
        function, given, target = source.function(made), made.value, made.targets[0]
        cls = source.class_of(made)
        if cls is None or function is None or function.name != "__init__" or not isinstance(given, ast.Name):
            continue
        name = target.attr if isinstance(target, ast.Attribute) and dotted_target(target.value) == "self" else ""
        if not _FACTOR.search(name) or given.id not in parameters(function) or code.loaded.get(name):
            continue
        uses = [one for one in of_type(walk(function.body), ast.Name) if one.id == given.id]
        # Of a class that is only inherited from, another file may read it.
        if len(uses) == 1 and code.calls.get(cls.name):
            yield Hit(made, {"name": f"self.{name}", "model": cls.name})


@warning("value_never_used", "Ronneberger et al. 2015, U-Net: a skip connection joins two values")
def joined_with_itself(code: Code, source: Source) -> Iterator[Hit]:
    """A forward joins the output of a layer with itself along the features, where it should join another value."""
    for _, forward in _forwards(code, source):
        for node in of_type(walk(forward.body), ast.Call):
            if source.dotted(node.func) not in _JOINS or not node.args:
                continue
            parts = node.args[0].elts if isinstance(node.args[0], (ast.List, ast.Tuple)) else []
            axis = argument(node, 1, "dim", "axis")
            names = [dotted_target(one) for one in parts]
            if len(names) != 2 or not names[0] or names[0] != names[1] or axis is None or ast.unparse(axis) == "0":
                continue
            made = code.made(source, parts[0])
            kind = code.kind(source, made.func) if isinstance(made, ast.Call) else None
            if kind is not None and (kind.definition is not None or _WITH_PARAMETERS.fullmatch(kind.name)):
                yield Hit(node, {"code": ast.unparse(node), "name": names[0]})


@warning("value_never_used", "torch.nn.Module: a layer returns its output and leaves its input as it is")
def result_dropped(code: Code, source: Source) -> Iterator[Hit]:
    """A forward calls a layer, or a function of tensors, and does not use what it returns."""
    for _, forward in _forwards(code, source):
        for node in walk(forward.body):
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and _only_returns(code, source, call) and not is_under_no_grad(source, call):
                yield Hit(node, {"code": ast.unparse(call)})


def _only_returns(code: Code, source: Source, call: ast.Call) -> bool:
    """Whether a call of a layer, a function or a method of tensors changes none of its arguments."""
    kind, name = code.kind(source, call.func), last_name(call.func)
    made = [call, kind.call] if kind is not None and kind.definition is None else [call]
    if any(
        getattr(one, "value", None) is True for its in made for one in [*its.args, *(k.value for k in its.keywords)]
    ):
        return False
    if kind is not None:
        return any(one.fullmatch(kind.name) for one in (_WITH_PARAMETERS, _DROPOUT, _ACTIVATION))
    if source.dotted(call.func):
        return source.dotted(call.func).startswith(_FUNCTIONS) and not name.endswith("_")
    return name in _NEW_TENSORS and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)


@error("unregistered_parameters", "torch.nn.Module: parameters are those of its attributes", row="activation")
def layer_made_in_forward(code: Code, source: Source) -> Iterator[Hit]:
    """A forward makes a layer with parameters at each call: its weights are random each time and never trained."""
    for node, layer in _made_in_forward(code, source):
        if _WITH_PARAMETERS.fullmatch(layer):
            yield Hit(node, {"layer": ast.unparse(node)})


@error("dropout_active_in_eval", "torch.nn.Module: a new module is in training mode", row="loop-bug")
def dropout_made_in_forward(code: Code, source: Source) -> Iterator[Hit]:
    """A forward makes a dropout layer at each call, which `eval()` does not reach."""
    for node, layer in _made_in_forward(code, source):
        modes = [one for one in source.parents_of(node) if isinstance(one, (ast.If, ast.IfExp))]
        if _DROPOUT.fullmatch(layer) and not any("train" in ast.unparse(one.test) for one in modes):
            yield Hit(node, {"layer": ast.unparse(node)})


def _made_in_forward(code: Code, source: Source) -> Iterator[tuple[ast.Call, str]]:
    """The layers that a forward makes and calls, without writing to them: the call that makes each, and its class."""
    for _, forward in _forwards(code, source):
        for node in walk(forward.body):
            layer = source.dotted(node.func) if isinstance(node, ast.Call) else ""
            if not isinstance(node, ast.Call) or not layer.startswith(LAYERS):
                continue
            above = source.parents.get(node)
            if isinstance(above, ast.Call) and above.func is node:
                yield node, layer
            elif isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name) and above.value is node:
                name = above.targets[0].id
                uses = [source.parents.get(one) for one in of_type(ast.walk(forward), ast.Name) if one.id == name]
                called = [one for one in uses if isinstance(one, ast.Call) and dotted_target(one.func) == name]
                if called and not any(isinstance(one, ast.Attribute) for one in uses):
                    yield node, layer


@warning("layers_share_weights", "torch.nn.BatchNorm1d: running statistics of one input")
def shared_batch_norm(code: Code, source: Source) -> Iterator[Hit]:
    """One batch norm normalises the outputs of several layers, so that its running statistics fit none of them."""
    for _, forward in _forwards(code, source):
        fed: dict[str, set[str]] = {}
        for node in of_type(walk(forward.body), ast.Call):
            if len(node.args) != 1:
                continue
            kind = code.kind(source, node.func)
            made = code.made(source, node.args[0])
            name = dotted_target(node.func)
            if kind is None or not re.search(r"\.nn\.BatchNorm\w*$", kind.name) or not isinstance(made, ast.Call):
                continue
            before = code.kind(source, made.func)
            if before is not None and _WITH_PARAMETERS.fullmatch(before.name):
                fed.setdefault(name, set()).add(dotted_target(made.func))
                if len(fed[name]) == 2 and name.startswith("self."):
                    yield Hit(node, {"norm": name, "layers": " and ".join(sorted(fed[name]))})


@note("layers_share_weights", "Lan et al. 2020, ALBERT: cross-layer parameter sharing", row="loop-bug", explains=True)
def listed_on_purpose(code: Code, source: Source) -> Iterator[Hit]:
    """A list of layers is written with one name several times, or with a name that says that it is shared."""
    for node in source.nodes:
        holds_layers = isinstance(node, ast.Call) and source.dotted(node.func).endswith(_LAYER_LISTS)
        for given in node.args if holds_layers else ():  # type: ignore[attr-defined]
            if name := _listed_name(given):
                yield Hit(node, {"name": name})


def _listed_name(node: ast.expr) -> str:
    """Return `block` of `[block, block]` and `shared_block` of `[shared_block] * n`; "" if sharing may be a mistake."""
    if isinstance(node, ast.List) and len(node.elts) > 1:
        names = {dotted_target(one) for one in node.elts}
        return names.pop() if len(names) == 1 else ""
    repeated = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else None
    one = repeated.elts[0] if isinstance(repeated, ast.List) and len(repeated.elts) == 1 else None
    one = node.elt if isinstance(node, ast.ListComp) else one
    name = dotted_target(one) if one is not None else ""
    return name if _SHARED.search(name) else ""
