"""Records the seeds that a program sets for Python and NumPy; the calls are passed on unchanged."""

from ..wrapping import wrap_function

SEEN = {}
"""Generator -> last seed; the adapter of the framework records it with its own seeds."""

_STATES = {}
"""Generator -> [function that hashes its state, that hash when training began or `None` before]."""


def attach(module, probe):
    """Watch `random.seed` or `numpy.random.seed`, and the state of the generator."""
    source = "numpy" if module.__name__.startswith("numpy") else "python"
    watch(module, "seed", source, probe)
    _STATES[source] = [_numpy_state(module) if source == "numpy" else lambda: hash(module.getstate()), None]


def follow(source, state):
    """Follow the generator of a framework from now on: its first numbers are the weights.

    Args:
        source: Name of the framework.
        state: `state()` hashes the state of the generator.
    """
    _STATES[source] = [state, state()]


def unseeded_generators():
    """Return the generators that numbers were drawn from without a seed: generator -> `None`.

    Of Python and NumPy, the first call is the beginning of training: what imports draw before says nothing. Reads the
    states (about 0.1 ms) and changes nothing.
    """
    drawn = {}
    for source, known in _STATES.items():
        state, begin = known
        if begin is None:
            known[1] = state()
        elif source not in SEEN and state() != begin:
            drawn[source] = None
    return drawn


def _numpy_state(module):
    def state():
        _, words, position, gauss, cached = module.get_state()
        return hash((words.tobytes(), position, gauss, cached))

    return state


def watch(module, function, source, probe):
    """Replace `module.<function>` by one that records its first argument and calls the original.

    No random number is drawn; arguments and result of the original are unchanged.
    """

    def after(_, args, kwargs):
        SEEN[source] = _plain_seed(args[0] if args else next(iter(kwargs.values()), None))

    original = getattr(module, function)
    setattr(module, function, wrap_function(original, probe.guard("seed " + source), after=after))


def _plain_seed(value):
    if value is None:
        return "from the operating system"
    if isinstance(value, (bool, int, float)):
        return value
    number = getattr(value, "item", None)
    if number is not None and getattr(value, "size", 0) == 1:
        return number()
    return "%s of length %d" % (type(value).__name__, len(value)) if hasattr(value, "__len__") else type(value).__name__
