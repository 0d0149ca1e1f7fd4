"""Trains with the trainer of a library: python trainers.py lightning|transformers|paddle|skorch|keras|fastai"""

import sys


def with_lightning():
    import lightning as L
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Lit(L.LightningModule):
        def __init__(self, hidden=8, lr=0.01):
            super().__init__()
            self.save_hyperparameters()
            self.net = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.log("val_acc", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

    L.seed_everything(0)
    x = torch.randn(64, 4)
    data = TensorDataset(x, (x.sum(1) > 0).long())
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    model = Lit(hidden=16)
    trainer = L.Trainer(max_epochs=3, gradient_clip_val=1.0, accelerator="cpu", **options)
    trainer.fit(model, DataLoader(data, 16, shuffle=True), DataLoader(data, 64))
    return [sorted(model.hparams.items()), float(trainer.callback_metrics["val_acc"])]


def with_transformers():
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(intermediate_size=16, **sizes))
    ids = torch.randint(0, 50, (32, 8))
    rows = [{"input_ids": row, "labels": row[0] % 2} for row in ids]
    given = TrainingArguments(
        "out", num_train_epochs=2, learning_rate=1e-3, eval_strategy="epoch", logging_steps=2, save_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(
        model, given, train_dataset=rows, eval_dataset=rows, compute_metrics=lambda outputs: {"accuracy": 0.5}
    )
    trainer.train()
    return [[row["step"], row["eval_loss"]] for row in trainer.state.log_history if "eval_loss" in row]


def with_paddle():
    import paddle

    paddle.seed(0)
    x = paddle.randn([32, 4])
    data = paddle.io.TensorDataset([x, (x.sum(1, keepdim=True) > 0).astype("int64")])
    model = paddle.Model(paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 2)))
    model.prepare(paddle.optimizer.Adam(0.01, parameters=model.parameters()), paddle.nn.CrossEntropyLoss())
    model.fit(data, batch_size=8, epochs=2, verbose=0)
    return [float(parameter.sum()) for parameter in model.parameters()]


def with_skorch():
    import torch
    from skorch import NeuralNetClassifier
    from torch import nn

    class Net(nn.Module):
        def __init__(self, hidden=8):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))

        def forward(self, x):
            return self.net(x)

    torch.manual_seed(0)
    x = torch.randn(32, 4)
    net = NeuralNetClassifier(
        Net, criterion=nn.CrossEntropyLoss, module__hidden=16, lr=0.05, max_epochs=2, train_split=None, verbose=0
    )
    net.fit(x, (x.sum(1) > 0).long())
    return [float(parameter.sum().detach()) for parameter in net.module_.parameters()]


def with_keras():
    import os

    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(0)
    x = keras.random.normal((32, 4)).cpu().numpy()
    model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x, x.sum(1) > 0, batch_size=8, epochs=2, verbose=0)
    return [float(weight.sum()) for weight in model.get_weights()]


def with_fastai():
    import torch
    from fastai.basics import DataLoader, DataLoaders, Learner, set_seed
    from fastai.callback.all import ProgressCallback

    set_seed(0)
    x = torch.randn(64, 4)
    rows = list(zip(x, (x.sum(1) > 0).long()))
    train, valid = DataLoader(rows[:48], bs=8, shuffle=True, num_workers=0), DataLoader(rows[48:], bs=8, num_workers=0)
    model = torch.nn.Linear(4, 2)
    learner = Learner(DataLoaders(train, valid), model, loss_func=torch.nn.CrossEntropyLoss(), cbs=[])
    learner.remove_cb(ProgressCallback)
    with learner.no_logging():
        learner.fit_one_cycle(2, 0.01)
        learner.validate()
    return [float(parameter.sum().detach()) for parameter in model.parameters()]


if __name__ == "__main__":
    import json

    print(json.dumps(globals()["with_" + sys.argv[1]]()))
