"""Finds what a search is about: the symptoms of a question, or of a pasted error message."""

from __future__ import annotations

import re
from dataclasses import replace

from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.index.hit import Hit
from labbook.index.page_scores import page_scores
from labbook.index.query import read_field_names
from labbook.index.query_fields import FILTERS
from labbook.index.query_parser import parse_query
from labbook.index.query_symptoms import QuerySymptoms, match_symptoms
from labbook.model.symptom import Symptom
from labbook.store.notebook import Notebook

_ERROR = re.compile(r"\b\w*(?:Error|Exception|Traceback|NotMet)\b")
_LATIN_WORD = re.compile(r"[A-Za-z]{2,}")
_NAME = re.compile(r"'([A-Za-z_][\w./-]{2,60})'")
_MOST_WORDS = 12
_PAGES = 3


def interpret_search(book: Notebook, typed: str) -> tuple[str, QuerySymptoms]:
    """Returns the query, and the failures that typed or pasted text is about."""
    language, words_asked = book.config.language_in_use(), typed
    catalogue = load_catalogue(book.paths.symptoms, language=language)
    names = read_field_names(book)
    pasted = "\n" in typed.strip() or _ERROR.search(typed) is not None
    if not pasted:
        symptoms = match_symptoms(typed, catalogue.symptoms.values(), names)
        question = parse_query(typed, names)
        if len(_LATIN_WORD.findall(typed)) > _PAGES and not question.is_restricted:
            # It may be a message without its class: what the catalogue recognises comes before what words suggest,
            # unless the words, none of which is a value, are a search phrase of another symptom: "loss becomes nan
            # after some hundred steps".
            _, of_message, has_values = _interpret_paste(book, typed)
            if of_message.symptoms:
                asked = symptoms.symptoms[:1] if symptoms.has_phrase and not has_values else ()
                found = tuple(dict.fromkeys([*asked, *of_message.symptoms, *symptoms.symptoms]))[:_PAGES]
                symptoms = replace(of_message, symptoms=found)
    else:
        # Filters next to a message are filters; a text of many lines has none.
        filters = [] if "\n" in typed.strip() else [word for word in typed.split() if _is_filter(word)]
        message = typed if not filters else " ".join(word for word in typed.split() if word not in filters)
        words, symptoms, _ = _interpret_paste(book, message)
        if not symptoms.symptoms and "\n" not in typed.strip():
            # The name of a class among the words of a question: `OutOfMemoryError, what can I do`.
            matched = match_symptoms(message, catalogue.symptoms.values())
            symptoms = replace(matched, fingerprints=symptoms.fingerprints)
        if "\n" in typed.strip() or symptoms.whole:
            typed = " ".join([words, *filters])
        question = parse_query(typed)
    if "\n" not in typed.strip():
        own = page_scores(catalogue.symptoms.values()).list_names(words_asked)
        symptoms = replace(symptoms, names=tuple(dict.fromkeys([*symptoms.names, *own])))
    if question.terms and not question.is_restricted:
        pages = [_page(catalogue.symptoms[name], language) for name in (symptoms.symptoms or symptoms.related)[:_PAGES]]
        symptoms = replace(symptoms, pages=tuple(pages))
    return typed, symptoms


def _is_filter(word: str) -> bool:
    return re.match(r"-?([a-z]+):\S", word) is not None and word.lstrip("-").partition(":")[0] in FILTERS


def _interpret_paste(book: Notebook, text: str) -> tuple[str, QuerySymptoms, bool]:
    """Returns the words of the message of a pasted error, its failures, and whether it has values of a pattern."""
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
    return _query_words(message), about, bool(primary and primary.values)


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
