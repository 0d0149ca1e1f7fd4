"""Front matter: the YAML block at the top of an entry or note. The only module that imports PyYAML.

Values are plain JSON data. Dates stay text, and only `true` and `false` are booleans, so that values round-trip
exactly. Keys, comments, order and line ends of the user survive an update.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from labbook.errors import EntryError

_FENCE = re.compile(r"---[ \t]*\r?\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_LINES = re.compile(
    "[^\\n\\r\\x85\\u2028\\u2029]*(?:\\r\\n|[\\n\\r\\x85\\u2028\\u2029])|[^\\n\\r\\x85\\u2028\\u2029]+\\Z"
)
_PLAIN = re.compile(r"(?:\.{0,2}/)?[^\W\d_](?:[\w./+@=-]| (?=[\w./+@=-]))*\Z")
_PLAIN_NUMERIC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z|\d{8}-\d{6}-[a-z0-9]+\Z")
_RESERVED = frozenset(["true", "false", "yes", "no", "on", "off", "null", "none", "y", "n", "inf", "nan"])
_NUMBERS_AS_TEXT = frozenset({"nan", "inf"})
# Legal in YAML, but a macro or markup processor that reads the raw file would act on them.
_ASLEEP = {"<": "\\u003c", "{{": "{\\u007b", "{%": "{\\u0025", "{#": "{\\u0023"}


@dataclass(frozen=True)
class _Parts:
    """Split a note into three: byte order mark and opening line, YAML text, everything after the closing line."""

    opening: str
    yaml: str
    closing: str
    body: str


def parse(text: str, path: str, known: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], str]:
    """Return the front matter as plain data (empty if there is none), and the text after it, byte for byte.

    Args:
        text: A whole Markdown file.
        path: Path of the file, for the error message.
        known: The front matter if it was read before; parsing is slow.

    Raises:
        EntryError: The front matter is opened and not closed, or is no YAML mapping; names the line.
    """
    parts = _cut(text, path)
    if parts is None:
        return {}, text
    return _load(parts.yaml, path) if known is None else dict(known), parts.body


def emit(meta: Mapping[str, Any]) -> str:
    """Format front matter with its two fences, one line per key, in the order of `meta`."""
    return "---\n" + "".join(_line(key, value) for key, value in meta.items()) + "---\n"


def update(text: str, meta: Mapping[str, Any], path: str = "") -> str:
    """Set the keys of `meta` in the front matter of `text`; all other bytes, and equal values, are preserved.

    Args:
        text: A whole Markdown file, with or without front matter.
        meta: New values; keys that are not there yet are added after the key that precedes them in `meta`.
        path: Path of the file, for the error message.

    Raises:
        EntryError: The front matter cannot be read; names the line.
    """
    parts = _cut(text, path)
    if parts is None:
        opening = "\ufeff" if text.startswith("\ufeff") else ""
        newline = "\r\n" if "\r\n" in text else "\n"
        return opening + emit(meta).replace("\n", newline) + text.removeprefix("\ufeff")
    old = _load(parts.yaml, path)
    meta = _load(emit(meta)[4:-4], path)
    changed = {key: value for key, value in meta.items() if key not in old or old[key] != value}
    if not changed:
        return text
    newline = "\r\n" if parts.opening.endswith("\r\n") else "\n"
    wanted = {**old, **meta}
    new = _replace_keys(parts.yaml, list(meta), changed, newline)
    if not _is_loaded_as(new, wanted):
        # An alias, or a mapping in braces: rewritten as a whole, with the comments at the end.
        comments = [line for line in _LINES.findall(parts.yaml) if line.lstrip().startswith("#")]
        new = "".join(_line(k, v) for k, v in wanted.items()).replace("\n", newline) + "".join(comments)
    return parts.opening + new + parts.closing + parts.body


def _cut(text: str, path: str) -> _Parts | None:
    start = 1 if text.startswith("\ufeff") else 0
    fence = _FENCE.match(text, start)
    if fence is None:
        return None
    end = _END.search(text, fence.end())
    if end is None:
        raise EntryError("errors.front_matter.no_end", path=path)
    return _Parts(text[: fence.end()], text[fence.end() : end.start()], end.group(), text[end.end() :])


@functools.cache
def _loader() -> Any:  # noqa: ANN401 - PyYAML's classes have no useful types
    """A safe loader that leaves dates, `yes`, `on`, octal and sexagesimal numbers as the text they are."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """Plain data only."""

    kept = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"}
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if tag in kept]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for tag, pattern, first in (
        ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
        ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
        ("float", r"^[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))
    return Loader


def _load(text: str, path: str) -> dict[str, Any]:
    import yaml

    try:
        loaded = yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if mark is not None and error.context_mark is not None and mark.line >= text.count("\n"):
            # For an unclosed construct, the context marks where it was opened.
            mark = error.context_mark
        raise EntryError(
            "errors.front_matter.wrong",
            path=path,
            line=mark.line + 2 if mark is not None else 1,
            problem=error.problem or error.context or "",
            advice="errors.front_matter.advice",
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EntryError(
            "errors.front_matter.wrong",
            path=path,
            line=_line_of(error, text),
            problem=first,
            advice="errors.front_matter.advice",
        ) from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise EntryError("errors.front_matter.no_mapping", path=path, advice="errors.front_matter.advice")
    return {str(key): value for key, value in loaded.items()}


def _line_of(error: Exception, text: str) -> int:
    position = getattr(error, "position", 0)
    return text.count("\n", 0, position) + 2 if isinstance(position, int) else 2


def _is_loaded_as(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return _load(text, "") == wanted
    except EntryError:
        return False


@dataclass
class _Segment:
    """The lines of one top-level key; `comment` follows its value."""

    key: str
    lines: list[str]
    comment: str = ""

    def set(self, line: str, newline: str) -> None:
        """Replace the value, but not the comment after it or the comment and blank lines below it."""
        kept = [o for o in self.lines[1:] if not o.strip() or o.lstrip().startswith("#")]
        comment = f"  {self.comment}" if self.comment else ""
        self.lines = [line.rstrip("\r\n") + comment + newline, *kept]

    def cut_comments(self) -> list[str]:
        """Remove and return the comment and blank lines at the end."""
        end = len(self.lines)
        while end > 1 and (not self.lines[end - 1].strip() or self.lines[end - 1].startswith("#")):
            end -= 1
        above = self.lines[end:]
        self.lines = self.lines[:end]
        return above


def load_tagged(text: str, value_of_tag: Callable[[str], object] | None = None) -> object:
    """Load YAML as PyYAML reads it, with any tags, as plain data; no tag is executed.

    Args:
        value_of_tag: Returns the value of a node with an unknown tag, like `!!python/name:x` or `!ENV`; by default the
            data of the node, or its tag if that is empty.

    Raises:
        ValueError: The text is not YAML; names the line.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        pass

    def construct(loader: Any, _suffix: str, node: Any) -> object:  # noqa: ANN401 - classes of PyYAML
        if value_of_tag is not None:
            return value_of_tag(str(node.tag))
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node) or str(node.tag).removeprefix("tag:yaml.org,2002:")

    # The empty prefix matches all tags without a constructor.
    Loader.add_multi_constructor("", construct)
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def _replace_keys(yaml_text: str, order: list[str], changed: Mapping[str, Any], newline: str) -> str:
    """Return the YAML text with changed keys replaced and new keys added."""
    lines = _LINES.findall(yaml_text)
    head, segments = _segments(yaml_text, lines)
    for key in order:
        if key not in changed:
            continue
        line = _line(key, changed[key]).replace("\n", newline)
        same = [s for s in segments if s.key == key]
        if same:
            # Of a duplicate key, the last one counts.
            same[-1].set(line, newline)
            continue
        earlier = order[: order.index(key)]
        before = [number for number, s in enumerate(segments) if s.key in earlier]
        # Comments above the next key stay with that key.
        above = segments[before[-1]].cut_comments() if before else []
        segments.insert(before[-1] + 1 if before else 0, _Segment(key, [line, *above]))
    return head + "".join("".join(s.lines) for s in segments)


def _segments(yaml_text: str, lines: list[str]) -> tuple[str, list[_Segment]]:
    """Return the text before the first top-level key, and the keys with their lines."""
    import yaml

    node = yaml.compose(yaml_text, Loader=_loader())
    if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
        return yaml_text, []
    starts = [key.start_mark.line for key, _ in node.value] + [len(lines)]
    found = []
    for number, (key, value) in enumerate(node.value):
        start, stop = starts[number], starts[number + 1]
        end = value.end_mark
        comment = lines[end.line][end.column :].strip() if start <= end.line < stop else ""
        if not comment.startswith("#") and value.start_mark.line > start:
            comment = lines[start][key.end_mark.column :].lstrip(": \t").strip()
        found.append(_Segment(str(key.value), lines[start:stop], comment if comment.startswith("#") else ""))
    return "".join(lines[: starts[0]]), found


def _line(key: str, value: Any) -> str:  # noqa: ANN401 - JSON data
    return f"{_scalar(key)}: {_flow(value)}\n"


def _flow(value: Any) -> str:  # noqa: ANN401 - JSON data
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    text = str(value)
    return text if text in _NUMBERS_AS_TEXT else _scalar(text)


def _float(value: float) -> str:
    """Format a number for YAML 1.1 and 1.2; non-finite ones as the text `nan` or `inf`."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else '"-inf"')
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0{exponent}{power}" if exponent and "." not in mantissa else text


def _scalar(text: str) -> str:
    """Format a string: plain if every parser reads it as that string, else in double quotes."""
    if len(text) < 200 and text.lower() not in _RESERVED and (_PLAIN.match(text) or _PLAIN_NUMERIC.match(text)):
        return text
    clean = text.encode("utf-8", "replace").decode("utf-8")
    quoted = json.dumps(clean, ensure_ascii=False)
    for raw, asleep in _ASLEEP.items():
        quoted = quoted.replace(raw, asleep)
    # Not printable in YAML, or read as a line end.
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda m: f"\\u{ord(m.group()):04x}", quoted)
