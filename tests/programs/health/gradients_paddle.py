"""Gradients and updates that go wrong, in PaddlePaddle: `gradients_paddle.py PROGRAM [fixed]`."""

import copy
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, pictures, sentences, standardised, waves
from paddle import nn
from paddle.io import DataLoader, TensorDataset


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def tensors(pair):
    return [paddle.to_tensor(part) for part in pair]


def loader(pair, batch):
    return DataLoader(TensorDataset(tensors(pair)), batch_size=batch, shuffle=True)


def never_clears(broken):
    seed(1)
    model = nn.Sequential(nn.Linear(18, 30), nn.ReLU(), nn.Linear(30, 6))
    optimizer = paddle.optimizer.Momentum(0.02, parameters=model.parameters())
    for epoch in range(10):
        for inputs, labels in loader(blobs(600, 18, 6, 1, spread=2.0), 24):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            if not broken:
                optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Learner:
    """Minimises, logs and clears as its subclasses think fit."""

    def __init__(self, model, rate):
        self.model = model
        self.optimizer = paddle.optimizer.Adam(rate, parameters=model.parameters())
        self.step = 0

    def finish(self):
        self.optimizer.clear_grad()

    def learn(self, inputs, target):
        loss = F.smooth_l1_loss(self.model(inputs), target)
        loss.backward()
        self.optimizer.step()
        self.finish()
        self.step += 1
        return loss.item()


class ClearsWhenLogging(Learner):
    def finish(self):
        if self.step % 50 == 0:
            self.optimizer.clear_grad()


def clears_when_it_logs(broken):
    seed(2)
    x, y = curve(500, 9, 2)
    learner = (ClearsWhenLogging if broken else Learner)(
        nn.Sequential(nn.Linear(9, 24), nn.Tanh(), nn.Linear(24, 1)), 3e-3
    )
    for epoch in range(12):
        losses = [learner.learn(*batch) for batch in loader((x, y[:, None]), 25)]
        print(f"epoch {epoch} loss {np.mean(losses):.4f}")


def clears_too_early(broken):
    seed(3)
    model = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    for epoch in range(6):
        for inputs, labels in loader(digits(), 60):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            if broken:
                optimizer.clear_grad()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Recommender(nn.Layer):
    """Words and a bias for each place, which the faulty one forgets to add."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(40, 12), nn.Embedding(8, 12)
        self.head = nn.Linear(12, 2)

    def embed(self, tokens):
        return self.words(tokens) + self.places(paddle.arange(8))

    def forward(self, tokens):
        return self.head(F.relu(self.embed(tokens)).mean(1))


class WithoutPlaces(Recommender):
    def embed(self, tokens):
        return self.words(tokens)


def forgets_places(broken):
    seed(4)
    model = (WithoutPlaces if broken else Recommender)()
    optimizer = paddle.optimizer.AdamW(5e-3, parameters=model.parameters())
    for epoch in range(8):
        for inputs, labels in loader(sentences(600, 8, 40, 4), 30):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Frozen(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(30, 24), nn.ReLU())
        self.head = nn.Linear(24, 2)

    def features(self, x):
        return self.body(x)

    def forward(self, x):
        return self.head(self.features(x))


class BodyWithoutGradient(Frozen):
    def features(self, x):
        with paddle.no_grad():
            return self.body(x)


def body_under_no_grad(broken):
    """A no_grad from an evaluation script was copied into the model."""
    seed(5)
    x, y = cancer()
    model = (BodyWithoutGradient if broken else Frozen)()
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    for epoch in range(12):
        for inputs, labels in loader((standardised(x), y), 36):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Network(nn.Layer):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(1, 8, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(288, classes)

    def forward(self, x):
        return self.head(self.body(x))


def replaced_head(broken):
    seed(6)
    model = Network(3)
    if not broken:
        model.head = nn.Linear(288, 6)
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    model.head = nn.Linear(288, 6) if broken else model.head
    for epoch in range(6):
        for inputs, labels in loader(pictures(600, 8, 6, 6), 30):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def trains_a_copy(broken):
    seed(7)
    first = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=first.parameters())
    model = copy.deepcopy(first) if broken else first
    for epoch in range(20):
        for inputs, target in loader(diabetes(), 32):
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def judge_forgotten(broken):
    """Both optimizers of a pair of adversaries hold the same network."""
    seed(12)
    maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    makes = paddle.optimizer.Adam(1e-3, beta1=0.5, parameters=maker.parameters())
    judges = paddle.optimizer.Adam(1e-3, beta1=0.5, parameters=(maker if broken else judge).parameters())
    ones, zeros = paddle.ones([64, 1]), paddle.zeros([64, 1])
    for step in range(200):
        angle = paddle.rand([64]) * 6.28
        real = paddle.stack([angle.cos(), angle.sin()], 1)
        fake = maker(paddle.randn([64, 4]))
        judged = F.binary_cross_entropy_with_logits(judge(real), ones)
        judged = judged + F.binary_cross_entropy_with_logits(judge(fake.detach()), zeros)
        judges.clear_grad()
        judged.backward()
        judges.step()
        made = F.binary_cross_entropy_with_logits(judge(fake), ones)
        makes.clear_grad()
        made.backward()
        makes.step()
        if step % 50 == 0:
            print(f"step {step} judge {judged.item():.4f} maker {made.item():.4f}")


class Forecaster(nn.Layer):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(1, 20), nn.Linear(20, 1)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def only_the_head(broken):
    seed(8)
    model = Forecaster()
    learned = model.head.parameters() if broken else model.parameters()
    optimizer = paddle.optimizer.Adam(5e-3, parameters=learned, grad_clip=nn.ClipGradByGlobalNorm(1.0))
    for epoch in range(8):
        for inputs, target in loader(waves(400, 14, 8), 32):
            loss = F.mse_loss(model(inputs), target)
            loss.backward()
            optimizer.step()
            model.clear_gradients()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def rate_divided_to_nothing(broken):
    """`epoch // epochs` is 0 until the end."""
    seed(9)
    model = nn.Sequential(nn.Linear(12, 24), nn.Sigmoid(), nn.Linear(24, 4))
    ramp = (lambda epoch: epoch // 10) if broken else (lambda epoch: 1 - epoch / 10)
    schedule = paddle.optimizer.lr.LambdaDecay(0.05, ramp)
    optimizer = paddle.optimizer.Momentum(schedule, parameters=model.parameters())
    for epoch in range(10):
        for inputs, labels in loader(blobs(500, 12, 4, 9), 25):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        schedule.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def backward_of_a_number(broken):
    """The loss is read and made a tensor again; nothing complains."""
    seed(10)
    model = nn.Sequential(nn.Linear(14, 20), nn.ReLU(), nn.Linear(20, 5))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    for epoch in range(10):
        for inputs, labels in loader(blobs(480, 14, 5, 10), 24):
            loss = F.cross_entropy(model(inputs), labels)
            if broken:
                loss = paddle.to_tensor(float(loss), stop_gradient=False)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def detached_before_backward(broken):
    seed(11)
    model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = paddle.optimizer.AdamW(3e-3, parameters=model.parameters())
    for epoch in range(12):
        for inputs, target in loader(curve(480, 8, 11), 24):
            predicted = model(inputs).squeeze(1)
            loss = F.l1_loss(predicted.detach() if broken else predicted, target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def all_under_no_grad(broken):
    """Model and loss stand under no_grad, as copied from the evaluation: backward says nothing."""
    seed(13)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())

    def loss_of(inputs, labels):
        return F.cross_entropy(model(inputs), labels)

    for epoch in range(6):
        for inputs, labels in loader(digits(), 50):
            if broken:
                with paddle.no_grad():
                    loss = loss_of(inputs, labels)
            else:
                loss = loss_of(inputs, labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def everything_frozen(broken):
    """All parameters were frozen to load weights and never thawed: backward says nothing."""
    seed(12)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    for parameter in model.parameters():
        parameter.stop_gradient = True
    if not broken:
        for parameter in model.parameters():
            parameter.stop_gradient = False
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    for epoch in range(6):
        for inputs, labels in loader(digits(), 50):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
