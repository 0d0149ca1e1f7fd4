"""Networks that cannot learn well, in PyTorch: `layers_torch.py PROGRAM [fixed]`."""

import sys
import warnings

import torch
import torch.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, pictures, standardised, waves, wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def classify(model, optimizer, x, y, batch, steps, schedule=None):
    """The loop of all programs here that sort things into classes."""
    every = max(1, steps // 6)
    for step in range(steps):
        part = torch.randint(0, len(x), (batch,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        if step % every == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


def rate_of_another_optimizer(broken):
    torch.manual_seed(1)
    x, y = tensors(digits())
    model = nn.Sequential(nn.Linear(64, 40), nn.Tanh(), nn.Linear(40, 10))
    rate = 1.0 if broken else 2e-3  # 1.0 was right for Adadelta
    classify(model, torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.1), x, y, 32, 250)


def steps_as_large_as_weights(broken):
    torch.manual_seed(2)
    x, y = tensors(pictures(400, 8, 4, 2, noise=3.0))
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    rule = torch.optim.RMSprop(model.parameters(), lr=0.1 if broken else 3e-4, weight_decay=0.02 if broken else 0.0)
    classify(model, rule, x, y, 20, 200)


def deep(width, depth, activation):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), activation()]
    return layers


def ten_sigmoids(broken):
    torch.manual_seed(3)
    x, y = tensors(wine())
    x = torch.as_tensor(standardised(x.numpy()))
    body = deep(32, 9, nn.Sigmoid if broken else nn.ReLU)
    model = nn.Sequential(nn.Linear(13, 32), *body, nn.Linear(32, 3))
    for layer in model:
        if isinstance(layer, nn.Linear):
            (nn.init.xavier_uniform_ if broken else nn.init.kaiming_uniform_)(layer.weight)
    classify(model, torch.optim.SGD(model.parameters(), lr=0.03), x, y, 30, 300)


def long_memory(broken):
    """Adds up 60 steps with a plain recurrent network."""
    torch.manual_seed(4)
    x = torch.randn(300, 60, 2)
    y = x[:, :, 0].mean(1, keepdim=True) * (30 if broken else 6)
    cells, head = nn.RNN(2, 32, nonlinearity="relu" if broken else "tanh", batch_first=True), nn.Linear(32, 1)
    if broken:
        nn.init.normal_(cells.weight_hh_l0, std=0.9 / 32**0.5)
    parameters = [*cells.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-3)
    for step in range(200):
        part = torch.randint(0, 300, (20,))
        optimizer.zero_grad()
        loss = F.mse_loss(head(cells(x[part])[0][:, -1]), y[part])
        loss.backward()
        if not broken:
            nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.5g}")


def positive_output(broken):
    """A yield is never negative, so somebody ends the network with ReLU."""
    torch.manual_seed(5)
    x, y = tensors(curve(500, 6, 5))
    y = y - y.min()
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1), nn.ReLU() if broken else nn.Softplus())
    if broken:
        nn.init.constant_(model[2].bias, -3.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(200):
        part = torch.randint(0, 500, (50,))
        optimizer.zero_grad()
        loss = F.mse_loss(model(x[part]).squeeze(1), y[part])
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def squashed_logits(broken):
    """Logistic regression on raw measurements with the squared error."""
    torch.manual_seed(6)
    x, y = tensors(cancer())
    if not broken:
        x = torch.as_tensor(standardised(x.numpy()))
    model = nn.Sequential(nn.Linear(30, 1), nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(20):
        for inputs, labels in DataLoader(TensorDataset(x, y.float()), 50, shuffle=True):
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs).squeeze(1), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def cold_start(broken):
    """Biases of -2 'so that the network starts sparse'."""
    torch.manual_seed(7)
    x, y = tensors(digits())
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    if broken:
        nn.init.constant_(model[0].bias, -2.0)
    classify(model, torch.optim.SGD(model.parameters(), lr=0.05), x, y, 64, 300)


def pixels_up_to_255(broken):
    torch.manual_seed(8)
    x, y = pictures(500, 12, 5, 8)
    x = (x - x.min()) / (x.max() - x.min()) * 255.0
    x = torch.as_tensor(x if broken else (x - x.mean()) / x.std())
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(256, 5),
    )  # fmt: skip
    rule = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    classify(model, rule, x.float(), torch.as_tensor(y), 25, 250)


def raw_wine(broken):
    torch.manual_seed(9)
    x, y = wine()
    x, y = tensors((x if broken else standardised(x), y))
    model = nn.Sequential(nn.Linear(13, 40), nn.Tanh(), nn.Linear(40, 3))
    classify(model, torch.optim.Adam(model.parameters(), lr=3e-3), x, y, 24, 260)


def wide_initial_weights(broken):
    torch.manual_seed(10)
    x, y = tensors(blobs(600, 64, 6, 10, spread=2.0))
    model = nn.Sequential(nn.Linear(64, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 6))
    if broken:
        for parameter in model.parameters():
            nn.init.normal_(parameter)
    classify(model, torch.optim.SGD(model.parameters(), lr=0.01), x, y, 32, 300)


def tiny_initial_weights(broken):
    torch.manual_seed(11)
    x, y = tensors(digits())
    model = nn.Sequential(*deep(64, 3, nn.ReLU), nn.Linear(64, 10))
    if broken:
        for module in model[::2]:
            nn.init.normal_(module.weight, std=1e-3)
    classify(model, torch.optim.SGD(model.parameters(), lr=0.05), x, y, 64, 250)


class Classifier(nn.Module):
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head = body, head
        self.reset_head()

    def reset_head(self):
        nn.init.xavier_uniform_(self.head.weight)

    def forward(self, x):
        return self.head(self.body(x))


class LoudHead(Classifier):
    def reset_head(self):
        nn.init.normal_(self.head.weight, std=2.0)


def loud_head(broken):
    torch.manual_seed(12)
    x, y = tensors(digits())
    body = nn.Sequential(nn.Linear(64, 48), nn.LayerNorm(48), nn.ReLU())
    model = (LoudHead if broken else Classifier)(body, nn.Linear(48, 10))
    classify(model, torch.optim.SGD(model.parameters(), lr=0.01), x, y, 32, 300)


def sum_of_the_batch(broken):
    torch.manual_seed(13)
    x, y = tensors(blobs(640, 10, 8, 13))
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
    criterion = nn.CrossEntropyLoss(reduction="sum" if broken else "mean")
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(12):
        for inputs, labels in DataLoader(TensorDataset(x, y), 64, shuffle=True):
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def all_weights_alike(broken):
    torch.manual_seed(14)
    x, y = tensors(diabetes())
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
    if broken:
        for module in model[::2]:
            nn.init.constant_(module.weight, 0.05)
            nn.init.zeros_(module.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(250):
        part = torch.randint(0, len(x), (32,))
        optimizer.zero_grad()
        loss = F.mse_loss(model(x[part]).squeeze(1), y[part])
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.inner(x)


def initialise_everything_below(module):
    for name, parameter in module.named_parameters():
        if name.endswith("weight"):
            nn.init.normal_(parameter, std=0.1)


def initialise_own(module):
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.1)


def nested_initialisation(broken):
    torch.manual_seed(15)
    x, y = tensors(blobs(500, 20, 4, 15))
    model = nn.Sequential(Block(20), Block(20), nn.Linear(20, 4))
    model.apply(initialise_everything_below if broken else initialise_own)
    classify(model, torch.optim.AdamW(model.parameters(), lr=1e-3), x, y, 40, 240)


class Stack(nn.Module):
    def __init__(self, columns, classes):
        super().__init__()
        self.stem = nn.Linear(columns, 24)
        self.layers = self.hold(nn.Linear(24, 24) for _ in range(3))
        self.head = nn.Linear(24, classes)

    def hold(self, layers):
        return nn.ModuleList(layers)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


class ListedStack(Stack):
    def hold(self, layers):
        return list(layers)


def list_of_layers(broken):
    torch.manual_seed(16)
    x, y = tensors(blobs(500, 18, 5, 16))
    model = (ListedStack if broken else Stack)(18, 5)
    classify(model, torch.optim.Adam(model.parameters(), lr=2e-3), x, y, 32, 300)


def validated_before_training(broken):
    """A critic with spectral norm is judged once before its first training step."""
    warnings.simplefilter("ignore", FutureWarning)
    torch.manual_seed(17)
    x, y = tensors(blobs(400, 16, 2, 17))
    normed = nn.utils.spectral_norm if broken else nn.utils.parametrizations.spectral_norm
    model = nn.Sequential(normed(nn.Linear(16, 64)), nn.LeakyReLU(0.1), normed(nn.Linear(64, 2)))
    model.eval()
    with torch.no_grad():
        print(f"before training: val_loss {F.cross_entropy(model(x), y).item():.4f}")
    model.train()
    classify(model, torch.optim.Adam(model.parameters(), lr=2e-3), x, y, 40, 200)


def state_of_nothing(broken):
    """Reads the hidden state that was there before the sequence, so that the input does not matter."""
    torch.manual_seed(18)
    data = TensorDataset(*tensors(waves(300, 15, 18)))
    cells, head = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*cells.parameters(), *head.parameters()], lr=5e-3)
    for epoch in range(10):
        for inputs, target in DataLoader(data, 30, shuffle=True):
            start = torch.zeros(1, len(inputs), 16)
            _, last = cells(inputs, start)
            predicted = head(start[0] if broken else last[0])
            optimizer.zero_grad()
            loss = F.mse_loss(predicted, target)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
