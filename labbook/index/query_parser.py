"""Parses a query into filters `key:value`, quoted phrases and words, and writes it for FTS5."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path

from labbook.errors import UsageError
from labbook.frozen import dataclass
from labbook.index.cjk import is_cjk, name_parts, normalized, segment_phrase, split_scripts

FILTERS = {
    "status": "finished, failed, interrupted, killed, lost or running",
    "experiment": "part of an experiment's name",
    "framework": "torch, paddle",
    "symptom": "a symptom's id, or its beginning",
    "family": "a family of symptoms, or its beginning",
    "fingerprint": "the identity of a failure, or its beginning",
    "tag": "a tag, or its beginning",
    "author": "part of a name",
    "script": "part of a script's name",
    "host": "part of a machine's name",
    "mode": "dynamic, static, compiled",
    "kind": "run, experiment, symptom, report, note",
    "id": "the beginning of a run's id",
    "path": "part of a path",
    "has": "fix, symptom, metrics, tag, previous, problem",
    "since": "a day (2026-11-21), month (2026-11), week (2026-W47), today, yesterday, or an age (7d, 2w, 12h)",
    "before": "the same; that day is not included",
}
"""Filter -> its values. A minus in front negates it, commas mean "or": `-status:finished tag:nan,inf`."""

CONTAINS = frozenset({"experiment", "author", "script", "host", "path"})
EXACT = frozenset({"status", "kind", "has", "mode"})

_TERM = re.compile(r'(-?)(?:([A-Za-z]+):(?!/))?("[^"]*"?|\S+)')
_AGE = re.compile(r"(\d{1,5})([hdw])")
_DAY_S = 86400.0


@dataclass(frozen=True)
class Filter:
    """`key:value`: notes with one of `values`, or, if `negated`, notes with none of them."""

    key: str
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True)
class Term:
    """A word or phrase to find: one of its synonyms `forms`; `minor` if it is a filler word."""

    forms: tuple[str, ...]
    quoted: bool = False
    minor: bool = False


@dataclass(frozen=True)
class Question:
    """A parsed query.

    Args:
        since: Unix seconds, inclusive, or `None`.
        before: Unix seconds, exclusive, or `None`.
    """

    terms: tuple[Term, ...] = ()
    excluded: tuple[Term, ...] = ()
    filters: tuple[Filter, ...] = ()
    since: float | None = None
    before: float | None = None


def parse_query(words: str, *, now: datetime | None = None) -> Question:
    """Parses a line of words, filters and quoted phrases.

    Args:
        words: The line. Only known keys make filters: `CUDA error: ...` is words.
        now: Base of relative dates; the local time by default.

    Raises:
        UsageError: A date cannot be read.
    """
    now = now or datetime.now().astimezone()
    terms: list[Term] = []
    excluded: list[Term] = []
    filters: list[Filter] = []
    since: list[float] = []
    before: list[float] = []
    for minus, key, raw in _TERM.findall(normalized(words)):
        value = raw.strip('"')
        if key.lower() == "since":
            since.append(_moment(value, now))
        elif key.lower() == "before":
            before.append(_moment(value, now))
        elif key.lower() in FILTERS:
            wanted = tuple(part.strip().lower() for part in value.split(",") if part.strip())
            filters.append(Filter(key.lower(), wanted, bool(minus)))
        elif raw.startswith('"'):
            (excluded if minus else terms).append(Term((f"{key} {value}".strip(),), quoted=True))
        elif minus and key == "" and value[:1].isalpha():
            excluded.extend(_terms(value))
        else:
            terms.extend(_terms(f"{key} {value}" if key else value))
    return Question(
        tuple(_joined(terms)), tuple(excluded), tuple(filters), max(since, default=None), min(before, default=None)
    )


def match_expression(question: Question, *, prefix: bool = False, any_term: bool = False) -> str:
    """Returns the FTS5 expression of the words, "" if there are none.

    Args:
        question: The query.
        prefix: Whether words match as prefixes: `diverg` finds `diverged`.
        any_term: Whether one word is enough.
    """
    wanted = [term for term in question.terms if any_term or not term.minor] or list(question.terms)
    asked = [text for text in (_term_expression(term, prefix=prefix) for term in wanted) if text]
    if not asked:
        return ""
    expression = (" OR " if any_term else " AND ").join(asked)
    minor = [text for term in question.terms if term not in wanted and (text := _term_expression(term, prefix=False))]
    if minor:
        # Filler words are optional, but notes with them rank higher.
        expression = f"({expression}) OR (({expression}) AND ({' OR '.join(minor)}))"
    excluded = [text for text in (_term_expression(term, prefix=False) for term in question.excluded) if text]
    return f"({expression}) NOT ({' OR '.join(excluded)})" if excluded else expression


def near_filters(words: str) -> list[str]:
    """Returns corrections of mistyped filters: `status:failed` for `staus:failed`."""
    from difflib import get_close_matches

    found = []
    for _, key, value in _TERM.findall(words):
        near = get_close_matches(key.lower(), FILTERS, n=1, cutoff=0.7) if key and key.lower() not in FILTERS else []
        found += [f"{name}:{value}" for name in near]
    return found


def _terms(text: str) -> Iterator[Term]:
    """Yields the terms of a bare word: three for `loss变成NaN`, one for `cuda-oom*`."""
    _, minor = _meanings()
    for part in split_scripts(text):
        if is_cjk(part):
            yield from (Term((piece,), minor=piece in minor) for piece in _cjk_words(part))
        else:
            word = part.strip(" ,;:.!?()[]{}'`")
            parts = name_parts(word)
            parted = len(parts) > 1 and min(map(len, parts)) > 1
            yield Term((word, " ".join(parts)) if parted else (word,), minor=word.lower() in minor)


def _joined(terms: list[Term]) -> Iterator[Term]:
    """Yields the terms with their synonyms; adjacent words of one expression become one term."""
    forms, _ = _meanings()
    at = 0
    while at < len(terms):
        for width in (4, 3, 2, 1):
            group = terms[at : at + width]
            phrase = " ".join(term.forms[0].lower() for term in group)
            if len(group) == width and not any(term.quoted for term in group) and phrase in forms:
                yield Term(tuple(dict.fromkeys((*forms[phrase], *(form for term in group for form in term.forms[1:])))))
                at += width
                break
        else:
            yield terms[at]
            at += 1


def _cjk_words(run: str) -> Iterator[str]:
    """Yields the known words in a run of CJK characters, longest first, and the rest between them."""
    forms, minor = _meanings()
    rest = ""
    at = 0
    while at < len(run):
        width = next((w for w in (6, 5, 4, 3, 2) if run[at : at + w] in forms or run[at : at + w] in minor), 0)
        if not width:
            rest += run[at]
            at += 1
            continue
        if rest:
            yield rest
        yield run[at : at + width]
        rest = ""
        at += width
    if rest:
        yield rest


@cache
def _meanings() -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    """Returns word -> its synonyms, the word itself first; and the filler words."""
    forms: dict[str, tuple[str, ...]] = {}
    minor: set[str] = set()
    for line in Path(__file__).with_name("words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        words = [word.strip() for word in line.lstrip("~").split("|") if word.strip()]
        if line.startswith("~"):
            minor.update(words)
            continue
        for word in words:
            forms[word] = tuple(dict.fromkeys([word, *forms.get(word, ()), *words]))
    return forms, frozenset(minor)


def _term_expression(term: Term, *, prefix: bool) -> str:
    forms = [
        text for text in (_form_expression(form, prefix=prefix and not term.quoted) for form in term.forms) if text
    ]
    if len(forms) < 2:
        return forms[0] if forms else ""
    return f"({' OR '.join(forms)})"


def _form_expression(form: str, *, prefix: bool) -> str:
    """Returns a word as an FTS5 string, in which nothing is an operator and quotes are doubled."""
    star = form.endswith("*")
    phrase, open_end = segment_phrase(form.rstrip("*"))
    if not any(c.isalnum() for c in phrase):
        return ""
    wide = star or open_end or (prefix and len(phrase) > 2 and not is_cjk(phrase.replace(" ", "")))
    if wide and len(phrase) > 4 and phrase[-1] in "yYeE":
        # The stemmer writes `memori` for `memory` and `converg` for `converge`; the prefix must match both.
        phrase = phrase[:-1]
    return '"' + phrase.replace('"', '""') + '"' + ("*" if wide else "")


def _moment(value: str, now: datetime) -> float:
    """Returns the Unix seconds of the start of a day, week or month, or of an age before now."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    age = _AGE.fullmatch(value.lower())
    try:
        if age:
            unit = {"h": 3600.0, "d": _DAY_S, "w": 7 * _DAY_S}[age.group(2)]
            return now.timestamp() - int(age.group(1)) * unit
        if value.lower() in ("today", "今天"):
            return today.timestamp()
        if value.lower() in ("yesterday", "昨天"):
            return (today - timedelta(days=1)).timestamp()
        if "W" in value.upper():
            year, _, week = value.upper().partition("-W")
            day: date = date.fromisocalendar(int(year), int(week), 1)
        else:
            day = date.fromisoformat(value if len(value) > 7 else f"{value}-01")
        return datetime(day.year, day.month, day.day).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{value!r} is not a date", hint=f"a date is {FILTERS['since']}") from None
