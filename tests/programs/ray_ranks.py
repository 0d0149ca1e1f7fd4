"""Two actors of Ray train one model with gloo; with `planted` rank 1 fails in step 8, with `hang` it waits there."""

import socket
import sys
import time

import ray


@ray.remote(num_cpus=1, resources={"slot": 1})
class Rank:
    def node(self):
        return ray.get_runtime_context().get_node_id()

    def port(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return free.getsockname()[1]

    def train(self, rank, port, planted):
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
        torch.manual_seed(0)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        inputs = torch.randn(32, 4)
        for step in range(1, 21):
            if planted == "planted" and step == 8 and rank == 1:
                raise ValueError("planted")  # LINE planted
            while planted == "hang" and step == 8 and rank == 1:
                time.sleep(0.1)  # LINE hang
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
            loss.backward()
            optimizer.step()
        dist.destroy_process_group()
        return loss.item()


ray.init()
ranks = [Rank.remote() for _ in range(2)]
print("nodes", len(set(ray.get([each.node.remote() for each in ranks]))))
port = ray.get(ranks[0].port.remote())
print("losses", ray.get([each.train.remote(rank, port, "".join(sys.argv[1:])) for rank, each in enumerate(ranks)]))
