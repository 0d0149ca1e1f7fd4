"""Sentences that other rooms made in English, in the language of the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache


class Phrases:
    """Translates sentences by the patterns of a words file.

    Args:
        patterns: English sentence with `{}` for whatever varies -> the sentence in another language, with as many `{}`,
            or `{0}`, `{1}` where their order differs. Empty for English.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        # The most literal one first: "{} to {}" would fit many sentences.
        told = sorted(
            ((str(k), str(v)) for k, v in patterns.items()), key=lambda p: len(p[0].replace("{}", "")), reverse=True
        )
        self._patterns = tuple(told)

    def __call__(self, text: str) -> str:
        """The sentence translated, or as it is when no pattern fits; parts parted by "; " are translated one by one."""
        if not self._patterns or not text:
            return text
        whole = self._one(text)
        if whole is not None:
            return whole
        parts = text.split("; ")
        if len(parts) == 1:
            return text
        return "；".join(self._one(part) or part for part in parts)

    def _one(self, text: str) -> str | None:
        for pattern, translation in self._patterns:
            found = _compiled(pattern).fullmatch(text)
            if found is not None:
                return translation.format(*(self(part) for part in found.groups()))
        return None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    # A part is short: a long captured text is no sentence of ours, and matching stays linear.
    return re.compile("([^\n]{0,300}?)".join(re.escape(part) for part in pattern.split("{}")))
