"""A failure has the same fingerprint wherever it happens again, and another failure has another one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.diagnosis.fingerprint import fingerprint_exception, fingerprint_fault, fingerprint_parts, normalise_message
from labbook.model.evidence import ObservedException
from labbook.model.run import Frame


def raised(type_, message, source="out = model(x)", file="/home/wei/project/train.py", **more):
    frames = (
        Frame(file, 12, "<module>", "main()", user=True),
        Frame(file, 40, "main", source, user=True),
        Frame("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 125, "forward", "return F.linear(i, w)"),
    )
    return ObservedException(type_, message, frames=frames, **more)


number = st.integers(0, 10**9)
shape = st.lists(st.integers(0, 4096), min_size=1, max_size=5)
name = st.from_regex(r"(?:encoder|head|layers|fc)(?:\.[a-z]{2,8}|\.[0-9]{1,3}){0,3}\.(?:weight|bias)", fullmatch=True)
folder = st.from_regex(r"/(?:home|mnt|data)(?:/[a-z0-9_.-]{1,12}){1,4}", fullmatch=True)
dtype = st.sampled_from(["Float", "Double", "Half", "Long", "BFloat16", "Int"])
device = st.sampled_from(["cpu", "cuda:0", "cuda:7", "xpu:1", "mps:0"])
size = st.from_regex(r"[0-9]{1,4}\.[0-9]{2} (?:GiB|MiB|KiB)", fullmatch=True)

SAME = {
    "matmul": ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied ({0}x{1} and {2}x{0})", [number] * 3),
    "broadcast": (
        "RuntimeError",
        "The size of tensor a ({0}) must match the size of tensor b ({1}) at non-singleton dimension {2}",
        [number] * 3,
    ),
    "stack": (
        "RuntimeError",
        "stack expects each tensor to be equal size, but got {0} at entry {2} and {1} at entry 3",
        [shape, shape, number],
    ),
    "dtype": ("RuntimeError", "expected scalar type {0} but found {1}", [dtype, dtype]),
    "device": (
        "RuntimeError",
        "Expected all tensors to be on the same device, but found at least two devices, {0} and {1}!",
        [device, device],
    ),
    "memory": (
        "OutOfMemoryError",
        "CUDA out of memory. Tried to allocate {0}. GPU {2} has a total capacity of {1} of which {0} is free. "
        "Process {2} has {1} memory in use.",
        [size, size, number],
    ),
    "checkpoint": (
        "RuntimeError",
        'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "{0}", "{1}". ',
        [name, name],
    ),
    "checkpoint_shape": (
        "RuntimeError",
        "Error(s) in loading state_dict for Net:\n\tsize mismatch for {0}: copying a param with shape "
        "torch.Size({1}) from checkpoint, the shape in current model is torch.Size({2}).",
        [name, shape, shape],
    ),
    "file": ("FileNotFoundError", "[Errno 2] No such file or directory: '{0}/train_{1}.csv'", [folder, number]),
    "worker": ("RuntimeError", "DataLoader worker (pid(s) {0}, {1}) exited unexpectedly", [number, number]),
    "port": ("DistNetworkError", "The server socket has failed to listen. port: {0}, code: -{1}", [number, number]),
    "paddle": (
        "ValueError",
        "(InvalidArgument) Input(Label) value should be less than {0}, but received {1}.\n"
        "  [Hint: Expected label < {0}, but received label:{1}.] (at {2}/cross_entropy.cc:{0})\n",
        [number, number, folder],
    ),
    "old_torch": (
        "RuntimeError",
        "size mismatch, m1: [{0} x {1}], m2: [{1} x {0}] at {2}/THTensorMath.cpp:{0}",
        [number, number, folder],
    ),
    "object": ("TypeError", "cannot pickle <Loader object at 0x7f{0}>", [number]),
}


@pytest.mark.parametrize("case", SAME)
@settings(max_examples=25)
@given(data=st.data())
def test_values_do_not_change_the_fingerprint(case, data):
    kind, message, values = SAME[case]
    first, second = (message.format(*(data.draw(value) for value in values)) for _ in range(2))

    assert fingerprint_parts(raised(kind, first), "torch") == fingerprint_parts(raised(kind, second), "torch"), (
        first,
        second,
    )


@settings(max_examples=40)
@given(place=folder, line=number, rank=st.integers(0, 1000))
def test_folder_line_and_rank_do_not_change_the_fingerprint(place, line, rank):
    here = raised("RuntimeError", "element 0 of tensors does not require grad")
    there = ObservedException(
        "RuntimeError",
        f"[rank{rank}]: element 0 of tensors does not require grad",
        frames=(
            Frame(f"{place}/train.py", line, "main", "  out  = model( x )  # forward", user=True),
            Frame(f"{place}/site-packages/torch/_tensor.py", line, "backward", "engine.run()"),
        ),
        rank=rank,
        line=line,
    )

    assert fingerprint_exception(here, "torch") == fingerprint_exception(there, "torch")


DIFFERENT = [
    ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"),
    ("RuntimeError", "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"),
    ("RuntimeError", "expected scalar type Long but found Float"),
    ("RuntimeError", "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"),
    ("RuntimeError", "element 0 of tensors does not require grad and does not have a grad_fn"),
    ("RuntimeError", "Trying to backward through the graph a second time"),
    ("RuntimeError", "CUDA error: device-side assert triggered"),
    ("RuntimeError", "CUDA error: an illegal memory access was encountered"),
    ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("RuntimeError", 'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "fc.weight". '),
    ("RuntimeError", 'Error(s) in loading state_dict for Net:\n\tUnexpected key(s) in state_dict: "fc.weight". '),
    ("ModuleNotFoundError", "No module named 'apex'"),
    ("ModuleNotFoundError", "No module named 'torchvision.ops'"),
    ("ModuleNotFoundError", "No module named 'torchvision.datasets'"),
    ("AttributeError", "'NoneType' object has no attribute 'grad'"),
    ("AttributeError", "'NoneType' object has no attribute 'shape'"),
    ("KeyError", "'image'"),
    ("KeyError", "'label'"),
    ("TypeError", "forward() got an unexpected keyword argument 'mask'"),
    ("TypeError", "forward() got an unexpected keyword argument 'labels'"),
    ("IndexError", "index 12 is out of bounds for dimension 0 with size 10"),
    ("IndexError", "Target 12 is out of bounds."),
]


def test_different_failures_differ():
    found = {fingerprint_exception(raised(*one), "torch") for one in DIFFERENT}

    assert len(found) == len(DIFFERENT)


def test_framework_class_and_line_of_code_tell_failures_apart():
    one = raised("ValueError", "too many values")
    others = [
        fingerprint_exception(one, "paddle"),
        fingerprint_exception(raised("TypeError", "too many values"), "torch"),
        fingerprint_exception(raised("ValueError", "too many values", source="a, b = batch"), "torch"),
        fingerprint_exception(raised("ValueError", "too many values", file="/x/evaluate.py"), "torch"),
    ]

    assert len({fingerprint_exception(one, "torch"), *others}) == 5


def test_the_inner_error_of_a_worker_counts():
    inner = ObservedException(
        "IndexError", "list index out of range", frames=(Frame("/a/data.py", 7, "__getitem__", "x[9]", True),)
    )
    outer = raised("IndexError", "Caught IndexError in DataLoader worker process 3.", inner=inner)

    assert fingerprint_exception(outer, "torch") == fingerprint_exception(inner, "torch")
    bare = ObservedException("IndexError", "list index out of range")
    kept = fingerprint_parts(
        raised("IndexError", "Caught IndexError in DataLoader worker process 3.", inner=bare), "torch"
    )
    assert kept[2] == "list index out of range" and kept[3].startswith("train:main")


def test_a_cell_of_a_notebook_is_the_same_in_each_session():
    one = raised("ValueError", "x", file="<ipython-input-3-0a1b2c>")
    other = raised("ValueError", "x", file="/tmp/ipykernel_4711/123456.py")

    assert fingerprint_exception(one, "") == fingerprint_exception(other, "")


def test_advice_and_stacks_of_libraries_do_not_count():
    short = "CUDA error: device-side assert triggered"
    long = (
        f"{short}\nCUDA kernel errors might be asynchronously reported at some other API call.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1.\nCompile with `TORCH_USE_CUDA_DSA` to enable.\n"
        "Exception raised from c10_cuda_check at ../c10/cuda/CUDAException.cpp:44\nframe #0: c10::Error::Error\n"
    )
    paddle = "Out of memory error on GPU 0."
    stack = "----\nC++ Traceback (most recent call last):\n----\n0  x::y()\n\n"
    summary = f"\n{stack}----\nError Message Summary:\n----\n{paddle}"

    assert normalise_message(long) == normalise_message(short)
    assert normalise_message(summary) == normalise_message(paddle)


@given(st.text(max_size=300), st.text(max_size=40), st.text(max_size=60))
def test_any_text_has_one_fingerprint(message, kind, source):
    one = fingerprint_exception(raised(kind, message, source=source), "")

    assert re.fullmatch(r"v1:[0-9a-f]{16}", one)
    assert one == fingerprint_exception(raised(kind, message, source=source, line=9), "")


@in_one_test("hostile", ["(" * 50_000, "a." * 50_000, "[1, " * 30_000, "/x" * 40_000, "'" * 9999, "\x00a\x00" * 999])
def test_hostile_messages_are_bounded(hostile):
    assert len(normalise_message(hostile)) < 1000


def test_the_algorithm_of_version_1_does_not_move():
    error = raised("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)")

    assert fingerprint_parts(error, "torch") == (
        "torch",
        "RuntimeError",
        "mat# and mat# shapes cannot be multiplied (# and #)",
        "train:main:out=model(x)",
    )
    assert fingerprint_exception(error, "torch") == "v1:d90675718fdedac6"


def test_faults():
    faults = [("dead_relu", "ReLU"), ("dead_relu", "GELU"), ("dead_relu",), ("loss_nonfinite",)]

    assert len({fingerprint_fault(*fault) for fault in faults}) == 4
    assert fingerprint_fault("dead_relu", "ReLU") == "v1:f267b6c8d7ff2d9e"
