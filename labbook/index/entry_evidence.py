"""The text of an entry that says something about its run.

A check that is fine names the fault that the run does not have, the advice of a diagnosis is that of the page of its
symptom and names other faults, and tables of tensors and of the machine name everything: they are no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from labbook.store.text.entry_text import split_parts
from labbook.store.text.words_files import builtin_folder, read_words

_LEFT_OUT = frozenset({"unobserved", "resources", "debug", "profile", "checked", "moments"})
"""Blocks of an entry that are not searched."""
_QUIET = ("ok", "note", "not observed")
_DENIED = re.compile(r"[A-Za-z][\w./-]*[ \t]*[=:|]?[ \t]*(?<![\w])(?:False|false|None|null)\b")
"""`oom False`, `overflow=None`: what the run does not have."""
_HEADING = re.compile(r"^#{1,6}[ \t][^\n]*$", re.MULTILINE)


def evidence_text(body: str) -> tuple[str, str]:
    """Returns the text of people without headings, and the generated text that is evidence."""
    own, generated = [], []
    for part in split_parts(body):
        if not part.name:
            own.append(_HEADING.sub("", part.text))
        elif part.name not in _LEFT_OUT:
            lines = [line for line in without_advice(part.text.splitlines()) if not is_quiet_row(line)]
            generated.append(_DENIED.sub(" ", "\n".join(lines)))
    return "\n".join(own), "\n".join(generated)


def without_advice(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines of an entry, empty ones for the causes and fixes of its diagnosis."""
    is_advice = False
    for line in lines:
        if line and not line.startswith(" "):
            is_advice = line.startswith(_advice())
        yield "" if is_advice else line


@cache
def _advice() -> tuple[str, ...]:
    """Returns how the items of a diagnosis begin that are copied from the page of its symptom."""
    words = [
        read_words(builtin_folder() / "words" / f"{language}_diagnosis.toml")["diagnosis"] for language in ("en", "zh")
    ]
    # Entries of labbook 0.2 have 修复： for the advice.
    return (*(f"- **{each[key]}**" for each in words for key in ("why", "fixes")), "- **修复：**")


def is_quiet_row(line: str) -> bool:
    """Whether a line is a row of a checklist that is ok, a note, or was not observed."""
    stripped = line.strip()
    return stripped.startswith("|") and stripped.strip("| ").rpartition("|")[2].strip(" *").lower() in _quiet_verdicts()


@cache
def _quiet_verdicts() -> frozenset[str]:
    words = [read_words(builtin_folder() / "words" / f"{language}.toml")["verdicts"] for language in ("en", "zh")]
    return frozenset(str(each[verdict]).strip(" *").lower() for each in words for verdict in _QUIET)
