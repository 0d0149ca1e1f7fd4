"""Trains a small model, then does with it what its owner may do; prints what each operation gave, as JSON.

python model_unchanged_torch.py STEPS
"""

import copy
import hashlib
import inspect
import io
import json
import logging
import pickle
import sys
import traceback
import warnings

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
OPERATIONS = {}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, x):
        if x.shape[1] != 8:
            raise ValueError("not 8 columns")
        return x + self.body(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(functional.dropout(self.block(x), 0.1, self.training))


X, Y = torch.randn(16, 8), torch.randint(0, 3, (16,))


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(X), Y).backward()
        optimizer.step()


def operation(function):
    OPERATIONS[function.__name__] = function
    return function


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


@operation
def script(model):
    scripted = torch.jit.script(model)
    return [scripted.code, scripted(X).tolist()]


@operation
def trace(model):
    traced = torch.jit.trace(model, X)
    return [str(traced.inlined_graph), traced.code, traced(X).tolist()]


@operation
def add_graph(model):
    from torch.utils.tensorboard._pytorch_graph import graph

    return str(graph(model, X)[0])


@operation
def export(model):
    return str(torch.export.export(model, (X,)).graph)


@operation
def compiled(model):
    graphs = []

    def backend(graph, inputs):
        graphs.append(str(graph.graph))
        return graph

    torch._dynamo.reset()
    fast = torch.compile(model, backend=backend)
    rows = [fast(X).tolist(), fast(X).tolist()]
    part = torch.compile(lambda x: model(x) * 2, backend=backend)
    rows += [part(X).tolist(), part(X).tolist()]
    handle = model.block.register_forward_hook(lambda module, args, output: output * 2)
    hooked = torch.compile(lambda x: model(x) * 3, backend=backend)
    rows += [hooked(X).tolist(), hooked(X).tolist()]
    handle.remove()
    return [graphs, rows]


@operation
def compiled_step(model):
    import torch._dynamo.utils as compiler

    graphs = []

    def backend(graph, inputs):
        graphs.append(len(graph.graph.nodes))
        return graph

    torch._dynamo.reset()
    compiler.counters.clear()
    twin = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=0.01)

    @torch.compile(backend=backend)
    def step():
        optimizer.zero_grad()
        loss = functional.cross_entropy(twin(X), Y)
        loss.backward()
        nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
        optimizer.step()
        return loss

    losses = [step().item() for _ in range(4)]
    return [losses, graphs, [sum(compiler.counters[name].values()) for name in ("graph_break", "recompiles")]]


@operation
def symbolic(model):
    from torch import fx

    return str(fx.Tracer().trace(model.block.body))


@operation
def saved(model):
    buffer = io.BytesIO()
    torch.save(model, buffer)
    return [digest(buffer.getvalue()), len(pickle.dumps(model)), b"labbook" in pickle.dumps(model)]


@operation
def copied(model):
    twin = copy.deepcopy(model)
    buffer = io.BytesIO()
    torch.save(twin, buffer)
    return [digest(buffer.getvalue()), twin(X).tolist()]


@operation
def attributes(model):
    return [
        [name, sorted((key, type(value).__name__, repr(value)) for key, value in vars(one).items() if "hook" in key)]
        + sorted(set(vars(one)) | set(dir(one)))
        for name, one in model.named_modules()
    ]


@operation
def hooks(model):
    seen = []
    handle = model.register_forward_hook(lambda module, args, output: seen.append(list(output.shape)))
    model(X)
    counts = [len(one) for one in (model._forward_hooks, model._forward_pre_hooks, model._forward_hooks_with_kwargs)]
    handle.remove()
    return [seen, counts, len(model._forward_hooks)]


@operation
def signatures(model):
    return [str(inspect.signature(model)), inspect.getsource(type(model).__call__), type(model).__call__.__qualname__]


@operation
def tracebacks(model):
    try:
        model(X[:, :5])
    except ValueError:
        text = traceback.format_exc()
    stream = io.StringIO()
    logging.basicConfig(stream=stream, force=True)
    try:
        model(torch.ones(2, 8), no_such=1)
    except TypeError:
        logging.exception("refused")
    return [text, stream.getvalue()]


@operation
def profiled(model):
    from torch.profiler import profile

    with profile(with_stack=True, with_modules=True) as profiler:
        model(X)
    return sorted(event.name for event in profiler.events() if event.name.startswith("nn.Module"))


@operation
def after_all(model):
    """The last word: it still computes the same."""
    return model(X).tolist()


def main(steps):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(model, optimizer, steps)
    results = {}
    for mode in ("train", "eval"):
        for name, function in OPERATIONS.items():
            model.train(mode == "train")
            torch.manual_seed(1)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    result = function(model)
                except Exception as error:
                    result = "%s: %s" % (type(error).__name__, str(error)[:300])
            results[mode + " " + name] = [result, sorted({str(one.message)[:100] for one in caught})]
            train(model, optimizer, 1)
    print(json.dumps(results))


main(int(sys.argv[1]))
