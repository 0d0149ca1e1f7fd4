"""What PyTorch is and how the program has set it up. Only reads; never wakes a device that the program did not wake."""

from ..inspection import model_lookup
from ..training.framework_facts import (
    build_facts,
    cuda_devices,
    determinism_variables,
    distributed_facts,
    optimizer_fields,
)


def framework_facts(torch):
    """Fields of the `framework` event: version, build, threads, and devices as far as they are awake."""
    version = torch.version
    build = {
        "cuda": version.cuda,
        "hip": getattr(version, "hip", None),
        "debug": version.debug,
        "git": version.git_version,
    }
    return {
        "version": str(torch.__version__),
        "build": build_facts(build),
        "devices": devices(torch),
        "threads": torch.get_num_threads(),
    }


def is_gpu_in_use(torch):
    """Whether the program itself has started CUDA in this process."""
    return torch.cuda.is_available() and torch.cuda.is_initialized() if _has_cuda(torch) else False


def _has_cuda(torch):
    return bool(torch.version.cuda or getattr(torch.version, "hip", None))


def devices(torch):
    """GPUs that this process can use, once the program has started CUDA; empty before."""
    return cuda_devices(torch.cuda) if is_gpu_in_use(torch) else []


def initial_seed(torch):
    """Seed of the generator of the CPU. Draws nothing; a program that never seeds has one from the operating system."""
    return torch.initial_seed()


def generator_state(torch):
    """Hash of the state of the generator of the CPU. Draws nothing; 0.1 ms."""
    return hash(bytes(torch.default_generator.get_state().tolist()))


def state_facts(torch, seed_at_import, mode):
    """Fields of the `state` event that hold for the whole process: seed, determinism, mode, distributed training."""
    cudnn = torch.backends.cudnn
    flags = {
        "use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn.deterministic": bool(cudnn.deterministic),
        "cudnn.benchmark": bool(cudnn.benchmark),
    }
    if hasattr(torch, "get_float32_matmul_precision"):
        flags["float32_matmul_precision"] = torch.get_float32_matmul_precision()
    flags.update(determinism_variables())
    seed = initial_seed(torch)
    state = {"deterministic": flags, "mode": mode, "seeds": {} if seed == seed_at_import else {"torch": seed}}
    state["threads"] = torch.get_num_threads()
    if is_gpu_in_use(torch):
        state["devices"] = devices(torch)
        state["cudnn"] = torch.backends.cudnn.version()
    state.update(distributed_facts(torch.distributed))
    return state


def optimizer_facts(optimizer, closure):
    """Fields of the `optimizer` event."""
    groups = [
        (number(group.get("lr")), [parameter.numel() for parameter in group["params"]])
        for group in optimizer.param_groups
    ]
    if hasattr(optimizer, "hypers"):  # of fastai, whose optimizers are one class and differ by what they call last
        given = optimizer.hypers[-1].items()  # numbers of numpy from a schedule, whose first rate is not the one given
        options = {name: float(value) if isinstance(value, float) else value for name, value in given if name != "lr"}
        last = getattr(optimizer.cbs[-1], "__name__", "") if len(getattr(optimizer, "cbs", ())) else ""
        fields = optimizer_fields(optimizer, options, groups, closure)
        return dict(fields, type="%s of fastai" % (last or fields["type"]))
    return optimizer_fields(optimizer, getattr(optimizer, "defaults", None) or {}, groups, closure)


def number(value):
    """A learning rate as a float; `None` where reading it would wait for a device."""
    if isinstance(value, (int, float)):
        return float(value)
    return float(value.item()) if getattr(value, "is_cpu", False) and not value.is_meta else None


def find_model(torch, parameters, known=None, sweep=True):
    """The model of these parameters as `(module, whole)`; `known` modules are looked at first: `find_root`."""
    return model_lookup.find_root(torch.nn.Module, parameters, "_modules", _is_frozen, known, sweep)


def model_facts(root, own):
    """What is recorded of a model, from its root (or `None`) and the parameters of its optimizer."""
    every = [*(model_lookup.parameters_of(root, "_modules") if root is not None else ()), *own]
    return {
        "name": model_lookup.class_name(root) if root is not None else "",
        "parameters": {id(p): count_elements(p) for p in every},
        "trainable": {id(p): p.numel() for p in every if p.requires_grad},
        "device": {str(p.device) for p in own},
        "dtype": {str(p.dtype).replace("torch.", "") for p in own},
    }


def count_elements(parameter):
    """Elements of a parameter; 0 for integers on one axis: the state of a generator of Keras is no weight."""
    is_state = parameter.dim() < 2 and not (parameter.is_floating_point() or parameter.is_complex())
    return 0 if is_state else parameter.numel()


def parameters(optimizer):
    """All parameters of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _is_frozen(parameter):
    return not parameter.requires_grad
