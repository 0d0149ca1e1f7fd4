"""Faults of torch programs: indices, checkpoints, data, settings, packages."""

import argparse
import configparser
import csv
import io
import json
import os

import numpy as np
import torch
import torch.nn.functional as F
from crashes import fault
from crashes_torch_nets import Perceptron
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split


@fault("index_out_of_range", "embedding_index_out_of_range", "index_out_of_bounds")
def token_beyond_the_vocabulary():
    nn.Embedding(100, 8)(torch.tensor([[5, 17, 100]]))


@fault("index_out_of_range", "index_out_of_bounds")
def sample_beyond_the_array():
    torch.rand(12, 4)[12]


@fault("index_out_of_range", "axis_out_of_range")
def softmax_over_a_missing_axis():
    torch.rand(9).softmax(dim=1)


@fault("index_out_of_range", "one_hot_class_too_large")
def one_hot_of_an_unknown_class():
    F.one_hot(torch.tensor([0, 4, 6]), num_classes=6)


@fault("index_out_of_range", "index_out_of_bounds")
def gather_beyond_its_axis():
    torch.rand(3, 5).gather(1, torch.tensor([[5], [0], [1]]))


@fault("index_out_of_range", "list_index_out_of_range")
def worker_reads_beyond_its_list():
    class Files(Dataset):
        names = ["a.npy", "b.npy"]

        def __len__(self):
            return 5

        def __getitem__(self, index):
            return len(self.names[index])

    for _ in DataLoader(Files(), batch_size=2, num_workers=1):
        pass


@fault("checkpoint_key_mismatch", "checkpoint_keys_mismatch")
def checkpoint_of_another_network():
    Perceptron().load_state_dict(nn.Sequential(nn.Linear(20, 12)).state_dict())


@fault("checkpoint_key_mismatch", "checkpoint_prefix_mismatch")
def checkpoint_of_a_wrapped_network():
    state = {f"module.{name}": value for name, value in Perceptron().state_dict().items()}
    torch.save(state, "last.pt")
    Perceptron().load_state_dict(torch.load("last.pt"))


@fault("checkpoint_size_mismatch", "checkpoint_size_mismatch")
def checkpoint_with_more_classes():
    Perceptron(classes=5).load_state_dict(Perceptron(classes=9).state_dict())


@fault("checkpoint_size_mismatch", "optimizer_state_mismatch")
def optimizer_state_of_another_network():
    state = torch.optim.Adam(Perceptron().parameters()).state_dict()
    torch.optim.Adam(nn.Linear(2, 2).parameters()).load_state_dict(state)


@fault("checkpoint_load_error", "checkpoint_corrupt")
def checkpoint_cut_by_a_full_disk():
    torch.save(Perceptron().state_dict(), "epoch3.pt")
    with open("epoch3.pt", "r+b") as file:
        file.truncate(900)
    torch.load("epoch3.pt")


@fault("checkpoint_load_error", "checkpoint_corrupt")
def checkpoint_is_a_saved_web_page():
    with open("resnet.pth", "w") as file:
        file.write("<!DOCTYPE html><html><body>rate limit</body></html>")
    torch.load("resnet.pth", weights_only=False)


@fault("checkpoint_load_error", "checkpoint_weights_only_blocked")
def whole_module_loaded_with_weights_only():
    torch.save(Perceptron(), "whole.pt")
    torch.load("whole.pt", weights_only=True)


@fault("file_not_found", "checkpoint_missing", "file_not_found")
def checkpoint_was_never_written():
    torch.load("runs/best_model.pth")


@fault("file_not_found", "file_not_found")
def image_listed_but_not_there():
    from PIL import Image

    class Pictures(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return np.asarray(Image.open(f"images/{index:05d}.jpg"))

    next(iter(DataLoader(Pictures(), num_workers=1)))


@fault("permission_error", "permission_denied")
def results_of_somebody_else():
    with open("/tmp/crashes-results.csv", "w"):
        os.chmod("/tmp/crashes-results.csv", 0)
    everything_is_allowed = os.geteuid() == 0
    try:
        if everything_is_allowed:
            os.seteuid(65534)
        open("/tmp/crashes-results.csv")
    finally:
        if everything_is_allowed:
            os.seteuid(0)
        os.remove("/tmp/crashes-results.csv")


@fault("data_decode_error", "image_file_unreadable")
def image_is_cut_off():
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.random.randint(255, size=(64, 64, 3), dtype=np.uint8)).save(buffer, "PNG")
    Image.open(io.BytesIO(buffer.getvalue()[:700])).load()


@fault("data_decode_error", "image_file_unreadable")
def image_is_a_text():
    from PIL import Image

    Image.open(io.BytesIO(b"not an image"))


@fault("data_decode_error", "json_unreadable")
def annotations_with_a_trailing_comma():
    json.loads('{"images": [1, 2,], "categories": []}')


@fault("data_decode_error", "text_encoding_wrong")
def corpus_in_gbk():
    with open("corpus.txt", "wb") as file:
        file.write("训练语料".encode("gbk"))
    with open("corpus.txt", encoding="utf-8") as file:
        file.read()


@fault("data_decode_error", "array_file_unreadable")
def features_of_a_broken_npy_file():
    with open("features.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00")
    np.load("features.npy")


@fault("data_decode_error", "array_file_unreadable", "table_unreadable", "input_data_conversion_error")
def table_with_a_word_in_a_number_column():
    for row in csv.DictReader(io.StringIO("width,height\n3,4\nunknown,5\n")):
        float(row["width"])


@fault("data_empty", "dataset_empty")
def loader_shuffles_an_empty_set():
    DataLoader(TensorDataset(torch.rand(0, 4)), batch_size=2, shuffle=True)


@fault("data_empty", "dataset_empty", "empty_tensor_reduced")
def stack_of_an_empty_epoch():
    torch.stack([])


@fault("data_empty", "empty_tensor_reduced")
def maximum_of_no_detections():
    torch.rand(0, 5).max()


@fault("config_error", "split_lengths_wrong")
def split_lengths_do_not_add_up():
    random_split(TensorDataset(torch.rand(30, 2)), [20, 5])


@fault("config_error", "loader_argument_conflict")
def sampler_and_shuffle():
    data = TensorDataset(torch.rand(8, 2))
    DataLoader(data, sampler=torch.utils.data.SequentialSampler(data), shuffle=True)


@fault("config_error", "loader_argument_conflict")
def shuffled_stream():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(4))

    DataLoader(Stream(), shuffle=True)


@fault("config_error", "invalid_hyperparameter")
def learning_rate_below_zero():
    torch.optim.AdamW(Perceptron().parameters(), lr=-3e-4)


@fault("config_error", "invalid_hyperparameter")
def dropout_in_percent():
    nn.Dropout(30)


@fault("config_error", "command_line_invalid")
def unknown_option_of_the_program():
    parser = argparse.ArgumentParser(prog="finetune.py")
    parser.add_argument("--epochs", type=int)
    parser.parse_args(["--epochs", "3", "--warm-up", "10"])


@fault("config_error", "config_file_invalid")
def settings_with_a_broken_indent():
    import yaml

    yaml.safe_load("model:\n  width: 3\n height: [1, 2\n")


@fault("config_error", "config_file_invalid", "key_missing")
def option_missing_in_the_settings():
    settings = configparser.ConfigParser()
    settings.read_string("[model]\nwidth = 3\n")
    settings.get("model", "depth")


@fault("config_error", "scheduler_exhausted")
def one_cycle_runs_out_of_steps():
    optimizer = torch.optim.SGD(Perceptron().parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=4)
    for _ in range(6):
        optimizer.step()
        schedule.step()


@fault("config_error", "cuda_device_missing")
def device_of_an_unknown_kind():
    torch.rand(3).to("gpu")


@fault("cuda_driver_mismatch", "accelerator_unavailable")
def cuda_on_a_machine_without():
    torch.rand(3).cuda()


@fault("checkpoint_load_error", "checkpoint_device_unavailable")
def checkpoint_made_on_a_gpu():
    registry = torch.serialization._package_registry
    before = list(registry)
    torch.serialization.register_package(1, lambda storage: "cuda:0", lambda storage, location: None)
    try:
        torch.save(torch.rand(2), "from_gpu.pt")
    finally:
        registry[:] = before
    torch.load("from_gpu.pt")


@fault("missing_dependency", "import_module_missing")
def package_is_not_installed():
    import pointnet_ops_for_tests  # noqa: F401


@fault("api_version_mismatch", "import_name_moved", "removed_module_imported")
def name_was_moved_away():
    from torch.utils.data.dataloader import default_convert_all  # noqa: F401


@fault("missing_dependency", "import_path_wrong", "import_module_missing")
def folder_of_the_project_is_not_on_the_path():
    from utils.losses_of_ours import focal  # noqa: F401


@fault("api_version_mismatch", "attribute_of_other_version", "removed_api_used")
def alias_that_numpy_removed():
    np.zeros(3, dtype=np.float)


@fault("api_version_mismatch", "removed_argument_used", "forward_signature_mismatch")
def argument_that_is_gone():
    torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD(Perceptron().parameters(), lr=0.1), verbose=True)
