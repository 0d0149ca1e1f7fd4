"""Tensors inside nested lists, tuples and dictionaries: arguments, batches and outputs of models."""

from collections.abc import Mapping


def tensors_in(thing, stats, most=16, depth=0):
    """`(path, tensor)` of the tensors in nested lists, tuples and dictionaries, at most `most`."""
    found = []
    _collect(thing, "", stats, most, depth, found)
    return found


def _collect(thing, path, stats, most, depth, found):
    if len(found) >= most or depth > 4:
        return
    if stats.is_tensor(thing):
        found.append((path or "0", thing))
    elif isinstance(thing, (list, tuple)):
        packed = type(thing).__name__ == "PackedSequence"  # the other tensors say how the first one is to be read
        for at, item in enumerate(thing[: 1 if packed else 64]):
            _collect(item, "%s.%d" % (path, at) if path else str(at), stats, most, depth + 1, found)
    elif isinstance(thing, Mapping):  # batches of Transformers are no `dict`
        for name, item in list(thing.items())[:64]:
            _collect(item, "%s.%s" % (path, name) if path else str(name), stats, most, depth + 1, found)


def first_tensor(thing, stats):
    """The first tensor in a model's output or arguments, `None` without one."""
    if stats.is_tensor(thing):
        return thing
    if isinstance(thing, Mapping):
        thing = list(thing.values())
    if isinstance(thing, (list, tuple)):
        for item in thing[:8]:
            inner = first_tensor(item, stats)
            if inner is not None:
                return inner
    return None


def first_batch(thing, stats):
    """The first tensor in a model's output; behind a loss, as of a model of Transformers, the one with samples."""
    first = first_tensor(thing, stats)
    if first is None or len(first.shape) or stats.is_tensor(thing):
        return first
    return next((one for _, one in tensors_in(thing, stats, 4) if len(one.shape) > 1), first)
