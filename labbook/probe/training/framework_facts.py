"""Facts that do not depend on the framework: optimizer options, NVIDIA driver, relevant environment variables."""

import os

_DETERMINISM_VARIABLES = (
    "PYTHONHASHSEED",
    "CUBLAS_WORKSPACE_CONFIG",
    "MKL_CBWR",
    "OMP_NUM_THREADS",
    "FLAGS_cudnn_deterministic",
    "FLAGS_embedding_deterministic",
    "NVIDIA_TF32_OVERRIDE",
)
_MAX_GROUPS = 16


def plain_options(options):
    """Return the options of an optimizer that are numbers, strings, booleans, or short lists of these."""
    return {str(name): _plain_value(value) for name, value in options.items() if _plain_value(value) is not _OTHER}


_OTHER = object()


def _plain_value(value):
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple) and len(value) <= 8:
        items = [_plain_value(item) for item in value]
        return _OTHER if _OTHER in items else items
    return _OTHER


def shorten_groups(groups):
    """Return the first parameter groups of an optimizer; a last one counts the others."""
    if len(groups) <= _MAX_GROUPS:
        return groups
    return [*groups[:_MAX_GROUPS], {"more": len(groups) - _MAX_GROUPS}]


def determinism_variables():
    """Return the current environment variables that affect numerical results."""
    return {name: os.environ[name] for name in _DETERMINISM_VARIABLES if name in os.environ}


def nvidia_driver():
    """Return the version of the NVIDIA kernel driver, or "". Starts no process."""
    try:
        with open("/proc/driver/nvidia/version") as stream:
            words = stream.readline().split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit() and "." in word), "")


def build_facts(facts):
    """Return the `build` field of the `framework` event: the known ones of `facts`, and the driver if there is one."""
    known = {name: value for name, value in facts.items() if value is not None}
    driver = nvidia_driver()
    if driver:
        known["driver"] = driver
    return known


def cuda_devices(cuda):
    """Return the GPUs that this process can use.

    Args:
        cuda: `torch.cuda` or `paddle.device.cuda`, which the program has already initialised.
    """
    found = []
    for index in range(cuda.device_count()):
        facts = cuda.get_device_properties(index)
        found.append({"kind": "cuda", "name": facts.name, "memory_bytes": facts.total_memory})
    return found


def distributed_facts(distributed):
    """Return fields of the `state` event on distributed training, or nothing; `distributed` is `torch.distributed`."""
    if not distributed.is_available() or not distributed.is_initialized():
        return {}
    return {
        "distributed": {
            "backend": str(distributed.get_backend()),
            "world_size": distributed.get_world_size(),
            "rank": distributed.get_rank(),
        }
    }


def _group_settings(optimizer):
    """The parameter groups of an optimizer, as dictionaries."""
    groups = getattr(optimizer, "param_groups", None) or getattr(optimizer, "_param_groups", None) or ()
    return [group for group in groups if isinstance(group, dict)]


def optimizer_fields(optimizer, options, groups, closure):
    """Return the fields of the `optimizer` event.

    Args:
        options: Its options by name, of any type.
        groups: `(rate, sizes)` of each parameter group: its learning rate and the sizes of its parameters.
        closure: Whether its step was called with a closure.
    """
    facts = [{"lr": rate, "tensors": len(sizes), "elements": sum(sizes)} for rate, sizes in groups]
    for fact, group in zip(facts, _group_settings(optimizer)):
        named = {name: group.get(name) for name in options if name != "lr"}
        own = {name: value for name, value in named.items() if type(value) in (int, float, bool, tuple)}
        # `learning_rate` of a group is a factor in PaddlePaddle, which may equal the rate of the optimizer.
        fact.update({name: value for name, value in own.items() if value != options[name] or name == "learning_rate"})
    return {
        "type": type(optimizer).__name__,
        "options": plain_options(options),
        "groups": shorten_groups(facts),
        "closure": closure,
    }
