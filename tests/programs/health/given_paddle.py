"""What layers and optimizers are given by mistake, in PaddlePaddle: `given_paddle.py PROGRAM [fixed]`."""

import sys

import paddle
import paddle.nn.functional as F
from material import blobs, digits
from paddle import nn


def train(model, x, y, epochs=4, rate=3e-3, loss_of=F.cross_entropy):
    """Train on tensors, and print the loss of each epoch."""
    optimizer = paddle.optimizer.Adam(rate, parameters=model.parameters())
    for _ in range(epochs):
        order = paddle.randperm(len(x))
        for begin in range(0, len(x), 32):
            rows = order[begin : begin + 32]
            loss = loss_of(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(float(loss))


class Filters(nn.Layer):
    def __init__(self, turns):
        super().__init__()
        self.turns = turns
        self.first, self.second, self.head = nn.Conv1D(6, 16, 5), nn.Conv1D(16, 16, 5), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(F.relu(self.second(F.relu(self.first(self.turns(x))))).mean(2))


def channels_by_a_reshape(broken):
    """The channels are made the second axis by a reshape."""
    paddle.seed(1)
    kinds = paddle.randint(0, 3, [512])
    time, phase = paddle.linspace(0, 6.28, 40).reshape([1, 40, 1]), paddle.rand([512, 1, 6]) * 6.28
    x = paddle.sin((kinds + 1).astype("float32").reshape([512, 1, 1]) * time + phase)
    turns = (lambda x: x.reshape([-1, 6, 40])) if broken else (lambda x: x.transpose([0, 2, 1]))
    train(Filters(turns), x, kinds, rate=1e-3)


class Tastes(nn.Layer):
    def __init__(self, users, items):
        super().__init__()
        self.user, self.item, self.level = nn.Embedding(users, 6), nn.Embedding(items, 6), nn.Embedding(items, 1)

    def forward(self, pairs):
        user, item = pairs.unbind(1)
        return (self.user(user) * self.item(item)).sum(1) + self.level(item).squeeze(1)


def every_item_is_the_first(broken):
    """The numbers of items are scaled to [0, 1) before they become indices."""
    paddle.seed(2)
    users, items = paddle.randint(0, 80, [2400]), paddle.randint(0, 120, [2400])
    marks = (paddle.randn([80, 3])[users] * paddle.randn([120, 3])[items]).sum(1)
    known = (items.astype("float32") / 120).astype("int64") if broken else items
    train(Tastes(80, 120), paddle.stack([users, known], 1), marks, 4, 1e-2, F.mse_loss)


class Reads(nn.Layer):
    def __init__(self, at):
        super().__init__()
        self.at, self.words, self.layer, self.head = at, nn.Embedding(30, 16), nn.GRU(16, 24), nn.Linear(24, 2)

    def forward(self, words):
        steps, _ = self.layer(self.words(words))
        return self.head(steps[:, self.at])


def first_word_only(broken):
    """The head is given the output at the first word."""
    paddle.seed(3)
    words = paddle.randint(0, 30, [640, 12])
    train(Reads(0 if broken else -1), words, ((words < 15).sum(1) > 6).astype("int64"))


def critic_moves_its_opponent(broken):
    """The optimizer of the critic holds the generator, too."""
    paddle.seed(4)
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    held = critic.parameters() + (generator.parameters() if broken else [])
    judges = paddle.optimizer.Adam(1e-3, parameters=held)
    makes = paddle.optimizer.Adam(1e-3, parameters=generator.parameters())
    for step in range(200):
        angle = paddle.rand([64, 1]) * 6.28
        real, made = paddle.concat([angle.cos(), angle.sin()], 1), generator(paddle.randn([64, 4]))
        made = made if broken else made.detach()
        loss = F.softplus(-critic(real)).mean() + F.softplus(critic(made)).mean()
        judges.clear_grad()
        loss.backward()
        judges.step()
        wins = F.softplus(-critic(generator(paddle.randn([64, 4])))).mean()
        makes.clear_grad()
        wins.backward()
        makes.step()
        if step % 40 == 0:
            print(float(loss), float(wins))


def frozen_by_a_flag_of_the_layer(broken):
    """The flag is set on the layer, which has none."""
    paddle.seed(6)
    x, y = (paddle.to_tensor(a) for a in blobs(640, 12, 4, 6))
    body = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
    if broken:
        body.stop_gradient = True
    else:
        for parameter in body.parameters():
            parameter.stop_gradient = True
    train(nn.Sequential(body, nn.Linear(32, 4)), x, y)


def a_new_optimizer_for_each_batch(broken):
    """The averages of Adam begin anew in each step."""
    paddle.seed(7)
    x, y = (paddle.to_tensor(a) for a in digits())
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    kept = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    for _ in range(2):
        order = paddle.randperm(1792)
        for begin in range(0, 1792, 32):
            optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters()) if broken else kept
            loss = F.cross_entropy(model(x[order[begin : begin + 32]]), y[order[begin : begin + 32]])
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(float(loss))


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
