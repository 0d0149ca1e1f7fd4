"""Records the seeds that a program sets for Python and NumPy; the calls are passed on unchanged."""

from ..wrapping import leave_out_one_frame, transparent_wrapper

SEEN = {}
"""Generator -> last seed; the adapter of the framework records it with its own seeds."""


def attach(module, probe):
    """Watch `random.seed` or `numpy.random.seed`."""
    watch(module, "seed", "numpy" if module.__name__.startswith("numpy") else "python", probe)


def watch(module, function, source, probe):
    """Replace `module.<function>` by one that records its first argument and calls the original.

    No random number is drawn; arguments and result of the original are unchanged.
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
