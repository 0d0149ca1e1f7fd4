"""Frames and class names as tracebacks of any kind print them."""

from __future__ import annotations

import re

from labbook.model.run import Frame

HEADER = re.compile(
    r"Traceback \((?:most recent call last|innermost last)\)|Traceback of TorchScript[^(]*\(most recent"
)
CPP_SECTION = re.compile(
    r"C\+\+ (?:Traceback|Call ?[Ss]tacks?)\b|^\s*(?:Exception|Error) raised from .{1,300}most recent call"
)
PYTHON_SECTION = re.compile(r"Python Call ?[Ss]tacks?\b")
SUMMARY = re.compile(r"^\W{0,6}Error Message Summary:?")
RULE = re.compile(r"^\s*[-=_*]{4,}\s*$")
MARKER = re.compile(r"^\s*[~^][\s~^]*$")
REPEATED = re.compile(r"^\s*\[Previous line repeated (\d+) more times?\]")
FRAME = re.compile(
    r"^\s*(?:File|文件)\s*[\"“”'](?P<file>[^\"“”]{1,1000})[\"“”'],?\s*(?:line|第)\s*(?P<line>\d{1,9})\s*行?"
    r"(?:[,，]?\s*(?:in|在)\s+(?P<function>.{1,400}?))?\s*$"
)
CHAINED = (
    (re.compile(r"During handling of the above exception, another exception occurred"), "context"),
    (re.compile(r"The above exception was the direct cause of the following exception"), "cause"),
    (re.compile(r"在处理上述异常(?:的过程中|时|期间)"), "context"),
)
_SUFFIX = (
    r"(?:Error|Exception|Warning|Interrupt|Exit|NotMet|Failure|Failed|Timeout|Unsupported|Iteration|Empty|Full|Fault|"
    r"Abort(?:ed)?|Killed|Refused|Overflow|Violation|Mismatch|Invalid|NotFound|Missing|Conflict|Denied|Group"
    r"|Traceback)"
)
EXCEPTION = re.compile(
    r"^(?P<type>[A-Za-z_]\w{0,120}(?:(?:\.|::)(?:<locals>|\w{1,120})){0,12})(?:\((?P<of>[\w.]{1,120})\))?"
    r"(?P<rest>\s*$|\s{0,3}[:：]\s?(?P<message>.*)$)"
)
_NAMED = re.compile(
    rf"^_?[A-Z]\w*{_SUFFIX}\w{{0,3}}$|^(?:error|exception|timeout|gaierror|herror)$|^E[A-Z]\w+Error$|^Exception$"
)
_DOTTED = re.compile(r"^[a-z_]\w*(?:\.\w+)*\.(?:_?[A-Z]\w+|\w*[Ee]rror|timeout|<locals>\.\w+)$|^\w+(?:::\w+)+$")
_NOT_A_CLASS = re.compile(
    r"^(?:\w*Warning|ERROR|FATAL|CRITICAL|INFO|DEBUG|WARN|Error|Traceback|Epoch|Train\w*|Test\w*|Valid\w*)$"
)

_LIBRARY = re.compile(
    r"(?:site|dist)-packages[\\/]|[\\/]lib(?:64)?[\\/]python\d|^<(?:frozen|string|decorator|__array|__torch"
    r"|eval_with)"
    r"|(?:conda\d?|Python\d{2,3}|python\d?)[\\/](?:envs[\\/][^\\/]+[\\/])?lib[\\/]|[\\/]lib[\\/](?:threading"
    r"|runpy)\.py$"
    r"|(?:^|[\\/])torch[\\/](?:nn[\\/]|utils[\\/]|_dynamo|_inductor|_C|autograd|optim|distributed"
    r"|multiprocessing|_tensor)"
    r"|(?:^|[\\/])(?:paddle|fluid)[\\/](?:fluid|nn|io|base|optimizer|autograd|distributed|incubate|jit|tensor)[\\/]"
    r"|(?:^|[\\/])paddle[\\/]fluid[\\/]"
    r"|(?:^|[\\/])(?:ray|pandas|numpy|scipy|sklearn|pyarrow|h5py|lxml)[\\/]\S*\.p(?:yx|xi|xd)$",
    re.IGNORECASE,
)
"""Files of installed libraries, also where a paste has cut the beginning of the path. Source: the folders that pip,
conda and system packages use on Linux, macOS and Windows."""


def is_exception_class(name: str, *, in_traceback: bool = False) -> bool:
    """Whether a name looks like that of an exception's class.

    Args:
        name: As printed, maybe with its module.
        in_traceback: At the end of a traceback unusual names count too.
    """
    last = re.split(r"\.|::", name)[-1]
    if _DOTTED.match(name):
        return True
    if _NAMED.match(last) and (in_traceback or not _NOT_A_CLASS.match(last)):
        return True
    if not in_traceback:
        return False
    return bool(re.search(r"err|exc|fail|abort|timeout|fault|stop", last, re.IGNORECASE)) or (
        last[:1].isupper() and not last.isupper() and not _NOT_A_CLASS.match(last) and not re.search(r"\d$|_", last)
    )


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
    return Frame(file, line, function, source.strip()[:400], not _LIBRARY.search(file))
