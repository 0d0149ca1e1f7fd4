"""Finds the first index that the table of a failed embedding does not have.

Only for PyTorch on the CPU, whose message leaves the index out, and only after the program has failed. The messages of
PaddlePaddle name the index; a GPU answers no more after a failed assertion.
"""

import sys

_LARGEST = 1 << 20
"""Elements up to which indices are read. Source: chosen by us; a few milliseconds."""
_LOOKUP = ("embedding", "torch/nn/functional.py")


def find_index_outside(traces):
    """Return the indices of the embedding that failed and what is wrong with them, or `(None, {})`. Never raises.

    Returns:
        The tensor, and `rows` of the table, `outside` (the first index that it lacks), `at` (list, its place) and
        `counts` (whether the indices are 0, 1, 2 ... along the last axis, as positions are).
    """
    for trace in traces:
        code = trace.tb_frame.f_code
        if code.co_name == _LOOKUP[0] and code.co_filename.replace("\\", "/").endswith(_LOOKUP[1]):
            given = trace.tb_frame.f_locals
            indices = given.get("input")
            return indices, _describe(sys.modules["torch"], indices, given.get("weight"))
    return None, {}


def _describe(torch, indices, table):
    try:
        if type(indices) is not torch.Tensor or not indices.is_cpu or indices.numel() > _LARGEST:
            return {}
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            rows = int(table.shape[0])
            places = ((indices < 0) | (indices >= rows)).nonzero()
            if not len(places):
                return {}
            at = [int(place) for place in places[0]]
            counts = indices.dim() and bool((indices == torch.arange(indices.shape[-1])).all())
            outside = int(indices[tuple(at)])
        return {"rows": rows, "outside": outside, "at": at, "counts": bool(counts and outside > 0)}
    except Exception:  # a tensor without values, such as a fake or sparse one
        return {}
