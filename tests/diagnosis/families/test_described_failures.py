"""Failures described in sentences or at the end of a long log, and remarks of similar wording that report none."""

from __future__ import annotations

from collections.abc import Callable

from order_of_tests import in_one_test


@in_one_test(
    "text",
    [
        "UserWarning: Skip loading for fc.weight. fc.weight receives a shape [2048, 1000], but the expected shape is "
        "[2048, 10].\n[2021/10/27 15:51:29] root INFO: train with paddle 2.1.3",
        "Some weights of BertModel were newly initialized because the shapes did not match",
        "Calling loss.backward() twice will raise an error: Trying to backward through the graph a second time.",
        "Passing logits through softmax twice will silently produce NaN losses.",
        "注意：学习率过大会导致loss变成nan，需要适当减小。",
        "batch size 太大时会显存溢出，建议改小",
        "用户存在以下几种错误行为：\nA. 未安装，报错\n```\nModuleNotFoundError: No module named 'x'\n```\n",
        "Release 2.1\n- fixed hang in DataLoader with NCCL\n- Permission denied is now handled",
        "How do I run DDP so that no rank hangs?",
        "INFO: NCCL version 2.10.3\nINFO: init nccl context nranks: 2\nepoch 0 step 10 loss 1.2",
    ],
)
def test_what_sounds_alike_and_is_no_failure(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


@in_one_test(
    ("wanted", "text"),
    [
        ("shape_mismatch", "AssertionError: 预测和标签的形状不一致"),
        ("index_out_of_range", "ValueError: row index exceeds matrix dimensions"),
        (
            "shape_mismatch",
            "RuntimeError: (InvalidArgument) it cannot run\n  [Hint: Expected a.size() == b.size(), but received "
            "a.size():2 != b.size():3.] (at ../paddle/phi/kernels/cpu/a_kernel.cc:9)",
        ),
        (
            "",  # a compiler counts its own operations, not the sizes of tensors
            "RuntimeError: (PreconditionNotMet) it cannot run\n  [Hint: Expected a.size() == b->num(), but received "
            "a.size():0 != b->num():1.] (at ../paddle/fluid/pir/transforms/a_pass.cc:991)",
        ),
        ("config_error", "ValueError: 不支持的优化器: adamx"),
        ("config_error", "Exception: 配置文件中缺少 DATASET 字段"),
        ("file_not_found", "Exception: 文件 ./data/train.txt 不存在"),
        ("dataloader_worker_died", "报错DataLoader worker exited unexpectedly"),
        ("device_mismatch", "Expected all tensors on the same device error in multi gpu"),
        ("illegal_instruction_or_segfault", "Segfault when importing torch after opencv"),
    ],
)
def test_failures_told_in_one_sentence(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted


@in_one_test(
    "text",
    [
        "The backbone is frozen during distributed fine-tuning. Epoch 1 loss 0.4",
        "When I use frozen batchnorm with multi-gpu, accuracy is 2% lower. Is this expected?",
        "We release v2.0. Multi-node hangs are gone.",
        "Can I get permission error rates per class? Where is the error computed?",
        "加载模型失败时会自动重试，请忽略",
        "I want to raise KeyError: 'x' when config misses a key, is that ok?",
        "冻结主干网络后用多卡训练，精度不变正常吗？",
        "fix(ddp): avoid deadlock in barrier",
        "All tensors must have the same dtype (see the table).",
        "两个模型的数据类型不一致没有关系，正常训练。",
        "DDP 和 DP 有什么区别，DP 会卡在哪一步？",
        "I am stuck at 70% accuracy with multi-gpu training, any advice?",
        "loss 卡在 0.69 不动，多卡单卡都一样",
        "多卡训练时精度卡在 60% 上不去",
        "How do you get OOM statistics?",
        "docs: list error numbers such as [Errno 2] and [Errno 13]",
        "提示：端口被占用时请换一个端口。",
        "The script prints 'Missing keys when loading' for the head, which is expected in fine-tuning.",
        "我想知道形状不一致的特征图怎么融合？",
        "What does [Errno 5] mean?",
    ],
)
def test_questions_and_remarks_that_sound_alike(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


_WARNED = (
    "Some weights of the model checkpoint at bert-base were not used when initializing BertModel: ['cls.bias']\n"
    "[W reducer.cpp:1251] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any "
    "unused parameters in the forward pass.\n"
)
_STEPS = {
    "bars": "\r".join(
        f"Epoch 1: {i // 3:3d}%|##  | {i}/300 [00:10<01:10, 3.4it/s, loss=0.{i:03d}]" for i in range(300)
    ),
    "lines": "\n".join(
        f"2023-05-01 10:00:{i % 60:02d},123 - mmdet - INFO - Epoch [1][{i}/4000]\tlr: 1e-02, loss: 0.{i:03d}"
        for i in range(400)
    ),
    "dicts": "\n".join(f"{{'loss': 0.{i:03d}, 'learning_rate': 4.9e-05, 'epoch': {i / 100}}}" for i in range(600)),
}


@in_one_test("steps", _STEPS)
@in_one_test(
    ("wanted", "message"),
    [
        ("", ""),
        ("shape_mismatch", "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 256x10)"),
        ("config_error", "ValueError: optimizer sgdd not in ['sgd', 'adam']"),
        ("disk_full", "OSError: [Errno 28] No space left on device"),
        ("host_oom_killed", "Killed"),
        ("shape_mismatch", "ValueError: (InvalidArgument) The Input(X)'s shape[1] should equal 64, but received 3."),
    ],
)
def test_a_long_log_is_what_its_end_says(
    family_of: Callable[[str], str], steps: str, wanted: str, message: str
) -> None:
    frames = 'Traceback (most recent call last):\n  File "train.py", line 12, in main\n    step(x)\n'
    end = f"{frames}{message}\n" if ": " in message else f"{message}\n"
    assert family_of(f"{_WARNED}{_STEPS[steps]}\n{end}") == wanted
