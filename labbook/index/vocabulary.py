"""Reads texts by meaning: words of the field in English and Chinese, from `words.txt`.

A text is cut into atoms, English words and single Chinese characters, and the longest known sequence of atoms comes
first. So Chinese needs no spaces, and 梯度没清零, `zero_grad` and "zero the gradients" mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase

from labbook.frozen import dataclass
from labbook.index.cjk import CJK_CHARACTERS, NAME_PART, normalize_text

PATH = Path(__file__).with_name("words.txt")

_ATOM = re.compile(rf"[A-Za-z]+[0-9]*[A-Za-z0-9]*|[0-9]+(?:\.[0-9]+)?|[{CJK_CHARACTERS}]")
_NEGATION = re.compile(r"(?:(?<=ca)n|(?<=[a-z]))n['’]t\b", re.IGNORECASE)
"""The end of "doesn't", and of "can't"."""
_BARE_NEGATION = re.compile(r"\b(do|does|did|is|are|was|were|wo|ca|could|would|should|has|have|had)nt\b", re.IGNORECASE)
"""The same typed without the apostrophe."""
_ENDINGS = (
    *("ization", "isation", "ations", "ation", "ating", "ates", "ated", "ate"),
    *("ings", "ing", "ied", "ed", "ies", "es", "ly", "s", "e"),
)
_MIN_ROOT = 3
_VOWELS = tuple("aeiou")
# Shorter words are near too many others.
_LONG_WORD = re.compile(r"(?<![A-Za-z0-9_.])[A-Za-z]{5,}(?![A-Za-z0-9_])")


@dataclass(frozen=True)
class Vocabulary:
    """The words of the field.

    Args:
        forms: Each form -> it and its synonyms.
        minor: Words that say little.
        meanings: Roots of the atoms of each form -> the lines of the file with it, by their first form; empty for
            words that say little.
        weak: Meanings that say little about which failure it is.
        adverbs: Words that may occur, or be missing, anywhere inside of a form.
        everyday: Meanings that are about something else beside words that no page has.
        requests: Roots of the forms that ask for a way or a fact, and whether they stand at the beginning.
        calls: Forms such as `model.train`, which "the model trains" is not.
        failing: Meanings of a failure.
        past: Roots of the forms that ask about earlier runs: "how did we".
        longest: First root -> number of atoms of the longest form that begins with it.
    """

    forms: dict[str, tuple[str, ...]]
    minor: frozenset[str]
    meanings: dict[tuple[str, ...], frozenset[str]]
    longest: dict[str, int]
    weak: frozenset[str] = frozenset()
    adverbs: frozenset[str] = frozenset()
    everyday: frozenset[str] = frozenset()
    requests: tuple[tuple[tuple[str, ...], bool], ...] = ()
    calls: frozenset[tuple[str, ...]] = frozenset()
    failing: frozenset[str] = frozenset()
    past: tuple[tuple[str, ...], ...] = ()


@cache
def _lines() -> tuple[str, ...]:
    return tuple(PATH.read_text(encoding="utf-8").splitlines())


def vocabulary_lines() -> tuple[list[list[str]], list[str], list[str]]:
    """Returns the forms of each meaning of `words.txt`, the words that say little, and the forms of requests."""
    meanings: list[list[str]] = []
    minor: list[str] = []
    for line in _lines():
        if line.startswith(("#", "~~~")) or not line.strip():
            continue
        words = [word.strip() for word in line.lstrip("~").split("|") if word.strip()]
        if line.startswith("~"):
            minor += words
        else:
            meanings.append(words)
    return meanings, minor + past_words(), _line_words("~~~~~")


@cache
def vocabulary() -> Vocabulary:
    """Returns the words of `words.txt`."""
    forms: dict[str, tuple[str, ...]] = {}
    lines: dict[tuple[str, ...], set[str]] = {}
    meanings, minor, requests = vocabulary_lines()
    adverbs = frozenset(_line_words("~~"))
    for words in meanings:
        for word in words:
            lines.setdefault(_roots(word, adverbs) or _roots(word), set()).add(words[0])
            forms[word] = tuple(dict.fromkeys([word, *forms.get(word, ()), *words]))
    for word in minor:
        lines.setdefault(_roots(word), set())
    longest: dict[str, int] = {}
    for key in lines:
        longest[key[0]] = max(longest.get(key[0], 0), len(key))
    keys = {key: frozenset(names) for key, names in lines.items()}
    weak, everyday, failing = (
        frozenset(name for word in _line_words(mark) for name in keys.get(_roots(word), {root(word)}))
        for mark in ("~~~", "~~~~", "~~~~~~")
    )
    asking = tuple((_roots(form), form.startswith("^")) for form in requests)
    calls = frozenset(tuple(atoms(form)) for form in forms if "." in form)
    past = tuple(map(_roots, past_words()))
    return Vocabulary(forms, frozenset(minor), keys, longest, weak, adverbs, everyday, asking, calls, failing, past)


def past_words() -> list[str]:
    """Returns the words of a question about earlier runs."""
    return _line_words("~~~~~~~")


def is_about_past(text: str) -> bool:
    """Whether a text asks about earlier runs: "how did we"."""
    roots = _roots(text)
    return any(_has(roots, form) for form in vocabulary().past)


def names_failure(text: str) -> bool:
    """Whether a text has a word of a failure, or asks about earlier runs."""
    return any(one & vocabulary().failing for one in read_meanings(text)) or is_about_past(text)


def is_request(text: str) -> bool:
    """Whether a text asks for a way or a fact without a word of a failure: "how to add a scheduler"."""
    roots = _roots(text)
    forms = vocabulary().requests
    return not names_failure(text) and any(
        roots[: len(form)] == form if is_first else _has(roots, form) for form, is_first in forms
    )


def _has(roots: tuple[str, ...], form: tuple[str, ...]) -> bool:
    return any(roots[at : at + len(form)] == form for at in range(len(roots)))


def _line_words(mark: str) -> list[str]:
    """Returns the words of the lines that begin with a mark."""
    found = (line for line in _lines() if line.startswith(f"{mark} "))
    return [word.strip() for line in found for word in line.removeprefix(mark).split("|")]


def _roots(text: str, without: frozenset[str] = frozenset()) -> tuple[str, ...]:
    return tuple([root(atom) for atom in atoms(text) if atom not in without])


def atoms(text: str) -> list[str]:
    """Returns the English words, numbers and single CJK characters of a text, in lower case."""
    plain = normalize_text(text)
    if "'" in plain or "’" in plain:
        plain = _NEGATION.sub(" not", plain)
    if "nt" in plain:
        plain = _BARE_NEGATION.sub(r"\1 not", plain)
    found = _ATOM.findall(plain)
    return found if plain == plain.lower() else [part for atom in found for part in _parts(atom)]


def _parts(atom: str) -> list[str]:
    """Returns the words of `OutOfMemoryError`, in lower case, and the class as a word of its own."""
    if not (atom.isascii() and atom.isalpha()) or atom.islower():
        return [atom.lower()]
    parts = NAME_PART.findall(atom)
    if len(parts) < 2 or min(map(len, parts)) < 2:
        return [atom.lower()]
    return [part.lower() for part in (*parts, *([atom] if parts[-1] == "Error" else []))]


@lru_cache(maxsize=65536)
def root(atom: str) -> str:
    """Returns a word roughly without its ending: `diverg` for diverged, `clip` for clipping."""
    if not atom.isascii() or not atom.isalpha():
        return atom
    for ending in _ENDINGS:
        if atom.endswith(ending) and len(atom) - len(ending) >= _MIN_ROOT and not atom.endswith("ss"):
            atom = atom[: -len(ending)] + ("y" if ending in ("ied", "ies") else "")
            break
    return atom[:-1] if len(atom) > _MIN_ROOT and atom[-1] == atom[-2] and atom[-1] not in "sl" else atom


def correct_typing(text: str, roots: Mapping[str, int]) -> str:
    """Returns a text in which each unknown word is replaced by the only known one that differs by one letter.

    Args:
        text: Words in English or Chinese.
        roots: Further known roots -> how often each is used.
    """
    return _LONG_WORD.sub(lambda match: _known_word(match.group(), roots), text)


def _known_word(word: str, roots: Mapping[str, int]) -> str:
    typed, known = word.lower(), _vocabulary_words()
    if root(typed) in roots or root(typed) in known:
        return word
    near = {
        root(one): one
        for one in _iter_misspellings(typed)
        if not known.isdisjoint((one, one.removesuffix("s"))) or one in roots
    }
    return near.popitem()[1] if len(near) == 1 else word


def _iter_misspellings(word: str) -> Iterator[str]:
    """Yields what a letter too many, too few or swapped, or another vowel makes of a word; its first letter is right.

    Another consonant is more often another word: "react" is not "reach", "explore" not "explode".
    """
    for at in range(1, len(word) + 1):
        head, tail = word[:at], word[at:]
        if tail:
            yield head + tail[1:]
            yield head + tail[1:2] + tail[:1] + tail[2:]
        for letter in ascii_lowercase:
            yield head + letter + tail
        if tail[:1] in _VOWELS:
            yield from (head + vowel + tail[1:] for vowel in _VOWELS)


@cache
def _vocabulary_words() -> frozenset[str]:
    """Returns the words of the vocabulary, and their roots."""
    words = {atom for form in vocabulary().forms for atom in atoms(form)} | set(vocabulary().minor)
    return frozenset(words | {root(word) for word in words})


@lru_cache(maxsize=32768)
def read_meanings(text: str) -> tuple[frozenset[str], ...]:
    """Returns the meanings of a text in order, each as the lines of the vocabulary with it.

    An unknown English word is its root, unknown Chinese text its pairs of adjacent characters. Words that say little
    are left out.
    """
    known = vocabulary()
    longest, meanings = known.longest, known.meanings
    words = [atom for atom in atoms(text) if atom not in known.adverbs]
    roots = tuple(map(root, words))
    found: list[frozenset[str]] = []
    start = at = 0  # the roots from `start` to `at` are unknown
    while at < len(roots):
        for width in range(longest.get(roots[at], 0), 0, -1):
            key = roots[at : at + width]
            # "normally" is not "normalise", though both have one root.
            is_minor = width == 1 and words[at] in known.minor and words[at] not in known.forms
            names = frozenset[str]() if is_minor else meanings.get(key)
            if names is not None and (key not in known.calls or key == tuple(words[at : at + width])):
                if start < at:
                    found += _unknown(roots[start:at])
                if names:
                    found.append(names)
                start = at = at + width
                break
        else:
            at += 1
    return (*found, *_unknown(roots[start:]))


def _unknown(roots: Sequence[str]) -> list[frozenset[str]]:
    """Returns the meanings of atoms that the vocabulary lacks; a CJK character alone says nothing."""
    words = [frozenset((one,)) for one in roots if one.isascii() and (len(one) > 1 or one.isdigit())]
    return words + [frozenset((a + b,)) for a, b in pairwise(roots) if not a.isascii() and not b.isascii()]
