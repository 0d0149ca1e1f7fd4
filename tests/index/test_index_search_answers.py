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
    return search(notes.notebook, question, subject=interpret_search(notes.notebook, question)[1]).hits


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
