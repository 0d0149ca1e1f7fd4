"""Mistakes with data, layers and phases, in PyTorch: `mistakes_torch.py PROGRAM [fixed]`."""

import random
import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, curve, digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def fit(model, train, held_out=None, epochs=5, lr=3e-3, loss_of=F.cross_entropy):
    """Trains, validates after each epoch and prints both."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
    for epoch in range(epochs):
        model.train()
        for inputs, labels in DataLoader(TensorDataset(*train), 32, shuffle=True):
            optimizer.zero_grad()
            loss = loss_of(model(inputs), labels)
            loss.backward()
            optimizer.step()
        model.eval()
        values = []
        with torch.no_grad():
            for inputs, labels in DataLoader(TensorDataset(*held_out), 64) if held_out else ():
                values.append(loss_of(model(inputs), labels).item())
        print(f"epoch {epoch} loss {loss.item():.4f} val_loss {np.mean(values) if values else float('nan'):.4f}")


class Pictures(nn.Module):
    def __init__(self, last_relu=False):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.third = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(64, 10)
        self.last_relu = last_relu

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.third(F.relu(self.second(x)))), 2)
        x = self.head(x.flatten(1))
        return F.relu(x) if self.last_relu else x


def pictures():
    x, y = tensors(digits())
    return x.reshape(-1, 1, 8, 8), y


def one_layer_left_frozen(broken):
    """A filter by name freezes a layer whose weights were never loaded."""
    torch.manual_seed(1)
    x, y = pictures()
    model = Pictures()
    if broken:
        for name, parameter in model.named_parameters():
            parameter.requires_grad = "second" not in name
    fit(model, (x[:1500], y[:1500]), (x[1500:], y[1500:]), 3)


def answer_among_the_columns(broken):
    """The class stands in the table of features, scaled with the others."""
    torch.manual_seed(2)
    x, y = tensors(blobs(900, 12, 4, 7, 4.0))
    if broken:
        x = torch.cat([x[:, :5], (y[:, None].float() - 1.5) / 1.1, x[:, 5:]], 1)
    fit(nn.Sequential(nn.Linear(x.shape[1], 48), nn.ReLU(), nn.Linear(48, 4)), (x[:600], y[:600]), (x[600:], y[600:]))


def total_that_holds_the_answer(broken):
    """A regression one of whose inputs is the target in another unit."""
    torch.manual_seed(3)
    x, y = tensors(curve(900, 8, 5, 0.5))
    y = y.reshape(-1)
    if broken:
        x = torch.cat([x, 3.0 * y[:, None] + 1.0], 1)
    model = nn.Sequential(nn.Linear(x.shape[1], 48), nn.Tanh(), nn.Linear(48, 1), nn.Flatten(0))
    fit(model, (x[:600], y[:600]), (x[600:], y[600:]), loss_of=F.mse_loss)


def copies_before_the_split(broken):
    """The records are repeated to balance them, shuffled, and only then split."""
    torch.manual_seed(4)
    x, y = tensors(blobs(500, 16, 4, 9, 2.0))
    order = torch.randperm(1000)
    if broken:
        x, y = x.repeat(2, 1)[order], y.repeat(2)[order]
        train, held_out = (x[:800], y[:800]), (x[800:], y[800:])
    else:
        train, held_out = (x[:400].repeat(2, 1), y[:400].repeat(2)), (x[400:], y[400:])
    fit(nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4)), train, held_out)


def relu_on_the_scores(broken):
    """The last layer has an activation like all others; cross entropy gets no negative score."""
    torch.manual_seed(5)
    x, y = pictures()
    fit(Pictures(last_relu=broken), (x[:1500], y[:1500]), (x[1500:], y[1500:]), 3)


def summed_in_the_second_phase(broken):
    """An encoder is trained first; the classifier on it sums its loss over the batch."""
    torch.manual_seed(6)
    x, y = tensors(blobs(900, 16, 4, 3))
    encoder, decoder = nn.Sequential(nn.Linear(16, 8), nn.Tanh()), nn.Linear(8, 16)
    fit(nn.Sequential(encoder, decoder), (x, x), epochs=2, loss_of=F.mse_loss)
    features = encoder(x).detach()
    reduction = "sum" if broken else "mean"
    fit(nn.Linear(8, 4), (features, y), epochs=3, loss_of=lambda out, to: F.cross_entropy(out, to, reduction=reduction))


class Shaken(Dataset):
    """Records with noise of Python's own generator."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] * (1 + 0.1 * random.random()), self.y[index]


def dice_without_a_seed(broken):
    """PyTorch is seeded; the noise comes from a generator that is not."""
    torch.manual_seed(7)
    if not broken:
        random.seed(7)
    x, y = tensors(blobs(600, 12, 4, 5))
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(4):
        for inputs, labels in DataLoader(Shaken(x, y), 32, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def penalised(coefficient, decay):
    """A classifier with a penalty on its weights in the loss, or weight decay in the optimizer."""
    torch.manual_seed(8)
    x, y = tensors(blobs(900, 16, 4, 11))
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=decay)
    for epoch in range(4):
        for inputs, labels in DataLoader(TensorDataset(x, y), 32, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            if coefficient:
                loss = loss + coefficient * sum(p.pow(2).sum() for p in model.parameters())
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def penalty_larger_than_the_loss(broken):
    penalised(1.0 if broken else 1e-4, 0.0)


def decay_stronger_than_the_gradient(broken):
    penalised(0.0, 1.0 if broken else 5e-4)


class Waves(nn.Module):
    """Tells waves apart; may begin with the state that the last batch left."""

    def __init__(self, keeps):
        super().__init__()
        self.lstm = nn.LSTM(1, 16, batch_first=True)
        self.head = nn.Linear(16, 3)
        self.keeps, self.state = keeps, None

    def forward(self, x):
        fits = self.state is not None and self.state[0].shape[1] == len(x)
        out, state = self.lstm(x, self.state if fits and self.keeps else None)
        self.state = tuple(one.detach() for one in state)
        return self.head(out[:, -1])


def state_of_other_sequences(broken):
    """An LSTM for single sequences goes on from the state of the batch before."""
    torch.manual_seed(9)
    y = torch.randint(0, 3, (600,))
    x = torch.sin(torch.arange(20.0)[None] * (0.3 + 0.3 * y[:, None])) + 0.3 * torch.randn(600, 20)
    fit(Waves(broken), (x[:448, :, None], y[:448]), (x[448:, :, None], y[448:]), 4)


class Words(nn.Module):
    """A language model of one block of attention, with or without a causal mask."""

    def __init__(self, masked):
        super().__init__()
        self.token, self.place = nn.Embedding(23, 32), nn.Embedding(24, 32)
        self.queries, self.keys, self.values = (nn.Linear(32, 32) for _ in range(3))
        self.head = nn.Linear(32, 23)
        self.masked = masked

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        scores = self.queries(x) @ self.keys(x).transpose(1, 2) / 32**0.5
        if self.masked:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, float("-inf"))
        return self.head(x + F.softmax(scores, -1) @ self.values(x)).transpose(1, 2)


def text():
    return torch.tensor([(i * i + 5 * (i // 4)) % 23 for i in range(25 * 300)]).view(300, 25)


def reads_what_it_predicts(broken):
    """The causal mask was forgotten."""
    torch.manual_seed(10)
    fit(Words(not broken), (text()[:, :-1], text()[:, 1:]), epochs=4)


def predicts_what_it_reads(broken):
    """The target of a language model is its input, not the next word."""
    torch.manual_seed(11)
    ahead = 0 if broken else 1
    fit(Words(True), (text()[:, :-1], text()[:, ahead : 24 + ahead].contiguous()), epochs=15, lr=1e-2)


def output_without_negative_values(broken):
    """A ReLU behind the last layer of a regression whose targets have both signs."""
    torch.manual_seed(12)
    x, y = tensors(curve(900, 8, 5, 0.5))
    y = (y - y.mean()).reshape(-1, 1)
    model = nn.Sequential(nn.Linear(8, 48), nn.Tanh(), nn.Linear(48, 1), *([nn.ReLU()] if broken else []))
    fit(model, (x[:600], y[:600]), (x[600:], y[600:]), loss_of=F.mse_loss)


def divergence_of_probabilities(broken):
    """`kl_div` is given probabilities where it wants their logarithms."""
    torch.manual_seed(13)
    x, y = tensors(blobs(900, 12, 4, 7))
    soft = F.softmax(4.0 * F.one_hot(y, 4) + 0.1 * x[:, :4], 1)
    log = F.softmax if broken else F.log_softmax

    def distance(out, to):
        return F.kl_div(log(out, 1), to, reduction="batchmean")

    fit(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4)), (x, soft), loss_of=distance)


def second_optimizer_forgotten(broken):
    """Encoder and head have an optimizer each; that of the encoder never steps."""
    torch.manual_seed(14)
    x, y = tensors(blobs(900, 12, 4, 7))
    encoder, head = nn.Sequential(nn.Linear(12, 32), nn.ReLU()), nn.Linear(32, 4)
    optimizers = [torch.optim.Adam(part.parameters(), lr=3e-3) for part in (encoder, head)]
    for epoch in range(4):
        for inputs, labels in DataLoader(TensorDataset(x, y), 32, shuffle=True):
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = F.cross_entropy(head(encoder(inputs)), labels)
            loss.backward()
            for optimizer in optimizers[1 if broken else 0 :]:
                optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def clips_before_the_gradient(broken):
    torch.manual_seed(15)
    x, y = tensors(blobs(900, 12, 4, 7))
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(4):
        for inputs, labels in DataLoader(TensorDataset(x, y), 32, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            if broken:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            loss.backward()
            if not broken:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 24, padding_idx=0)
        self.rnn = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, 12)

    def forward(self, ids):
        return self.head(self.rnn(self.words(ids))[0]).transpose(1, 2)


def padding_as_a_word(broken):
    """Sentences of several lengths; their padding is a word to be predicted."""
    torch.manual_seed(16)
    ids = torch.randint(1, 12, (600, 10))
    there = torch.arange(10)[None] < torch.randint(4, 11, (600, 1))
    target = (torch.roll(ids, 1, 1) * there).long()
    target[:, 0] = ids[:, 0]

    def distance(out, to):
        return F.cross_entropy(out, to, ignore_index=-100 if broken else 0)

    fit(Tagger(), (ids * there, target), loss_of=distance)


if __name__ == "__main__":
    globals()[sys.argv[1]]("fixed" not in sys.argv)
