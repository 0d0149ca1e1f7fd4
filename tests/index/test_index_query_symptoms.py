"""Words of either language lead to a symptom and its fix; words that say more are still words."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.errors import NothingFoundError, UsageError
from labbook.findings.search_question import interpret_search
from labbook.index.hit import Hit
from labbook.index.page_scores import page_scores
from labbook.index.query import search
from labbook.index.query_error import QueryError
from labbook.index.query_fields import FieldNames
from labbook.index.query_parser import parse_query
from labbook.index.query_symptoms import QuerySymptoms, match_symptoms
from labbook.index.vocabulary import correct_typing, read_meanings
from labbook.model.symptom import Example, Pattern, Symptom, Wording

CLASS = re.compile(r"`(\w+Error)`")


def symptom(id_, family, title, title_zh, words, patterns=(), matches=()):
    return Symptom(
        id_, family, family, 1, "error", (), {"en": Wording(title), "zh": Wording(title_zh)},
        patterns=tuple(Pattern("exception", text) for text in patterns), words=words,
        matches=tuple(Example(text) for text in matches),
    )  # fmt: skip


CATALOGUE = (
    symptom(
        "cuda_out_of_memory",
        "cuda_oom",
        "GPU out of memory",
        "显存不足",
        ("CUDA out of memory", "OOM", "显存不足", "爆显存"),
    ),
    symptom("loss_nonfinite", "numeric", "The loss is not finite", "损失不是有限值", ("loss nan", "loss 变成 NaN")),
    symptom(
        "step_with_no_gradient",
        "gradient",
        "Parameters get no gradient",
        "参数没有梯度",
        ("gradient is None", "grad is None", "梯度为 None"),
    ),
    symptom(
        "shape_mismatch_linear",
        "shape_mismatch",
        "A linear layer got an input of another width",
        "线性层的输入宽度不符",
        ("shape mismatch", "形状不匹配"),
        ("mat1 and mat2 shapes cannot be multiplied ({a:shape} and {b:shape})",),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)",),
    ),
    symptom("shape_mismatch_matmul", "shape_mismatch", "Two matrices do not fit", "两个矩阵不符", ("matmul",)),
)


@in_one_test(
    ("words", "symptoms", "whole"),
    [
        ("显存不足", ("cuda_out_of_memory",), True),
        ("out of memory", ("cuda_out_of_memory",), True),
        ("out of memroy on my gpu", ("cuda_out_of_memory",), False),
        ("gradeint is None", ("step_with_no_gradient",), True),
        ("an oom of umbrellas and bicycles", (), False),
        ("the loss still isn't finite", ("loss_nonfinite",), True),
        ("pytorch training error: out of memory", ("cuda_out_of_memory",), False),
        ("why OOM?", ("cuda_out_of_memory",), True),
        ("loss 变成 NaN", ("loss_nonfinite",), True),
        ("loss becomes nan", ("loss_nonfinite",), True),
        ("损失 NaN", ("loss_nonfinite",), True),
        ("gradient is None", ("step_with_no_gradient",), True),
        ("why are my gradients None", ("step_with_no_gradient",), True),
        ("形状不匹配", ("shape_mismatch_linear",), True),
        ("mat1 and mat2", ("shape_mismatch_linear",), True),
        ("shapes cannot be multiplied", ("shape_mismatch_linear",), True),
        ("loss_nonfinite", ("loss_nonfinite",), True),
        ("shape_mismatch", ("shape_mismatch_linear", "shape_mismatch_matmul"), True),
        ("symptom:loss_nonfinite", ("loss_nonfinite",), True),
        ("线性层输入宽度不对", ("shape_mismatch_linear",), True),
        ("digits cnn loss nan", ("loss_nonfinite",), False),
        ("cuda out of memory resnet", ("cuda_out_of_memory",), False),
        ("learning rate", (), False),
        ("digits with a larger batch and loss nan at the third epoch", ("loss_nonfinite",), False),
        ("loss", (), False),
        ("weather", (), False),
        ("", (), False),
    ],
)
def test_symptoms_of_query_words(words, symptoms, whole):
    meant = match_symptoms(words, CATALOGUE)

    assert meant.symptoms[: max(len(symptoms), 1)] == symptoms
    assert not symptoms or meant.whole == whole


@in_one_test(
    ("word", "symptoms"),
    [
        ("nan", ("loss_nonfinite", "nonfinite_parameter", "nonfinite_gradient")),
        ("dtype", ("loss_target_dtype_wrong", "op_not_implemented_for_dtype")),
        ("shape", ()),
        ("loss", ()),
        ("weather", ()),
    ],
)
def test_a_single_word_names_pages_by_their_titles_unless_many_have_it(word, symptoms):
    assert match_symptoms(word, load_catalogue().symptoms.values()).symptoms == symptoms


@in_one_test(
    ("word", "title"),
    [("cuda", "GPU"), ("label", "label"), ("越界", "out of range"), ("out of bounds", "out of range")],
)
def test_a_word_of_many_titles_leads_to_the_best_of_their_pages(word, title):
    known = load_catalogue().symptoms
    meant = match_symptoms(word, known.values())
    assert meant.symptoms == () and len(meant.related) == 3
    assert title in known[meant.related[0]].wording["en"].title


def test_a_description_finds_its_page():
    catalogue = load_catalogue().symptoms
    asked = [(page.id, text) for page in catalogue.values() for text in page.asked][::23]
    missed = [(name, text) for name, text in asked if name not in match_symptoms(text, catalogue.values()).symptoms]

    assert len(missed) <= 0.04 * len(asked), missed


@in_one_test(
    "words",
    [
        "how to cook rice in a rice cooker",
        "the bus was late and I missed the meeting",
        "my phone battery drops fast after the last update",
        "the file on my desktop cannot be opened",
        "如何给孩子取名字",
        "银行卡丢了怎么办",
        "北京到上海的高铁票多少钱",
    ],
)
def test_a_question_about_something_else_is_about_no_symptom(words):
    assert match_symptoms(words, load_catalogue().symptoms.values()).symptoms == ()


@in_one_test(
    "words",
    [
        "how to write a custom sampler for my dataset",
        "what is the meaning of gamma in the scheduler config",
        "could you share the checkpoint and the training log",
        "is the test split used for the choice of the model",
        "what batch size fits the paper",
        "请问这个数据集在哪里下载",
        "请问训练用了几张显卡，训练了多久",
        "如何把模型部署到手机上",
    ],
)
def test_a_request_without_a_failure_is_about_no_symptom(words):
    assert match_symptoms(words, load_catalogue().symptoms.values()).symptoms == ()


@in_one_test(
    "words",
    [
        "您好，加载权重时提示 size mismatch，请问怎么解决",
        "hello, my loss becomes nan after 2000 iterations, could you tell me what to do",
        "how to fix exploding gradients in an lstm",
        "显存不足怎么办",
        "如何避免过拟合",
        "怎么关掉 wandb",
    ],
)
def test_a_request_about_a_failure_finds_its_page(words):
    assert match_symptoms(words, load_catalogue().symptoms.values()).symptoms


def test_the_class_of_an_exception_among_words_finds_its_page():
    catalogue = load_catalogue().symptoms
    pages = {name: page for page in catalogue.values() for name in CLASS.findall(page.wording["en"].title)}
    assert len(pages) > 8
    for name in pages:
        found = match_symptoms(f"{name} in the loader of my images", catalogue.values()).symptoms
        assert found, name
        assert f"`{name}`" in catalogue[found[0]].wording["en"].title


def test_an_adverb_is_not_its_adjective():
    assert read_meanings("constant output") != read_meanings("output") == read_meanings("actually output")


def test_a_model_that_trains_is_not_in_train_mode():
    assert read_meanings("my model trains fast") == read_meanings("trains fast") != read_meanings("model.train() fast")


@in_one_test(("typed", "words"), [("gradeint", "gradient"), ("gradiant", "gradient"), ("grdient", "gradient")])
def test_a_typing_error_is_corrected(typed, words):
    assert correct_typing(typed, {}) == words


@in_one_test("word", ["react", "explore", "forum"])
def test_another_word_is_no_typing_error(word):
    assert correct_typing(word, {"reach": 1, "explode": 1}) == word


def test_a_comparison_in_a_chinese_sentence_is_words():
    names = FieldNames(params=("lr",))
    assert not parse_query("数据加载的 num_workers>0 在 windows 上报错", names).is_restricted
    with pytest.raises(QueryError):
        parse_query("num_workers>0", names)


@in_one_test(
    ("words", "symptom"),
    [
        ("acc 4.1729 at step 18342, loss stuck at 0.693", "loss_at_chance"),  # numbers that no page has say nothing
        ("the loss isnt going down, my datastes are fine", "loss_not_decreasing"),
        ("torch.load with weights_only fails", "checkpoint_weights_only_blocked"),
        ("there is a strong fluctuation of my loss", "loss_oscillating"),  # noun and verb
        ("my weights dont change after optimizer.step()", "step_changed_nothing"),  # without apostrophe
        ("训练前忘了归一化 255", "input_not_normalised"),
        ("forgot normalization 255", "input_not_normalised"),
        ("not normalized 255", "input_not_normalised"),
        ("归一化做了两遍 255", "input_double_normalised"),
        ("output directory already exists", "output_folder_exists"),
        ("第二次运行提示目录已存在", "output_folder_exists"),
    ],
)
def test_a_question_of_a_stranger_finds_its_page(words, symptom):
    assert match_symptoms(words, load_catalogue().symptoms.values()).symptoms[:1] == (symptom,)


OLD, FIXED, OTHER, KIN, TEXT = (f"2026110{n}-100000-aaaa" for n in range(1, 6))


@pytest.fixture
def book(notes):
    facts = {"status": "failed", "symptoms": ["cuda_out_of_memory"], "families": ["cuda_oom"]}
    notes.run(OLD, "memory", **facts, fingerprints=["v1:aa"])
    notes.run(FIXED, **facts, fingerprints=["v1:bb"], fix=TEXT, fix_text="--batch-size 64 → 32")
    notes.run(OTHER, **facts, fingerprints=["v1:cc"])
    notes.run(KIN, status="failed", symptoms=["cuda_other"], families=["cuda_oom"])
    notes.run(TEXT, "It was 显存不足 before, out of memory.")
    return notes.notebook


def ids(found):
    return [hit.path.rsplit("/", 1)[-1].removesuffix(".md") for hit in found.hits]


def page(id_="cuda_out_of_memory"):
    return Hit("symptoms/x.md", 1, "The memory", "Halve the batch", {}, "catalogue", why="same symptom", symptom=id_)


def test_the_order_of_answers(book):
    about = QuerySymptoms(("v1:aa",), ("cuda_out_of_memory",), ("cuda_oom",), whole=True, pages=(page(),))
    found = search(book, "out of memory", subject=about)

    assert ids(found) == [OLD, FIXED, "x", OTHER, KIN, TEXT]
    whys = [hit.why for hit in found.hits]
    assert whys == ["same fingerprint", *["same symptom"] * 3, "same family", "words"]
    fixed = found.hits[1]
    assert (fixed.fix, fixed.by, fixed.held, fixed.symptom) == ("--batch-size 64 → 32", TEXT, 0, "cuda_out_of_memory")


def test_words_more_specific_than_the_symptom_rank_first(book):
    about = QuerySymptoms((), ("cuda_out_of_memory",), ("cuda_oom",), whole=False, pages=(page(),))
    found = search(book, "before out of memory", subject=about)

    assert ids(found)[:4] == [TEXT, FIXED, "x", OTHER]


def test_runs_of_a_named_person_come_before_the_page(notes):
    facts = {"status": "failed", "symptoms": ["cuda_out_of_memory"]}
    notes.run(OLD, **facts, author="Ines")
    notes.run(OTHER, **facts, author="Wei")
    about = QuerySymptoms((), ("cuda_out_of_memory",), (), pages=(page(),))

    assert ids(search(notes.notebook, "Ines out of memory", subject=about))[:2] == [OLD, "x"]  # OTHER is newer
    assert ids(search(notes.notebook, "out of memory", subject=about))[:2] == ["x", OTHER]


@in_one_test("words", ["2026-11-24 failed", "model.py:18", "11/24", "train.py 0.5"])
def test_numbers_and_weak_words_are_about_no_symptom(words):
    assert match_symptoms(words, load_catalogue().symptoms.values()).symptoms == ()


def test_words_here_and_there_on_a_page_are_not_the_whole_question():
    assert not match_symptoms("augmentation of the crops", load_catalogue().symptoms.values()).whole


def test_a_fix_of_the_same_message_comes_before_a_newer_one(notes):
    for run, name in ((OLD, "mask"), (OTHER, "lengths")):
        text = f"forward missing required positional argument {name}"
        notes.run(run, text, status="failed", symptoms=["cuda_out_of_memory"], fix=TEXT, fix_text=name)
    about = QuerySymptoms((), ("cuda_out_of_memory",), (), whole=True, pages=(page(),))

    assert ids(search(notes.notebook, "forward missing required positional argument mask", subject=about))[0] == OLD


def test_filters_hold_for_all_answers(book):
    about = QuerySymptoms((), ("cuda_out_of_memory",), ("cuda_oom",), whole=True)

    assert ids(search(book, "out of memory has:fix", subject=about)) == [FIXED]
    assert ids(search(book, "family:cuda_oom")) == [FIXED, KIN, OTHER, OLD]
    assert ids(search(book, "fingerprint:v1:cc")) == [OTHER]


def test_a_page_of_the_catalogue_is_an_answer_by_itself(notes):
    notes.run(OLD)

    assert ids(
        search(notes.notebook, "zzzz qqqq", subject=QuerySymptoms((), ("a",), (), whole=True, pages=(page(),)))
    ) == ["x"]
    with pytest.raises(NothingFoundError):
        search(notes.notebook, "zzzz qqqq", subject=QuerySymptoms((), ("a",), (), whole=True))


@given(
    st.text(st.one_of(st.characters(), st.sampled_from("\"*():^-+{}[]\\'损失显存不足:symptom nan loss")), max_size=60)
)
def test_any_text_means_something_or_nothing(words):
    with suppress(UsageError):
        meant = match_symptoms(words, CATALOGUE)
        assert len(meant.symptoms) <= 3 or "symptom:" in words


def _interpreted(notes, question):
    return search(notes.notebook, question, subject=interpret_search(notes.notebook, question)[1])


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("shapelite not installed", OLD),
        ("shapelite 没装怎么办", OLD),
        ("No module named 'editdist'", OTHER),
        ("editdist 缺失", OTHER),
        ("环境变量 CLS_SEED 没有设置", FIXED),
        ("package not installed", "import_module_missing"),
    ],
)
def test_a_question_with_a_name_finds_the_run_with_this_name(notes, question, first):
    facts = {"status": "failed", "fix": "pip install", "symptoms": ["import_module_missing"]}
    notes.run(OLD, "No module named 'shapelite'", **facts)
    notes.run(OTHER, "No module named 'editdist'", **{**facts, "fix": "pip install editdist"})
    notes.run(FIXED, "KeyError: 'CLS_SEED'", status="failed", symptoms=["key_missing"], fix="CLS_SEED=1")
    notes.run(KIN, "No module named 'other'", **{**facts, "fix": None})
    (found, *_) = _interpreted(notes, question).hits

    assert first in (found.path.rsplit("/", 1)[-1].removesuffix(".md"), found.symptom), found


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("mat1 and mat2 shapes cannot be multiplied (7x9 and 5x3)", "shape_mismatch_linear"),
        ("loss becomes nan after some hundred steps", "loss_nonfinite"),
        ("unrecognized arguments --lr_rate", "command_line_invalid"),
    ],
)
def test_a_message_with_values_comes_before_what_its_words_suggest(notes, question, first):
    assert interpret_search(notes.notebook, question)[1].symptoms[0] == first


def test_words_of_a_page_are_no_names_of_a_program():
    scores = page_scores(load_catalogue().symptoms.values())
    assert not scores.list_names("device-side assert triggered, forgot optimizer.zero_grad()")
    assert scores.list_names("shapelite not found by data_loader.py") == ("shapelite", "data_loader.py")


@pytest.mark.parametrize(("question", "first"), [("paddle 显存不足", "x"), ("torch 显存不足", OLD), ("显存不足", OLD)])
def test_a_fix_of_another_framework_than_the_question_names_comes_behind_the_page(notes, question, first):
    notes.run(OLD, status="failed", fix="--batch 4", symptoms=["cuda_out_of_memory"], frameworks=["torch 2.13.0"])
    about = QuerySymptoms((), ("cuda_out_of_memory",), ("cuda_oom",), pages=(page(),))
    assert ids(search(notes.notebook, question, subject=about))[0] == first
