"""Healthy trainings as recommenders and published examples write them, in PaddlePaddle: `odd3_paddle.py PROGRAM`."""

import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

SLOTS, WORDS = 5, 120


def clicks(count, seed, padded=False):
    """`(words of each slot, whether it was clicked)`; with `padded` the last slot holds the padding word 0 only."""
    paddle.seed(seed)
    np.random.seed(seed)
    rng = np.random.default_rng(seed)
    words = rng.integers(1, WORDS, (count, SLOTS))
    if padded:
        words[:, -1] = 0
    clicked = (words[:, :1] % 2 == 0) ^ (rng.random((count, 1)) < 0.1)
    return words.astype("int64"), clicked.astype("float32")


def train(model, compute_loss, *arrays, epochs=4, rate=3e-3):
    """Trains with `compute_loss(*batch)`."""
    optimizer = paddle.optimizer.Adam(rate, parameters=model.parameters())
    for epoch in range(epochs):
        for part in np.random.permutation(len(arrays[0])).reshape(-1, 40):
            loss = compute_loss(*(paddle.to_tensor(array[part]) for array in arrays))
            optimizer.clear_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} cost: {loss.item():.4f}")


class Crossed(nn.Layer):
    """A factorisation machine; its offset is a leftover that `forward` does not use."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, 8)
        self.first = nn.Embedding(WORDS, 1)
        self.offset = self.create_parameter([1], is_bias=True)

    def forward(self, words):
        rows = self.table(words)
        pairs = rows.sum(1) ** 2 - (rows**2).sum(1)
        return self.first(words).sum(1) + 0.5 * pairs.sum(1, keepdim=True) + self.offset, rows


class Deep(nn.Layer):
    def __init__(self):
        super().__init__()
        self.crossed = Crossed()
        self.hidden, self.last = nn.Linear(SLOTS * 8, 32), nn.Linear(32, 1)
        self.shift = self.create_parameter([1], is_bias=True)

    def forward(self, words):
        shallow, rows = self.crossed.forward(words)
        return shallow + self.last(F.relu(self.hidden(rows.flatten(1)))) + self.shift

    def predict(self, words):
        return F.sigmoid(self.forward(words))


def forward_by_name():
    """The model is never called: its method `forward` is, and its parts and itself own parameters."""
    model = Deep()
    train(model, lambda x, y: F.log_loss(model.predict(x), y).mean(), *clicks(2000, 1))


class Slots(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, 8)

    def forward(self, words):
        rows = [self.table(words[:, slot]) for slot in range(SLOTS)]
        return (sum(rows) ** 2 - sum(row**2 for row in rows)).sum(1, keepdim=True)


def slot_of_padding():
    """One table serves all slots, and one slot holds the padding word only."""
    model = Slots()
    loss = F.binary_cross_entropy_with_logits
    train(model, lambda x, y: loss(model.forward(x), y), *clicks(2000, 2, padded=True), epochs=6)


def taught_by_a_network_of_before():
    """The teacher was trained in the same process, and runs in evaluation mode, with gradients enabled."""
    x, y = clicks(2000, 3)
    teacher = nn.Sequential(nn.Embedding(WORDS, 8), nn.Flatten(), nn.BatchNorm1D(SLOTS * 8), nn.Linear(SLOTS * 8, 1))
    train(teacher, lambda x, y: F.binary_cross_entropy_with_logits(teacher(x), y), x, y)
    teacher.eval()
    for parameter in teacher.parameters():
        parameter.stop_gradient = True
    student = nn.Sequential(nn.Embedding(WORDS, 4), nn.Flatten(), nn.Dropout(0.1), nn.Linear(SLOTS * 4, 1))
    train(student, lambda x, y: F.mse_loss(student(x), teacher(x)), x, y)


def density_that_narrows():
    """The likelihood falls below 0, and its gradients grow with it."""
    paddle.seed(4)
    x = paddle.rand([1000, 2])
    y = (x[:, :1] * 2 - x[:, 1:]) + paddle.randn([1000, 1]) * 0.02
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def negative_likelihood(x, y):
        middle, spread = model(x).split(2, axis=1)
        spread = spread.clip(-5, 3)
        return (spread + 0.5 * ((y - middle) / spread.exp()) ** 2).mean()

    train(model, negative_likelihood, x.numpy(), y.numpy(), epochs=12, rate=5e-3)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
