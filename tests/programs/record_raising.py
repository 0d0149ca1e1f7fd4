"""Records a command while one call that the recorder makes raises; for `tests/record/test_record_guard.py`.

    record_raising.py FOLDER list RECORD...                 prints each call, as "file:line:callee", one a line
    record_raising.py FOLDER CALL KIND RECORD...            the first time CALL is made, it raises KIND instead

The calls are those made from the files of `labbook/record/`, in every thread and process of the recorder.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
from pathlib import Path

import labbook

# Loaded beforehand, as importing under a profile function is slow.
import labbook.commands.record
import labbook.fixes.fix_history
import labbook.record.finalize
import labbook.fixes.propose_fix
import labbook.record.recovery
import labbook.record.session
import labbook.record.child.supervisor
import labbook.report.entry.entry_page
import labbook.store.commit.entry_commit
import labbook.store.notebook
from labbook.cli import main

ROOM = str(Path(labbook.__file__).parent / "record") + os.sep
OWN = str(Path(ROOM) / "child" / "unrecorded.py")
LOGGING = {"_acquireLock", "_releaseLock", "_after_at_fork_child_reinit_locks", "_prepareFork", "_afterFork"}
NO_CALLS = {"__del__", "_remove", "_after_fork", "seed", "_exit", *LOGGING}
"""Run by the garbage collector or by `os.fork`, as by `logging`; and `os._exit`, which cannot fail."""
seen: set[str] = set()


def call_of(frame, event, argument):
    """The call that is made here as text, "" when it is none of the recorder's."""
    if event == "c_call":
        caller = frame
    elif event == "call" and frame.f_back is not None:
        caller = frame.f_back
    else:
        return ""
    file = caller.f_code.co_filename
    if not file.startswith(ROOM):
        return ""
    callee = argument.__name__ if event == "c_call" else frame.f_code.co_name
    # Importing is no call of the recorder, and the guard itself is what is tested.
    if file == OWN or caller.f_code.co_name == "<module>" or callee.startswith("<") or callee in NO_CALLS:
        return ""
    return f"{file[len(ROOM) :]}:{caller.f_lineno}:{callee}"


def lister(path):
    def profile(frame, event, argument):
        call = call_of(frame, event, argument)
        if call and call not in seen:
            seen.add(call)
            # Opened each time: the pump closes what it does not know.
            out = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.write(out, call.encode() + b"\n")
            os.close(out)

    return profile


def raiser(wanted, kind, mark):
    error = getattr(builtins, kind)

    def profile(frame, event, argument):
        if call_of(frame, event, argument) == wanted and not os.path.exists(mark):
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY))
            raise UnicodeEncodeError("ascii", "x", 0, 1, "raised") if error is UnicodeError else error("raised")

    return profile


def run():
    folder, what, *rest = sys.argv[1:]
    if what == "list":
        profile = lister(str(Path(folder) / "calls"))
    else:
        kind, *rest = rest
        profile = raiser(what, kind, str(Path(folder) / "raised"))
    threading.setprofile(profile)
    sys.setprofile(profile)
    sys.exit(main(rest))


run()
