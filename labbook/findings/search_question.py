"""Finds what a search is about: the symptoms of a question, or of a pasted error message."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.index.hit import Hit
from labbook.index.page_scores import page_scores
from labbook.index.query import read_field_names
from labbook.index.query_fields import FILTERS, FieldNames
from labbook.index.query_parser import parse_query
from labbook.index.query_symptoms import QuerySymptoms, match_symptoms
from labbook.model.symptom import Symptom
from labbook.store.notebook import Notebook

_ERROR = re.compile(r"\b\w*(?:Error|Exception|Traceback|NotMet)\b|\w: |recogni[sz]ed arg")
"""What a message has and a query has not: a class, a colon before a space, or the words about a refused option."""
_LATIN_WORD = re.compile(r"[A-Za-z]{2,}")
_NAME = re.compile(r"'([A-Za-z_][\w./-]{2,60})'")
_MOST_WORDS = 12
_PAGES = 3
_HINT = 3
"""Tier of a finding that rests on the class of an error alone."""


def interpret_search(book: Notebook, typed: str) -> tuple[str, QuerySymptoms]:
    """Returns the query, and the failures that typed or pasted text is about."""
    language = book.config.language_in_use()
    catalogue = load_catalogue(book.paths.symptoms, language=language)
    # In a message `--lr` is no condition.
    names = None if "\n" in typed.strip() or _ERROR.search(typed) else read_field_names(book)
    if "\n" in typed.strip():
        query, symptoms, _ = _interpret_paste(book, typed)
    else:
        query, symptoms = _interpret_line(book, typed, catalogue.symptoms.values(), names)
        own = page_scores(catalogue.symptoms.values()).list_names(typed)
        symptoms = replace(symptoms, names=tuple(dict.fromkeys([*symptoms.names, *own])))
    question = parse_query(query, names)
    if question.terms and not question.is_restricted:
        pages = [_page(catalogue.symptoms[name], language) for name in (symptoms.symptoms or symptoms.related)[:_PAGES]]
        symptoms = replace(symptoms, pages=tuple(pages))
    return query, symptoms


def _interpret_line(
    book: Notebook, typed: str, pages: Collection[Symptom], names: FieldNames | None
) -> tuple[str, QuerySymptoms]:
    """Returns the query and the failures of a question, or of a message with conditions beside it."""
    filters = [word for word in typed.split() if names is None and _is_filter(word)]
    message = " ".join(word for word in typed.split() if word not in filters) if filters else typed
    asked = match_symptoms(message, pages, names)
    is_short = len(_LATIN_WORD.findall(typed)) <= _PAGES or parse_query(typed, names).is_restricted
    if names is not None and is_short:
        return typed, asked
    # It may be a message without its class: what the catalogue recognises comes before what words suggest, unless it is
    # uncertain and the words are a search phrase of another symptom: "loss becomes nan after some hundred steps". The
    # other way round, `OutOfMemoryError, what can I do` is a question with a class.
    words, symptoms, is_sure = _interpret_paste(book, message)
    if symptoms.symptoms:
        first = asked.symptoms[:1] if asked.has_phrase and not is_sure else ()
        found = tuple(dict.fromkeys([*first, *symptoms.symptoms, *asked.symptoms]))[:_PAGES]
        symptoms = replace(symptoms, symptoms=found)
    else:
        symptoms = replace(asked, fingerprints=symptoms.fingerprints)
    return " ".join([words, *filters]) if names is None else typed, symptoms


def _is_filter(word: str) -> bool:
    return re.match(r"-?([a-z]+):\S", word) is not None and word.lstrip("-").partition(":")[0] in FILTERS


def _interpret_paste(book: Notebook, text: str) -> tuple[str, QuerySymptoms, bool]:
    """Returns the words of the message of a pasted error, its failures, and whether it identifies them.

    A message does by a value of its pattern, or by its class together with its words.
    """
    # Most questions are no messages, and the patterns of a diagnosis take 60 ms to compile.
    from labbook.diagnosis.service import Diagnoser, list_fingerprints
    from labbook.diagnosis.text.log_reader import read_text

    evidence = read_text(text)
    diagnosis = Diagnoser(book).diagnose(evidence)
    primary = diagnosis.primary
    message = (
        primary.message if primary else evidence.exceptions[-1].message if evidence.exceptions else _last_line(text)
    )
    names = [f.symptom for f in diagnosis.findings if f.symptom and not f.follows_from]
    families = [primary.family] if primary is not None and primary.family != "other" else []
    own = [f.fingerprint for f in diagnosis.findings[:1] if f.exception]
    fingerprints = tuple(dict.fromkeys([*own, *list_fingerprints(evidence)]))
    named = [*(primary.values.values() if primary is not None else ()), *_NAME.findall(message)]
    about = QuerySymptoms(
        fingerprints,
        tuple(names[:_PAGES]),
        tuple(families),
        whole=bool(primary),
        names=tuple(dict.fromkeys(name for name in named if _NAME.fullmatch(f"'{name}'"))),
    )
    is_sure = primary is not None and bool(primary.values or (primary.exception and primary.tier < _HINT))
    return _query_words(message), about, is_sure


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _query_words(message: str) -> str:
    """Returns the words of a message without its values and without what a query would read as a filter."""
    words = re.findall(r"[^\W\d]\w*", message.partition("\n")[0])
    names = [word for word in words if not re.search(r"\d", word)] or words
    return " ".join(list(dict.fromkeys(names))[:_MOST_WORDS]) or "error"


def _page(symptom: Symptom, language: str) -> Hit:
    """Returns a page of the catalogue as a search result, with its first advice."""
    wording = symptom.wording_in(language)
    meta = {"id": symptom.id, "family": symptom.family, "tier": symptom.tier}
    advice = (fill_slots(wording.attempts[0], {}) if wording.attempts else None) or wording.title
    title, snippet = wording.title.replace("`", ""), advice.replace("`", "")
    return Hit(symptom.origin, 1, title, snippet, meta, "catalogue", False, "same symptom", symptom.id)
