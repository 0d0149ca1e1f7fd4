"""The outermost models of a program: the part without a framework."""

from weakref import ref

from . import model_lookup

MOST_ROOTS = 16


class RootModule:
    """An outermost model.

    Args:
        stochastic: Its modules with dropout or batch normalisation, as `stochastic_modules` lists them.
        hidden: Why its inside cannot be looked at, "" when it can.

    Attributes:
        name: Its class.
        called: Forwards with gradients so far.
        is_evaluated: Whether a forward without gradients was seen.
        thread: The thread that its last forward ran in, of those that were taken; `None` before.
        shown: Whether its `model` event was written.
        cached: Facts about it that hold between dense steps.
        hidden: As given.
        observer: What observes its calls, where the framework observes a model at a time.
    """

    def __init__(self, module, index, stochastic, hidden):
        self.owner = ref(module)
        self.index = index
        self.name = model_lookup.class_name(module)
        self.stochastic = bool(stochastic)
        self._stochastic = [ref(one) for one in stochastic]
        self.called = 0
        self.is_evaluated = False
        self.thread = None
        self.cached = None
        self.shown = False
        self.hidden = hidden
        self.observer = None

    def module(self):
        """The module, `None` when it is gone."""
        return self.owner()

    def training(self):
        """Its mode; true when it is gone."""
        module = self.owner()
        return True if module is None else module.training

    def has_stochastic_in(self, training):
        """Whether it has modules with dropout or batch normalisation, in training mode if it is in training mode.

        The modules of a container may be in evaluation mode while it is not.
        """
        return self.stochastic and (not training or any(getattr(one(), "training", 0) for one in self._stochastic))


class RootModules:
    """All outermost models of this process.

    A framework implements `discover(parameters)`, for the parameters of a new optimizer, and `register(parameters)`,
    for parameters that no optimizer trains and a backward call reaches.

    Args:
        framework: The module `torch` or `paddle`.
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        CHILDREN: Name of the attribute of a module that holds its submodules.
        monitor: Its methods are called for each of their forwards; set by the `TensorInspector`.
    """

    CHILDREN = ""

    def __init__(self, framework, failed):
        self.framework = framework
        self.monitor = None
        self._failed = failed
        self._known = {}
        self._count = 0

    def living_models(self):
        """The models that still exist."""
        return [root for root in list(self._known.values()) if root.module() is not None]

    def owner_of(self, parameter):
        """The model that owns a parameter, one that was called if possible; `None` when none does."""
        owners = [root for root in self.living_models() if id(parameter) in self.ids(root)]
        return max(owners, key=self._precedence, default=None)

    def owners_of(self, parameters):
        """The model that owns each of these parameters, by its id: one that was called if possible, the largest.

        One optimizer may train several, as actor and critic, or an encoder and a decoder.
        """
        found = {}
        for root in sorted(self.living_models(), key=self._precedence):
            found.update(dict.fromkeys(self.ids(root), root))
        return {id(p): found[id(p)] for p in parameters if id(p) in found}

    def _precedence(self, root):
        return bool(root.called), len(self.ids(root)), -root.index

    def ids(self, root):
        """Ids of a model's parameters, refreshed once a dense step."""
        if root.cached is None or "ids" not in root.cached:
            module = root.module()
            found = self.parameters_of(module) if module is not None else []
            root.cached = dict(root.cached or {}, ids={id(p) for p in found})
        return root.cached["ids"]

    def parameters_of(self, module):
        """Parameters of a module and of all modules below it, each once."""
        return model_lookup.parameters_of(module, self.CHILDREN)

    def _drop_gone(self):
        """Forgets the models that are gone; returns them with the ids that they had."""
        gone = [(key, root) for key, root in list(self._known.items()) if root.module() is None]
        for key, _ in gone:
            del self._known[key]
        return gone

    def _number(self, module, stochastic, hidden):
        """The `RootModule` of a new model."""
        root = self._known[id(module)] = RootModule(module, self._count, stochastic, hidden)
        self._count += 1
        return root


def stochastic_modules(modules, normalisation):
    """Returns those of these modules that have dropout with p > 0 or are batch normalisations.

    Args:
        modules: A model and all modules below it.
        normalisation: The base class of batch normalisations.
    """
    return [one for one in modules if issubclass(type(one), normalisation) or _has_dropout(one)]


def _has_dropout(module):
    """Whether it drops something; its own attributes are read past a `__getattr__`, which may warn."""
    named = vars(module)
    rate = named.get("dropout", 0)
    return ("Dropout" in type(module).__name__ and named.get("p", 1)) or (isinstance(rate, float) and rate)
