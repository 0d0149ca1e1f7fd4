"""What a search answers first: the fix or page of the failure, and nothing to a question about something else."""

from __future__ import annotations

import pytest

from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.errors import NothingFoundError
from labbook.findings.search_question import interpret_search
from labbook.index.page_scores import page_scores
from labbook.index.query import search
from labbook.index.query_symptoms import match_symptoms
from labbook.index.vocabulary import read_meanings

OLD = "20261101-100000-aaaa"


def _answers(notes, question):
    query, subject = interpret_search(notes.notebook, question)
    return search(notes.notebook, query, subject=subject).hits


def test_library_names_are_no_names_of_a_program():
    scores = page_scores(load_catalogue().symptoms.values())
    assert not scores.list_names("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor), nn.Linear")


def test_a_name_of_a_message_puts_no_other_failure_before_the_page(notes):
    body = "forward() is missing a positional argument"
    notes.run(OLD, body, status="failed", symptoms=["module_forward_missing"], family="type_error_user_code", fix="x")

    (first, *_) = _answers(notes, "forward() missing 1 required positional argument")

    assert first.symptom == "forward_signature_mismatch"


@pytest.mark.parametrize("words", ["during training", "the model normally trains", "generally training"])
def test_words_that_say_little_are_no_meanings_of_the_same_root(words):
    assert read_meanings(words) in (read_meanings("training"), read_meanings("trains"))


@pytest.mark.parametrize(
    "words",
    [
        "weight loss plan for two weeks",
        "feature importance plot",
        "batch file rename in windows",
        "gradient background in css",
    ],
)
def test_scattered_words_without_a_failure_are_about_no_page(words):
    assert not match_symptoms(words, load_catalogue().symptoms.values()).symptoms


@pytest.mark.parametrize("words", ["how did we get gpu utilization up", "上次 gpu 利用率低是怎么提上来的"])
def test_a_question_about_earlier_runs_finds_what_helped_first(notes, words):
    notes.run(OLD, "The loader is slow.", symptoms=["dataloader_bottleneck"], fix="num_workers: 0 → 8")

    found = _answers(notes, words)

    assert found[0].fix and found[1].symptom in ("accelerator_underused", "dataloader_bottleneck")


def test_scattered_words_find_no_generated_text(notes):
    notes.run(OLD, "The loader of the batch opens the file in windows.")

    with pytest.raises(NothingFoundError):
        _answers(notes, "batch file rename in windows")


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("train.py: error: unrecognized arguments: --foo 3", "command_line_invalid"),
        ("the following arguments are required: --data", "command_line_invalid"),
        ("ImportError: libGL.so.1 cannot open", "shared_library_not_found"),
        ("跑着跑着程序就没了 也没报错", "process_killed_by_os"),
        ("之前那次磁盘写满是怎么清理的", "disk_full"),
        ("training hangs silently, no error", "stalled_no_progress"),
        (
            "NHWC: expected input[16, 224, 224, 3] to have 3 channels, but got 224 channels",
            "shape_mismatch_conv_channels",
        ),
        ("GPU util is at 5%, cpu pegged, training super slow", "accelerator_underused"),
        ("上个月那个读图片失败是怎么弄的", "opencv_image_empty"),
    ],
)
def test_a_message_without_its_class_or_a_symptom_in_other_words_finds_its_page(notes, question, first):
    notes.run(OLD, "The loss goes down.", params={"lr": 0.1})
    assert _answers(notes, question)[0].symptom == first


def test_neither_a_run_without_a_fix_nor_words_of_its_command_come_before_the_page(notes):
    command = "python train.py --label-smoothing 0 --start 1"
    notes.run(
        OLD, "", status="failed", symptoms=["label_out_of_range"], command=command, title="label_check.py: failed"
    )

    for question in ("labels start at 1 instead of 0", "label out of range in label_check.py"):
        assert _answers(notes, question)[0].kind == "catalogue"


def test_numbers_of_a_question_say_little():
    scores = page_scores(load_catalogue().symptoms.values())
    assert scores.rank_pages("loss is nan, 9 20 30")[0].share > 0.5
