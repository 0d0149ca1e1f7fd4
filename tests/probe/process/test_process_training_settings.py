"""Settings in the variables of running functions are read anew for each training."""

import sys


def test_a_dictionary_of_each_call_is_read_with_each_optimizer(probed):
    probed.write(
        "search.py",
        """
import torch


def run(cfg):
    net = torch.nn.Linear(2, cfg["hidden"])
    opt = torch.optim.SGD(net.parameters(), lr=cfg["lr"])
    for _ in range(3):
        opt.zero_grad()
        net(torch.randn(4, 2)).mean().backward()
        opt.step()


for hidden in (16, 32, 64):
    run({"hidden": hidden, "lr": 0.1})
""",
    )
    outcome = probed(sys.executable, "search.py", OMP_NUM_THREADS="1")
    values = [event["values"]["hidden"] for event in outcome.of("arguments") if event["source"] == "dict"]
    assert values == [16, 32, 64]
