"""Loads the catalogue of symptoms from its pages: the built-in ones, with those of a notebook on top.

A page is `<id>.md`: front matter, then fixed headings. A notebook's page of the same id overrides what it says and
keeps the rest. A page that cannot be read is named with its line and left out; it never stops a diagnosis.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.diagnosis.catalogue.catalogue_cache import compute_stamp, read_cache, write_cache
from labbook.diagnosis.catalogue.pattern import QUANTITIES, PatternError, compile_pattern
from labbook.errors import EntryError, LabbookError
from labbook.frozen import dataclass
from labbook.model.check import FAMILIES
from labbook.model.symptom import CRASH_FAMILIES, SEVERITIES, Example, Pattern, Symptom, Wording
from labbook.store.paths import stays_inside
from labbook.store.text.frontmatter import parse

BUILT_IN = Path(__file__).resolve().parents[2] / "symptoms"
HEADINGS = {
    "en": ("What you see", "Why it happens", "What to try"),
    "zh": ("现象", "原因", "怎么办"),
}
LEFT_OUT = "!"
"""Prefix of a condition of `Symptom.when` that rules out its causes and fixes."""
REFUTED = "not "
"""Prefix of a condition that is known not to be met."""
_MATCHES, _MISSES = "Matches", "Does not match"
KINDS = ("exception", "output", "warning", "exit", "reads")
_LISTS = ("frameworks", "not_when", "causes_of", "caused_by", "line_of", "cured_by", "words", "source")
_ASKED = ("asked", "asked_zh")
_ID = re.compile(r"[a-z][a-z0-9_]{2,60}\Z")
_ITEM = re.compile(r"(?:[-*]|\d+[.)])\s+")
_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*(\w*)[ \t]*([^\n`]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True)
class Catalogue:
    """All symptoms that are known, by id.

    `problems` are pages that could not be read, each a sentence that begins with the path and names the line.
    """

    symptoms: Mapping[str, Symptom]
    problems: tuple[str, ...] = ()

    def title(self, symptom: str, language: str = "en") -> str:
        """The title of a symptom; its id where it has no page."""
        known = self.symptoms.get(symptom)
        return known.wording_in(language).title if known else symptom


def load_catalogue(*folders: Path, language: str = "en") -> Catalogue:
    """The built-in catalogue with the pages of further folders on top; a folder that does not exist is empty.

    `language` is that of the problems of their pages.
    """
    catalogue = _load_built_in()
    for folder in folders:
        # A link may lead out of the notebook.
        paths = [path for path in folder.glob("*.md") if stays_inside(path, folder.parents[1])]
        catalogue = read_pages(paths, catalogue, language)
    return catalogue


@functools.lru_cache(maxsize=1)
def _load_built_in() -> Catalogue:
    pages = list(BUILT_IN.glob("*.md"))
    stamp = compute_stamp(pages)
    known = read_cache(stamp)
    if known is None:
        whole = read_pages(pages)
        write_cache(stamp, whole.symptoms.values(), whole.problems)
        return whole
    return Catalogue({symptom.id: symptom for symptom in known[0]}, tuple(known[1]))


def read_pages(paths: Iterable[Path], base: Catalogue | None = None, language: str = "en") -> Catalogue:
    """Pages with their examples, on top of those of another catalogue; their problems are in a language."""
    symptoms = dict(base.symptoms) if base else {}
    problems = list(base.problems) if base else []
    for path in sorted(paths):
        try:
            symptom = read_page(path, symptoms.get(path.stem))
        except EntryError as error:
            problems.append(error.texts(language)[0])
            continue
        if symptom is not None:
            symptoms[symptom.id] = symptom
    return Catalogue(symptoms, tuple(problems))


def read_page(path: Path, base: Symptom | None = None) -> Symptom | None:
    """One page of the catalogue.

    Args:
        base: The symptom that it extends; it supplies everything that the page leaves out.

    Returns:
        The symptom; `None` for a page of a notebook that says nothing of its own (it only lists fixes).

    Raises:
        EntryError: The page cannot be read; names file, line and reason.
    """
    try:
        content = path.read_bytes()[:_MOST_BYTES]
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EntryError("errors.symptom.not_readable", path=path, reason=error) from error
    meta, body = parse(text, str(path))
    try:
        return _symptom(meta, body, path, base)
    except _WrongPageError as wrong:
        line = _line_of(text, str(wrong.values["at"]))
        raise EntryError("errors.symptom.wrong_page", path=path, line=line, problem=wrong) from None


class _WrongPageError(LabbookError):
    """An error in the format of a page; its value `at` is the key of the front matter."""


def _symptom(meta: Mapping[str, Any], body: str, path: Path, base: Symptom | None) -> Symptom | None:
    name = str(meta.get("id") or path.stem)
    if not _ID.match(name):
        raise _WrongPageError("errors.symptom.letters", at="id", id=name)
    if name != path.stem:
        raise _WrongPageError("errors.symptom.other_name", at="id", id=name)
    sections = _sections(body)
    wording = {
        language: said
        for language in HEADINGS
        if (said := _wording(meta, sections, language, base)) is not None and said.title
    }
    if "en" not in wording:
        if wording.get("zh"):
            wording["en"] = wording["zh"]
        elif base is None and not meta.get("patterns"):
            return None
        else:
            raise _WrongPageError("errors.symptom.no_title", at="title")
    lists = {key: _texts(meta, key) or (getattr(base, key) if base else ()) for key in _LISTS}
    asked = tuple(text for key in _ASKED for text in _texts(meta, key)) or (base.asked if base else ())
    family = str(meta.get("family") or (base.family if base else "other"))
    if family not in CRASH_FAMILIES and family not in FAMILIES:
        raise _WrongPageError("errors.symptom.family", at="family", family=family)
    severity = str(meta.get("severity") or (base.severity if base else "error"))
    tier = meta.get("tier", base.tier if base else 2)
    _check_choice("severity", severity, SEVERITIES)
    _check_choice("tier", tier, (1, 2, 3))
    rows = meta.get("patterns") or []
    if not isinstance(rows, list):
        raise _WrongPageError("errors.symptom.no_list", at="patterns")
    for template in lists["not_when"]:
        _checked("not_when", template)
    return Symptom(
        id=name,
        family=family,
        class_=str(meta.get("class") or (base.class_ if base else family)),
        tier=tier,
        severity=severity,
        wording=wording,
        # A notebook's own patterns are added to the known ones.
        patterns=(*map(_pattern, rows), *(base.patterns if base else ())),
        when=_parse_when(meta) or (base.when if base else {}),
        instead=_parse_instead(meta) or (base.instead if base else {}),
        matches=_examples(sections.get(_MATCHES, "")),
        misses=_examples(sections.get(_MISSES, "")),
        origin=str(path),
        asked=asked,
        **lists,
    )


def _wording(
    meta: Mapping[str, Any], sections: Mapping[str, str], language: str, base: Symptom | None
) -> Wording | None:
    suffix = "" if language == "en" else f"_{language}"
    known = base.wording.get(language) if base else None
    see, why, attempts = HEADINGS[language]
    title = str(meta.get("title" + suffix) or (known.title if known else ""))
    if not title:
        return None
    return Wording(
        title=title,
        see=sections.get(see, "").strip() or (known.see if known else ""),
        why=_items(sections.get(why, "")) or (known.why if known else ()),
        attempts=_items(sections.get(attempts, "")) or (known.attempts if known else ()),
        # Of several sentences the first with all values known is used.
        says="\n".join(_texts(meta, "says" + suffix)) or (known.says if known else ""),
        check=str(meta.get("check" + suffix) or (known.check if known else "")),
        expected=str(meta.get("expected" + suffix) or (known.expected if known else "")),
    )


def _pattern(row: object) -> Pattern:
    if not isinstance(row, dict):
        raise _WrongPageError("errors.symptom.no_mapping", at="patterns", pattern=repr(row))
    kinds = [kind for kind in KINDS if kind in row]
    unknown = set(row) - {*KINDS, "type", "frameworks", "weight", "differ"}
    values: dict[str, Any] = {"at": "patterns", "pattern": repr(row)}
    if unknown:
        raise _WrongPageError("errors.symptom.unknown_keys", names=sorted(map(str, unknown)), **values)
    if len(kinds) != 1:
        raise _WrongPageError("errors.symptom.one_kind", count=len(kinds), kinds=KINDS, **values)
    kind = kinds[0]
    weight = row.get("weight", 3)
    _check_choice("weight", weight, (1, 2, 3), at="patterns")
    if kind == "exit":
        return Pattern(kind, exits=_texts(row, kind), frameworks=_texts(row, "frameworks"), weight=weight)
    text = str(row[kind] or "")
    types = _texts(row, "type")
    if text:
        _checked("patterns", text)
    elif not types:
        raise _WrongPageError("errors.symptom.empty_pattern", **values)
    differ = str(row.get("differ") or "")
    if differ and (differ not in QUANTITIES or not {"a", "b"} <= compile_pattern(text).names):
        raise _WrongPageError("errors.symptom.differ", at="patterns", value=differ, choices=QUANTITIES)
    compiled = compile_pattern(text) if text else None
    quick = (compiled.anchor, compiled.beginning) if compiled else ()
    return Pattern(kind, text, types, (), _texts(row, "frameworks"), weight, differ, *quick)


def _check_choice(name: str, value: object, choices: Sequence[object], at: str = "") -> None:
    if value not in choices:
        shown = [str(one) for one in choices]
        raise _WrongPageError("errors.symptom.choice", at=at or name, name=name, value=str(value), choices=shown)


def _checked(key: str, template: str) -> None:
    try:
        compile_pattern(template)
    except PatternError as error:
        raise _WrongPageError("errors.symptom.pattern", at=key, problem=error) from None


def _parse_when(meta: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Reads `when`, and `needs`: causes and fixes that are left out where their condition is known not to be met."""
    found = {}
    for field, lead in (("when", ""), ("needs", f"{LEFT_OUT}{REFUTED}")):
        rows = meta.get(field) or {}
        if not isinstance(rows, dict):
            raise _WrongPageError("errors.symptom.no_when", at=field)
        for condition, chosen in rows.items():
            names = {key: _numbers(one) for key, one in chosen.items()} if isinstance(chosen, dict) else {}
            pairs = [tuple(names.get(key, ()) for key in keys) for keys in (("cause", "fix"), ("no_cause", "no_fix"))]
            if not any(map(any, pairs)) or not all(map(all, pairs[0] + pairs[1])):
                raise _WrongPageError("errors.symptom.wrong_when", at=field, condition=condition, value=repr(chosen))
            for mark, (causes, fixes) in zip((lead, LEFT_OUT), pairs, strict=True):
                if causes or fixes:
                    found[f"{mark}{condition}"] = (causes, fixes)
    return found


def _numbers(value: object) -> tuple[int, ...]:
    """The numbers of causes or fixes, one or a list; 0 for what is no number."""
    many = value if isinstance(value, list) else [value]
    return tuple(one if isinstance(one, int) else 0 for one in many)


def _parse_instead(meta: Mapping[str, Any]) -> dict[str, str]:
    rows = meta.get("instead") or {}
    if not isinstance(rows, dict) or not all(_ID.match(str(other)) for other in rows.values()):
        raise _WrongPageError("errors.symptom.instead", at="instead")
    return {str(condition): str(other) for condition, other in rows.items()}


def _texts(meta: Mapping[Any, Any], key: str) -> tuple[str, ...]:
    value = meta.get(key)
    if value is None:
        return ()
    many = value if isinstance(value, list) else [value]
    return tuple(str(one) for one in many)


def _sections(body: str) -> dict[str, str]:
    """Heading of the second level -> the text below it; fenced text is no heading."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    fence = ""
    for line in body.splitlines():
        mark = re.match(r"(`{3,}|~{3,})", line)
        if mark and not fence:
            fence = mark.group()
        elif mark and mark.group() == fence and line.strip() == fence:
            fence = ""
        elif not fence and line.startswith("## "):
            current = sections.setdefault(line[3:].strip(), [])
            continue
        current.append(line)
    return {heading: "\n".join(lines) for heading, lines in sections.items()}


def _items(section: str) -> tuple[str, ...]:
    """The items of a list, each on one line."""
    items: list[list[str]] = []
    for line in section.splitlines():
        start = _ITEM.match(line)
        if start:
            items.append([line[start.end() :].strip()])
        elif items and line.strip():
            items[-1].append(line.strip())
    return tuple(" ".join(lines) for lines in items)


def _examples(section: str) -> tuple[Example, ...]:
    return tuple(
        Example(fenced.group(4).rstrip("\n"), fenced.group(3).strip()) for fenced in _FENCE.finditer(section + "\n")
    )


def _line_of(text: str, key: str) -> int:
    found = re.search(rf"^{re.escape(key)}:", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1
