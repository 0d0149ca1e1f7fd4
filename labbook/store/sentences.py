"""Fills the message templates of a language: `templates/words/messages/<language>_<room>*.toml`.

A template is a sentence with named placeholders. `{loss}` prints a number with four significant digits, a name as it
is, a nested message in the same language, a list with its separator. What stands behind a colon changes that:

- `{share:percent}`, `{wait:ms}` (from seconds), `{size:mib}` (from bytes)
- `{count:step|steps}`: the first word where the count is 1, else the second; the number itself is not printed
- `{reason:text}`: a text that is stored in English, see below
- `{parts:clauses}`, `{parts:sentences}`: a list, separated as such
- anything else is Python's format of a number: `{seconds:.2f}`

Texts that are stored in English as they are, such as the reasons of the probe, have their translation in
`<language>_texts.toml`, under the whole text.
"""

from __future__ import annotations

import contextlib
import functools
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.errors import EntryError
from labbook.model.message import Message
from labbook.model.run import CheckResult
from labbook.store.templates import builtin_folder, overlay, read_words

_NOT_FINITE = ("nan", "inf", "-inf")
"""How `run.json` stores numbers that are not finite."""
_MIB = 1024.0 * 1024.0
_SEPARATORS = {"clauses": "values.clause_separator", "sentences": "values.sentence_separator"}
_FORMATTER = string.Formatter()


class Sentences:
    """Says messages in one language.

    Args:
        language: "en" or "zh"; a key that a language lacks is said in English.
        own: The notebook's own templates folder; its `words/messages/` files come first.
    """

    def __init__(self, language: str, own: Path | None = None) -> None:
        self.language = language
        self._own = own

    def __call__(self, said: Message | Mapping[str, Any] | str | None, otherwise: str = "") -> str:
        """Returns the sentence of a message, and text as it is.

        Args:
            said: A message, one as `run.json` stores it, or text of an entry from before there were messages.
            otherwise: The sentence where there is no message, or its key or values are not those of this version.
        """
        if said is None or said == "":
            return otherwise
        try:
            return self.fill(said)
        except (LookupError, ValueError, TypeError, EntryError):
            return otherwise or str(said.key if isinstance(said, Message) else said)

    def fill(self, said: Message | Mapping[str, Any] | str) -> str:
        """Returns the sentence of a message.

        Raises:
            LookupError: There is no such key, or a value is missing.
            ValueError: A value does not fit its format.
        """
        if isinstance(said, str):
            return str(_messages(self.language, "texts", self._own).get(said, said))
        key, values = (said.key, said.values) if isinstance(said, Message) else (said["key"], said["values"])
        parts = []
        for literal, name, spec, _ in _FORMATTER.parse(self.template(str(key))):
            parts.append(literal)
            if name is not None:
                parts.append(self._value(values[name], spec or ""))
        return "".join(parts)

    def line(self, key: str, **values: Any) -> str:  # noqa: ANN401 - numbers, text, messages and lists of them
        """Returns the sentence of a key with its values."""
        return self.fill(Message(key, values))

    def prepare(self, *rooms: str) -> None:
        """Loads the templates of some rooms (first parts of keys) in advance; what is broken shows when it is used."""
        with contextlib.suppress(EntryError):
            for room in rooms:
                _messages(self.language, room, self._own)

    def template(self, key: str) -> str:
        """Returns the template of a key with its placeholders.

        Raises:
            LookupError: There is no such key.
        """
        room, _, rest = key.partition(".")
        for language in dict.fromkeys((self.language, "en")):
            found: Any = _messages(language, room, self._own)
            for part in rest.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
            if isinstance(found, str):
                return found
        raise KeyError(key)

    def _value(self, value: Any, spec: str) -> str:  # noqa: ANN401 - whatever a message may hold
        if isinstance(value, (Message, Mapping)):
            return self.fill(value)
        if isinstance(value, (list, tuple)):
            return self._list(value, spec)
        if isinstance(value, str):
            return self._number(float(value), spec) if value in _NOT_FINITE else self._text(value, spec)
        if value is None:
            raise KeyError("a value is None")
        if "|" in spec:
            one, _, many = spec.partition("|")
            return one if value == 1 else many
        return str(value) if isinstance(value, bool) else self._number(value, spec)

    def _text(self, value: str, spec: str) -> str:
        return self.fill(value) if spec == "text" else value

    def _list(self, values: Sequence[Any], spec: str) -> str:
        separator = self.template(_SEPARATORS.get(spec, "values.separator"))
        return separator.join(self._value(value, "" if spec in _SEPARATORS else spec) for value in values)

    def _number(self, value: float, spec: str) -> str:
        if not math.isfinite(value):
            return self.template(f"values.{'nan' if math.isnan(value) else 'inf' if value > 0 else 'minus_inf'}")
        if spec == "percent":
            return format_percent(value)
        if spec == "ms":
            return f"{value * 1000:.3g} ms"
        if spec == "mib":
            return f"{value / _MIB:.0f} MiB"
        return format(value, spec) if spec else format_number(value)


def translate(texts: Sequence[str], messages: object, say: Sentences) -> list[str]:
    """Returns English texts of `run.json` in the language of `say`, by the messages that are stored beside them.

    Args:
        texts: The texts; those without a message stay as they are.
        messages: A list of messages as `run.json` stores them, in the same order, or whatever stands in its place.
        say: Says messages.
    """
    known = messages if isinstance(messages, (list, tuple)) and len(messages) == len(texts) else [None] * len(texts)
    return [say(one if isinstance(one, Mapping) else None, text) for one, text in zip(known, texts, strict=True)]


def translate_check(check: CheckResult, say: Sentences) -> CheckResult:
    """Returns a row of the checklist in the language of `say`; texts without a message stay as they are."""
    if say.language == "en":
        return check
    words, messages = check.page_words.get(say.language, {}), check.run_messages
    evidence = [*check.evidence_messages, *[None] * (len(check.evidence) - len(check.evidence_messages))]
    return replace(
        check,
        title=say(messages.get("title"), words.get("title") or check.title),
        expected=say(messages.get("expected"), words.get("expected") or check.expected),
        observed=say(check.observed_message, check.observed),
        detail=say(messages.get("detail"), words.get("detail") or check.detail) if check.detail else "",
        evidence=tuple(say(one, text) for one, text in zip(evidence, check.evidence, strict=False)),
    )


def format_number(value: float) -> str:
    """Returns a finite number with four significant digits, a whole one in full."""
    return str(int(value)) if abs(value) < 1e7 and value == int(value) else f"{value:.4g}"


def format_percent(share: float) -> str:
    """Returns a share in percent; 100 % and 0 % only when it is exactly that."""
    rounded = f"{share * 100:.0f} %"
    if rounded in ("100 %", "0 %") and 0 < share < 1:
        return f"{share * 100:.2g} %" if share < 0.5 else f"{math.floor(share * 1000) / 10:.1f} %"
    return rounded


@functools.lru_cache(maxsize=32)
def _messages(language: str, room: str, own: Path | None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = {}
    if room.isidentifier():
        for folder in (builtin_folder(), own):
            for path in sorted((folder / "words" / "messages").glob(f"{language}_{room}*.toml")) if folder else ():
                found = overlay(found, read_words(path))
    return found
