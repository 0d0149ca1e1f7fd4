"""Identifies the user's source files, and reads their lines."""

import contextlib
import functools
import os
import sys

_MAX_SOURCE_FILE = 4 * 1024 * 1024
_CYTHON = (".pyx", ".pxi", ".pxd")


def is_user_file(file):
    """Whether a source file belongs to the user, not to the interpreter, an installed package or the probe."""
    if file.startswith("<frozen"):
        return False
    if file == "<string>":  # else code that a library makes, as the constructor of a dataclass
        return sys.argv[:1] == ["-c"]
    if "/site-packages/" in file or "/dist-packages/" in file:
        return False
    if file.endswith(_CYTHON) and not os.path.exists(file):
        return False  # of an installed package: its path is that of the machine that compiled it
    return not file.startswith(_library_folders())


def is_user_module(name):
    """Whether an imported module was read from a file of the user."""
    module = sys.modules.get(name)
    file = getattr(module, "__dict__", {}).get("__file__")
    return is_user_file(os.path.abspath(file)) if isinstance(file, str) else name == "__main__"


def display_path(file, folder):
    """`In[3]`, as Jupyter shows it, for a cell of a notebook; `<string>` as it is; else the path, below `folder`."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)() if "ipy" in file else None
    count = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    if count is not None:
        return "In[%s]" % count
    return file if file.startswith("<") else os.path.normpath(os.path.join(folder, file))


@functools.lru_cache(maxsize=None)
def _library_folders():
    library = os.path.dirname(os.__file__) + os.sep
    real = os.path.realpath(os.path.dirname(os.__file__)) + os.sep
    return (library, real, os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, *installed_folders())


def installed_folders():
    """Folders of `pip install --target` on the module path; the program's own folder is none, whatever is in it."""
    script, found = getattr(sys, "argv", [""])[0], []
    for folder in filter(None, sys.path):
        with contextlib.suppress(OSError):
            real = os.path.realpath(folder)
            is_own = real in (os.path.realpath(os.path.dirname(script)), os.path.realpath(os.curdir))
            if not is_own and any(name.endswith(".dist-info") for name in os.listdir(real)):
                found += [os.path.abspath(folder) + os.sep, real + os.sep]
    return tuple(found)


def read_source(path):
    """Return the text of a source file, "" if it cannot be read."""
    return "\n".join(_read_lines(path))


def source_line(name, path, line, sources):
    """Return a line of source; uses `linecache`, which knows notebook cells, if it is loaded."""
    cached = getattr(sys.modules.get("linecache"), "cache", {}).get(name)
    if isinstance(cached, tuple) and len(cached) == 4:
        lines = cached[2]
    else:
        if path not in sources:
            sources[path] = _read_lines(path)
        lines = sources[path]
    return lines[line - 1].strip()[:1000] if lines and 0 < line <= len(lines) else ""


def _read_lines(path):
    try:
        if path.startswith("<") or not os.path.isfile(path) or os.path.getsize(path) > _MAX_SOURCE_FILE:
            return []
        with open(path, "rb") as stream:
            return stream.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return []
