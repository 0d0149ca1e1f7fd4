"""Rules about the positions of tokens: missing, the same for all, along the wrong axis, on one side only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import calls_of, is_call
from labbook.review.code_index import Code
from labbook.review.definitions import LAYERS
from labbook.review.expressions import made_of, names_in
from labbook.review.names import assigns, dotted_target, last_name, of_type, walk
from labbook.review.rules.model.attention_scores import TRANSPOSED
from labbook.review.source_file import Source
from labbook.review.violation import Hit, note, warning

_MIXING = frozenset({
    "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer", "Transformer",
    "MultiheadAttention", "MultiHeadAttention",
})  # fmt: skip
_ORDERED = re.compile(
    r"pos|(?<![a-z])time|rope|rotary|alibi|relative|sinus|\bsin\b|arange|cumsum|LSTM|GRU|RNN|Conv|\bset|basket|bag|graph|node"
    r"|permut|slot|unordered|pretrained",
    re.IGNORECASE,
)
"""What may give the order of tokens, or says that they have none."""
_OF_SETS = re.compile(r"Sets?(?=[A-Z]|$)|Bag(?=[A-Z]|$)|Unordered|Permutation|^I?SAB$|^PMA$")
_TIME_IN_FRONT = re.compile(
    r"\(\w+, 1, \w+\)|\[\w+, 1, \w+\]|\[:, 0, [01]::2\]|unsqueeze\(0\)\.transpose\(|unsqueeze\(1\)\)$", re.MULTILINE
)
_TURNED = re.compile(r"transpose\(0, 1\)|permute\(1, 0, 2\)|transpose\(\[1, 0, 2\]\)|swapaxes\(0, 1\)")


@note(
    "positions_missing",
    "Vaswani et al. 2017, 3.5: without positions, attention does not see the order of tokens",
    row="loop-bug",
)
def positions_missing(code: Code, source: Source) -> Iterator[Hit]:
    """A transformer reads the vectors of tokens, and nothing in the file has to do with their positions."""
    models = [node for node in source.of_type(ast.ClassDef) if code.is_module(source, node)]
    # The text has no comments, in which a word about positions proves nothing.
    if not models or not code.calls.get("backward") or _ORDERED.search(ast.unparse(source.tree)):
        return
    for node in models:
        made = list(of_type(ast.walk(node), ast.Call))
        names = {dotted.rpartition(".")[2] for one in made if (dotted := source.dotted(one.func)).startswith(LAYERS)}
        if "Embedding" not in names or not names & _MIXING or _adds_own_tensor(node):
            continue
        first = next(one for one in made if source.dotted(one.func).rpartition(".")[2] == "Embedding")
        yield Hit(first, {"model": node.name, "attention": min(names & _MIXING)})


@note("positions_missing", "Lee et al. 2019, Set Transformer", row="loop-bug", explains=True)
def sets_on_purpose(code: Code, source: Source) -> Iterator[Hit]:
    """A model is named after sets, which have no order."""
    for node in source.of_type(ast.ClassDef):
        if code.is_module(source, node) and _OF_SETS.search(node.name):
            yield Hit(node, {"model": node.name})


@warning("batch_axis_taken_as_time", "tutorial of nn.Transformer: its encoding is (time, 1, features)")
def positions_along_batch(code: Code, source: Source) -> Iterator[Hit]:
    """Encodings of positions for (time, batch, features) are added to (batch, time, features): one to each sample."""
    encoders = ("TransformerEncoderLayer", "MultiHeadAttention")
    in_paddle = (source.dotted(one.func).startswith("paddle.nn.") for one in calls_of(source.nodes, *encoders))
    if not any("batch_first=True" in line for line in source.lines) and not any(in_paddle):
        return
    for node in source.nodes:
        cls = source.class_of(node) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else None
        part = node.right if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Subscript) else None
        if cls is None or part is None or not re.search(r"pe$|pos", ast.unparse(part.value)):
            continue
        taken = part.slice.elts[0] if isinstance(part.slice, ast.Tuple) else part.slice
        upper = ast.unparse(taken.upper) if isinstance(taken, ast.Slice) and taken.upper is not None else ""
        given = ast.unparse(node.left)  # type: ignore[attr-defined]
        if upper not in (f"{given}.size(0)", f"{given}.shape[0]") or not _TIME_IN_FRONT.search(ast.unparse(cls)):
            continue
        # A model may turn its input around the encoding.
        if not _TURNED.search(ast.unparse(source.tree).replace(ast.unparse(cls), "")):
            yield Hit(node, {"code": ast.unparse(node)})


@warning("positions_missing", "Devlin et al. 2019, BERT: positions count from 0")
def positions_all_zero(code: Code, source: Source) -> Iterator[Hit]:
    """The embedding of positions is given zeros: all tokens have one position."""
    for node in source.nodes:
        name = dotted_target(node.targets[0]) if isinstance(node, ast.Assign) and len(node.targets) == 1 else ""
        if not isinstance(node, ast.Assign) or not re.fullmatch(r"pos|positions?|pos(?:ition)?_ids?", name):
            continue
        inside = list(ast.walk(source.function(node) or source.tree))
        above = [source.parents.get(one) for one in inside if isinstance(one, ast.Name) and one.id == name]
        looked_up = any(isinstance(one, ast.Call) and re.search(r"pos|wpe", ast.unparse(one.func)) for one in above)
        # Zeros that are written to, or replaced, are no positions yet.
        final = sum(assigns(one, name) for one in inside) == 1 and not any(
            isinstance(one, ast.Subscript) for one in above
        )
        made = is_call(node.value, "zeros", "zeros_like")
        if made and looked_up and final:
            yield Hit(node, {"code": ast.unparse(node)})


@warning("positions_missing", "Su et al. 2021, RoFormer, equation 16: queries and keys are rotated")
def rotated_queries_only(code: Code, source: Source) -> Iterator[Hit]:
    """A rotary embedding turns the queries of an attention and not its keys, or the other way round."""
    for node in source.nodes:
        function = source.function(node)
        sides = _score_sides(source, node) if function is not None else []
        if function is None or not sides or "softmax" in names_in(code, source, sides[0]):
            continue
        turned = [[one for one in made_of(code, source, side) if _is_rotation(code, source, one)] for side in sides]
        found = [one for side in turned for one in side]
        other = sides[0] if turned[1] else sides[1]
        names = {dotted_target(one) for one in ast.walk(other)} - {""}
        is_local = any(assigns(one, name) for one in walk(function.body) for name in names)
        elsewhere = any("rot" in one.lower() or "rope" in one.lower() for one in names_in(code, source, other))
        if len(found) == 1 and is_local and not elsewhere and _is_read_once(code, found[0]):
            yield Hit(found[0], {"call": ast.unparse(found[0]), "other": ast.unparse(other)})


def _adds_own_tensor(model: ast.ClassDef) -> bool:
    """Whether a parameter or buffer of a model is added to something: it may be positions, whatever it is called."""
    inside = list(ast.walk(model))
    assigned = [one for one in of_type(inside, ast.Assign) if is_call(one.value, "Parameter", "create_parameter")]
    own = {last_name(target) for one in assigned for target in one.targets} - {""}
    buffers = (one.args[0] for one in calls_of(inside, "register_buffer") if one.args)
    own |= {str(name.value) for name in buffers if isinstance(name, ast.Constant)}
    sums = [one for one in inside if isinstance(one, (ast.BinOp, ast.AugAssign)) and isinstance(one.op, ast.Add)]
    return any(part.attr in own for one in sums for part in of_type(ast.walk(one), ast.Attribute))


def _score_sides(source: Source, node: ast.AST) -> list[ast.expr]:
    """Return the queries and the keys of a product of scores, or nothing."""
    if is_call(node, "scaled_dot_product_attention"):
        return node.args[:2] if len(node.args) > 2 else []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        sides = [node.left, node.right]
    elif is_call(node, "matmul") and source.dotted(node.func):
        sides = node.args[:2]
    else:
        return []
    return sides if len(sides) == 2 and TRANSPOSED.search(ast.unparse(node)) else []


def _is_rotation(code: Code, source: Source, node: ast.AST) -> bool:
    """Whether a node calls a function or module of the program that returns `a * cos - b * sin`."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    followed, kind = code.function_named(source, node.func), code.kind(source, node.func)
    if followed is None and kind is not None and kind.definition is not None:
        followed = code.method(*kind.definition, "forward")
    sums = of_type(ast.walk(followed[1]), ast.BinOp) if followed is not None else ()
    return followed is not None and any(_adds_cosine_and_sine(code, followed[0], one) for one in sums)


def _adds_cosine_and_sine(code: Code, source: Source, node: ast.BinOp) -> bool:
    """Whether a sum or difference is that of a product with a cosine and one with a sine."""
    sides = [one for one in (node.left, node.right) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)]
    used = [{one for one in ("cos", "sin") if one in " ".join(names_in(code, source, side))} for side in sides]
    return isinstance(node.op, (ast.Add, ast.Sub)) and used in ([{"cos"}, {"sin"}], [{"sin"}, {"cos"}])


def _is_read_once(code: Code, call: ast.AST) -> bool:
    """Whether the function or module of a call is read nowhere else in the program."""
    name = last_name(call.func)  # type: ignore[attr-defined]
    reads = (one for source in code.sources for one in source.nodes if last_name(one) == name)
    return sum(isinstance(getattr(one, "ctx", None), ast.Load) for one in reads) == 1
