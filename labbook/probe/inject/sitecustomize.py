"""Boots labbook's probe in this interpreter, then runs the `sitecustomize` that it hides.

The only file of its folder: every name beside it could be imported by the user. Valid syntax from Python 2.7 on; an
interpreter older than 3.8 only gets the second half. Nothing here prints, and nothing here fails on its own.
"""

import os
import sys


def _boot():
    """Loads the probe by path under a private name; silent outside a recorded run, and only once in an interpreter."""
    if sys.version_info < (3, 8) or not os.environ.get("LABBOOK_PROBE") or hasattr(sys, "_labbook_probe"):
        return
    sys._labbook_probe = None
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    package = type(sys)("_labbook_probe")
    package.__path__ = [folder]
    sys.modules["_labbook_probe"] = package
    writes_no_bytecode = sys.dont_write_bytecode
    # In an installation of somebody else cached bytecode is read, never written.
    sys.dont_write_bytecode = writes_no_bytecode or os.stat(folder).st_uid != os.getuid()
    try:
        from _labbook_probe.start import boot

        boot()
    finally:
        sys.dont_write_bytecode = writes_no_bytecode


def _chain():
    """Takes this folder out of `sys.path` and imports the user's own `sitecustomize`, whose errors reach the user.

    When there is none this module goes back into `sys.modules`: without it the interpreter would print a `KeyError`.
    """
    ours = sys.modules.pop(__name__, None)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    try:
        __import__(__name__)
    except ImportError:
        error = sys.exc_info()[1]
        missing = getattr(error, "name", None) or str(error).rpartition(" ")[2]
        if ours is not None:
            sys.modules[__name__] = ours
        if missing != __name__:
            raise
    except BaseException:
        if ours is not None:
            sys.modules[__name__] = ours
        raise


try:
    _boot()
except Exception:  # whatever is wrong with the probe, the program starts as it would without it
    pass
_chain()
