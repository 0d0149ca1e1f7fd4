"""Trains a small model, then does with it what its owner may do; prints what each operation gave, as JSON.

python model_unchanged_paddle.py STEPS
"""

import copy
import hashlib
import inspect
import json
import sys
import tempfile
import traceback
from pathlib import Path

import paddle
from paddle import nn
from paddle.nn import functional

paddle.seed(0)
OPERATIONS = {}


class Block(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, x):
        if x.shape[1] != 8:
            raise ValueError("not 8 columns")
        return x + self.body(x)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(functional.dropout(self.block(x), 0.1, training=self.training))


X, Y = paddle.randn([16, 8]), paddle.randint(0, 3, [16])


def train(model, optimizer, steps):
    for _ in range(steps):
        functional.cross_entropy(model(X), Y).backward()
        optimizer.step()
        optimizer.clear_grad()


def operation(function):
    OPERATIONS[function.__name__] = function
    return function


@operation
def to_static(model):
    model.eval()
    static = paddle.jit.to_static(copy.deepcopy(model), input_spec=[paddle.static.InputSpec([None, 8], "float32")])
    return [static(X).tolist(), model(X).tolist()]


@operation
def jit_save(model):
    model.eval()
    path = str(Path(tempfile.mkdtemp(), "net"))
    paddle.jit.save(model, path, input_spec=[paddle.static.InputSpec([None, 8], "float32")])
    parameters = Path(path + ".pdiparams").read_bytes()
    return [paddle.jit.load(path)(X).tolist(), hashlib.sha256(parameters).hexdigest()]


@operation
def saved(model):
    path = Path(tempfile.mkdtemp(), "net.pdparams")
    paddle.save(model.state_dict(), str(path))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@operation
def copied(model):
    twin = copy.deepcopy(model)
    return [twin(X).tolist(), sorted(vars(twin))]


@operation
def attributes(model):
    return [
        [name, sorted((key, type(value).__name__, repr(value)) for key, value in vars(one).items() if "hook" in key)]
        + sorted(set(vars(one)) | set(dir(one)))
        for name, one in model.named_sublayers(include_self=True)
    ]


@operation
def hooks(model):
    seen = []
    handle = model.register_forward_post_hook(lambda layer, args, output: seen.append(list(output.shape)))
    model(X)
    counts = [len(model._forward_post_hooks), len(model._forward_pre_hooks)]
    handle.remove()
    return [seen, counts, len(model._forward_post_hooks)]


@operation
def signatures(model):
    return [str(inspect.signature(model)), type(model).__call__.__qualname__]


@operation
def tracebacks(model):
    try:
        model(X[:, :5])
    except ValueError:
        return traceback.format_exc()
    return "not refused"


def main(steps):
    model = Net()
    optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())
    train(model, optimizer, steps)
    results = {}
    for mode in ("train", "eval"):
        for name, function in OPERATIONS.items():
            model.train() if mode == "train" else model.eval()
            paddle.seed(1)
            try:
                results[mode + " " + name] = function(model)
            except Exception as error:
                results[mode + " " + name] = "%s: %s" % (type(error).__name__, str(error)[:300])
            model.train()
            train(model, optimizer, 1)
    print(json.dumps(results))


main(int(sys.argv[1]))
