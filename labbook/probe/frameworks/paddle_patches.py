"""Keeps what the probe has put in place of functions of PaddlePaddle, and takes it away where a compiler looks.

`to_static` reads the code of the functions that it compiles and of those that these call. While a compiled function
runs, everything is as if nobody watched.
"""

import sys

from ..wrapping import disguised, leave_out_one_frame


class Patches:
    """The replaced attributes of one process.

    Args:
        paddle: The module.
    """

    def __init__(self, paddle):
        self._paddle = paddle
        self._all = []
        self._aside = 0

    def put(self, home, name, mine):
        """Replaces an attribute of a module or class."""
        self._all.append((home, name, home.__dict__.get(name), mine))
        setattr(home, name, mine)

    def install(self):
        """Steps aside while compiled functions are called."""
        static = sys.modules["paddle.jit.dy2static.program_translator"].StaticFunction
        call = static.__call__

        def called(function, *args, **kwargs):
            self._off()
            try:
                return call(function, *args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            finally:
                self._on()

        static.__call__ = disguised(called, call)

    @property
    def aside(self):
        """Whether a compiled function is under way."""
        return self._aside > 0

    def _off(self):
        self._aside += 1
        if self._aside == 1:
            for home, name, original, mine in self._all:
                if original is not None and home.__dict__.get(name) is mine:
                    setattr(home, name, original)

    def _on(self):
        self._aside -= 1
        if self._aside == 0:
            for home, name, original, mine in self._all:
                if original is not None and home.__dict__.get(name) is original:
                    setattr(home, name, mine)
