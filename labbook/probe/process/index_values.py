"""Reads the indices of a failed lookup: their smallest and largest, and the first one that the table does not have.

Only of tensors of PyTorch on the CPU, whose messages leave the index out, and only after the program has failed. The
messages of PaddlePaddle name the index; a GPU answers no more after a failed assertion.
"""

import sys

_LARGEST = 1 << 24
"""Elements up to which indices are read. Source: chosen by us; a quarter of a second on one core."""
_LOOKUP = ("embedding", "torch/nn/functional.py")


def looked_up(traces):
    """Return `(indices, table)` of the embedding that failed, from the variables of the library, or `None`."""
    for trace in traces:
        code = trace.tb_frame.f_code
        if code.co_name == _LOOKUP[0] and code.co_filename.replace("\\", "/").endswith(_LOOKUP[1]):
            given = trace.tb_frame.f_locals
            return given.get("input"), given.get("weight")
    return None


def describe_indices(indices, table=None):
    """Return what is known of the values of a tensor of indices; empty where they cannot be read. Never raises.

    Args:
        table: The tensor whose rows they select, or `None`.

    Returns:
        `low` and `high`; with a table that lacks one of them also its `rows`, `outside` (the first that it lacks),
        `at` (list, its place) and `counts` (whether they are 0, 1, 2 ... along the last axis, as positions are).
    """
    torch = sys.modules.get("torch")
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            whole = not (indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool)
            if not whole or not indices.is_cpu or not 0 < indices.numel() <= _LARGEST:
                return {}
            low, high = (int(end) for end in torch.aminmax(indices))
            rows = int(table.shape[0]) if table is not None else 0
            found = {"low": low, "high": high}
            if table is not None and (low < 0 or high >= rows):
                at = [int(place) for place in ((indices < 0) | (indices >= rows)).nonzero()[0]]
                counted = indices.dim() and bool((indices == torch.arange(indices.shape[-1])).all())
                found.update(rows=rows, outside=int(indices[tuple(at)]), at=at, counts=bool(counted and high))
            return found
    except Exception:  # a tensor without values, such as a fake or sparse one
        return {}
