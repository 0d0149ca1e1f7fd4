"""Libraries that parse options or are given settings, and where each has them."""

import os
import sys

from .. import wrapping
from .settings_values import NAMES_OF_NUMBERS, is_of_user, to_plain
from .user_files import is_user_file


def _watch_calls(name, source, read, at_begin=False):
    """Returns a watcher for a function, "parse" or "Parser.parse", whose calls carry settings.

    Args:
        name: The function, or class and method, in the watched module.
        source: See `protocol.ARGUMENTS`.
        read: `read(original, result, args, kwargs)` gives the arguments of `ParsedOptions.write_options` behind the
            source.
        at_begin: Whether they are read before the call, which then has no result.
    """

    def watch(module, probe, settings):
        *path, last = name.split(".")
        owner = getattr(module, path[0]) if path else module
        original = getattr(owner, last)

        def after(result, args, kwargs):
            settings.write_options(source, *read(original, result, args, kwargs))

        observers = {"before": lambda args, kwargs: after(None, args, kwargs)} if at_begin else {"after": after}
        setattr(owner, last, wrapping.wrap_function(original, probe.guard(source), **observers))

    return watch


def _watch_result(name, source, pick=lambda result: result):
    """Returns a watcher for a function that returns the settings."""

    def read(original, result, args, kwargs):
        return str(getattr(sys.modules.get("__main__"), "__file__", "")), pick(result)

    return _watch_calls(name, source, read)


def _watch_given(name, source):
    """Returns a watcher for a method whose plain arguments are settings: those that were given."""

    def read(original, result, args, kwargs):
        names, defaults = _signature(original)
        given = dict(zip(names, args[1:]), **kwargs)
        plain = {at: value for at, value in given.items() if type(value) in (int, float, str, bool)}
        return name.partition(".__init__")[0], plain, defaults

    return _watch_calls(name, source, read, at_begin=True)


def _watch_kept(name, source, pick):
    """Returns a watcher for a method after which the object has settings: `pick(object)` gives name and settings."""
    return _watch_calls(name, source, lambda original, result, args, kwargs: pick(args[0]))


def _watch_fire(core, probe, settings):
    """Fire makes a parser for each function that it calls; that returns the positional and the named arguments."""
    original = core._MakeParseFn

    def make(function, metadata):
        def after(result, args, kwargs):
            values, named = result[0]
            names, defaults = _signature(function)
            settings.write_options("fire", function.__name__, dict(zip(names, values), **named), defaults)

        return wrapping.wrap_function(original(function, metadata), probe.guard("fire"), after=after)

    core._MakeParseFn = make


def _watch_gin(config, probe, settings):
    """Gin has what was bound, and the default values of what was called: by the first step that is what trains."""
    written = []

    def write(step=1):
        if step == 1 and not written:
            bound, called = (_named_by_gin(config, one) for one in (config._CONFIG, config._OPERATIVE_CONFIG))
            defaults = {at: value for at, value in called.items() if at.rpartition("/")[2] not in bound}
            own = {at: value for at, value in called.items() if at not in defaults or _is_own(config, at)}
            settings.write_options("gin", "config", {**own, **bound}, defaults)
            written.append(True)

    guarded = probe.guard("gin")(write)
    probe.at_steps(guarded)
    probe.at_exit(guarded)


def _named_by_gin(config, groups):
    """The values of a configuration of gin under the names that its files have for them, as `eval/data.size`."""
    named = {}
    for (scope, selector), values in list(groups.items()):
        owner = "%s%s" % (scope and scope + "/", config._REGISTRY.minimal_selector(selector))
        for name, value in values.items():
            at = scope if selector == "gin.macro" else "%s.%s" % (owner, name)
            named[at] = repr(value) if isinstance(value, config.ConfigurableReference) else value
    return named


def _is_own(config, name):
    """Whether the function or class that has this parameter is the program's, not a library's."""
    return is_of_user(config._REGISTRY.get_match(name.rpartition("/")[2].rpartition(".")[0]).wrapped)


def _signature(function):
    """Names of the parameters of a function or class, without `self`, and the default values by name."""
    function = function.__init__ if isinstance(function, type) else function
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(names[len(names) - len(values) :], values), **(function.__kwdefaults__ or {}))
    return names[1:] if names[:1] == ("self",) else names, defaults


def _injected(original, result, args, kwargs):
    """The parameters that papermill writes into a notebook; the kernel's own are known by their names only."""
    given = dict(zip(_signature(original)[0], args), **kwargs)
    return str(given.get("input_path", "")), given.get("parameters")


def _flags_of_user(values):
    """The flags of absl that the main program and other files of the user define, with their default values."""
    own = []
    for module, flags in values.flags_by_module_dict().items():
        file = module if module == sys.argv[0] else getattr(sys.modules.get(module), "__file__", None)
        own += flags if file and is_user_file(os.path.abspath(file)) else []
    return sys.argv[0], {flag.name: flag.value for flag in own}, {flag.name: flag.default for flag in own}


def _settings_of_agent(model):
    """What an agent of Stable-Baselines3 learns with: the arguments of its class that it keeps under their names."""
    names, defaults = _signature(type(model))
    kept = {at: vars(model).get(at) for at in names}
    return type(model).__name__, {a: v for a, v in kept.items() if type(v) in (int, float, str, bool)}, defaults


def _settings_of_detector(trainer):
    """What a trainer of Ultralytics was given, with the default values of its configuration."""
    defaults = getattr(sys.modules.get("ultralytics.utils"), "DEFAULT_CFG_DICT", None)
    return "train", vars(trainer.args), defaults if type(defaults) is dict else {}


def _settings_of_net(net):
    """What a net of skorch trains with, as one of the candidates of a search, and the default values of its class."""
    plain = {at: value for at, value in net.get_params(deep=False).items() if type(value) in (int, float, str, bool)}
    return "NeuralNet", plain, _signature(sys.modules["skorch.net"].NeuralNet)[1]


def _hyperparameters(module):
    """What a module saved; of a library's module, as of a `Trainer`, without the many that have their default."""
    kind = type(module)
    defaults = _signature(kind)[1]
    saved = {at: value for at, value in module._hparams.items() if not at.startswith("_")}
    if not is_of_user(kind):
        saved = {at: saved[at] for at in saved if at in NAMES_OF_NUMBERS or not _has_default(saved[at], defaults, at)}
    return kind.__name__, saved, defaults


def _has_default(value, defaults, name):
    return name in defaults and to_plain(value) == to_plain(defaults[name])


def _training_arguments(trainer):
    return type(trainer.args).__name__, trainer.args


def _keras_optimizer(model):
    """The optimizer of a compiled model; its numbers are 32-bit variables: 0.0020000000949949026 was given as 0.002."""
    config = model.optimizer.get_config() if model.optimizer is not None else {}
    given = {at: config.get(at) for at in ("learning_rate", "weight_decay", "momentum") if config.get(at)}
    short = {at: float("%.7g" % value) if type(value) is float else value for at, value in given.items()}
    return "compile", dict(short, optimizer=type(model.optimizer).__name__) if given else {}


# Not `save_hyperparameters`, which reads the frame of its caller.
_LIGHTNING_MODULE = _watch_kept("HyperparametersMixin._set_hparams", "lightning", _hyperparameters)
_LIGHTNING_TRAINER = _watch_given("Trainer.__init__", "lightning")
_LIGHTNING_CHECKPOINT = _watch_given("ModelCheckpoint.__init__", "lightning")
_LIGHTNING_STOPPING = _watch_given("EarlyStopping.__init__", "lightning")
PARSERS = {
    "tyro._cli": _watch_result("cli", "tyro"),
    "absl.flags._flagvalues": _watch_kept("FlagValues.__call__", "absl", _flags_of_user),
    "gin.config": _watch_gin,
    "docopt": _watch_result("docopt", "docopt"),
    "pydantic_settings.main": _watch_kept("BaseSettings.__init__", "pydantic", lambda one: (type(one).__name__, one)),
    "draccus.argparsing": _watch_result("parse", "draccus"),
    "jsonargparse._core": _watch_result("ArgumentParser.parse_args", "jsonargparse", lambda result: result.as_dict()),
    "fire.core": _watch_fire,
    "papermill.execute": _watch_calls("execute_notebook", "papermill", _injected, at_begin=True),
    "transformers.trainer": _watch_kept("Trainer.__init__", "transformers", _training_arguments),
    "lightning.pytorch.core.mixins.hparams_mixin": _LIGHTNING_MODULE,
    "pytorch_lightning.core.mixins.hparams_mixin": _LIGHTNING_MODULE,
    "lightning.pytorch.callbacks.model_checkpoint": _LIGHTNING_CHECKPOINT,
    "pytorch_lightning.callbacks.model_checkpoint": _LIGHTNING_CHECKPOINT,
    "lightning.pytorch.callbacks.early_stopping": _LIGHTNING_STOPPING,
    "pytorch_lightning.callbacks.early_stopping": _LIGHTNING_STOPPING,
    "lightning.pytorch.trainer.trainer": _LIGHTNING_TRAINER,
    "pytorch_lightning.trainer.trainer": _LIGHTNING_TRAINER,
    "paddle.hapi.model": _watch_given("Model.fit", "paddle"),
    "paddle.hapi.callbacks": _watch_given("EarlyStopping.__init__", "paddle"),
    "skorch.net": _watch_kept("NeuralNet.initialize", "skorch", _settings_of_net),
    "ultralytics.engine.trainer": _watch_kept("BaseTrainer.__init__", "ultralytics", _settings_of_detector),
    "stable_baselines3.common.base_class": _watch_kept(
        "BaseAlgorithm._setup_learn", "stable_baselines3", _settings_of_agent
    ),
    "keras.src.trainers.trainer": _watch_kept("Trainer.compile", "keras", _keras_optimizer),
    "keras.src.backend.torch.trainer": _watch_given("TorchTrainer.fit", "keras"),
    "fastai.learner": _watch_given("Learner.fit", "fastai"),
    "fastai.callback.schedule": _watch_given("Learner.fit_one_cycle", "fastai"),
}
"""Module -> `watch(module, probe, settings)`, called after its import; `settings` is a `ParsedOptions`."""
