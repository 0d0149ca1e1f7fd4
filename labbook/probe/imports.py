"""Calls somebody back after a module was imported, and leaves no trace on the module.

A finder that comes first asks the other finders for the module and shadows `exec_module` on that one loader object;
the shadow takes itself away before the module runs. Loaders, specs and modules stay those of the interpreter, so that
`inspect`, `importlib.resources`, `pkgutil`, `reload` and `python -m` work as without it.
"""

import os
import sys
from _thread import get_ident

from . import wrapping


class PostImportFinder:
    """Watches a handful of names; is on `sys.meta_path` only while there is something to watch.

    Args:
        guard: Makes a context manager that swallows and counts the failures of a callback.
    """

    def __init__(self, guard):
        self._guard = guard
        self._watched = {}
        self._asking = set()
        self._own = set()
        library = os.path.dirname(os.__file__)
        self._library = [entry for entry in sys.path if entry in (library, os.path.join(library, "lib-dynload"))]

    def watch(self, name, callback):
        """Calls `callback(module)` once: after the import of `name`, or now when that is done. Never raises."""
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            self._call(name, module, [callback])
            return
        self._watched.setdefault(name, []).append(callback)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        """The spec that the other finders give for a watched name, its loader prepared; `None` for all other names."""
        spec = self._is_in_library(name) if path is None and get_ident() in self._own else None
        if name not in self._watched or name in self._asking:
            return spec
        self._asking.add(name)
        try:
            spec = spec or self._ask_others(name, path, target)
        finally:
            self._asking.discard(name)
        if spec is not None:
            with self._guard("imports.prepare"):
                self._prepare(name, spec.loader)
        return spec

    def __enter__(self):
        """While the probe itself works in this thread, it imports from the standard library only.

        A file `re.py` beside the user's script is not for us, and must not run because of us.
        """
        self._own.add(get_ident())
        return self

    def __exit__(self, *_):
        self._own.discard(get_ident())

    def _is_in_library(self, name):
        from _frozen_importlib_external import PathFinder

        return PathFinder.find_spec(name, self._library)

    def _ask_others(self, name, path, target):
        for finder in list(sys.meta_path):
            if finder is self:
                continue
            find = getattr(finder, "find_spec", None)
            if find is None:
                # A finder of the old kind might be the one that knows the module: the interpreter must ask it itself.
                return None
            spec = find(name, path, target)
            if spec is not None:
                return spec
        return None

    def _prepare(self, name, loader):
        # Built-in and frozen modules are loaded by classes, which all such modules share: those are never touched.
        if loader is None or isinstance(loader, type) or not hasattr(loader, "exec_module"):
            return
        if "exec_module" in getattr(loader, "__dict__", ()):
            return

        imported = self._on_imported

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)
            loader.exec_module(module)
            imported(name, module)

        loader.exec_module = wrapping.as_import_machinery(exec_module)

    def _on_imported(self, name, module):
        callbacks = self._watched.pop(name, [])
        self._call(name, sys.modules.get(name, module), callbacks)
        if not self._watched and self in sys.meta_path:
            sys.meta_path.remove(self)

    def _call(self, name, module, callbacks):
        for callback in callbacks:
            with self._guard("imported " + name):
                callback(module)


def import_adapter(name):
    """A module of the probe by its name in it, `torch.adapter`."""
    full = __name__.rpartition(".")[0] + "." + name
    writes_no_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = writes_no_bytecode or os.stat(os.path.dirname(__file__)).st_uid != os.getuid()
    try:
        __import__(full)
    finally:
        sys.dont_write_bytecode = writes_no_bytecode
    return sys.modules[full]
