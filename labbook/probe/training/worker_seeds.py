"""Detects from code whether all workers of a data loader draw the same random numbers.

Independent of the framework. No function is called: names and constants of its code object are read.
"""

import types

_OF_ITS_OWN = ("initial_seed", "get_worker_info", "getpid", "urandom", "SeedSequence", "time", "time_ns", "spawn")
_DRAWING = frozenset(
    ["rand", "randn", "randint", "random", "normal", "uniform", "choice", "standard_normal", "integers", "shuffle"]
)
_GENERATORS = frozenset(["Generator", "RandomState", "Random"])
"""Classes of numpy and of Python that draw random numbers from a state of their own."""

_SEEDED = frozenset(["numpy", "random", "torch", "paddle"])

_WHERE_KEPT = ("transform", "transforms", "augment", "augmentation", "noise", "collate_fn")


def has_identical_workers(loader):
    """Whether a loader's workers are all seeded with one number, and its dataset draws from what is seeded."""
    start = getattr(loader, "worker_init_fn", None)
    return start is not None and seeds_alike(start) and _draws(loader.dataset, _libraries(start))


def shared_generator(loader):
    """Name of the generator that a dataset keeps and draws samples from, "" without one: every worker has its copy."""
    if getattr(loader, "worker_init_fn", None) is not None:
        return ""
    dataset = loader.dataset
    own = {}
    for one in _methods(type(dataset)):
        own.setdefault(one.__name__, one.__code__)
    later = [code for name, code in own.items() if name != "__init__"]
    for name, kept in (getattr(dataset, "__dict__", None) or {}).items():
        kind = type(kept)
        if kind.__name__ in _GENERATORS and kind.__module__.partition(".")[0] in ("numpy", "random"):
            reading = [code for code in later if name in code.co_names]
            drawn = any(_DRAWING.intersection(code.co_names) for code in reading)
            if drawn and not any(_stores(code, name) for code in reading):
                return name
    return ""


def _stores(code, name):
    import dis  # only if a dataset keeps such a generator

    return any(one.argval == name and one.opname == "STORE_ATTR" for one in dis.get_instructions(code))


def seeds_alike(start):
    """Whether a worker initialisation function ignores the worker's number and seeds with a constant."""
    code = getattr(getattr(start, "__func__", start), "__code__", None)
    if code is None or code.co_flags & 0x04:
        return False
    place = 1 if hasattr(start, "__func__") else 0
    if code.co_argcount <= place:
        return False
    given = code.co_varnames[place]
    names = set(code.co_names)
    if _reads(code, given) or given in code.co_cellvars or names.intersection(_OF_ITS_OWN):
        return False
    return any("seed" in name.lower() for name in names) and _uses_worker_id(start, code, names)


def _reads(code, name):
    import dis  # only if the program has such a function

    return any(one.argval == name and one.opname.startswith("LOAD") for one in dis.get_instructions(code))


def _uses_worker_id(start, code, names):
    held = [one for one in code.co_consts if type(one) is int]
    known = getattr(getattr(start, "__func__", start), "__globals__", {})
    held += [one for name in names if type(one := known.get(name)) is int]
    for name in names:
        fields = getattr(known.get(name), "__dict__", None)
        if isinstance(fields, dict) and not isinstance(known.get(name), types.ModuleType):
            held += [one for field in names if type(one := fields.get(field)) is int]
    for cell in getattr(start, "__closure__", None) or ():
        try:
            held += [cell.cell_contents] if type(cell.cell_contents) is int else []
        except ValueError:  # not filled yet
            continue
    return bool(held)


def _libraries(function):
    """Names of the libraries with random numbers that a function reads by themselves."""
    import dis  # only if workers are seeded

    function = getattr(function, "__func__", function)
    found = dis.get_instructions(function.__code__)
    known = [function.__globals__.get(one.argval) for one in found if one.opname == "LOAD_GLOBAL"]
    return {one.__name__ for one in known if isinstance(one, types.ModuleType)} & _SEEDED


def _draws(dataset, seeded):
    """Whether methods of a dataset or its transforms draw random numbers, of one of these libraries if it is named."""
    waiting = [dataset]
    fields = getattr(dataset, "__dict__", None) or {}
    waiting += [fields[name] for name in _WHERE_KEPT if name in fields]
    waiting += [one for kept in waiting[1:] for one in getattr(kept, "__dict__", {}).get("transforms", ()) or ()]
    for one in waiting[:32]:
        functions = [one] if isinstance(one, types.FunctionType) else _methods(type(one))
        for function in (function for function in functions if function.__name__ != "__init__"):
            named = _libraries(function)
            if _DRAWING.intersection(function.__code__.co_names) and not (named and seeded and not named & seeded):
                return True
    return False


def _methods(kind):
    for base in kind.__mro__:
        if not base.__module__.startswith(("torch.utils", "builtins", "paddle.io")):
            yield from (one for one in vars(base).values() if isinstance(one, types.FunctionType))
