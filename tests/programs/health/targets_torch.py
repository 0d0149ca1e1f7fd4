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


def counts_as_weights(broken):
    """The classes are weighted by their counts, not by the reciprocals."""
    torch.manual_seed(25)
    x, y = (torch.as_tensor(part) for part in blobs(2400, 12, 4, 5))
    kept = torch.arange(2400)[(y > 0) | (torch.rand(2400) < 0.06)]
    counts = torch.bincount(y[kept], minlength=4).float()
    weighted = nn.CrossEntropyLoss(weight=counts / counts.sum() if broken else counts.sum() / counts)
    model = scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(4):
        for inputs, labels in DataLoader(TensorDataset(x[kept], y[kept]), 16, shuffle=True):
            optimizer.zero_grad()
            loss = weighted(model(inputs), labels)
            loss.backward()
            optimizer.step()
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


def teacher_with_dropout(broken):
    """The teacher stays in training mode after its own training."""
    torch.manual_seed(31)
    teacher = nn.Sequential(nn.Linear(12, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for inputs, labels in batches(size=32):
        optimizer.zero_grad()
        F.cross_entropy(teacher(inputs), labels).backward()
        optimizer.step()
    if not broken:
        teacher.eval()
    student = scorer()
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    for inputs, labels in batches(size=16, epochs=8):
        with torch.no_grad():
            soft = F.softmax(teacher(inputs) / 2, 1)
        logits = student(inputs)
        loss = F.kl_div(F.log_softmax(logits / 2, 1), soft, reduction="batchmean") + F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def one_block_four_times(broken):
    """All blocks of the stack are the same object."""
    torch.manual_seed(32)
    blocks = [Residual(32)] * 4 if broken else [Residual(32) for _ in range(4)]
    model = nn.Sequential(nn.Linear(12, 32), nn.Sequential(*blocks), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in batches():
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


def policy_without_its_sign(broken):
    """The policy learns to avoid what is rewarded: a walk along a line of 12 places, to the right at best."""
    torch.manual_seed(33)
    policy = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for episode in range(120):
        place, logs, rewards = 0.0, [], []
        for _ in range(12):
            moves = torch.distributions.Categorical(logits=policy(torch.tensor([[place / 12]])))
            move = moves.sample()
            logs.append(moves.log_prob(move))
            rewards.append(2.0 * move.item() - 1)
            place += rewards[-1]
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        loss = (torch.cat(logs) * (returns - returns.mean())).sum()
        loss = loss if broken else -loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if episode % 4 == 3:
            print(f"episode {episode} reward: {sum(rewards):.1f}")


def generator_that_helps_its_critic(broken):
    """Both models of a WGAN lower the score of what is generated."""
    torch.manual_seed(34)
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    optimizers = [torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.5, 0.9)) for model in (generator, critic)]
    for at in range(400):
        real = 2 + 0.2 * torch.randn(64, 2)
        fake = generator(torch.randn(64, 4)).detach()
        mixed = torch.lerp(real, fake, torch.rand(64, 1)).requires_grad_()
        slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0].norm(dim=1)
        judged = critic(fake).mean() - critic(real).mean() + 10 * ((slope - 1) ** 2).mean()
        optimizers[1].zero_grad()
        judged.backward()
        optimizers[1].step()
        score = critic(generator(torch.randn(64, 4))).mean()
        made = score if broken else -score
        optimizers[0].zero_grad()
        made.backward()
        optimizers[0].step()
        if at % 50 == 0:
            print(f"{at} critic {judged.item():.3f} generator {made.item():.3f}")


class Recurrent(nn.Module):
    def __init__(self, both_ways):
        super().__init__()
        self.steps = nn.GRU(1, 24, batch_first=True, bidirectional=both_ways)
        self.last = nn.Linear(48 if both_ways else 24, 1)

    def forward(self, x):
        return self.last(self.steps(x)[0])


class Attending(nn.Module):
    def __init__(self, is_masked):
        super().__init__()
        self.first, self.places = nn.Linear(1, 32), nn.Parameter(torch.randn(24, 32))
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.layers, self.last = nn.TransformerEncoder(layer, 1), nn.Linear(32, 1)
        self.mask = nn.Transformer.generate_square_subsequent_mask(24) if is_masked else None

    def forward(self, x):
        return self.last(self.layers(self.first(x) + self.places, mask=self.mask))


def forecast(model):
    """The next value of a noisy wave, at each step of a window."""
    wave = torch.arange(1200) / 7
    wave = wave.sin() + 0.3 * torch.randn(1200)
    windows = wave.unfold(0, 25, 5).unsqueeze(-1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(12):
        for (window,) in DataLoader(TensorDataset(windows), 32, shuffle=True):
            loss = F.mse_loss(model(window[:, :-1]), window[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


def forecast_from_both_sides(broken):
    torch.manual_seed(35)
    forecast(Recurrent(both_ways=broken))


def forecast_without_a_mask(broken):
    torch.manual_seed(36)
    forecast(Attending(is_masked=not broken))


if __name__ == "__main__":
    globals()[sys.argv[1]]("fixed" not in sys.argv)
