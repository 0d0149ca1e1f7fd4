"""Keeps what the probe has put in place of functions of PaddlePaddle, and takes it away where a compiler looks.

`to_static` reads the code of the functions that it compiles and of those that these call. While a compiled function
runs, everything is as if nobody watched. A static program keeps the Python stack of each of its operators and prints it
when one fails: after `enable_static` only those wrappers stay that no operator is built in.
"""

import sys
from threading import Lock
from types import BuiltinFunctionType, FunctionType

from ..wrapping import as_import_machinery, leave_out_one_frame, transparent_wrapper

_FUNCTIONS = (FunctionType, BuiltinFunctionType)


class Patches:
    """The replaced attributes of one process."""

    def __init__(self, paddle):
        self._paddle = paddle
        self._all = []
        self._index = None
        self._aside = 0
        self._static = False
        self.forget()

    def forget(self):
        """Begins anew, in a forked child, where no other thread can hold the lock."""
        self._lock = Lock()

    def replace(self, home, name, mine, in_static=False):
        """Replaces an attribute of a class or module; a function under all the names that PaddlePaddle has for it.

        Whoever imported it from elsewhere is seen too, and `pickle`, which looks a function up where it says that it is
        from, finds the same one as the program.

        Args:
            home: The class or module.
            mine: What takes its place.
            in_static: Whether it stays after `enable_static`: no operator is built inside it.
        """
        original = home.__dict__.get(name)
        if any(original is one[3] for one in self._all):
            return  # the same function under another name
        places = () if isinstance(home, type) or original is None else self._places(original)
        for module, known in places or ((home, name),):
            if module.__dict__.get(known) is original:
                self._replace(module, known, original, mine, in_static)

    def _places(self, function):
        """Where modules of PaddlePaddle hold a function: `(module, name)`, several of them.

        Cost: 5 ms, once.
        """
        if self._index is None:
            self._index = _functions()
        places = [place.rpartition(":") for place in self._index.get(id(function), "").split()]
        return [(sys.modules[key], name) for key, _, name in places if key in sys.modules]

    def _replace(self, home, name, original, mine, in_static):
        self._all.append((home, name, original, mine, in_static))
        setattr(home, name, mine)

    def install(self, traced):
        """Steps aside while compiled functions are called; nothing is put in place after that.

        Args:
            traced: `traced(program)` takes each `ConcreteProgram` that was traced from a function; it never raises.
        """
        self._follow_mode()
        self._index = None
        home = sys.modules["paddle.jit.dy2static.program_translator"]
        whole = getattr(home, "ASTStaticFunction", ())
        program = home.ConcreteProgram
        traces = [name for name in ("pir_from_func_spec", "from_func_spec") if name in program.__dict__]
        for name in traces:
            setattr(program, name, staticmethod(self._suspend_during(getattr(program, name), traced)))
        static = home.StaticFunction
        call = static.__call__
        aside = self._suspend_during(call)

        def call_static(function, *args, **kwargs):
            # One that is compiled as a whole is only traced there; others look at the code they run at each call.
            now = call if traces and isinstance(function, whole) else aside
            try:
                return now(function, *args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise

        static.__call__ = transparent_wrapper(as_import_machinery(call_static), call)

    def _follow_mode(self):
        """Learns of `enable_static` and `disable_static`."""
        modes = sys.modules["paddle.base.dygraph.base"]
        for original in (modes.enable_dygraph, modes.disable_dygraph):
            for module, name in self._places(original):
                if module.__dict__.get(name) is original:
                    setattr(module, name, self._switch_after(original))

    def _switch_after(self, original):
        def call_and_switch(*args, **kwargs):
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            finally:
                with self._lock:
                    self._static = not self._paddle.in_dynamic_mode()
                    self._switch()

        return transparent_wrapper(call_and_switch, original)

    def _suspend_during(self, original, then=None):
        def call_suspended(*args, **kwargs):
            self._remove_all()
            try:
                result = original(*args, **kwargs)
                if then is not None:
                    then(result)
                return result
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            finally:
                self._apply_all()

        return transparent_wrapper(call_suspended, original)

    @property
    def aside(self):
        """Whether a compiled function is under way."""
        return self._aside > 0

    def _remove_all(self):
        with self._lock:
            self._aside += 1
            if self._aside == 1:
                self._switch()

    def _apply_all(self):
        with self._lock:
            self._aside -= 1
            if self._aside == 0:
                self._switch()

    def _switch(self):
        """Has each attribute be what it should be now, unless somebody else has replaced it."""
        for home, name, original, mine, in_static in self._all:
            away = self._aside or (self._static and not in_static)
            now, then = (mine, original) if away else (original, mine)
            if original is not None and home.__dict__.get(name) is now:
                setattr(home, name, then)


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
