"""More healthy trainings in PaddlePaddle that look odd: `odd2_paddle.py PROGRAM`."""

import sys
import tempfile

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, curve, digits
from paddle import nn
from paddle.distributed.fleet.utils import recompute
from paddle.io import DataLoader, Dataset, TensorDataset


class Pairs(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def batches(x, y, size=64, **options):
    return DataLoader(Pairs(x, y), batch_size=size, shuffle=True, **options)


def wide(width=64, act=nn.ReLU):
    return nn.Sequential(nn.Linear(64, width), act(), nn.Linear(width, 10))


def fit(model, optimizer, criterion=F.cross_entropy, epochs=6):
    x, y = digits()
    for epoch in range(epochs):
        for inputs, labels in batches(x, y):
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def high_level():
    """paddle.Model with callbacks, metrics and validation."""
    seed(1)
    x, y = digits()
    y = y[:, None]
    network = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1D(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    model = paddle.Model(network)
    rate = paddle.optimizer.lr.CosineAnnealingDecay(2e-3, T_max=6 * 22)
    optimizer = paddle.optimizer.AdamW(rate, parameters=network.parameters(), weight_decay=0.01)
    model.prepare(optimizer, nn.CrossEntropyLoss(), [paddle.metric.Accuracy(topk=(1, 5))])
    early = paddle.callbacks.EarlyStopping("loss", patience=3, save_best_model=False)
    with tempfile.TemporaryDirectory() as folder:
        model.fit(
            Pairs(x[:1400], y[:1400]),
            Pairs(x[1400:], y[1400:]),
            epochs=6,
            batch_size=64,
            verbose=2,
            save_dir=folder,
            callbacks=[early],
        )


def low_precision_weights():
    seed(2)
    model = wide()
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=model.parameters(), multi_precision=True)
    model, optimizer = paddle.amp.decorate(models=model, optimizers=optimizer, level="O2", dtype="bfloat16")
    with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
        fit(model, optimizer)


def soft_labels_in_four_parts():
    seed(3)
    x, y = digits()
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))
    clip = nn.ClipGradByGlobalNorm(0.5)
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=model.parameters(), grad_clip=clip)
    for epoch in range(5):
        for part, (inputs, labels) in enumerate(batches(x, y, 16)):
            target = F.label_smooth(F.one_hot(labels, 10))
            loss = F.cross_entropy(model(inputs), target, soft_label=True)
            (loss / 4).backward()
            if part % 4 == 3:
                optimizer.step()
                optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def hinge_adversaries():
    seed(4)
    x = np.tanh(digits()[0])
    maker = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1D(64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())
    first, last = (nn.utils.spectral_norm(nn.Linear(64, size)) for size in (64, 1))
    judge = nn.Sequential(first, nn.LeakyReLU(0.2), last)
    makes = paddle.optimizer.Adam(2e-4, beta1=0.0, parameters=maker.parameters())
    judges = paddle.optimizer.Adam(4e-4, beta1=0.0, parameters=judge.parameters())
    for epoch in range(6):
        for (real,) in DataLoader(TensorDataset([paddle.to_tensor(x)]), batch_size=64, shuffle=True, drop_last=True):
            with paddle.no_grad():
                fake = maker(paddle.randn([64, 8]))
            judged = F.relu(1 - judge(real)).mean() + F.relu(1 + judge(fake)).mean()
            judges.clear_grad()
            judged.backward()
            judges.step()
            made = -judge(maker(paddle.randn([64, 8]))).mean()
            makes.clear_grad()
            made.backward()
            makes.step()
        print(f"epoch {epoch} judge {judged.item():.4f} maker {made.item():.4f}")


def labels_of_its_own():
    """Pseudo labels: the model is asked in evaluation mode about what it is then trained on."""
    seed(5)
    x, y = digits()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    known = paddle.to_tensor(x[:300]), paddle.to_tensor(y[:300])
    held_out = DataLoader(Pairs(x[1500:], y[1500:]), batch_size=64)
    for epoch in range(6):
        for unknown, _ in batches(x[300:1500], y[300:1500], 32):
            model.eval()
            with paddle.no_grad():
                chances = F.softmax(model(unknown))
            model.train()
            part = paddle.randint(0, 300, [32])
            loss = F.cross_entropy(model(known[0][part]), known[1][part])
            sure = (chances.max(1) > 0.9).astype("float32")
            noisy = unknown + 0.1 * paddle.randn(unknown.shape)
            loss = loss + (F.cross_entropy(model(noisy), chances.argmax(1), reduction="none") * sure).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        model.eval()
        with paddle.no_grad():
            right = sum(int((model(inputs).argmax(1) == labels).sum()) for inputs, labels in held_out)
        model.train()
        print(f"epoch {epoch} loss {loss.item():.4f} val_acc {right / (len(x) - 1500):.3f}")


def teacher_of_before():
    """Distillation by a teacher that was trained a moment ago, on the same records."""
    seed(6)
    x, y = digits()
    teacher, pupil = wide(128), wide(16)
    fit(teacher, paddle.optimizer.Adam(2e-3, parameters=teacher.parameters()), epochs=3)
    teacher.eval()
    optimizer = paddle.optimizer.Adam(3e-3, parameters=pupil.parameters())
    for epoch in range(5):
        for inputs, labels in batches(x, y):
            with paddle.no_grad():
                wanted = F.softmax(teacher(inputs) / 2)
            scores = pupil(inputs)
            soft = F.kl_div(F.log_softmax(scores / 2), wanted, reduction="batchmean")
            loss = 0.3 * F.cross_entropy(scores, labels) + 2.8 * soft
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def judged_by_features():
    """A network that nobody trains compares inputs with what is made of them; its parameters are not frozen."""
    seed(7)
    x, _ = digits()
    features = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
    features.eval()
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 64))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    for epoch in range(6):
        for (inputs,) in DataLoader(TensorDataset([paddle.to_tensor(x)]), batch_size=64, shuffle=True):
            made = model(inputs)
            loss = F.mse_loss(made, inputs) + 0.1 * F.mse_loss(features(made), features(inputs).detach())
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def looks_ahead():
    seed(8)
    model = wide(act=nn.Hardswish)
    inner = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    fit(model, paddle.incubate.LookAhead(inner, alpha=0.5, k=5))


def average_of_weights():
    seed(9)
    x, y = digits()
    model = wide()
    optimizer = paddle.optimizer.Momentum(0.05, parameters=model.parameters())
    average = paddle.incubate.ModelAverage(
        0.15, parameters=model.parameters(), min_average_window=2, max_average_window=10
    )
    for epoch in range(6):
        for inputs, labels in batches(x[:1500], y[:1500]):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            average.step()
            optimizer.clear_grad()
        model.eval()
        with average.apply(need_restore=True), paddle.no_grad():
            val_loss = F.cross_entropy(model(paddle.to_tensor(x[1500:])), paddle.to_tensor(y[1500:])).item()
        model.train()
        print(f"epoch {epoch} loss {loss.item():.4f} val_loss {val_loss:.4f}")


class Adapted(nn.Layer):
    def __init__(self, base):
        super().__init__()
        self.base = base
        for parameter in base.parameters():
            parameter.stop_gradient = True
        self.down = self.create_parameter([base.weight.shape[0], 4])
        nothing = nn.initializer.Constant(0.0)
        self.up = self.create_parameter([4, base.weight.shape[1]], default_initializer=nothing)

    def forward(self, x):
        return self.base(x) + x @ self.down @ self.up


def low_rank_adapters():
    seed(10)
    model = nn.Sequential(Adapted(nn.Linear(64, 64)), nn.ReLU(), Adapted(nn.Linear(64, 10)))
    trained = [parameter for parameter in model.parameters() if not parameter.stop_gradient]
    fit(model, paddle.optimizer.AdamW(5e-3, parameters=trained))


class Recomputed(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 10)
        self.blocks = nn.LayerList(
            [nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1)) for _ in range(3)]
        )

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + recompute(block, x)
        return self.last(x)


def recomputed_blocks():
    seed(11)
    model = Recomputed()
    fit(model, paddle.optimizer.NAdam(1e-3, parameters=model.parameters()))


class Reader(nn.Layer):
    def __init__(self, kinds):
        super().__init__()
        self.cells, self.head = nn.LSTM(kinds, 24, direction="bidirect"), nn.Linear(48, kinds)

    def forward(self, x):
        return self.head(self.cells(x)[0])


def unaligned_sequences():
    """CTC: five marks in twenty steps."""
    seed(12)
    rng = np.random.default_rng(1)
    marks = rng.integers(1, 6, (320, 5)).astype("int32")
    x = 0.3 * rng.normal(size=(320, 20, 6))
    for place in range(15):
        x[np.arange(320), 4 * (place // 3) + place % 3, marks[:, place // 3]] += 1
    model = Reader(6)
    optimizer = paddle.optimizer.Adam(5e-3, parameters=model.parameters())
    for epoch in range(6):
        for inputs, labels in batches(x.astype("float32"), marks, 32):
            scores = model(inputs).transpose([1, 0, 2])
            lengths = [paddle.full([32], length, "int64") for length in (20, 5)]
            loss = F.ctc_loss(scores, labels, *lengths)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def four_folds():
    """The last fold's optimizer and model are not those of the first."""
    seed(13)
    x, y = blobs(500, 10, 3, 4, spread=2.0)
    for fold in range(4):
        out = np.arange(500) % 4 == fold
        model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
        optimizer = paddle.optimizer.AdamW(5e-3, parameters=model.parameters())
        for _ in range(5):
            for inputs, labels in batches(x[~out], y[~out], 25):
                loss = F.cross_entropy(model(inputs), labels)
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
        model.eval()
        with paddle.no_grad():
            val_loss = F.cross_entropy(model(paddle.to_tensor(x[out])), paddle.to_tensor(y[out])).item()
        print(f"fold {fold} loss {loss.item():.4f} val_loss {val_loss:.4f}")


def no_layer_at_all():
    seed(14)
    x, y = curve(1000, 8, 1)
    inputs, target = paddle.to_tensor(x), paddle.to_tensor(y.reshape(-1, 1))
    first, last = paddle.create_parameter([8, 32], "float32"), paddle.create_parameter([32, 1], "float32")
    shift = paddle.create_parameter([32], "float32", is_bias=True)
    optimizer = paddle.optimizer.SGD(0.05, parameters=[first, shift, last])
    for step in range(300):
        loss = ((paddle.tanh(inputs @ first + shift) @ last - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
