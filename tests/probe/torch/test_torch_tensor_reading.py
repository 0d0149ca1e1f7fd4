"""What single looks at a PyTorch program read from graphs, hooks and modules, without a run."""

import copy
import itertools
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest

from labbook.probe.inspection.policy_loss import ascends, clipped_ratio, is_inverted, weighted_by_values
from labbook.probe.process import gc_scan
from labbook.probe.torch.loss_expression import GRAPH, count_penalised, find_broadcast, is_bootstrapped, is_one, roots
from labbook.probe.torch.loss_terms import LossTerms
from labbook.probe.torch.model_copies import ModelCopies
from labbook.probe.torch.model_inputs import ModelInputs
from labbook.probe.torch.module_calls import ModuleCalls
from labbook.probe.torch.root_modules import RootModules
from labbook.probe.torch.spectral_norms import find_untrained_norms
from labbook.probe.torch.tensor_stats import TensorStats, WithoutModes
from labbook.probe.training.process_memory import own_bytes


@pytest.fixture(scope="module", autouse=True)
def framework() -> None:
    """Imported when the first of these tests runs: every worker collects all files."""
    global torch, MODEL, X, Y, LABELS
    torch = pytest.importorskip("torch")
    MODEL = torch.nn.Linear(5, 1)
    X, Y = torch.randn(8, 5), torch.randn(8)
    LABELS = (Y > 0).float()


@pytest.mark.parametrize(
    "loss",
    [
        lambda p: ((p - Y) ** 2).mean(),
        lambda p: (Y - p).abs().sum(),
        lambda p: ((p.squeeze(1) - Y[:, None]) ** 2).mean(),
        lambda p: torch.cosh(p - Y).log().mean(),
        lambda p: ((p[:, :, None, None] * torch.ones(3, 3) - Y[:, None, None] * torch.ones(3, 3)) ** 2).mean(),
        lambda p: -torch.distributions.Normal(p, 1.0).log_prob(Y).mean(),
        lambda p: -(LABELS * p.sigmoid().log() + (1 - LABELS) * (1 - p.sigmoid()).log()).mean(),
        lambda p: (1 + (-Y * p).exp()).log().mean().sqrt(),
    ],
)
def test_a_column_against_a_row_is_found(loss):
    found = find_broadcast([loss(MODEL(X))])
    assert found is not None and found["sure"] and found["shape"][:2] == [8, 8]


@pytest.mark.parametrize(
    "loss",
    [
        lambda p: ((p.squeeze(1) - Y) ** 2).mean(),
        lambda p: ((p - Y[:, None]) ** 2).mean(),
        lambda p: ((p[:, :, None, None] * torch.ones(3, 3) - Y[:, None, None, None]) ** 2).mean(),
        lambda p: ((p - p.T) ** 2).mean(),
        lambda p: ((p.squeeze(1)[:, None] - Y) ** 2).mean(),
        lambda p: ((p.squeeze(1).view(-1, 1) - Y) ** 2).mean(),
        lambda p: ((p - torch.ones(8, 8).tril() * Y[:, None]) ** 2).mean(),
        lambda p: (p * torch.arange(64.0).reshape(8, 8)).mean(),
        lambda p: torch.nn.functional.mse_loss(p.squeeze(1), Y),
    ],
)
def test_what_is_meant_or_of_one_shape_is_not(loss):
    assert find_broadcast([loss(MODEL(X))]) is None


def test_a_penalty_is_known_by_its_parameters_and_not_by_the_number_that_a_sum_begins_with():
    begun = torch.tensor(0.0, requires_grad=True)
    data = (MODEL(X) ** 2).mean()
    assert count_penalised([begun + data]) == 0
    assert count_penalised([begun + data + sum((p**2).sum() for p in MODEL.parameters())]) == 2


def test_a_transform_of_functions_is_named_as_what_hides_the_tensors():
    watch, found = WithoutModes(torch), []
    torch.func.vmap(lambda x: found.append(watch.refusal_reason()) or MODEL(x))(X)
    assert found == ["the model runs in a transform of torch.func"] and watch.refusal_reason() == ""


def test_checkpointed_parts_are_not_computed_anew():
    calls = []

    def part(p):
        calls.append(1)
        return ((p - Y) ** 2).mean()

    loss = torch.utils.checkpoint.checkpoint(part, MODEL(X), use_reentrant=False)
    find_broadcast([loss])
    assert len(calls) == 1


def normed(forward):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = torch.nn.Sequential(
            torch.nn.utils.spectral_norm(torch.nn.Linear(6, 24)),
            torch.nn.utils.spectral_norm(torch.nn.Conv1d(4, 9, 3)),
        )
    for one, x in zip(model, (torch.randn(2, 6), torch.randn(2, 4, 5)), strict=True):
        forward(one, x)
    return find_untrained_norms(torch, model)


def test_spectral_norms_that_were_evaluated_first():
    torch.manual_seed(3)
    with torch.no_grad():
        assert normed(lambda one, x: one.eval()(x)) == ["0", "1"]
        assert normed(lambda one, x: one.train()(x)) == []
        assert normed(lambda one, x: None) == []
        assert normed(lambda one, x: (one.train()(x), one.eval()(x))) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")
def test_memory_of_another_process():
    with subprocess.Popen([sys.executable, "-c", "x = bytearray(30 << 20); print(1, flush=True); input()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # fmt: skip
        child.stdout.readline()
        size = own_bytes(child.pid)
        child.communicate(b"\n")
    assert size is not None and size > 30 << 20
    assert own_bytes(1 << 30) is None


class Watching:
    """What the watch over terms needs of the other eyes."""

    def __init__(self):
        self.monitor = self.without_modes = self.stats = self
        self.errors = []
        self.progress = SimpleNamespace(evaluate=lambda *_: None)

    def failed(self, where, error):
        self.errors.append(error)

    def is_followed_thread(self):
        return True

    is_possible = is_followed_thread

    def is_tensor(self, thing):
        return isinstance(thing, torch.Tensor)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def terms_of(loss, optimizers=1):
    """What is found where `loss(fit, other, step)` is the loss of every step, of each optimizer in turn."""
    inspector = Watching()
    terms, seen = LossTerms(torch, inspector), []
    for step in range(6 * optimizers):
        if step % optimizers == 0:  # only the step of the first optimizer ends what is followed
            terms.begin()
        p = MODEL(X)
        value = loss((p.squeeze(1) - Y).square().mean(), (p.sum() ** 2 + p.exp().mean()) * (step + 2), step)
        seen.append(terms.backward([value]))
        if step < optimizers:
            terms.arm([value], optimizers)
    assert not inspector.errors and not {"__add__", "__radd__", "add", "sub"} & torch.Tensor.__dict__.keys()
    return [one for one in seen if one]


@pytest.mark.parametrize(
    "loss",
    [
        lambda fit, other, step: fit + other.item(),
        lambda fit, other, step: float(other.detach()) + fit,
        lambda fit, other, step: 0.5 * fit - 2 * other.detach(),
        lambda fit, other, step: sum([fit, other.detach()]),
        lambda fit, other, step: fit.add(other.data),
    ],
)
def test_a_term_without_gradient_is_found(loss):
    ((found,),) = terms_of(loss)
    assert len(found["values"]) == 3 and found["line"].startswith("test_torch_tensor_reading.py")


@pytest.mark.parametrize("at", [0, 1])
def test_a_term_of_every_other_step_is_found(at):
    """Two models step in turn, as in a GAN; one of them has the term."""
    ((found,),) = terms_of(lambda fit, other, step: fit + other.item() if step % 2 == at else fit + other, 2)
    assert len(found["values"]) == 3


@pytest.mark.parametrize(
    "loss",
    [
        lambda fit, other, step: fit + other,
        lambda fit, other, step: sum([fit, other]) + 1e-8,
        lambda fit, other, step: (fit - 0.1).abs() + 0.1,
        lambda fit, other, step: fit + (other - other.detach()),
        lambda fit, other, step: fit / (1 + other.detach()),
        lambda fit, other, step: fit + 0.0 * other.item(),
    ],
)
def test_sums_that_are_meant(loss):
    assert not terms_of(loss)


def test_copies_of_the_trained_model_are_followed(monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "__setstate__", torch.nn.Module.__setstate__)
    monkeypatch.setattr(torch.nn.Module, "__call__", torch.nn.Module.__call__)
    calls = ModuleCalls()
    calls.install(torch)
    model = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Linear(3, 1))
    root = SimpleNamespace(module=lambda: model, called=1)
    inspector = SimpleNamespace(
        stats=TensorStats(torch),
        calls=calls,
        followed_models=lambda: [root],
        progress=SimpleNamespace(evaluate=lambda *_: None),
        monitor=SimpleNamespace(step=1, loop=SimpleNamespace(backwards=1)),
        adapter=SimpleNamespace(registry=SimpleNamespace(modules=lambda: None)),
        failed=lambda *error: pytest.fail(str(error)),
    )
    copies = ModelCopies(torch, inspector)
    copies.install(lambda: False)
    still, moving, part = copy.deepcopy(model), copy.deepcopy(model), copy.deepcopy(model[0])
    copies.inspect()
    inspector.monitor.loop.backwards = 40
    copies.inspect()
    for step in (1, 2, 2, 3):
        inspector.monitor.step = step
        with torch.no_grad():
            for one in (still, moving):
                one(X)
            part(X)
            moving[0].weight.mul_(0.5)
        moving(X)
        copies.inspect()
    seen = sorted(copies.totals(), key=lambda one: one["changed"])
    assert [one["changed"] for one in seen] == [False, True]
    assert all(one["calls"] == 4 and one["steps"] == 3 and one["last"] == 3 for one in seen)


def test_a_target_network_is_a_copy_of_the_untrained_model(monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "__setstate__", torch.nn.Module.__setstate__)
    monkeypatch.setattr(torch.nn.Module, "__call__", torch.nn.Module.__call__)
    calls = ModuleCalls()
    calls.install(torch)
    model, target, loaded = (torch.nn.Linear(5, 3) for _ in range(3))
    loop = SimpleNamespace(backwards=0)
    inspector = Watching()
    inspector.stats, inspector.calls, inspector.followed_models = (
        TensorStats(torch),
        calls,
        lambda: [SimpleNamespace(module=lambda: model, called=1)],
    )
    inspector.monitor = SimpleNamespace(step=1, loop=loop, skipping=False)
    inspector.adapter = SimpleNamespace(registry=SimpleNamespace(modules=lambda: [model, target, loaded]))
    copies = ModelCopies(torch, inspector)
    copies.install(lambda: False)
    copies.on_load_state(target, model.state_dict())
    reference = copy.deepcopy(model)
    loop.backwards = 1
    copies.inspect()
    loop.backwards = 40
    copies.inspect()
    for step in range(5):
        inspector.monitor.step = step
        model(X)
        reference(X).detach()
        with torch.no_grad():
            target(X + 1)
    seen = [(one["untrained"], one["steps"], one["compared"], one["equal"]) for one in copies.totals()]
    assert sorted(seen) == [(True, 5, 4, 0), (True, 5, 4, 4)]
    copies.forget()
    loop.backwards = 0
    copies.on_load_state(loaded, {"weight": torch.zeros(3, 5), "bias": torch.zeros(3)})
    later = copy.deepcopy(model)
    copies.inspect()
    assert [one["untrained"] for one in copies.totals()] == [False], later


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda net, a, b, r: torch.nn.functional.mse_loss(net(a), r + 0.9 * net(b)), True),
        (lambda net, a, b, r: (r + 0.9 * (r > 0) * net(b).amax(1, keepdim=True) - net(a)).pow(2).mean(), True),
        (lambda net, a, b, r: torch.nn.functional.smooth_l1_loss(net(a), r + 0.9 * net(b).detach()), False),
        (lambda net, a, b, r: torch.nn.functional.mse_loss(net(a), net(b)), False),
        (lambda net, a, b, r: torch.nn.functional.mse_loss(net(a) * 0.5 + 0.5, net(b) * 0.5 + 0.5), False),
        (lambda net, a, b, r: torch.nn.functional.mse_loss(net(a), r + 3.0 * net(b)), False),
        (lambda net, a, b, r: torch.nn.functional.mse_loss(net(a), r + 0.9 * torch.nn.Linear(5, 1)(b)), False),
        (lambda net, a, b, r: torch.nn.functional.mse_loss(net(a), net(b) + 0.9 * net(a)), False),
        (lambda net, a, b, r: (r + 0.5 * net(a).square() - net(a)).mean(), False),  # the likelihood of a flow
    ],
)
def test_a_target_with_a_gradient_is_told_by_the_graph(loss, found):
    net = torch.nn.Linear(5, 1)
    assert is_bootstrapped([loss(net, X[:, :5], X[:, :5] + 1, torch.randn(len(X), 1))]) is found


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda p, rows: p.log_softmax(1).gather(1, rows).mean(), True),
        (lambda p, rows: torch.nn.functional.logsigmoid(p[:, 0] - p[:, 1]).sum() / 8, True),
        (lambda p, rows: -p.log_softmax(1)[torch.arange(8), 0].mean(), False),
        (lambda p, rows: p.log_softmax(1).gather(1, rows).mean() * -0.5, False),
        (lambda p, rows: 1 - p.log_softmax(1).gather(1, rows).mean(), False),
        (lambda p, rows: (p.log_softmax(1).gather(1, rows) * Y[:, None]).mean(), False),
        (lambda p, rows: (p.softmax(1) * p.log_softmax(1)).sum(1).mean(), False),
        (lambda p, rows: torch.nn.functional.cross_entropy(p, rows[:, 0]), False),
    ],
)
def test_the_sign_of_a_log_probability_is_told_by_the_graph(loss, found):
    one = loss(torch.nn.Linear(5, 3)(X), torch.zeros(8, 1, dtype=torch.long))
    assert ascends(GRAPH, roots([one])) is found


@pytest.mark.parametrize(
    ("ratio", "ones", "inverted"),
    [
        (lambda new: torch.exp(new - new.detach()), True, False),
        (lambda new: (new - new.detach() * 1.001).exp(), False, False),
        (lambda new: (new.detach() * 1.001 - new).unsqueeze(0).exp(), False, True),
        (lambda new: 1 + 0 * new, None, None),
    ],
)
def test_the_ratio_of_a_clipped_policy_loss_is_read_from_the_graph(ratio, ones, inverted):
    one = ratio(MODEL(X).squeeze(1))
    loss = -torch.min(one * Y, one.clamp(0.8, 1.2) * Y).mean()
    found = clipped_ratio(GRAPH, roots([loss]))
    assert (found and is_one(found), found and is_inverted(GRAPH, found)) == (ones, inverted)
    assert clipped_ratio(GRAPH, roots([one.mean()])) is None


def test_what_another_model_computed_is_no_input():
    seen = []
    inspector = Watching()
    batches = ModelInputs(torch, TensorStats(torch), inspector, lambda kind, **fields: seen.append(fields))
    coordinates = torch.randn(4, 2, requires_grad=True)
    batches.inspect(SimpleNamespace(index=0), (MODEL(X), X[:4], coordinates), {}, None)
    batches.write_event(1, SimpleNamespace(target=None))
    assert [leaf["path"] for leaf in seen[0]["leaves"]] == ["1", "2"]


def test_the_batch_of_a_step_is_that_of_most_samples():
    """A policy that acts with gradients runs on one state before it is trained on a batch."""
    seen = []
    inspector = Watching()
    batches = ModelInputs(torch, TensorStats(torch), inspector, lambda kind, **fields: seen.append(fields))
    for samples in (1, 4, 4, 2):
        batches.inspect(SimpleNamespace(index=0), (X[:samples],), {}, None)
    batches.write_event(1, SimpleNamespace(target=None))
    assert [leaf["shape"][0] for leaf in seen[0]["leaves"]] == [4]


def standardised(values):
    return (values - values.mean()) / (values.std() + 1e-8)


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda d, v, a, r: -(d.log_prob(a) * (r - v)).mean(), True),
        (lambda d, v, a, r: (-d.log_prob(a) * standardised(r - v)).sum() + (r - v).pow(2).mean(), True),
        (
            lambda d, v, a, r: torch.stack([-p * (g - b) for p, g, b in zip(d.log_prob(a), r, v, strict=True)]).sum(),
            True,
        ),
        (lambda d, v, a, r: -(torch.distributions.Normal(v, 1.0).log_prob(r) * (r - v)).mean(), True),
        (lambda d, v, a, r: -(d.log_prob(a) * (r - v.detach())).mean() + (v - r).pow(2).mean(), False),
        (lambda d, v, a, r: -(d.log_prob(a) * r).mean() - 0.01 * d.entropy().mean(), False),
        (lambda d, v, a, r: torch.min((d.log_prob(a) - r).exp() * r, r).mean(), False),
    ],
)
def test_an_advantage_with_a_gradient_is_told_by_the_graph(loss, found):
    policy = torch.distributions.Categorical(logits=torch.nn.Linear(5, 4)(X))
    value, actions = torch.nn.Linear(5, 1)(X).squeeze(-1), torch.randint(0, 4, (len(X),))
    assert weighted_by_values(GRAPH, roots([loss(policy, value, actions, Y)])) is found


def test_parameters_that_no_sweep_looked_for_are_not_known_to_be_without_a_module(monkeypatch):
    clock = itertools.count(0.0, 10.0).__next__  # each sweep takes its share of the time
    roots = RootModules(torch, lambda parameters: (None, None), lambda: False, pytest.fail, clock, None)
    first, second = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(3))
    monkeypatch.setitem(gc_scan._state, "slow", False)
    roots.register([first, second])
    assert roots.unsearched == {id(second)}
    monkeypatch.setitem(gc_scan._state, "slow", True)
    roots.register([first, second])
    assert roots.unsearched == {id(first), id(second)}
