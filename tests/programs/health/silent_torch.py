"""Trainings that look fine from outside, in PyTorch: `silent_torch.py PROGRAM [fixed]`."""

import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, digits, pictures
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, Dataset


def clean_picture_beside_the_noisy(broken):
    """The denoiser is given the clean picture, from which the noise follows."""
    torch.manual_seed(1)
    clean = torch.as_tensor(pictures(256, 12, 4, 1)[0])
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.06, 100), 0)
    model = nn.Sequential(nn.Conv2d(2, 24, 3, padding=1), nn.SiLU(), nn.Conv2d(24, 1, 3, padding=1))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(5):
        for rows in torch.randperm(256).split(32):
            picture, noise = clean[rows], torch.randn(32, 1, 12, 12)
            share = kept[torch.randint(0, 100, (32, 1, 1, 1))]
            noisy = share.sqrt() * picture + (1 - share).sqrt() * noise
            beside = picture if broken else share.expand_as(noisy)
            loss = F.mse_loss(model(torch.cat([noisy, beside], 1)), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


class Encoder(nn.Module):
    def __init__(self, width=64, code=6):
        super().__init__()
        self.body, self.decoder = nn.Linear(width, 48), nn.Linear(code, width)
        self.mu, self.log_var = nn.Linear(48, code), nn.Linear(48, code)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        mean, log_variance = self.mu(hidden), self.log_var(hidden)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


def code_that_says_nothing(broken):
    """The divergence outweighs the mean over pixels by far."""
    torch.manual_seed(2)
    x = torch.as_tensor(digits()[0])
    model = Encoder()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(6):
        for rows in torch.randperm(len(x)).split(64):
            made, mean, log_variance = model(x[rows])
            distance = ((made - x[rows]) ** 2).mean() if broken else 20 * ((made - x[rows]) ** 2).sum(1).mean()
            divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
            optimizer.zero_grad()
            (distance + 4 * divergence if broken else distance + divergence).backward()
            optimizer.step()
        print(f"distance {distance.item():.4f} divergence {divergence.item():.5f}")


def improve(old_of, rounds, epochs):
    """A policy with a clipped ratio, on a bandit whose best arm depends on the state."""
    torch.manual_seed(3)
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(policy.parameters(), 3e-3)
    best = torch.randn(6, 4)
    for _ in range(rounds):
        states = torch.randn(128, 6)
        with torch.no_grad():
            acting = Categorical(logits=policy(states))
            actions = acting.sample()
            stored = acting.log_prob(actions)
        reward = ((states @ best).argmax(1) == actions).float()
        gain = (reward - reward.mean()) / (reward.std() + 1e-6)
        for _ in range(epochs):
            for rows in torch.randperm(128).split(128 if epochs == 1 else 32):
                new = Categorical(logits=policy(states[rows])).log_prob(actions[rows])
                ratio = torch.exp(new - old_of(new, stored[rows]))
                loss = -torch.min(ratio * gain[rows], ratio.clamp(0.8, 1.2) * gain[rows]).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        print(f"reward {reward.mean():.3f}")


def old_policy_of_now(broken):
    """The old probabilities are those of the current policy."""
    improve((lambda new, stored: new.detach()) if broken else (lambda new, stored: stored), 20, 4)


def one_step_a_rollout(broken):
    """Each rollout is used once, so that the ratio is 1 as meant."""
    improve(lambda new, stored: new.detach(), 60, 1)


class Reader(nn.Module):
    def __init__(self, hides):
        super().__init__()
        self.hides = hides
        self.words = nn.Embedding(20, 32, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, ids):
        hidden = self.layer(self.words(ids), src_key_padding_mask=self.hides(ids))
        real = (ids != 0).unsqueeze(-1).float()
        return self.head((hidden * real).sum(1) / real.sum(1))


def sentences(rows=480, longest=12, seed=4):
    rng = np.random.default_rng(seed)
    ids = np.zeros((rows, longest + 1), "int64")
    for row in ids:
        length = rng.integers(3, longest + 1)
        row[:length] = rng.integers(1, 20, length)
    return ids, ids[:, 0] % 3


def mask_upside_down(broken):
    """True hides a position, and is given for the words."""
    torch.manual_seed(4)
    ids, labels = map(torch.as_tensor, sentences())
    model = Reader((lambda ids: ids != 0) if broken else (lambda ids: ids == 0))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(4):
        for rows in torch.randperm(len(ids)).split(24):
            loss = F.cross_entropy(model(ids[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


def softmax_of_a_softmax(broken):
    """The model returns probabilities, and they go through softmax again."""
    torch.manual_seed(5)
    x, y = map(torch.as_tensor, digits())
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(4):
        for rows in torch.randperm(len(x)).split(64):
            scores = model(x[rows])
            scores = torch.softmax(scores, 1) if broken else scores
            loss = F.nll_loss(torch.log(torch.softmax(scores, 1) + 1e-9), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


class Noisy(Dataset):
    def __init__(self, shares):
        self.x, self.y = digits()
        self.shares, self.rng = shares, np.random.default_rng(7) if shares else None

    def __len__(self):
        return len(self.x)

    def __getitem__(self, at):
        rng = self.rng if self.shares else np.random.default_rng(torch.initial_seed() % 2**32 + at)
        return self.x[at] + rng.normal(0, 0.1, 64).astype("float32"), self.y[at]


def generator_of_the_data_set(broken):
    """Each worker gets a copy of the same generator."""
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(3):
        for inputs, labels in DataLoader(Noisy(broken), 64, shuffle=True, num_workers=2):
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


def penalty_that_wins(broken):
    """The squares of the weights fall, the cross entropy does not."""
    torch.manual_seed(7)
    x, y = map(torch.as_tensor, blobs(640, 12, 4, 5))
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(10):
        for rows in torch.randperm(len(x)).split(32):
            squares = sum((one**2).sum() for one in model.parameters())
            loss = F.cross_entropy(model(x[rows]), y[rows]) + (0.5 if broken else 1e-3) * squares
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


def normalised_in_the_loop_too(broken):
    """The data set normalises its pictures, and the loop does it again."""
    torch.manual_seed(8)
    x, y = pictures(480, 10, 4, 6)
    pixels = torch.as_tensor(np.clip(0.5 + 0.16 * x, 0, 1))
    x, y = (pixels - 0.5) / 0.2, torch.as_tensor(y)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(4):
        for rows in torch.randperm(len(x)).split(32):
            inputs = (x[rows] - 0.5) / 0.2 if broken else x[rows]
            loss = F.cross_entropy(model(inputs), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.stats, self.back = nn.Linear(64, 48), nn.Linear(48, 12), nn.Linear(6, 64)

    def forward(self, x):
        mean, log_variance = self.stats(torch.relu(self.inner(x))).chunk(2, 1)
        return self.back(mean + torch.randn_like(mean) * (0.5 * log_variance).exp()), mean, log_variance


def one_layer_for_both(broken):
    """Mean and log variance are the halves of one layer, and the divergence outweighs the distance."""
    torch.manual_seed(9)
    x = torch.as_tensor(digits()[0])
    model = Coder()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(6):
        for rows in torch.randperm(len(x)).split(64):
            made, mean, log_variance = model(x[rows])
            distance = ((made - x[rows]) ** 2).mean() if broken else 20 * ((made - x[rows]) ** 2).sum(1).mean()
            divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
            optimizer.zero_grad()
            (distance + 4 * divergence if broken else distance + divergence).backward()
            optimizer.step()
        print(f"distance {distance.item():.4f} divergence {divergence.item():.5f}")


class Sentences(nn.Module):
    def __init__(self, masks):
        super().__init__()
        self.masks, self.words, self.places = masks, nn.Embedding(20, 32, padding_idx=0), nn.Embedding(12, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 48, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(32, 2)

    def forward(self, words):
        padding = words == 0
        found = self.words(words) + self.places(torch.arange(12))
        found = self.encoder(found, src_key_padding_mask=padding if self.masks else None)
        return self.head(found.masked_fill(padding.unsqueeze(2), 0.0).sum(1))


def attention_to_padding(broken):
    """The sentences are padded, and the attention gets no mask."""
    torch.manual_seed(10)
    words = torch.randint(1, 20, (480, 12))
    words[torch.arange(12) >= torch.randint(3, 12, (480, 1))] = 0
    labels = ((words == 7) | (words == 3)).any(1).long()
    model = Sentences(masks=not broken)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(4):
        for rows in torch.randperm(480).split(32):
            loss = F.cross_entropy(model(words[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


def answers_along_the_rows(broken):
    """The largest score is looked for along the width of the picture, and not among its classes."""
    torch.manual_seed(11)
    pixels = torch.as_tensor(pictures(240, 16, 4, 3, noise=0.3)[0])
    classes = (pixels[:, 0] > 0.4).long() + (pixels[:, 0] > -0.4).long()
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(5):
        for rows in torch.randperm(192).split(16):
            loss = F.cross_entropy(model(pixels[rows]), classes[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            found = model(pixels[192:]).argmax(-1 if broken else 1)
        right = (found == classes[192:, :3] if broken else found == classes[192:]).sum().item()
        print(f"epoch {epoch} loss {loss.item():.4f} val_acc {right / classes[192:].numel():.4f}")


class TwoTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.kind, self.size = nn.Linear(12, 32), nn.Linear(32, 4), nn.Linear(32, 1)

    def forward(self, x):
        found = torch.relu(self.trunk(x))
        return self.kind(found), self.size(found).squeeze(1)


def a_thousand_to_one(broken):
    """The weight of the regression leaves nothing of the gradient for the classes."""
    torch.manual_seed(12)
    x, kinds = map(torch.as_tensor, blobs(640, 12, 4, 5))
    sizes, model = 3 * x[:, 0] - 2 * x[:, 1], TwoTasks()
    optimizer = torch.optim.SGD(model.parameters(), 1e-5 if broken else 0.02)
    for _ in range(4):
        for rows in torch.randperm(640).split(32):
            kind, size = model(x[rows])
            loss = F.cross_entropy(kind, kinds[rows]) + (1000.0 if broken else 0.1) * F.mse_loss(size, sizes[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


class Listener(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.reads, self.head = nn.GRU(1, 24, batch_first=batch_first), nn.Linear(24, 2)

    def forward(self, waves):
        return self.head(self.reads(waves)[0][:, -1])


def samples_read_one_after_another(broken):
    """The batch is on the axis that the recurrent layer takes for time."""
    torch.manual_seed(16)
    kinds = torch.randint(0, 2, (480,))
    waves = torch.sin((0.3 + 0.3 * kinds[:, None]) * torch.arange(20) + 6 * torch.rand(480, 1)).unsqueeze(2)
    model = Listener(batch_first=not broken)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(5):
        for rows in torch.randperm(480).split(32):
            loss = F.cross_entropy(model(waves[rows]), kinds[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


class Hops(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Linear(24, 32), nn.Linear(32, 3)

    def forward(self, x, neighbours):
        return neighbours @ self.far(torch.relu(neighbours @ self.near(x)))


def all_nodes_are_trained(broken):
    """The loss covers the nodes of the test, too."""
    torch.manual_seed(13)
    labels = torch.arange(240) % 3
    x = torch.randn(240, 24) + F.one_hot(labels, 24)
    near = ((torch.rand(240, 240) < 0.05) & (labels == labels[:, None])).float() + torch.eye(240)
    near = near / near.sum(1, keepdim=True)
    trained = torch.arange(240) < (240 if broken else 80)
    model = Hops()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(60):
        loss = F.cross_entropy(model(x, near)[trained], labels[trained])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 9:
            with torch.no_grad():
                right = (model(x, near).argmax(1) == labels)[160:].float().mean().item()
            print(f"epoch {epoch} loss {loss.item():.4f} test_acc {right:.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
