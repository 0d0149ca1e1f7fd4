"""Every act of the probe that touches the interpreter or another library outside the frameworks.

Uncaught exceptions are seen through the audit event that the interpreter raises before it calls `sys.excepthook`:
nothing is replaced, so a library that looks for somebody else's hook finds what it would find without the probe.
"""

import os
import sys

from .. import guard, wrapping
from ..events import protocol
from .exceptions import ExceptionRecorder

_MAX_WARNINGS = 50
_MAX_SPAWNED = 200


def install(probe):
    """Installs everything that watches this process; each part is guarded on its own. Never raises."""
    exceptions = ExceptionRecorder(probe)
    handlers = {
        "sys.excepthook": _main_exceptions(probe, exceptions),
        "sys.unraisablehook": _exit_exceptions(probe, exceptions),
    }
    with probe.guard("inputs"):
        from . import file_access

        handlers.update(file_access.install(probe))
    with probe.guard("spawned"):
        handlers.update(_spawn_handlers(probe))
    with probe.guard("audit"):
        sys.addaudithook(_dispatcher(handlers, guard.belongs_to_program))
    probe.watch("threading", lambda module: _watch_threads(module, probe, exceptions))
    probe.watch("multiprocessing.process", lambda module: _watch_children(module, probe, exceptions))
    probe.watch("multiprocessing.popen_fork", lambda module: _watch_deaths(module, probe))
    probe.watch("warnings", lambda module: _watch_warnings(module, probe))
    probe.watch("IPython.core.interactiveshell", lambda module: _watch_cells(module, probe, exceptions))
    with probe.guard("config"):
        from . import parsed_options

        parsed_options.install(probe)
    with probe.guard("sources"):
        from . import used_sources

        used_sources.install(probe)


def _dispatcher(handlers, belongs_to_program):
    """The audit hook: one dictionary look-up for the events that nobody here wants.

    It cannot be removed, and the interpreter still calls it at its end, so it holds all that it needs itself.
    """
    find, failure = handlers.get, Exception

    def hook(event, args):
        handle = find(event)
        if handle is not None:
            try:
                handle(args)
            except failure as error:
                if belongs_to_program(error):
                    raise

    return hook


def _main_exceptions(probe, exceptions):
    guard = probe.guard("excepthook")

    def handle(args):
        with guard:
            error = args[2]
            if isinstance(error, BaseException):
                exceptions.record("main", error, ends_process=not hasattr(sys, "ps1"))
            if isinstance(error, KeyboardInterrupt):
                if probe.watchdog is not None:
                    probe.watchdog.interrupted(error)
                probe.flush()
                _remember_interrupt()

    return handle


def _exit_exceptions(probe, exceptions):
    """Sees exceptions of functions that were registered with `atexit`, which change no exit status."""
    guard = probe.guard("atexit")

    def handle(args):
        with guard:
            told = args[1]
            if "atexit" in str(told.err_msg or "") and isinstance(told.exc_value, BaseException):
                exceptions.record("main", told.exc_value)

    return handle


def _remember_interrupt():
    """Has the interpreter die by SIGINT in the end, as it would without the probe.

    It remembers an uncaught `KeyboardInterrupt` in a flag that any later `eval` of a text clears, and a module that the
    probe had to import may hold one; an interrupt out of such a text sets it again.
    """
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        pass


def _watch_threads(threading, probe, exceptions):
    """Sees exceptions that end a thread, before `threading.excepthook` does, whoever has set it."""
    guard = probe.guard("threads")

    def seen(thread):
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, SystemExit):
            exceptions.record("thread", error, thread=str(getattr(thread, "name", "")))

    make = getattr(threading, "_make_invoke_excepthook", None)
    if make is None:
        _chain_thread_hook(threading, guard, exceptions)
        return

    def _make_invoke_excepthook(*args, **kwargs):
        invoke = make(*args, **kwargs)

        def invoke_excepthook(thread):
            with guard:
                seen(thread)
            return invoke(thread)

        return invoke_excepthook

    threading._make_invoke_excepthook = wrapping.transparent_wrapper(_make_invoke_excepthook, make)


def _chain_thread_hook(threading, guard, exceptions):
    def before(args, _):
        if not issubclass(args[0].exc_type, SystemExit):
            exceptions.record("thread", args[0].exc_value, thread=str(getattr(args[0].thread, "name", "")))

    threading.excepthook = wrapping.wrap_function(threading.excepthook, guard, before=before)


def _watch_children(process, probe, exceptions):
    """Ends the event file of a `multiprocessing` child, which leaves by `os._exit`, and sees the error that ends it."""
    original = process.BaseProcess._bootstrap
    guard = probe.guard("child")

    def _bootstrap(self, *args, **kwargs):
        with guard:
            probe.watch("traceback", lambda module: _watch_printing(module, guard, original.__code__, exceptions))
        try:
            return original(self, *args, **kwargs)
        finally:
            probe.finish()

    process.BaseProcess._bootstrap = wrapping.transparent_wrapper(_bootstrap, original)


def _watch_deaths(popen, probe):
    from . import child_processes

    child_processes.watch(popen, probe)


def _watch_printing(traceback, guard, bootstrap, exceptions):
    """`multiprocessing` prints the error of a child itself; the call that does so is the one moment to see it."""
    original = traceback.print_exc

    def print_exc(*args, **kwargs):
        with guard:
            error = sys.exc_info()[1]
            if sys._getframe(1).f_code is bootstrap and error is not None:
                exceptions.record("child", error, ends_process=True)
        return original(*args, **kwargs)

    traceback.print_exc = wrapping.transparent_wrapper(print_exc, original)


def _watch_warnings(warnings, probe):
    """Sees each warning the first time it is shown; those caught by `catch_warnings(record=True)` are not shown."""
    seen = set()
    probe.after_fork(seen.clear)
    show = getattr(warnings, "_showwarnmsg", None)
    final = getattr(warnings, "_showwarnmsg_impl", None)
    if show is None or final is None:
        probe.unobserved("Python warnings", "this interpreter shows them in a way that the probe does not know")
        return

    def before(args, _):
        if len(seen) >= _MAX_WARNINGS:
            return
        recorded = warnings._showwarnmsg_impl is not final
        message = args[0]
        key = (message.filename, message.lineno, message.category)
        if recorded or key in seen:
            return
        seen.add(key)
        probe.event(
            protocol.WARNING,
            category=message.category.__name__,
            message=str(message.message)[:4096],
            file=str(message.filename),
            line=message.lineno,
        )

    warnings._showwarnmsg = wrapping.wrap_function(show, probe.guard("warnings"), before=before)


def _watch_cells(interactiveshell, probe, exceptions):
    """Sees exceptions of notebook cells, which never reach `sys.excepthook`."""
    shell = interactiveshell.InteractiveShell

    def before(args, kwargs):
        given = kwargs.get("exc_tuple") or (args[1] if len(args) > 1 else None)
        error = given[1] if given else sys.exc_info()[1]
        if isinstance(error, BaseException):
            exceptions.record("main", error)

    def ending(args, kwargs):
        probe.flush()

    guard = probe.guard("notebook end")
    # The names of the notebook are cleared by this very function, long before the probe's own turn at the end.
    shell.atexit_operations = wrapping.wrap_function(shell.atexit_operations, guard, before=ending)
    shell.showtraceback = wrapping.wrap_function(shell.showtraceback, probe.guard("notebook cells"), before=before)


def _spawn_handlers(probe):
    """Audit events of programs that are started; a Python among them says hello by itself."""
    guard = probe.guard("spawned")
    last = []
    count = [0]

    def spawned(how, argv):
        argv = _arguments(argv)
        # From Python 3.13 on `subprocess` itself goes through `os.posix_spawn`: one program, two audit events.
        if (argv == last and how != "exec") or count[0] >= _MAX_SPAWNED:
            return
        last[:] = argv
        count[0] += 1
        probe.event(protocol.SPAWNED, pid=None, argv=argv, how=how)

    def handler(how, pick):
        def handle(args):
            with guard:
                spawned(how, pick(args))

        return handle

    def executed(args):
        with guard:
            spawned("exec", args[1])
            probe.flush()

    return {
        "subprocess.Popen": handler("subprocess", lambda args: args[1]),
        "os.system": handler("subprocess", lambda args: args[0]),
        "os.posix_spawn": handler("spawn", lambda args: args[1]),
        "os.exec": executed,
    }


def _arguments(argv):
    if isinstance(argv, (str, bytes)) or hasattr(argv, "__fspath__"):
        argv = [argv]
    return [_text(argument)[:4096] for argument in list(argv)[:1000]]


def _text(argument):
    return os.fsdecode(argument) if isinstance(argument, (str, bytes)) or hasattr(argument, "__fspath__") else ""
