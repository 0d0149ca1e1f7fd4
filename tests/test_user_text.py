"""Sentences that users read: known bad habits stay out, titles are short and unique."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from order_of_tests import in_one_test

import labbook.checks as labbook_checks
from labbook.cli import labbook
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.model.symptom import Symptom
from labbook.store.text.words_files import builtin_folder
from labbook.store.toml_parser import parse_toml

LANGUAGES = ("en", "zh")
MOST_LETTERS = {"en": 59, "zh": 32}

FORBIDDEN = {
    "en": [
        # A private language.
        r"\bthat which\b",
        r"\bas it stands\b",
        r"\b(?:no one|nobody) (?:knows|uses|has)\b",
        r"\bwhatever (?:else )?(?:it|one) (?:is|has)\b",
        r"\bby heart\b",
        r"\bwithout a word\b",
        r"\b(?:is|are|was|were) (?:told|said|heard|meant|asked)\b",
        r"\basked (?:for|of)\b",
        r"\bthan (?:it|they) (?:was|were) made for\b",
        r"\bstands? (?:at|before|behind|around|where|in the)\b",
        r"\bshows? itself\b",
        r"\bthe commonest\b",
        r"\bmend\b",
        # "What is read is what counts."
        r"(?:^|[.:;] )What [^.?]* (?:is|are) [^?]*\.",
        # The end of an item of "What to try" reads "Fixed if ...".
        r"\b[Ii]t worked (?:when|if)\b",
        # An advice names its object.
        r"(?:^|[.;] )(?:Lower|Raise|Change|Clip|Use|Remove|Set|Reduce) (?:it|them|fewer|less|more)[.;]",
    ],
    "zh": [
        # Half of a translation.
        r"即(?:成功|为修好|为有效|为生效)",
        r"没走到",
        r"无人使用",
        r"被他人",
        r"一无所知",
        r"说明含义",
        r"的东西",
        # One term for one thing.
        r"秘密信息|扣留|遮盖|站点|保留文件|重现|差异(?!（)|发生器|症状库|笔记本|\d 个运行|} 个运行",
        r"死神经元|神经元死亡|数据加载器|回溯|原位",
        # Punctuation of the other language between Chinese characters.
        r"[\u4e00-\u9fff][,;:?!][\u4e00-\u9fff]",
        r"[\u4e00-\u9fff]\.(?:\s|$)",
    ],
}

PAGES = load_catalogue().symptoms


def symptom_sentences(symptom: Symptom, language: str) -> Iterator[str]:
    """The text of a page without its code: title, evidence, symptoms, causes, advice."""
    wording = symptom.wording_in(language)
    for text in (wording.title, *wording.says.splitlines(), wording.see, *wording.why, *wording.attempts):
        yield re.sub(r"`[^`]*`", "``", " ".join(text.split()))


def symptom_texts(language: str) -> Iterator[tuple[str, str]]:
    """Page and text of each sentence of the catalogue."""
    return ((page.id, text) for page in PAGES.values() for text in symptom_sentences(page, language))


def word_texts(language: str) -> Iterator[tuple[str, str]]:
    """Key and text of each label, message and help text in `templates/words/`."""
    folder = builtin_folder() / "words"
    for path in sorted(folder.rglob(f"{language}*.toml")):
        for key, text in nested_texts(parse_toml(path.read_text(encoding="utf-8"))):
            # An example of the command line is no sentence, and a line break no end of one.
            if not key.endswith(".epilog"):
                yield f"{path.relative_to(folder)}{key}", re.sub(r"`[^`]*`", "``", " ".join(text.split()))


def help_texts(language: str) -> Iterator[tuple[str, str]]:
    """Path and help of each command and option, in English; `word_texts` has the other languages."""
    groups: list[tuple[str, click.Command]] = [("labbook", labbook)] if language == "en" else []
    for path, command in groups:
        if isinstance(command, click.Group):
            context = click.Context(command)
            children = {name: command.get_command(context, name) for name in command.list_commands(context)}
            groups += [(f"{path} {name}", child) for name, child in children.items() if child is not None]
        options = [(f"{path} {option.name}", getattr(option, "help", None)) for option in command.params]
        for where, text in [(path, command.help), *options]:
            yield where, re.sub(r"`[^`]*`", "``", " ".join((text or "").split()))


def nested_texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Key and text of each string in nested data."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from nested_texts(part, f"{key}.{name}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from nested_texts(part, f"{key}.{number}")
    elif isinstance(value, str):
        yield key, value


SOURCES: dict[str, Callable[[str], Iterator[tuple[str, str]]]] = {
    "symptom pages": symptom_texts,
    "words": word_texts,
    "help": help_texts,
}


@in_one_test("language", LANGUAGES)
@in_one_test("source", SOURCES)
def test_user_text_has_none_of_the_forbidden_phrases(source, language):
    forbidden = re.compile("|".join(f"(?:{phrase})" for phrase in FORBIDDEN[language]))
    texts = list(SOURCES[source](language))
    found = [f"{where}: {text}" for where, text in texts if forbidden.search(text)]
    assert texts or (source, language) == ("help", "zh")
    assert found == []


@pytest.mark.parametrize("source", ["symptom pages", "words"])
def test_chinese_sentences_set_latin_words_apart_and_hold_no_english_clause(source):
    texts = [(where, re.sub(r"``|{[^{}]*}|“[^”]*”", "", text)) for where, text in SOURCES[source]("zh")]
    tight = re.compile(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9%](?!月)[\u4e00-\u9fff]")
    clause = re.compile(r"(?:\b[A-Za-z][a-z]+\b[ ,]+){4,}")
    assert [f"{where}: {text}" for where, text in texts if tight.search(text) or clause.search(text)] == []
    # A value of the run may be Latin; without one, the space is left out.
    slot = re.compile(r"[\u4e00-\u9fff]\{[a-z_]\w*(?:\.-?\d+)?[|}]|\|[^{}]*\}[\u4e00-\u9fff]", re.ASCII)
    assert source == "words" or [text for _, text in SOURCES[source]("zh") if slot.search(text)] == []


def test_the_rows_of_the_checks_for_programs_have_chinese_names():
    known = parse_toml((builtin_folder() / "words/messages/zh_texts.toml").read_text(encoding="utf-8"))
    names: set[str] = set()
    for file in Path(labbook_checks.__path__[0]).glob("rows_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Row":
                names |= {part.value for part in node.args[:1] if isinstance(part, ast.Constant)}
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).lstrip("(").startswith("what"):
                value = node.value.elts[0] if isinstance(node.value, ast.Tuple) else node.value
                names |= {value.value} if isinstance(value, ast.Constant) else set()
    assert len(names) > 15 and names - set(known) == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_symptom_titles_are_short_and_unique(language):
    titles = {page.id: page.wording_in(language).title for page in PAGES.values()}
    # Code marks are not shown in Chinese lists, and a Chinese character is twice as wide.
    lengths = {name: len(title.replace("`", "") if language == "zh" else title) for name, title in titles.items()}
    assert {name: titles[name] for name, length in lengths.items() if length > MOST_LETTERS[language]} == {}
    assert [title for title, count in Counter(titles.values()).items() if count > 1] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_symptom_titles_are_phrases_with_whole_code_marks(language):
    for page in PAGES.values():
        title = page.wording_in(language).title
        assert not title.endswith((".", "。", "...", "…", "!", "！")), page.id
        assert title.count("`") % 2 == 0, page.id
        assert not re.match(r"(?:The|An) ", title), f"{page.id}: begin with the known term"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_advice_stands_on_its_own(language):
    shortest = {"en": 30, "zh": 12}[language]
    # An advice that begins with bare code, or continues another sentence.
    dependent = re.compile(r"(?:\{(?:torch|paddle)\|)?(?:Or\b|Then\b|See the row|`|或|再|然后)")
    firsts = {page.id: page.wording_in(language).attempts[0] for page in PAGES.values()}
    assert {name: text for name, text in firsts.items() if len(text) < shortest or dependent.match(text)} == {}


def test_no_sentence_ends_with_a_command_that_ends_with_a_dot():
    # Without its marks, as on the terminal, `pip install -e .` at the end of a sentence reads as `-e ..`.
    texts = {page.id: page.wording_in("en").attempts for page in PAGES.values()}
    assert {name: text for name, sentences in texts.items() for text in sentences if " .`." in text} == {}
