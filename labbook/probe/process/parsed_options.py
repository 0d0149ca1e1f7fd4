"""Records options and settings of the program: results of its parsers, and variables of its main module."""

import sys

from .. import wrapping
from ..events import protocol
from .library_parsers import PARSERS
from .literal_constants import is_setting, literal_constants
from .settings_values import (
    NAMES_OF_NUMBERS,
    has_arrays,
    has_keys_of_settings,
    is_settings_object,
    read_declared_defaults,
    settings_of_class,
    to_plain,
)
from .user_files import is_user_file

_MOST = 20
_DEEPEST = 60
_MOST_SOURCES = 8
_OPTIMIZED = 1
"""Flag of the code of functions, whose variables are not in a dictionary. Source: `inspect.CO_OPTIMIZED`."""
_NAME_WORDS = (
    "config cfg conf configs args opt opts options hparams hparam hps hp flags params hyperparameters hyper_parameters "
    "hyperparams hyper_params settings train_config training_args train_args model_config"
)
_NAMES = frozenset(_NAME_WORDS.split())

_LAUNCHER_WORDS = (
    "torch paddle hydra accelerate deepspeed horovod pip setuptools jupyter_client jupyter_core nbconvert nbclient "
    "ipykernel traitlets IPython ray coverage _pytest pytest ddtrace debugpy viztracer scalene unittest runpy timeit "
    "cProfile trace triton torchgen cython Cython ninja fire tyro draccus jsonargparse papermill pydantic_settings"
)
_LAUNCHERS = frozenset(_LAUNCHER_WORDS.split())
"""Launchers and libraries that parse options of their own; only the options of the program they run are recorded."""

_RAY = ("/ray/_private/", "-packages/ray/")
"""Parts of the path of a program of Ray, such as a worker or its dashboard: the options are those of Ray."""


class ParsedOptions:
    """Records each set of options once."""

    def __init__(self, probe):
        self._probe = probe
        self._known = set()
        self._constants = {}
        self._local = {}
        self._guard = probe.guard("config")

    def write_options(self, source, name, settings, defaults=None):
        """Write options.

        Args:
            source: The parser, see `protocol.ARGUMENTS`.
            name: Name of the parser or variable.
            settings: Anything that `to_plain` turns into an object.
            defaults: Name -> default value, `None` for those that a dataclass declares.
        """
        values = to_plain(settings)
        if not isinstance(values, dict) or not values or len(self._known) >= _MOST:
            return
        key = (source, repr(values))
        if key not in self._known:
            self._known.add(key)
            defaults = to_plain(read_declared_defaults(settings) if defaults is None else defaults)
            unchanged = [at for at, value in values.items() if at in defaults and defaults[at] == value]
            more = {"unchanged": unchanged} if unchanged else {}
            self._probe.event(protocol.ARGUMENTS, source=source, name=name, values=values, **more)

    def inspect_functions(self, is_first=True):
        """Reads the settings in local variables of the user's functions that are running.

        They have the usual names or classes of settings. Of a method, its object is read as well. After the first look
        no constants: later trainings may be those of other settings and objects.

        Cost: 40 microseconds, and 10 ms for 1,000 lines of their files.
        """
        with self._guard:
            frame = sys._getframe(1)
            for _ in range(_DEEPEST):
                if frame is None:
                    return
                code = frame.f_code
                if code.co_name != "<module>" and is_user_file(code.co_filename):
                    bound = self._bound_names(code.co_filename, code.co_firstlineno) if is_first else {}
                    self._local.update((name, value) for name, value in bound.items() if value is not None)
                    for name, value in read_local_variables(frame):
                        if _holds_settings(name, value):
                            self._variable(name, value)
                        elif code.co_varnames[:1] == (name,) and hasattr(type(value), code.co_name):
                            self._attributes(value, is_first)
                frame = frame.f_back

    def _bound_names(self, file, line=0):
        """Names that a function, or the module, of a file binds, with the values of its constants."""
        if file not in self._constants:
            self._constants[file] = literal_constants(file) if len(self._constants) < _MOST_SOURCES else {}
        return self._constants[file].get(line, {})

    def _attributes(self, owner, is_first):
        """Reads what configures an object.

        Settings in its attributes, numbers with the names of settings, and arguments of its constructor that it keeps
        under their names.
        """
        named = getattr(owner, "__dict__", {})
        build = getattr(type(owner).__init__, "__code__", None)
        given = build.co_varnames[1 : build.co_argcount + build.co_kwonlyargcount] if build is not None else ()
        plain = {}
        for name, value in list(named.items()):
            if isinstance(value, type):
                continue
            if name.strip("_").lower() in _NAMES or is_settings_object(value):
                if is_first:
                    self._variable(name, value)
            elif type(value) in (int, float, str, bool) and (name in given or name in NAMES_OF_NUMBERS):
                plain[name] = value
        if plain:
            self.write_options("attributes", type(owner).__name__, plain)

    def inspect_all(self):
        """Reads the settings in running functions, and those in the main module."""
        self.inspect_functions()
        self.inspect()

    def inspect(self, _step=None):
        """Reads settings with the usual names, and constants, from the main module."""
        with self._guard:
            names = getattr(sys.modules.get("__main__"), "__dict__", {})
            # The interpreter takes `__file__` away before the exit handlers run.
            file = str(names.get("__file__") or getattr(names.get("__loader__"), "path", ""))
            if any(part in file for part in _RAY):
                return
            trains = "torch" in sys.modules or "paddle" in sys.modules
            bound = self._bound_names(file) if trains else {}
            constants = dict(self._local)
            for name, module in list(sys.modules.items()) if trains else ():
                home = getattr(module, "__file__", None) or ""
                if name.rpartition(".")[2] in _NAMES and home and is_user_file(home):
                    self._module(name, module, home)
            for name, value in list(names.items()):
                if name.startswith("_") or name in ("In", "Out"):
                    continue
                if _holds_settings(name, value):
                    if name in bound or not _is_of_package(name, value):
                        self._variable(name, value)
                elif not is_setting(value):
                    continue
                # What a module only imports is no setting of it.
                elif bound.get(name) is not None or (_is_constant(name) and (name in bound or not bound)):
                    constants[name] = value
            if constants:
                self.write_options("constants", "__main__", constants)

    def _module(self, name, module, file):
        """Reads the constants of a module with the name of settings: `config.py`."""
        bound = self._bound_names(file)
        values = {at: value for at, value in vars(module).items() if at in bound and is_setting(value)}
        if values:
            self.write_options("dict", name, values)

    def _variable(self, name, value):
        if isinstance(value, type):
            # The fields of a dataclass are defaults; what was run is in its instance.
            if not hasattr(value, "__dataclass_fields__"):
                self.write_options("dict", name, settings_of_class(value))
        elif type(value).__module__.partition(".")[0] == "omegaconf":
            self.write_options("omegaconf", name, value)
        elif not callable(value) and type(value).__name__ != "module" and not has_arrays(value):
            self.write_options("dict", name, value)

    def after_fork(self):
        """Skip settings in a forked child: its parent has recorded them."""
        self._known.update(range(_MOST))


def read_local_variables(frame):
    """Return the variables of a running function that are no classes, with their names.

    Before Python 3.13 the frame keeps a dictionary with all of them, and so the first batch and its output, as long as
    the function runs. It is emptied. A function that calls `locals()` has got the same one: it is not read.
    """
    code = frame.f_code
    if not code.co_flags & _OPTIMIZED or "locals" in code.co_names:
        return []
    variables = frame.f_locals
    found = [(name, value) for name, value in variables.items() if not isinstance(value, type)]
    if type(variables) is dict:
        variables.clear()
    return found


def _holds_settings(name, value):
    """Whether a variable has the name of settings, or a class or the keys of them."""
    return name.lower() in _NAMES or is_settings_object(value) or has_keys_of_settings(value)


def _is_of_package(name, value):
    """Whether a variable is one of an installed package, as after `from fastai.tabular.all import *`."""
    return any(
        vars(module).get(name) is value and "-packages/" in str(getattr(module, "__file__", None))
        for module in list(sys.modules.values())
        if hasattr(module, "__dict__")
    )


def _is_constant(name):
    return name in NAMES_OF_NUMBERS or (name.isupper() and len(name) > 1)


def install(probe):
    """Watch the parsers, read the main module at the first step and at the end, objects with each optimizer."""
    settings = ParsedOptions(probe)
    probe.watch("argparse", lambda module: _watch_argparse(module, probe, settings))
    for module in ("click.core", "typer._click.core"):
        probe.watch(module, lambda module: _watch_click(module, probe, settings))
    probe.watch("hydra.core.utils", lambda module: _watch_hydra(module, probe, settings))
    for module, watch in PARSERS.items():
        probe.watch(module, _watching(watch, probe, settings))
    probe.at_steps(lambda step: settings.inspect_all() if step == 1 else None)
    probe.at_optimizers(lambda: settings.inspect_functions(is_first=False))
    probe.at_exit(settings.inspect)
    again = {"fork": settings.after_fork, "python": settings._known.clear}
    probe.after_fork(lambda: again.get(probe.role, bool)())


def _watching(watch, probe, settings):
    return lambda module: watch(module, probe, settings)


def _watch_argparse(argparse, probe, settings):
    original = argparse.ArgumentParser.parse_known_args

    def after(result, args, kwargs):
        if _is_inside_a_parser() or _caller_root() in _LAUNCHERS:
            return
        defaults = {action.dest: action.default for action in args[0]._actions}
        settings.write_options("argparse", str(getattr(args[0], "prog", "")), result[0], defaults)

    wrapper = wrapping.wrap_function(original, probe.guard("argparse"), after=after)
    argparse.ArgumentParser.parse_known_args = wrapper


def _is_inside_a_parser():
    """Whether the parser that just returned is a sub-parser; its caller returns all options."""
    frame = sys._getframe(3)
    while frame is not None and frame.f_globals.get("__name__") in ("argparse", wrapping.__name__):
        if frame.f_code.co_name in ("_parse_known_args", "_parse_known_args2"):
            return True
        frame = frame.f_back
    return False


def _caller_root():
    frame = sys._getframe(3)
    while frame is not None and frame.f_globals.get("__name__") in ("argparse", wrapping.__name__):
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame is not None else ""
    if name == "__main__" and any(part in frame.f_code.co_filename for part in _RAY):
        return "ray"
    package = frame.f_globals.get("__package__") if frame is not None else ""
    return (package or name or "").partition(".")[0]


def _watch_click(core, probe, settings):
    def before(args, kwargs):
        context = args[1] if len(args) > 1 else kwargs.get("ctx")
        if _root(getattr(args[0], "callback", None)) not in _LAUNCHERS:
            options = dict(context.params)
            defaults = {at: value for at, value in options.items() if _is_default(context, at)}
            settings.write_options("click", str(context.command_path), options, defaults)

    core.Command.invoke = wrapping.wrap_function(core.Command.invoke, probe.guard("click"), before=before)


def _is_default(context, name):
    """Whether an option of Click was not given; Click before 8.0 does not know."""
    source = getattr(context, "get_parameter_source", lambda _: None)(name)
    return getattr(source, "name", "") == "DEFAULT"


def _root(function):
    return (getattr(function, "__module__", "") or "").partition(".")[0]


def _watch_hydra(utils, probe, settings):
    def before(args, kwargs):
        composed = kwargs.get("config") if "config" in kwargs else args[1]
        values = to_plain(composed)
        if isinstance(values, dict):
            values.pop("hydra", None)
        settings.write_options("hydra", str(getattr(sys.modules.get("__main__"), "__file__", "")), values)

    utils.run_job = wrapping.wrap_function(utils.run_job, probe.guard("hydra"), before=before)
