"""Rules about schedules and the best epoch: the metric that they follow, the length of a cycle, what is never used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from labbook.model.metric_kinds import metric_kind
from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.expressions import number
from labbook.review.gradient_flow import is_optimizer, is_scheduler
from labbook.review.metric_direction import direction_of, metric_name
from labbook.review.names import (
    LOOPS,
    assigned_value,
    assigns,
    dotted_target,
    last_name,
    last_names,
    loop_of,
    member_key,
    of_type,
    walk,
)
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_WATCHED = {
    **dict.fromkeys(("EarlyStopping", "ModelCheckpoint"), "monitor"),
    **dict.fromkeys(("TrainingArguments", "Seq2SeqTrainingArguments"), "metric_for_best_model"),
}
"""What chooses the best epoch, and the name of its argument that is the metric."""

_OPPOSITES = (
    {"min": "mode='min'", "max": "mode='max'"},
    {"min": "greater_is_better=False", "max": "greater_is_better=True"},
    {"min": "lower_is_better=True", "max": "lower_is_better=False"},
)
_SETTINGS = {setting: pair for pair in _OPPOSITES for setting in pair.values()}
_DEFAULTS = {
    **dict.fromkeys(("lightning", "pytorch_lightning"), "mode='min'"),
    "skorch": "lower_is_better=True",
}
"""Settings of libraries that do not derive the direction from the name of the metric."""

_ONE_NAME = re.compile(r"^[^{]*best[^{]*$")
"""A path of the best checkpoint without the number of an epoch in it."""

_PLATEAU = ("torch.optim.lr_scheduler.ReduceLROnPlateau", "paddle.optimizer.lr.ReduceOnPlateau")


@warning("lr_schedule_wrong", "torch.optim.lr_scheduler.ReduceLROnPlateau: mode='min' by default; the same in paddle")
def schedule_direction(code: Code, source: Source) -> Iterator[Hit]:
    """A schedule that waits for a metric to fall is given one that rises, or the other way round."""
    for call in code.calls_in(source, "step"):
        if not call.args or not isinstance(call.func, ast.Attribute):
            continue
        kind = code.kind(source, call.func.value)
        if kind is None or kind.name not in _PLATEAU:
            continue
        mode = argument(kind.call, 1, "mode")
        wanted = "min" if mode is None else getattr(mode, "value", "")
        direction = direction_of(code, source, call.args[0])
        if wanted in ("min", "max") and direction in ("min", "max") and direction != wanted:
            yield Hit(call, {"metric": metric_name(call.args[0]), "mode": str(wanted), "right": direction})


@warning("lr_schedule_wrong", "torch.optim.lr_scheduler.OneCycleLR: `step` is called after every batch", tier=1)
def cycle_per_epoch(code: Code, source: Source) -> Iterator[Hit]:
    """A cycle that is as long as all batches of the training is stepped once an epoch."""
    for call in code.calls_in(source, "step"):
        scheduler = receiver(call)
        kind = code.kind(source, scheduler)
        if kind is None or not kind.name.endswith(
            ("OneCycleLR", "CosineAnnealingLR", "CosineAnnealingDecay", "LinearLR")
        ):
            continue
        given = [*kind.call.args[1:], *(k.value for k in kind.call.keywords)]
        length = next((one for one in given if _counts_batches(code, kind.source, one)), None)
        loop = loop_of(source, call)
        if scheduler and length and isinstance(loop, ast.For) and any(map(_is_training, loop.body)):
            yield Hit(call, {"scheduler": ast.unparse(scheduler), "length": ast.unparse(length)})


def _counts_batches(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a length is `len(loader)`, times a number of epochs or not."""
    made = code.made(source, node)
    return any(is_call(one, "len") for one in ast.walk(made or node))


def _is_training(node: ast.stmt) -> bool:
    """Whether a statement is a loop over batches that calls `backward`."""
    called = {last_name(one.func) for one in of_type(walk([node]), ast.Call)}
    return isinstance(node, ast.For) and "backward" in called


@warning("best_by_wrong_direction", "paddle.callbacks.EarlyStopping: mode min for losses, max for scores", tier=1)
def stopped_by_direction(code: Code, source: Source) -> Iterator[Hit]:
    """Early stopping waits for a score to fall, or for a loss to rise, or the best checkpoint is chosen so."""
    for name, watched in _WATCHED.items():
        for call in code.calls_in(source, name):
            values = {k.arg or "": getattr(k.value, "value", "") for k in call.keywords}
            metric, setting = str(values.get(watched, "")), _direction_setting(source, call, values)
            right = _SETTINGS.get(setting, {}).get(metric_kind(metric).direction, setting) if metric else setting
            if right != setting:
                yield Hit(call, {"metric": metric, "setting": setting, "right": right})


def _direction_setting(source: Source, call: ast.Call, values: Mapping[str, object]) -> str:
    """The setting that says whether the metric has to fall or rise, as written or by default; "" if it is neither."""
    library = source.dotted(call.func).partition(".")[0]
    name = next((name for name in ("mode", "greater_is_better", "lower_is_better") if name in values), "")
    if name:
        return f"{name}={values[name]!r}"
    return _DEFAULTS.get(library, "")


@warning(
    "best_by_wrong_direction",
    "keras.callbacks.ModelCheckpoint: save_best_only; skorch.callbacks.Checkpoint: valid_loss_best",
)
def best_saved_each_epoch(code: Code, source: Source) -> Iterator[Hit]:
    """The checkpoint of the best epoch is written in every epoch, under one name: it is that of the last one."""
    for name in ("ModelCheckpoint", "Checkpoint"):
        for call in code.calls_in(source, name):
            given = {k.arg or "": getattr(k.value, "value", None) for k in call.keywords}
            path = argument(call, 0, "filepath", "filename")
            named_best = isinstance(path, ast.Constant) and bool(_ONE_NAME.search(str(path.value)))
            library, monitor = source.dotted(call.func).partition(".")[0], given.get("monitor")
            right = ""
            if library == "skorch" and isinstance(monitor, str) and not monitor.endswith("_best"):
                right = f"monitor='{monitor}_best'"
            elif "keras" in source.dotted(call.func) and named_best and "save_best_only" not in given:
                right = "save_best_only=True"
            if right:
                yield Hit(call, {"call": last_name(call.func), "right": right})


@warning(
    "best_by_wrong_direction",
    "keras.callbacks.ModelCheckpoint: monitor='val_loss'; the best epoch is that of held-out data",
)
def best_of_training(code: Code, source: Source) -> Iterator[Hit]:
    """The best epoch is chosen by a metric of the training, although the program evaluates held-out data."""
    fits = [k.arg for _, call in code.calls.get("fit", ()) for k in call.keywords]
    if not set(fits) & {"validation_data", "validation_split"}:
        return
    for name, setting in (("ModelCheckpoint", "save_best_only"), ("EarlyStopping", "restore_best_weights")):
        for call in code.calls_in(source, name):
            given = {k.arg or "": getattr(k.value, "value", None) for k in call.keywords}
            metric = given.get("monitor")
            is_trained = isinstance(metric, str) and not metric.startswith("val") and metric_kind(metric).direction
            if is_trained and given.get(setting) is True:
                yield Hit(call, {"metric": str(metric), "right": f"val_{metric}"})


@warning(
    "lr_schedule_wrong",
    "LightningModule.configure_optimizers: interval and frequency belong to the dictionary of lr_scheduler",
)
def key_beside_scheduler(code: Code, source: Source) -> Iterator[Hit]:
    """A setting of a scheduler is put beside it in what `configure_optimizers` returns, where Lightning ignores it."""
    for node in source.of_type(ast.Dict):
        keys = {str(one.value) for one in node.keys if isinstance(one, ast.Constant)}
        lost = sorted(keys & {"interval", "frequency"})
        if {"optimizer", "lr_scheduler"} <= keys and lost:
            yield Hit(node, {"key": lost[0]})


@warning(
    "best_by_wrong_direction",
    "torch.optim.lr_scheduler.ReduceLROnPlateau: num_bad_epochs is 0 again after an improvement",
)
def patience_never_reset(code: Code, source: Source) -> Iterator[Hit]:
    """Epochs without improvement are counted over the whole training: an improvement does not set the count back."""
    for node in (one for one in source.of_type(ast.If) if "best" in ast.unparse(one.test).lower()):
        counted = [one for one in node.orelse if isinstance(one, ast.AugAssign) and number(one.value) == 1.0]
        for one in counted:
            name = dotted_target(one.target)
            scope = source.function(node) or source.tree
            written = [part for part in ast.walk(scope) if assigns(part, name)] if name else []
            stops = [part for part in of_type(ast.walk(scope), ast.If) if name in ast.unparse(part.test)]
            ends = any(isinstance(part, ast.Break) for stop in stops for part in stop.body)
            if ends and len(written) == 2 and not name.startswith("self."):
                yield Hit(one, {"count": name})


@warning("lr_schedule_wrong", "torch.optim.lr_scheduler.LambdaLR: the function returns a factor of the initial rate")
def factor_is_rate(code: Code, source: Source) -> Iterator[Hit]:
    """The function of a LambdaLR returns the rate itself, which is multiplied by the initial rate once more."""
    for call in code.calls_in(source, "LambdaLR"):
        given = argument(call, 1, "lr_lambda")
        optimizer = code.kind(source, call.args[0]) if call.args else None
        rate = argument(optimizer.call, 1, "lr") if optimizer is not None else None
        found = code.function_named(source, given) if given is not None else None
        body = found[1].body if found is not None else [given.body] if isinstance(given, ast.Lambda) else []
        names = [one for one in of_type(walk(body), ast.Name) if rate is not None and one.id == dotted_target(rate)]
        factors = [one for one in names if isinstance(source.parents[one], ast.BinOp)]
        if factors and len(factors) == len(names) and all(_multiplies(source, one) for one in factors):
            yield Hit(call, {"rate": names[0].id})


def _multiplies(source: Source, name: ast.Name) -> bool:
    """Whether a name is a factor, and neither it nor the product that it is in is divided by the rate."""
    outer = source.parents[name]
    return isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Mult)


@warning(
    "best_by_wrong_direction",
    "torch.optim.lr_scheduler.ReduceLROnPlateau: mode min for losses and errors, max for scores",
)
def worst_saved(code: Code, source: Source) -> Iterator[Hit]:
    """The epoch that is saved as the best one has the lowest accuracy, or the highest loss."""
    for node in source.of_type(ast.If):
        for test in (one for one in of_type(ast.walk(node.test), ast.Compare) if len(one.ops) == 1):
            value, best = dotted_target(test.left), dotted_target(test.comparators[0])
            lower = isinstance(test.ops[0], (ast.Lt, ast.LtE))
            if not lower and not isinstance(test.ops[0], (ast.Gt, ast.GtE)):
                continue
            if value.startswith(("best", "self.best")):
                value, best, lower = best, value, not lower
            kept = any(
                isinstance(one, ast.Assign) and dotted_target(assigned_value(one, best) or one) == value
                for one in walk(node.body)
            )
            measured = test.left if dotted_target(test.left) == value else test.comparators[0]
            if (
                value
                and "best" in best
                and kept
                and direction_of(code, source, measured) == ("max" if lower else "min")
            ):
                yield Hit(test, {"metric": value, "test": ast.unparse(test), "right": ">" if lower else "<"})


@warning("lr_schedule_wrong", "torch.optim.Optimizer: the rate of a step is that of `param_groups`")
def rate_not_given(code: Code, source: Source) -> Iterator[Hit]:
    """The variable of the learning rate changes in a loop, and the optimizer keeps the rate that it was made with."""
    yield from _changed_defaults(source)
    yield from _set_attributes(code, source)
    text = "\n".join(source.lines)
    if "param_groups" in text or "set_lr" in text:
        return
    made = [node for node in source.of_type(ast.keyword) if node.arg in ("lr", "learning_rate")]
    for keyword in (one for one in made if isinstance(one.value, ast.Name)):
        name, call = keyword.value.id, source.parents[keyword]  # type: ignore[attr-defined]
        kind = code.kind(source, call) if isinstance(call, ast.Call) else None
        scope = source.function(keyword) or source.tree
        for node in walk(scope.body) if kind is not None and is_optimizer(kind.name) else ():
            loops = [one for one in source.parents_of(node) if isinstance(one, LOOPS)]
            if not assigns(node, name) or not loops or any(one is call for one in ast.walk(loops[-1])):
                continue
            is_lowered = isinstance(node, ast.AugAssign) or name in map(last_name, ast.walk(node.value))  # type: ignore[attr-defined]
            if not is_lowered:
                continue
            uses = (one for one in walk(scope.body, True) if isinstance(one, ast.Name) and one.id == name)
            if all(one.lineno <= keyword.lineno or _is_shown(source, one, name) for one in uses):
                yield Hit(node, {"rate": name, "optimizer": kind.name.rpartition(".")[2]})  # type: ignore[union-attr]
                break


def _set_attributes(code: Code, source: Source) -> Iterator[Hit]:
    """Yield `optimizer.lr = rate`, which an optimizer of torch does not read."""
    for place in (node.targets[0] for node in source.of_type(ast.Assign)):
        kind = code.kind(source, place.value) if isinstance(place, ast.Attribute) and place.attr == "lr" else None
        if kind is not None and kind.name.startswith("torch.optim.") and is_optimizer(kind.name):
            yield Hit(place, {"rate": ast.unparse(place), "optimizer": f"`{ast.unparse(place.value)}`"})  # type: ignore[attr-defined]


def _changed_defaults(source: Source) -> Iterator[Hit]:
    """Yield `optimizer.defaults["lr"] = rate`, which only groups that are added later get."""
    places = [node.targets[0] for node in source.of_type(ast.Assign) if member_key(node.targets[0]) == "lr"]
    held = [one.value for one in places if isinstance(one, ast.Subscript)]
    if all(last_name(one) == "defaults" for one in held) and "add_param_group" not in "\n".join(source.lines):
        for one in of_type(held, ast.Attribute):
            yield Hit(one, {"rate": ast.unparse(source.parents[one]), "optimizer": f"`{ast.unparse(one.value)}`"})


def _is_shown(source: Source, use: ast.Name, name: str) -> bool:
    """Whether a name is only printed, compared, or used for its own next value."""
    statement = source.statement(use)
    printed = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    shown = printed and last_name(statement.value.func) in ("print", "info", "write", "append")  # type: ignore[union-attr]
    return shown or (statement is not None and (assigns(statement, name) or isinstance(statement, ast.If)))


@warning(
    "best_by_wrong_direction", "PyTorch tutorials, transfer learning: the best weights are loaded after the training"
)
def best_never_loaded(code: Code, source: Source) -> Iterator[Hit]:
    """The weights of the best epoch are copied, and nothing reads the copy: the last epoch is tested."""
    copies: dict[str, ast.Assign] = {}
    for node in (one for one in source.of_type(ast.Assign) if dotted_target(one.targets[0])):
        name = last_name(node.targets[0])
        called = last_names(node.value) & {"state_dict", "deepcopy"}
        if name.startswith("best") and ("state_dict" in called or ("deepcopy" in called and "model" in name)):
            copies.setdefault(name, node)
    names = (one for one in source.nodes if isinstance(one, (ast.Name, ast.Attribute)) and last_name(one) in copies)
    if all(isinstance(one.ctx, ast.Store) for one in names) and not copies.keys() & code.texts:
        yield from (Hit(node, {"name": name}) for name, node in copies.items())


@warning(
    "lr_schedule_wrong", "torch.optim.lr_scheduler: the argument of `step` is an epoch, except for ReduceLROnPlateau"
)
def metric_given_as_epoch(code: Code, source: Source) -> Iterator[Hit]:
    """A schedule that counts epochs is given a loss or a score as the number of the epoch."""
    for where, call in code.calls.get("step", ()):
        given = (
            metric_name(call.args[0]) if where is source and call.args and isinstance(call.func, ast.Attribute) else ""
        )
        kind = code.kind(source, call.func.value) if given else None  # type: ignore[attr-defined]
        counts = kind is not None and is_scheduler(kind.name) and kind.name not in _PLATEAU
        if counts and metric_kind(given).direction in ("min", "max"):
            yield Hit(call, {"metric": given, "scheduler": kind.name.rpartition(".")[2]})  # type: ignore[union-attr]
