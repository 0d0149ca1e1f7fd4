"""Runs faults that raise for real and prints what a terminal would have shown, one JSON line for each.

python crashes_torch.py [name ...]
"""

import gc
import json
import os
import signal
import sys
import tempfile
import time
import traceback

FAULTS = {}
LIMIT_S = 30
"""A fault that hangs ends the program by SIGALRM, which no reader thread can hold up."""


def fault(family, *symptoms):
    """Registers a function that fails: the family, and the symptoms of which an expert would name one."""

    def register(function):
        if function.__name__ in FAULTS:
            raise ValueError("two faults of the name " + function.__name__)
        FAULTS[function.__name__] = (function, family, symptoms)
        return function

    return register


def shown(function):
    """What the function wrote on standard error and the traceback that ended it; "" if nothing was raised."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        ended = ""
        try:
            function()
        except SystemExit as exit_:
            ended = "" if isinstance(exit_.code, int) else str(exit_.code)
        except BaseException as error:
            # The frame of this runner is no part of what a user would see.
            behind = error.__traceback__.tb_next
            ended = "".join(traceback.format_exception(type(error), error, behind))
            if "Blocking queue" in ended:
                time.sleep(1.5)  # the reader's own thread tells of the error a moment later
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        return file.read().decode("utf-8", "replace") + ended


def main():
    """Prints name, family, symptoms, text and seconds of the faults that are named, or of all."""
    place = tempfile.mkdtemp(prefix="crashes-")
    sys.dont_write_bytecode = True
    gc.disable()  # a broken loader of PaddlePaddle can hang where it is collected

    for name in sys.argv[1:] or list(FAULTS):
        function, family, symptoms = FAULTS[name]
        inside = os.path.join(place, name)
        os.makedirs(inside)
        os.chdir(inside)
        began = time.perf_counter()
        signal.alarm(LIMIT_S)
        text = shown(function)
        signal.alarm(0)
        line = {"name": name, "family": family, "symptoms": symptoms, "text": text}
        line["seconds"] = round(time.perf_counter() - began, 2)
        print(json.dumps(line), flush=True)
