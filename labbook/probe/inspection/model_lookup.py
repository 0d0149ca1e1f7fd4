"""Finds the model behind an optimizer's parameters, once, among known modules or by a sweep over all objects."""

from weakref import ref

from ..process.gc_scan import live_instances


def find_root(base, parameters, children, frozen, known=None):
    """The outermost module that owns these parameters and no other that is trained, or `None`.

    Args:
        base: Class of all modules.
        parameters: The parameters of an optimizer.
        children: Name of the attribute that holds the submodules of a module.
        frozen: `frozen(parameter)` is true where a parameter is not trained.
        known: Modules that are looked at first; a sweep follows where none of them owns all the parameters.

    Cost: that of one sweep; without it 1 microsecond a module.
    """
    wanted = {id(parameter) for parameter in parameters}
    if known:
        best, most = _largest(known, wanted, children)
        if most == len(wanted):
            return _narrowed(best, wanted, most, children, frozen)
    best, most = _largest(live_instances(base), wanted, children)
    return _narrowed(best, wanted, most, children, frozen) if best is not None else None


def _largest(modules, wanted, children):
    """`(module, count)`: the outermost module that holds most of the wanted parameters, and how many."""
    parents = {}
    for module in modules:
        for child in list((module.__dict__.get(children) or {}).values()):
            parents.setdefault(id(child), module)
    best, most = None, 0
    for module in modules:
        if id(module) in parents:
            continue
        count = sum(1 for parameter in parameters_of(module, children) if id(parameter) in wanted)
        if count > most:
            best, most = module, count
    return best, most


def _narrowed(root, wanted, most, children, frozen):
    """The module at or below `root` that holds all the wanted parameters and no foreign ones, where there is such."""
    module = root
    while True:
        foreign = any(id(p) not in wanted and not frozen(p) for p in parameters_of(module, children))
        if not foreign:
            return module
        inside = None
        for child in list((module.__dict__.get(children) or {}).values()):
            if child is None:
                continue
            held = sum(1 for p in parameters_of(child, children) if id(p) in wanted)
            if held == most:
                inside = child
        if inside is None:
            return module
        module = inside


def parameters_of(module, children):
    """Parameters of a module and of all modules below it, each once."""
    found, seen, stack = {}, set(), [module]
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        for parameter in list((one.__dict__.get("_parameters") or {}).values()):
            if parameter is not None:
                found[id(parameter)] = parameter
        stack.extend(list((one.__dict__.get(children) or {}).values()))
    return list(found.values())


def children_of(module):
    """Name -> child of a module of either framework; a child may be `None`."""
    state = module.__dict__
    return state.get("_modules") or state.get("_sub_layers") or {}


def class_name(module):
    """Class of a model; a wrapper shows what it wraps: `DistributedDataParallel(Net)`."""
    names = []
    for _ in range(4):
        names.append(type(module).__name__)
        held = children_of(module)
        inner = held.get("module") or held.get("_orig_mod") or held.get("_layers")
        if inner is None or len(held) != 1:
            break
        module = inner
    return "(".join(names) + ")" * (len(names) - 1)


class TrainedModels:
    """The models that optimizers train, as far as they still exist."""

    SWEEPS = 8
    """How often the objects of the process are searched for a model; a program that makes new optimizers all the time
    is told by its first ones."""

    def __init__(self):
        self._facts = {}
        self._sweeps = 0

    def forget(self):
        """Begins anew, in a forked child."""
        self._facts.clear()

    def __bool__(self):
        """Whether any optimizer has been seen."""
        return bool(self._facts)

    def add(self, optimizer, own, find, describe):
        """Takes the first step of an optimizer.

        Args:
            optimizer: It; only a weak reference is kept.
            own: Its parameters.
            find: `find(parameters)` gives their model or `None`, by a sweep.
            describe: `describe(root, parameters)` gives name, device, dtype, and elements by id: parameters, trainable.
        """
        for key, (owner, _) in list(self._facts.items()):
            if owner() is None:
                del self._facts[key]
        root = None
        if self._sweeps < self.SWEEPS:
            self._sweeps += 1
            root = find(own)
        self._facts[id(optimizer)] = (ref(optimizer), describe(root, own))

    def told(self):
        """Fields of the `state` event for all models that are trained, with shared parameters counted once."""
        models = [facts for owner, facts in self._facts.values() if owner() is not None]
        if not models:
            return {}
        every, trainable = {}, {}
        for facts in models:
            every.update(facts["parameters"])
            trainable.update(facts["trainable"])
        return {
            "model": ", ".join(dict.fromkeys(facts["name"] for facts in models if facts["name"])),
            "parameters": sum(every.values()),
            "trainable": sum(trainable.values()),
            "device": sorted({name for facts in models for name in facts["device"]})[:8],
            "dtype": sorted({name for facts in models for name in facts["dtype"]})[:8],
        }


class SpareParameters:
    """Finds parameters without gradient that a living model holds beside parameters that train.

    A model may be used without being called, by `model.forward(x)` or a method of its own: then it is not among those
    that were seen to run, though none of its parameters was replaced.

    Args:
        base: Class of all modules.
        children: Name of the attribute that holds the submodules of a module.
    """

    SWEEPS = 8

    def __init__(self, base, children):
        self._base = base
        self._children = children
        self._owners = []
        self._ownerless = set()
        self._sweeps = 0

    def ownerless(self, parameters, trained):
        """Those of the parameters that no living model holds beside a trained one; none where that is unknown.

        Args:
            parameters: Parameters without gradient, of no model that was seen to run.
            trained: Ids of the parameters that run or have a gradient.

        Cost: one sweep where there is a parameter that was not judged before, at most 8 in all.
        """
        left = self._without_known_owner(parameters)
        if not self._ownerless.issuperset(map(id, left)):
            if self._sweeps >= self.SWEEPS:
                return []
            self._sweeps += 1
            modules = live_instances(self._base)
            if not modules:
                return []
            self._search(modules, {id(p) for p in left}, trained)
            left = self._without_known_owner(left)
            self._ownerless = {id(p) for p in left}
        return left

    def _without_known_owner(self, parameters):
        owners = [module for module in [owner() for owner in self._owners] if module is not None]
        held = {id(p) for module in owners for p in parameters_of(module, self._children)}
        return [p for p in parameters if id(p) not in held]

    def _search(self, modules, wanted, trained):
        children = self._children
        inner = {id(one) for module in modules for one in (module.__dict__.get(children) or {}).values()}
        for module in modules:
            if id(module) not in inner:
                held = {id(p) for p in parameters_of(module, children)}
                if not held.isdisjoint(wanted) and not held.isdisjoint(trained):
                    self._owners.append(ref(module))
