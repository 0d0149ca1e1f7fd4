"""Remembers which modules a PyTorch program has made, so that the model of an optimizer is found without a sweep."""

import sys
from functools import partial
from weakref import ref

MOST = 50000
"""Modules that are remembered at a time; a program that makes more is searched by a sweep."""


class ModuleRegistry:
    """The modules of one process that were given a parameter or a child. Modules that were copied or unpickled are not.

    Args:
        is_compiling: Whether the compiler is at work.
        failed: `failed(where, error)` takes failures of ours.
        whole: Whether no module can have been made before.
    """

    def __init__(self, is_compiling, failed, whole=True):
        self._is_compiling = is_compiling
        self._failed = failed
        self._known = {}
        self._whole = whole

    def install(self):
        """Makes PyTorch report each registration; nothing where it cannot (before 2.0).

        Cost: 0.3 microseconds a registration, 1 for the first of a module.
        """
        home = sys.modules["torch.nn.modules.module"]
        names = ("register_module_module_registration_hook", "register_module_parameter_registration_hook")
        for name in names:
            getattr(home, name)(self._hook())

    def modules(self):
        """The modules that still exist; `None` where not all were remembered."""
        if not self._whole:
            return None
        return [module for module in [held() for held in list(self._known.values())] if module is not None]

    def _hook(self):
        known, is_compiling = self._known, self._is_compiling

        def registered(module, name, held):
            if is_compiling() or id(module) in known:
                return
            self._take(module)

        return registered

    def _take(self, module):
        try:
            if len(self._known) >= MOST:
                self._whole = False
                return
            key = id(module)
            self._known[key] = ref(module, partial(self._known.pop, key))
        except Exception as error:
            self._failed("torch.registry", error)
