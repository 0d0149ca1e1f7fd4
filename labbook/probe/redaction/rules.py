"""The rules of redaction as data: read from `rules.json`, compiled one by one when first needed.

Importing this module reads nothing and compiles nothing: it runs at the start of every Python process of a run.
"""

import os

from ..events.jsonl import parse

_RULES_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules.json")

# What may be before a credential: anything but the tail of a longer word. In escaped text the last letter of an
# escape (`\n`, `%3D`, `\u003d`, `\x1b[0;32m`) is no such tail.
_ESCAPES = r"(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u00[0-9a-fA-F]{2})|(?<=[\[;][0-9]m)|(?<=[\[;][0-9]{2}m)"
_EDGES = {
    "word": r"(?:(?<![A-Za-z0-9])|" + _ESCAPES + ")",
    "token": r"(?:(?<![A-Za-z0-9_-])|" + _ESCAPES + ")",
    "none": "",
}


class FormatRule:
    """One fixed format: a gate of cheap keywords and a pattern that is compiled when a gate opens for the first time.

    Args:
        data: The rule as written in the rules file: `id`, `keywords` (compared in lower case), `pattern` (a group named
            `s` marks the secret, otherwise all of the match is one), `edge` ("word", "token" or "none"), `digit` (the
            secret holds a digit, which distinguishes it from words joined by hyphens) and `run` (false: a match need
            not hold a run of 16 letters, digits and `-_.~`).
    """

    __slots__ = ("_compiled", "_digit", "_group", "_pattern", "id", "keywords", "run")

    def __init__(self, data):
        self.id = data["id"]
        self.keywords = tuple(lower_keeping_length(word) for word in data["keywords"])
        self._pattern = data["pattern"]
        self.run = bool(data.get("run", True))
        self._digit = bool(data.get("digit"))
        if data.get("edge", "word") not in _EDGES:
            raise ValueError("edge is one of %s" % ", ".join(sorted(_EDGES)))
        edge = _EDGES[data.get("edge", "word")]
        if self._pattern.startswith("(?i)"):
            edge, self._pattern = "(?i)" + edge, self._pattern[4:]
        self._pattern = edge + "(?:" + self._pattern + ")" if edge else self._pattern
        self._compiled = None
        self._group = 0

    def spans(self, line):
        """Where the secrets of this format are in `line`: list of (start, end)."""
        if self._compiled is None:
            import re

            self._compiled = re.compile(self._pattern)
            self._group = "s" if "s" in self._compiled.groupindex else 0
        found = []
        for match in self._compiled.finditer(line):
            start, end = match.span(self._group)
            if end > start and not (self._digit and not has_digit(line[start:end])):
                found.append((start, end))
        return found


_loaded = {}


def rules_data():
    """The built-in rules, as the object in the rules file. Cost: reads the file once a process, under 1 ms."""
    if not _loaded:
        with open(_RULES_FILE, encoding="utf-8") as file:
            data = parse(file.read().strip())
        data["names"] = {key: frozenset(words) for key, words in data["names"].items()}
        data["values"] = {key: frozenset(words) for key, words in data["values"].items()}
        data["rules"] = tuple(FormatRule(rule) for rule in data["formats"])
        _loaded.update(data)
    return _loaded


def has_digit(text):
    """Whether an ASCII digit is in `text`."""
    # Written out: this runs for each value beside a name, and a loop takes four times as long.
    return (
        "1" in text
        or "2" in text
        or "0" in text
        or "3" in text
        or "4" in text
        or "5" in text
        or "6" in text
        or "7" in text
        or "8" in text
        or "9" in text
    )


def lower_keeping_length(text):
    """`text` in lower case, character by character, so that positions stay the same."""
    # U+0130 is the only character whose lower case is two characters long.
    return text.lower() if text.isascii() else text.replace("\u0130", "i").lower()
