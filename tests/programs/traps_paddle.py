"""Training loops that once misled a probe, in PaddlePaddle. Each prints what is true of it; a note says where it begins."""

import json
import sys

import numpy as np
import paddle
from paddle import nn

TRUTH = {}


def data(rows=16):
    generator = np.random.RandomState(1)
    pair = generator.randn(rows, 8), generator.randn(rows, 1)
    return [paddle.to_tensor(part.astype("float32")) for part in pair]


def net(width=8):
    paddle.seed(0)
    return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 1))


def total(parameters):
    return float(sum((p.grad.numpy().astype("float64") ** 2).sum() for p in parameters if p.grad is not None)) ** 0.5


def loss_of(model, x, y):
    return nn.functional.mse_loss(model(x), y)


def train(make, update, steps=3):
    model, (x, y), norms, losses = net(), data(), [], []
    optimizer = make(model)
    for _ in range(steps):
        loss = loss_of(model, x, y)
        loss.backward()
        losses.append(loss.item())
        norms.append(total(model.parameters()))
        update(optimizer, loss)
        optimizer.clear_grad()
    return {"norms": norms, "losses": losses}


def step():
    return train(lambda m: paddle.optimizer.SGD(0.1, parameters=m.parameters()), lambda o, _: o.step())


def minimize():
    return train(lambda m: paddle.optimizer.Adam(0.1, parameters=m.parameters()), lambda o, loss: o.minimize(loss))


def momentum_nesterov():
    kind = paddle.optimizer.Momentum
    return train(lambda m: kind(0.1, parameters=m.parameters(), use_nesterov=True), lambda o, _: o.step())


def clipped_in_the_optimizer():
    clip = nn.ClipGradByGlobalNorm(0.01)
    kind = paddle.optimizer.AdamW
    return train(lambda m: kind(0.1, parameters=m.parameters(), grad_clip=clip), lambda o, _: o.step()) | {"wrong": [0.01]}


def clipped_by_function():
    def update(optimizer, _):
        nn.utils.clip_grad_norm_(optimizer._parameter_list, 0.01)
        optimizer.step()

    truth = train(lambda m: paddle.optimizer.SGD(0.1, parameters=m.parameters()), update)
    return truth | {"wrong": [0.01]}


def clipped_by_value():
    def update(optimizer, _):
        nn.utils.clip_grad_value_(optimizer._parameter_list, 0.001)
        optimizer.step()

    return train(lambda m: paddle.optimizer.SGD(0.1, parameters=m.parameters()), update)


class Twice(paddle.optimizer.Adam):
    def step(self):
        return super().step()


def step_calls_super():
    return train(lambda m: Twice(0.1, parameters=m.parameters()), lambda o, _: o.step())


def groups():
    def make(model):
        members = [{"params": model[0].parameters(), "learning_rate": 0.5}, {"params": model[2].parameters()}]
        return paddle.optimizer.AdamW(0.1, parameters=members)

    return train(make, lambda o, _: o.step()) | {"rates": [0.05, 0.1]}


def schedule():
    rates = paddle.optimizer.lr.StepDecay(0.1, step_size=1, gamma=0.5)

    def update(optimizer, _):
        optimizer.step()
        rates.step()

    return train(lambda m: paddle.optimizer.SGD(rates, parameters=m.parameters()), update) | {"rates": [0.1, 0.05, 0.025]}


def scaler(kind, by_minimize=False):
    model, (x, y), norms, losses = net(), data(), [], []
    optimizer = kind(0.01, parameters=model.parameters())
    scaler = paddle.amp.GradScaler(enable=False)
    # On a CPU the constructor switches the scaler off; its arithmetic works there all the same.
    module = sys.modules["paddle.amp.grad_scaler"]
    real, module._dygraph_tracer = module._dygraph_tracer, lambda: type("T", (), {"_expected_place": OnGpu()})()
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0, decr_every_n_nan_or_inf=9)
    module._dygraph_tracer = real
    state = sys.modules["paddle.amp.auto_cast"].amp_global_state()
    before, state.amp_dtype = state.amp_dtype, "float16"
    for step in range(4):
        loss = loss_of(model, x, y)
        scaled = scaler.scale(loss)
        scaled.backward()
        if step == 2:
            gradient = model[0].weight.grad.numpy()
            gradient[0, 0] = np.inf
            model[0].weight.grad.set_value(gradient)
        else:
            norms.append(total(model.parameters()) / float(scaler._scale.numpy()[0]))
            losses.append(loss.item())
        if by_minimize:
            scaler.minimize(optimizer, scaled)
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.clear_grad()
    state.amp_dtype = before
    return {"norms": norms, "losses": losses, "scale": [1024.0] * 3}


class OnGpu:
    def is_gpu_place(self):
        return True


def scaler_adam():
    return scaler(paddle.optimizer.Adam)


def scaler_sgd_minimize():
    return scaler(paddle.optimizer.SGD, by_minimize=True)


def scaler_switched_off():
    scaler = paddle.amp.GradScaler(enable=False)

    def update(optimizer, loss):
        scaler.step(optimizer)
        scaler.update()

    return train(lambda m: paddle.optimizer.SGD(0.1, parameters=m.parameters()), update)


def sparse():
    paddle.seed(0)
    table, norms = nn.Embedding(50, 4, sparse=True), []
    optimizer = paddle.optimizer.SGD(0.1, parameters=table.parameters())
    for _ in range(3):
        rows = table.weight.numpy()[[1, 7]].astype("float64")
        norms.append(float(np.sqrt(((rows * [[4.0], [2.0]]) ** 2).sum())))
        (table(paddle.to_tensor([1, 1, 7])) ** 2).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
    return {"norms": norms}


def half_precision():
    weight = paddle.create_parameter([1000], "float32").astype("bfloat16").detach()
    weight = paddle.base.framework.EagerParamBase.from_tensor(weight, trainable=True)
    optimizer = paddle.optimizer.SGD(0.0, parameters=[weight])
    (weight * paddle.full([1000], 601.0, "bfloat16")).sum().backward()
    gradient = weight.grad.astype("float32").numpy().astype("float64")
    optimizer.step()
    return {"norms": [float(np.linalg.norm(gradient))]}


def large_gradients():
    weight = paddle.create_parameter([2], "float32")
    optimizer = paddle.optimizer.SGD(0.0, parameters=[weight])
    (weight * 1e25).sum().backward()
    optimizer.step()
    return {"norms": [2**0.5 * 1e25], "wrong": [float("inf")]}


def lbfgs():
    model, (x, y), losses, calls = net(), data(), [], []
    optimizer = paddle.optimizer.LBFGS(learning_rate=0.5, max_iter=4, parameters=model.parameters())

    def closure():
        optimizer.clear_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(2):
        before = len(losses)
        optimizer.step(closure)
        calls.append(len(losses) - before)
    return {"losses": losses, "calls": calls, "last_norm": total(model.parameters())}


def generative_adversarial():
    paddle.seed(0)
    maker, judge, truth = nn.Linear(2, 8), nn.Linear(8, 1), {"judge": [], "maker": []}
    judges = paddle.optimizer.Adam(0.02, parameters=judge.parameters())
    makers = paddle.optimizer.Adam(0.01, parameters=maker.parameters())
    for _ in range(3):
        made = maker(paddle.randn([4, 2]))
        loss = judge(made.detach()).mean() - judge(paddle.randn([4, 8])).mean()
        loss.backward()
        truth["judge"].append([loss.item(), total(judge.parameters())])
        judges.step()
        judges.clear_grad()
        loss = -judge(made).mean()
        loss.backward()
        truth["maker"].append([loss.item(), total(maker.parameters())])
        makers.step()
        makers.clear_grad()
        judges.clear_grad()
    return truth


def accumulation():
    model, (x, y), losses = net(), data(), []
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    for _ in range(2):
        micro = []
        for part in range(4):
            loss = loss_of(model, x[part::4], y[part::4]) / 4
            loss.backward()
            micro.append(loss.item())
        losses.append(micro)
        optimizer.step()
        optimizer.clear_grad()
    return {"losses": losses}


def several_roots():
    model, (x, _) = net(), data()
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    output = model(x)
    one, two = output.mean(), (output**2).mean()
    paddle.autograd.backward([one, two])
    optimizer.step()
    return {"losses": [one.item(), two.item()]}


def step_raises_once():
    model, (x, y), norms = net(), data(), []
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    update = optimizer._append_optimize_op

    def fails(*arguments):
        raise ValueError("out of memory, say")

    for attempt in range(4):
        loss_of(model, x, y).backward()
        optimizer._append_optimize_op = fails if attempt == 1 else update
        try:
            optimizer.step()
            norms.append(total(model.parameters()))
        except ValueError:
            pass
        optimizer.clear_grad()
    return {"norms": norms}


def mixed_precision():
    model, (x, y) = net(), data()
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    with paddle.amp.auto_cast(dtype="bfloat16", level="O1"):
        loss = loss_of(model, x, y)
    loss.backward()
    optimizer.step()
    return {"losses": [loss.item()]}


def becomes_nan():
    weight = paddle.create_parameter([2], "float32")
    optimizer = paddle.optimizer.SGD(0.0, parameters=[weight])
    for step in range(3):
        (weight * (1.0 if step < 2 else float("nan"))).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
    return {}


SCENARIOS = [thing for thing in list(globals().values()) if getattr(thing, "__module__", "") == "__main__" and callable(thing)]
SCENARIOS = [s for s in SCENARIOS if not isinstance(s, type) and s.__code__.co_argcount == 0]


def main():
    probe = getattr(sys, "_labbook_probe", None)
    for scenario in SCENARIOS:
        if len(sys.argv) > 1 and scenario.__name__ not in sys.argv[1:]:
            continue
        if probe is not None:
            probe.event("note", text=scenario.__name__)
        TRUTH[scenario.__name__] = scenario()
    print(json.dumps(TRUTH))


main()
