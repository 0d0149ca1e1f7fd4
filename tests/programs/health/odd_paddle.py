"""Healthy trainings that look odd, in PaddlePaddle: `odd_paddle.py PROGRAM`."""

import copy
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, pictures, sentences, standardised, waves
from paddle import nn
from paddle.io import DataLoader, IterableDataset, TensorDataset, get_worker_info


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def tensors(pair):
    return [paddle.to_tensor(part) for part in pair]


def loader(pair, batch, **options):
    return DataLoader(TensorDataset(tensors(pair)), batch_size=batch, shuffle=True, **options)


def batches_of_three():
    seed(1)
    model = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())
    for epoch in range(4):
        total = []
        for inputs, labels in loader(blobs(450, 20, 4, 1), 3):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            total.append(loss.item())
        print(f"epoch {epoch} loss {np.mean(total):.4f}")


def a_quarter_of_the_labels_wrong():
    seed(2)
    x, y = digits()
    rng = np.random.default_rng(2)
    y = np.where(rng.random(len(y)) < 0.25, rng.integers(0, 10, len(y)), y)
    model = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Dropout(0.3), nn.Linear(40, 10))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    held = tensors((x[1400:], y[1400:]))
    for epoch in range(8):
        model.train()
        for inputs, labels in loader((x[:1400], y[:1400]), 50):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        model.eval()
        with paddle.no_grad():
            val_loss = F.cross_entropy(model(held[0]), held[1]).item()
        print(f"epoch {epoch} train_loss {loss.item():.4f} val_loss {val_loss:.4f}")


def slow_descent():
    seed(3)
    model = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = paddle.optimizer.SGD(5e-4, parameters=model.parameters())
    x, y = curve(600, 9, 3)
    for epoch in range(20):
        for inputs, target in loader((x, y[:, None]), 20):
            loss = F.mse_loss(model(inputs), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def sparse_rows():
    seed(4)
    tokens, y = sentences(900, 10, 100, 4)
    words, head = nn.Embedding(9_000, 16, sparse=True), nn.Linear(16, 2)
    optimizer = paddle.optimizer.Adam(5e-3, parameters=[*words.parameters(), *head.parameters()], lazy_mode=True)
    for epoch in range(6):
        for inputs, labels in loader((tokens * 83, y), 30):
            loss = F.cross_entropy(head(words(inputs).mean(1)), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def frozen_body():
    seed(5)
    body = nn.Sequential(nn.Conv2D(1, 12, 3), nn.BatchNorm2D(12), nn.ReLU(), nn.AdaptiveAvgPool2D(3), nn.Flatten())
    for parameter in body.parameters():
        parameter.stop_gradient = True
    body.eval()
    head = nn.Linear(108, 5)
    optimizer = paddle.optimizer.AdamW(5e-3, parameters=head.parameters())
    for epoch in range(6):
        for inputs, labels in loader(pictures(700, 10, 5, 5), 35):
            loss = F.cross_entropy(head(body(inputs)), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def accumulates():
    seed(6)
    cells, head = nn.GRU(1, 18), nn.Linear(18, 1)
    parameters = [*cells.parameters(), *head.parameters()]
    optimizer = paddle.optimizer.Adam(5e-3, parameters=parameters, grad_clip=nn.ClipGradByGlobalNorm(1.0))
    for epoch in range(8):
        for number, (inputs, target) in enumerate(loader(waves(420, 15, 6), 10), 1):
            loss = F.mse_loss(head(cells(inputs)[0][:, -1]), target) / 3
            loss.backward()
            if number % 3 == 0:
                optimizer.step()
                optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item() * 3:.4f}")


def adversaries():
    seed(7)
    maker = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2))
    judge = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    makers = paddle.optimizer.Adam(1e-3, beta1=0.5, parameters=maker.parameters())
    judges = paddle.optimizer.Adam(1e-3, beta1=0.5, parameters=judge.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for step in range(300):
        angle = paddle.rand([40]) * 6.28
        real, fake = paddle.stack([angle.cos(), angle.sin()], 1), maker(paddle.randn([40, 6]))
        judged = criterion(judge(real), paddle.ones([40, 1])) + criterion(judge(fake.detach()), paddle.zeros([40, 1]))
        judges.clear_grad()
        judged.backward()
        judges.step()
        made = criterion(judge(fake), paddle.ones([40, 1]))
        makers.clear_grad()
        made.backward()
        makers.step()
        if step % 60 == 0:
            print(f"step {step} d_loss {judged.item():.3f} g_loss {made.item():.3f}")


def bandit():
    """Policy gradient: the loss is negative as often as not."""
    seed(8)
    policy = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 3))
    optimizer = paddle.optimizer.Adam(5e-3, parameters=policy.parameters())
    best = paddle.randn([5, 3])
    for episode in range(240):
        state = paddle.randn([32, 5])
        scores = F.log_softmax(policy(state), axis=-1)
        action = paddle.multinomial(scores.detach().exp(), 1)
        reward = paddle.take_along_axis(state @ best, action, 1).squeeze(1)
        loss = -(paddle.take_along_axis(scores, action, 1).squeeze(1) * (reward - reward.mean())).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if episode % 40 == 0:
            print(f"episode {episode} reward {reward.mean().item():.3f} loss {loss.item():.4f}")


def contrasts():
    """Two noisy views of a record; the batch itself provides the negatives, the classes are its rows."""
    seed(9)
    x, _ = digits()
    x = paddle.to_tensor(x)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    for step in range(200):
        part = x[paddle.to_tensor(np.random.randint(0, len(x), 48))]
        one, two = (F.normalize(model(part + 0.1 * paddle.randn(part.shape)), axis=1) for _ in range(2))
        loss = F.cross_entropy(one @ two.T / 0.2, paddle.arange(48))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def picture_of_a_picture():
    seed(10)
    x, _ = digits()
    model = nn.Sequential(nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 64), nn.Sigmoid())
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    for epoch in range(6):
        for (inputs,) in DataLoader(TensorDataset([paddle.to_tensor(x)]), batch_size=40, shuffle=True):
            loss = F.binary_cross_entropy(model(inputs), inputs)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def clipped_critic():
    seed(11)
    critic = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.RMSProp(5e-4, parameters=critic.parameters())
    for step in range(200):
        near, far = paddle.randn([48, 3]), paddle.randn([48, 3]) + 1.5
        loss = critic(near).mean() - critic(far).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        for parameter in critic.parameters():
            parameter.set_value(parameter.clip(-0.2, 0.2))
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Translator(nn.Layer):
    """A small encoder with padding and tied output weights."""

    def __init__(self, words, width=24):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0, weight_attr=nn.initializer.Normal(0.0, 0.1))
        self.places = nn.Embedding(12, width)
        layer = nn.TransformerEncoderLayer(width, 3, 48, dropout=0.1, normalize_before=True)
        self.layers = nn.TransformerEncoder(layer, 1)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(paddle.arange(12))
        mask = paddle.where(tokens == 0, paddle.to_tensor(-1e9), paddle.to_tensor(0.0)).unsqueeze([1, 2])
        return paddle.matmul(self.layers(x, mask), self.words.weight, transpose_y=True)


def masked_words():
    seed(12)
    rng = np.random.default_rng(12)
    tokens = (rng.integers(1, 30, (600, 1)) + 2 * np.arange(12)) % 29 + 2
    tokens[np.arange(12)[None] >= rng.integers(6, 13, 600)[:, None]] = 0
    hidden = (rng.random(tokens.shape) < 0.2) & (tokens != 0)
    inputs, labels = np.where(hidden, 1, tokens), np.where(hidden, tokens, -100)
    model = Translator(31)
    schedule = paddle.optimizer.lr.LinearWarmup(4e-3, 40, 0.0, 4e-3)
    optimizer = paddle.optimizer.AdamW(schedule, parameters=model.parameters())
    for epoch in range(8):
        for batch, target in loader((inputs.astype("int64"), labels.astype("int64")), 24):
            scores = model(batch)
            loss = F.cross_entropy(scores.reshape([-1, 31]), target.reshape([-1]), ignore_index=-100)
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def slope_penalty():
    seed(13)
    x, y = tensors(diabetes())
    model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    for step in range(200):
        part = paddle.to_tensor(np.random.randint(0, len(x), 32))
        inputs = x[part]
        inputs.stop_gradient = False
        predicted = model(inputs)
        (slope,) = paddle.grad(predicted.sum(), inputs, create_graph=True)
        loss = F.mse_loss(predicted.squeeze(1), y[part]) + 0.01 * slope.square().sum(1).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def slow_teacher():
    seed(14)
    x, y = tensors(blobs(700, 14, 4, 14, spread=2.0))
    student = nn.Sequential(nn.Linear(14, 28), nn.ReLU(), nn.Linear(28, 4))
    teacher = copy.deepcopy(student)
    teacher.eval()
    optimizer = paddle.optimizer.Adam(2e-3, parameters=student.parameters())
    for step in range(220):
        part = paddle.to_tensor(np.random.randint(0, 700, 35))
        scores = student(x[part])
        with paddle.no_grad():
            target = F.softmax(teacher(x[part]))
        loss = F.cross_entropy(scores, y[part]) + F.kl_div(F.log_softmax(scores), target, reduction="batchmean")
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        with paddle.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.set_value(0.95 * slow + 0.05 * fast)
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Endless(IterableDataset):
    def __iter__(self):
        rng = np.random.default_rng([get_worker_info().id, int(np.random.default_rng().integers(1 << 30))])
        while True:
            x = rng.normal(size=7).astype("float32")
            yield x, np.float32(np.abs(x[0]) - x[1] * x[2])


def stream_of_two_workers():
    seed(15)
    model = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.Adam(4e-3, parameters=model.parameters())
    for step, (inputs, target) in enumerate(DataLoader(Endless(), batch_size=32, num_workers=2)):
        loss = F.smooth_l1_loss(model(inputs).squeeze(1), target)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        if step == 200:
            break


def two_tasks_two_phases():
    """First the classes, then also the size, with a new optimizer and a smaller rate."""
    seed(16)
    x, y = cancer()
    x = standardised(x)
    body, kind, size = nn.Sequential(nn.Linear(30, 24), nn.ReLU()), nn.Linear(24, 2), nn.Linear(24, 1)
    parameters = [*body.parameters(), *kind.parameters()]
    for phase, rate in (("kind", 3e-3), ("both", 1e-3)):
        if phase == "both":
            parameters = [*parameters, *size.parameters()]
        optimizer = paddle.optimizer.Adam(rate, parameters=parameters)
        for epoch in range(8):
            for inputs, labels in loader((x, y), 40):
                features = body(inputs)
                loss = F.cross_entropy(kind(features), labels)
                if phase == "both":
                    loss = loss + F.mse_loss(size(features), inputs[:, 2:3])
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
            print(f"{phase} epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
