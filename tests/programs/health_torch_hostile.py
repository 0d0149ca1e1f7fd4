"""Programs that do what a watcher does not expect; prints what each of them computed, as JSON."""

import torch, copy, io, pickle, sys, threading, warnings, hashlib, gc
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
torch.set_num_threads(1)
R = {}


def digest(m):
    h = hashlib.sha256()
    for v in m.state_dict().values():
        h.update(
            v.detach().cpu().contiguous().view(-1).to(torch.float64).numpy().tobytes()
            if v.is_floating_point()
            else str(v.tolist()).encode()
        )
    return h.hexdigest()[:12]


def mk(d=6, k=3):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(d, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, k))


X = torch.randn(64, 6)
Y = torch.randint(0, 3, (64,))


def train(m, n=12, o=None, lf=lambda m: F.cross_entropy(m(X), Y)):
    o = o or torch.optim.SGD(m.parameters(), 0.1)
    for i in range(n):
        o.zero_grad()
        l = lf(m)
        l.backward()
        o.step()
    return l


import os

COUNT = [0]


def case(f):
    COUNT[0] += 1
    if COUNT[0] % 4 != int(sys.argv[1]):
        return f
    torch.manual_seed(7)
    try:
        R[f.__name__] = f()
    except Exception as e:
        R[f.__name__] = "%s: %s" % (type(e).__name__, str(e)[:300])
    return f


@case
def pickled():
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    train(m, 6, o)
    b = io.BytesIO()
    torch.save(m, b)
    b.seek(0)
    n = torch.load(b, weights_only=False)
    c = copy.deepcopy(m)
    p = pickle.loads(pickle.dumps(m))
    train(m, 3, o)
    return [
        digest(n),
        digest(c),
        digest(p),
        type(n._forward_hooks).__name__,
        len(n._forward_hooks),
        len(c._forward_pre_hooks),
        b"labbook" in b.getvalue(),
        digest(m),
    ]


@case
def user_hooks():
    m = mk()
    seen = []
    m.register_forward_hook(lambda m, a, o: seen.append(o.shape))
    m[0].register_forward_hook(lambda m, a, o: o * 1.5)
    m[3].register_full_backward_hook(lambda m, gi, go: None)
    m.register_forward_pre_hook(lambda m, a: (a[0] * 2,))
    train(m)
    h = m[1].register_forward_hook(lambda *a: None)
    h.remove()
    return [digest(m), len(seen)]


@case
def deleted():
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    train(m, 3, o)
    del m[1]
    train(m, 6, o)
    d = digest(m)
    del m, o
    gc.collect()
    return d


@case
def tuple_loss():
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for i in range(8):
        o.zero_grad()
        a = F.cross_entropy(m(X), Y)
        b = m(X).pow(2).mean()
        torch.autograd.backward((a, b))
        o.step()
    return digest(m)


@case
def functional():
    from torch.func import functional_call, grad, vmap

    m = nn.Linear(6, 3)
    p = dict(m.named_parameters())

    def loss(p, x, y):
        return F.cross_entropy(functional_call(m, p, (x[None],)), y[None])

    g = vmap(grad(loss), (None, 0, 0))({k: v.detach() for k, v in p.items()}, X, Y)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for i in range(5):
        g = vmap(grad(loss), (None, 0, 0))({k: v.detach() for k, v in p.items()}, X, Y)
        o.zero_grad()
        for k, v in m.named_parameters():
            v.grad = g[k].mean(0)
        o.step()
    return digest(m)


@case
def double_backward():
    m = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    o = torch.optim.Adam(m.parameters(), 1e-2)
    for i in range(8):
        x = X.clone().requires_grad_()
        o.zero_grad()
        y = m(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        l = y.mean() + ((g.norm(dim=1) - 1) ** 2).mean()
        l.backward()
        o.step()
    return digest(m)


@case
def sparse():
    e = nn.Embedding(20, 4, sparse=True)
    h = nn.Linear(4, 3)
    o = torch.optim.SGD(list(e.parameters()) + list(h.parameters()), 0.1)
    for i in range(8):
        o.zero_grad()
        F.cross_entropy(h(e(torch.arange(10))), Y[:10]).backward()
        o.step()
    return digest(e)


@case
def complex_():
    w = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))
    o = torch.optim.Adam([w], 1e-2)

    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.w = w

        def forward(s, x):
            return (x.to(torch.complex64) @ s.w).abs()

    m = M()
    for i in range(8):
        o.zero_grad()
        m(X[:, :4]).sum().backward()
        o.step()
    return str(w.abs().sum().item())


@case
def quantised():
    m = torch.ao.quantization.quantize_dynamic(mk(), {nn.Linear}, dtype=torch.qint8)
    h = nn.Linear(3, 3)
    o = torch.optim.SGD(h.parameters(), 0.1)
    for i in range(5):
        o.zero_grad()
        F.cross_entropy(h(m(X)), Y).backward()
        o.step()
    return digest(h)


@case
def meta():
    with torch.device("meta"):
        m = mk()
        o = torch.optim.SGD(m.parameters(), 0.1)
        x = torch.randn(4, 6)
    for i in range(3):
        l = m(x).sum()
        l.backward()
        o.step()
        o.zero_grad()
    return str(l.device)


@case
def default_device():
    with torch.device("cpu"):
        m = mk()
        l = train(m)
    return digest(m)


@case
def empty():
    m = mk()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for n in (4, 0, 4, 0):
        o.zero_grad()
        l = F.mse_loss(m(X[:n]), torch.zeros(n, 3))
        l.backward()
        o.step()
    return str(l.item())


@case
def zero_params():
    class M(nn.Module):
        def forward(s, x):
            return x * 2

    m = M()
    x = X.clone().requires_grad_()
    m(x).sum().backward()
    try:
        torch.optim.SGD(m.parameters(), 0.1)
    except ValueError as e:
        return str(e)


@case
def empty_param():
    m = nn.Linear(6, 3)
    m.e = nn.Parameter(torch.zeros(0, 3))
    train(m)
    return digest(m)


@case
def threads():
    ms = [mk(), mk()]
    ts = [threading.Thread(target=train, args=(m,)) for m in ms]
    torch.manual_seed(3)
    for t in ts:
        t.start()
        t.join()
    return [digest(m) for m in ms]


@case
def patched():
    old = torch.relu
    F_ce = F.cross_entropy
    F.cross_entropy = lambda *a, **k: F_ce(*a, **k) * 2
    m = mk()
    train(m, 5)
    F.cross_entropy = F_ce
    return digest(m)


@case
def scripted():
    class N(nn.Module):
        def __init__(s):
            super().__init__()
            s.a = nn.Linear(6, 3)
            s.d = nn.Dropout(0.2)

        def forward(s, x, y):
            return F.cross_entropy(F.dropout(s.d(s.a(x)), 0.1, s.training), y)

    torch.manual_seed(5)
    m = torch.jit.script(N())
    o = torch.optim.SGD(m.parameters(), 0.1)
    for i in range(5):
        o.zero_grad()
        l = m(X, Y)
        l.backward()
        o.step()
    t = torch.jit.trace(nn.Sequential(nn.Linear(6, 3)), X)
    ls = torch.jit.script(nn.CrossEntropyLoss())
    return [round(l.item(), 6), round(ls(m.a(X), Y).item(), 6), torch.jit.script(nn.MSELoss())(X, X).item()]


import json

print(json.dumps(R))
