"""Frames and class names as tracebacks of any kind print them."""

from __future__ import annotations

import re

from labbook.diagnosis.toml_data import compile_patterns
from labbook.model.run import Frame

SHAPES = compile_patterns(__file__)


def is_exception_class(name: str, *, in_traceback: bool = False) -> bool:
    """Whether a name looks like that of an exception's class; at the end of a traceback unusual names count, too."""
    last = re.split(r"\.|::", name)[-1]
    other = SHAPES["not_a_class"].match(last)
    if SHAPES["dotted"].match(name) or (SHAPES["named"].match(last) and (in_traceback or not other)):
        return True
    said = in_traceback and re.search(r"err|exc|fail|abort|timeout|fault|stop", last, re.IGNORECASE)
    capitalised = last[:1].isupper() and not last.isupper() and not re.search(r"\d$|_", last)
    return bool(said or (in_traceback and capitalised and not other))


def split_class(name: str) -> tuple[str, str]:
    """Module and class of a dotted name: ("torch.cuda", "OutOfMemoryError")."""
    if "::" in name:
        return "", name
    name = name.replace("<locals>.", "")
    module, _, last = name.rpartition(".")
    return module, last


def make_frame(file: str, line: int, function: str, source: str = "") -> Frame:
    """A frame, with `user` set where the file is not of an installed library."""
    function = re.sub(r"(?<=.)\(.*$", "", function).strip()
    return Frame(file, line, function, source.strip()[:400], not SHAPES["library"].search(file))
