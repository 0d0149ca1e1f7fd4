"""Installs the probe's hooks on the interpreter and on libraries other than the frameworks.

Uncaught exceptions are observed through the audit event that the interpreter raises before it calls `sys.excepthook`:
no hook is replaced, so that libraries which check the hook find the same as without the probe.
"""

import os
import sys
import time
from _thread import get_ident

from .. import guard, wrapping
from ..events import protocol
from .exceptions import ExceptionRecorder
from .user_files import is_user_file

_MAX_WARNINGS = 50
_MAX_SPAWNED = 200
_SPAWNERS = ("torch.multiprocessing.spawn", "paddle.distributed.spawn")
"""Modules that catch the exception of a child and send its text to the parent."""


def install(probe):
    """Install all observers of this process, each with its own guard. Never raises."""
    exceptions = probe.exceptions = ExceptionRecorder(probe)
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
    with probe.guard("exit"):
        sys.exit = wrapping.wrap_function(sys.exit, probe.guard("exit"), before=_exit_noter(probe))
        os._exit = wrapping.wrap_function(os._exit, probe.guard("exit"), before=_leaving(probe))
    if sys.version_info < (3, 11):
        probe.watch("traceback", _hide_frames)
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


def _hide_frames(module):
    """Leave the probe's frames out of tracebacks that the program prints of errors it caught.

    From Python 3.11 on they are not in them: see `wrapping.leave_out_one_frame`.
    """
    walk = module.walk_tb

    def walk_tb(tb):
        return ((frame, line) for frame, line in walk(tb) if not wrapping.is_ours(frame.f_code))

    module.walk_tb = wrapping.transparent_wrapper(walk_tb, walk)


def _dispatcher(handlers, belongs_to_program):
    """Create the audit hook, which costs one dictionary look-up for unused events.

    It cannot be removed, and the interpreter calls it even during shutdown, so it keeps its own references.
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


def _exit_noter(probe):
    """Create the observer of `sys.exit` in the main thread: the interpreter reports a `SystemExit` to no hook."""
    from . import thread_stacks

    def before(args, kwargs):
        if get_ident() == thread_stacks.main_ident():
            status = args[0] if args else None
            probe.totals["exit"] = {
                "t": time.time(),
                "step": probe.step or 0,
                "code": int(status) if isinstance(status, int) else int(status is not None),
                "message": status if isinstance(status, str) else "",
                "frames": thread_stacks.frames_of_caller(),
            }
            probe.leave(sys._getframe(2))

    return before


def _leaving(probe):
    """Create the observer of `os._exit` in the main thread of a program; forked children end by it."""
    from . import thread_stacks

    def before(args, kwargs):
        if probe.role == "python" and os.getpid() == probe.pid and get_ident() == thread_stacks.main_ident():
            probe.leave(sys._getframe(2))

    return before


def _exit_exceptions(probe, exceptions):
    """Observe exceptions of `atexit` functions, which do not change the exit status."""
    guard = probe.guard("atexit")

    def handle(args):
        with guard:
            fields = args[1]
            if "atexit" in str(fields.err_msg or "") and isinstance(fields.exc_value, BaseException):
                exceptions.record("main", fields.exc_value)

    return handle


def _remember_interrupt():
    """Make the interpreter end by SIGINT, as without the probe.

    The interpreter stores an uncaught `KeyboardInterrupt` in a flag that any later `eval` of a string clears, which a
    module imported by the probe may do; an interrupt raised in such a string sets the flag again.
    """
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        pass


def _watch_threads(threading, probe, exceptions):
    """Observe exceptions that end a thread, before any `threading.excepthook`."""
    guard = probe.guard("threads")

    def on_thread(thread):
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
                on_thread(thread)
            return invoke(thread)

        return invoke_excepthook

    threading._make_invoke_excepthook = wrapping.transparent_wrapper(_make_invoke_excepthook, make)


def _chain_thread_hook(threading, guard, exceptions):
    def before_hook(args, _):
        if not issubclass(args[0].exc_type, SystemExit):
            exceptions.record("thread", args[0].exc_value, thread=str(getattr(args[0].thread, "name", "")))

    threading.excepthook = wrapping.wrap_function(threading.excepthook, guard, before=before_hook)


def _watch_children(process, probe, exceptions):
    """Close the event file of a `multiprocessing` child, which exits by `os._exit`, and observe its last exception."""
    original = process.BaseProcess._bootstrap
    guard = probe.guard("child")

    def _bootstrap(self, *args, **kwargs):
        with guard:
            probe.watch("traceback", lambda module: _watch_reports(module, guard, original.__code__, exceptions))
        try:
            return original(self, *args, **kwargs)
        finally:
            probe.finish()

    process.BaseProcess._bootstrap = wrapping.transparent_wrapper(_bootstrap, original)


def _watch_deaths(popen, probe):
    from . import child_processes

    child_processes.watch(popen, probe)


def _watch_reports(traceback, guard, bootstrap, exceptions):
    """Observe the exception of a child in the call that prints it, or that makes its text for the parent."""

    def watch(name, is_reporter):
        original = getattr(traceback, name)

        def report(*args, **kwargs):
            with guard:
                error = sys.exc_info()[1]
                if error is not None and is_reporter(sys._getframe(1)):
                    exceptions.record("child", error, ends_process=True)
            return original(*args, **kwargs)

        setattr(traceback, name, wrapping.transparent_wrapper(report, original))

    watch("print_exc", lambda frame: frame.f_code is bootstrap)
    watch("format_exc", lambda frame: frame.f_globals.get("__name__") in _SPAWNERS)


def _watch_warnings(warnings, probe):
    """Observe each warning when it is first shown; those caught by `catch_warnings(record=True)` are not shown."""
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
        file = str(message.filename)
        probe.event(
            protocol.WARNING,
            category=message.category.__name__,
            message=str(message.message)[:4096],
            file=file,
            line=message.lineno,
            own=is_user_file(file if file.startswith("<") else os.path.abspath(file)),
        )

    warnings._showwarnmsg = wrapping.wrap_function(show, probe.guard("warnings"), before=before)


def _watch_cells(interactiveshell, probe, exceptions):
    """Observe exceptions of notebook cells, which do not reach `sys.excepthook`."""
    shell = interactiveshell.InteractiveShell

    def before(args, kwargs):
        given = kwargs.get("exc_tuple") or (args[1] if len(args) > 1 else None)
        error = given[1] if given else sys.exc_info()[1]
        if isinstance(error, BaseException):
            exceptions.record("main", error)

    def ending(args, kwargs):
        probe.end()
        probe.flush()

    guard = probe.guard("notebook end")
    # This function clears the variables of the notebook, long before the probe's exit handler.
    shell.atexit_operations = wrapping.wrap_function(shell.atexit_operations, guard, before=ending)
    shell.showtraceback = wrapping.wrap_function(shell.showtraceback, probe.guard("notebook cells"), before=before)


def _spawn_handlers(probe):
    """Return handlers of audit events of started programs; a Python process among them has its own probe."""
    guard = probe.guard("spawned")
    last = []
    count = [0]

    def on_spawn(how, argv):
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
                on_spawn(how, pick(args))

        return handle

    def on_exec(args):
        with guard:
            on_spawn("exec", args[1])
            probe.flush()

    return {
        "subprocess.Popen": handler("subprocess", lambda args: args[1]),
        "os.system": handler("subprocess", lambda args: args[0]),
        "os.posix_spawn": handler("spawn", lambda args: args[1]),
        "os.exec": on_exec,
    }


def _arguments(argv):
    if isinstance(argv, (str, bytes)) or hasattr(argv, "__fspath__"):
        argv = [argv]
    return [_text(argument)[:4096] for argument in list(argv)[:1000]]


def _text(argument):
    return os.fsdecode(argument) if isinstance(argument, (str, bytes)) or hasattr(argument, "__fspath__") else ""
