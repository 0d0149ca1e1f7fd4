"""Wrong pairs and accumulated gradients, in PaddlePaddle: `targets_paddle.py PROGRAM [fixed]`."""

import sys

import paddle
import paddle.nn.functional as F
from material import blobs, digits
from paddle import nn


def batches(size=16, epochs=5):
    x, y = blobs(640, 12, 4, 3)
    for _ in range(epochs):
        order = paddle.randperm(len(x)).numpy()
        for rows in order.reshape(-1, size):
            yield paddle.to_tensor(x[rows]), paddle.to_tensor(y[rows])


def clears_for_each_part(broken):
    """Four micro-batches a step, of which three are thrown away."""
    paddle.seed(21)
    model = nn.Sequential(nn.Linear(12, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    for at, (inputs, labels) in enumerate(batches()):
        if broken or at % 4 == 0:
            optimizer.clear_grad()
        loss = F.cross_entropy(model(inputs), labels) / 4
        loss.backward()
        if at % 4 == 3:
            optimizer.step()
    print(float(loss))


def positives_by_negatives(broken):
    """`pos_weight` is the quotient of positives and negatives, not the other way round."""
    paddle.seed(25)
    x, classes = blobs(2400, 12, 16, 5)
    x, y = paddle.to_tensor(x), paddle.to_tensor((classes == 0).astype("float32"))
    positive, negative = float(y.sum()), float((1 - y).sum())
    share = paddle.to_tensor([positive / negative if broken else negative / positive])
    model = nn.Sequential(nn.Linear(12, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    for _ in range(4):
        for rows in paddle.randperm(2400).reshape([-1, 32]):
            loss = F.binary_cross_entropy_with_logits(model(x[rows])[:, 0], y[rows], pos_weight=share)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
    print(float(loss))


def one_view_twice(broken):
    """The second view is the first one."""
    paddle.seed(23)
    x = paddle.to_tensor(digits()[0])
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    for epoch in range(4):
        for begin in range(0, 1792, 64):
            clean = x[begin : begin + 64]
            first, second = (clean + 0.15 * paddle.randn(clean.shape) for _ in range(2))
            one, other = (F.normalize(model(view)) for view in (first, first if broken else second))
            loss = F.cross_entropy(one @ other.t() / 0.1, paddle.arange(64))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {float(loss):.4f}")


def teacher_with_dropout(broken):
    """The teacher stays in training mode after its own training."""
    paddle.seed(31)
    teacher = nn.Sequential(nn.Linear(12, 64), nn.BatchNorm1D(64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 4))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=teacher.parameters())
    for inputs, labels in batches(size=32):
        F.cross_entropy(teacher(inputs), labels).backward()
        optimizer.step()
        optimizer.clear_grad()
    if not broken:
        teacher.eval()
    student = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=student.parameters())
    for inputs, labels in batches(epochs=8):
        with paddle.no_grad():
            soft = F.softmax(teacher(inputs) / 2)
        logits = student(inputs)
        loss = F.kl_div(F.log_softmax(logits / 2), soft, reduction="batchmean") + F.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    print(float(loss))


class Residual(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def one_block_four_times(broken):
    """All blocks of the stack are the same object."""
    paddle.seed(32)
    blocks = [Residual(32)] * 4 if broken else [Residual(32) for _ in range(4)]
    model = nn.Sequential(nn.Linear(12, 32), nn.Sequential(*blocks), nn.Linear(32, 4))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    for inputs, labels in batches():
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    print(float(loss))


def schedule_of_no_optimizer(broken):
    """The optimizer is given the number, not the scheduler."""
    paddle.seed(35)
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 4))
    warm = paddle.optimizer.lr.CosineAnnealingDecay(3e-3, 200)
    schedule = paddle.optimizer.lr.LinearWarmup(warm, 20, 0.0, 3e-3)
    optimizer = paddle.optimizer.Adam(3e-3 if broken else schedule, parameters=model.parameters())
    for inputs, labels in batches():
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.clear_grad()
    print(float(loss), schedule.get_lr())


if __name__ == "__main__":
    globals()[sys.argv[1]]("fixed" not in sys.argv)
