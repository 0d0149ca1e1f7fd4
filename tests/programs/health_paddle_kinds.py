"""More PaddlePaddle programs that do what a watcher does not expect; see `health_paddle_hostile.py`."""

import gc
import random
import weakref
from collections import namedtuple

import numpy as np
import paddle
from health_paddle_hostile import CASES, X, Y, case, digest, inputs, main, net, train
from paddle import nn
from paddle.io import Dataset
from paddle.nn import functional

CASES.clear()


@case
def layers_come_and_go():
    model = net()
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    train(model, 3, optimizer)
    del model[1]
    train(model, 3, optimizer)
    model.add_sublayer("more", nn.Linear(3, 3))
    train(model, 3, optimizer)
    gone, value = weakref.ref(model), digest(model)
    del model, optimizer
    gc.collect()
    return [value, gone() is None]


@case
def functions_replaced_by_the_program():
    known, detach = functional.cross_entropy, paddle.Tensor.detach
    functional.cross_entropy = lambda *args, **kwargs: known(*args, **kwargs) * 2
    paddle.Tensor.detach = lambda tensor: detach(tensor) * 1
    model = net()
    train(model, 3)
    functional.cross_entropy, paddle.Tensor.detach = known, detach
    train(model, 3)
    return [digest(model), functional.cross_entropy is known, paddle.Tensor.detach is detach]


class Compiled(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(6, 8), nn.Linear(8, 3), nn.LayerNorm(8)

    def forward(self, x):
        x = functional.relu(self.norm(self.first(x)))
        if x.mean() > 0:
            x = x * 2
        return self.second(functional.dropout(x, 0.1, training=self.training))


@case
def compiled():
    found = []
    for whole in (True, False):
        paddle.seed(3)
        model = paddle.jit.to_static(Compiled(), full_graph=whole)
        found += [train(model), digest(model)]
    part = Compiled()
    part.first = paddle.jit.to_static(part.first, full_graph=True)
    return [*found, train(part), digest(part)]


@case
def exported_after_training():
    import tempfile

    model = Compiled()
    train(model, 3)
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        spec = paddle.static.InputSpec([None, 6], "float32")
        paddle.jit.save(model, folder + "/model", input_spec=[spec])
        loaded = paddle.jit.load(folder + "/model")
        loaded.eval()
        found = digest(loaded(paddle.to_tensor(X)), model(paddle.to_tensor(X)))
    model.train()
    return [found, train(model, 3)]


@case
def static_graph_between():
    model = net()
    train(model, 3)
    paddle.enable_static()
    try:
        main, start = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, start):
            main.random_seed = start.random_seed = 4
            given = paddle.static.data("x", [64, 6])
            loss = functional.mse_loss(functional.relu(nn.Linear(6, 3)(given)), paddle.zeros([64, 3]))
            paddle.optimizer.SGD(0.1).minimize(loss)
        executor = paddle.static.Executor()
        executor.run(start)
        losses = [float(executor.run(main, feed={"x": X}, fetch_list=[loss])[0]) for _ in range(3)]
    finally:
        paddle.disable_static()
    return [losses, train(model, 3), digest(model)]


@case
def fitted():
    class Pairs(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, at):
            return X[at], Y[at : at + 1]

    model = paddle.Model(net())
    optimizer = paddle.optimizer.Adam(0.01, parameters=model.parameters())
    model.prepare(optimizer, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
    model.fit(Pairs(), Pairs(), batch_size=16, epochs=2, verbose=0)
    values = model.evaluate(Pairs(), batch_size=16, verbose=0)
    return [digest(model.network), float(np.ravel(values["loss"])[0]), float(values["acc"])]


class Mutating(nn.Layer):
    """Changes in its forward what a second run must not change again."""

    def __init__(self):
        super().__init__()
        self.linear, self.drop, self.norm = nn.Linear(6, 3), nn.Dropout(0.3), nn.BatchNorm1D(6)
        self.register_buffer("calls", paddle.zeros([1]))
        self.history, self.bad, self.number = [], False, 0
        self.generator = random.Random(4)

    def forward(self, x):
        x.add_(paddle.ones([1]))
        self.calls.add_(paddle.ones([1]))
        self.number += 1
        self.history.append(self.number)
        with paddle.no_grad():
            self.linear.weight.scale_(0.99)
        out = self.linear(self.drop(self.norm(x))) * (1 + np.random.rand() + random.random())
        print("forward", self.number)
        return out / (out * 0) if self.bad else out


@case
def not_finite_where_the_forward_changes_things():
    model, y = Mutating(), paddle.to_tensor(Y)
    optimizer = paddle.optimizer.Momentum(0.01, parameters=model.parameters())
    x = paddle.to_tensor(X)
    for step in range(8):
        model.bad = step == 4
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        if step == 4:
            bad = [int(np.isnan(p.grad.numpy()).sum()) for p in model.parameters() if p.grad is not None]
        else:
            optimizer.step()
        optimizer.clear_grad()
    return [digest(model, x), bad, model.history, model.calls.item()]


@case
def not_finite_in_the_backward():
    class Root(nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear, self.bad = nn.Linear(6, 3), False

        def forward(self, x):
            x = self.linear(x)
            return x + (paddle.sqrt(x * 0) if self.bad else 0)

    model = Root()
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    x, y = inputs()
    for step in range(6):
        model.bad = step == 3
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    return [digest(model), paddle.get_flags(["FLAGS_check_nan_inf"])]


@case
def forward_raises():
    class Shaky(nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear, self.calls = nn.Linear(6, 3), 0

        def forward(self, x):
            self.calls += 1
            if self.calls in (1, 3):
                self.linear(x[:, :3])
            return self.linear(x)

    model = Shaky()
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    errors = [error_of(train, model, 1, optimizer) for _ in range(5)]
    return [digest(model), errors]


def error_of(function, *args):
    try:
        function(*args)
    except Exception as error:
        return [type(error).__name__, str(error)[:60]]


Pair = namedtuple("Pair", "one two")


@case
def odd_outputs():
    class Odd(nn.Layer):
        def __init__(self, kind):
            super().__init__()
            self.linear, self.kind = nn.Linear(6, 3), kind

        def __len__(self):
            return 0

        def forward(self, x=None, **named):
            out = self.linear(x if x is not None else named["value"])
            kinds = {"dict": {"out": out, "more": [None, "text"]}, "pair": Pair(out, 3), "list": [out, [out * 2]]}
            self.last = out
            return kinds.get(self.kind)

    found = []
    for kind in ("dict", "pair", "list", "none"):
        model = Odd(kind)

        def loss_of(model):
            model(value=paddle.to_tensor(X))
            return functional.cross_entropy(model.last, paddle.to_tensor(Y))

        train(model, 4, loss_of=loss_of)
        found.append(digest(model))
    return found


@case
def own_call():
    class Own(nn.Layer):
        def __init__(self):
            super().__init__()
            self.inner = net()

        def __call__(self, x, *, twice=False):
            return self.inner(x) * (2 if twice else 1)

    model = Own()
    train(model, loss_of=lambda m: functional.cross_entropy(m(paddle.to_tensor(X), twice=True), paddle.to_tensor(Y)))
    return digest(model)


@case
def gradients_by_hand():
    model = net()
    x, y = inputs()
    for _ in range(5):
        loss = functional.cross_entropy(model(x), y)
        gradients = paddle.grad(loss, model.parameters())
        with paddle.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.subtract_(0.1 * gradient)
    train(model, 3)
    return digest(model)


@case
def closures_and_rules():
    model = net()
    optimizer = paddle.optimizer.LBFGS(learning_rate=0.5, max_iter=3, parameters=model.parameters())
    x, y = inputs()

    def closure():
        optimizer.clear_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(3)]
    kinds = ("Adagrad", "Adadelta", "Adamax", "RMSProp", "Lamb", "NAdam", "RAdam", "Rprop", "ASGD")
    found = []
    for name in kinds:
        kind, model = getattr(paddle.optimizer, name, None), net()
        if kind is not None:
            options = {"batch_num": 2} if name == "ASGD" else {}
            train(model, 4, kind(learning_rate=0.01, parameters=model.parameters(), **options))
            found.append([name, digest(model)])
    return [losses, found]


@case
def normalised_weights():
    model = nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.utils.spectral_norm(nn.Linear(8, 3)))
    train(model)
    model.eval()
    with paddle.no_grad():
        value = digest(model(paddle.to_tensor(X)))
    nn.utils.remove_weight_norm(model[0])
    return [digest(model), value]


@case
def sequences():
    words = paddle.to_tensor(np.random.RandomState(3).randint(0, 12, [8, 5]))
    table, cells = nn.Embedding(12, 8), nn.LSTM(8, 8, num_layers=2, dropout=0.2)
    attention, head = nn.MultiHeadAttention(8, 2), nn.Linear(8, 3)
    everything = nn.LayerList([table, cells, attention, head])
    mask = paddle.triu(paddle.full([5, 5], float("-inf")), 1)

    def loss_of(_):
        hidden, _ = cells(table(words))
        hidden = attention(hidden, hidden, hidden, attn_mask=mask)
        return functional.cross_entropy(head(hidden[:, -1]), paddle.to_tensor(Y[:8]))

    train(everything, 8, loss_of=loss_of)
    return digest(everything)


@case
def every_dtype():
    class Cast(nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 3)

        def forward(self, x, *others):
            return self.linear(x)

    dtypes = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float64", "complex64")
    others = [paddle.to_tensor(X[:, :2] > 0).astype(dtype) for dtype in dtypes]
    others += [paddle.to_tensor(3), paddle.zeros([0, 2]), paddle.to_tensor(X).T, paddle.to_tensor(X)[::2, 1:4]]
    model = Cast()
    train(model, loss_of=lambda m: functional.cross_entropy(m(paddle.to_tensor(X), *others), paddle.to_tensor(Y)))
    return [digest(model), digest(*others)]


@case
def gradients_are_kept_and_hooked():
    model, seen = net(), []

    def loss_of(model):
        out = model(paddle.to_tensor(X))
        out.retain_grads()
        handle = out.register_hook(lambda gradient: gradient * 2)
        loss = functional.cross_entropy(out, paddle.to_tensor(Y))
        loss.register_hook(lambda gradient: seen.append(float(gradient)))
        loss.backward(retain_graph=True)
        handle.remove()
        seen.append(digest(out.grad))
        return loss

    train(model, 6, loss_of=loss_of)
    return [digest(model), seen]


@case
def two_that_compete():
    maker, judge = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(), nn.Linear(8, 1))
    makers = paddle.optimizer.Adam(0.01, parameters=maker.parameters())
    judges = paddle.optimizer.Adam(0.01, parameters=judge.parameters())
    for _ in range(6):
        made = maker(paddle.randn([16, 6]))
        loss = judge(made.detach()).mean() - judge(paddle.to_tensor(X[:16])).mean()
        loss.backward()
        judges.step()
        judges.clear_grad()
        (-judge(made).mean()).backward()
        makers.step()
        makers.clear_grad()
        judges.clear_grad()
    return digest(maker, judge)


if __name__ == "__main__":
    main()
