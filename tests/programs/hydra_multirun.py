"""A Hydra application; with `--multirun` the basic launcher runs all jobs in one process."""

import hydra
import torch
from hydra.core.config_store import ConfigStore

ConfigStore.instance().store(name="config", node={"lr": 0.1, "steps": 12, "optimizer": {"momentum": 0.0}})


@hydra.main(version_base=None, config_path=None, config_name="config")
def main(config):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=float(config.lr), momentum=config.optimizer.momentum)
    inputs = torch.ones(8, 4)
    for _ in range(config.steps):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    main()
