"""One optimizer that trains several models, as actor and critic: the layers and parameters of each are looked at."""

import sys

import pytest

PROGRAM = """
import FRAMEWORK as f
nn = f.nn


class Agent(getattr(nn, "Module", None) or nn.Layer):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def act(self, x):  # `forward` is never called
        return self.actor(x), self.critic(x)


agent = Agent()
opt = f.optim.SGD(agent.parameters(), lr=0.1) if "torch" in f.__name__ else f.optimizer.SGD(0.1, agent.parameters())
for step in range(40):
    if step % 4 == 0:
        x = f.randn([16, 4])
    action, value = agent.act(x)
    (action.square().mean() + (value - 1).square().mean()).backward()
    opt.step()
    opt.clear_grad() if "paddle" in f.__name__ else opt.zero_grad()
"""


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_each_model_of_an_optimizer_is_looked_at(probed, framework):
    probed.write("train.py", PROGRAM.replace("FRAMEWORK", framework))
    outcome = probed(sys.executable, "train.py", OMP_NUM_THREADS="1")
    # In PaddlePaddle a model is known once it is called.
    assert {event["holder"] for event in outcome.of("model")} == {"Agent" if framework == "torch" else ""}
    names = {event["model"]: event["variable"] for event in outcome.of("model")}
    looks = {}
    for event in outcome.of("tensors"):
        if event["step"] > 1:  # before the first step it is not known that only parts are called
            seen = looks.setdefault(event["step"], {})
            assert event["model"] not in seen, "once a step"
            seen[event["model"]] = [p["i"] for p in event["params"]]
            assert all(p["g"] > 0 and p["ratio"] > 0 for p in event["params"])
            assert len(event["modules"]) == 4, "the root and its three layers"
    assert len(looks) > 5
    for seen in looks.values():
        assert sorted(names[number] for number in seen) == ["actor", "critic"]
        assert all(len(numbers) == 4 for numbers in seen.values())
