"""The first cause of a finding is the one that the words of the message show; what they do not show is not certain."""

from __future__ import annotations

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.run_conditions import find_conditions
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.text.log_reader import read_text
from labbook.model.evidence import Evidence, ObservedException
from labbook.model.finding import Finding
from labbook.model.run import Frame

MATCHER = Matcher(load_catalogue())
PADDLE_ASSERTION = """\
Error: /paddle/paddle/phi/kernels/gpu/cross_entropy_kernel.cu:1030 Assertion `false` failed. The value of label \
expected >= 0 and < 19, or == 255, but got 21. Please check label value.
OSError: (External) CUDA error(719), unspecified launch failure.
  [Hint: 'cudaErrorLaunchFailure'. An exception occurred on the device while executing a kernel. Common causes include \
dereferencing an invalid device pointer.] (at /paddle/paddle/fluid/platform/device/gpu/gpu_info.cc:289)
"""


STACKED = "stack expects each tensor to be equal size"


def find_primary(text: str) -> Finding:
    found = diagnose(read_text(text), MATCHER).primary
    assert found is not None, text
    return found


@pytest.mark.parametrize(
    ("text", "symptom", "cause"),
    [
        ("PermissionError: [WinError 32] The process cannot access the file: 'a.log'", "permission_denied", 3),
        ("GatedRepoError: 403 Client Error.\nAccess to model m/l is restricted", "permission_denied", 4),
        ("Failed to initialize NVML: Driver/library version mismatch", "cuda_driver_outdated", 2),
        (
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01 DUE TO PREEMPTION ***",
            "interrupted_by_user",
            3,
        ),
        ("KeyboardInterrupt", "interrupted_by_user", 1),
        ("IndexError: list index out of range", "list_index_out_of_range", 1),
        ("IndexError: pop from empty list", "list_index_out_of_range", 3),
        (
            'Traceback (most recent call last):\n  File "d.py", line 3, in read\n    y = int(line.split()[1])\n'
            "IndexError: list index out of range",
            "list_index_out_of_range",
            2,
        ),
        ("OutOfResources: out of resource: shared memory, Required: 9, Hardware limit: 8", "compile_backend_failed", 3),
        ("InductorError: CppCompileError: C++ compile error\nPython.h: No such file", "compile_backend_failed", 2),
        ("RuntimeError: FlashAttention only support fp16 and bf16 data type", "attention_kernel_unavailable", 1),
        ("TypeError: Cannot handle this data type: (1, 1, 224), |u1", "array_to_image_failed", 2),
        ("AttributeError: 'DataParallel' object has no attribute 'fc'", "attribute_missing", 3),
        ("RuntimeError: Invalid device string: 'cuda:0,1'", "cuda_device_missing", 4),
        ("RuntimeError: No HIP GPUs are available", "accelerator_unavailable", 2),
        (
            "RuntimeError: Given groups=1, weight of size [16, 3, 3, 3], expected input[8, 64, 64, 3] to have 3 "
            "channels, but got 64 channels instead",
            "shape_mismatch_conv_channels",
            2,
        ),
        (
            "ValueError: operands could not be broadcast together with shapes (3,32,32) (3,)",
            "shape_mismatch_broadcast",
            5,
        ),
        (
            "ValueError: operands could not be broadcast together with shapes (3,32,32) (3,31,31)",
            "shape_mismatch_broadcast",
            1,
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: '0.pt\\n'", "file_not_found", 3),
        ("RuntimeError: open file failed with strerror: Is a directory", "file_not_found", 5),
        ("bash: ./run.sh: Permission denied", "permission_denied", 5),
        ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xce in position 0", "text_encoding_wrong", 2),
        ("UnicodeDecodeError: 'gbk' codec can't decode byte 0xae in position 9", "text_encoding_wrong", 1),
        ("ValueError: loaded state dict has a different number of parameter groups", "optimizer_state_mismatch", 2),
        ("jax.errors.UnexpectedTracerError: Encountered an unexpected tracer.", "jax_tracer_misused", 3),
        (
            "RuntimeError: The differentiated Tensor at index 1 appears to not have been used in the graph.",
            "loss_has_no_grad_fn",
            5,
        ),
        (
            "[TRT] [E] 4: [runtime.cpp::deserializeCudaEngine::65] Error Code 4: (Engine deserialization failed.)",
            "onnx_model_unreadable",
            4,
        ),
        (
            'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    import peft\n'
            '  File "env/lib/python3.11/site-packages/peft/model.py", line 37, in <module>\n'
            "    from transformers import NewCache\nImportError: cannot import name 'NewCache' from 'transformers' (x)",
            "import_name_moved",
            2,
        ),
        (
            "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace "
            "operation: [torch.FloatTensor [4, 1]], which is output 0 of AsStrided, is at version 2",
            "inplace_modified_saved_tensor",
            2,
        ),
        ("RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Half", "dtype_mismatch_layer", 2),
        ("FileNotFoundError: ~/data/train.csv not found.", "file_not_found", 2),
        ("OverflowError: Python integer 256 out of bounds for uint8", "type_promotion_refused", 4),
        (
            "ValueError: (InvalidArgument) The 0-th dimension of input[0] and input[1] is expected to be equal."
            "But received input[0]'s shape = [2, 3], input[1]'s shape = [3, 3].",
            "shape_mismatch_concat",
            2,
        ),
        (
            "ValueError: (InvalidArgument) The 2-th dimension of input[0] and input[1] is expected to be equal."
            "But received input[0]'s shape = [2, 8, 15, 15], input[1]'s shape = [2, 8, 16, 16].",
            "shape_mismatch_concat",
            1,
        ),
        (
            "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 15 but got size 16 for "
            "tensor number 1 in the list.",
            "shape_mismatch_concat",
            1,
        ),
        ("ImportError: libhccl.so: cannot open shared object file: No such file", "shared_library_not_found", 3),
        ("ImportError: libffi.so.7: cannot open shared object file: No such file", "shared_library_not_found", 2),
        ("ImportError: libsndfile.so.1: cannot open shared object file", "shared_library_not_found", 2),
        (
            "pyarrow.lib.ArrowInvalid: JSON parse error: Missing a closing quotation mark. in row 14",
            "json_unreadable",
            4,
        ),
        ("Exception: No valid samples in dataset, please check label file a.txt", "dataset_empty", 2),
        ("run.sh: line 2: $'\\r': command not found", "shell_script_unreadable", 1),
        ("run.sh: line 1: set: pipefail\r: invalid option name", "shell_script_unreadable", 1),
        ("bash: ./run.sh: cannot execute: required file not found", "shell_script_unreadable", 1),
        ("run.sh: line 4: syntax error: unexpected end of file", "shell_script_unreadable", 3),
        ("job.sh: 3: set: Illegal option -o pipefail", "shell_script_unreadable", 4),
        ("RuntimeError: Expected to mark a variable ready only once.", "ddp_unused_parameters", 2),
        ("RuntimeError: Cannot find a working triton installation", "compile_backend_failed", 1),
        ("RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (8, 9, 2)", "cudnn_failure", 2),
        ("ImportError: libGL.so.1: cannot open shared object file: No such file", "shared_library_not_found", 2),
        ("ImportError: libcudart.so.11.0: cannot open shared object file: No such file", "shared_library_not_found", 1),
        ("ImportError: libstdc++.so.6: version `GLIBCXX_3.4.29' not found", "shared_library_undefined_symbol", 3),
        ("URLError: <urlopen error [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed>", "download_failed", 3),
        (
            "ValueError: n_splits=5 cannot be greater than the number of members in each class.",
            "split_lengths_wrong",
            2,
        ),
        (
            "ValueError: Failed to read all data for array. Expected (64,) = 64 elements, could only read 21 elements."
            " (file seems not fully written?)",
            "array_file_unreadable",
            1,
        ),
        (
            "RuntimeError: Error(s) in loading state_dict for UNet:\n"
            + "".join(
                f"\tsize mismatch for l{n}.weight: copying a param with shape torch.Size([8, {n}]) from checkpoint, the"
                f" shape in current model is torch.Size([16, {n}]).\n"
                for n in range(6)
            ),
            "checkpoint_size_mismatch",
            3,
        ),
        (
            "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for head.weight: copying a param"
            " with shape torch.Size([10, 8]) from checkpoint, the shape in current model is torch.Size([4, 8]).\n",
            "checkpoint_size_mismatch",
            1,
        ),
        (
            "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for stem.weight: copying a param"
            " with shape torch.Size([8, 1, 3]) from checkpoint, the shape in current model is torch.Size([8, 3, 3]).",
            "checkpoint_size_mismatch",
            3,
        ),
        (
            "ValueError: linear_1.w_0 receives a shape [768, 10], but the expected shape is [768, 2].",
            "checkpoint_size_mismatch",
            1,
        ),
        (f"RuntimeError: {STACKED}, but got [12, 17] at entry 0 and [12, 20] at entry 1", "collate_ragged", 2),
        (f"RuntimeError: {STACKED}, but got [3, 32, 32] at entry 0 and [3, 30, 32] at entry 1", "collate_ragged", 1),
        ("TypeError: Object of type Tensor is not JSON serializable", "json_not_serializable", 1),
        ("AttributeError: module 'torch' has no attribute 'compile'", "removed_api_used", 2),
        ("AttributeError: module 'numpy' has no attribute 'bool'.", "removed_api_used", 1),
    ],
)
def test_the_cause_that_the_message_shows_comes_first(text: str, symptom: str, cause: int) -> None:
    found = find_primary(text)
    page = MATCHER.catalogue.symptoms[symptom].wording_in("en").why
    assert (found.symptom, found.causes[0][-25:]) == (symptom, page[cause - 1][-25:]), text


@pytest.mark.parametrize(
    ("text", "is_certain"),
    [
        ("AttributeError: module 'torch' has no attribute 'compile'", True),
        ("AttributeError: module 'numpy' has no attribute 'bool'.", True),
        ("AttributeError: module 'torch' has no attribute 'frobnicate'", False),
        ("RuntimeError: [enforce fail at inline_container.cc:424] . unexpected pos 4608 vs 4502", False),
        ("OSError: [Errno 28] No space left on device", True),
        ("IndexError: index out of range in self", False),
        ("ImportError: cannot import name 'core' from 'paddle.fluid'", False),
        ("ValueError: zip() argument 2 is shorter than argument 1", False),
        ("KeyError: 'phi'", False),
    ],
)
def test_a_message_with_another_reading_is_not_certain(text: str, is_certain: bool) -> None:
    assert (find_primary(text).tier == 1) is is_certain


def test_what_paddle_explains_of_an_error_code_does_not_make_the_report_a_lesson() -> None:
    found = find_primary(PADDLE_ASSERTION)
    assert (found.symptom, found.tier) == ("cuda_device_assert", 1)
    assert "The value of label expected >= 0 and < 19" in found.evidence[0]


def embed(*indices: dict[str, object], source: str = "return self.table(ids)", where: str = "embedding") -> Finding:
    frames = (
        Frame("/home/a/net.py", 9, "Net.forward", source, user=True),
        *([Frame("/lib/torch/nn/functional.py", 2200, where, "return torch.embedding()")] if where else []),
    )
    one = ObservedException("IndexError", "index out of range in self", frames=frames, tensors=indices)
    found = diagnose(Evidence(exceptions=(one,), framework="torch"), MATCHER).primary
    assert found is not None
    return found


@pytest.mark.parametrize("width", [41, 42])
def test_a_message_that_is_broken_inside_of_words_is_read_whole(width: int) -> None:
    message = (
        "RuntimeError: Given groups=1, weight of size [32, 4, 3, 3], expected input[2, 3, 512, 512] to have 4 channels,"
        " but got 3 channels instead"
    )
    broken = "\n".join(message[at : at + width] for at in range(0, len(message), width))
    found = find_primary(f"报错如下：\n{broken}\n求解答\n")
    assert (found.symptom, found.evidence[0]) == (
        "shape_mismatch_conv_channels",
        "the layer expects 4 channels and got 3",
    )


@pytest.mark.parametrize("following", ["epoch 3 loss 0.5", "x" * 60, ""])
def test_what_stands_behind_a_message_of_one_line_is_not_part_of_it(following: str) -> None:
    message = "ValueError: num_samples should be a positive integer value, but got num_samples=0"
    assert find_primary(f"{message}\n{following}\n").message == message.partition(": ")[2]


def indices(**more: object) -> dict[str, object]:
    return {"name": "ids", "shape": [4, 7], "dtype": "int64", "device": "cpu", "range": [0, 40], **more}


def test_an_index_that_an_embedding_lacks_is_named_with_its_place() -> None:
    found = embed(indices(rows=40, outside=40, at=[2, 5], counts=False))
    assert (found.symptom, found.tier) == ("embedding_index_out_of_range", 1)
    assert found.evidence[0] == "ids[2, 5] is 40, the table has 40 rows"
    assert not any("position table" in text for text in found.causes + found.fixes)


def test_a_negative_index_of_an_embedding_is_no_large_vocabulary() -> None:
    found = embed(indices(range=[-1, 40], rows=50, outside=-1, at=[0, 0], counts=False))
    assert "negative" in found.causes[0]


def test_counted_indices_of_an_embedding_are_positions() -> None:
    found = embed(indices(shape=[32], range=[0, 31], rows=24, outside=24, at=[24], counts=True))
    assert (found.symptom, found.evidence[0]) == ("sequence_too_long", "the sequence has 32 positions, the table 24")


def test_the_indices_of_a_selection_are_not_those_of_an_embedding() -> None:
    found = embed(indices(range=[1, 50]), source="y = torch.index_select(x, 0, ids)", where="")
    assert found.symptom == "index_out_of_bounds"
    assert any(text.startswith("ids: [4, 7] int64 cpu") and "50" in text for text in found.evidence)


def test_what_was_removed_is_named_not_what_was_asked_of_it() -> None:
    found = find_primary("ImportError: cannot import name 'core' from 'paddle.fluid'")
    assert found.evidence[0].startswith("PaddlePaddle 2.6 removed fluid: use ")


@pytest.mark.parametrize(
    ("line", "message", "cause"),
    [
        (
            "self.queue[:, ptr:ptr + 64] = keys.T",
            "The expanded size of the tensor (16) must match the existing size (64) at non-singleton dimension 1.",
            "slice that it is assigned to",
        ),
        (
            "h = self.tok(x) + self.pos[:, : x.shape[1]]",
            "The size of tensor a (72) must match the size of tensor b (64) at non-singleton dimension 1",
            "longer than the position table",
        ),
        (
            "",
            "Broadcast dimension mismatch. Operands could not be broadcast together with the shape of X = [2, 7, 8] "
            "and the shape of Y = [1, 6, 8]. Received [7] in X is not equal to [6] in Y at i:1.",
            "longer than the position table",
        ),
        (
            "",
            "Broadcast dimension mismatch. Operands could not be broadcast together with the shape of X = [2, 7, 8] "
            "and the shape of Y = [2, 6, 8]. Received [7] in X is not equal to [6] in Y at i:1.",
            "Two branches",
        ),
        (
            "return self.body(x) + x",
            "The size of tensor a (8) must match the size of tensor b (9) at non-singleton dimension 3",
            "Two branches",
        ),
    ],
)
def test_shapes_that_cannot_be_broadcast_are_explained_by_the_line(line, message, cause):
    frame = Frame("/home/a/model.py", 9, "Net.forward", line, user=True)
    raised = ObservedException(type="RuntimeError", message=message, frames=(frame,))
    found = diagnose(Evidence(exceptions=(raised,), framework="torch"), MATCHER).primary
    assert found.symptom == "shape_mismatch_broadcast" and cause in found.causes[0]


@in_one_test(
    ("values", "condition", "is_met"),
    [
        ({"a": "[8, 64, 64, 3]", "c": "3"}, "channels_last", True),
        ({"a": "[8, 1, 64, 64]", "c": "3"}, "channels_last", False),
        ({"a": "[8, 3, 3, 3]", "c": "3"}, "channels_last", False),
        ({"a": "(3,32,32)", "b": "(3,)"}, "of_other_axis", True),
        ({"a": "(5,)", "b": "(3,32,32)"}, "of_other_axis", False),
        ({"a": "(3,32,3)", "b": "(3,)"}, "of_other_axis", False),
        ({"a": "(8,1)", "b": "(1,)"}, "of_other_axis", False),
    ],
)
def test_shapes_show_which_axis_is_in_the_wrong_place(values: dict[str, str], condition: str, is_met: bool) -> None:
    assert (condition in find_conditions(values, Evidence(), None)) is is_met
