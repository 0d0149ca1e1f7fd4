"""`labbook.checks` on real digits, in PyTorch and PaddlePaddle alike: what is found, and that nothing is touched."""

from __future__ import annotations

import random
import re
import runpy
import shutil
import sys
import warnings
from pathlib import Path

import numpy
import pytest

from labbook import checks

BOTH = [pytest.param("torch", marks=pytest.mark.torch), pytest.param("paddle", marks=pytest.mark.paddle)]
TORCH_FIRST = [BOTH[0], pytest.param("paddle", marks=[pytest.mark.paddle, pytest.mark.long])]
DIGITS = Path(__file__).parent / "programs" / "digits_data.py"
IMAGES, LABELS = runpy.run_path(str(DIGITS))["load_digits"]()
IMAGES = (IMAGES / 16).astype("float32").reshape(-1, 1, 8, 8)
LABELS = LABELS.astype("int64")

pytestmark = pytest.mark.filterwarnings("ignore")


class Kit:
    """The same small training in one framework."""

    def __init__(self, name: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name == "torch":
                import torch as module
            else:
                import paddle as module
        self.name, self.module, self.nn = name, module, module.nn
        self.torch = name == "torch"
        module.manual_seed(1) if self.torch else module.seed(1)

    def tensor(self, array):
        return self.module.tensor(array) if self.torch else self.module.to_tensor(array)

    def layers(self, **instead):
        nn = self.nn
        conv, norm = (nn.Conv2d, nn.BatchNorm2d) if self.torch else (nn.Conv2D, nn.BatchNorm2D)
        found = {
            "conv": conv(1, 8, 3), "norm": norm(8), "relu": nn.ReLU(), "flat": nn.Flatten(), "drop": nn.Dropout(0.2),
            "head": nn.Linear(288, 10), **instead,
        }  # fmt: skip
        return [layer for layer in found.values() if layer is not None]

    def model(self, **instead):
        return self.nn.Sequential(*self.layers(**instead))

    def optimizer(self, parameters, rate=1e-3):
        if self.torch:
            return self.module.optim.AdamW(parameters, lr=rate)
        return self.module.optimizer.AdamW(learning_rate=rate, parameters=list(parameters))

    def loader(self, images=IMAGES, labels=LABELS, shuffle=True):
        io = self.module.utils.data if self.torch else self.module.io
        columns = [self.tensor(images), self.tensor(labels)]
        dataset = io.TensorDataset(*columns) if self.torch else io.TensorDataset(columns)
        return io.DataLoader(dataset, batch_size=32, shuffle=shuffle)

    def batch(self):
        return self.tensor(IMAGES[:32]), self.tensor(LABELS[:32])

    def train(self, model, optimizer, steps=3):
        model.train()
        for at in range(steps):
            part = slice(32 * at, 32 * at + 32)
            scores = model(self.tensor(IMAGES[part]))
            loss = self.nn.functional.cross_entropy(scores, self.tensor(LABELS[part]))
            loss.backward()
            optimizer.step()
            if at + 1 < steps:
                optimizer.zero_grad() if self.torch else optimizer.clear_grad()

    def state(self, model, optimizer):
        """Everything that must be as before, as bytes and plain values."""

        def raw(tensor):
            return tensor.detach().numpy().tobytes()

        gradients = [None if p.grad is None else raw(p.grad) for p in model.parameters()]
        modules = model.modules() if self.torch else model.sublayers(include_self=True)
        if self.torch:
            kept = [(k, raw(v)) for s in optimizer.state.values() for k, v in s.items()]
            dice = [self.module.get_rng_state().numpy().tobytes()]
            attributes = sorted(vars(optimizer))
        else:
            kept = [(k, raw(v)) for k, v in optimizer.state_dict().items() if hasattr(v, "numpy")]
            # The text holds the address of a device object, which is made anew.
            dice = [re.sub("0x[0-9a-f]+", "", str(self.module.get_rng_state("cpu")[0]))]
            attributes = sorted(vars(optimizer))
        return {
            "weights": [(name, raw(value)) for name, value in model.state_dict().items()],
            "gradients": gradients,
            "modes": [m.training for m in modules],
            "hooks": [
                len(getattr(m, "_forward_hooks", None) or getattr(m, "_forward_post_hooks", ())) for m in modules
            ],
            "optimizer": kept,
            "attributes": attributes,
            "dice": [*dice, random.getstate(), numpy.random.get_state()[1].tobytes(), numpy.random.get_state()[2]],
        }


@pytest.fixture(params=BOTH)
def kit(request):
    return Kit(request.param)


@pytest.mark.process
def test_a_healthy_training_passes_every_check(kit):
    model = kit.model()
    optimizer = kit.optimizer(model.parameters())

    answer = checks.checklist(model, kit.loader(), optimizer, kit.nn.CrossEntropyLoss())

    assert answer.ok and answer.verdict == "ok", str(answer)
    assert len(answer.rows) >= 13
    assert "2.303" in answer.row("first loss").expected


@pytest.mark.parametrize("trained", [False, True])
def test_checks_restore_all_state(kit, trained):
    model = kit.model()
    optimizer = kit.optimizer(model.parameters())
    loader, batch, loss = kit.loader(), kit.batch(), kit.nn.CrossEntropyLoss()
    if trained:
        kit.train(model, optimizer)
        model[4].eval()
    before = kit.state(model, optimizer)

    checks.checklist(model, loader, optimizer, loss)
    checks.overfit_one_batch(model, batch, loss, steps=5)
    checks.overfit_one_batch(model, batch, loss, optimizer=optimizer, steps=5)
    checks.trace(model, batch)
    checks.gradcheck(lambda x: (x * x).sum(), kit.tensor(numpy.ones(3, dtype="float32")))

    assert kit.state(model, optimizer) == before


def test_training_after_a_check_is_bitwise_identical(kit):
    results = []
    for checked in (False, True):
        kit = Kit(kit.name)
        model = kit.model()
        optimizer = kit.optimizer(model.parameters())
        kit.train(model, optimizer, 2)
        if checked:
            checks.checklist(model, kit.loader(), optimizer, kit.nn.CrossEntropyLoss())
            checks.overfit_one_batch(model, kit.batch(), kit.nn.CrossEntropyLoss(), optimizer=optimizer, steps=3)
        kit.train(model, optimizer, 4)
        results.append(kit.state(model, optimizer))

    if kit.torch:
        assert results[0] == results[1]
    else:  # names of layers count on in the process, and are part of the names of states
        assert [v for _, v in results[0]["weights"]] == [v for _, v in results[1]["weights"]]
        assert [v for _, v in results[0]["optimizer"]] == [v for _, v in results[1]["optimizer"]]


def test_an_exception_in_the_model_is_reported_and_state_restored(kit):
    model = kit.model(head=kit.nn.Linear(7, 10))
    optimizer = kit.optimizer(model.parameters())
    before = kit.state(model, optimizer)

    answer = checks.checklist(model, kit.loader(), optimizer, kit.nn.CrossEntropyLoss())

    assert answer.row("forward and backward").verdict == "fail"
    assert kit.state(model, optimizer) == before


def faulty(kit, fault):
    """`(row, verdict, checklist arguments)` of a planted fault."""
    nn, loss = kit.nn, kit.nn.CrossEntropyLoss()
    model, loader = kit.model(), kit.loader()
    optimizer = kit.optimizer(model.parameters())
    if fault == "stale optimizer":
        optimizer = kit.optimizer(kit.model().parameters())
        return "optimizer holds the model's parameters", "fail", (model, loader, optimizer, loss)
    if fault == "forgotten layer":
        optimizer = kit.optimizer(list(model.parameters())[:-2])
        return "optimizer holds the model's parameters", "fail", (model, loader, optimizer, loss)
    if fault == "softmax":
        model = kit.model(softmax=nn.Softmax(-1))
        return "output for cross entropy", "fail", (model, loader, kit.optimizer(model.parameters()), loss)
    if fault == "raw pixels":
        return "batch[0]", "warn", (model, kit.loader(IMAGES * 255), optimizer, loss)
    if fault == "nan in the data":
        images = IMAGES.copy()
        images[:, 0, 3, 3] = numpy.nan
        return "batch[0]", "fail", (model, kit.loader(images), optimizer, loss)
    if fault == "labels from 1":
        labels = LABELS + 1
        return "labels", "fail", (model, kit.loader(IMAGES, labels, False), optimizer, lambda s, t: loss(s, t - 1))
    if fault == "sorted":
        order = numpy.argsort(LABELS, kind="stable")
        return "labels", "warn", (model, kit.loader(IMAGES[order], LABELS[order], False), optimizer, loss)
    if fault == "cut graph":
        return "loss has a graph", "fail", (model, loader, optimizer, lambda s, t: loss(s.detach(), t))
    if fault == "rate 0":
        optimizer = kit.optimizer(model.parameters(), 0.0)
        return "one step changes the parameters", "warn", (model, loader, optimizer, loss)
    if fault == "loss not reduced":
        return "loss", "fail", (model, loader, optimizer, nn.CrossEntropyLoss(reduction="none"))
    raise KeyError(fault)


@pytest.mark.parametrize(
    "fault",
    [
        "stale optimizer", "forgotten layer", "softmax", "raw pixels", "nan in the data", "labels from 1", "sorted",
        "cut graph", "rate 0", "loss not reduced",
    ],
)  # fmt: skip
def test_checklist_reports_the_fault(kit, fault):
    row, verdict, arguments = faulty(kit, fault)

    answer = checks.checklist(*arguments)

    assert answer.row(row).verdict == verdict, str(answer)


def test_checklist_reports_samples_that_influence_each_other(kit):
    class Mixed(kit.nn.Module if kit.torch else kit.nn.Layer):
        def __init__(self):
            super().__init__()
            self.head = kit.nn.Linear(64, 10)

        def forward(self, x):
            flat = x.reshape([x.shape[0], 64])
            return self.head(flat - flat.mean(0))

    model = Mixed()

    answer = checks.checklist(model, kit.loader(), kit.optimizer(model.parameters()), kit.nn.CrossEntropyLoss())

    assert answer.row("samples do not influence each other").verdict == "warn", str(answer)


def test_overfit_one_batch_fails_for_a_model_that_cannot_learn(kit):
    good = checks.overfit_one_batch(kit.model(), kit.batch(), kit.nn.CrossEntropyLoss(), steps=120)
    stuck = kit.model()
    for parameter in stuck.parameters():
        if kit.torch:
            parameter.requires_grad_(False)
        else:
            parameter.stop_gradient = True
    last = list(stuck.parameters())[-1]
    if kit.torch:
        last.requires_grad_(True)
    else:
        last.stop_gradient = False
    bad = checks.overfit_one_batch(stuck, kit.batch(), kit.nn.CrossEntropyLoss(), steps=40)

    assert good.reached and good.accuracy == 1.0 and good.losses[-1] < 0.2 * good.losses[0], str(good)
    assert bad.verdict == "fail" and not bad.reached, str(bad)


def test_gradcheck_reports_a_wrong_gradient(kit):
    wrong = wrong_cube(kit)
    values = kit.tensor(numpy.linspace(0.5, 2, 6).astype("float32"))

    assert checks.gradcheck(lambda x: x**3, values).ok
    assert checks.gradcheck(lambda x, n: (x * x).sum() * 2 + n, (values, 3)).ok
    answer = checks.gradcheck(wrong, values)
    assert not answer.ok and answer.errors[0][3] == pytest.approx(1 / 3, abs=1e-3)


def wrong_cube(kit):
    base = kit.module.autograd.Function if kit.torch else kit.module.autograd.PyLayer

    class Cube(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors if kit.torch else ctx.saved_tensor()
            return gradient * 2 * x**2

    return Cube.apply


def test_trace_names_the_first_nonfinite_layer(kit):
    class Root(kit.nn.Module if kit.torch else kit.nn.Layer):
        def forward(self, x):
            return (x - 1.0).sqrt()

    healthy = checks.trace(kit.model(), kit.batch())
    broken = checks.trace(kit.model(relu=Root()), kit.batch()[0])

    assert healthy.ok and [layer.type.lower() for layer in healthy.layers][:3] == ["conv2d", "batchnorm2d", "relu"]
    assert healthy.layers[0].shape == (32, 8, 6, 6) and healthy.layers[2].low == 0
    assert not broken.ok and broken.summary.startswith("2 is the first") and broken.layers[2].bad > 0


def test_results_print_as_text_and_markdown(kit):
    answer = checks.checklist(kit.model(), iter(kit.loader()), None, kit.nn.CrossEntropyLoss())

    assert str(answer).splitlines()[1].split() == ["check", "expected", "observed", "verdict"]
    assert answer.markdown().count("\n|") == len(answer.rows) + 2
    assert answer.row("loader").verdict == "note"


def test_a_dictionary_batch_is_passed_as_keyword_arguments(kit):
    class Named(kit.nn.Module if kit.torch else kit.nn.Layer):
        def __init__(self):
            super().__init__()
            self.body = kit.model()

        def forward(self, pixels, labels):
            scores = self.body(pixels)
            return {"loss": kit.nn.functional.cross_entropy(scores, labels), "logits": scores}

    model, (images, labels) = Named(), kit.batch()

    answer = checks.checklist(model, [{"pixels": images, "labels": labels}], kit.optimizer(model.parameters()))

    assert answer.ok and answer.row("one step changes the parameters").verdict == "ok", str(answer)


def test_objects_of_no_framework_raise_type_error():
    with pytest.raises(TypeError, match="PyTorch or PaddlePaddle"):
        checks.checklist(object(), [1])


@pytest.mark.process
def test_importing_the_checks_imports_no_framework():
    import subprocess

    code = "import labbook, sys; labbook.checks.trace; print({'torch', 'paddle', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


RECORDED = {
    "torch": """
import torch, labbook
from digits_data import load_digits
images, labels = load_digits(return_X_y=True)
data = torch.utils.data.TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
loader = torch.utils.data.DataLoader(data, batch_size=32)
model = torch.nn.Sequential(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = torch.nn.CrossEntropyLoss()
print(labbook.checks.checklist(model, loader, optimizer, loss))
labbook.checks.overfit_one_batch(model, next(iter(loader)), loss, steps=30)
for images, labels in list(loader)[:5]:
    optimizer.zero_grad()
    loss(model(images), labels).backward()
    optimizer.step()
""",
    "paddle": """
import paddle, labbook
from digits_data import load_digits
images, labels = load_digits(return_X_y=True)
data = paddle.io.TensorDataset([paddle.to_tensor((images / 16).astype("float32")), paddle.to_tensor(labels)])
loader = paddle.io.DataLoader(data, batch_size=32)
model = paddle.nn.Sequential(paddle.nn.Linear(64, 10))
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
loss = paddle.nn.CrossEntropyLoss()
print(labbook.checks.checklist(model, loader, optimizer, loss))
labbook.checks.overfit_one_batch(model, next(iter(loader)), loss, steps=30)
for at, (images, labels) in enumerate(loader):
    if at == 5:
        break
    loss(model(images), labels).backward()
    optimizer.step()
    optimizer.clear_grad()
""",
}


@pytest.mark.parametrize("framework", TORCH_FIRST)
def test_results_are_in_the_entry_and_not_in_the_curves(book, framework):
    (book.folder / "train.py").write_text(RECORDED[framework])
    shutil.copy(DIGITS, book.folder)

    done = book.record(sys.executable, "train.py", framework=framework)

    assert "Checklist before training" in done.stdout
    entry, run = book.entry(), book.run()
    assert "## Requested checks" in entry and "Checklist before training" in entry and "Overfit one batch" in entry
    assert "train.py:1" in entry
    assert run["metrics"]["loss"]["steps"] == 5 and "loss.opt1" not in run["metrics"]
