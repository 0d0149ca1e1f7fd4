"""Notes the seeds that a program gives to Python and NumPy; the calls themselves are passed on unchanged."""

from ..wrapping import leave_out_one_frame, transparent_wrapper

SEEN = {}
"""Source -> the seed it was given last; the adapter of the framework reports it with its own."""

_AT_IMPORT = {}
"""Source -> (a function that returns a number for the generator's state, that number when the module was imported)."""


def attach(module, probe):
    """Watches `random.seed` or `numpy.random.seed`, and remembers the state of the generator."""
    source = "numpy" if module.__name__.startswith("numpy") else "python"
    watch(module, "seed", source, probe)
    with probe.guard("seed state " + source):
        state = _numpy_state(module) if source == "numpy" else _python_state(module)
        _AT_IMPORT[source] = (state, state())


def drawn_unseeded():
    """Generators that numbers were drawn from without a seed: source -> `None`.

    Reads the states (about 0.1 ms) and changes nothing.
    """
    return {source: None for source, (state, begin) in _AT_IMPORT.items() if source not in SEEN and state() != begin}


def _python_state(module):
    return lambda: hash(module.getstate())


def _numpy_state(module):
    def state():
        _, words, position, gauss, cached = module.get_state()
        return hash((words.tobytes(), position, gauss, cached))

    return state


def watch(module, function, source, probe):
    """Replaces `module.<function>` by one that notes its first argument and calls the original.

    Nothing is drawn and nothing is changed: the original gets the same arguments and its answer is returned.
    """
    original = getattr(module, function)

    def seed(*args, **kwargs):
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        with probe.guard("seed " + source):
            SEEN[source] = _plain(args[0] if args else next(iter(kwargs.values()), None))
        return result

    setattr(module, function, transparent_wrapper(seed, original))


def _plain(value):
    if value is None:
        return "from the operating system"
    if isinstance(value, (bool, int, float)):
        return value
    number = getattr(value, "item", None)
    if number is not None and getattr(value, "size", 0) == 1:
        return number()
    return "%s of length %d" % (type(value).__name__, len(value)) if hasattr(value, "__len__") else type(value).__name__
