"""The symptom catalogue as public pages in English and Chinese, from the files in `labbook/symptoms/`."""

from __future__ import annotations

import functools
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import tomllib

from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.symptom_catalogue import BUILT_IN, HEADINGS, read_pages
from labbook.model.symptom import Symptom
from labbook.store.text.templates import words

_FOLDERS = {"en": "symptoms", "zh": "zh/symptoms"}
_WORDS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def catalogue_pages(chosen: Sequence[str] = ()) -> dict[str, str]:
    """Path in the site -> Markdown: a page for each symptom and an index, in both languages.

    Args:
        chosen: Ids of the symptoms; default: all.

    Raises:
        ValueError: A page of the catalogue cannot be read.
    """
    catalogue = read_pages([BUILT_IN / f"{name}.md" for name in chosen] or BUILT_IN.glob("*.md"))
    if catalogue.problems:
        raise ValueError("\n".join(catalogue.problems))
    pages = {}
    for language, folder in _FOLDERS.items():
        pages[f"{folder}/index.md"] = _index(list(catalogue.symptoms.values()), language)
        for symptom in catalogue.symptoms.values():
            pages[f"{folder}/{symptom.id}.md"] = _page(symptom, catalogue.symptoms, language)
    return pages


def _page(symptom: Symptom, known: Mapping[str, Symptom], language: str) -> str:
    said, label = symptom.wording_in(language), _WORDS[language]
    other = "zh" if language == "en" else "en"
    depth = "../" * (_FOLDERS[language].count("/") + 1)
    see, why, attempts = HEADINGS[language]
    tiers = _site_words(language)["tiers"]
    facts = [
        f"`{symptom.id}`",
        _class_name(symptom, language),
        f"{label['certainty']}: {tiers[str(symptom.tier)]}",
        *([", ".join(symptom.frameworks)] if symptom.frameworks else []),
        f"[{label['other']}]({depth}{_FOLDERS[other]}/{symptom.id}.md)",
    ]
    lines = [
        "---", f"description: {json.dumps(_plain(said.see), ensure_ascii=False)}", "---", "",
        f"# {said.title}", "", " · ".join(facts), "",
        f"## {see}", "", _filled(said.see), "",
        f"## {why}", "", *(f"- {_filled(cause)}" for cause in said.why), "",
        f"## {attempts}", "", *(f"{number}. {_filled(fix)}" for number, fix in enumerate(said.attempts, 1)), "",
    ]  # fmt: skip
    if symptom.matches:
        lines += [f"## {label['example']}", ""]
    for example in symptom.matches[:4]:
        fence = "`" * (3 + max((len(run) for run in re.findall("`{3,}", example.text)), default=0))
        lines += [f"{example.origin}:" if example.origin else "", "", f"{fence}text", example.text, fence, ""]
    for heading, ids in (("causes", symptom.caused_by), ("effects", symptom.causes_of)):
        linked = [f"[{known[each].wording_in(language).title}]({each}.md)" for each in ids if each in known]
        if linked:
            lines += [f"## {label[heading]}", "", *(f"- {link}" for link in linked), ""]
    if symptom.source:
        lines += [f"## {label['source']}", "", *(f"- {source}" for source in symptom.source), ""]
    if symptom.words:
        lines += [f"**{label['words']}**: {label['joint'].join(symptom.words)}", ""]
    return "\n".join(lines)


def _index(symptoms: Sequence[Symptom], language: str) -> str:
    label = _WORDS[language]
    classes: dict[str, list[Symptom]] = defaultdict(list)
    for symptom in symptoms:
        classes[_class_name(symptom, language)].append(symptom)
    lines = [f"# {label['title']}", "", label["lead"].format(count=len(symptoms)), ""]
    for name, members in sorted(classes.items()):
        lines += [f"## {name[:1].upper()}{name[1:]}", ""]
        lines += [f"| {label['symptom']} | {label['see']} | {label['words']} |", "|---|---|---|"]
        for symptom in sorted(members, key=lambda each: each.wording_in(language).title.lower()):
            said = symptom.wording_in(language)
            cells = [f"[{said.title}]({symptom.id}.md)", _first_sentence(said.see, label["stop"])]
            cells.append(label["joint"].join(symptom.words))
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        lines.append("")
    return "\n".join(lines)


def _class_name(symptom: Symptom, language: str) -> str:
    return str(_site_words(language)["classes"].get(symptom.class_, symptom.class_))


@functools.cache
def _site_words(language: str) -> Mapping[str, Mapping[str, str]]:
    """The names of classes and certainties, as the site of a notebook has them."""
    return words(language)["site_symptoms"]


def _filled(text: str) -> str:
    """A sentence of the catalogue without the values of a run, on one line."""
    return " ".join((fill_slots(text, {}) or text).split())


def _first_sentence(text: str, stop: str) -> str:
    sentence = re.split(stop, _filled(text), maxsplit=1)[0]
    return sentence if sentence.endswith((".", "。")) else f"{sentence}."


def _plain(text: str) -> str:
    return _filled(text).replace("`", "")[:300]
