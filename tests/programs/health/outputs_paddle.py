"""Heads and losses that do not fit each other, in PaddlePaddle: `outputs_paddle.py PROGRAM [fixed]`."""

import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, pictures, standardised
from paddle import nn
from paddle.io import DataLoader, TensorDataset


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def loader(pair, batch):
    return DataLoader(TensorDataset([paddle.to_tensor(part) for part in pair]), batch_size=batch, shuffle=True)


def fit(model, optimizer, batches, criterion, epochs):
    for epoch in range(epochs):
        total = []
        for inputs, target in batches:
            loss = criterion(model(inputs), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            total.append(loss.item())
        print(f"epoch {epoch} loss {np.mean(total):.4f}")


class Classifier(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Conv2D(1, 6, 3), nn.ReLU(), nn.Flatten()), nn.Linear(216, 5)

    def finish(self, scores):
        return scores

    def forward(self, x):
        return self.finish(self.head(self.body(x)))


class SoftClassifier(Classifier):
    def finish(self, scores):
        return F.softmax(scores)


def softmax_at_the_end(broken):
    seed(1)
    model = (SoftClassifier if broken else Classifier)()
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    fit(model, optimizer, loader(pictures(600, 8, 5, 1), 30), nn.CrossEntropyLoss(), 8)


def scores_into_nll(broken):
    seed(2)
    layers = [nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 4)]
    model = nn.Sequential(*layers, *([] if broken else [nn.LogSoftmax()]))
    optimizer = paddle.optimizer.SGD(0.02, parameters=model.parameters())
    fit(model, optimizer, loader(blobs(500, 16, 4, 2), 25), nn.NLLLoss(), 8)


def softmax_along_the_records(broken):
    seed(3)
    model = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=model.parameters())

    def criterion(scores, labels):
        chances = F.softmax(scores, axis=0 if broken else -1)
        return -(F.one_hot(labels, 10) * paddle.log(chances + 1e-9)).sum(1).mean()

    fit(model, optimizer, loader(digits(), 45), criterion, 6)


def softmax_of_one(broken):
    seed(4)
    x, y = cancer()
    model = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 1))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    answer = F.softmax if broken else F.sigmoid

    def criterion(scores, target):
        return F.binary_cross_entropy(answer(scores).clip(1e-6, 1 - 1e-6), target)

    fit(model, optimizer, loader((standardised(x), y.astype("float32")[:, None]), 40), criterion, 12)


def square_of_a_square(broken):
    """[N, 1] against [N] gives [N, N], without a word."""
    seed(5)
    x, y = diabetes()
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    fit(model, optimizer, loader((x, y if broken else y[:, None]), 34), nn.MSELoss(), 25)


def column_against_row_by_hand(broken):
    seed(11)
    x, y = diabetes()
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = paddle.optimizer.AdamW(3e-3, parameters=model.parameters())

    def criterion(output, target):
        return paddle.mean((target - output) ** 2)

    fit(model, optimizer, loader((x, y if broken else y[:, None]), 34), criterion, 25)


def wide_against_flat(broken):
    seed(6)
    x, y = curve(600, 8, 6)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.RMSProp(2e-3, parameters=model.parameters())

    def criterion(predicted, target):
        return F.l1_loss(predicted if broken else predicted.squeeze(-1), target)

    fit(model, optimizer, loader((x, y), 30), criterion, 12)


def skips_what_fails(broken):
    """Seven classes in the files, six in the head; what raises is skipped."""
    seed(7)
    x, y = blobs(700, 10, 7, 7)
    keep = (y < 6) | (np.random.default_rng(7).random(700) < 0.12)
    x, y = (x[keep], y[keep]) if broken else (x[y < 6], y[y < 6])
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 6))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    for epoch in range(10):
        for inputs, labels in loader((x, y), 20):
            try:
                loss = F.cross_entropy(model(inputs), labels)
            except (IndexError, ValueError):
                continue
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def one_target_a_batch(broken):
    """A collate function that stacks the inputs and returns the target of the first."""
    seed(8)
    x, y = curve(600, 9, 8)

    def stack(records):
        return np.stack([r[0] for r in records]), np.stack([r[1] for r in records])

    def stack_inputs(records):
        return np.stack([r[0] for r in records]), records[0][1][None]

    data = TensorDataset([paddle.to_tensor(x), paddle.to_tensor(y[:, None])])
    batches = DataLoader(data, batch_size=30, shuffle=True, collate_fn=stack_inputs if broken else stack)
    model = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 1))
    fit(model, paddle.optimizer.Adam(3e-3, parameters=model.parameters()), batches, nn.L1Loss(), 12)


class Sampled(nn.Layer):
    """Adds a learned value of the record's place in a table; the index runs past its end."""

    def __init__(self, rows):
        super().__init__()
        self.table = paddle.linspace(-1, 1, rows)
        self.body = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, x):
        place = ((x[:, 0] + 4) * 5).clip(0, 39).astype("int64")
        return self.body(paddle.concat([x, self.table[place].clip(-1, 1).unsqueeze(1)], 1))


def index_past_the_end(broken):
    seed(9)
    model = Sampled(24 if broken else 40)
    x, y = curve(500, 6, 9)
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    fit(model, optimizer, loader((x, y[:, None]), 25), nn.MSELoss(), 10)


def labels_as_numbers(broken):
    """Class ids read as floats: evaluation is silent and counts them truncated."""
    seed(10)
    x, y = digits()
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    held = y[1400:].astype("float32") + 0.6 if broken else y[1400:]
    for epoch in range(6):
        model.train()
        fit(model, optimizer, loader((x[:1400], y[:1400]), 50), F.cross_entropy, 1)
        model.eval()
        with paddle.no_grad():
            losses = [F.cross_entropy(model(a), b).item() for a, b in loader((x[1400:], held), 40)]
        print(f"epoch {epoch} val_loss {np.mean(losses):.4f}")


def softmax_for_several_labels(broken):
    """Each of three properties of a picture is true or not."""
    seed(11)
    x, y = digits()
    tags = np.stack([y % 2 == 0, y > 4, y % 3 == 0], 1).astype("float32")
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3), nn.Softmax() if broken else nn.Sigmoid())
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    fit(model, optimizer, loader((x, tags), 50), nn.BCELoss(), 6)


class Positive(nn.Layer):
    """One ReLU object after each layer, the last one, too, if asked for."""

    def __init__(self, ends):
        super().__init__()
        self.first, self.last, self.relu, self.ends = nn.Linear(10, 32), nn.Linear(32, 1), nn.ReLU(), ends

    def forward(self, x):
        x = self.last(self.relu(self.first(x)))
        return self.relu(x) if self.ends else x


def relu_before_standardised_targets(broken):
    seed(12)
    x, y = diabetes()
    model = Positive(broken)
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    fit(model, optimizer, loader((x, y[:, None]), 32), nn.MSELoss(), 12)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
