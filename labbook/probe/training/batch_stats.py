"""Statistics of the current batch, for `--watch` and the like. Draws no random numbers, records no graph."""

MOST_LEAVES = 8


def batch_facts(module, args, kwargs, batch):
    """Return the fields of a `batch` event for the inputs of the model.

    Args:
        module: `torch` or `paddle`.
        batch: Other facts about the batch (`loader`, `samples`, `print`, `labels`), or `None`.
    """
    with module.no_grad():
        leaves = [_leaf(module, path, leaf) for path, leaf in _leaf_modules(module, args, kwargs)[:MOST_LEAVES]]
    labels = getattr(batch, "labels", None)
    return {
        "loader": getattr(batch, "loader", None),
        "samples": leaves[0]["shape"][0] if leaves and leaves[0]["shape"] else None,
        "print": getattr(batch, "print", None),
        "leaves": leaves,
        "labels": {"histogram": {str(name): count for name, count in sorted(labels.items())[:200]}} if labels else None,
    }


def _leaf_modules(module, args, kwargs):
    found, waiting = [], [(str(at), value) for at, value in enumerate(args)] + list(kwargs.items())
    while waiting and len(found) < MOST_LEAVES:
        path, value = waiting.pop(0)
        if isinstance(value, module.Tensor):
            found.append((path, value))
        elif isinstance(value, dict):
            waiting += [("%s.%s" % (path, name), part) for name, part in list(value.items())[:MOST_LEAVES]]
        elif isinstance(value, (list, tuple)):
            waiting += [("%s.%d" % (path, at), part) for at, part in enumerate(value[:MOST_LEAVES])]
    return found


def _leaf(module, path, tensor):
    stats = {
        "path": path,
        "role": "input",
        "shape": [int(n) for n in tensor.shape],
        "dtype": str(tensor.dtype).rpartition(".")[2],
    }
    plain = tensor.detach()
    floating = module.is_floating_point(plain)
    plain = plain.reshape([-1])
    if not plain.shape[0]:
        return stats
    if floating:
        good = module.isfinite(plain)
        stats["bad"] = int(plain.shape[0] - good.sum().item())
        stats["nan"] = int(module.isnan(plain).sum().item())
        plain = plain[good] if stats["bad"] else plain
        if not plain.shape[0]:
            return stats
    wide = plain.astype("float64") if module.__name__ == "paddle" else plain.to(module.float64)
    mean = wide.mean().item()
    stats.update(min=wide.min().item(), max=wide.max().item(), mean=mean)
    stats["std"] = ((wide - mean) ** 2).mean().item() ** 0.5
    stats["zero"] = (wide == 0).sum().item() / wide.shape[0]
    return stats
