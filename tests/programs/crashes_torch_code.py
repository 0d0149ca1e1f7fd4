"""Faults of torch programs: processes, compilers, mistakes of the code."""

import copy
import os
import pickle
import socket
import sys

import numpy as np
import torch
import torch.distributed as dist
from crashes import fault
from crashes_torch_nets import Perceptron
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


@fault("pickling_error", "unpicklable_object")
def lambda_in_a_checkpoint():
    torch.save({"warmup": lambda step: step / 100}, "schedule.pt")


@fault("pickling_error", "worker_spawn_pickle_error", "unpicklable_object")
def spawned_workers_with_a_lambda():
    loader = DataLoader(
        TensorDataset(torch.rand(4, 2)),
        num_workers=1,
        multiprocessing_context="spawn",
        collate_fn=lambda batch: batch,
    )
    next(iter(loader))


@fault("checkpoint_load_error", "checkpoint_class_not_found")
def pickle_names_a_class_that_is_gone():
    sys.modules["__main__"].Vanished = type("Vanished", (), {"__module__": "__main__"})
    blob = pickle.dumps(sys.modules["__main__"].Vanished())
    del sys.modules["__main__"].Vanished
    pickle.loads(blob)


@fault("dataloader_worker_died", "dataloader_worker_killed")
def worker_kills_itself():
    class Deadly(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            os.kill(os.getpid(), 9)

    for _ in DataLoader(Deadly(), num_workers=1):
        pass


@fault("timeout", "dataloader_timeout")
def worker_is_slower_than_the_timeout():
    class Slow(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            import time

            time.sleep(2.5)
            return index

    for _ in DataLoader(Slow(), num_workers=1, timeout=1):
        pass


@fault("port_in_use", "address_in_use")
def rendezvous_on_a_taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        dist.init_process_group("gloo", init_method=address, rank=0, world_size=1)


@fault("port_in_use", "address_in_use")
def dashboard_on_a_taken_port():
    with socket.socket() as taken, socket.socket() as other:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        other.bind(taken.getsockname())


@fault("nccl_or_collective", "process_group_not_initialised")
def average_before_init():
    dist.all_reduce(torch.rand(3))


@fault("nccl_or_collective", "rendezvous_env_missing")
def rank_is_not_in_the_environment():
    os.environ.pop("RANK", None)
    dist.init_process_group("gloo")


@fault("nccl_or_collective", "backend_unavailable")
def nccl_on_a_build_without():
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29871", rank=0, world_size=1)


@fault("unsupported_op", "backend_op_missing")
def sparse_tensors_do_not_know_this():
    torch.rand(3, 3).to_sparse().cumprod(0)


@fault("compile_error", "compile_graph_break", "compile_backend_failed")
def full_graph_with_a_break():
    @torch.compile(backend="eager", fullgraph=True)
    def step(x):
        torch._dynamo.graph_break()
        return x + 1

    step(torch.rand(2))


@fault("compile_error", "compile_backend_failed")
def backend_of_compile_fails():
    def broken(graph, inputs):
        raise AssertionError("cannot lower this graph")

    torch.compile(lambda x: x * 2, backend=broken)(torch.rand(2))


@fault("compile_error", "torchscript_failed")
def script_of_a_function_it_cannot_read():
    @torch.jit.script
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor.upper()


@fault("type_error_user_code", "attribute_missing")
def misspelt_layer():
    Perceptron().haed.weight


@fault("type_error_user_code", "module_init_not_called")
def constructor_forgets_its_parent():
    class Forgetful(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2, 2)

    Forgetful()


@fault("type_error_user_code", "module_forward_missing")
def forward_is_misspelt():
    class Backbone(nn.Module):
        def foward(self, x):
            return x

    Backbone()(torch.rand(1))


@fault("type_error_user_code", "forward_signature_mismatch")
def mask_that_forward_does_not_take():
    Perceptron()(torch.rand(2, 20), attention_mask=torch.ones(2))


@fault("type_error_user_code", "optimizer_empty_params")
def layers_kept_in_a_list():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(2, 2)]

    torch.optim.Adam(Hidden().parameters())


@fault("type_error_user_code", "optimizer_non_leaf")
def optimizer_of_a_product():
    torch.optim.SGD([torch.rand(2, requires_grad=True) * 2], lr=0.1)


@fault("type_error_user_code", "numpy_on_grad_tensor")
def plotting_a_live_loss():
    np.mean([Perceptron()(torch.rand(1, 20)).sum().numpy()])


@fault("type_error_user_code", "boolean_of_tensor")
def condition_on_a_whole_batch():
    if torch.rand(4) > 0.5:
        print("never")


@fault("type_error_user_code", "scalar_conversion_of_multi_element")
def item_of_a_vector():
    torch.rand(3).item()


@fault("type_error_user_code", "batch_structure_mismatch")
def lstm_output_is_a_tuple():
    nn.Sequential(nn.LSTM(4, 6), nn.Linear(6, 2))(torch.rand(3, 1, 4))


@fault("type_error_user_code", "dataset_returned_none")
def dataset_forgets_to_return():
    class Silent(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            torch.rand(2)

    next(iter(DataLoader(Silent(), batch_size=2)))


@fault("type_error_user_code", "none_used", "batch_structure_mismatch")
def model_forgets_to_return():
    class Mute(nn.Module):
        def forward(self, x):
            x.relu()

    Mute()(torch.rand(2)).sum()


@fault("type_error_user_code", "deepcopy_non_leaf")
def copy_of_a_module_with_a_cached_output():
    net = nn.Linear(2, 2)
    net.cached = net(torch.rand(1, 2))
    copy.deepcopy(net)


@fault("type_error_user_code", "grad_scaler_misuse")
def unscale_is_called_twice():
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(net(torch.rand(1, 2)).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


@fault("type_error_user_code", "parameter_reassigned")
def weight_replaced_by_a_tensor():
    nn.Linear(2, 2).weight = torch.zeros(2, 2)


@fault("type_error_user_code", "name_undefined")
def name_from_another_cell():
    learning_rate_of_cell_three * 2  # noqa: F821


@fault("type_error_user_code", "key_missing")
def checkpoint_without_the_optimizer():
    torch.save({"model": Perceptron().state_dict()}, "resume.pt")
    torch.load("resume.pt")["optimizer_state"]


@fault("type_error_user_code", "zero_division")
def average_over_no_batches():
    total, batches = 0.0, 0
    print(total / batches)


@fault("type_error_user_code", "syntax_error")
def source_with_an_open_bracket():
    compile("loss = criterion(output, target\nloss.backward()\n", "train_gan.py", "exec")


@fault("type_error_user_code", "optimizer_duplicate_params")
def head_stands_in_two_groups():
    net = Perceptron()
    torch.optim.SGD([{"params": net.parameters()}, {"params": net.head.parameters()}], lr=0.1)


@fault("interrupted", "interrupted_by_user")
def user_presses_control_c():
    for x in DataLoader(TensorDataset(torch.rand(4, 2))):
        raise KeyboardInterrupt


@fault("other", "recursion_limit")
def module_calls_itself():
    class Loop(nn.Module):
        def forward(self, x):
            return self(x)

    Loop()(torch.rand(1))


@fault("host_oom_killed", "host_out_of_memory")
def matrix_larger_than_any_memory():
    torch.empty(1 << 25, 1 << 25)


@fault("host_oom_killed", "host_out_of_memory")
def array_larger_than_any_memory():
    np.ones((1 << 21, 1 << 26))
