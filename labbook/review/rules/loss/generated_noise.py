"""Rules about drawn noise: of a latent code, of a diffusion, of a generator, of attention scores."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.expressions import both_orders, made_of, signed_terms
from labbook.review.names import assigned_value, assigns, dotted_target, last_name, loop_of, loops, of_type, walk
from labbook.review.rules.model.attention_scores import attentions
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_NORMAL = ("randn", "randn_like", "normal", "standard_normal")
_UNIFORM = ("rand", "rand_like", "uniform")
_DEVIATION = re.compile(r"(?:^|_)(?:std|stds|sigma|stddev|deviation)(?:$|_)", re.IGNORECASE)
_CUMULATIVE = re.compile(r"alphas?_?(?:bars?|hats?|cumprod)|(?:^|_)a_?bars?(?:$|_)|cumprod", re.IGNORECASE)
_OTHER_SCHEDULE = re.compile(r"prod|cumsum|\bcos\(|\bexp\(|logsnr|sigma", re.IGNORECASE)
_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_DDPM = "Ho et al. 2020, DDPM, equation 4: x_t = sqrt(alpha_bar) * x_0 + sqrt(1 - alpha_bar) * noise"


@warning("latent_deviation_wrong", "Kingma and Welling 2014, 2.4: normal noise")
def uniform_noise(code: Code, source: Source) -> Iterator[Hit]:
    """A latent code is drawn with uniform noise: mean plus deviation times a number between 0 and 1."""
    for node in source.of_type(ast.BinOp):
        if not isinstance(node.op, ast.Mult):
            continue
        if not isinstance(above := source.parents.get(node), ast.BinOp) or not isinstance(above.op, ast.Add):
            continue
        for scale, noise in both_orders(node):
            made, width = code.made(source, noise), code.made(source, scale)
            is_width = is_call(width, "exp", "softplus")
            if _DEVIATION.search(last_name(scale)) and is_width and _is_drawn(made, _UNIFORM) and len(made.args) < 2:  # type: ignore[union-attr]
                yield Hit(node, {"noise": ast.unparse(made)})  # type: ignore[arg-type]


def _is_drawn(node: ast.expr | None, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in names


@warning("diffusion_noise_wrong", _DDPM)
def noise_drawn_again(code: Code, source: Source) -> Iterator[Hit]:
    """The target of a denoiser is noise that is drawn a second time, not the noise that was added."""
    for call in (node for node in source.of_type(ast.Call) if len(node.args) >= 2):
        target = call.args[1]
        if last_name(call.func) not in _LOSSES and not re.search(r"loss|criterion|mse", ast.unparse(call.func)):
            continue
        made = code.made(source, target)
        if not _is_drawn(made, ("randn_like",)):
            continue
        scope = source.function(call) or source.tree
        others = [one for one in of_type(ast.walk(scope), ast.Call) if one is not made]
        again = any(ast.unparse(one) == ast.unparse(made) for one in others)  # type: ignore[arg-type]
        again = again or any(True for where in code.sources for _ in _mixtures(code, where))
        uses = [one for one in ast.walk(scope) if dotted_target(one) == dotted_target(target) != ""]
        if again and len(uses) <= 2:
            yield Hit(target, {"target": ast.unparse(target)})


@warning("diffusion_noise_wrong", _DDPM)
def noise_without_root(code: Code, source: Source) -> Iterator[Hit]:
    """A sample and its noise are mixed by the cumulative product itself, not by its square root."""
    for node, share in _mixtures(code, source):
        if _is_cumulative(code, source, share):
            yield Hit(node, {"code": ast.unparse(node)})


@warning("diffusion_noise_wrong", _DDPM)
def noise_not_cumulative(code: Code, source: Source) -> Iterator[Hit]:
    """A sample is mixed with noise by the factor of a single step, where the product of all steps before belongs."""
    text = "\n".join(source.lines)
    if "linspace" not in text or not re.search(r"\b1(?:\.0?)? ?- ?(?:\w+\.)?betas?\b", text):
        return
    # Comments prove nothing.
    if not _OTHER_SCHEDULE.search(ast.unparse(source.tree)):
        for node, share in _mixtures(code, source):
            if _rooted(share) is not None:
                yield Hit(node, {"code": ast.unparse(node)})


def _mixtures(code: Code, source: Source) -> Iterator[tuple[ast.BinOp, ast.expr]]:
    """Sums of a sample and of normal noise with shares that add up to 1, or roots of such: the sum, the first share."""
    for node in source.of_type(ast.BinOp):
        if not isinstance(node.op, ast.Add):
            continue
        sides = [one for one in (node.left, node.right) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)]
        if len(sides) != 2:
            continue
        for sample, noise in (sides, sides[::-1]):
            for share, drawn in both_orders(noise):
                if not _is_noise(code, source, drawn):
                    continue
                rest = ast.unparse(_rooted(share) or share)
                found = next((one for one in (sample.left, sample.right) if _adds_up(one, rest)), None)
                is_rooted = _rooted(share) is not None
                if found is not None and (_rooted(found) is not None) == is_rooted:
                    yield node, found


def _is_noise(code: Code, source: Source, node: ast.expr) -> bool:
    return (
        _is_drawn(code.made(source, node), _NORMAL)
        or re.search(r"^(?:eps|epsilon|noise)$", last_name(node)) is not None
    )


def _adds_up(share: ast.expr, rest: str) -> bool:
    return rest in (f"1 - {(inner := ast.unparse(_rooted(share) or share))}", f"1.0 - {inner}")


def _rooted(node: ast.expr) -> ast.expr | None:
    """What a square root is taken of: `a` of `a.sqrt()`, `torch.sqrt(a)` and `a ** 0.5`; `None` if there is none."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and ast.unparse(node.right) in ("0.5", "1 / 2"):
        return node.left
    if is_call(node, "sqrt"):
        return node.args[0] if node.args else getattr(node.func, "value", None)
    return None


def _is_cumulative(code: Code, source: Source, share: ast.expr) -> bool:
    """Whether a share is taken from a cumulative product: by its name, or the value of the name."""
    made = code.made(source, share)
    text = ast.unparse(share) + " " + (ast.unparse(made) if made is not None else "")
    if "sqrt" in text or _rooted(share) is not None:
        return False
    names = set(re.findall(r"[\w.]+", text))
    values = [value for name in names for value in code.assigned_values(source.tree, name) if value is not None]
    return _CUMULATIVE.search(text) is not None or any("cumprod" in ast.unparse(one) for one in values)


@warning("same_batch_every_step", "Goodfellow et al. 2014, algorithm 1: new noise in each step")
def noise_made_once(code: Code, source: Source) -> Iterator[Hit]:
    """A generator that a discriminator judges is trained on noise that is drawn once, before the loop."""
    for loop in loops(source):
        inside = list(walk([loop]))
        calls = [one for one in inside if isinstance(one, ast.Call)]
        if not any(last_name(one.func) == "backward" for one in calls):
            continue
        for call in calls:
            name = dotted_target(call.args[0]) if len(call.args) == 1 else ""
            if not name or not _is_drawn(code.value(source, name, loop), _NORMAL):
                continue
            renewed = any(assigns(one, name) or _is_written(one, name) for one in inside)
            # A generator that gets other noise, too, shows how far it is with this one.
            generator = ast.unparse(call.func)
            others = [
                one
                for one in calls
                if ast.unparse(one.func) == generator and list(map(ast.unparse, one.args)) != [name]
            ]
            if not renewed and not others and _is_judged(code, source, call, calls):
                yield Hit(call, {"noise": name, "call": ast.unparse(call)})
                return


def _is_written(node: ast.AST, name: str) -> bool:
    """Whether a tensor is drawn anew in its place: `z.normal_()`."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
    return is_method and dotted_target(node.func.value) == name  # type: ignore[attr-defined]


def _is_judged(code: Code, source: Source, made: ast.Call, calls: list[ast.Call]) -> bool:
    """Whether another model gets what a call makes, and also something else: `D(G(z))` and `D(real)`."""
    statement = source.statement(made)
    is_name = (
        isinstance(statement, ast.Assign) and assigned_value(statement, dotted_target(statement.targets[0])) is made
    )
    name = dotted_target(statement.targets[0]) if is_name else ""  # type: ignore[union-attr]
    for call in calls:
        given = call.args[0] if len(call.args) == 1 and call is not made and dotted_target(call.func) else None
        if given is made or (name and given is not None and dotted_target(given) == name):
            judge = ast.unparse(call.func)
            others = [one for one in calls if ast.unparse(one.func) == judge and one is not call and one.args]
            if code.kind(source, call.func) is not None and any(
                dotted_target(one.args[0]) not in ("", name) for one in others
            ):
                return True
    return False


@warning("target_in_inputs", "Vincent et al. 2008, Denoising autoencoders: the target is the input without the noise")
def noise_in_target(code: Code, source: Source) -> Iterator[Hit]:
    """A denoising model is compared with its own noisy input instead of the clean one."""
    for call, target in _own_inputs(code, source):
        noisy = code.value(source, target, call)
        terms = [term for _, term in signed_terms(noisy)] if isinstance(noisy, ast.BinOp) else []
        drawn = (
            {last_name(one) for one in made_of(code, source, noisy)} & {*_NORMAL, *_UNIFORM}
            if noisy is not None
            else set()
        )
        clean = next((name for one in terms if (name := dotted_target(one)) and name != target), "")
        if drawn and clean and "loss" in ast.unparse(source.statement(call) or call).lower():
            yield Hit(call, {"noisy": target, "clean": clean})


@warning("dropout_active_in_eval", "torch.nn.Module.training")
def noise_on_scores(code: Code, source: Source) -> Iterator[Hit]:
    """Normal noise is added to the scores of an attention in evaluation, too."""
    for _, function, steps in attentions(source):
        for node in (one for step in steps for one in ast.walk(step) if is_call(one, "randn", "randn_like")):
            modes = [one for one in source.parents_of(node) if isinstance(one, (ast.If, ast.IfExp))]
            if "training" not in ast.unparse(function) and not modes:
                yield Hit(node, {"noise": ast.unparse(node)})


@warning("target_in_inputs", "Vincent et al. 2008, Denoising autoencoders: the target is the clean input")
def target_left_out(code: Code, source: Source) -> Iterator[Hit]:
    """Training compares the output with its own input and ignores the target that evaluation compares it with."""
    for call, name in _own_inputs(code, source):
        loop = loop_of(source, call)
        if not isinstance(loop, ast.For) or not any(is_call(one, "backward") for one in walk(loop.body)):
            continue
        names = [one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)]
        read = {one.id for one in walk(loop.body) if isinstance(one, ast.Name)}
        for other in names if name in names else ():
            if other not in read and any(_is_compared(code, where, name, other) for where in code.sources):
                yield Hit(call, {"input": name, "target": other})


def _own_inputs(code: Code, source: Source) -> Iterator[tuple[ast.Call, str]]:
    """The calls of a loss with the output of a model and the very name that the model was given."""
    for call in (node for node in source.of_type(ast.Call) if len(node.args) == 2):
        output, target = code.made(source, call.args[0]), dotted_target(call.args[1])
        if target and isinstance(output, ast.Call) and [dotted_target(one) for one in output.args] == [target]:
            yield call, target


def _is_compared(code: Code, source: Source, given: str, target: str) -> bool:
    """Whether a file compares what a model makes of one name with another one, by a difference or a call."""
    pairs = [(one.left, one.right) for one in source.of_type(ast.BinOp) if isinstance(one.op, ast.Sub)]
    pairs += [(one.args[0], one.args[1]) for one in source.of_type(ast.Call) if len(one.args) == 2]
    for left, right in pairs:
        made = code.made(source, left) if dotted_target(right) == target else None
        if isinstance(made, ast.Call) and [dotted_target(one) for one in made.args] == [given]:
            return True
    return False
