"""Reports of people: without a message nothing is found; a message is found among sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from order_of_tests import in_one_test

REPORTS = Path(__file__).resolve().parents[1] / "data" / "reports_without_message.txt"


def reports() -> list[str]:
    """The reports of the file; the family above each is what their writers probably met."""
    parts = f"\n{REPORTS.read_text(encoding='utf-8')}".split("\n== ")[1:]
    return [part.partition("\n")[2] for part in parts]


@in_one_test("text", reports())
def test_a_report_without_a_message_has_no_finding(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("nan_or_inf", "I get nan loss as soon as I use the second head"),
        ("unsupported_op", "kernel [engine] is unsupported. Reason: op type Conv3D is not found in this op store"),
    ],
)
def test_messages_that_a_page_knows(family_of: Callable[[str], str], family: str, text: str) -> None:
    assert family_of(text) == family


@in_one_test(
    "text",
    [
        "Is a mean of nan for an empty batch documented?",
        "We checked that the loss is not nan and that gradients are fine.",
        "训练了三天，loss 没有出现 nan，精度也正常",
        "A callback that stops when the gradient norm is not finite would be nice to have.",
        "Validation loss improved from inf to 0.6213, saving model",
        "best_loss: inf",
        "显存不够的话可以用梯度累积。",
        "显存不足时自动减小批大小",
        "The shape error message should name the layer.",
        "Tips to keep memory from growing until the job dies",
        "Which port is used by the master when none is set?",
        "How do I find out which operators are not supported by the exporter?",
        "The memory of the cache grows with the number of files.",
        "我想了解一下数据类型不一致时框架怎么提升",
        "怎么实现数组越界检查",
        "Memory usage stays at 40 % and nothing is killed.",
    ],
)
def test_what_sounds_alike_says_nothing(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


def test_a_message_comes_before_the_sentences_around_it(family_of: Callable[[str], str]) -> None:
    text = "loss becomes nan in fp16\n\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"
    assert family_of(text) == "cuda_oom"


@in_one_test(
    ("wanted", "text"),
    [
        ("cuda_oom", "CUDA内存不足，GPU 0 已分配 7.5G"),
        ("missing_dependency", "提示缺少 libGL.so.1"),
        ("missing_dependency", "'python' 不是内部或外部命令，也不是可运行的程序"),
        ("config_error", "usage: issue.py [-h] [--op]\nissue.py: error: Value not boolean: ['true']."),
    ],
)
def test_messages_without_a_class(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted


@in_one_test(
    "text",
    [
        "num_workers 设置多少合适？机器是 32 核",
        "请问 paddle2onnx 支持 NonZero 算子吗",
        "I freeze the backbone layers in DDP and only train the head, is that right?",
        "torch.cuda.is_available() 返回 True，但是训练速度很慢",
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n请问这段代码是什么意思",
        "Is CUDA available: False\nPyTorch version: 2.0.1\nHow do I use mps with this repo?",
        "磁盘空间需要多少才能放下整个数据集？",
        "训练早停了，第 20 个 epoch 就停了是正常的吗",
    ],
)
def test_questions_in_like_words(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("", "step 100 | loss 2.345 | grad norm inf -> skipped | scale 32768\nstep 101 | loss 2.340 | grad norm 1.2\n"),
        ("nan_or_inf", "step 1 | loss nan | grad norm nan -> skipped\nstep 2 | loss nan | grad norm nan -> skipped\n"),
        ("nan_or_inf", "step 1 | loss 2.345 | grad norm nan | lr 0.1\nstep 2 | loss nan | grad norm nan | lr 0.1\n"),
    ],
)
def test_a_step_that_the_scaler_skips_is_no_failure(family_of: Callable[[str], str], family: str, text: str) -> None:
    assert family_of(text) == family


@in_one_test(
    ("family", "text"),
    [
        ("cuda_driver_mismatch", "换了新版本之后一直 cudaErrorNoKernelImageForDevice，cpu 也跑不了"),
        ("cuda_driver_mismatch", "服务器上一跑就报 cuda runtime error（209）"),
        ("data_decode_error", "train: Scanning labels... 4100 found, 0 missing, 0 empty, 1200 corrupted"),
        (
            "dtype_mismatch",
            "ValueError: Must flatten tensors with uniform dtype but got torch.float16 and torch.float32",
        ),
        ("api_version_mismatch", "还是 'paddle.incubate.autograd' has no attribute 'prim_on'"),
        ("", "docs/faq.md\n- RuntimeError: Expected to have finished reduction in the prior iteration\n  set the flag"),
        ("", "train: Scanning labels... 4100 found, 0 missing, 0 empty, 0 corrupted"),
        ("", "Is it normal that a permission error is printed when the cache is missing?"),
        ("", "The new driver fixed the illegal memory access for us."),
        ("", "本文整理了 CUDA out of memory 的常见原因和解决办法"),
        ("", "It trains fine. INFO retries: 0, timeouts 0, bus errors: none seen so far"),
    ],
)
def test_messages_among_sentences(family_of: Callable[[str], str], family: str, text: str) -> None:
    assert family_of(text) == family


def test_a_message_comes_before_a_guess(family_of: Callable[[str], str]) -> None:
    message = "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\n"
    assert family_of(message) == family_of(message + "maybe it slowly runs out of memory?\n") == "cudnn_error"


def test_a_gpu_that_the_build_lacks_comes_before_the_symbol_that_is_missing_on_it(
    family_of: Callable[[str], str],
) -> None:
    text = (
        "W0102 10:00:00.1 9 gpu_resources.cc:1] The GPU compute capability in your current machine is 120, which is "
        "not supported by Paddle, it is recommended to install the corresponding wheel\n"
        "Could not load symbol cublasOther from libcublas.so.12. "
        "Error: /lib/libcublas.so.12: undefined symbol: cublasOther\n"
        'Traceback (most recent call last):\n  File "fit.py", line 7, in <module>\n    loss.backward()\n'
        "OSError: (PreconditionNotMet) The meta data must be valid when call the mutable data function.\n"
    )
    assert family_of(text) == "cuda_driver_mismatch"


FILE_MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'data/part-7.npy'"
WAITING = (
    'Traceback (most recent call last):\n  File "fit.py", line 9, in <module>\n    batch = batches.get(timeout=2)\n'
)
IN_THREAD = WAITING.replace("Traceback", "Exception in thread reader:\nTraceback", 1)
TERMINATED = (
    "----------------------\nError Message Summary:\n----------------------\n"
    "FatalError: `Termination signal` is detected by the operating system.\n"
)


@pytest.mark.parametrize("end", [f"{WAITING}_queue.Empty\n", TERMINATED])
def test_an_error_in_a_thread_is_why_the_main_thread_waits(family_of: Callable[[str], str], end: str) -> None:
    assert family_of(f"{IN_THREAD}{FILE_MISSING}\n{end}") == "file_not_found"


def test_an_exception_that_python_ignored_is_no_failure(family_of: Callable[[str], str]) -> None:
    text = (
        "Exception ignored in: <function Pipe.__del__ at 0x7f5>\nTraceback (most recent call last):\n"
        '  File "/usr/lib/python3.10/pipe.py", line 1, in __del__\n    close(self.handle)\n'
        "OSError: [Errno 9] Bad file descriptor\ntest accuracy 0.9\n"
    )
    assert family_of(text) == ""


def test_a_cut_traceback_says_no_more_than_the_message_pasted_above_it(family_of: Callable[[str], str]) -> None:
    message = (
        "TorchRuntimeError: Failed running call_function <built-in function mul>:\n"
        "The size of tensor a (96) must match the size of tensor b (s4) at non-singleton dimension 1\n"
    )
    head = f"{'-' * 75}\nTorchRuntimeError{' ' * 20}Traceback (most recent call last)\n"
    cut = f"{head}Cell In[1], line 4\n      3 x = 1\n----> 4 model(x)\n"
    assert family_of(f"{message}\nthe full log\n{cut}") == "shape_mismatch"
