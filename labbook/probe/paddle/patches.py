"""Keeps what the probe has put in place of functions of PaddlePaddle, and takes it away where a compiler looks.

`to_static` reads the code of the functions that it compiles and of those that these call. While a compiled function
runs, everything is as if nobody watched.
"""

import sys
from threading import Lock
from types import BuiltinFunctionType, FunctionType

from ..wrapping import as_import_machinery, leave_out_one_frame, transparent_wrapper

_FUNCTIONS = (FunctionType, BuiltinFunctionType)


class Patches:
    """The replaced attributes of one process.

    Args:
        paddle: The module.
    """

    def __init__(self, paddle):
        self._paddle = paddle
        self._all = []
        self._index = None
        self._aside = 0
        self.forget()

    def forget(self):
        """Begins anew, in a forked child, where no other thread can hold the lock."""
        self._lock = Lock()

    def put(self, home, name, mine):
        """Replaces an attribute of a class or module; a function under all the names that PaddlePaddle has for it.

        Whoever imported it from elsewhere is seen too, and `pickle`, which looks a function up where it says that it is
        from, finds the same one as the program.
        """
        original = home.__dict__.get(name)
        if any(original is one[3] for one in self._all):
            return  # the same function under another name
        places = () if isinstance(home, type) or original is None else self._places(original)
        for module, known in places or ((home, name),):
            if module.__dict__.get(known) is original:
                self._replace(module, known, original, mine)

    def _places(self, function):
        """Where modules of PaddlePaddle hold a function: `(module, name)`, several of them.

        Cost: 5 ms, once.
        """
        if self._index is None:
            self._index = _functions()
        places = [place.rpartition(":") for place in self._index.get(id(function), "").split()]
        return [(sys.modules[key], name) for key, _, name in places if key in sys.modules]

    def _replace(self, home, name, original, mine):
        self._all.append((home, name, original, mine))
        setattr(home, name, mine)

    def install(self):
        """Steps aside while compiled functions are called; nothing is put in place after that."""
        self._index = None
        home = sys.modules["paddle.jit.dy2static.program_translator"]
        whole = getattr(home, "ASTStaticFunction", ())
        program = home.ConcreteProgram
        traces = [name for name in ("pir_from_func_spec", "from_func_spec") if name in program.__dict__]
        for name in traces:
            setattr(program, name, staticmethod(self._aside_during(getattr(program, name))))
        static = home.StaticFunction
        call = static.__call__
        aside = self._aside_during(call)

        def called(function, *args, **kwargs):
            # One that is compiled as a whole is only traced there; others look at the code they run at each call.
            if traces and isinstance(function, whole):
                return call(function, *args, **kwargs)
            return aside(function, *args, **kwargs)

        static.__call__ = transparent_wrapper(as_import_machinery(called), call)

    def _aside_during(self, original):
        def called(*args, **kwargs):
            self._off()
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            finally:
                self._on()

        return transparent_wrapper(called, original)

    @property
    def aside(self):
        """Whether a compiled function is under way."""
        return self._aside > 0

    def _off(self):
        with self._lock:
            self._aside += 1
            if self._aside == 1:
                for home, name, original, mine in self._all:
                    if original is not None and home.__dict__.get(name) is mine:
                        setattr(home, name, original)

    def _on(self):
        with self._lock:
            self._aside -= 1
            if self._aside == 0:
                for home, name, original, mine in self._all:
                    if original is not None and home.__dict__.get(name) is original:
                        setattr(home, name, mine)


def _functions():
    """Id of each function that a module of PaddlePaddle holds -> "module:name", several of them with blanks between.

    Texts, because a list for each of them is what the interpreter counts before it looks for garbage: PaddlePaddle has
    so many functions and objects that the program would then soon wait 70 ms for a search through all of them.
    """
    index = {}
    for key, module in list(sys.modules.items()):
        if key == "paddle" or key.startswith("paddle."):
            held = getattr(module, "__dict__", {})
            for name in list(held):
                value = held.get(name)
                if type(value) in _FUNCTIONS:
                    known = index.get(id(value))
                    index[id(value)] = "%s:%s" % (key, name) if known is None else "%s %s:%s" % (known, key, name)
    return index
