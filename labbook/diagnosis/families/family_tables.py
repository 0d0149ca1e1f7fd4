"""The tables of the families: `tables/<family>.toml`, read and compiled once, when the first message needs them.

Each file has the title of the family in both languages and what shows it. `[codes]` lists error codes, `[names]` lists
exception classes, modules and source files, which may hold `*`, `[packages]` what to install for a module.
Every other table has rows of patterns for one of the `STEPS` of `message_family`; a row of a lower `rank` is tried
first, also between families.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from operator import attrgetter
from pathlib import Path
from typing import Any

from labbook.diagnosis.families.quantity_grammar import are_near, count_differs, is_apart, is_versus, value_differs
from labbook.diagnosis.toml_data import insert_words, read_toml, take_words
from labbook.frozen import dataclass

FOLDER = Path(__file__).resolve().parent / "tables"
VOCABULARY = "vocabulary"
STEPS = (
    *("sources", "native", "coded", "quantities", "checks", "messages", "asserts", "paddle", "demands", "choices"),
    *("rejections", "library_sources"),
)
"""Names of the tables of rows; `message_family` says what each is compared with."""
_PATH_DISTANCE = 160


@dataclass(frozen=True)
class Row:
    """One row of patterns; everything that it asks for has to hold of a sentence.

    Args:
        family: That it shows.
        rank: Lower ones are tried first.
        any: One of these patterns fits; empty: any sentence.
        also: All of these fit too.
        unless: None of these fits.
        near: Two patterns that fit within one part of a sentence.
        differ: Quantity of which one value was expected and another one came: "size", "type" or "device".
        versus: Quantity of which two values are set against each other.
        apart: Quantity of which two places are named.
        counts: Whether so many were expected and another number came.
        path: Whether a path stands near what `any` found.
        system: Whether errors of the operating system (`OSError`) are read by it too.
    """

    family: str
    rank: int
    any: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    differ: str = ""
    versus: str = ""
    apart: bool = False
    counts: bool = False
    path: bool = False
    system: bool = False

    def fits(self, sentence: str) -> bool:
        """Whether a sentence has everything that the row asks for."""
        if self.any and not self._finds(sentence):
            return False
        if not all(_compile((one,)).search(sentence) for one in self.also):
            return False
        if self.unless and _compile(self.unless).search(sentence):
            return False
        return (
            (not self.near or are_near(sentence, _compile(self.near[:1]), _compile(self.near[1:])))
            and (not self.differ or value_differs(sentence, self.differ))
            and (not self.versus or is_versus(sentence, self.versus))
            and (not self.apart or is_apart(sentence))
            and (not self.counts or count_differs(sentence))
        )

    def _finds(self, sentence: str) -> bool:
        found = _compile(self.any).search(sentence)
        if found is None or not self.path:
            return found is not None
        around = sentence[max(0, found.start() - _PATH_DISTANCE) : found.end() + _PATH_DISTANCE]
        return _compile(("{file_path}",)).search(around) is not None


@dataclass(frozen=True)
class FamilyTables:
    """All tables.

    Args:
        titles: Family -> language -> title.
        codes: Kind of code -> code or name -> family.
        names: Kind of name ("classes", "modules", "files", ...) -> family -> patterns with `*`.
        rows: Step -> rows, those of a lower rank first.
        packages: Module -> package to install, where the names differ.
    """

    titles: Mapping[str, Mapping[str, str]]
    codes: Mapping[str, Mapping[int | str, str]]
    names: Mapping[str, Mapping[str, tuple[str, ...]]]
    rows: Mapping[str, tuple[Row, ...]]
    packages: Mapping[str, str]

    def family_of_name(self, kind: str, name: str) -> str | None:
        """The first family with a pattern of a kind that fits a whole name, or `None`."""
        known = self.names.get(kind, {})
        return next((family for family, globs in known.items() if _globs(globs).match(name)), None)

    def family_of_module(self, kind: str, module: str) -> str | None:
        """The first family that lists a module or a package around it, or `None`."""
        for family, modules in self.names.get(kind, {}).items():
            excepted = self.names.get(f"{kind}_except", {}).get(family, ())
            if _is_inside(module, modules) and not _is_inside(module, excepted):
                return family
        return None

    def family_of_row(self, step: str, sentence: str, *, system: bool = False) -> str | None:
        """The family of the first row of a step (one of `STEPS`) that fits a sentence on one line, or `None`.

        With `system` only rows count that read errors of the operating system.
        """
        rows = (row for row in self.rows[step] if row.system or not system)
        return next((row.family for row in rows if row.fits(sentence)), None)


def title_of_family(family: str, language: str) -> str:
    """The title of a family."""
    titles = load_tables().titles[family]
    return titles.get(language) or titles["en"]


@functools.cache
def load_tables() -> FamilyTables:
    """The tables, read at the first call."""
    titles: dict[str, dict[str, str]] = {}
    codes: dict[str, dict[int | str, str]] = {}
    names: dict[str, dict[str, tuple[str, ...]]] = {}
    rows: dict[str, list[Row]] = {step: [] for step in STEPS}
    packages: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        family = path.stem
        if family == VOCABULARY:
            continue
        table = read_toml(path)
        titles[family] = {"en": table.pop("title"), "zh": table.pop("title_zh")}
        for kind, listed in table.pop("codes", {}).items():
            codes.setdefault(kind, {}).update(dict.fromkeys(listed, family))
        packages.update(table.pop("packages", {}))
        for kind, listed in table.pop("names", {}).items():
            names.setdefault(kind, {})[family] = tuple(listed)
        for step, found in table.items():
            rows[step] += [make_row(family, one) for one in found]
    ranked = {step: tuple(sorted(found, key=attrgetter("rank"))) for step, found in rows.items()}
    return FamilyTables(titles, codes, names, ranked, packages)


def make_row(family: str, values: Mapping[str, Any]) -> Row:
    """A row from its TOML table."""
    fields: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in values.items()}
    return Row(family, **fields)


@functools.cache
def vocabulary() -> Mapping[str, str]:
    """Word -> regular expression that represents it in patterns."""
    return take_words({VOCABULARY: read_toml(FOLDER / f"{VOCABULARY}.toml")})


@functools.cache
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(insert_words(one, vocabulary()) for one in patterns), re.IGNORECASE)


@functools.cache
def _globs(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def _is_inside(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
