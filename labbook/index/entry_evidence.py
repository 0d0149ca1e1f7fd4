"""The text of an entry that says something about its run.

A check that is fine names the fault that the run does not have, the advice of a diagnosis is that of the page of its
symptom and names other faults, and tables of tensors and of the machine name everything: they are no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest

from labbook.store.text.entry_text import split_parts
from labbook.store.text.words_files import builtin_folder, read_words

_LEFT_OUT = frozenset({"unobserved", "resources", "debug", "profile", "checked", "moments"})
"""Blocks of an entry that are not searched."""
_RULE = "|---"
"""How the line below the head of a table begins."""
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
            generated.append(_DENIED.sub(" ", "\n".join(evidence_lines(part.text.splitlines()))))
    return "\n".join(own), "\n".join(generated)


def evidence_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yields the lines of an entry, with empty ones in place of lines that are no evidence.

    Left out are the causes and fixes of a diagnosis, the rows of checks that found nothing with their explanations, and
    the heads of tables.
    """
    left_out = (*_advice(), *(f"- **{_first_cell(line)}**" for line in lines if _is_quiet_row(line)))
    is_left_out = False
    for line, after in zip_longest(lines, lines[1:], fillvalue=""):
        if line and not line.startswith(" "):
            is_left_out = line.startswith(left_out) or _is_quiet_row(line)
        is_head = line.startswith(_RULE) or after.startswith(_RULE)
        yield "" if is_left_out or is_head else line


@cache
def _advice() -> tuple[str, ...]:
    """Returns how the items of a diagnosis begin that are copied from the page of its symptom."""
    words = [
        read_words(builtin_folder() / "words" / f"{language}_diagnosis.toml")["diagnosis"] for language in ("en", "zh")
    ]
    # Entries of labbook 0.2 have 修复： for the advice.
    return (*(f"- **{each[key]}**" for each in words for key in ("why", "why_one_of", "fixes")), "- **修复：**")


def _is_quiet_row(line: str) -> bool:
    """Whether a line is a row of a checklist that is ok, a note, or was not observed."""
    stripped = line.strip()
    return stripped.startswith("|") and stripped.strip("| ").rpartition("|")[2].strip(" *").lower() in _quiet_verdicts()


def _first_cell(row: str) -> str:
    return row.strip("| ").partition("|")[0].strip()


@cache
def _quiet_verdicts() -> frozenset[str]:
    words = [read_words(builtin_folder() / "words" / f"{language}.toml")["verdicts"] for language in ("en", "zh")]
    return frozenset(str(each[verdict]).strip(" *").lower() for each in words for verdict in _QUIET)
