"""Values of a YAML file that a loader reads as another type than their author is likely to have meant.

The rules are those of YAML 1.1 as PyYAML implements them, because most training programs read with PyYAML or with
OmegaConf, which builds on it. A value is reported only where what was meant is plain from its form, its key or its
neighbours; `shuffle: yes` is a boolean that was meant as one.

Source: `yaml.resolver.Resolver`, `omegaconf._utils.get_yaml_loader`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from labbook.frozen import dataclass

_STRING_NUMBER = re.compile(r"[-+]?\d{1,6}(\.\d*)?[eE][-+]?\d{1,3}")
_LOSES_ZERO = re.compile(r"\d+\.\d*0")
_TUPLE = re.compile(r"\(\s*[-+\d.eE_]+(\s*,\s*[-+\d.eE_]+)*\s*,?\s*\)")
_NUMBERS = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?(?:,\s+[-+]?[\d.]+(?:e[-+]?\d+)?)+", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[-+]?(?:inf|nan)", re.IGNORECASE)
_NORM_KEYS = re.compile(r"(^|_)(norm|ord|p)(_type)?$", re.IGNORECASE)
_OCTAL_OF_YAML_2 = re.compile(r"0o[0-7]+")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(_\d{3})+")
_DIGITS = re.compile(r"0\d+")

_BOOLEANS = frozenset(("yes", "no", "on", "off"))
_WORD_KEYS = re.compile(
    r"(^|_)(country|lang|language|locale|region|answer|label|labels|classes|words?|categories)s?$", re.IGNORECASE
)
_DAY_KEYS = re.compile(
    r"date|day|time|start|end|since|until|from|to$|created|updated|begin|period|split|cutoff", re.IGNORECASE
)
_VERSION_KEYS = re.compile(r"(^|_)(version|python|cuda|cudnn|tag|release)$", re.IGNORECASE)
_MODE_KEYS = re.compile(r"mode|perm|umask|chmod", re.IGNORECASE)


@dataclass(frozen=True)
class YamlValue:
    """A value, or a key, that is read as another type.

    Args:
        kind: Key of its sentence.
        path: Keys and list positions from the root.
        line: Line in the file, from 1.
        written: The value as it is in the file.
        read: The value that is read instead, as text.
    """

    kind: str
    path: tuple[str | int, ...]
    line: int
    written: str
    read: str

    @property
    def key(self) -> str:
        """The dotted path."""
        return ".".join(str(part) for part in self.path)

    @property
    def leaf(self) -> str:
        """The last key that is a name."""
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")


def find_retyped_values(text: str) -> list[YamlValue]:
    """Returns the values of a YAML text that are read as another type, in their order; empty for broken YAML.

    Cost: 5 ms for 10 kB with libyaml, 50 ms without.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        roots = list(yaml.compose_all(text, Loader=loader))
        return [found for root in roots for found in _walk(root, (), set())]
    except (yaml.YAMLError, RecursionError, ValueError):
        return []


def _walk(node: Any, path: tuple[str | int, ...], seen: set[int]) -> Iterator[YamlValue]:  # noqa: ANN401 - a yaml node
    if id(node) in seen:
        return
    seen.add(id(node))
    if node.id == "mapping":
        yield from _read_keys(node, path)
        for key, value in node.value:
            yield from _walk(value, (*path, _name(key)), seen)
    elif node.id == "sequence":
        words = [number for number, item in enumerate(node.value) if _is_word_as_bool(item)]
        if words and _holds_words(node, path):  # One of a list is enough.
            item = node.value[words[0]]
            yield _value("configuration.yaml.word_as_bool", (*path, words[0]), item, _bool(item.value))
        for number, item in enumerate(node.value):
            if number not in words:
                yield from _walk(item, (*path, number), seen)
    elif not node.style:
        read = _READERS.get(node.tag.rpartition(":")[2])
        kind, value = (read and read(node.value, _leaf(path))) or ("", "")
        if kind:
            yield _value(kind, path, node, value)


def _read_keys(mapping: Any, path: tuple[str | int, ...]) -> Iterator[YamlValue]:  # noqa: ANN401 - a yaml node
    """Yields the keys that are there twice, and those that are read as a boolean."""
    known: dict[str, Any] = {}
    for key, value in mapping.value:
        name = _name(key)
        if key.id != "scalar" or name == "<<":
            continue
        if name in known:
            yield _value(
                "configuration.yaml.repeated_key", (*path, name), key, f"{_show_node(known[name])}, {_show_node(value)}"
            )
        known[name] = value
        if _is_plain(key, "bool") and name.lower() in _BOOLEANS - {"on"}:
            yield _value("configuration.yaml.key_as_bool", (*path, name), key, _bool(name))


def _name(key: Any) -> str:  # noqa: ANN401 - a yaml node
    return str(key.value) if key.id == "scalar" else "?"


def _is_word_as_bool(item: Any) -> bool:  # noqa: ANN401 - a yaml node
    return item.id == "scalar" and _is_plain(item, "bool") and item.value.lower() in _BOOLEANS


def _holds_words(sequence: Any, path: tuple[str | int, ...]) -> bool:  # noqa: ANN401 - a yaml node
    """Whether a list has other texts, or a key that is used for lists of words."""
    scalars = [item for item in sequence.value if item.id == "scalar"]
    has_text = any(item.tag.endswith(":str") for item in scalars)
    return has_text or (len(scalars) > 1 and _WORD_KEYS.search(_leaf(path)) is not None)


_Reading = tuple[str, str] | None
"""The kind of a value that is read as another type, and what is read."""


def _read_text(text: str, key: str) -> _Reading:
    if _STRING_NUMBER.fullmatch(text):
        return "configuration.yaml.number_as_text", _add_dot_and_sign(text)
    if _TUPLE.fullmatch(text) and "," in text:
        return "configuration.yaml.tuple_as_text", "[" + text.strip("()").strip().rstrip(",") + "]"
    if _NUMBERS.fullmatch(text):
        return "configuration.yaml.list_as_text", f"[{text}]"
    if _NO_NUMBER.fullmatch(text) and not _NORM_KEYS.search(key):
        return "configuration.yaml.special_as_text", re.sub(r"(?=[a-z])", ".", text.lower(), count=1)
    if _OCTAL_OF_YAML_2.fullmatch(text):
        return "configuration.yaml.special_as_text", str(int(text, 8))
    if _DIGITS.fullmatch(text):
        return "configuration.yaml.zeros_as_text", text.lstrip("0")
    return ("configuration.yaml.none_as_text", "null") if text == "None" else None


def _read_integer(text: str, key: str) -> _Reading:
    if _DIGITS.fullmatch(text) and int(text) != int(text, 8) and not _MODE_KEYS.search(key):
        return "configuration.yaml.octal", str(int(text, 8))
    if ":" in text:
        return "configuration.yaml.sexagesimal", str(_base_60(text))
    if "_" in text and text[:2].lower() not in ("0x", "0b") and not _THOUSANDS.fullmatch(text):
        return "configuration.yaml.underscores", text.replace("_", "")
    return None


def _read_float(text: str, key: str) -> _Reading:
    is_version = _LOSES_ZERO.fullmatch(text) and _VERSION_KEYS.search(key)
    return ("configuration.yaml.version_as_number", str(float(text))) if is_version else None


def _read_timestamp(text: str, key: str) -> _Reading:
    return ("configuration.yaml.date", text) if len(text) == len("2026-01-01") and not _DAY_KEYS.search(key) else None


def _read_boolean(text: str, key: str) -> _Reading:
    return (
        ("configuration.yaml.word_as_bool", _bool(text))
        if text.lower() in _BOOLEANS and _WORD_KEYS.search(key)
        else None
    )


_READERS = {
    "str": _read_text,
    "int": _read_integer,
    "float": _read_float,
    "timestamp": _read_timestamp,
    "bool": _read_boolean,
}


def _value(kind: str, path: tuple[str | int, ...], node: Any, read: str) -> YamlValue:  # noqa: ANN401 - a yaml node
    return YamlValue(kind, path, node.start_mark.line + 1, node.value, read)


def _is_plain(node: Any, kind: str) -> bool:  # noqa: ANN401 - a yaml node
    return not node.style and str(node.tag).endswith(f":{kind}")


def _leaf(path: tuple[str | int, ...]) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _show_node(node: Any) -> str:  # noqa: ANN401 - a yaml node
    return str(node.value)[:40] if node.id == "scalar" else "{...}" if node.id == "mapping" else "[...]"


def _bool(word: str) -> str:
    return "true" if word.lower() in ("yes", "on") else "false"


def _add_dot_and_sign(text: str) -> str:
    base, exponent = re.split("[eE]", text)
    return f"{base if '.' in base else base + '.0'}e{exponent if exponent[0] in '-+' else '+' + exponent}"


def _base_60(text: str) -> int:
    """Returns the number that YAML 1.1 reads, such as 86400 for 24:00:00."""
    total = 0
    for part in text.replace("_", "").lstrip("+-").split(":"):
        total = total * 60 + int(part)
    return -total if text.startswith("-") else total
