"""Faults of PaddlePaddle programs: shapes, types of numbers, gradients, indices, files."""

import numpy as np
import paddle
import paddle.nn.functional as F
from crashes import fault
from crashes_paddle_nets import Numbers, Perceptron, whole
from paddle import nn
from paddle.io import DataLoader, TensorDataset


@fault("shape_mismatch", "shape_mismatch_linear", "shape_mismatch_matmul")
def wider_rows_than_the_layer_takes():
    Perceptron()(paddle.rand([4, 21]))


@fault("shape_mismatch", "shape_mismatch_linear", "shape_mismatch_matmul")
def images_not_flattened():
    nn.Sequential(nn.Conv2D(1, 4, 3), nn.ReLU(), nn.Linear(4 * 26 * 26, 10))(paddle.rand([2, 1, 28, 28]))


@fault("shape_mismatch", "shape_mismatch_conv_channels")
def colour_images_into_a_grey_network():
    nn.Conv2D(1, 8, 3)(paddle.rand([2, 3, 16, 16]))


@fault("shape_mismatch", "conv_input_rank_wrong")
def one_image_without_its_batch():
    nn.Conv2D(3, 8, 3)(paddle.rand([3, 16, 16]))


@fault("shape_mismatch", "shape_mismatch_broadcast")
def residual_of_another_width():
    x = paddle.rand([6, 48])
    nn.Linear(48, 36)(x) + x


@fault("shape_mismatch", "shape_mismatch_concat")
def skip_of_another_height():
    paddle.concat([paddle.rand([1, 4, 17, 16]), paddle.rand([1, 4, 16, 16])], axis=1)


@fault("shape_mismatch", "shape_mismatch_stack")
def stacked_images_of_two_sizes():
    paddle.stack([paddle.rand([3, 8, 8]), paddle.rand([3, 8, 9])])


@fault("shape_mismatch", "collate_ragged", "shape_mismatch_stack")
def samples_of_several_lengths_are_collated():
    paddle.io.dataloader.collate.default_collate_fn([(np.zeros(3 + i, "float32"), i) for i in range(4)])


@fault("shape_mismatch", "collate_ragged", "shape_mismatch_stack")
def worker_meets_several_lengths():
    data = Numbers(lambda i: np.zeros(3 + i, "float32"))
    for _ in DataLoader(data, batch_size=4, num_workers=1):
        pass


@fault("shape_mismatch", "reshape_numel_mismatch")
def reshape_with_a_wrong_product():
    paddle.rand([5, 12]).reshape([6, 11])


@fault("shape_mismatch", "shape_mismatch_matmul")
def scores_with_keys_not_transposed():
    paddle.bmm(paddle.rand([2, 6, 16]), paddle.rand([2, 6, 16]))


@fault("shape_mismatch", "loss_batch_mismatch", "loss_target_rank_wrong", "loss_target_shape_mismatch")
def targets_of_the_whole_set():
    F.cross_entropy(Perceptron()(paddle.rand([8, 20])), whole(16))


@fault("shape_mismatch", "loss_target_shape_mismatch", "shape_mismatch_broadcast")
def regression_target_of_another_width():
    F.mse_loss(paddle.rand([8, 3]), paddle.rand([8, 4]))


@fault("shape_mismatch", "norm_feature_mismatch")
def batchnorm_made_for_other_channels():
    nn.BatchNorm2D(16)(paddle.rand([2, 12, 6, 6]))


@fault("shape_mismatch", "norm_feature_mismatch")
def layernorm_made_for_another_width():
    nn.LayerNorm(64)(paddle.rand([2, 9, 72]))


@fault("shape_mismatch", "rnn_shape_mismatch", "shape_mismatch_matmul")
def lstm_gets_wider_features():
    nn.LSTM(14, 8)(paddle.rand([4, 9, 15]))


@fault("shape_mismatch", "attention_shape_or_heads")
def heads_do_not_divide_the_width():
    nn.MultiHeadAttention(50, 8)


@fault("shape_mismatch", "dataset_columns_misaligned")
def labels_are_one_short():
    TensorDataset([paddle.rand([40, 3]), paddle.rand([39])])


@fault("dtype_mismatch", "type_promotion_refused", "dtype_mismatch_layer", "op_not_implemented_for_dtype")
def doubles_into_a_float_model():
    Perceptron()(paddle.to_tensor(np.random.rand(4, 20)))


@fault("dtype_mismatch", "embedding_index_dtype", "op_not_implemented_for_dtype")
def token_ids_as_floats():
    nn.Embedding(30, 4)(paddle.rand([2, 6]))


@fault("dtype_mismatch", "op_not_implemented_for_dtype")
def softmax_of_whole_numbers():
    paddle.nn.functional.gelu(whole(4))


@fault("dtype_mismatch", "op_not_implemented_for_dtype", "dtype_mismatch_layer")
def bytes_of_an_image_into_a_convolution():
    nn.Conv2D(3, 4, 3)(paddle.zeros([1, 3, 9, 9], dtype="uint8"))


@fault("dtype_mismatch", "input_data_conversion_error")
def array_of_objects_becomes_a_tensor():
    paddle.to_tensor(np.array([1.0, "n/a", None], dtype=object))


@fault("shape_mismatch", "ragged_data")
def list_of_rows_of_several_lengths():
    paddle.to_tensor([[1.0, 2.0], [3.0]])


@fault("inplace_modification", "inplace_modified_saved_tensor")
def activation_changed_before_backward():
    x = paddle.rand([4])
    x.stop_gradient = False
    y = x * 2
    z = y * y
    y[0] = 0.0
    z.sum().backward()


@fault("inplace_modification", "inplace_on_leaf")
def leaf_changed_in_place():
    x = paddle.rand([4])
    x.stop_gradient = False
    x.exp_()


@fault("backward_twice", "backward_second_time")
def loss_goes_backward_twice():
    loss = Perceptron()(paddle.rand([4, 20])).mean()
    loss.backward()
    loss.backward()


@fault("nan_or_inf", "linalg_failure")
def inverse_of_a_singular_matrix():
    paddle.inverse(paddle.ones([3, 3]))


@fault("nan_or_inf", "nonfinite_value_found")
def checker_of_nan_stops():
    paddle.set_flags({"FLAGS_check_nan_inf": True})
    try:
        paddle.log(paddle.to_tensor([-1.0, 2.0]))
    finally:
        paddle.set_flags({"FLAGS_check_nan_inf": False})


@fault("nan_or_inf", "nonfinite_value_found")
def user_stops_at_an_infinite_loss():
    loss = float(paddle.exp(paddle.to_tensor(900.0)))
    assert np.isfinite(loss), f"loss became {loss} in epoch 4"


@fault("index_out_of_range", "label_out_of_range")
def labels_count_from_one():
    F.cross_entropy(Perceptron(classes=3)(paddle.rand([4, 20])), paddle.to_tensor([1, 2, 3, 1]))


@fault("index_out_of_range", "embedding_index_out_of_range")
def token_beyond_the_vocabulary():
    nn.Embedding(100, 8)(paddle.to_tensor([[5, 100]]))


@fault("index_out_of_range", "axis_out_of_range")
def softmax_over_a_missing_axis():
    F.softmax(paddle.rand([9]), axis=2)


@fault("index_out_of_range", "index_out_of_bounds")
def row_beyond_the_tensor():
    paddle.rand([12, 4])[12]


@fault("index_out_of_range", "one_hot_class_too_large")
def one_hot_of_an_unknown_class():
    F.one_hot(paddle.to_tensor([0, 6]), num_classes=6)


@fault("index_out_of_range", "list_index_out_of_range")
def worker_reads_beyond_its_list():
    names = ["a.npy", "b.npy"]
    for _ in DataLoader(Numbers(lambda i: np.array(len(names[i]))), batch_size=2, num_workers=1):
        pass


@fault("file_not_found", "checkpoint_missing", "file_not_found")
def checkpoint_was_never_written():
    paddle.load("output/best_model.pdparams")


@fault("checkpoint_load_error", "checkpoint_corrupt")
def checkpoint_cut_off():
    paddle.save(Perceptron().state_dict(), "last.pdparams")
    with open("last.pdparams", "r+b") as file:
        file.truncate(300)
    paddle.load("last.pdparams")


@fault("checkpoint_size_mismatch", "optimizer_state_mismatch", "checkpoint_size_mismatch")
def optimizer_state_of_another_network():
    def adam(model):
        optimizer = paddle.optimizer.Adam(parameters=model.parameters())
        model(paddle.rand([2, 20])).mean().backward()
        optimizer.step()
        return optimizer

    state = adam(Perceptron(hidden=7)).state_dict()
    values = list(state.values())
    other = adam(Perceptron(hidden=9))
    names = [name for name in other.state_dict() if name != "LR_Scheduler"]
    other.set_state_dict(dict(zip(names, values)))


@fault("file_not_found", "file_not_found")
def worker_misses_an_image():
    from PIL import Image

    data = Numbers(lambda i: np.asarray(Image.open(f"train/{i:06d}.png")))
    for _ in DataLoader(data, num_workers=1):
        pass


@fault("data_decode_error", "image_file_unreadable")
def image_is_a_text():
    import io

    from PIL import Image

    Image.open(io.BytesIO(b"<html>not found</html>"))
