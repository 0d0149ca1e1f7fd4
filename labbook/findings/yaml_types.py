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
        known: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value) if key.id == "scalar" else "?"
            if key.id == "scalar" and name != "<<":
                if name in known:
                    before = known[name]
                    read = f"{_show_node(before)}, {_show_node(value)}"
                    yield YamlValue(
                        "configuration.yaml.repeated_key", (*path, name), key.start_mark.line + 1, name, read
                    )
                known[name] = value
                if _is_plain(key, "bool") and name.lower() in _BOOLEANS - {"on"}:
                    yield YamlValue(
                        "configuration.yaml.key_as_bool", (*path, name), key.start_mark.line + 1, name, _bool(name)
                    )
            yield from _walk(value, (*path, name), seen)
    elif node.id == "sequence":
        words = [item.value for item in node.value if item.id == "scalar"]
        texts = [item for item in node.value if item.id == "scalar" and item.tag.endswith(":str")]
        are_words = bool(texts) or (len(words) > 1 and _WORD_KEYS.search(_leaf(path)) is not None)
        for number, item in enumerate(node.value):
            if item.id == "scalar" and _is_plain(item, "bool") and item.value.lower() in _BOOLEANS:
                if are_words:
                    are_words = False  # One of a list is enough.
                    yield _value("configuration.yaml.word_as_bool", (*path, number), item, _bool(item.value))
            else:
                yield from _walk(item, (*path, number), seen)
    elif not node.style:
        yield from _scalar(node, path)


def _scalar(node: Any, path: tuple[str | int, ...]) -> Iterator[YamlValue]:  # noqa: ANN401 - a yaml node
    text, leaf = node.value, _leaf(path)
    kind = node.tag.rpartition(":")[2]
    if kind == "str":
        if _STRING_NUMBER.fullmatch(text):
            yield _value("configuration.yaml.number_as_text", path, node, _add_dot_and_sign(text))
        elif _TUPLE.fullmatch(text) and "," in text:
            yield _value(
                "configuration.yaml.tuple_as_text", path, node, "[" + text.strip("()").strip().rstrip(",") + "]"
            )
        elif _NUMBERS.fullmatch(text):
            yield _value("configuration.yaml.list_as_text", path, node, f"[{text}]")
        elif _NO_NUMBER.fullmatch(text) and not _NORM_KEYS.search(leaf):
            yield _value(
                "configuration.yaml.special_as_text", path, node, re.sub(r"(?=[a-z])", ".", text.lower(), count=1)
            )
        elif _OCTAL_OF_YAML_2.fullmatch(text):
            yield _value("configuration.yaml.special_as_text", path, node, str(int(text, 8)))
        elif text == "None":
            yield _value("configuration.yaml.none_as_text", path, node, "null")
        elif _DIGITS.fullmatch(text):
            yield _value("configuration.yaml.zeros_as_text", path, node, text.lstrip("0"))
    elif kind == "int":
        if _DIGITS.fullmatch(text) and int(text) != int(text, 8) and not _MODE_KEYS.search(leaf):
            yield _value("configuration.yaml.octal", path, node, str(int(text, 8)))
        elif ":" in text:
            yield _value("configuration.yaml.sexagesimal", path, node, str(_base_60(text)))
        elif "_" in text and text[:2].lower() not in ("0x", "0b") and not _THOUSANDS.fullmatch(text):
            yield _value("configuration.yaml.underscores", path, node, text.replace("_", ""))
    elif kind == "float":
        if _LOSES_ZERO.fullmatch(text) and _VERSION_KEYS.search(leaf):
            yield _value("configuration.yaml.version_as_number", path, node, str(float(text)))
    elif kind == "timestamp":
        if len(text) == 10 and not _DAY_KEYS.search(leaf):
            yield _value("configuration.yaml.date", path, node, text)
    elif kind == "bool" and text.lower() in _BOOLEANS and _WORD_KEYS.search(leaf):
        yield _value("configuration.yaml.word_as_bool", path, node, _bool(text))


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
