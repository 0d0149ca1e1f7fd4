"""Trainings that look fine from outside, in PaddlePaddle: `silent_paddle.py PROGRAM [fixed]`."""

import copy
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import digits, pictures
from paddle import nn


def target_with_a_gradient(broken):
    """The value of the next state is differentiated, too."""
    paddle.seed(1)
    rng = np.random.default_rng(1)
    online = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 3))
    fixed = copy.deepcopy(online)
    optimizer = paddle.optimizer.Adam(1e-3, parameters=online.parameters())
    for step in range(200):
        state, action = paddle.randn([32, 6]), paddle.to_tensor(rng.integers(0, 3, 32))
        after = state.roll(1, 1) * 0.9 + 0.1 * action.astype("float32").unsqueeze(1)
        reward, over = state[:, 0] * (action == 1).astype("float32"), (state[:, 1] > 1).astype("float32")
        following = (online(after) if broken else fixed(after).detach()).max(1)
        target = reward + 0.9 * following * (1 - over)
        chosen = (online(state) * F.one_hot(action, 3)).sum(1)
        loss = F.mse_loss(chosen, target)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 20 == 0:
            fixed.set_state_dict(online.state_dict())
            print(float(loss))


def clean_picture_beside_the_noisy(broken):
    """The denoiser is given the clean picture, from which the noise follows."""
    paddle.seed(2)
    clean = paddle.to_tensor(pictures(256, 12, 4, 1)[0])
    kept = paddle.cumprod(1 - paddle.linspace(1e-4, 0.06, 100), 0)
    model = nn.Sequential(nn.Conv2D(2, 24, 3, padding=1), nn.Silu(), nn.Conv2D(24, 1, 3, padding=1))
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=model.parameters())
    for _ in range(5):
        for begin in range(0, 256, 32):
            picture, noise = clean[begin : begin + 32], paddle.randn([32, 1, 12, 12])
            share = kept[paddle.randint(0, 100, [32])].reshape([32, 1, 1, 1])
            noisy = share.sqrt() * picture + (1 - share).sqrt() * noise
            beside = picture if broken else share.expand_as(noisy)
            loss = F.mse_loss(model(paddle.concat([noisy, beside], 1)), noise)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(float(loss))


class Reader(nn.Layer):
    def __init__(self, shows, counts):
        super().__init__()
        self.shows, self.counts = shows, counts
        self.words = nn.Embedding(20, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0)
        self.head = nn.Linear(32, 3)

    def forward(self, ids):
        hidden = self.layer(self.words(ids), self.shows(ids).unsqueeze([1, 2]))
        real = self.counts(ids).unsqueeze(-1).astype("float32")
        return self.head((hidden * real).sum(1) / real.sum(1))


def words(ids):
    return ids != 0


def padding(ids):
    return ids == 0


def mask_upside_down(broken):
    """True shows a position, and is given for the padding."""
    read(lambda: Reader(padding if broken else words, words))


def mean_of_the_padding(broken):
    """The mean over time is of the padding."""
    read(lambda: Reader(words, padding if broken else words))


def read(make):
    paddle.seed(3)
    rng = np.random.default_rng(4)
    ids = np.zeros((480, 13), "int64")
    for row in ids:
        length = rng.integers(3, 13)
        row[:length] = rng.integers(1, 20, length)
    model = make()
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    for _ in range(4):
        for rows in rng.permutation(480).reshape(-1, 24):
            loss = F.cross_entropy(model(paddle.to_tensor(ids[rows])), paddle.to_tensor(ids[rows, 0] % 3))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(float(loss))


class Dropping(nn.Layer):
    def __init__(self, always):
        super().__init__()
        self.always, self.first, self.last = always, nn.Linear(64, 96), nn.Linear(96, 10)

    def forward(self, x):
        return self.last(F.dropout(F.relu(self.first(x)), 0.4, training=self.always or self.training))


def drops_in_two_batches(broken):
    """Validation is only two batches long, and dropout stays on."""
    paddle.seed(4)
    x, y = digits()
    model = Dropping(broken)
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    for epoch in range(4):
        model.train()
        for rows in np.random.default_rng(epoch).permutation(1600).reshape(-1, 50):
            loss = F.cross_entropy(model(paddle.to_tensor(x[rows])), paddle.to_tensor(y[rows]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        model.eval()
        with paddle.no_grad():
            right = [model(paddle.to_tensor(x[at : at + 90])).argmax(1).numpy() == y[at : at + 90] for at in (1600, 1690)]
        print(f"loss {float(loss):.4f} accuracy {np.mean(right):.3f}")


class Finder(nn.Layer):
    def __init__(self, axis):
        super().__init__()
        self.axis, self.words = axis, nn.Embedding(20, 24)
        self.asks, self.has, self.head = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 2)

    def forward(self, words):
        found = self.words(words)
        scores = paddle.matmul(self.asks(found), self.has(found), transpose_y=True) / 24**0.5
        return self.head((found + paddle.matmul(F.softmax(scores, axis=self.axis), found)).mean(1))


def attention_over_the_batch(broken):
    """The softmax of the attention mixes the samples."""
    paddle.seed(5)
    words = paddle.randint(1, 20, [480, 10])
    labels = (words == 7).any(1).astype("int64")
    model = Finder(0 if broken else -1)
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    for _ in range(4):
        order = paddle.randperm(480)
        for begin in range(0, 480, 32):
            rows = order[begin : begin + 32]
            loss = F.cross_entropy(model(words[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(float(loss))


def colours_side_by_side(broken):
    """Pictures of height, width and colours are reshaped where their axes have to be moved."""
    paddle.seed(7)
    shapes, kinds = pictures(240, 16, 4, 7, noise=0.3)
    tint = np.random.default_rng(7).normal(0, 1, (240, 1, 1, 3)).astype("float32")
    colours = shapes.transpose(0, 2, 3, 1) * 0.5 + tint
    x = paddle.to_tensor(colours.reshape(240, 3, 16, 16) if broken else colours.transpose(0, 3, 1, 2))
    kinds = paddle.to_tensor(kinds)
    model = nn.Sequential(nn.Conv2D(3, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12 * 14 * 14, 4))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    for _ in range(4):
        order = paddle.randperm(240)
        for begin in range(0, 240, 24):
            rows = order[begin : begin + 24]
            loss = F.cross_entropy(model(x[rows]), kinds[rows])
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(float(loss))


class Tagger(nn.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.reads, self.head = nn.Embedding(20, 24, padding_idx=0), nn.GRU(24, 24), nn.Linear(24, 5)

    def forward(self, words):
        return self.head(self.reads(self.words(words))[0])


def tags_of_padding(broken):
    """The tags are laid out in one row, and those of the padding count."""
    paddle.seed(6)
    rng = np.random.default_rng(6)
    words = rng.integers(1, 20, (480, 12)) * (np.arange(12) < rng.integers(3, 12, (480, 1)))
    tags = np.where(words > 0, words % 4 + 1, 0)
    model = Tagger()
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    loss_of = nn.CrossEntropyLoss() if broken else nn.CrossEntropyLoss(ignore_index=0)
    for _ in range(4):
        order = rng.permutation(480)
        for begin in range(0, 480, 32):
            rows = order[begin : begin + 32]
            scores = model(paddle.to_tensor(words[rows]))
            loss = loss_of(scores.reshape([-1, 5]), paddle.to_tensor(tags[rows]).reshape([-1]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(float(loss))


def improve(ratio_of):
    """A policy with a clipped ratio, on a bandit whose best arm depends on the state."""
    paddle.seed(3)
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=policy.parameters())
    best = paddle.randn([6, 4])
    for _ in range(20):
        states = paddle.randn([128, 6])
        with paddle.no_grad():
            logs = F.log_softmax(policy(states))
            actions = paddle.multinomial(logs.exp(), 1)
            stored = logs.take_along_axis(actions, 1).squeeze(1)
        reward = ((states @ best).argmax(1) == actions.squeeze(1)).astype("float32")
        gain = (reward - reward.mean()) / (reward.std() + 1e-6)
        for _ in range(4):
            for rows in paddle.randperm(128).split(4):
                new = F.log_softmax(policy(states[rows])).take_along_axis(actions[rows], 1).squeeze(1)
                ratio = ratio_of(new, stored[rows])
                loss = -paddle.minimum(ratio * gain[rows], ratio.clip(0.8, 1.2) * gain[rows]).mean()
                optimizer.clear_grad()
                loss.backward()
                optimizer.step()
        print(f"reward {float(reward.mean()):.3f}")


def old_policy_of_now(broken):
    """The old probabilities are those of the current policy."""
    improve(lambda new, stored: paddle.exp(new - (new.detach() if broken else stored)))


def ratio_upside_down(broken):
    """The ratio is that of the old policy to the new one."""
    improve(lambda new, stored: (stored - new if broken else new - stored).exp())


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
