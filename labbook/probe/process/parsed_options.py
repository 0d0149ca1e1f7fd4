"""Records options and settings of the program: results of its parsers, and variables of its main module."""

import sys

from .. import wrapping
from ..events import protocol
from .settings_values import settings_of_class, to_plain

_MOST = 20
_NAME_WORDS = (
    "config cfg conf configs args opt opts options hparams hparam hps hp flags params hyperparameters hyper_parameters "
    "hyperparams hyper_params settings train_config training_args train_args model_config"
)
_NAMES = frozenset(_NAME_WORDS.split())
_NUMBER_WORDS = (
    "lr learning_rate epochs num_epochs n_epochs max_epochs epoch_num batch_size bs batchsize train_batch_size seed "
    "random_seed momentum weight_decay wd dropout hidden hidden_size hidden_dim num_layers n_layers embed_dim dim "
    "num_classes n_classes max_steps num_steps steps warmup warmup_steps gamma beta1 beta2 temperature patience "
    "num_workers device"
)
_NUMBERS = frozenset(_NUMBER_WORDS.split())
_LAUNCHER_WORDS = (
    "torch paddle hydra accelerate deepspeed horovod pip setuptools jupyter_client jupyter_core nbconvert nbclient "
    "ipykernel traitlets IPython ray coverage _pytest pytest ddtrace debugpy viztracer scalene unittest runpy timeit "
    "cProfile trace triton torchgen cython Cython ninja"
)
_LAUNCHERS = frozenset(_LAUNCHER_WORDS.split())
"""Launchers and libraries that parse options of their own; only the options of the program they run are recorded."""


class ParsedOptions:
    """Records each set of options once."""

    def __init__(self, probe):
        self._probe = probe
        self._known = set()
        self._guard = probe.guard("config")

    def found(self, source, name, values):
        """Write options.

        Args:
            source: The parser, see `protocol.ARGUMENTS`.
            name: Name of the parser or variable.
            values: Anything that `plain` turns into an object.
        """
        values = to_plain(values)
        if not isinstance(values, dict) or not values or len(self._known) >= _MOST:
            return
        key = (source, repr(values))
        if key not in self._known:
            self._known.add(key)
            self._probe.event(protocol.ARGUMENTS, source=source, name=name, values=values)

    def look(self, _step=None):
        """Read settings with the usual names from the main module. Cost: 50 microseconds."""
        with self._guard:
            names = getattr(sys.modules.get("__main__"), "__dict__", {})
            constants = {}
            for name, value in list(names.items()):
                if name.startswith("_") or name in ("In", "Out"):
                    continue
                if name.lower() in _NAMES:
                    self._variable(name, value)
                elif _is_constant(name) and type(value) in (int, float, str, bool):
                    constants[name] = value
            if constants:
                self.found("constants", "__main__", constants)

    def _variable(self, name, value):
        if isinstance(value, type):
            self.found("dict", name, settings_of_class(value))
        elif type(value).__module__.partition(".")[0] == "absl":
            own = value.get_key_flags_for_module(sys.argv[0])
            self.found("absl", name, {flag.name: flag.value for flag in own})
        elif type(value).__module__.partition(".")[0] == "omegaconf":
            self.found("omegaconf", name, value)
        elif not callable(value) and type(value).__name__ != "module":
            self.found("dict", name, value)

    def forked(self):
        """Skip settings in a forked child: its parent has recorded them."""
        self._known.update(range(_MOST))


def _is_constant(name):
    return name in _NUMBERS or (name.isupper() and len(name) > 1)


def install(probe):
    """Watch the parsers, and read the main module at the first step and at the end."""
    settings = ParsedOptions(probe)
    probe.watch("argparse", lambda module: _watch_argparse(module, probe, settings))
    probe.watch("click.core", lambda module: _watch_click(module, probe, settings))
    probe.watch("hydra.core.utils", lambda module: _watch_hydra(module, probe, settings))
    probe.at_steps(lambda step: settings.look() if step == 1 else None)
    probe.at_exit(settings.look)
    probe.after_fork(settings.forked)


def _watch_argparse(argparse, probe, settings):
    original = argparse.ArgumentParser.parse_known_args

    def after(result, args, kwargs):
        if _is_inside_a_parser() or _caller_root() in _LAUNCHERS:
            return
        settings.found("argparse", str(getattr(args[0], "prog", "")), result[0])

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
    package = frame.f_globals.get("__package__") if frame is not None else ""
    return (package or name or "").partition(".")[0]


def _watch_click(core, probe, settings):
    def before(args, kwargs):
        context = args[1] if len(args) > 1 else kwargs.get("ctx")
        if _root(getattr(args[0], "callback", None)) not in _LAUNCHERS:
            settings.found("click", str(context.command_path), dict(context.params))

    core.Command.invoke = wrapping.wrap_function(core.Command.invoke, probe.guard("click"), before=before)


def _root(function):
    return (getattr(function, "__module__", "") or "").partition(".")[0]


def _watch_hydra(utils, probe, settings):
    def before(args, kwargs):
        composed = kwargs.get("config") if "config" in kwargs else args[1]
        values = to_plain(composed)
        if isinstance(values, dict):
            values.pop("hydra", None)
        settings.found("hydra", str(getattr(sys.modules.get("__main__"), "__file__", "")), values)

    utils.run_job = wrapping.wrap_function(utils.run_job, probe.guard("hydra"), before=before)
