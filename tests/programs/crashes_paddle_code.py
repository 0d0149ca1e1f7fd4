"""Faults of PaddlePaddle programs: settings, packages, processes, mistakes of the code."""

import json
import os
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from crashes import fault
from crashes_paddle_nets import Numbers, Perceptron
from paddle import nn
from paddle.io import DataLoader, IterableDataset, TensorDataset, random_split


@fault("data_decode_error", "json_unreadable")
def labels_in_broken_json():
    with open("labels.json", "w") as file:
        file.write('{"shapes": [')
    with open("labels.json") as file:
        json.load(file)


@fault("data_decode_error", "text_encoding_wrong")
def dictionary_in_gbk():
    with open("ppocr_keys.txt", "wb") as file:
        file.write("汉字字典".encode("gbk"))
    with open("ppocr_keys.txt", encoding="utf-8") as file:
        file.readlines()


@fault("config_error", "invalid_hyperparameter")
def dropout_in_percent():
    nn.Dropout(30)(paddle.rand([3]))


@fault("config_error", "invalid_hyperparameter")
def learning_rate_as_text():
    paddle.optimizer.Adam(learning_rate="1e-3", parameters=Perceptron().parameters())


@fault("config_error", "cuda_device_missing", "accelerator_unavailable")
def unknown_device():
    paddle.set_device("tpu:0")


@fault("cuda_driver_mismatch", "accelerator_unavailable")
def gpu_on_a_build_without():
    paddle.set_device("gpu:0")


@fault("config_error", "split_lengths_wrong")
def split_lengths_do_not_add_up():
    random_split(Numbers(lambda i: i, 30), [20, 5])


@fault("config_error", "loader_argument_conflict")
def sampler_and_batch_size():
    data = Numbers(lambda i: i)
    sampler = paddle.io.BatchSampler(data, batch_size=2)
    DataLoader(data, batch_sampler=sampler, batch_size=4, shuffle=True)


@fault("config_error", "loader_argument_conflict")
def shuffled_stream():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    DataLoader(Stream(), shuffle=True)


@fault("config_error", "config_file_invalid")
def settings_with_a_tab():
    import yaml

    yaml.safe_load("Global:\n\tepoch_num: 500\n")


@fault("api_version_mismatch", "removed_module_imported", "attribute_of_other_version", "removed_api_used")
def fluid_is_gone():
    import paddle.fluid as fluid  # noqa: F401


@fault("api_version_mismatch", "attribute_of_other_version", "removed_api_used")
def data_layer_of_old_releases():
    with paddle.fluid.dygraph.guard():
        pass


@fault("api_version_mismatch", "import_name_moved", "removed_module_imported")
def name_that_moved():
    from paddle.vision.models import ResNet50_vd_ssld_v9  # noqa: F401


@fault("api_version_mismatch", "removed_argument_used", "forward_signature_mismatch")
def argument_of_old_releases():
    nn.Linear(4, 2, act="relu")


@fault("missing_dependency", "import_module_missing")
def package_is_not_installed():
    import paddleslim_for_tests  # noqa: F401


@fault("pickling_error", "unpicklable_object")
def lambda_in_a_checkpoint():
    paddle.save({"warmup": lambda step: step / 100}, "schedule.pdopt")


@fault("dataloader_worker_died", "dataloader_worker_killed")
def worker_kills_itself():
    data = Numbers(lambda i: os.kill(os.getpid(), 9))
    for _ in DataLoader(data, num_workers=1, use_shared_memory=False):
        pass


@fault("nccl_or_collective", "process_group_not_initialised", "backend_unavailable")
def collective_without_a_group():
    paddle.distributed.all_reduce(paddle.rand([2]), group=paddle.distributed.new_group([0, 1]))


@fault("compile_error", "to_static_failed")
def control_flow_that_cannot_become_static():
    @paddle.jit.to_static(full_graph=True)
    def step(x):
        for _ in range(3):
            if x.sum() > 0:
                y = x.numpy()
            x = x + y
        return x

    step(paddle.rand([2]))


@fault("type_error_user_code", "attribute_missing", "attribute_of_other_version")
def misspelt_layer():
    Perceptron().haed.weight


@fault("type_error_user_code", "module_init_not_called")
def constructor_forgets_its_parent():
    class Forgetful(nn.Layer):
        def __init__(self):
            self.layer = nn.Linear(2, 2)

    Forgetful()


@fault("type_error_user_code", "module_forward_missing")
def forward_is_missing():
    class Backbone(nn.Layer):
        def foward(self, x):
            return x

    Backbone()(paddle.rand([1]))


@fault("type_error_user_code", "forward_signature_mismatch")
def mask_that_forward_does_not_take():
    Perceptron()(paddle.rand([2, 20]), attention_mask=paddle.ones([2]))


@fault("type_error_user_code", "scalar_conversion_of_multi_element")
def number_of_a_whole_vector():
    float(paddle.rand([3]))


@fault("type_error_user_code", "boolean_of_tensor")
def condition_on_a_whole_batch():
    if paddle.rand([4]) > 0.5:
        print("never")


@fault("type_error_user_code", "batch_structure_mismatch")
def loader_gives_lists():
    data = TensorDataset([paddle.rand([8, 20])])
    for batch in DataLoader(data, batch_size=4):
        Perceptron()(batch)


@fault("type_error_user_code", "batch_structure_mismatch")
def lstm_output_is_a_tuple():
    nn.Sequential(nn.LSTM(4, 6), nn.Linear(6, 2))(paddle.rand([3, 5, 4]))


@fault("type_error_user_code", "dataset_returned_none")
def dataset_forgets_to_return():
    paddle.io.dataloader.collate.default_collate_fn([None, None])


@fault("type_error_user_code", "none_used")
def model_forgets_to_return():
    class Mute(nn.Layer):
        def forward(self, x):
            F.relu(x)

    Mute()(paddle.rand([2])).sum()


@fault("type_error_user_code", "key_missing")
def batch_without_its_label():
    for batch in [{"image": paddle.rand([1])}]:
        batch["label"]


@fault("type_error_user_code", "zero_division")
def average_over_no_batches():
    print(sum([]) / len([]))


@fault("type_error_user_code", "name_undefined")
def name_was_never_set():
    warmup_steps_of_nowhere + 1  # noqa: F821


@fault("data_empty", "dataset_empty")
def statistics_of_an_empty_folder():
    data = Numbers(lambda i: i, 0)
    paddle.io.RandomSampler(data)


@fault("data_empty", "dataset_empty", "empty_tensor_reduced")
def concat_of_an_empty_epoch():
    np.concatenate([])


@fault("host_oom_killed", "host_out_of_memory")
def array_larger_than_any_memory():
    paddle.to_tensor(np.ones((1 << 21, 1 << 26), "float32"))


@fault("interrupted", "interrupted_by_user")
def user_presses_control_c():
    for _ in DataLoader(Numbers(lambda i: np.zeros(2)), batch_size=2):
        raise KeyboardInterrupt


@fault("other", "recursion_limit")
def module_calls_itself():
    class Loop(nn.Layer):
        def forward(self, x):
            return self(x)

    sys.setrecursionlimit(300)
    try:
        Loop()(paddle.rand([1]))
    finally:
        sys.setrecursionlimit(1000)
