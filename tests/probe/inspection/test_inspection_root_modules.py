"""Facts about an outermost model."""

import pytest

from labbook.probe.inspection.root_modules import RootModule, stochastic_modules


def test_a_container_in_training_mode_is_not_stochastic_while_its_modules_are_in_evaluation_mode():
    import torch

    backbone = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    model = torch.nn.Sequential(backbone, torch.nn.Linear(4, 2))
    found = stochastic_modules(model.modules(), torch.nn.modules.batchnorm._BatchNorm)
    root = RootModule(model, 0, found, "")
    assert root.stochastic and root.has_stochastic_in(True) and root.has_stochastic_in(False)
    backbone.eval()
    assert root.training() and not root.has_stochastic_in(True)
    backbone[2].train()
    assert root.has_stochastic_in(True)


def test_what_a_model_computes_on_access_is_not_asked_for():
    import torch

    asked = []

    class Configured(torch.nn.Linear):
        def __getattr__(self, name):
            asked.append(name)
            return super().__getattr__(name)

    recurrent = torch.nn.GRU(4, 4, num_layers=2, dropout=0.1)
    model = torch.nn.Sequential(Configured(4, 4), recurrent)
    asked.clear()
    assert stochastic_modules(model.modules(), torch.nn.modules.batchnorm._BatchNorm) == [recurrent] and not asked


CALLED_PARTS = """
import paddle

class Factors(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.user, self.item = paddle.nn.Embedding(500, 4), paddle.nn.Embedding(9, 4)

    def forward(self, user, item):
        return (self.user(user) * self.item(item)).sum(-1)

model = Factors()
optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())
for step in range(700):
    user, item = paddle.randint(400, 500, [8]), paddle.randint(0, 9, [8])
    loss = model(user, item).square().mean() + sum((part ** 2).mean() for part in (model.user(user), model.item(item)))
    loss.backward(); optimizer.step(); optimizer.clear_grad()
print(0)
"""


@pytest.mark.paddle
@pytest.mark.forked("paddle")
def test_what_a_model_is_given_is_seen_where_its_parts_are_called_by_themselves_too(run, healthy):
    outcome = healthy(run(CALLED_PARTS, fork="paddle"))
    assert {event["root"]: event["part_of"] for event in outcome.of("model")} == {"Factors": [], "Embedding": [0]}
    batches = outcome.of("batch")
    assert batches[-1]["step"] > 300
    assert all([leaf["min"] >= 400 for leaf in event["leaves"]] == [True, False] for event in batches)
