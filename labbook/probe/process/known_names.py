"""Lists the names that an object has where a program asked it for another: attributes, keys, columns, arguments.

No code of the program runs: properties, `__getattr__`, `__dir__` and `__getitem__` are never called. Labels of tables
are read by pandas, from its own classes only.
"""

import builtins
import difflib
import re
import types

from .failing_line import class_attribute, instance_dictionary, value_of_chain
from .user_files import is_user_file, is_user_module

_NOTHING = ("", [], False, False)
_MOST_NAMES = 2000
_MOST_SHOWN = 12
_NEAR = 3
_ALIKE, _ALIKE_OF_MANY = 0.6, 0.75
"""Source: chosen by us: `sparse` and `sparse_output` are alike among few names; among many, more letters must agree."""
_LISTED = re.compile(
    r"(?:None of \[\w*\(?)?\[['\"]([^'\"\n]{1,80})['\"].*(?:not in index|not found in axis|are in the)", re.DOTALL
)
"""What pandas says of labels that it does not find, as in `['a', 'b'] not found in axis`."""
_UNDEFINED = re.compile(r"name '(\w+)' is not defined")
_ATTRIBUTE = re.compile(r"has no attribute '(\w+)'")
_UNEXPECTED = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_ITEM = re.compile(r"([A-Za-z_][\w.]*)\s*\[")


def known_names(error, traces, source_of):
    """Return `{"missing", "near", "known"}` and perhaps `"own"`; an empty dictionary where no container is found.

    Args:
        error: The exception.
        traces: Its traceback, outermost first.
        source_of: `source_of(code, first, last)` returns lines of a source file.

    Returns:
        The name that was asked for, up to 3 similar names that exist, up to 12 keys or columns, or arguments, and
        `"own": True` where the function, class or module that lacks it is the user's.
    """
    own = [trace for trace in traces if is_user_file(trace.tb_frame.f_code.co_filename)]
    if not own:
        return {}
    frame, line = own[-1].tb_frame, own[-1].tb_lineno
    missing, names, shown, is_own = _find(error, traces, frame, source_of(frame.f_code, line, line))
    if not missing or missing in names:
        return {}
    near = [one for one in names if one.strip().casefold() == missing.strip().casefold()]
    near = near or difflib.get_close_matches(missing, names, _NEAR, _ALIKE if shown else _ALIKE_OF_MANY)
    known = names[:_MOST_SHOWN] if shown and len(names) <= _MOST_SHOWN else []
    found = {"missing": missing, "near": near, "known": known}
    return {**found, "own": True} if is_own else found if names else {}


def _find(error, traces, frame, source):
    """Return the missing name, those that exist, whether a person may want to read all, and whether they are own."""
    message = BaseException.__dict__["args"].__get__(error)[:1]
    message = message[0] if message and type(message[0]) is str else ""
    if isinstance(error, KeyError):
        listed = _LISTED.match(message)
        missing = listed.group(1) if listed else message
        return missing, _labels(traces) or _keys(frame, source, missing), True, False
    if isinstance(error, NameError):
        found = _UNDEFINED.search(message)
        scopes = {**vars(builtins), **frame.f_globals, **frame.f_locals}
        return (found.group(1), _texts(scopes), False, False) if found else _NOTHING
    if isinstance(error, TypeError):
        found = _UNEXPECTED.search(message)
        code = _called_code(frame, source, found.group(1)) if found else None
        return (found.group(2), _arguments(code), True, is_user_file(code.co_filename)) if code else _NOTHING
    found = _ATTRIBUTE.search(message)
    owner = getattr(error, "obj", None) if type(error) is AttributeError else None
    if not found or owner is None:
        return _NOTHING
    return found.group(1), _attributes(owner, found.group(1)), False, _is_own(owner)


def _is_own(owner):
    """Whether a module, class or object is the user's, with all its base classes but `object`."""
    if type(owner) is types.ModuleType:
        return is_user_module(owner.__dict__.get("__name__"))
    kinds = _bases(owner)[:-1]
    return bool(kinds) and all(is_user_module(type.__dict__["__module__"].__get__(kind)) for kind in kinds)


def _bases(owner):
    return type.__dict__["__mro__"].__get__(owner if issubclass(type(owner), type) else type(owner))


def _texts(names):
    return [name for name in list(names)[:_MOST_NAMES] if type(name) is str]


def _labels(traces):
    """Return the labels of the pandas index, or the columns of the table, that was asked for a key."""
    for trace in reversed(traces):
        local = trace.tb_frame.f_locals
        one = local.get("self", local.get("obj"))
        kind = type(one)
        if str(type.__dict__["__module__"].__get__(kind)).split(".")[0] != "pandas":
            continue
        if kind.__name__ == "DataFrame":
            one = one.columns
        if type(one).__name__.endswith("Index") and len(one) <= _MOST_NAMES:
            return _texts(one.tolist())
    return []


def _keys(frame, source, missing):
    """Return the keys of the first dictionary on a line that lacks a key."""
    for found in _ITEM.finditer(source):
        value = value_of_chain(frame, found.group(1))
        if issubclass(type(value), dict):
            keys = [key for key in dict.keys(value) if type(key) is str]
            if keys and missing not in keys:
                return keys[:_MOST_NAMES]
    return []


def _attributes(owner, missing):
    """Return the public attributes of an object or module, private ones too where a private one was asked for."""
    found = dict(vars(owner)) if type(owner) is types.ModuleType else dict(instance_dictionary(owner) or {})
    for kind in _bases(owner):
        found.update(type.__dict__["__dict__"].__get__(kind))
    return [name for name in _texts(found) if missing.startswith("_") or not name.startswith("_")]


def _called_code(frame, source, callee):
    """Return the code of the function that a line calls under this name, or as the class with this method."""
    for found in _CALL.finditer(source):
        function = value_of_chain(frame, found.group(1))
        if issubclass(type(function), type):
            function = class_attribute(function, callee)
        while type(function) is types.FunctionType and "__wrapped__" in function.__dict__:
            function = function.__dict__["__wrapped__"]
        function = function.__func__ if type(function) is types.MethodType else function
        if type(function) is types.FunctionType and function.__name__ == callee:
            return function.__code__
    return None


def _arguments(code):
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [name for name in names if name not in ("self", "cls")]
