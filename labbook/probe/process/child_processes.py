"""Records `multiprocessing` children that were ended by a signal of another process."""

import signal

from .. import wrapping
from ..events import protocol

_MOST = 50
_MOST_NAMES = 1000


def watch(popen, probe):
    """Record the death of a child when its parent polls it.

    Args:
        popen: `multiprocessing.popen_fork`, whose class is the base class of the other start methods.
    """
    names, fields, requests = {}, set(), set()

    def on_forget():
        names.clear()
        fields.clear()
        requests.clear()

    probe.after_fork(on_forget)

    def on_start(result, args, kwargs):
        child = args[1]
        if len(names) < _MOST_NAMES:
            # The child drops its function once it runs.
            target = getattr(child, "_target", None) or getattr(type(child), "run", None)
            names[args[0].pid] = (str(child.name), str(getattr(target, "__qualname__", "")))

    def sends(args, kwargs):
        if getattr(args[0], "returncode", 0) is None:
            requests.add(args[0].pid)

    def on_poll(result, args, kwargs):
        pid = args[0].pid
        if type(result) is not int or result >= 0 or pid in fields or pid in requests or len(fields) >= _MOST:
            return
        fields.add(pid)
        name, target = names.pop(pid, ("", ""))
        probe.event(protocol.CHILD_DIED, pid=pid, name=name, target=target, signal=_signal_name(-result))

    kind = popen.Popen
    guard = probe.guard("children")
    kind.__init__ = wrapping.wrap_function(kind.__init__, guard, after=on_start)
    kind.poll = wrapping.wrap_function(kind.poll, guard, after=on_poll)
    kind._send_signal = wrapping.wrap_function(kind._send_signal, guard, before=sends)


def _signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number
