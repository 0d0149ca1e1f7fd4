"""The query language of `labbook list`, `labbook search`, the site and Python."""

from __future__ import annotations

import pytest
from order_of_tests import in_one_test

from labbook.index import sql_filters
from labbook.index.query import list_notes, search
from labbook.index.query_error import QueryError
from labbook.index.query_parser import parse_query

A, B, C, D = (f"2026112{n}-100000-aaaa" for n in range(4))
NUMBERS = {"first": 2.3, "best": 0.1, "last": 0.2, "steps": 500}


@pytest.fixture
def book(notes):
    notes.run(
        A, "well", status="finished", host="gpu-01", tags=["sweep"], duration_s=4000.0, code={"branch": "main"},
        params={"lr": 0.01, "optimizer": "adamw", "amp": True, "model.width": 16}, command="python train.py --lr 0.01",
        metrics={"loss": NUMBERS, "val/acc": {"best": 0.95, "last": 0.91}}, verdict="unhealthy",
    )  # fmt: skip
    notes.run(
        B, "loss is nan", status="failed", host="gpu-02", tags=["nightly"], duration_s=30.0,
        params={"lr": 0.001, "optimizer": "adam", "amp": False, "model.width": 32},
        metrics={"loss": {**NUMBERS, "last": "nan"}},
    )  # fmt: skip
    notes.run(
        C, status="finished", experiment="exp2", command='python tune.py --lr=3.0 --note "a b" --warmup-steps 10',
        metrics={"val/acc": {"best": 0.5, "last": 0.4}}, verdict="healthy",
    )  # fmt: skip
    notes.page("ideas.md", "# Ideas\n\nA higher lr.\n")
    return notes.notebook


@in_one_test(
    ("query", "expected"),
    [
        ("lr<0.02", [B, A]),
        ("lr < 0.02", [B, A]),
        ("lr>=0.01", [C, A]),
        ("lr=1e-2", [A]),
        ("lr==0.01", [A]),
        ("lr:0.01", [A]),
        ("lr!=0.01", [C, B]),
        ("-lr:0.01", [C, B]),
        ("not lr:0.01", [C, B]),
        ("--lr=0.01", [A]),
        ("--lr", [C, B, A]),
        ("--warmup-steps", [C]),
        ("warmup_steps>5", [C]),
        ("optimizer:adam", [B, A]),
        ("optimizer=adam", [B]),
        ("optimizer:*w", [A]),
        ("amp:true", [A]),
        ("width:32", [B]),
        ("model.width:16", [A]),
        ("val_acc>0.9", [A]),
        ("val/acc>0.9", [A]),
        ("val_acc.best>=0.5", [C, A]),
        ("loss:nan", [B]),
        ("loss<0.5", [A]),
        ("loss.first>2", [B, A]),
        ("duration>1h", [A]),
        ("duration<1m", [B]),
        ("branch:main", [A]),
        ("verdict:unhealthy", [A]),
        ("verdict:failed", [B]),
        ("verdict:healthy,failed", [C, B]),
        ("-verdict:failed", [C, A]),
        ("status:failed OR val_acc<0.5", [C, B]),
        ("status:finished OR status:failed lr<0.005", [B]),
        ("status:finished lr<0.02 tag:sweep well", [A]),
        ("host=gpu-01", [A]),
        ('note:"a b"', [C]),
        ("-since:2026-11-22", [B, A]),
        ("val_acc.best=>0.5", [C, A]),
        ("started<2026-11-21", [A]),
        ("check:dead_relu OR tag:nightly", [B]),
    ],
)
def test_runs_that_fit_a_query(book, monkeypatch, query, expected):
    for most_read in (2000, 0):  # with 0, compared values are stored in the index as in a notebook of many runs
        monkeypatch.setattr(sql_filters, "_MANY", most_read)
        listed = [entry.id for entry in list_notes(book, query).entries]
        found = [hit.meta["id"] for hit in search(book, query).hits]

        assert listed == expected
        assert sorted(found) == sorted(expected)


def test_links_to_runs_can_be_asked_for_before_a_run_has_one(book):
    for query in ("parents:20261120", "trial_of:20261120", "resumed_from:20261120"):
        assert list_notes(book, query).entries == ()
    assert len(list_notes(book, "-sweep:lr-scan").entries) == 3


def test_stored_values_follow_the_notes(notes, book, monkeypatch):
    monkeypatch.setattr(sql_filters, "_MANY", 0)
    assert [entry.id for entry in list_notes(book, "lr<0.02").entries] == [B, A]
    notes.run(D, "new", status="finished", params={"lr": 0.015})
    notes.run(B, "edited", status="failed", params={"lr": 0.5})
    assert [entry.id for entry in list_notes(book, "lr<0.02").entries] == [D, A]
    assert [entry.id for entry in list_notes(book, "-lr<0.02").entries] == [C, B]


@pytest.mark.parametrize(
    ("query", "said", "advice"),
    [
        ("staus:failed", "staus", "status:failed"),
        ("status:finishd", "finishd", "status:finished"),
        ("verdict:helthy", "helthy", "verdict:healthy"),
        ("optimiser:adamw", "optimiser", "optimizer:adamw"),
        ("val_ac>0.9", "val_ac", "val/acc>0.9"),
        ("foo:bar", "foo", "Known: status, verdict"),
        ("zzz<3", "zzz", "Known: status, verdict"),
        ("--warmup-step=3", "warmup-step", "warmup_steps=3"),
        ("status<3", "status", "status:"),
        ("lr<high", "high", "0.02"),
        ("lr>0.1 OR well", "OR", "OR"),
        ("since:7d OR lr>1", "since", ""),
        ("since:yesteryear", "yesteryear", "2026-11-21"),
    ],
)
def test_what_is_not_known_is_refused_with_the_nearest(book, query, said, advice):
    for ask in (list_notes, search):
        with pytest.raises(QueryError) as caught:
            ask(book, query)
        assert said in caught.value.message and advice in caught.value.hint


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("status:", "status has no value"),
        ("-tag: sweep", "tag has no value"),
        ("lr<", "lr has no value"),
        ("OR lr>1", "OR must"),
        ("lr>1 OR", "OR must"),
    ],
)
def test_an_unfinished_condition_is_refused_in_a_list_and_a_word_in_a_question(book, query, said):
    with pytest.raises(QueryError, match=said):
        list_notes(book, query)
    assert parse_query("my train loss: nan").terms


@pytest.mark.parametrize("query", ["tag:swep", "host:gpu-9", "experiment:exp9"])
def test_a_value_that_no_run_has_is_named_with_those_that_runs_have(book, query):
    listed = list_notes(book, query)

    assert not listed.entries and listed.missing is not None
    assert query.partition(":")[2] in listed.missing.message and "Known: " in listed.missing.hint


def test_messages_are_words_in_a_search_and_quotes_make_them_words_everywhere(book):
    for words in ("model.py:88 well", "well shuffle=True", "well http://x", "well cuda:0", "well aten::mm",
                  "well loaded with statos=False but bad", "well it stops where q < 7 fails",
                  "well it stops as soon as the optimiser_lr > 1 is set"):  # fmt: skip
        with_words = _found(book, words)
        assert with_words in ([], [A])
    assert [entry.id for entry in list_notes(book, '"foo:bar"').entries] == []


def _found(book, words):
    from labbook.errors import NothingFoundError

    try:
        return [hit.meta.get("id") for hit in search(book, words).hits]
    except NothingFoundError as error:
        assert not isinstance(error, QueryError)
        return []


def test_an_unknown_value_is_explained_in_both_languages(notes):
    notes.run(A, params={"lr": 0.1})
    with pytest.raises(QueryError) as caught:
        list_notes(notes.notebook, "status:finishd")
    message, advice = caught.value.texts("zh")
    assert "没有" in message and "status:finished" in advice and "is never" in str(caught.value)


def test_options_of_a_run_are_found_by_their_text(book):
    assert _found(book, "adamw") == [A]
    assert _found(book, "0.001") == []
