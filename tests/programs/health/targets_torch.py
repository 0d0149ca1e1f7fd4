"""Wrong targets, pairs and accumulated gradients, in PyTorch: `targets_torch.py PROGRAM [fixed]`."""

import copy
import sys

import torch
import torch.nn.functional as F
from material import blobs, digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def batches(seed=0, size=16, epochs=5):
    x, y = (torch.as_tensor(part) for part in blobs(640, 12, 4, seed))
    for _ in range(epochs):
        yield from DataLoader(TensorDataset(x, y), size, shuffle=True)


def scorer(classes=4, width=12):
    return nn.Sequential(nn.Linear(width, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, classes))


def clears_for_each_part(broken):
    """Four micro-batches a step, of which three are thrown away."""
    torch.manual_seed(21)
    model = scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for at, (inputs, labels) in enumerate(batches()):
        if broken or at % 4 == 0:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels) / 4
        loss.backward()
        if at % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
    print(loss.item())


def steps_around_the_scaler(broken):
    """The optimizer steps on gradients that are still multiplied."""
    torch.manual_seed(22)
    model = scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for inputs, labels in batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        scaler.scale(loss).backward()
        if broken:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
    print(loss.item())


def encode(broken, loss_of):
    """A contrastive training on two noisy views of digits."""
    torch.manual_seed(23)
    x = torch.as_tensor(digits()[0])
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(4):
        for rows in torch.randperm(len(x)).split(64):
            first = x[rows] + 0.15 * torch.randn(len(rows), 64)
            second = x[rows] + 0.15 * torch.randn(len(rows), 64)
            loss = loss_of(lambda view: F.normalize(model(view), dim=1), first, second, broken)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def one_view_twice(broken):
    """The second view is the first one."""

    def loss_of(embed, first, second, broken):
        similar = embed(first) @ embed(first if broken else second).t() / 0.1
        return F.cross_entropy(similar, torch.arange(len(first)))

    encode(broken, loss_of)


def every_sample_its_own_negative(broken):
    """The diagonal of the similarities is not masked."""

    def loss_of(embed, first, second, broken):
        both = embed(torch.cat([first, second]))
        similar = both @ both.t() / 0.2
        if not broken:
            similar = similar.masked_fill(torch.eye(len(both), dtype=torch.bool), float("-inf"))
        return F.cross_entropy(similar, torch.arange(len(both)).roll(len(first)))

    encode(broken, loss_of)


def times_the_temperature(broken):
    """Similarities are multiplied by the temperature."""

    def loss_of(embed, first, second, broken):
        similar = embed(first) @ embed(second).t()
        return F.cross_entropy(similar * 0.1 if broken else similar / 0.1, torch.arange(len(first)))

    encode(broken, loss_of)


def values(broken_target, broken_copy):
    torch.manual_seed(24)
    online = scorer(3, 6)
    fixed = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    for step in range(300):
        state = torch.randn(32, 6)
        action = torch.randint(0, 3, (32,))
        after = state.roll(1, 1) * 0.9 + 0.1 * action[:, None]
        reward, over = state[:, 0] * (action == 1), (state[:, 1] > 1).float()
        network = online if broken_target is not None else fixed
        with torch.set_grad_enabled(bool(broken_target)):
            following = network(after).max(1).values
        target = reward + 0.9 * following * (1 - over)
        loss = F.smooth_l1_loss(online(state).gather(1, action[:, None]).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 0 and not broken_copy:
            fixed.load_state_dict(online.state_dict())
    print(loss.item())


def target_with_a_gradient(broken):
    """The value of the next state is differentiated, too."""
    values(broken, False)


def target_network_of_the_first_day(broken):
    """The network that gives the targets keeps its random weights."""
    values(None, broken)


def schedule_of_an_old_optimizer(broken):
    """The optimizer was made anew after its scheduler."""
    torch.manual_seed(25)
    model = scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.5)
    if broken:
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for inputs, labels in batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
    print(loss.item())


def likelihood_without_its_sign(broken):
    """The log-probability of the labels is minimised."""
    torch.manual_seed(26)
    model = scorer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, labels in batches():
        optimizer.zero_grad()
        likelihood = F.log_softmax(model(inputs), 1).gather(1, labels[:, None]).mean()
        loss = likelihood if broken else -likelihood
        loss.backward()
        optimizer.step()
    print(loss.item())


def sums_with_their_graphs(broken):
    """The loss of an epoch is summed with the graphs of its steps."""
    torch.manual_seed(27)
    model = scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(3):
        total = 0.0
        for inputs, labels in batches(epochs=1, size=8):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            total += loss if broken else loss.item()
        print(f"epoch {epoch} loss {float(total) / 80:.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]("fixed" not in sys.argv)
