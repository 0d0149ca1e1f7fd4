"""Small training loops with one fault each, or odd but healthy; the case is the argument."""

import sys

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
torch.set_num_threads(1)
case = sys.argv[1]
X = torch.randn(256, 10)
Y = (X[:, 0] > 0).long()


def batches(n=60, bs=32):
    for i in range(n):
        j = (i * bs) % 256
        yield X[j : j + bs], Y[j : j + bs]


def mk():
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))


def loop(m, o, lf, n=60, zero=True):
    for x, y in batches(n):
        if zero:
            o.zero_grad()
        l = lf(m, x, y)
        l.backward()
        o.step()


ce = lambda m, x, y: F.cross_entropy(m(x), y)
if case == "nozero":
    m = mk()
    loop(m, torch.optim.SGD(m.parameters(), 0.01), ce, zero=False)
elif case == "owncall":

    class OwnCall(nn.Module):  # as the models of GPyTorch: hooks of `nn.Module.__call__` never run
        def __init__(self):
            super().__init__()
            self.scale, self.shift = nn.Parameter(torch.ones(1, 10)), nn.Parameter(torch.zeros(()))

        def __call__(self, x):
            return self.forward(x)

        def forward(self, x):
            return (x * self.scale).sum(1) + self.shift

    m = OwnCall()
    loop(m, torch.optim.SGD(m.parameters(), 0.01), lambda m, x, y: F.mse_loss(m(x), y.float()), n=10)
elif case == "ofeach":  # an optimizer for each parameter, as Pyro makes them; the model itself is never called
    m = nn.ModuleDict({"encoder": nn.Linear(10, 4), "decoder": nn.Linear(4, 10)})
    os = [torch.optim.Adam([p], 1e-3) for p in m.parameters()]
    for x, _ in batches(10):
        for o in os:
            o.zero_grad()
        (m["decoder"](torch.tanh(m["encoder"](x))) - x).pow(2).mean().backward()
        for o in os:
            o.step()
elif case in ("solver", "recurrent"):
    m = nn.Linear(10, 10) if case == "solver" else nn.RNNCell(10, 10)
    for x, _ in batches(10):

        def solve(x, steps=10):
            state = x
            for _ in range(steps):
                state = state + 0.1 * torch.tanh(m(state)) if case == "solver" else m(x, state)
            return state

        o = torch.optim.SGD(m.parameters(), 0.01)
        o.zero_grad()
        (solve(x) - x.flip(1)).abs().mean().backward()
        o.step()
elif case == "frozeneval":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for frozen in (True, False):  # a look at the loss before the first step, as DeepXDE does
        m.requires_grad_(not frozen)
        if frozen:
            m(X)
    for x, y in batches(20):

        def closure():
            o.zero_grad()
            l = ce(m, x, y)
            l.backward()
            return l

        o.step(closure)
elif case == "gan":
    G = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
    D = nn.Sequential(nn.Linear(10, 8), nn.LeakyReLU(), nn.Linear(8, 1))
    og = torch.optim.Adam(G.parameters(), 1e-3)
    od = torch.optim.Adam(D.parameters(), 1e-3)
    for x, _ in batches():
        od.zero_grad()
        r = F.binary_cross_entropy_with_logits(D(x), torch.ones(32, 1))
        r.backward()
        f = G(torch.randn(32, 4))
        l = F.binary_cross_entropy_with_logits(D(f.detach()), torch.zeros(32, 1))
        l.backward()
        od.step()
        og.zero_grad()
        F.binary_cross_entropy_with_logits(D(f), torch.ones(32, 1)).backward()
        og.step()
elif case == "accum":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for i, (x, y) in enumerate(batches()):
        (ce(m, x, y) / 4).backward()
        if i % 4 == 3:
            o.step()
            o.zero_grad()
elif case in ("detach", "numpy", "nograd", "item", "data"):

    class N(nn.Module):
        def __init__(s):
            super().__init__()
            s.a = nn.Linear(10, 16)
            s.b = nn.Linear(16, 2)
            s.unused = nn.Linear(3, 3)

        def forward(s, x):
            h = torch.relu(s.a(x))
            if case == "detach":
                h = h.detach()
            if case == "data":
                h = h.data
            if case == "numpy":
                h = torch.from_numpy(h.detach().numpy())
            if case == "item":
                h = torch.tensor(h.tolist())
            if case == "nograd":
                with torch.no_grad():
                    h = h * 2
            return s.b(h)

    m = N()
    loop(m, torch.optim.SGD(m.parameters(), 0.1), ce)
elif case == "stale":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    m[2] = nn.Linear(16, 2)
    loop(m, o, ce)
elif case == "acting":
    actor, critic = nn.Linear(10, 2), nn.Linear(12, 1)
    ours, other = torch.optim.SGD(actor.parameters(), 0.1), torch.optim.SGD(critic.parameters(), 0.1)
    for x, y in batches():
        with torch.no_grad():
            both = torch.cat([x, actor(x)], 1)
        for optimizer in (other, ours):
            optimizer.zero_grad()
            critic(both).mean().backward()
            optimizer.step()
elif case == "list":

    class N(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = [nn.Linear(10, 10) for _ in range(2)]
            s.b = nn.Linear(10, 2)

        def forward(s, x):
            for l in s.l:
                x = torch.relu(l(x))
            return s.b(x)

    m = N()
    loop(m, torch.optim.SGD(m.parameters(), 0.1), ce)
elif case == "lr0":
    m = mk()
    loop(m, torch.optim.SGD(m.parameters(), 0.0), ce)
elif case == "lrtiny":
    m = mk()
    loop(m, torch.optim.SGD(m.parameters(), 1e-12), ce)
elif case == "evalmode":
    m = mk()
    m.add_module("3", nn.Dropout(0.1))
    m.eval()
    loop(m, torch.optim.SGD(m.parameters(), 0.1), ce)
elif case in ("seed", "seed without draws"):
    m = nn.Sequential(nn.Linear(10, 16), nn.Dropout(0.2) if case == "seed" else nn.ReLU(), nn.Linear(16, 2))
    o = torch.optim.SGD(m.parameters(), 0.1)
    for x, y in batches():
        torch.manual_seed(1)
        o.zero_grad()
        ce(m, x, y).backward()
        o.step()
elif case == "softmax2":
    m = nn.Sequential(mk(), nn.Softmax(1))
    loop(m, torch.optim.SGD(m.parameters(), 0.1), ce)
elif case in ("softaxis", "softaxisforward"):

    class N(nn.Module):
        def __init__(s):
            super().__init__()
            s.m = mk()

        def forward(s, x):
            return torch.softmax(s.m(x), 0)

    m = N()
    call = N.__call__ if case == "softaxis" else lambda m, x: m.forward(x)
    loop(m, torch.optim.SGD(m.parameters(), 0.1), lambda m, x, y: F.nll_loss(call(m, x), y))
elif case == "broadcast":
    m = nn.Linear(10, 1)
    loop(m, torch.optim.SGD(m.parameters(), 0.01), lambda m, x, y: F.mse_loss(m(x), y.float()))
elif case == "logloss":
    m = mk()
    loop(m, torch.optim.SGD(m.parameters(), 0.1), lambda m, x, y: -(torch.log(torch.relu(m(x)[:, 0]))).mean())
elif case == "badbatch":
    X[100, 3] = float("inf")
    m = mk()
    loop(m, torch.optim.SGD(m.parameters(), 0.1), ce)
elif case == "explode":
    m = mk()
    loop(m, torch.optim.SGD(m.parameters(), 1e30), lambda m, x, y: F.mse_loss(m(x), F.one_hot(y, 2).float()))
elif case == "dropeval":

    class N(nn.Module):
        def __init__(s):
            super().__init__()
            s.m = mk()

        def forward(s, x):
            return F.dropout(s.m(x), 0.3)

    m = N()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for e in range(3):
        m.train()
        loop(m, o, ce, 20)
        m.eval()
        with torch.no_grad():
            for x, y in batches(8):
                F.cross_entropy(m(x), y)
elif case == "traineval":
    m = nn.Sequential(mk(), nn.Dropout(0.1))
    o = torch.optim.SGD(m.parameters(), 0.1)
    for e in range(3):
        loop(m, o, ce, 20)
        with torch.no_grad():
            for x, y in batches(8):
                F.cross_entropy(m(x), y)
elif case == "gradval":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for e in range(3):
        m.train()
        loop(m, o, ce, 20)
        m.eval()
        for x, y in batches(8):
            F.cross_entropy(m(x), y)
elif case == "retain":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    tot = 0
    for x, y in batches():
        o.zero_grad()
        l = ce(m, x, y)
        l.backward()
        o.step()
        tot = tot + l
elif case == "zerobetween":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for x, y in batches():
        l = ce(m, x, y)
        l.backward()
        o.zero_grad()
        o.step()
elif case == "nobackward":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for x, y in batches():
        o.zero_grad()
        l = ce(m, x, y)
        o.step()
elif case == "sched":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    s = torch.optim.lr_scheduler.CosineAnnealingLR(o, 10)
    for x, y in batches():
        s.step()
        o.zero_grad()
        ce(m, x, y).backward()
        o.step()
elif case == "load":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    best = m.state_dict()
    loop(m, o, ce)
    m.load_state_dict(best)
    m.load_state_dict({"x." + k: v for k, v in best.items()}, strict=False)
elif case == "sqrtloss":
    m = mk()
    loop(m, torch.optim.SGD(m.parameters(), 0.1), lambda m, x, y: torch.sqrt((m(x) * 0) ** 2).sum())
elif case == "mask":

    class N(nn.Module):
        def __init__(s):
            super().__init__()
            s.q = nn.Linear(10, 16)
            s.o = nn.Linear(16, 2)

        def forward(s, x):
            h = s.q(x)
            a = h.view(-1, 4, 4)
            mask = torch.zeros(4, 4, dtype=torch.bool)
            mask[0] = True
            a = a.masked_fill(mask, float("-inf"))
            return s.o(torch.softmax(a, -1).flatten(1))

    m = N()
    loop(m, torch.optim.SGD(m.parameters(), 0.1), ce)
elif case == "exp":

    class N(nn.Module):
        def __init__(s):
            super().__init__()
            s.q = nn.Linear(10, 16)
            s.o = nn.Linear(16, 2)

        def forward(s, x):
            h = s.q(x) * 100
            e = torch.exp(h)
            p = e / e.sum(-1, keepdim=True)
            return s.o(p)

    m = N()
    loop(m, torch.optim.SGD(m.parameters(), 0.1), ce)
elif case == "sqrtinside":

    class N(nn.Module):
        def __init__(s):
            super().__init__()
            s.q = nn.Linear(10, 16)
            s.o = nn.Linear(16, 2)

        def forward(s, x):
            h = s.q(x)
            return s.o(torch.sqrt((h * (h > 0)) ** 2))

    m = N()
    loop(m, torch.optim.SGD(m.parameters(), 0.1), ce)
elif case in ("flags", "flagsapplied"):
    m = mk()
    m.requires_grad = True
    m[0].requires_grad = False
    if case == "flagsapplied":
        m[0].requires_grad_(False)
    loop(m, torch.optim.SGD(m.parameters(), 0.1), ce)
elif case == "caught":
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for x, y in batches():
        try:
            loop(m, o, lambda m, x, y: F.cross_entropy(m(x.double()), y), n=1)
        except RuntimeError:
            continue
elif case in ("teacher", "play", "self"):
    m, other = mk(), mk()
    loop(other, torch.optim.SGD(other.parameters(), 0.1), ce, n=30)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for x, y in batches(100):
        with torch.no_grad():
            asked = m if case == "self" else other
            target = asked(x[:2] if case == "play" else x)
            if case == "teacher":
                target = target + asked(x * 0.9)
        l = F.cross_entropy(m(x), y) + (F.mse_loss(m(x), target) if case == "teacher" else 0)
        o.zero_grad()
        l.backward()
        o.step()
