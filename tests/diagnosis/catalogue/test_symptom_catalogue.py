"""Every page of the catalogue: its format, both languages, and its own examples as tests."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from labbook.diagnosis.candidates import ANYTHING
from labbook.diagnosis.catalogue import matcher
from labbook.diagnosis.catalogue.check_pages import load_check_pages
from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.pattern import compile_pattern
from labbook.diagnosis.catalogue.run_conditions import OBSERVED
from labbook.diagnosis.catalogue.symptom_catalogue import (
    BUILT_IN,
    HEADINGS,
    LEFT_OUT,
    REFUTED,
    load_catalogue,
    read_pages,
)
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.program_traits import CODE, FINE
from labbook.diagnosis.text.log_reader import read_text
from labbook.diagnosis.toml_data import read_toml
from labbook.health.checklist import CHECKS
from labbook.index.query_symptoms import match_symptoms
from labbook.index.vocabulary import read_meanings
from labbook.model.symptom import CRASH_FAMILIES
from labbook.store.text.words_files import builtin_folder, read_words

CONDITIONS = read_toml(Path(matcher.__file__).with_name("conditions.toml"))["conditions"]


@cache
def messages_of_checks():
    """Id of a check -> names of its messages."""
    found = {}
    for path in (builtin_folder() / "words" / "messages").glob("en_health*.toml"):
        found |= {name: row for name, row in read_words(path).items() if isinstance(row, dict)}
    return found


def is_chinese(text):
    return re.search("[\u4e00-\u9fff]", text) is not None


@pytest.fixture(scope="module")
def catalogue():
    return read_pages(BUILT_IN.glob("*.md"))


@pytest.fixture(scope="module")
def pages(catalogue):
    return list(catalogue.symptoms.values())


@pytest.fixture(scope="module")
def primary(catalogue):
    """Returns the id of the first symptom that a text shows."""
    reader = Matcher(catalogue)

    def first(text: str) -> str:
        found = diagnose(read_text(text), reader).primary
        return found.symptom if found else ""

    return first


def test_every_page_can_be_read(catalogue, pages):
    assert catalogue.problems == ()
    assert len(pages) == len(list(BUILT_IN.glob("*.md")))


def test_every_check_and_every_family_has_a_page(catalogue, pages):
    assert {check.id for check in CHECKS} <= set(catalogue.symptoms)
    assert {page.family for page in pages} >= set(CRASH_FAMILIES) - {"other"}


def test_a_page_says_the_same_in_both_languages(each, catalogue):
    def check(page_id):
        page = catalogue.symptoms[page_id]
        english, chinese = page.wording_in("en"), page.wording_in("zh")
        assert english is not chinese, "it has no Chinese title"
        for said in (english, chinese):
            assert said.title and said.see and said.why and said.attempts
            assert not said.title.endswith((".", "。"))
        assert len(english.why) == len(chinese.why)
        assert len(english.attempts) == len(chinese.attempts)
        assert bool(english.says) == bool(chinese.says)
        assert page.words and page.source
        in_chinese = [is_chinese(text) for text in page.asked]
        assert in_chinese.count(True) >= 2 and in_chinese.count(False) >= 3

    each(catalogue.symptoms, check)


def test_no_description_belongs_to_two_pages(pages):
    owner = {}
    for page in pages:
        for text in page.asked:
            assert owner.setdefault(frozenset(read_meanings(text)), page.id) == page.id, text


def test_descriptions_are_searched_but_never_diagnosed(tmp_path, catalogue):
    (tmp_path / "zz_own.md").write_text(
        "---\ntitle: Gremlins\nfamily: other\nasked: gremlins ate the batch\nasked_zh: [小妖怪吃掉批次]\n---\n", "utf-8"
    )
    known = read_pages([tmp_path / "zz_own.md"], catalogue)

    assert known.symptoms["zz_own"].asked == ("gremlins ate the batch", "小妖怪吃掉批次")
    for text in ("gremlins ate my batch again", "小妖怪又吃掉了批次"):
        assert match_symptoms(text, known.symptoms.values()).symptoms[:1] == ("zz_own",)
        assert diagnose(read_text(f"RuntimeError: {text}"), Matcher(known)).primary is None


def test_what_a_page_names_exists(each, catalogue):
    known = set(catalogue.symptoms)

    def check(page_id):
        page = catalogue.symptoms[page_id]
        assert set(page.caused_by) <= known | {ANYTHING}
        assert set(page.causes_of) <= known
        named = {condition.removeprefix(LEFT_OUT).removeprefix(REFUTED) for condition in page.when}
        fine = {condition for condition in named if condition.startswith(FINE)}
        assert {condition.removeprefix(FINE) for condition in fine} <= {check.id for check in CHECKS}
        in_code = {condition for condition in named if condition.startswith(CODE)}
        said = {condition for condition in named if condition.startswith("message: ")}
        led = {condition for condition in {*named, *page.instead} if condition.startswith("frames: ")}
        seen = {condition for condition in named if condition.startswith(OBSERVED)}
        for condition in seen:
            assert condition.removeprefix(OBSERVED) in messages_of_checks()[page.id]
        assert named - said - led - seen - fine - in_code <= set(CONDITIONS)
        assert set(page.instead.values()) <= known
        by_message = {one for one in page.instead if one.startswith("message: ")}
        assert set(page.instead) - by_message - led <= set(CONDITIONS)
        assert all(condition == condition.lower() for condition in {*by_message, *led})
        texts = " ".join(
            [*(p.text for p in page.patterns), *(e.text for e in page.matches), *page.wording_in("en").why]
        ).lower()
        of_class = " ".join(f"'{name}'" for p in page.patterns for name in p.types).lower()
        for condition in said:
            words = condition.removeprefix("message: ").split("|")
            assert any(word in texts or word in of_class for word in words), condition
            assert condition == condition.lower()
        for causes, fixes in page.when.values():
            assert set(causes) <= set(range(1, len(page.wording_in("en").why) + 1))
            assert set(fixes) <= set(range(1, len(page.wording_in("en").attempts) + 1))

    each(catalogue.symptoms, check)


def test_a_crash_has_patterns_and_examples_for_them(each, catalogue, pages):
    def check(page_id):
        page = catalogue.symptoms[page_id]
        assert page.patterns
        if any(pattern.kind != "exit" for pattern in page.patterns):
            assert page.matches and page.misses

    each((page.id for page in pages if page.family in CRASH_FAMILIES), check)


def test_a_page_is_what_its_examples_show(each, pages, primary):
    def check(page_id, text):
        assert primary(text) == page_id

    each(((page.id, example.text) for page in pages for example in page.matches), check)


def test_a_page_is_not_what_looks_like_it(each, pages, primary):
    def check(page_id, text):
        assert primary(text) != page_id

    each(((page.id, example.text) for page in pages for example in page.misses), check)


def test_a_page_does_not_depend_on_one_pattern_that_fits_everything(pages):
    for page in pages:
        for pattern in page.patterns:
            if pattern.text and pattern.kind != "reads" and not pattern.types and pattern.weight == 3:
                assert compile_pattern(pattern.text).length >= 8, (
                    f"{page.id}: {pattern.text!r} says too little on its own"
                )


_GUESS = re.compile(
    r"\b(?:may (?:be|have|indicate)|might|maybe|perhaps|probably|possibly|likely|can happen if|seems?)\b"
)


def test_no_message_that_guesses_is_certain(pages):
    """What a library only supposes is at most likely; a pattern that ends before the guess may be certain."""
    texts = [(page.id, one.text) for page in pages if page.tier == 1 for one in page.patterns if one.weight == 3]
    assert not [row for row in texts if _GUESS.search(row[1]) or "did you forget" in row[1].lower()]


def test_headings_are_known():
    assert set(HEADINGS) == {"en", "zh"}


def test_no_pattern_is_twice_on_a_page(each, catalogue):
    def check(page_id):
        patterns = catalogue.symptoms[page_id].patterns
        keys = [(p.kind, p.text.lower(), p.types, p.exits, p.frameworks) for p in patterns]
        assert len(keys) == len(set(keys)), {key for key in keys if keys.count(key) > 1}

    each(catalogue.symptoms, check)


@pytest.mark.parametrize(
    "front",
    ["family: zz", "tier: 9", "patterns: [3]", 'patterns: [{exception: "{x:foo} a"}]', "when: {a: 3}", "instead: 3"],
)
def test_a_wrong_page_is_explained_in_the_language_of_the_notebook(tmp_path: Path, front: str) -> None:
    folder = tmp_path / "notes" / "symptoms"
    folder.mkdir(parents=True)
    (folder / "own_page.md").write_text(f"---\ntitle: t\n{front}\n---\n", "utf-8")
    (english,), (chinese,) = (load_catalogue(folder, language=language).problems for language in ("en", "zh"))
    assert ": line 3: " in english and "：第 3 行：" in chinese
    assert english.isascii() and re.search("[\u4e00-\u9fff]", chinese.split("行：")[1])


def test_the_advice_of_a_row_is_that_of_the_case_observed():
    """The terminal shows the first fix of a row: for a reordered cache not that for one that does not grow."""
    words = load_check_pages(Path("none")).wording["kv_cache_wrong"]["en"]
    assert "roll" in words.first_advice(["moved"]) and "roll" not in words.first_advice(["lost"])
