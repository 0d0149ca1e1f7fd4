"""Parses a query into conditions (`lr<0.02`, `status:failed`), quoted phrases and words, and writes it for FTS5.

The grammar is that of `docs/pages/query.md`; `templates/site/assets/query.js` is the same for the site.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from labbook.frozen import dataclass
from labbook.index.cjk import is_cjk, name_parts, normalize_text, segment_phrase, split_scripts
from labbook.index.query_error import QueryError, nearest_names, unknown
from labbook.index.query_fields import (
    FILTERS,
    SAME_FIELD,
    VALUES,
    FieldNames,
    Filter,
    check_filter,
    read_day,
    read_moment,
)
from labbook.index.vocabulary import vocabulary

_WORD = re.compile(r"""-?(?:[^\s"]*[:=<>])?"[^"]*"?|\S+""")
_CONDITION = re.compile(r"(-?)((?:--)?[^\W\d][\w./-]*?)(=?[<>]=?|!=|==|:|=)(.+)", re.DOTALL)
_UNFINISHED = re.compile(r"-?(?:--)?([^\W\d][\w./-]*?)(?:=?[<>]=?|[!=]?=|[:!])\"?")
_OPTION = re.compile(r"--([A-Za-z][\w.-]*)")
_SPACED = re.compile(r"(?<=\w)\s+(=?[<>]=?|!=)\s+(?=[-+.\d]|nan\b|inf\b)")
_SAME_OPERATOR = {"!=": "=", "==": "=", "=<": "<=", "=>": ">="}
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|[-+]?inf", re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d\d(?:-\d\d)?|\d{4}-W\d\d?|today|yesterday|今天|昨天", re.IGNORECASE)
_ENDING = re.compile(r"(?:ies|ied|ing|ed|es|s)$")
_MOST_FORM = 12
_SENTENCE = 4
"""Fewest words of a question; in one, `strict=False` is code rather than a mistyped condition. Source: chosen by us."""
_LONG_SENTENCE = 6
"""The same where `batch size > 1` is no mistyped comparison."""


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
        terms: Words and phrases to find.
        excluded: Words and phrases that a note must not have.
        filters: Conditions that all have to hold.
        either: Groups of conditions of which one each has to hold.
        since: Unix seconds, inclusive, or `None`.
        before: Unix seconds, exclusive, or `None`.
        text: The words as they were written, without conditions.
        stored_keys: The compared keys whose values the index has; others are read out of the front matter.
    """

    terms: tuple[Term, ...] = ()
    excluded: tuple[Term, ...] = ()
    filters: tuple[Filter, ...] = ()
    either: tuple[tuple[Filter, ...], ...] = ()
    since: float | None = None
    before: float | None = None
    text: str = ""
    stored_keys: frozenset[str] = frozenset()

    @property
    def is_restricted(self) -> bool:
        """Whether the query has a condition."""
        return bool(self.filters or self.either) or self.since is not None or self.before is not None

    @property
    def compared_keys(self) -> tuple[str, ...]:
        """Options, metrics and other fields of the front matter that the query compares."""
        filters = (*self.filters, *(one for group in self.either for one in group))
        return tuple(dict.fromkeys(one.key for one in filters if one.key not in FILTERS))


def parse_query(
    words: str, names: FieldNames | None = None, *, strict: bool = False, now: datetime | None = None
) -> Question:
    """Parses a line of words, conditions and quoted phrases.

    Args:
        names: Names of the notebook; without them, as in a message, only the fields of the index and comparisons are
            conditions.
        strict: Whether everything that has the form of a condition is one. Otherwise `CUDA error:x`, `model.py:88` and
            `shuffle=True` are words, unless the notebook has such a name, or a short query has nearly one.
        now: Base of relative dates; the local time by default.

    Raises:
        QueryError: A name or a value is not known, or a date cannot be read.
    """
    tokens = _WORD.findall(_SPACED.sub(r"\1", normalize_text(words)))
    plain = sum(_count_words(token) for token in tokens if _CONDITION.fullmatch(token) is None)
    reader = _Reader(names, strict=strict, plain=plain, now=now or datetime.now().astimezone())
    for at, token in enumerate(tokens):
        follows = tokens[at + 1] if at + 1 < len(tokens) else ""
        reader.read(token, follows)
    return reader.question()


class _Reader:
    """Reads one query, token by token."""

    def __init__(self, names: FieldNames | None, *, strict: bool, plain: int, now: datetime) -> None:
        self._names, self._strict, self._now = names, strict, now
        self._is_sentence, self._is_long = plain >= _SENTENCE, plain >= _LONG_SENTENCE
        self._terms: list[Term] = []
        self._excluded: list[Term] = []
        self._groups: list[list[Filter]] = []
        self._since: list[float] = []
        self._before: list[float] = []
        self._text: list[str] = []
        self._last = ""
        self._joins = self._negates = False

    def read(self, token: str, follows: str) -> None:
        """Reads one token; `OR` joins what is beside it, `not` negates the condition behind it."""
        if token == "OR" and (self._strict or (self._last and follows)):
            if not (self._last and follows):
                raise QueryError("terminal.query.or_between_kinds", advice="terminal.query.or_advice")
            self._joins = True
            return
        if token.lower() == "not" and self._condition(follows) is not None:
            self._negates = True
            return
        condition = self._condition(token)
        is_day = _DAY.fullmatch(token) is not None and (self._strict or not self._is_sentence)
        kind = "condition" if condition else "word"
        if is_day or (condition and condition.key in ("since", "before")):
            kind = "date"
        if self._joins and "date" in (kind, self._last):
            raise QueryError("terminal.query.or_with_date", advice="terminal.query.or_advice")
        if self._joins and kind != self._last:
            raise QueryError("terminal.query.or_between_kinds", advice="terminal.query.or_advice")
        if is_day:
            begin, end = read_day(token, self._now)
            self._since.append(begin)
            self._before.append(end)
        elif condition is None:
            self._read_words(token)
        else:
            self._read_condition(condition)
        self._last, self._joins, self._negates = kind, False, False

    def question(self) -> Question:
        """Returns what was read."""
        return Question(
            tuple(term for term in _join_terms(self._terms) if _term_expression(term, prefix=False)),
            tuple(self._excluded),
            tuple(group[0] for group in self._groups if len(group) == 1),
            tuple(tuple(group) for group in self._groups if len(group) > 1),
            max(self._since, default=None),
            min(self._before, default=None),
            " ".join(self._text),
        )

    def _condition(self, token: str) -> Filter | None:
        """Returns the condition of a token, `None` for a word.

        Raises:
            QueryError: It has the form of a condition, and its name or value is unknown.
        """
        option = _OPTION.fullmatch(token)
        if option:
            name = option.group(1)
            if self._names is None and not self._strict:
                return None
            if self._names is not None and not self._names.has_option(name):
                raise unknown("terminal.query.unknown_option", name, self._names.params, lambda near: f"--{near}")
            return Filter("option", (name.lower(),))
        parted = _CONDITION.fullmatch(token)
        if self._strict and (unfinished := _UNFINISHED.fullmatch(token)):
            name = unfinished.group(1)
            raise unknown("terminal.query.no_value", name, VALUES.get(name, ()))
        if parted is None:
            return None
        minus, written, operator, raw = parted.groups()
        key, value = written.removeprefix("--"), raw.strip('"')
        if not value or (operator == ":" and raw.startswith(("/", ":", "\\"))):
            return None
        if not self._is_name(key, operator, value, is_option=written.startswith("--")):
            return None
        key = SAME_FIELD.get(key.lower(), key.lower() if key.lower() in FILTERS else key)
        wanted = tuple(part.strip().lower() for part in value.split(",") if part.strip()) if operator == ":" else (
            value.strip().lower(),
        )  # fmt: skip
        wanted = self._whole_values(key, operator, wanted)
        negated, operator = (bool(minus) != (operator == "!=")), _SAME_OPERATOR.get(operator, operator)
        if key in ("since", "before"):
            return Filter(key, (value,), negated, operator)
        return check_filter(Filter(key, wanted, negated, operator))

    def _is_name(self, key: str, operator: str, value: str, *, is_option: bool) -> bool:
        """Whether a key is that of a condition.

        Raises:
            QueryError: It must be one, and is unknown.
        """
        is_compared = operator not in (":", "=") and _NUMBER.fullmatch(value) is not None
        if self._names is None:
            return key.lower() in FILTERS or key.lower() in SAME_FIELD or is_compared
        if self._names.is_known(key):
            # `my train loss:nan` is a question.
            return not (self._is_sentence and operator == ":" and key.lower() not in (*FILTERS, *SAME_FIELD))
        known = self._names.all_names()
        is_code = self._is_sentence and (
            operator == "=" or (is_compared and (self._is_long or not nearest_names(key, known, 1)))
        )
        is_meant = is_compared or self._is_meant(key, operator, value, known)
        if self._strict or is_option or (is_meant and not is_code):
            raise unknown("terminal.query.unknown_key", key, known, lambda near: f"{near}{operator}{value}")
        return False

    @staticmethod
    def _is_meant(key: str, operator: str, value: str, known: list[str]) -> bool:
        """Whether words that a search may also look for are a mistyped condition: `staus:failed`, `foo:bar`."""
        if not re.fullmatch(r"[a-z_]+", key):
            return False
        if operator == ":" and re.fullmatch(r"[A-Za-z][\w.,*-]*", value):
            return True
        return len(key) > 3 and bool(nearest_names(key, [name for name in known if abs(len(name) - len(key)) < 2], 1))

    @staticmethod
    def _whole_values(key: str, operator: str, values: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the values of a field with a closed list, also for their beginnings: `status:fin`.

        Raises:
            QueryError: The field never has the value.
        """
        if key not in VALUES or operator not in (":", "=", "!=", "=="):
            return values
        found: list[str] = []
        for value in values:
            same = [one for one in VALUES[key] if (one.startswith(value) if operator == ":" else one == value)]
            if not same:
                raise unknown(
                    "terminal.query.unknown_value", value, VALUES[key], lambda near: f"{key}:{near}", field=key
                )
            found += same
        return tuple(found)

    def _read_condition(self, condition: Filter) -> None:
        condition = replace(condition, negated=condition.negated != self._negates)
        if condition.key in ("since", "before"):
            is_since = (condition.key == "since") != (condition.negated or condition.operator in ("<", "<="))
            (self._since if is_since else self._before).append(read_moment(condition.values[0], self._now))
        elif self._joins and self._groups:
            self._groups[-1].append(condition)
        else:
            self._groups.append([condition])

    def _read_words(self, token: str) -> None:
        minus = token.startswith("-")
        raw = token[1:] if minus else token
        if raw.startswith('"'):
            read = [Term((raw.strip('"'),), quoted=True)]
        elif minus and raw[:1].isalpha():
            read = list(_terms(raw))
        else:
            minus = False
            read = list(_terms(token.replace('"', " ").replace(":", " ")))
        if self._joins and self._terms and read:
            # Of two words, either is enough.
            self._terms[-1] = replace(self._terms[-1], forms=(*self._terms[-1].forms, *read[0].forms))
            read = read[1:]
        (self._excluded if minus else self._terms).extend(read)
        if not minus:
            self._text.append(raw.replace('"', " ").strip())


def match_expression(question: Question, *, prefix: bool = False) -> str:
    """Returns the FTS5 expression of the words, "" if there are none.

    Args:
        question: The query.
        prefix: Whether words match as prefixes: `diverg` finds `diverged`.
    """
    wanted = [term for term in question.terms if not term.minor] or list(question.terms)
    expressions = [text for text in (_term_expression(term, prefix=prefix) for term in wanted) if text]
    if not expressions:
        return ""
    expression = " AND ".join(expressions)
    minor = [text for term in question.terms if term not in wanted and (text := _term_expression(term, prefix=False))]
    if minor:
        # Filler words are optional, but notes with them rank higher.
        expression = f"({expression}) OR (({expression}) AND ({' OR '.join(minor)}))"
    excluded = [text for text in (_term_expression(term, prefix=False) for term in question.excluded) if text]
    return f"({expression}) NOT ({' OR '.join(excluded)})" if excluded else expression


def _count_words(token: str) -> int:
    """Returns the number of words of a token; a Chinese one has two characters on average."""
    return max(1, sum(-(-len(part) // 2) for part in split_scripts(token) if is_cjk(part)))


def _terms(text: str) -> Iterator[Term]:
    """Yields the terms of a bare word: three for `loss变成NaN`, one for `cuda-oom*`."""
    minor = vocabulary().minor
    for part in split_scripts(text):
        if is_cjk(part):
            yield from (Term((piece,), minor=piece in minor) for piece in _cjk_words(part))
        else:
            word = part.strip(" ,;:.!?()[]{}'`")
            parts = name_parts(word)
            parted = len(parts) > 1 and min(map(len, parts)) > 1
            yield Term((word, " ".join(parts)) if parted else (word,), minor=word.lower() in minor)


def _join_terms(terms: list[Term]) -> Iterator[Term]:
    """Yields the terms with their synonyms; adjacent words of one expression become one term."""
    forms = vocabulary().forms
    at = 0
    while at < len(terms):
        for width in (5, 4, 3, 2, 1):
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
    forms, minor = vocabulary().forms, vocabulary().minor
    rest = ""
    at = 0
    while at < len(run):
        width = next((w for w in range(_MOST_FORM, 1, -1) if run[at : at + w] in forms or run[at : at + w] in minor), 0)
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
    # The stemmer writes `di` for `dies`, which would be the beginning of every "Diagnosis".
    wide = star or open_end or (prefix and len(_ENDING.sub("", phrase)) > 2 and not is_cjk(phrase.replace(" ", "")))
    if wide and len(phrase) > 4 and phrase[-1] in "yYeE":
        # The stemmer writes `memori` for `memory` and `converg` for `converge`; the prefix must match both.
        phrase = phrase[:-1]
    return '"' + phrase.replace('"', '""') + '"' + ("*" if wide else "")
