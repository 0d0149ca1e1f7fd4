"""What a training outlived is no failure; texts of people in which nothing failed."""

from __future__ import annotations

from collections.abc import Callable

from order_of_tests import in_one_test

STEPS = "".join(f"Epoch [{n}/40] iter 100/100 lr 0.010 loss: {2.0 / n:.4f} time 0.31\n" for n in range(1, 9))
BORNE = (
    "The model and loaded state dict do not match exactly\nunexpected key in source state_dict: fc.weight, fc.bias",
    "WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 1.10 GiB; skipping batch",
    "Address already in use: port 29500 is taken, using 29501",
    "requests.exceptions.ReadTimeout: Read timed out. (read timeout=10), trying once more",
    "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.",
    "[W reducer.cpp:1400] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any",
)


def test_one_step_is_enough_after_an_error_whose_line_tells_what_is_tried_instead(
    family_of: Callable[[str], str],
) -> None:
    step = STEPS.splitlines(keepends=True)[0]
    assert family_of(f"CUDA out of memory at batch size 64, trying 32\n{step}") == ""
    assert family_of(f"CUDA out of memory at batch size 64, trying to allocate 2 GiB\n{step}") == "cuda_oom"


@in_one_test("line", BORNE)
@in_one_test("before", [0, 400])
def test_what_steps_follow_was_borne(family_of: Callable[[str], str], line: str, before: int) -> None:
    """`before`: as many healthy lines in front, so that the log is read by its notable lines alone."""
    text = "Epoch [0/40] iter 1/100 lr 0.010 loss: 2.31 time 0.31\n" * before + line + "\n" + STEPS
    assert family_of(text) == ""


@in_one_test(
    "end",
    [
        *("INFO trainer: done", "finished in 312 s", "Training complete.", "saved, done after 0:05:12", "训练结束"),
        *("Finished Training, weights saved to out/model.pt", "done, best acc 0.80", "Epoch [40/40] lr 0.010"),
    ],
)
def test_two_steps_are_enough_before_a_good_end(
    family_of: Callable[[str], str], tier_of: Callable[[str], int], end: str
) -> None:
    error = "trainer: attempt failed: RuntimeError: CUDA error: device-side assert triggered\n"
    two = "".join(STEPS.splitlines(keepends=True)[:2])
    assert family_of(error + two + end + "\n") == ""
    assert family_of(error + end + "\n") == family_of(two + error + end + "\n") == "cuda_device_assert"
    # Without that end it may be the failure, but is not certain to be.
    assert family_of(error + two) == "cuda_device_assert" and tier_of(error + two) == 2 and tier_of(two + error) == 1


@in_one_test(
    "text",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'a' (building it)\nepoch 1 mAP 0.21\nepoch 2 mAP 0.30",
        "Unable to plot the network:\nNo module named 'plots'\nEpoch 0\nlearning rate 0.01",
        "ERROR api: connection refused\nINFO connected\nepoch 1 acc 0.70\nepoch 2 acc 0.74",
        "no index at last.pt: No such file or directory, training from scratch\nloss 0.8",
        "[I] Trial 2 failed with ValueError('loss is nan')\nTrial 3 finished\nTrial 4 finished",
        "ERROR loader:loader.py:40 CUDA out of memory (simulated)\n==== 12 passed, 1 skipped in 3.01s ====",
        "usage: fit.py [-h]\n\noptions:\n  -h, --help  show this\n  --stop      raise RuntimeError on nan",
        "Segmentation fault (core dumped): expected\n7/7 fault-injection tests passed",
        "test_oom ... RuntimeError: CUDA out of memory (injected)\nok\n\nRan 2 tests in 0.41s\n\nOK",
        "Corrupt JPEG data: premature end of data segment\n 0/2  3.1G 0.10 0.03\n 1/2  3.1G 0.09 0.02",
        "{'loss': 1.1, 'grad_norm': nan}\n{'loss': 1.0, 'grad_norm': 2.2}\n{'loss': 0.9}\n{'train_loss': 0.98}",
        "ERROR: No matching distribution found for torchh\n$ python t.py\nepoch 1 loss 0.9\nepoch 2 loss 0.7",
        "lr_find: stopped, loss diverged to nan (expected at the end of the range)\nsuggested lr: 0.0021",
        "batch size 64: CUDA out of memory, halving\nbatch size 32: ok",
    ],
)
def test_what_programs_do_without_is_no_failure(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text + "\n") == ""


@in_one_test(
    "text",
    [
        "usage: fit.py [-h] --lr LR\nfit.py: error: the following arguments are required: --lr",
        "epoch 1 mAP 0.21\nFileNotFoundError: [Errno 2] No such file or directory: 'i.bin'",
        "FAILED t.py::test_a - ModuleNotFoundError: No module named 'apex'\n==== 1 failed, 12 passed in 3.01s ====",
        "[rank1] FileNotFoundError: [Errno 2] No such file or directory\n[rank0] step 3 loss 1\n[rank0] step 4 loss 0",
    ],
)
def test_the_same_words_are_a_failure_where_nothing_follows(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text + "\n") != ""


def test_a_handled_traceback_is_borne_where_steps_and_a_good_end_follow(family_of: Callable[[str], str]) -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "log.py", line 9, in <module>\n    post()\n'
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='h', port=443): Max retries exceeded\n"
    )
    assert family_of(traceback + STEPS + "training finished\n") == ""
    assert family_of(traceback + STEPS) != "" and family_of(STEPS + traceback + "training finished\n") != ""


def test_a_traceback_that_starts_in_a_function_was_printed_by_who_caught_it(family_of: Callable[[str], str]) -> None:
    uncaught = (
        'Traceback (most recent call last):\n  File "run.py", line 4, in <module>\n    import_fused()\n'
        "ModuleNotFoundError: No module named 'apex'\nusing the plain optimizer\n"
    )
    caught = uncaught.replace("<module>", "import_fused")
    ignored = "Exception ignored in: <function _Iterator.__del__ at 0x7f>\n" + uncaught
    assert family_of(caught + STEPS) == family_of(ignored + STEPS) == ""
    assert family_of(uncaught + STEPS) == family_of(STEPS + caught) == "missing_dependency"


def test_what_ends_the_log_was_not_borne(family_of: Callable[[str], str]) -> None:
    assert family_of(STEPS + "CUDA out of memory. Tried to allocate 1.10 GiB\n") == "cuda_oom"
    assert family_of(STEPS * 60 + "RuntimeError: CUDA out of memory. Tried to allocate 1.10 GiB\n") == "cuda_oom"


def test_a_traceback_counts_whatever_another_rank_printed_behind_it(family_of: Callable[[str], str]) -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    step()\n'
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.10 GiB\n"
    )
    assert family_of(STEPS + traceback + STEPS) == "cuda_oom"


def test_who_asks_about_a_warning_means_it(family_of: Callable[[str], str]) -> None:
    text = f"why are my weights not used?\n\n{BORNE[0]}\n{STEPS}"
    assert family_of(text) == "checkpoint_key_mismatch"


def test_a_loss_that_stays_nan_is_no_step_of_a_healthy_training(family_of: Callable[[str], str]) -> None:
    text = STEPS + "".join(f"Epoch [{n}/40] iter 100/100 lr 0.010 loss: nan time 0.31\n" for n in range(9, 20))
    assert family_of(text) == "nan_or_inf"


@in_one_test(
    "text",
    [
        "How do I find out what a model needs before I rent a card? I do not want to run out of memory on GPU.",
        "### Bug fixes\n- the check no longer raises for empty tensors\n- RuntimeError: found inf in gradients",
        'Q: What does "no kernel image is available for execution on the device" mean?\nA: It lacks code for it.',
        "建议增加一个参数，loss 出现 NaN 的时候自动跳过这个 batch，目前训练都正常",
        "我们跑了几十个任务，一直很稳定，没有遇到过爆显存。",
        "问：提示 no kernel image is available 是什么意思\n答：安装包里没有这张卡的代码",
        "Set the rate to 10 on purpose. You will see the loss jump, then become inf and finally nan.",
    ],
)
def test_nothing_failed_to_who_wrote_it(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


def test_a_warning_may_name_its_component(family_of: Callable[[str], str]) -> None:
    words = "xFormers can't load C++/CUDA extensions. xFormers was built for:\n    PyTorch 2.0.1 (you have 2.1.0)\n"
    for head in ("WARNING[XFORMERS]: ", "WARNING (xformers): "):
        assert family_of(head + words) != ""
        assert family_of(f"{head}{words}step 10 loss 0.31\nModel saved to a.safetensors\n") == ""


@in_one_test(
    "text",
    [
        "grove 4.12 requires numpy<2.3.0,>=2, but you have numpy 1.26.4 which is incompatible.\n"
        "Successfully installed numpy-1.26.4 packaging-24.1\n",
        "labels: {'KeyError': 310, 'ValueError': 280, 'MemoryError': 95}\nepoch 1: f1 0.66\n",
        "Batch size 512 failed: CUDA out of memory, trying batch size 256\n"
        + "".join(f"Epoch {n}: 100% 120/120 [00:31<00:00, 3.81it/s, train_loss=0.7]\n" for n in range(2))
        + "`Trainer.fit` stopped: `max_epochs=2` reached.\n",
    ],
)
def test_a_log_that_ends_well_has_no_failure(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""
