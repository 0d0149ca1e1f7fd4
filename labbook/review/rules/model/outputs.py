"""Rules about what a model is given and returns: its arguments, the axis of its classes, the labels of its outputs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.definitions import LAYERS
from labbook.review.expressions import axis_of, input_and_axis, without_form
from labbook.review.keras_models import keras_activation, last_keras_layer
from labbook.review.names import LOOPS, SCOPES, assigns, dotted_target, last_name, of_type, parameters, returned_values
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_ENTROPIES = ("cross_entropy", "criterion", "loss_fn", "ce", "ce_loss")
_NORMALISE = ("torch.nn.functional.normalize", "paddle.nn.functional.normalize")
CRITIC = re.compile(r"(?:^|_|\.)(?:d|net_?d|disc|discriminator|critic)(?:$|_)", re.IGNORECASE)
GENERATOR = re.compile(r"(?:^|_|\.)(?:g|net_?g|gen|generator)(?:$|_)", re.IGNORECASE)


@warning(
    "accuracy_contradicts_loss",
    "torch.argmax: the index of the largest element, which is 0 among one; the same in paddle",
)
def argmax_of_one(code: Code, source: Source) -> Iterator[Hit]:
    """The class is the largest of the outputs of a model that has a single one, and so is always 0."""
    for call in code.calls_in(source, "argmax"):
        given, axis = input_and_axis(source, call)
        if given is None or axis not in (1, -1):
            continue
        made = code.made(source, given)
        end = _last_layer(code, source, made.func) if isinstance(made, ast.Call) else None
        size = argument(end.call, 1, "out_features") if end is not None and end.name.endswith("nn.Linear") else None
        if isinstance(made, ast.Call) and isinstance(size, ast.Constant) and size.value == 1:
            yield Hit(call, {"call": ast.unparse(call), "model": ast.unparse(made.func)})


@warning(
    "reshaped_not_permuted",
    "torch.Tensor.view: the elements keep their order; `permute` changes it; the same in paddle",
)
def logits_not_permuted(code: Code, source: Source) -> Iterator[Hit]:
    """The loss is given (-1, classes) that `view` or `reshape` makes of (samples, classes, height, width)."""
    for name in _ENTROPIES:
        for call in code.calls_in(source, name):
            shaped = code.made(source, call.args[0]) if call.args else None
            if not is_call(shaped, "view", "reshape"):
                continue
            of_module = bool(source.dotted(shaped.func))
            given = shaped.args[0] if of_module else shaped.func.value  # type: ignore[attr-defined]
            form = shaped.args[1 if of_module else 0 :]
            form = form[0].elts if len(form) == 1 and isinstance(form[0], (ast.List, ast.Tuple)) else form
            origins = code.origins(source, given)  # of a parameter, what the only call gives it
            where, made = origins[0] if len(origins) == 1 else (source, code.made(source, given))
            end = _last_layer(code, where, made.func) if isinstance(made, ast.Call) else None
            # A picture of one point has one label, which nobody flattens.
            labels = call.args[1] if len(call.args) > 1 else None
            flat = is_call(labels, "view", "reshape", "flatten")
            rows = flat and len(form) == 2 and ast.unparse(form[0]) == "-1"
            if (
                rows
                and end is not None
                and end.name.rpartition(".")[2].lower().startswith(("conv2d", "conv3d", "convt"))
            ):
                yield Hit(shaped, {"code": ast.unparse(shaped)})


def _last_layer(code: Code, source: Source, model: ast.expr, depth: int = 0) -> Kind | None:
    """The layer of which a model returns the output as it is; `None` if that is unknown."""
    kind = code.kind(source, model) if depth < 4 else None
    if kind is None:
        return None
    if kind.definition is not None:
        forward = code.method(*kind.definition, "forward")
        ends = returned_values(forward[1]) if forward else []
        last = ends[0] if len(ends) == 1 else None
        last = code.made(forward[0], last) if forward is not None and last is not None else None
        return _last_layer(code, forward[0], last.func, depth + 1) if forward and isinstance(last, ast.Call) else None
    if kind.name.endswith("nn.Sequential") and kind.call.args:
        return _last_layer(code, kind.source, kind.call.args[-1], depth + 1)
    return kind


@warning("adversaries_not_opposed", "Goodfellow et al. 2014, equation 1")
def same_label(code: Code, source: Source) -> Iterator[Hit]:
    """A discriminator is trained to give real and generated samples the same label."""
    judged = _judged_samples(code, source)
    fakes = [one for one in judged if one[3].endswith(".detach()")]
    for call, loss, critic, fake in fakes if len(fakes) == 1 else ():
        label = dotted_target(call.args[1])
        for other, its, judge, sample in judged:
            same = label and (its, judge, dotted_target(other.args[1])) == (loss, critic, label)
            is_real = sample not in (fake, fake.removesuffix(".detach()"))
            near = is_real and source.function(other) is source.function(call)
            if same and near and not _is_written(source, label, other.lineno, call.lineno):
                yield Hit(call, {"label": label, "critic": critic})
                break


def _judged_samples(code: Code, source: Source) -> list[tuple[ast.Call, str, str, str]]:
    """The losses of the scores of a discriminator: each with the names of the loss and the critic, and the sample."""
    judged: list[tuple[ast.Call, str, str, str]] = []
    for call in (node for node in source.of_type(ast.Call) if len(node.args) == 2):
        score = without_form(call.args[0])
        score = without_form(code.made(source, score) or score)
        if isinstance(score, ast.Call) and len(score.args) == 1 and CRITIC.search(dotted_target(score.func)):
            judged.append((call, ast.unparse(call.func), ast.unparse(score.func), ast.unparse(score.args[0])))
    return judged


@warning("adversaries_not_opposed", "Goodfellow et al. 2014, section 3: maximise log D(G(z))")
def generator_given_fake_label(code: Code, source: Source) -> Iterator[Hit]:
    """The generator is trained towards the label that the discriminator learns for generated samples."""
    judged = _judged_samples(code, source)
    for call, loss, critic, fake in (one for one in judged if one[3].endswith(".detach()")):
        label, sample = ast.unparse(call.args[1]), fake.removesuffix(".detach()")
        for other, *its in judged:
            same = [*its, ast.unparse(other.args[1])] == [loss, critic, sample, label]
            if (
                same
                and not _may_be_negated(source, other)
                and not _is_written(source, label, call.lineno, other.lineno)
            ):
                yield Hit(other, {"label": label, "critic": critic})


def _may_be_negated(source: Source, loss: ast.Call) -> bool:
    """Whether a loss is subtracted or has a minus, here or where the name that it is given is used."""
    statement = source.statement(loss)
    name = dotted_target(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    outer = [getattr(one, "op", None) for one in source.parents_of(loss)]
    is_turned = any(isinstance(one, (ast.Sub, ast.USub)) for one in outer)
    return is_turned or not name or re.search(rf"-\s*{re.escape(name)}\b", "\n".join(source.lines)) is not None


def _is_written(source: Source, name: str, one: int, other: int) -> bool:
    """Whether a label is assigned or filled anew between two lines."""
    low, high = sorted((one, other))
    for node in source.nodes:
        if low <= getattr(node, "lineno", 0) <= high:
            filled = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
            )
            if assigns(node, name) or (filled and dotted_target(node.func.value) == name):  # type: ignore[attr-defined]
                return True
    return False


_SIMILARITIES = re.compile(r"dice|iou|jaccard|tversky|ssim", re.IGNORECASE)


@warning("similarity_minimised", "Milletari et al. 2016, V-Net: the loss is 1 - dice")
def similarity_as_loss(code: Code, source: Source) -> Iterator[Hit]:
    """A loss returns an overlap itself, which training then makes as small as possible."""
    if not code.calls.get("backward"):
        return
    for node in source.nodes:
        owner = source.class_of(node) if isinstance(node, ast.FunctionDef) else None
        name = owner.name if owner is not None else getattr(node, "name", "")
        if not isinstance(node, ast.FunctionDef) or not _SIMILARITIES.search(name) or "loss" not in name.lower():
            continue
        returned = [value for value in returned_values(node) if value is not None]
        text = "\n".join(ast.unparse(one) for one in node.body)
        is_score = bool(returned) and re.search(r"2(?:\.0?)? \* |inter", text) is not None and "/" in text
        turned = re.search(r"1(?:\.0?)? - |return -|= -|\blog\w*\(|cosh|\bneg", text)
        uses = re.search(
            rf"(?:1(?:\.0?)? - |-)\s*(?:\w+\.)*{re.escape(name)}\(|(?:- |-)(?:\w+_)*{name.replace('_loss', '')}\b",
            ast.unparse(source.tree),
        )
        if is_score and not turned and not uses and node.name in (name, "forward") and _is_used_as_loss(source, name):
            yield Hit(returned[0], {"loss": name})


def _is_used_as_loss(source: Source, name: str) -> bool:
    """Whether the result of a function, or of an object of a class, is assigned to a loss of this file."""
    made = {name} | {
        dotted_target(one.targets[0])
        for one in source.of_type(ast.Assign)
        if isinstance(one.value, ast.Call) and last_name(one.value.func) == name
    }
    return any(
        isinstance(one, ast.Assign)
        and "loss" in dotted_target(one.targets[0])
        and any(isinstance(call, ast.Call) and dotted_target(call.func) in made for call in ast.walk(one.value))
        for one in source.nodes
    )


_LOSS = re.compile(r"loss|criterion|mse|mae|entropy|nll|(?:^|_)ce$|bce|l1_", re.IGNORECASE)


@warning("dropout_after_output", "Srivastava et al. 2014: dropout of hidden and input units")
def dropout_of_outputs(code: Code, source: Source) -> Iterator[Hit]:
    """The last layer of a model whose output goes into a loss is a dropout: predictions are set to 0 at random."""
    for call in (node for node in source.of_type(ast.Call) if len(node.args) >= 2):
        made = code.made(source, without_form(call.args[0])) if _LOSS.search(last_name(call.func)) else None
        if not isinstance(made, ast.Call):
            continue
        end = _last_layer(code, source, made.func)
        if end is not None and re.fullmatch(r"(?:torch|paddle)\.nn\.Dropout\w*", end.name):
            yield Hit(end.call, {"layer": ast.unparse(end.call), "model": ast.unparse(made.func)})
            return


@warning("softmax_wrong_axis", "torch.nn.functional.normalize: dim=1 by default; the same in paddle")
def normalised_over_batch(code: Code, source: Source) -> Iterator[Hit]:
    """The embeddings that a layer returns are normalised over the samples of a batch, not each by itself."""
    for call in code.calls_in(source, "normalize"):
        dotted = source.dotted(call.func)
        if dotted not in _NORMALISE or axis_of(call, 2) != 0 or not call.args:
            continue
        made = code.made(source, call.args[0])
        kind = code.kind(source, made.func) if isinstance(made, ast.Call) else None
        if kind is not None and (kind.definition is not None or kind.name.startswith(LAYERS)):
            yield Hit(call, {"code": ast.unparse(call)})


_OPPOSITE = re.compile(r"backward|inver|revers|undo|transpose|swap", re.IGNORECASE)
"""Functions that exchange two arguments on purpose, as the backward of a scatter, which gathers."""


@warning(
    "arguments_swapped", "Rice et al. 2017, Detecting argument selection defects: names of arguments and of parameters"
)
def arguments_exchanged(code: Code, source: Source) -> Iterator[Hit]:
    """A call of a model or function of the program gets two values at each other's place, by the names of both."""
    for node in (one for one in source.of_type(ast.Call) if len(one.args) > 1):
        names = _parameters_of(code, source, node.func)
        given = [last_name(without_form(one)) for one in node.args]
        pairs = zip(names, given, strict=False)
        places = [at for at, (name, its) in enumerate(pairs) if len(name) > 1 and its in names and its != name]
        if len(places) != 2 or [names[at] for at in places] != [given[at] for at in reversed(places)]:
            continue
        function = source.function(node)
        if function is not None and _OPPOSITE.search(function.name):
            continue
        scope = next((one for one in source.parents_of(node) if isinstance(one, (*LOOPS, *SCOPES))), source.tree)
        right = [names[at] for at in places]
        # A decoder is given the sizes of its encoder at each other's place.
        others = of_type(ast.walk(scope), ast.Call)
        in_order = (
            [last_name(without_form(one.args[at])) for at in places] for one in others if len(one.args) > places[1]
        )
        if right not in in_order:
            yield Hit(node, {"call": ast.unparse(node), "first": right[0], "second": right[1]})


def _parameters_of(code: Code, source: Source, func: ast.expr) -> list[str]:
    """The parameters of the function, of the `__init__` or of the `forward` that a call runs, without `self`."""
    cls, kind = code.class_named(source, func), code.kind(source, func)
    if cls is not None:
        followed = code.method(*cls, "__init__")
    elif kind is not None and kind.definition is not None:
        followed = code.method(*kind.definition, "forward")
    else:
        followed = code.function_named(source, func)
    names = parameters(followed[1]) if followed is not None else []
    return names[1:] if names[:1] == ["self"] else names


_PROBABILITIES = re.compile(r"(?:binary|(?:sparse_?)?categorical)_?crossentropy$", re.IGNORECASE)
_UNBOUNDED = ("relu", "tanh", "elu", "selu", "gelu", "leaky_relu", "softplus", "swish", "silu")


@warning("loss_activation_mismatch", "keras.losses: cross entropies expect probabilities or logits")
def keras_output_activation(code: Code, source: Source) -> Iterator[Hit]:
    """The last layer of a Keras model has the activation of a hidden layer, and the loss takes it for probabilities."""
    for call in code.calls_in(source, "compile"):
        given = argument(call, 1, "loss")
        is_default = isinstance(given, ast.Call) and not given.args and not given.keywords
        loss = str(given.value) if isinstance(given, ast.Constant) else last_name(given.func) if is_default else ""  # type: ignore[union-attr]
        last = last_keras_layer(code, source, receiver(call)) if _PROBABILITIES.match(loss) else None
        if last is not None and keras_activation(last) in _UNBOUNDED:
            right = "sigmoid" if loss.lower().startswith("binary") else "softmax"
            yield Hit(last, {"loss": loss, "given": keras_activation(last), "right": right})


@warning("metric_of_wrong_values", "transformers.Trainer.predict: predictions, label_ids, metrics")
def labels_for_predictions(code: Code, source: Source) -> Iterator[Hit]:
    """The labels that `predict` of a trainer returns second are used, and the predictions before them never."""
    for node in source.of_type(ast.Assign):
        names = [last_name(one) for one in getattr(node.targets[0], "elts", [])]
        owner = receiver(node.value) if is_call(node.value, "predict") and len(names) == 3 else None
        kind = code.kind(source, owner)
        if kind is None or not kind.name.endswith("Trainer") or names[0].startswith("_"):
            continue
        read = {last_name(one) for one in source.of_type(ast.Name) if isinstance(one.ctx, ast.Load)}
        if names[0] not in read and names[1] in read:
            yield Hit(node, {"predictions": names[0], "labels": names[1]})
