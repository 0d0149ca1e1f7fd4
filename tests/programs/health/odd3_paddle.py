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
        return self.first(words).sum(1) + 0.5 * pairs.sum(1, keepdim=True), rows


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
    """The model is never called: its method `forward` is, and it holds a parameter that nothing uses."""
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


if __name__ == "__main__":
    globals()[sys.argv[1]]()
