"""Faults of torch programs: shapes, types of numbers, gradients."""

import numpy as np
import torch
import torch.nn.functional as F
from crashes import fault
from crashes_torch_nets import ConvNet, Perceptron, train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@fault("shape_mismatch", "shape_mismatch_linear")
def images_are_not_flattened_for_the_head():
    train(ConvNet(), [(torch.rand(6, 3, 40, 40), torch.zeros(6).long())], nn.CrossEntropyLoss())


@fault("shape_mismatch", "shape_mismatch_linear", "shape_mismatch_matmul")
def sequence_vector_into_a_wider_layer():
    embedded = nn.Embedding(50, 24)(torch.randint(50, (3, 11)))
    nn.Sequential(nn.Linear(32, 16), nn.GELU())(embedded)


@fault("shape_mismatch", "shape_mismatch_conv_channels")
def grey_images_into_a_colour_network():
    ConvNet()(torch.rand(5, 1, 32, 32))


@fault("shape_mismatch", "conv_input_rank_wrong", "shape_mismatch_conv_channels")
def batch_axis_is_squeezed_away():
    nn.Conv1d(6, 4, 3)(torch.rand(2, 3, 6, 30))


@fault("shape_mismatch", "spatial_size_collapsed")
def image_too_small_for_its_pools():
    net = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Conv2d(3, 3, 3, padding=1), nn.MaxPool2d(3))])
    net(torch.rand(2, 3, 24, 24))


@fault("shape_mismatch", "spatial_size_collapsed")
def kernel_larger_than_the_signal():
    nn.Conv1d(4, 4, 9)(torch.rand(2, 4, 5))


@fault("shape_mismatch", "shape_mismatch_broadcast")
def residual_of_another_width():
    x = torch.rand(7, 48)
    print((nn.Linear(48, 36)(x) + x).sum())


@fault("shape_mismatch", "shape_mismatch_concat")
def skip_connection_of_another_height():
    torch.cat([torch.rand(1, 8, 17, 16), torch.rand(1, 8, 16, 16)], dim=1)


@fault("shape_mismatch", "shape_mismatch_stack")
def images_of_several_sizes_are_stacked():
    torch.stack([torch.rand(3, 20, 20), torch.rand(3, 20, 22)])


@fault("shape_mismatch", "collate_ragged", "shape_mismatch_stack")
def loader_meets_sentences_of_several_lengths():
    sentences = [torch.arange(n) for n in (4, 9, 6)]
    for _ in DataLoader(sentences, batch_size=3):
        pass


@fault("shape_mismatch", "collate_ragged", "shape_mismatch_stack")
def worker_meets_images_of_several_sizes():
    images = [(torch.rand(3, 16 + n, 16), n) for n in range(6)]
    for _ in DataLoader(images, batch_size=3, num_workers=2):
        pass


@fault("shape_mismatch", "reshape_numel_mismatch")
def view_of_the_last_smaller_batch():
    for x in torch.rand(25, 12).split(10):
        x.view(10, 3, 4)


@fault("shape_mismatch", "reshape_numel_mismatch")
def reshape_to_heads_that_do_not_divide():
    torch.rand(2, 5, 30).reshape(2, 5, 4, -1)


@fault("shape_mismatch", "view_non_contiguous")
def view_after_permute():
    torch.rand(4, 6, 5).permute(0, 2, 1).view(4, 30)


@fault("shape_mismatch", "shape_mismatch_matmul")
def attention_scores_with_keys_not_transposed():
    query, key = torch.rand(2, 6, 16), torch.rand(2, 6, 16)
    torch.bmm(query, key)


@fault("shape_mismatch", "shape_mismatch_matmul")
def matrix_times_vector_of_other_length():
    torch.mv(torch.rand(4, 9), torch.rand(8))


@fault("shape_mismatch", "loss_batch_mismatch")
def targets_of_the_whole_set():
    F.cross_entropy(Perceptron()(torch.rand(16, 20)), torch.zeros(32).long())


@fault("shape_mismatch", "loss_target_shape_mismatch")
def binary_targets_lack_the_last_axis():
    nn.BCEWithLogitsLoss()(torch.rand(10, 1), torch.ones(10))


@fault("shape_mismatch", "loss_target_rank_wrong", "loss_batch_mismatch")
def masks_keep_their_channel_axis():
    F.cross_entropy(torch.rand(2, 4, 8, 8), torch.zeros(2, 1, 8, 8).long())


@fault("shape_mismatch", "batchnorm_single_sample")
def batchnorm_meets_a_last_batch_of_one():
    data = TensorDataset(torch.rand(17, 6), torch.zeros(17).long())
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    train(net, DataLoader(data, batch_size=8), nn.CrossEntropyLoss())


@fault("shape_mismatch", "norm_feature_mismatch")
def batchnorm_made_for_other_channels():
    nn.Sequential(nn.Conv2d(3, 12, 3), nn.BatchNorm2d(16))(torch.rand(2, 3, 9, 9))


@fault("shape_mismatch", "norm_feature_mismatch")
def layernorm_made_for_another_width():
    nn.LayerNorm(64)(torch.rand(3, 10, 72))


@fault("shape_mismatch", "rnn_shape_mismatch")
def lstm_gets_wider_features():
    nn.LSTM(input_size=14, hidden_size=8, batch_first=True)(torch.rand(4, 9, 15))


@fault("shape_mismatch", "rnn_shape_mismatch")
def hidden_state_of_another_batch():
    nn.GRU(6, 10)(torch.rand(5, 3, 6), torch.zeros(1, 8, 10))


@fault("shape_mismatch", "attention_shape_or_heads")
def heads_do_not_divide_the_width():
    nn.MultiheadAttention(embed_dim=50, num_heads=8)


@fault("shape_mismatch", "index_shape_mismatch")
def mask_of_another_shape():
    torch.rand(6, 10)[torch.ones(6, 9, dtype=torch.bool)]


@fault("shape_mismatch", "dataset_columns_misaligned")
def labels_are_one_short():
    TensorDataset(torch.rand(40, 3), torch.zeros(39))


@fault("dtype_mismatch", "dtype_mismatch_layer")
def numpy_doubles_into_a_float_model():
    Perceptron()(torch.from_numpy(np.random.rand(4, 20)))


@fault("dtype_mismatch", "dtype_mismatch_layer")
def bytes_of_an_image_into_a_convolution():
    nn.Conv2d(3, 4, 3)(torch.randint(255, (1, 3, 12, 12), dtype=torch.uint8))


@fault("dtype_mismatch", "loss_target_dtype_wrong")
def class_labels_as_floats():
    F.nll_loss(torch.rand(6, 3).log_softmax(1), torch.zeros(6))


@fault("dtype_mismatch", "embedding_index_dtype")
def token_ids_as_floats():
    nn.Embedding(30, 4)(torch.ones(2, 6))


@fault("dtype_mismatch", "type_promotion_refused")
def mean_of_an_int_counter_in_place():
    counter = torch.zeros(4, dtype=torch.long)
    counter += torch.rand(4)


@fault("dtype_mismatch", "op_not_implemented_for_dtype", "input_data_conversion_error")
def mean_of_whole_numbers():
    torch.randint(9, (8,)).mean()


@fault("dtype_mismatch", "input_data_conversion_error")
def array_of_objects_becomes_a_tensor():
    torch.from_numpy(np.array([1.0, "n/a", 3.0], dtype=object))


@fault("device_mismatch", "device_mismatch")
def input_stays_on_another_device():
    net = nn.Linear(6, 2).to("meta")
    net(torch.rand(3, 6)) + torch.rand(3, 2)


@fault("inplace_modification", "inplace_modified_saved_tensor")
def activation_changed_before_backward():
    x = torch.rand(5, requires_grad=True)
    y = x.sigmoid()
    y[0] = 0.0
    y.sum().backward()


@fault("inplace_modification", "inplace_modified_saved_tensor")
def optimizer_steps_between_two_backwards():
    net = Perceptron()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    out = net(torch.rand(3, 20))
    first, second = out[:, 0].sum(), out[:, 1].sum()
    first.backward(retain_graph=True)
    optimizer.step()
    second.backward()


@fault("inplace_modification", "inplace_on_leaf")
def weights_set_without_no_grad():
    net = nn.Linear(3, 3)
    net.weight *= 0.5


@fault("backward_twice", "backward_second_time")
def hidden_state_is_carried_with_its_graph():
    cell, head = nn.GRUCell(4, 6), nn.Linear(6, 1)
    state = torch.zeros(2, 6)
    for _ in range(3):
        state = cell(torch.rand(2, 4), state)
        head(state).pow(2).mean().backward()


@fault("no_grad_path", "loss_has_no_grad_fn")
def loss_from_predicted_classes():
    predicted = Perceptron()(torch.rand(8, 20)).argmax(1)
    F.mse_loss(predicted.float(), torch.zeros(8)).backward()


@fault("no_grad_path", "loss_has_no_grad_fn")
def step_inside_no_grad():
    net = Perceptron()
    with torch.no_grad():
        loss = net(torch.rand(2, 20)).mean()
    loss.backward()


@fault("non_scalar_backward", "backward_non_scalar")
def loss_with_reduction_none():
    F.cross_entropy(Perceptron()(torch.rand(4, 20)), torch.zeros(4).long(), reduction="none").backward()


@fault("nan_or_inf", "anomaly_nan_in_backward")
def square_root_at_zero_under_anomaly_mode():
    x = torch.zeros(3, requires_grad=True)
    with torch.autograd.detect_anomaly():
        (x.sqrt() * 0).sum().backward()


@fault("nan_or_inf", "distribution_invalid_parameters")
def policy_with_nan_logits():
    torch.distributions.Categorical(logits=torch.tensor([0.1, float("nan")]), validate_args=True)


@fault("nan_or_inf", "sampling_probabilities_invalid")
def sampling_from_negative_probabilities():
    torch.multinomial(torch.tensor([0.4, -0.2, 0.8]), 1)


@fault("nan_or_inf", "nonfinite_value_found")
def user_stops_at_a_nan_loss():
    loss = torch.tensor(float("inf")) - torch.tensor(float("inf"))
    if not torch.isfinite(loss):
        raise ValueError(f"loss is {loss.item()} at step 17, stopping")


@fault("nan_or_inf", "grad_norm_nonfinite_raised")
def clipping_refuses_a_nan_norm():
    net = nn.Linear(2, 2)
    net(torch.full((1, 2), float("nan"))).sum().backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)


@fault("nan_or_inf", "linalg_failure")
def cholesky_of_an_indefinite_matrix():
    torch.linalg.cholesky(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))


@fault("nan_or_inf", "probability_out_of_range")
def logits_into_binary_cross_entropy():
    F.binary_cross_entropy(torch.tensor([0.3, 1.7]), torch.tensor([0.0, 1.0]))


@fault("index_out_of_range", "label_out_of_range")
def labels_count_from_one():
    train(Perceptron(classes=3), [(torch.rand(4, 20), torch.tensor([1, 2, 3, 1]))], nn.CrossEntropyLoss())
