"""What is said of a failure holds the quantities of this run, whichever sentence of which framework says them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.diagnosis.text.log_reader import read_text
from labbook.model.evidence import Evidence, ObservedException
from labbook.model.finding import Finding
from labbook.model.message import message
from labbook.model.run import CaughtException, CheckResult, Frame, Run
from labbook.model.signals import Signals

MATCHER = Matcher(load_catalogue())
PADDLE_LINEAR = (
    "(InvalidArgument) In operator matmul, the [1] dimension of Input(X) must be equal to the [0] dimension of "
    "Input(Y). But receiving the [1]dimension of Input(X) is [256], and the [0] dimension of Input(Y) is [64].\n"
    "  [Hint: Expected K_lhs == K_rhs, but received K_lhs:256 != K_rhs:64.] (at /paddle/paddle/phi/infermeta/"
    "binary.cc:3087)\n  [operator < linear > error]"
)
SOURCE = "crit(model(x[i:i+32]), y[i:i+32]).backward()"


def primary(text: str, language: str = "en") -> Finding:
    found = diagnose(read_text(text), MATCHER, language).primary
    assert found is not None
    return found


@in_one_test(
    "text",
    [
        f"ValueError: {PADDLE_LINEAR}",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x256 and 64x10)",
        "RuntimeError: size mismatch, m1: [32 x 256], m2: [64 x 10] at /pytorch/aten/src/TH/THTensorMath.cpp:41",
        "InvalidArgumentError: After flatten the input tensor X and Y to 2-D dimensions matrix X1 and Y1, the matrix "
        "X1's width must be equal with matrix Y1's height. But received X's shape = [32, 4, 64], X1's shape = [32, "
        "256], X1's width = 256; Y's shape = [64, 10], Y1's shape = [64, 10], Y1's height = 64.",
    ],
)
def test_a_linear_layer_is_told_with_its_two_widths(text: str) -> None:
    found = primary(text)
    assert found.evidence[0] == "the input has 256 features, in_features is 64"
    assert "nn.Linear(256, ...)" in found.fixes[0]
    assert "256 features and expects 64" in found.causes[0]
    assert primary(text, "zh").evidence[0] == "输入有 256 个特征，而 in_features 是 64"


@in_one_test(
    ("text", "said"),
    [
        (
            "ValueError: (InvalidArgument) Input(Logits) and Input(Label) should in same shape in dimensions except "
            "axis.\n  [Hint: Expected logits_dims[i] == labels_dims[i], but received logits_dims[i]:8 != "
            "labels_dims[i]:16.] (at /paddle/paddle/phi/infermeta/binary.cc:1199)",
            "the output is 8, the target is 16",
        ),
        (
            "ValueError: (InvalidArgument) The input of Op(Conv) should be a 4-D or 5-D Tensor. But received: input's "
            "dimension is 3, input's shape is [3, 16, 16].\n  [Hint: Expected in_dims.size() == 4 || in_dims.size() == "
            "5 == true, but received in_dims.size() == 4 || in_dims.size() == 5:0 != true:1.]",
            "the input is [3, 16, 16]",
        ),
        (
            "ValueError: (InvalidArgument) Attr(axis) value should be in range [-R, R-1], R is the rank of Input(X).\n"
            "  [Hint: Expected axis < rank_x, but received axis:2 >= rank_x:1.]",
            "the axis is 2",
        ),
        (
            "IndexError: (OutOfRange) The starting index 12 of slice is out of bounds in tensor 0-th axis, it should be"
            " in the range of [-12, 12). (at /paddle/paddle/fluid/pybind/slice_utils.h:405)",
            "index 12, size 12",
        ),
        (
            "RuntimeError: (NotFound) The kernel with key (CPU, Undefined(AnyLayout), uint8) of kernel `conv2d` is not "
            "registered. Selected wrong DataType `uint8`. Paddle support following DataTypes: float64, float32.",
            "conv2d does not exist for uint8",
        ),
        (
            "EnforceNotMet: Enforce failed. Expected allocating <= available, but received allocating:10513462067 > "
            "available:1369702144.\nInsufficient GPU memory to allocation.",
            "tried to allocate 9.79 GiB, 1.28 GiB free",
        ),
        (
            "SystemError: (Fatal) Operator conv2d raises an paddle::memory::allocation::BadAlloc exception.\nThe "
            "exception content is\n:ResourceExhaustedError:\n\nOut of memory error on GPU 0. Cannot allocate 98.000244"
            "MB memory on GPU 0, 6.000000GB memory has been allocated and available memory is only 0.500000MB.",
            "tried to allocate 98.00 MB, 0.50 MB free",
        ),
        (
            "TypeError: (InvalidType) Type promotion only support calculations between floating-point numbers and "
            "between complex and real numbers. But got different data type x: float32, y: int64.",
            "one is float32, the other is int64",
        ),
        (
            "AssertionError: Variable Shape not match, Variable [ linear_26.w_0_moment1_0 ] need tensor with shape "
            "paddle.Size([20, 9]) but load set tensor with shape paddle.Size([20, 7])",
            "linear_26.w_0_moment1_0 is [20, 7] in the file and [20, 9] in the model",
        ),
        (
            "IndexError: (OutOfRange) label value should less than the shape of axis dimension when label value(7) not "
            "equal to ignore_index(-100), But received label value as 7 and shape of axis dimension is 3",
            "label 7, the head has 3 outputs",
        ),
        (
            "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace "
            "operation: [torch.FloatTensor [5]], which is output 0 of Sigmoid, is at version 1; expected version 0 "
            "instead.",
            "the modified tensor is torch.FloatTensor [5], it is at version 1, version 0 was saved",
        ),
        (
            "RuntimeError: (PermissionDenied) Tensor '' used in gradient computation has been modified by an inplace "
            "operation. Its version is 1 but the expected version is 0.",
            "the tensor is at version 1, version 0 was saved",
        ),
        (
            "ValueError: (InvalidArgument) Given normalized_shape is [64], expected input with shape [*, 64], but got "
            "input shape [2, 9, 72]",
            "[2, 9, 72]",
        ),
        (
            "ValueError: (InvalidArgument) The 0-th dimension of input[0] and input[1] is expected to be equal.But "
            "received input[0]'s shape = [2, 3], input[1]'s shape = [4, 5].",
            "the two are [2, 3] and [4, 5]",
        ),
        (
            "ValueError: (InvalidArgument) The number of input's channels should be equal to filter's channels * groups"
            " for Op(Conv). But received: the input's channels is 6, the input's shape is [2, 6, 28, 28]; the filter's "
            "channels is 4, the filter's shape is [8, 4, 3, 3]; the groups is 2, the data_format is NCHW.\n  [Hint: "
            "Expected input_channels == filter_channels * groups, but received input_channels:6 != filter_channels * "
            "groups:8.]",
            "the layer expects 8 channels and got 6",
        ),
        (
            "ValueError: (InvalidArgument) Variable value (input) of OP(embedding) expected >= 0 and < 10, but got 12. "
            "Please check input value.",
            "id 12, the table has 10 rows",
        ),
        (
            'RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "weight", "bias". '
            '\n\tUnexpected key(s) in state_dict: "module.weight", "module.bias". ',
            "the file has no weight, the model has no module.weight",
        ),
        ("OSError: [Errno 28] No space left on device: 'ckpt/epoch_17.pth'", "the write to ckpt/epoch_17.pth failed"),
    ],
)
def test_every_framework_says_its_quantities(text: str, said: str) -> None:
    found = primary(text)
    assert said == found.evidence[0] or said in " ".join((*found.causes, *found.fixes))


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: (InvalidArgument) Expected number of channels in input to be divisible by num_groups, but got "
        "input channel is 8 and num_groups is 3\n  [Hint: Expected channel_num % groups == 0, but received channel_num "
        "% groups:2 != 0:0.]",
        "ValueError: (InvalidArgument) Input(X) and Input(Label) shall have the same rank.But received: the rank of "
        "Input(X) is [2], the rank of Input(Label) is [1].\n  [Hint: Expected rank == label_dims.size(), but received "
        "rank:2 != label_dims.size():1.]",
    ],
)
def test_remainders_and_counts_of_axes_are_no_sizes(text: str) -> None:
    found = primary(text)
    assert found.family == "shape_mismatch" and found.evidence[0].startswith("ValueError: ")


@pytest.mark.parametrize("mark", ["255", "-1"])
def test_the_label_of_a_message_that_marks_what_is_ignored_stands_in_the_fix(mark: str) -> None:
    assert f"`ignore_index={mark}`" in primary(f"IndexError: Target {mark} is out of bounds.").fixes[0]


def test_of_a_list_of_types_that_would_do_none_is_taken_for_the_one_that_came() -> None:
    found = primary(
        "ValueError: (InvalidArgument) Input object type error or incompatible array data type. tensor.set() supports "
        "array with bool, float16, float32, float64, int8, int16, int32, int64, uint8 or uint16, please check"
    )
    assert not any("int64" in sentence for sentence in found.evidence[:-1])
    assert "int64" not in " ".join(found.causes)


TENSORS = tuple(
    {"name": name, "shape": shape, "dtype": "float32", "device": "cpu"}
    for name, shape in (
        ("x", [1797, 8, 8]),
        ("net.0.weight", [8, 32]),
        ("net.0.bias", [32]),
        ("net.3.weight", [64, 10]),
        ("net.3.bias", [10]),
    )
)


def test_only_tensors_that_bear_on_the_message_are_shown() -> None:
    found = diagnose(Evidence((ObservedException("ValueError", PADDLE_LINEAR, tensors=TENSORS),)), MATCHER).findings[0]
    assert found.evidence[2:] == ("net.3.weight: [64, 10] float32 cpu",)
    many = tuple({**TENSORS[0], "name": f"x{n}"} for n in range(9))
    found = diagnose(Evidence((ObservedException("ValueError", PADDLE_LINEAR, tensors=many),)), MATCHER).findings[0]
    assert len(found.evidence) == 5


def test_of_types_and_devices_one_tensor_of_each_is_shown() -> None:
    message = "mat1 and mat2 must have the same dtype, but got Double and Float"
    mixed = ({**TENSORS[0], "dtype": "float64"}, *TENSORS[1:])
    found = diagnose(Evidence((ObservedException("RuntimeError", message, tensors=mixed),)), MATCHER).findings[0]
    assert [sentence.split(":")[0] for sentence in found.evidence[2:]] == ["x", "net.0.weight"]


def _labels(low: float, high: float, classes: int, where: dict[str, Any]) -> Run:
    """A run that ended in a cross entropy with labels from low to high."""
    loss = {"fn": "cross_entropy", "line": "t5.py:10", "classes": classes, "outside": 4, "training": True}
    frame = Frame("t5.py", 10, "<module>", SOURCE, user=True)
    library = Frame("/venv/torch/nn/functional.py", 3555, "cross_entropy", "return loss(x)", user=False)
    crash = CaughtException(
        "main", "IndexError", "", f"Target {int(high)} is out of bounds.", (frame, library), ended_process=True
    )
    return Run(
        "i",
        "failed",
        ("python", "t5.py"),
        "/w",
        0.0,
        exit_code=1,
        script="t5.py",
        exceptions=(crash,),
        checks=(CheckResult("label_out_of_head", "labels", "", "4 outside", "fail", tier=1, where=where),),
        signals=(Signals("torch", losses=({**loss, "target": {"min": low, "max": high}},)),),
    )


@in_one_test(
    ("low", "high", "classes", "said", "cause", "fix"),
    [
        (0.0, 9.0, 9, "label 9, the head has 9 outputs: it needs at least 10", "fewer outputs (9)", "classes: 10"),
        (1.0, 10.0, 10, "labels are 1 to 10, the head has 10 outputs", "count from 1", "subtract 1"),
        (-1.0, 9.0, 10, "labels are -1 to 9, the head has 10 outputs", "labels to ignore (-1)", "ignore_index=-1"),
        (0.0, 255.0, 19, "labels are 0 to 255", "labels to ignore (255)", "ignore_index=255"),
    ],
)
def test_causes_of_labels_are_in_the_order_of_this_run(
    low: float, high: float, classes: int, said: str, cause: str, fix: str
) -> None:
    run = _labels(low, high, classes, {"file": "t5.py", "line": 10})
    found = diagnose(collect_run_evidence(run), MATCHER)
    head, crash = found.findings[:2]
    assert (head.symptom, crash.symptom) == ("label_out_of_head", "label_out_of_range")
    assert head.evidence[0].startswith(said) and cause in head.causes[0] and fix in head.fixes[0]
    assert any("count from 1" in one for one in head.causes) == (low != 0 or high == 255)
    assert f"label {high:g}, the head has {classes} outputs" in crash.evidence[0]


@pytest.mark.parametrize("where", [{"file": "t5.py", "line": 10}, {}])
def test_what_a_check_found_stands_with_the_text_of_its_line(where: dict[str, Any]) -> None:
    found = diagnose(collect_run_evidence(_labels(0.0, 9.0, 9, where)), MATCHER).findings[0]
    assert (found.where["file"], found.where["line"], found.where["source"]) == ("t5.py", 10, SOURCE)


def test_a_line_that_nothing_came_past_has_no_text() -> None:
    run = _labels(0.0, 9.0, 9, {"file": "t5.py", "line": 4})
    assert "source" not in diagnose(collect_run_evidence(run), MATCHER).findings[0].where
    fractions = _labels(0.5, 9.5, 9, {})
    assert diagnose(collect_run_evidence(fractions), MATCHER).findings[0].evidence[0] == "4 outside"


@pytest.mark.parametrize(("case", "cause"), [("never", "does not call `scheduler.step()`"), ("twice", "Accelerate")])
def test_a_case_that_a_check_observed_has_its_own_cause_only(case: str, cause: str) -> None:
    observed = message(f"health.lr_schedule_wrong.{case}", scheduler="StepLR", steps=90, updates=90)
    row = CheckResult("lr_schedule_wrong", "", "", "seen", "fail", tier=1, observed_message=observed)
    run = Run("i", "finished", (), "", 0.0, checks=(row,))
    (only,) = diagnose(collect_run_evidence(run), MATCHER).findings[0].causes
    assert cause in only


PAGE = """---
id: sensor_clipped
title: A sensor is clipped
family: data_decode_error
says: ["{n} of {of} values, limit {limit}", "{n} of {of} values"]
patterns:
  - exception: "the recording is clipped"
  - reads: "clipped: {n:int} of {of:int}"
when: {first_step: {cause: 2, no_cause: 1}}
---

## Why it happens
- The gain drifted.
- The gain is wrong.

## What to try
1. Lower the gain.
"""


def test_a_page_of_a_notebook_reads_values_and_rules_out_causes(tmp_path: Path) -> None:
    (tmp_path / "sensor_clipped.md").write_text(PAGE, encoding="utf-8")
    own = load_catalogue(tmp_path)
    assert own.problems == ()
    raised = ObservedException("ValueError", "the recording is clipped\nchannel 3 clipped: 812 of 1024")
    found = diagnose(Evidence((raised,), conditions=frozenset({"first_step"})), Matcher(own)).findings[0]
    assert found.evidence[0] == "812 of 1024 values" and found.causes == ("The gain is wrong.",)
    alone = ObservedException("ValueError", "channel 3 clipped: 812 of 1024")
    assert diagnose(Evidence((alone,)), Matcher(own)).primary is None


@pytest.mark.parametrize("path", ["data.pt", "runs/a.b/best.pth", "模型 1.ckpt", "m/model.safetensors"])
def test_the_path_of_a_missing_model_has_its_extension(path):
    found = primary(f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'")
    assert (found.symptom, found.values["path"]) == ("checkpoint_missing", path)
