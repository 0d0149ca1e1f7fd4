"""What PaddlePaddle is and how the program has set it up. Only reads; wakes no device that the program did not wake."""

import os
from math import prod

from ..inspection import model_lookup
from ..training.framework_facts import (
    build_facts,
    cuda_devices,
    determinism_variables,
    distributed_facts,
    optimizer_fields,
)
from .root_modules import is_statistic

_FLAGS = (
    "FLAGS_cudnn_deterministic",
    "FLAGS_embedding_deterministic",
    "FLAGS_check_nan_inf",
    "FLAGS_cudnn_exhaustive_search",
)


def framework_facts(paddle):
    """Fields of the `framework` event: version, build, threads, and devices as far as they are awake."""
    version = paddle.version
    build = {
        "cuda": _encode_state(version.cuda()),
        "cudnn": _encode_state(version.cudnn()),
        "git": version.commit or None,
    }
    return {
        "version": version.full_version,
        "build": build_facts(build),
        "devices": [],
        "threads": _threads(),
    }


def _encode_state(value):
    return None if value in (False, "False", "0", 0, "") else str(value)


def _threads():
    text = os.environ.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdigit() else None


def is_gpu_in_use(paddle):
    """Whether the program computes on a GPU in this process."""
    return paddle.device.is_compiled_with_cuda() and paddle.device.get_device().startswith("gpu")


def devices(paddle):
    """GPUs that this process can use; to be asked only once the program has trained on one."""
    return cuda_devices(paddle.device.cuda) if is_gpu_in_use(paddle) else []


def initial_seed(paddle):
    """Seed of the generator of the CPU. Draws nothing; a program that never seeds has one from the operating system."""
    return paddle.base.core.default_cpu_generator().initial_seed()


def state_facts(paddle, seed_at_import, mode):
    """Fields of the `state` event that hold for the whole process: seed, determinism, mode, distributed training."""
    flags = {}
    for name in _FLAGS:
        try:
            flags.update(paddle.get_flags(name))
        except ValueError:  # this build has no such flag
            continue
    flags.update(determinism_variables())
    seed = initial_seed(paddle)
    state = {"deterministic": flags, "mode": mode, "seeds": {} if seed == seed_at_import else {"paddle": seed}}
    state.update(distributed_facts(paddle.distributed))
    return state


def optimizer_facts(optimizer, closure):
    """Fields of the `optimizer` event."""
    groups = [
        (rate, [prod(parameter.shape) for parameter in members])
        for rate, members in zip(rates(optimizer), parameter_groups(optimizer))
    ]
    return optimizer_fields(optimizer, _options(optimizer), groups, closure)


def _options(optimizer):
    rate = getattr(optimizer, "_learning_rate", None)
    options = {"learning_rate": _base_rate(rate)}
    if callable(rate):
        options["schedule"] = type(rate).__name__
    for name in ("beta1", "beta2", "epsilon", "momentum", "use_nesterov", "multi_precision"):
        value = getattr(optimizer, "_" + name, None)
        if value is not None:
            options[name] = value
    decay = getattr(getattr(optimizer, "regularization", None), "_coeff", None)
    if decay is None and getattr(optimizer, "_regularization_method", None) == "l2_decay":
        decay = getattr(optimizer, "_regularization_coeff", None)
    own = getattr(optimizer, "_weight_decay", None)
    options["weight_decay"] = decay if decay is not None else own if isinstance(own, (int, float)) else None
    clip = getattr(optimizer, "_grad_clip", None)
    options["grad_clip"] = _describe_clip(clip)
    return options


def _base_rate(rate):
    """The learning rate that a schedule is made for, the one after a warm-up; `None` if it is unknown."""
    while callable(rate):
        if peak := getattr(rate, "_lr_config", None):  # of `OneCycleLR`, whose `base_lr` is a part of the one given
            return number(max(peak))
        values = getattr(rate, "values", None)  # of `PiecewiseDecay`, whose `base_lr` is the default of the base class
        if isinstance(values, (list, tuple)) and values:
            return number(values[0])
        inner = getattr(rate, "learning_rate", None)  # of `LinearWarmup`
        rate = getattr(rate, "base_lr", None) if inner is None else inner
    return rate


def _describe_clip(clip):
    """Class and limit of a clip: "ClipGradByGlobalNorm 1.0"; `None` without one."""
    if clip is None:
        return None
    limits = [getattr(clip, name, None) for name in ("min", "max", "clip_norm")]
    return " ".join([type(clip).__name__, *(str(limit) for limit in limits if isinstance(limit, (int, float)))])


def parameter_groups(optimizer):
    """The parameters of each group of an optimizer."""
    groups = getattr(optimizer, "_param_groups", None) or getattr(optimizer, "_parameter_list", None) or []
    if groups and isinstance(groups[0], dict):
        return [list(group["params"]) for group in groups]
    return [list(groups)]


def group_count(optimizer):
    """How many parameter groups an optimizer updates one after the other."""
    groups = getattr(optimizer, "_param_groups", None)
    return len(groups) if groups and isinstance(groups[0], dict) else 1


def parameters(optimizer):
    """All parameters of an optimizer."""
    return [parameter for group in parameter_groups(optimizer) for parameter in group]


def rates(optimizer):
    """Learning rates, one a parameter group; none where they are no plain numbers."""
    rate = getattr(optimizer, "_learning_rate", None)
    if type(rate) is not float:  # a schedule
        rate = number(optimizer.get_lr())
    if rate is None:
        return ()
    groups = getattr(optimizer, "_param_groups", None)
    if groups and isinstance(groups[0], dict):
        return [rate * float(group.get("learning_rate", 1.0)) for group in groups]
    return [rate]


def number(value):
    """A learning rate as a float; `None` where reading it would wait for a device."""
    if isinstance(value, (int, float)):
        return float(value)
    place = getattr(value, "place", None)
    return float(value.item()) if place is not None and place.is_cpu_place() else None


def find_model(paddle, parameters, known, sweep=True):
    """The model of these parameters as `(module, whole)`; `known` layers are looked at first: `find_root`."""
    return model_lookup.find_root(paddle.nn.Layer, parameters, "_sub_layers", _is_frozen, known, sweep)


def model_facts(root, own):
    """What is recorded of a model, from its root (or `None`) and the parameters of its optimizer."""
    every, averages = own, {}
    if root is not None:
        averages = _running_statistics(root)
        every = [p for p in (*model_lookup.parameters_of(root, "_sub_layers"), *own) if id(p) not in averages]
    return {
        "name": model_lookup.class_name(root) if root is not None else "",
        "parameters": {id(p): prod(p.shape) for p in every},
        "trainable": {id(p): prod(p.shape) for p in every if not p.stop_gradient},
        "statistics": averages,
        "device": {str(p.place).replace("Place(", "").rstrip(")") for p in own},
        "dtype": {str(p.dtype).replace("paddle.", "") for p in own},
    }


def _running_statistics(root):
    """Elements, by id, of the running statistics of batch norms, which PaddlePaddle keeps as parameters."""
    held = [(layer, layer.__dict__.get("_parameters") or {}) for layer in root.sublayers(include_self=True)]
    return {id(p): prod(p.shape) for layer, own in held for name, p in own.items() if is_statistic(layer, name)}


def _is_frozen(parameter):
    return parameter.stop_gradient


def averaging_kinds(paddle):
    """Classes that only average parameters which another optimizer trains; their updates are no steps of the loop."""
    home = getattr(paddle, "incubate", None)
    kinds = [getattr(home, name, None) for name in ("LookAhead", "ModelAverage")]
    return tuple(kind for kind in kinds if isinstance(kind, type))
