"""Finds the tensors named on a failing line without running code of the program.

Names are followed through local and global variables, instance dictionaries, the registries of modules, and plain
lists and dictionaries. Properties, `__getattr__`, `__getitem__` and calls are never evaluated. The only values read are
the smallest and largest one of an integer tensor on the CPU: ids and labels that are out of range.
"""

import re
import sys
from itertools import islice

from .index_values import find_index_outside
from .user_files import is_user_file

_MOST = 8
_MOST_ELEMENTS = 4
_MOST_PARAMETERS = 4
_MOST_CHAINS = 40
_MOST_LINES = 12
_MOST_FRAMES = 20000
_MOST_IDS = 1 << 20
"""Elements of an integer tensor whose range is read. Source: chosen by us; about a millisecond."""
_IDS = ("int64", "int32", "int16", "int8", "uint8")
_REGISTRIES = ("_parameters", "_buffers", "_modules", "_sub_layers")
_WORDS = re.compile(
    r"""(?P<skip>\#[^\n]*|[A-Za-z]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))"""
    r"""|(?P<chain>(?<![\w.])[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*|\[\s*(?:'[^'\\\]]*'|"[^"\\\]]*"|\w+)\s*\])*)"""
    r"""(?P<keyword>\s*=(?!=))?""",
    re.DOTALL,
)
_LINKS = re.compile(r"""\.\s*(?P<name>[A-Za-z_]\w*)|\[\s*(?:'(?P<a>[^']*)'|"(?P<b>[^"]*)"|(?P<index>\w+))\s*\]""")
_NOTHING = object()


def failing_tensors(error, source_of):
    """Return the tensors of the innermost line of the user's code in a traceback.

    Args:
        source_of: `source_of(code, first, last)` returns lines of a source file.

    Returns:
        At most 8 of {`name`, `shape` (list), `dtype`, `device` ("numpy" for arrays), `range` of integers on the CPU}:
        what the line names, then the parameters of the modules that it names, those of the layer that failed first. Of
        a failed embedding also the values of `index_values.find_index_outside`: beside the indices, or, where the line
        does not name them, as the first tensor, without a name.
    """
    traces = list_traces(error)
    own = [at for at, trace in enumerate(traces) if is_user_file(trace.tb_frame.f_code.co_filename)]
    if not own:
        return []
    trace = traces[own[-1]]
    frame = trace.tb_frame
    found, modules = {}, {}
    indices, outside = find_index_outside(traces[own[-1] + 1 :])
    for name, value in _resolve_names(frame, source_of(frame.f_code, *_lines(trace))):
        before = len(found)
        _take(found, modules, name, value)
        if value is indices and len(found) > before:
            next(reversed(found.values())).update(outside)
    if outside and not any("rows" in one for one in found.values()):
        found = {"": dict(describe_tensor(indices), name="", **outside), **found}
    failed = _failed_module(traces[own[-1] + 1 :], modules)
    if failed is not None:
        _add_parameters(found, *failed)
    for name, module in modules.items():
        _add_parameters(found, name, module)
    return list(found.values())[:_MOST]


def list_traces(error):
    """Return the entries of a traceback, outermost first."""
    found, trace = [], error.__traceback__
    while trace is not None and len(found) < _MOST_FRAMES:
        found.append(trace)
        trace = trace.tb_next
    return found


def _lines(trace):
    """Return the first and last line of the failing expression; a single line before Python 3.11."""
    line, code = trace.tb_lineno, trace.tb_frame.f_code
    positions = getattr(code, "co_positions", None)
    if positions is not None:
        start, end, _, _ = next(islice(positions(), trace.tb_lasti // 2, None), (None, None, None, None))
        if start is not None and end is not None and start <= line <= end:
            return start, min(end, start + _MOST_LINES)
    return line, line


def _resolve_names(frame, source):
    """Yield `(name, value)` of each resolvable chain of names in a line, in order."""
    local = frame.f_locals
    seen = set()
    for word in _WORDS.finditer(source):
        chain = word.group("chain")
        # A name before a single `=` is an argument name or an assignment target.
        if not chain or (word.group("keyword") and chain[-1] != "]") or chain in seen or len(seen) >= _MOST_CHAINS:
            continue
        seen.add(chain)
        first = re.match(r"\w+", chain).group()
        value = local[first] if first in local else frame.f_globals.get(first, _NOTHING)
        if value is _NOTHING:
            continue
        yield _follow_chain(first, value, chain[len(first) :], local)


def value_of_chain(frame, chain):
    """Return what a chain of names such as `self.table` or `model.fit` refers to, or `None`."""
    first, _, rest = chain.partition(".")
    value = frame.f_locals[first] if first in frame.f_locals else frame.f_globals.get(first, _NOTHING)
    for name in rest.split(".") if rest else ():
        inner = vars(value).get(name, _NOTHING) if type(value) is type(sys) else _attribute(value, name)
        value = class_attribute(type(value), name) if inner is _NOTHING else inner
    return None if value is _NOTHING else value


def class_attribute(kind, name):
    """Return an attribute of a class or of its bases, without calling descriptors, or `None`."""
    for one in type.__dict__["__mro__"].__get__(kind):
        held = type.__dict__["__dict__"].__get__(one)
        if name in held:
            return held[name]
    return None


def _follow_chain(name, value, links, local):
    """Resolve a chain as far as possible; a tensor ends it."""
    for link in _LINKS.finditer(links):
        if kind_of(value):
            break
        key = link.group("name")
        if key is not None:
            inner, shown = _attribute(value, key), "%s.%s" % (name, key)
        else:
            key = link.group("a") or link.group("b")
            if key is None:
                index = link.group("index")
                key = int(index) if index.isdigit() else local.get(index, _NOTHING)
            inner, shown = _item(value, key), "%s[%r]" % (name, key)
        if inner is _NOTHING:
            return name, None
        name, value = shown, inner
    return name, value


def _take(found, modules, name, value):
    """Add a tensor, or the first ones of a list or dictionary of tensors; store a module for later."""
    if kind_of(value):
        _add(found, name, value)
        return
    held = instance_dictionary(value)
    if held is not None and _is_module(held):
        modules.setdefault(name, value)
        return
    kind = type(value)
    if issubclass(kind, (list, tuple)):
        items = list(enumerate(list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)))
    elif issubclass(kind, dict) and len(value) < 100:
        items = [(key, one) for key, one in dict.items(value) if type(key) in (str, int)]
    else:
        return
    for key, one in items[:_MOST_ELEMENTS]:
        if kind_of(one):
            _add(found, "%s[%r]" % (name, key), one)


def _add(found, name, tensor):
    name = name[5:] if name.startswith("self.") else name
    if name not in found and len(found) < _MOST:
        try:
            fields = describe_tensor(tensor)
        except Exception:  # a tensor without a shape, such as a nested one
            return
        found[name] = dict(fields, name=name)


def _add_parameters(found, name, module):
    """Add the first parameters of a module, its own before those of submodules."""
    for path, tensor in _parameters(module):
        _add(found, "%s.%s" % (name, path), tensor)


def _parameters(module):
    found, waiting = [], [("", module)]
    while waiting and len(found) < _MOST_PARAMETERS:
        path, one = waiting.pop(0)
        held = instance_dictionary(one)
        if held is None:
            continue
        for registry in ("_parameters", "_buffers"):
            for key, tensor in _registry(held, registry):
                if kind_of(tensor):
                    found.append((path + key, tensor))
        for registry in ("_modules", "_sub_layers"):
            waiting += [("%s%s." % (path, key), part) for key, part in _registry(held, registry) if part is not None]
        if len(waiting) > 200:
            break
    return found[:_MOST_PARAMETERS]


def _failed_module(traces, modules):
    """Return `(name, module)` of the innermost called module, if it is a submodule of one named on the line."""
    for trace in reversed(traces):
        module = trace.tb_frame.f_locals.get("self")
        held = instance_dictionary(module)
        if held is None or not _is_module(held):
            continue
        for name, outer in modules.items():
            path = _path_to(outer, module)
            if path is not None:
                return name + path, module
        return None
    return None


def _path_to(outer, wanted):
    waiting, looked = [("", outer)], 0
    while waiting and looked < 1000:
        path, one = waiting.pop()
        looked += 1
        if one is wanted:
            return path
        held = instance_dictionary(one)
        if held is not None:
            for registry in ("_modules", "_sub_layers"):
                waiting += [("%s.%s" % (path, key), part) for key, part in _registry(held, registry)]
    return None


def _is_module(held):
    return "_parameters" in held and ("_modules" in held or "_sub_layers" in held)


def _registry(held, name):
    registry = held.get(name)
    if not isinstance(registry, dict):
        return []
    return [(key, value) for key, value in dict.items(registry) if type(key) is str]


def _attribute(value, name):
    held = instance_dictionary(value)
    if held is None:
        return _NOTHING
    if name in held:
        return held[name]
    for registry in _REGISTRIES:
        inner = held.get(registry)
        if isinstance(inner, dict) and name in inner:
            return dict.get(inner, name)
    return _NOTHING


def _item(value, key):
    kind = type(value)
    if key is _NOTHING or type(key) not in (str, int):
        return _NOTHING
    if issubclass(kind, dict):
        return dict.get(value, key, _NOTHING)
    if issubclass(kind, (list, tuple)) and type(key) is int:
        base = list if issubclass(kind, list) else tuple
        return base.__getitem__(value, key) if -base.__len__(value) <= key < base.__len__(value) else _NOTHING
    held = instance_dictionary(value)
    if held is None:
        return _NOTHING
    if _is_module(held):  # a ModuleList is indexed by number
        return _attribute(value, str(key))
    inner = held.get("data")  # a `UserDict`, as returned by tokenizers
    return dict.get(inner, key, _NOTHING) if type(inner) is dict else _NOTHING


def instance_dictionary(value):
    """Return the dictionary of an object's attributes, or `None`; no code of its class runs."""
    for kind in type.__dict__["__mro__"].__get__(type(value)):
        held = type.__dict__["__dict__"].__get__(kind).get("__dict__")
        if held is not None:
            if type(held).__name__ != "getset_descriptor":
                return None
            found = held.__get__(value)
            return found if type(found) is dict else None
    return None


def kind_of(value):
    """Return "torch", "paddle" or "numpy" for a tensor or array, else ""."""
    kind = type(value)
    for name, class_name in (("torch", "Tensor"), ("paddle", "Tensor"), ("numpy", "ndarray")):
        known = vars(sys.modules[name]).get(class_name) if name in sys.modules else None
        if isinstance(known, type) and issubclass(kind, known):
            return name
    return ""


def describe_tensor(tensor):
    """Return shape, dtype, device and range of a tensor; runs no tensor mode or subclass of the program."""
    library = kind_of(tensor)
    if library == "torch":
        torch = sys.modules["torch"]
        with torch._C.DisableTorchFunction():
            found = _plain_description(tensor.shape, tensor.dtype, str(tensor.device))
            is_of_ids = type(tensor) is torch.Tensor and found["device"] == "cpu" and found["dtype"] in _IDS
            if is_of_ids and tensor.layout is torch.strided and 0 < tensor.numel() <= _MOST_IDS:
                with torch._C._DisableTorchDispatch():
                    found["range"] = [int(one) for one in torch.aminmax(tensor)]
            return found
    if library == "paddle":
        return _plain_description(tensor.shape, tensor.dtype, _place(tensor))
    array = sys.modules["numpy"].ndarray
    return _plain_description(array.shape.__get__(tensor), array.dtype.__get__(tensor), "numpy")


def _plain_description(shape, dtype, device):
    return {
        "shape": [size if type(size) is int else str(size) for size in shape],
        "dtype": str(dtype).rpartition(".")[2],
        "device": device,
    }


def _place(tensor):
    """Format a device as "cpu" or "gpu:0"."""
    text = str(getattr(tensor, "place", ""))
    return text[6:-1] if text.startswith("Place(") else text
