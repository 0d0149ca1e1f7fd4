"""Fills the message templates of a language: `templates/words/messages/<language>_<group>*.toml`.

A template is a sentence with named placeholders. `{loss}` prints a number with four significant digits, a string
unchanged, a nested message in the same language, a list with its separator. A format after a colon changes that:

- `{share:percent}`, `{wait:ms}` (from seconds; from 1 s on in seconds), `{size:mib}` (from bytes)
- `{count:step|steps}`: the first word where the count is 1, else the second; the number itself is not printed
- `{reason:text}`: a text that is stored in English, see below
- `{parts:clauses}`, `{parts:sentences}`, `{parts:lines}`, `{names:or}`: a list, separated as such
- `{name!r}`: a text in quotes
- anything else is Python's format of a number: `{seconds:.2f}`

Texts that are stored in English, such as the reasons of the probe, have their translation in `<language>_texts.toml`,
with the whole text as key, in which `#` may be a number or a name in backticks. So have texts with values,
`{"text": template, "values": {...}}`, with their template.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.errors import EntryError, LabbookError
from labbook.model.confirmed_fix import NAMED_KINDS
from labbook.model.message import Message
from labbook.store.text.words_files import builtin_folder, overlay, read_words

if TYPE_CHECKING:
    from labbook.model.run import Change, CheckResult  # 15 ms: with the classes of all events

_NOT_FINITE = ("nan", "inf", "-inf")
"""Non-finite numbers in `run.json`."""
_MIB = 1024.0 * 1024.0
_SEPARATORS = {
    "clauses": "values.clause_separator",
    "sentences": "values.sentence_separator",
    "lines": "values.line_separator",
    "or": "values.or_separator",
}
_FORMATTER = string.Formatter()
_VALUE = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?|`[^`]*`")


class Sentences:
    """Formats messages in one language.

    Args:
        language: "en" or "zh"; a key that a language lacks is formatted in English.
        own: The notebook's templates folder; its `words/messages/` files override the built-in ones.
    """

    def __init__(self, language: str, own: Path | None = None) -> None:
        self.language = language
        self._own = own

    def __call__(self, message: Message | Mapping[str, Any] | str | None, default: str = "") -> str:
        """Format a message; text is returned unchanged.

        Args:
            message: A message, one in the form of `run.json`, or text of an entry from before messages existed.
            default: The sentence if there is no message, or its key or values are unknown to this version.
        """
        if message is None or message == "":
            return default
        try:
            return self.fill(message)
        except (LookupError, ValueError, TypeError, EntryError, OSError):
            return default or str(message.key if isinstance(message, Message) else message)

    def fill(self, message: Message | Mapping[str, Any] | str) -> str:
        """Format a message.

        Raises:
            LookupError: There is no such key, or a value is missing.
            ValueError: A value does not fit its format.
        """
        if isinstance(message, str):
            return _translate(message, _messages(self.language, "texts", self._own))
        if isinstance(message, Message):
            template, values = self.template(message.key), message.values
        else:
            known, values = message, message["values"]
            template = self.fill(str(known["text"])) if "text" in known else self.template(str(known["key"]))
        parts = []
        for literal, name, spec, conversion in _FORMATTER.parse(template):
            parts.append(literal)
            if name is not None:
                value = values[name]
                parts.append(repr(value) if conversion == "r" else self._value(value, spec or ""))
        return "".join(parts)

    def line(self, key: str, /, **values: Any) -> str:  # noqa: ANN401 - numbers, text, messages and lists of them
        """Format the message of a key with its values."""
        return self.fill(Message(key, values))

    def error(self, error: LabbookError) -> tuple[str, str]:
        """Format the message and the advice of an error; the advice is "" if there is none."""
        text = self(Message(error.key, error.values))
        try:
            return text, self.fill(Message(error.advice_key, error.values))
        except (LookupError, ValueError, TypeError, EntryError, OSError):
            return text, ""

    def prepare(self, *groups: str) -> None:
        """Load template groups (first parts of keys) in advance; errors are reported on use."""
        with contextlib.suppress(EntryError):
            for group in groups:
                _messages(self.language, group, self._own)

    def template(self, key: str) -> str:
        """Return the template of a key with its placeholders.

        Raises:
            LookupError: There is no such key.
        """
        group, _, rest = key.partition(".")
        for language in dict.fromkeys((self.language, "en")):
            found: Any = _messages(language, group, self._own)
            for part in rest.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
            if isinstance(found, str):
                return found
        raise KeyError(key)

    def _value(self, value: Any, spec: str) -> str:  # noqa: ANN401 - value of a placeholder
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
            return f"{value * 1000:.3g} ms" if abs(value) < 0.9995 else f"{value:.3g} s"
        if spec == "mib":
            return f"{value / _MIB:.0f} MiB"
        return format(value, spec) if spec else format_number(value)


def _translate(text: str, known: Mapping[str, str]) -> str:
    """Return the translation of a stored text; its numbers and names are `{0}`, `{1}` ... of the translation."""
    if not known or text in known:
        return str(known.get(text, text))
    found = known.get(_VALUE.sub("#", text))
    return text if found is None else str(found).format(*_VALUE.findall(text))


def translate(texts: Sequence[str], messages: object, sentences: Sentences) -> list[str]:
    """Translate English texts of `run.json` by the messages that are stored with them.

    Args:
        texts: The texts; those without a message are returned unchanged.
        messages: A list of messages in the form of `run.json`, in the same order; any other value is ignored.
        sentences: Formats messages in the target language.
    """
    known = messages if isinstance(messages, (list, tuple)) and len(messages) == len(texts) else [None] * len(texts)
    return [sentences(one if isinstance(one, Mapping) else None, text) for one, text in zip(known, texts, strict=True)]


def translate_check(check: CheckResult, sentences: Sentences) -> CheckResult:
    """Translate a row of the checklist; texts without a message are returned unchanged."""
    if sentences.language == "en":
        return check
    words, messages = check.page_words.get(sentences.language, {}), check.run_messages
    evidence = [*check.evidence_messages, *[None] * (len(check.evidence) - len(check.evidence_messages))]
    return replace(
        check,
        title=sentences(messages.get("title"), words.get("title") or check.title),
        expected=sentences(messages.get("expected"), words.get("expected") or check.expected),
        observed=sentences(check.observed_message, check.observed),
        detail=sentences(messages.get("detail"), words.get("detail") or check.detail) if check.detail else "",
        evidence=tuple(sentences(one, text) for one, text in zip(evidence, check.evidence, strict=False)),
    )


def translate_change(change: Change, sentences: Sentences) -> Change:
    """Translate name, sides and sentence of a difference; names, values and diffs of the program are unchanged."""
    messages = change.messages
    metric, is_last, _ = change.what.partition(" (last)")
    if change.kind == "metric" and is_last:
        what = sentences.line("report.last_value", name=metric)
    else:
        what = sentences(change.what) if change.kind in NAMED_KINDS else change.what
    return replace(
        change,
        what=sentences(messages.get("what"), what),
        before=sentences(messages.get("before"), change.before),
        now=sentences(messages.get("now"), change.now),
        detail=sentences(messages.get("detail"), change.detail),
    )


def format_number(value: float) -> str:
    """Format a finite number with four significant digits, an integer in full."""
    return str(int(value)) if abs(value) < 1e7 and value == int(value) else f"{value:.4g}"


def format_percent(share: float) -> str:
    """Format a share in percent; 100 % and 0 % only if they are exact."""
    rounded = f"{share * 100:.0f} %"
    if rounded in ("100 %", "0 %") and 0 < share < 1:
        return f"{share * 100:.2g} %" if share < 0.5 else f"{math.floor(share * 1000) / 10:.1f} %"
    return rounded


@functools.lru_cache(maxsize=32)
def _messages(language: str, group: str, own: Path | None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = {}
    if group.isidentifier():
        for folder in (builtin_folder(), own):
            for path in sorted((folder / "words" / "messages").glob(f"{language}_{group}*.toml")) if folder else ():
                found = overlay(found, read_words(path))
    return found
