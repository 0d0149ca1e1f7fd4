"""What `torch.compile` has done, and how the probe stays out of what it looks at."""

import sys
from types import CodeType

from ..training.backward import NEVER_COMPILING
from ..wrapping import is_ours

_hidden = set()
"""Names of the probe's modules whose functions the compiler leaves alone already."""


def has_compiled():
    """Whether `torch.compile` has compiled something in this process; never imports the compiler."""
    compiler = sys.modules.get("torch._dynamo.utils")
    counters = getattr(compiler, "counters", None)
    return bool(counters and counters.get("frames", {}).get("ok"))


def is_compiling_next(torch):
    """Whether what this thread runs next is given to the compiler, as inside the first call of a compiled model."""
    callback = getattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback", None)
    return callback is not None and bool(callback())


def questions(torch):
    """`(tracing, flags)`: a compiler is at work where `tracing() or flags._is_compiling_flag`.

    The compiler, which may look into a hook, folds `tracing()` and never meets the rest of it. PyTorch's own question
    is both of them in three calls, which a hook that runs at each step would make for nothing.
    """
    compiler = getattr(torch, "compiler", None)
    tracing = getattr(compiler, "is_dynamo_compiling", None)
    if tracing is not None and "_is_compiling_flag" in vars(compiler):
        return tracing, compiler
    return getattr(compiler, "is_compiling", None) or bool, NEVER_COMPILING


def recompiled():
    """How often the function that was compiled most was compiled again; never imports the compiler."""
    module = sys.modules.get("torch._dynamo.convert_frame")
    counted = getattr(module, "FRAME_COMPILE_COUNTER", None)
    return max(0, max(counted.values()) - 1) if counted else 0


def hide_from_compiler(torch):
    """Has the compiler never compile a function of the probe. Imports nothing.

    When a compiled region falls back to Python between two graphs, the functions that Python then calls are compiled
    one by one. Those of the probe are no parts of the program: they are to run as they are.

    Cost: 5 ms at first; later calls take what was imported since.
    """
    skip = _skip(torch._C._dynamo.eval_frame)
    package = __name__.partition(".")[0]
    waiting = []
    for name, module in list(sys.modules.items()):
        if name not in _hidden and (name == package or name.startswith(package + ".")):
            _hidden.add(name)
            waiting += [code for code in map(_code, _members(module)) if code is not None and is_ours(code)]
    seen = set()
    while waiting:
        code = waiting.pop()
        if code not in seen:
            seen.add(code)
            skip(code)
            waiting += [constant for constant in code.co_consts if type(constant) is type(code)]


def _skip(compiler):
    if hasattr(compiler, "skip_code"):  # before PyTorch 2.7
        return compiler.skip_code
    action = compiler._FrameAction
    strategy = compiler._FrameExecStrategy(action.SKIP, action.DEFAULT)
    return lambda code: compiler.set_code_exec_strategy(code, strategy)


def _members(module):
    """Functions of a module and of its classes, the halves of their properties among them."""
    members = list(vars(module).values())
    for kind in [member for member in members if isinstance(member, type)]:
        members += vars(kind).values()
    for pair in [member for member in members if isinstance(member, property)]:
        members += (pair.fget, pair.fset)
    return members


def _code(member):
    code = getattr(member, "__code__", None)
    return code if isinstance(code, CodeType) else None  # the type of functions has a descriptor of that name
