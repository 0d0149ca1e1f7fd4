"""Reports in sentences: what is supposed, feared or asked for is no failure, what happened is one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.text.hedging import is_feature_request, without_speculation
from labbook.diagnosis.text.log_reader import read_text


@in_one_test(
    "text",
    [
        "Warn early\n\nIf there is not enough disk space the run crashes at the first checkpoint.",
        "降低默认学习率\n\n防止训练过程中出现nan值",
        "Nodes stay drained\n\nAny type of crash such as CUDA out of memory leaves the process behind.",
        "**Is your feature request related to a problem?**\nThe loss is nan, stopping training would save hours.",
        "已确认不是内存不足（OOM），也没有别的报错",
        "The segmentation fault of Monday was a bad riser, and the node has been stable since.",
        "Ticket 87: could not reproduce 'No space left on device' on the new volume, closing.",
        'The "NCCL timeout" that Mia reported came from her VPN.',
        "The old segmentation fault with this decoder was fixed by the update in spring.",
        'Release 3.2.0 (2026-10-02)\n- Docs: how to read "NCCL watchdog timeout" reports',
        "The authors report that the loss became NaN for 2 of 12 seeds.",
        "Please do not catch RuntimeError: CUDA out of memory in the loop.",
        "The target must be long, otherwise cross_entropy raises expected scalar type Long but found Float.",
        "Postmortem: three jobs hit 'No space left on device', and a cron job now deletes old checkpoints.",
        "公告：CUDA 11.3 编译的扩展需要重新编译，否则导入时会出现 undefined symbol 错误。",
        'The wiki says that "CUDA out of memory" at step 0 is a sign of a batch that is too large for the card.',
        'Queue times of the week are in the table; a "NCCL timeout" of the switch is part of them.',
        "| CUDA out of memory | lower the batch size |\n| NCCL timeout | a rank waits |",
        "超时后任务会被终止并打印 Watchdog caught collective operation timeout，默认 1800 秒",
    ],
)
def test_what_is_only_supposed_asked_for_or_mentioned_gives_no_finding(
    family_of: Callable[[str], str], text: str
) -> None:
    assert family_of(text) == ""


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB", 1),
        ("It was late when my colleague and I saw that the CUDA out of memory. Tried to allocate 2.00 GiB was back", 2),
    ],
)
def test_a_message_in_the_prose_of_a_person_is_never_certain(text: str, tier: int) -> None:
    found = diagnose(read_text(text), Matcher(load_catalogue())).primary
    assert found is not None and (found.family, found.tier) == ("cuda_oom", tier)


@in_one_test(
    ("text", "family"),
    [
        ("If I use batch 64, I get CUDA out of memory", "cuda_oom"),
        ("CUDA out of memory, how can I avoid it?", "cuda_oom"),
        (
            'It stops at the end of the first epoch with "CUDA out of memory" and I do not know what to change',
            "cuda_oom",
        ),
        ("训练到一半报错 out of memory，请问怎么解决？", "cuda_oom"),
        ("[Feature request] resume\n\nRuntimeError: CUDA error: out of memory", "cuda_oom"),
        ("启动训练显示KeyError: 'eval_f1'", "type_error_user_code"),
        ("按照教程训练，报错：KeyError -100", "type_error_user_code"),
        ("raises this on the first picture:\n\n`TypeError: 'Picture' object is not iterable`", "type_error_user_code"),
    ],
)
def test_what_happened_is_found_beside_suppositions(family_of: Callable[[str], str], text: str, family: str) -> None:
    assert family_of(text) == family


def test_the_title_tells_of_a_traceback_without_its_end(family_of: Callable[[str], str]) -> None:
    text = (
        "ValueError: all input arrays must have the same shape\n\nIt only works with batch 1.\n"
        'Traceback (most recent call last):\n  File "/w/train.py", line 90, in fetch\n    batch = collate(data)\n'
        '  File "/w/env/lib/python3.8/sit'
    )
    assert family_of(text) == "shape_mismatch"


def test_out_of_memory_of_a_scheduler_is_an_ending_and_in_a_sentence_it_is_none() -> None:
    assert read_text("srun: error: gpu07: task 0: Out Of Memory").ending.signal == "SIGKILL"
    assert read_text("Errors like `Out Of Memory (OOM)` are common here").ending.signal == ""


def test_stated_keeps_what_a_sentence_says_before_its_supposition() -> None:
    assert without_speculation("It failed. If it fails again, tell us. Thanks.") == "It failed.\nThanks."
    assert without_speculation("no supposition here") == "no supposition here"


@in_one_test(
    "text",
    [
        "fused kernels are off\nError caught was: No module named 'quick'\nready",
        "It goes well, without NaN losses so far",
        "No module named 'quick', the fast path will be disabled",
        "quick: CUDA error: out of memory on probing. Falling back to the plain kernel",
    ],
)
def test_what_a_program_goes_on_without_is_no_failure(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


def test_forms_of_feature_requests_are_known() -> None:
    assert is_feature_request("### 🚀 The feature, motivation and pitch\nfaster loading")
    assert not is_feature_request("the features have the wrong shape")


@pytest.mark.parametrize(
    ("text", "family"),
    [
        (
            "ValueError: (InvalidArgument) The axis is not what it was.\n"
            "  [Hint: Expected kept_dims[axis] == 3, but received kept_dims[axis]:7 != 3:3.] (at /p/a/kernel.h:18)",
            "shape_mismatch",
        ),
        (
            "paddle.fluid.core_avx.EnforceNotMet: The input is another one.\n"
            "  [Hint: Expected x->dtype() == y->dtype(), but received x->dtype():5 != y->dtype():3.] at (/p/b.cc:9)",
            "dtype_mismatch",
        ),
    ],
)
def test_a_hint_of_paddle_says_what_was_compared(family_of: Callable[[str], str], text: str, family: str) -> None:
    assert family_of(text) == family


@pytest.mark.parametrize(
    "text",
    [
        "How do I set init_process_group up for two machines?",
        "请问配置文件里的 num_classes 应该怎么写？",
        "You said you should install it from source, is there a wheel?",
    ],
)
def test_words_that_only_stand_in_messages_say_nothing_in_questions(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""
