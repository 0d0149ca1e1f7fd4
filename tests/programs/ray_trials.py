"""Ray Tune runs two trials, each a training in a worker of its own; one fails in step 6."""

import ray
from ray import tune


def objective(config):
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    inputs = torch.randn(32, 4)
    for step in range(1, 21):
        if config["lr"] == 0.1 and step == 6:
            raise ValueError("planted")  # LINE planted
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        tune.report({"reported": loss.item()})


ray.init(log_to_driver=False)
space = {"lr": tune.grid_search([0.01, 0.1]), "width": 4}
tune.Tuner(objective, param_space=space, tune_config=tune.TuneConfig(metric="reported", mode="min")).fit()
