from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labbook.errors import NothingFoundError, UsageError
from labbook.index.query import find_run, list_notes, run_names, search
from labbook.index.query_parser import parse_query

NAN, OOM, GOOD = "20261119-100000-aaaa", "20261120-100000-bbbb", "20261121-100000-cccc"


@pytest.fixture
def book(notes):
    notes.run(
        NAN,
        "## Console\n\n```text\nRuntimeError: Function 'LogBackward0' returned nan values\n```\n\n"
        "## Conclusion\n\n学习率太大，损失变成了 NaN。\n",
        title="train.py: loss is NaN since step 412",
        status="failed",
        symptoms=["loss_nonfinite", "update_too_large"],
        frameworks=["torch 2.13.0"],
        experiment="exp003_digits-cnn_dynamic",
        author="Wei",
        fix=GOOD,
        tags=["torch", "sweep"],
    )
    notes.run(
        OOM,
        "torch.OutOfMemoryError: tried to allocate 2 GiB\n",
        title="tune.py: the device is full",
        status="killed",
        symptoms=["cuda_oom"],
        frameworks=["paddle 3.3.1"],
        author="张敏",
    )
    notes.run(GOOD, "The gradient no longer explodes.\n", title="train.py: loss 2.31 -> 0.08", author="Wei")
    notes.page("ideas.md", "# Ideas\n\n显存不足时可以先减小批大小。\n")
    return notes.notebook


def names(found):
    return [hit.path.rsplit("/", 1)[-1].removesuffix(".md") for hit in found.hits]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("loss nan", [NAN]),
        ("loss 变成 NaN", [NAN]),
        ("loss变成NaN", [NAN]),
        ("损失 NaN", [NAN]),
        ("损失变成", [NAN, GOOD]),
        ("学习率", [NAN]),
        ("learning rate", [NAN]),
        ('"nan values"', [NAN]),
        ("显存不足", ["ideas", OOM]),
        ("out of memory", ["ideas", OOM]),
        ("OutOfMemory", ["ideas", OOM]),
        ("梯度爆炸", [GOOD]),
        ("exploding gradients", [GOOD]),
        ("explod*", [GOOD]),
        ("alloc", [OOM]),
        ("批", ["ideas"]),
        ("symptom:loss", [NAN]),
        ("symptom:cuda_oom,loss_nonfinite status:killed", [OOM]),
        ("framework:torch", [NAN]),
        ("tag:sweep has:fix", [NAN]),
        ("author:张 -status:finished", [OOM]),
        ("experiment:digits", [NAN]),
        ("script:tune", [OOM]),
        ("kind:note", ["ideas"]),
        ("loss -nan", [GOOD]),
        ("since:2026-11-20 before:2026-11-21 kind:run", [OOM]),
        ("RuntimeError: Function 'LogBackward0'", [NAN]),
    ],
)
def test_matching_notes(book, words, expected):
    assert sorted(names(search(book, words))) == sorted(expected)


def test_common_words_only_raise_the_rank_of_notes(book):
    assert names(search(book, "损失变成")) == [NAN, GOOD]


def test_the_title_counts_more_than_the_text(notes):
    notes.run(OOM, "nothing " * 20 + "deadlock", title="train.py: finished")
    notes.run(NAN, "nothing " * 20, title="train.py: deadlock in the loader")

    assert names(search(notes.notebook, "deadlock")) == [NAN, OOM]


def test_a_hit_has_its_location(book):
    hit = search(book, "LogBackward0").hits[0]
    line = (book.paths.root / hit.path).read_text().splitlines()[hit.line - 1]

    assert "LogBackward0" in line and "LogBackward0" in hit.snippet
    assert hit.title == "train.py: loss is NaN since step 412"
    assert hit.meta["fix"] == GOOD and hit.kind == "run"


def test_entities_are_found_as_the_text_they_stand_for(notes):
    notes.run(NAN, "the module head&#46;softmax &#40;model&#46;py&#58;88&#41; overflowed\n")

    hit = search(notes.notebook, "head.softmax").hits[0]

    assert "head.softmax (model.py:88)" in hit.snippet


def test_some_of_the_words_when_no_note_has_all(book):
    found = search(book, "gradient longer explodes zzzz")

    assert names(found) == [GOOD] and found.hits[0].loose


@pytest.mark.parametrize("words", ["gradient zzzz", "nothing like this xyzzy", "红烧肉怎么做"])
def test_a_few_common_words_of_nonsense_are_no_answer(book, words):
    with pytest.raises(NothingFoundError):
        search(book, words)


def test_no_match_suggests_alternatives(book):
    with pytest.raises(NothingFoundError) as caught:
        search(book, "loss since:2030-01-01")
    assert "condition" in caught.value.hint

    with pytest.raises(NothingFoundError) as caught:
        search(book, "loss tag:swep")
    assert "tag:sweep" in caught.value.hint and "torch" in caught.value.hint


@pytest.mark.parametrize("words", ["", "   ", "!!!", '"', '""', "-", "***"])
def test_empty_query(book, words):
    with pytest.raises(UsageError):
        search(book, words)


def test_dates():
    now = parse_query("since:7d").since
    assert now == pytest.approx(time.time() - 7 * 86400, abs=100)
    week, day = parse_query("since:2026-W47").since, parse_query("since:2026-11-16").since
    assert week == day
    assert parse_query("before:2026-11").before == parse_query("before:2026-11-01").before
    with pytest.raises(UsageError, match="yesteryear"):
        parse_query("since:yesteryear")


def test_colons_in_messages_are_words():
    question = parse_query("CUDA error: device-side assert http://x y:z")
    assert not question.filters


ODD = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("\"*():^-+{}[]\\'%_,;NEAR AND OR 损失:status")), max_size=60
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(ODD)
def test_no_question_crashes(book, words):
    with suppress(UsageError, NothingFoundError):
        search(book, words)
    with suppress(UsageError):
        list_notes(book, words)


@pytest.mark.parametrize(
    "words",
    [
        'a" OR b',
        "NEAR(a b)",
        "title:loss",
        "a AND",
        "(",
        "loss^2",
        '{title}: "x',
        "a\x00b",
        "\ud800",
        "x" * 5000,
        "' OR 1=1",
        'nothing "->" like this',
        'xyzzy": "',
    ],
)
def test_signs_of_the_index_are_only_signs(book, words):
    with suppress(UsageError, NothingFoundError):
        search(book, words)


def test_runs_newest_first(book):
    found = list_notes(book)
    assert [entry.id for entry in found.entries] == [GOOD, OOM, NAN]
    assert [entry.id for entry in list_notes(book, "status:failed,killed", limit=1).entries] == [OOM]
    assert list_notes(book, "status:failed,killed", limit=1).total == 2
    assert found.entries[2].meta["symptoms"] == ["loss_nonfinite", "update_too_large"]


@pytest.mark.parametrize("word", ["last", GOOD, "20261121", "cccc", f"notes/runs/2026/11/21/{GOOD}.md", " last "])
def test_a_query_for_a_run_id_finds_the_run(book, word):
    assert find_run(book, word).id == GOOD


def test_a_run_that_is_not_there(book, notes):
    with pytest.raises(NothingFoundError) as caught:
        find_run(book, "20261121-100000-cccd")
    assert GOOD in caught.value.hint
    with pytest.raises(UsageError, match="3 runs begin"):
        find_run(book, "2026")
    for odd in ("%", "_", "../../etc/passwd", "\x00", "''", "caf\udce9"):
        with pytest.raises((NothingFoundError, UsageError)):
            find_run(book, odd)


def test_an_empty_notebook(notes):
    with pytest.raises(NothingFoundError, match="no run yet"):
        find_run(notes.notebook, "last")
    assert list_notes(notes.notebook).entries == ()


def test_ids_for_the_shell(book):
    assert [name for name, _ in run_names(book, "202611")] == [GOOD, OOM, NAN]
    assert run_names(book, NAN) == [(NAN, "train.py: loss is NaN since step 412")]


def test_of_many_notes_title_matches_and_the_newest_rank_first(notes, monkeypatch):
    from labbook.index import ranking

    for day in range(1, 9):
        title = "train.py: deadlock" if day == 3 else "train.py: finished"
        notes.run(
            f"202611{day:02d}-100000-aaaa", "a deadlock in the loader", title=title, author="Wei" if day < 8 else "x"
        )
    monkeypatch.setattr(ranking, "COUNTED", 4)
    days = lambda found: [int(name[6:8]) for name in names(found)]  # noqa: E731

    assert days(search(notes.notebook, "deadlock", 3)) == [8, 7, 6]
    monkeypatch.setattr(ranking, "COUNTED", 7)
    found = search(notes.notebook, "deadlock", 3)
    assert days(found) == [3, 8, 7] and found.total == 7
    assert days(search(notes.notebook, "deadlock author:wei", 3)) == [3, 7, 6]


def test_the_last_run_is_no_trial_of_another_one(notes):
    notes.run("20261121-100000-aaaa")
    notes.run("20261121-110000-bbbb")
    notes.run("20261121-110000-bbbbt0001", trial_of="20261121-110000-bbbb")
    assert find_run(notes.notebook, "last").id == "20261121-110000-bbbb"
    assert find_run(notes.notebook, "bbbbt0001").id == "20261121-110000-bbbbt0001"


@pytest.mark.parametrize("day", ["2026-11-20", "2026-W47 tune", "2026-11 device"])
def test_a_date_among_words_is_a_condition(book, day):
    assert names(search(book, day))[-1] == OOM
    assert [entry.id for entry in list_notes(book, day).entries][-1] == OOM


def test_a_project_is_found_by_its_name(notes):
    notes.run(NAN, project="speech")
    notes.run(OOM, project="vision")

    assert names(search(notes.notebook, "speech")) == [NAN]


def test_a_comparison_that_no_run_fits_names_the_range(notes):
    for run, value in ((NAN, 0.2), (OOM, 0.85)):
        notes.run(run, metrics={"val_acc": {"best": value, "last": value}})

    missing = list_notes(notes.notebook, "val_acc>0.9").missing
    assert missing is not None and missing.texts("en")[0] == "val_acc is from 0.2 to 0.85 in the runs of this notebook"


@pytest.mark.parametrize(("query", "said"), [
    ("optimizer:adamm", "did you mean optimizer:Adam? Known: SGD, Adam."), ("epochs=six", "Known: 6."),
    ("epochs:60", "Known: 6."), ("optimizer:adam", ""), ("-optimizer:adamm epochs:6", ""),
])  # fmt: skip
def test_a_value_that_no_run_has_names_the_nearest_one(notes, query, said):
    for run, name in ((NAN, "Adam"), (OOM, "SGD")):
        notes.run(run, params={"optimizer": name, "epochs": 6})

    missing = list_notes(notes.notebook, query).missing
    assert (missing.texts("en")[1] if missing is not None else "") == said


def test_the_passage_is_no_row_of_a_check_that_is_fine(notes):
    table = "| check | verdict |\n|---|---|\n| Overfitting | ok |\n\nThe overfitting began at step 12.\n"
    notes.run(NAN, table)

    assert search(notes.notebook, "overfitting").hits[0].snippet == "The overfitting began at step 12."


def test_the_last_run_is_not_that_of_a_colleague(notes):
    (notes.folder / "labbook.toml").write_text('language = "en"\ncommit = "off"\nauthor = "Li"\n')
    notes.run("20261121-120000-cccc", author="Wei")
    assert find_run(notes.notebook, "last").id == "20261121-120000-cccc", "nobody else's would be none at all"
    notes.run("20261121-100000-aaaa", author="Li")
    assert find_run(notes.notebook, "last").id == "20261121-100000-aaaa"
    notes.run("20261121-110000-bbbb", author=None)
    assert find_run(notes.notebook, "last").id == "20261121-110000-bbbb", "an imported run without an author"


def test_an_ambiguous_beginning_counts_all_runs_that_have_it(notes):
    for number in range(23):
        notes.run(f"20261119-1000{number:02}-aaaa")

    with pytest.raises(UsageError, match="23 runs begin with '20261119'"):
        find_run(notes.notebook, "20261119")


@pytest.mark.parametrize(
    ("folder", "git", "last"),
    [
        ("code/nano", True, "20261121-100000-aaaa"),
        ("code/nano/tools", True, "20261121-100000-aaaa"),
        ("code/loose", False, "20261121-110000-bbbb"),
        ("code/loose/deep", False, "20261121-110000-bbbb"),
        ("code/new", False, "20261121-120000-cccc"),
        ("code/busy", False, "20261121-120000-cccc"),
    ],
)
def test_the_last_run_is_one_of_the_project_of_the_working_folder(notes, tmp_path, monkeypatch, folder, git, last):
    for number, name in enumerate(("aaaa", "bbbb", "cccc")):
        project = tmp_path / "code" / ("nano", "loose", "busy")[number]
        status = "running" if name == "cccc" else "finished"
        notes.run(f"20261121-1{number}0000-{name}", author="Ada", project=str(project), status=status)
    (tmp_path / folder).mkdir(parents=True)
    if git:
        (tmp_path / "code/nano/.git").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)
    said = []
    book = replace(notes.notebook, config=replace(notes.notebook.config, author="Ada"), notify=said.append)

    assert find_run(book, "last").id == last
    assert said[0].values["run"] == last and said[0].values["project"] in ("nano", "loose", "busy")
    assert find_run(book, last).id == last and len(said) == 1
    assert find_run(book, "last", has_ended=True).id == (last if "c" not in last else "20261121-110000-bbbb")
