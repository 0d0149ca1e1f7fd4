"""Ray Train trains one model on two workers; with `planted` rank 1 fails after step 8, with `hang` it waits there."""

import sys
import time

import ray
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model


def loop(config):
    import torch

    torch.manual_seed(0)
    model = prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.randn(32, 4)
    for step in range(20):
        is_odd = step == 8 and train.get_context().get_world_rank() == 1
        if is_odd and config["planted"] == "planted":
            raise ValueError("planted")  # LINE planted
        while is_odd and config["planted"] == "hang":
            time.sleep(0.1)  # LINE hang
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
        optimizer.step()


if __name__ == "__main__":
    ray.init()
    TorchTrainer(
        loop,
        train_loop_config={"planted": sys.argv[1]},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"slot": 1}),
        run_config=RunConfig(storage_path=sys.argv[2]),
    ).fit()
