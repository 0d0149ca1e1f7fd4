"""Finds the model behind an optimizer's parameters, once, among known modules or by a sweep over all objects."""

import sys
from contextlib import suppress
from types import ModuleType
from weakref import ref

from ..process.gc_scan import live_instances
from ..process.parsed_options import read_local_variables
from ..process.user_files import is_user_file


def find_root(base, parameters, children, frozen, known=None, sweep=True):
    """The model of these parameters as `(module, whole)`; both `None` where there is none.

    `module` is the outermost one that owns them and no other that is trained, `whole` the outermost one around it.

    Args:
        base: Class of all modules.
        children: Name of the attribute that holds the submodules of a module.
        frozen: `frozen(parameter)` is true where a parameter is not trained.
        known: Modules that are looked at first.
        sweep: Whether all objects are searched where none of the known modules owns all the parameters.

    Cost: that of one sweep; without it 1 microsecond a module.
    """
    wanted = {id(parameter) for parameter in parameters}
    if known:
        best, most = _largest(known, wanted, children)
        if most == len(wanted):
            return _narrowed(best, wanted, most, children, frozen), best
    best, most = _largest(live_instances(base), wanted, children) if sweep else (None, 0)
    return (_narrowed(best, wanted, most, children, frozen), best) if best is not None else (None, None)


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


def _modules_of(module, children):
    """A module and all modules below it, each once."""
    seen, stack = set(), [module]
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        stack.extend(list((one.__dict__.get(children) or {}).values()))


def parameters_of(module, children):
    """Parameters of a module and of all modules below it, each once."""
    found = {}
    for one in _modules_of(module, children):
        for parameter in list((one.__dict__.get("_parameters") or {}).values()):
            if parameter is not None:
                found[id(parameter)] = parameter
    return list(found.values())


def dropout_rates(module, children):
    """The different rates of the dropout and stochastic depth modules of a model, sorted, at most 8."""
    found = set()
    for one in _modules_of(module, children):
        if "drop" in type(one).__name__.lower():
            rates = (one.__dict__.get(name) for name in ("p", "drop_prob", "rate"))
            found.update(float(rate) for rate in rates if type(rate) in (int, float) and 0 <= rate <= 1)
    return sorted(found)[:8]


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


def variable_of(module):
    """What the program calls a model: a variable, of outer functions first, else an attribute of one; "" if unknown."""
    frame, scopes = sys._getframe(1), []
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            scopes.insert(0, read_local_variables(frame))
        frame = frame.f_back
    scopes.insert(0, list(vars(sys.modules["__main__"]).items()))
    found = [pair for scope in scopes for pair in scope if not pair[0].startswith("_")]
    for _, owner in found[:]:
        if not issubclass(type(owner), (type, ModuleType)):
            with suppress(AttributeError, TypeError):
                held = object.__getattribute__(owner, "__dict__")  # past a property of a proxy
                found += [*held.items(), *(held.get("_modules") or held.get("_sub_layers") or {}).items()]
    names = (name for name, value in found if value is module and name != "self")
    return next((name for name in names if name.isidentifier()), "")


class TrainedModels:
    """The models that optimizers train, as far as they still exist.

    Args:
        children: Name of the attribute that holds the submodules of a module.
    """

    SWEEPS = 8
    """How often the objects of the process are searched for a model. Later models are named by an earlier one with
    parameters of the same shapes."""

    MOST = 16
    """Models that are compared with a new one; the last ones."""

    def __init__(self, children):
        self._children = children
        self._sweeps = 0
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self._facts = {}
        self._roots = []
        self._names = {}
        self._count = 0

    def __bool__(self):
        """Whether any optimizer has been seen."""
        return bool(self._facts)

    def add(self, optimizer, own, find, describe):
        """Processes the first step of an optimizer.

        Args:
            optimizer: It; only a weak reference is kept.
            find: `find(parameters, sweep)` gives what `find_root` does.
            describe: `describe(root, parameters)` gives name, device, dtype, and elements by id: parameters, trainable.

        Returns:
            Fields of the `optimizer` event: `trains`, the number of the model, `root`, its class, `parameters` and
            `trainable`, its elements, `dropout`, its rates, `tensors`, how many parameters the optimizer has, and
            `shared`, elements that a model of another number has, too: parameters, trainable.
            Optimizers of one model have the same number, whatever part of it each trains.
        """
        for key, (owner, _) in list(self._facts.items()):
            if owner() is None:
                del self._facts[key]
        root, whole = find(own, False)
        if root is None and self._sweeps < self.SWEEPS:
            self._sweeps += 1
            root, whole = find(own, True)
        facts = describe(root, own)
        shapes = tuple(tuple(p.shape) for p in own)
        if root is not None and len(self._names) < 256:
            self._names.setdefault(shapes, class_name(whole))
        if root is not None and not facts["trainable"].keys() <= {id(p) for p in own}:
            facts["name"] = class_name(whole)  # the optimizer has a part of a layer: one of several of the model
        facts["trains"] = self._number(whole, {id(p) for p in own})
        others = {key for n, held in self._roots if n != facts["trains"] for key in self._ids(held())}
        shared = [sum(n for key, n in facts[of].items() if key in others) for of in ("parameters", "trainable")]
        facts["own"] = {id(p) for p in own}
        self._facts[id(optimizer)] = (ref(optimizer), facts)
        rates = dropout_rates(whole, self._children)
        return {
            **({"dropout": rates} if rates else {}),
            **({"shared": shared} if shared[0] else {}),
            "trains": facts["trains"],
            "root": class_name(whole) if whole is not None else self._names.get(shapes, ""),
            "tensors": sum(id(p) in facts["parameters"] for p in own),
            "parameters": sum(facts["parameters"].values()),
            "trainable": sum(facts["trainable"].values()),
        }

    def _number(self, whole, own):
        """The number of the living model or optimizer that has some of these parameters, else a new one."""
        self._roots = [(number, held) for number, held in self._roots if held() is not None][-self.MOST :]
        number = next((n for n, held in self._roots if not own.isdisjoint(self._ids(held()))), None)
        if number is None:
            alive = [facts for owner, facts in self._facts.values() if owner() is not None]
            number = next((facts["trains"] for facts in alive if not own.isdisjoint(facts["own"])), None)
        if number is None:
            number = self._count
            self._count += 1
        if whole is not None and all(held() is not whole for _, held in self._roots):
            self._roots.append((number, ref(whole)))
        return number

    def _ids(self, module):
        return () if module is None else map(id, parameters_of(module, self._children))

    def state_fields(self):
        """Fields of the `state` event for all models that are trained, with shared parameters counted once."""
        models = [facts for owner, facts in self._facts.values() if owner() is not None]
        if not models:
            return {}
        every, trainable, statistics = {}, {}, {}
        for facts in models:
            every.update(facts["parameters"])
            trainable.update(facts["trainable"])
            statistics.update(facts.get("statistics", {}))
        return {
            "model": ", ".join(dict.fromkeys(facts["name"] for facts in models if facts["name"])),
            "parameters": sum(every.values()),
            "trainable": sum(trainable.values()),
            **({"statistics": sum(statistics.values())} if statistics else {}),
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
