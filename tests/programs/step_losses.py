"""Training loops whose steps are made of one loss, several, or some of those that were differentiated.

`python step_losses.py torch|paddle` prints the loss of each step, by loop and optimizer; a note says where one begins.
"""

import gc
import json
import sys
from importlib import import_module

import numpy as np

NAME = sys.argv[1]
TORCH = NAME == "torch"
framework = import_module(NAME)
nn = framework.nn
STEPS = 5


def data(seed):
    generator = np.random.RandomState(seed)
    pair = generator.randn(16, 8), generator.randn(16, 1)
    return [
        framework.from_numpy(p.astype("float32")) if TORCH else framework.to_tensor(p.astype("float32")) for p in pair
    ]


def net():
    (framework.manual_seed if TORCH else framework.seed)(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))


def sgd(model, rate=0.01):
    if TORCH:
        return framework.optim.SGD(model.parameters(), lr=rate)
    return framework.optimizer.SGD(rate, parameters=model.parameters())


def clear(optimizer, to_zero=None):
    if TORCH:
        optimizer.zero_grad(**({} if to_zero is None else {"set_to_none": not to_zero}))
    else:
        optimizer.clear_grad(**({} if to_zero is None else {"set_to_zero": to_zero}))


def loss_of(model, seed, target=None):
    x, y = data(seed)
    return nn.functional.mse_loss(model(x), y if target is None else y * 0 + target)


def one(model=None, steps=STEPS):
    model, losses = model or net(), []
    optimizer = sgd(model)
    for at in range(steps):
        clear(optimizer)
        loss = loss_of(model, at)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses]


def accumulated(to_zero=None, steps=STEPS, parts=4):
    model, losses = net(), []
    optimizer = sgd(model)
    for at in range(steps):
        clear(optimizer, to_zero)
        whole = 0.0
        for part in range(parts):
            loss = loss_of(model, parts * at + part) / parts
            loss.backward()
            whole += loss.item()
        optimizer.step()
        losses.append(whole)
    return [losses]


def cleared_for_each_part():
    model, losses = net(), []
    optimizer = sgd(model)
    for at in range(STEPS):
        for part in range(4):
            clear(optimizer)
            loss = loss_of(model, 4 * at + part) / 4
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses]


def cleared_before_the_last_part():
    """As under `accelerator.accumulate`, which clears gradients only where it steps: if that comes first, too late."""
    model, losses = net(), []
    optimizer = sgd(model)
    for at in range(STEPS):
        for part in range(4):
            if part == 3:
                clear(optimizer)
            loss = loss_of(model, 4 * at + part) / 4
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses]


def stepped_after_many():
    """The step is behind the loop over the batches, each of which clears the gradients."""
    model, losses = net(), []
    optimizer = sgd(model)
    for at in range(STEPS):
        for part in range(20):
            clear(optimizer)
            loss = loss_of(model, 20 * at + part)
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses]


def gradients_by_task():
    """The gradients of each task are set aside, and then put together."""
    model, losses = net(), []
    optimizer = sgd(model)
    for at in range(STEPS):
        kept = []
        for task in range(2):
            clear(optimizer)
            loss = loss_of(model, at, float(task))
            loss.backward()
            kept.append([p.grad.clone() for p in model.parameters()])
        for p, one, other in zip(model.parameters(), *kept):
            if TORCH:
                p.grad.copy_(one * 2 + other)
            else:
                p.grad.set_value(one * 2 + other)
        optimizer.step()
        losses.append(loss.item())
    return [losses]


def accumulated_into_zeros():
    return accumulated(True)


def accumulated_in_many_short_steps():
    return accumulated(steps=200, parts=2)


def several_losses_of_one_model():
    model, losses = net(), []
    optimizer = sgd(model)
    for at in range(STEPS):
        clear(optimizer)
        first, second = loss_of(model, at), 0.1 * loss_of(model, at, 1.0)
        first.backward()
        second.backward()
        optimizer.step()
        losses.append(first.item() + second.item())
    return [losses]


def summed_before():
    model, losses = net(), []
    optimizer = sgd(model)
    for at in range(STEPS):
        clear(optimizer)
        loss = loss_of(model, at) + loss_of(model, at, 1.0)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses]


def attacked(forget, steps=STEPS):
    """The gradient of a first loss is only looked at, and cleared before that of the loss that is stepped on."""
    model, losses = net(), []
    optimizer = sgd(model)
    for at in range(steps):
        clear(optimizer)
        loss_of(model, at, 3.0).backward()
        forget(optimizer, model)
        loss = loss_of(model, at)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses]


def attacked_and_cleared():
    return attacked(lambda optimizer, model: clear(optimizer))


def attacked_in_many_short_steps():
    return attacked(lambda optimizer, model: clear(optimizer), 100)


class Uncalled(nn.Module if TORCH else nn.Layer):
    """A model whose `forward` is never used."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 1)

    def score(self, x):
        return framework.tanh(x @ self.inner.weight.reshape([8, 1])) + self.inner.bias


def cleared_without_a_call():
    model, losses = Uncalled(), []
    optimizer = sgd(model)
    for at in range(STEPS):
        for part in range(3):
            clear(optimizer)
            x, y = data(3 * at + part)
            loss = (model.score(x) - y).square().mean()
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses]


def attacked_and_zeroed():
    return attacked(lambda optimizer, model: clear(optimizer, True))


def attacked_and_cleared_by_the_model():
    return attacked(lambda optimizer, model: model.zero_grad() if TORCH else model.clear_gradients())


def attacked_and_cleared_by_hand():
    def forget(optimizer, model):
        for parameter in model.parameters():
            if TORCH:
                parameter.grad = None
            else:
                parameter.clear_gradient(False)

    return attacked(forget)


def never_cleared():
    model, losses = net(), []
    optimizer = sgd(model, 0.001)
    for at in range(STEPS):
        loss = loss_of(model, at)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses]


def adversaries():
    """Two losses for the judge, one for the maker, each with its own optimizer and clearing."""
    maker, judge, of_judge, of_maker = net(), nn.Linear(1, 1), [], []
    judging, making = sgd(judge), sgd(maker)
    for at in range(STEPS):
        x, y = data(at)
        clear(judging)
        real = (judge(y) - 1).square().mean()
        real.backward()
        fake = judge(maker(x).detach()).square().mean()
        fake.backward()
        judging.step()
        clear(making)
        fooled = (judge(maker(x)) - 1).square().mean()
        fooled.backward()
        making.step()
        of_judge.append(real.item() + fake.item())
        of_maker.append(fooled.item())
    return [of_judge, of_maker]


def actor_and_critic(late=False):
    """Both losses are differentiated before both optimizers step."""
    actor, critic, losses = net(), net(), ([], [])
    acting, judging = sgd(actor), sgd(critic)
    for at in range(STEPS):
        clear(acting)
        if not late:
            clear(judging)
        first = loss_of(actor, at)
        first.backward()
        if late:
            clear(judging)
        second = loss_of(critic, at, 2.0)
        second.backward()
        acting.step()
        judging.step()
        losses[0].append(first.item())
        losses[1].append(second.item())
    return list(losses)


def actor_and_critic_cleared_late():
    return actor_and_critic(True)


def closure(parts=1, model=None):
    """An optimizer that evaluates its loss several times a step; `step` returns the first one."""
    model, losses = model or net(), []
    if TORCH:
        optimizer = framework.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    else:
        optimizer = framework.optimizer.LBFGS(0.1, max_iter=3, parameters=model.parameters())
    for _ in range(STEPS):
        seen = []

        def evaluate(seen=seen):
            clear(optimizer)
            losses = [loss_of(model, part) for part in range(parts)]
            for loss in losses:
                loss.backward()
            seen.append(sum(loss.item() for loss in losses))
            return sum(losses)

        optimizer.step(evaluate)
        losses.append(seen[0])
    return [losses]


def closure_of_parts():
    return closure(2)


def closure_after_many_short_steps():
    """As networks of physics are trained: first by gradient descent, then by L-BFGS."""
    model = net()
    return one(model, 300) + closure(1, model)


def scaled():
    """Two micro-batches a step under a gradient scaler."""
    model, losses = net(), []
    optimizer = sgd(model)
    if TORCH:
        scaler = framework.amp.GradScaler("cpu", init_scale=8.0)
    else:
        scaler = framework.amp.GradScaler(init_loss_scaling=8.0)
    for at in range(STEPS):
        clear(optimizer)
        whole = 0.0
        for part in range(2):
            loss = loss_of(model, 2 * at + part) / 2
            scaler.scale(loss).backward()
            whole += loss.item()
        scaler.step(optimizer)
        scaler.update()
        losses.append(whole)
    return [losses]


LOOPS = [
    one,
    accumulated,
    accumulated_into_zeros,
    cleared_for_each_part,
    cleared_before_the_last_part,
    stepped_after_many,
    gradients_by_task,
    several_losses_of_one_model,
    summed_before,
    attacked_and_cleared,
    attacked_and_zeroed,
    cleared_without_a_call,
    attacked_and_cleared_by_the_model,
    attacked_and_cleared_by_hand,
    never_cleared,
    adversaries,
    actor_and_critic,
    actor_and_critic_cleared_late,
    closure,
    closure_of_parts,
    scaled,
    accumulated_in_many_short_steps,
    attacked_in_many_short_steps,
    closure_after_many_short_steps,
]

if __name__ == "__main__":
    probe = getattr(sys, "_labbook_probe", None)
    truth = {}
    for loop in LOOPS:
        if probe is not None:
            probe.event("note", text=loop.__name__)
        truth[loop.__name__] = loop()
        gc.collect()  # the optimizers of one loop: the probe follows 16 that are alive
    print(json.dumps(truth))
