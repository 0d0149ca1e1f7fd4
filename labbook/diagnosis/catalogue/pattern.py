"""Message templates: literal text with typed placeholders, matched in one pass from left to right.

A message of torch or paddle is a sentence with numbers, shapes, types and names in it. A template says the sentence and
names the rest: `mat1 and mat2 shapes cannot be multiplied ({a:shape} and {b:shape})`. Nothing in it can go back and try
again, so its time is bounded by the length of the text whatever a page of the catalogue says.

`{name:kind}` captures a value of one of `KINDS`; `{name}` anything within a line; `{*}` the same without capturing;
`{**}` anything, also over lines; `{{` and `}}` are braces. Letters are compared without case, any white space equals
any other, all quotation marks are alike, and a colon or comma between two words has a space behind it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from labbook.diagnosis.toml_data import read_toml, take_words
from labbook.errors import LabbookError
from labbook.frozen import dataclass

KINDS: Mapping[str, str] = take_words(read_toml(Path(__file__).with_suffix(".toml")))
"""Kind -> regular expression. None of them backtracks over more than one value."""

_ANY = 200
_ANYTHING = 2000
_MOST_STARTS = 64
_PLACE = re.compile(r"\{(\*\*?|[A-Za-z_]\w*)(?::([a-z]+))?\}")
_QUOTES = dict.fromkeys(map(ord, '"`‘’“”´«»「」'), "'")
_WIDE = {ord("："): ":", ord("，"): ",", ord("（"): "(", ord("）"): ")", ord("\u00a0"): " ", ord("\u3000"): " "}
_FLAT: dict[int, str | int | None] = {**_QUOTES, **_WIDE}
_LOW: dict[int, str | int | None] = {**{code: code + 32 for code in range(ord("A"), ord("Z") + 1)}, ord("\n"): " "}
_BRACES = {1: "{", 2: "}"}
_SPACES = re.compile(r"[^\S\n]+")
_BREAKS = re.compile(r" ?\n\s*")
_JOINED = re.compile(r"(?<=[A-Za-z)\]])([:,])(?=[A-Za-z'])")
_INSIDE = re.compile(r"\w[^\S\n]*\Z")
"""The end of what stands in front of the middle of a sentence."""
_LEAST_CUT = 24
"""Characters that a message without its end must have. Source: chosen by us; the shortest beginning that nearly always
distinguishes the messages of torch 2.13 and paddle 3.3 in the catalogue."""


class PatternError(LabbookError, ValueError):
    """A template breaks the rules above."""


@dataclass(frozen=True)
class NormalisedText:
    """A text prepared for matching: `flat` has its letters and lines, `low` is compared with literals.

    Shape: both have the same length.
    """

    flat: str
    low: str


def normalise_text(text: str) -> NormalisedText:
    """A text with uniform white space, quotation marks and punctuation."""
    flat = _BREAKS.sub("\n", _SPACES.sub(" ", _JOINED.sub(r"\1 ", text.translate(_FLAT)))).strip()
    return NormalisedText(flat, flat.translate(_LOW))


@dataclass(frozen=True)
class _Piece:
    literal: str = ""
    name: str = ""
    kind: str = ""
    following: str = ""
    """The literal behind it."""


@dataclass(frozen=True)
class CompiledPattern:
    """A compiled template.

    Args:
        source: As written.
        pieces: Literals and placeholders in order.
        anchor: Its longest literal: a text without it cannot match.
        length: Characters of all its literals: how specific it is.
    """

    source: str
    pieces: tuple[_Piece, ...]
    anchor: str
    length: int

    @property
    def beginning(self) -> str:
        """The characters by which a text that breaks off inside the pattern is known, or ""."""
        head = self.pieces[0].literal
        return head[:_LEAST_CUT] if len(head) >= _LEAST_CUT else ""

    @property
    def names(self) -> frozenset[str]:
        """The names of its placeholders."""
        return frozenset(piece.name for piece in self.pieces if piece.name)

    def find(self, text: NormalisedText) -> dict[str, str] | None:
        """The values of its placeholders at the first place where it fits, or `None`."""
        return next((captured for _, captured in self._places(text)), None)

    def is_whole(self, text: NormalisedText) -> bool:
        """Whether it fits from where a sentence begins, at most behind codes in punctuation."""
        return any(not _INSIDE.search(text.flat[max(0, at - _ANY) : at]) for at, _ in self._places(text))

    def _places(self, text: NormalisedText) -> Iterator[tuple[int, dict[str, str]]]:
        """Where it fits, with the values of its placeholders; one that begins with a placeholder fits from 0."""
        lead = 1 if not self.pieces[0].literal else 0
        position = -1
        for _ in range(_MOST_STARTS if self.anchor in text.low else 0):
            position = text.low.find(self.pieces[lead].literal, position + 1)
            if position < 0:
                return
            captured = self._match_from(text, position, lead)
            if captured is not None:
                yield (0 if lead else position), captured

    def _match_from(self, text: NormalisedText, position: int, lead: int) -> dict[str, str] | None:
        captured: dict[str, str] = {}
        if lead and not self._read_leading(text, position, captured):
            return None
        position += len(self.pieces[lead].literal)
        for piece in self.pieces[lead + 1 :]:
            end = _end_of(piece, text, position)
            if end is None:
                return None
            if piece.name:
                captured[piece.name] = text.flat[position:end].strip()
            position = end
        # A word that goes on is another name: `loss=nan` is not in `loss=nan_to_num`.
        behind = text.low[position : position + 1]
        goes_on = " " not in self.source and text.low[position - 1].isalnum() and re.match("[a-z_]", behind)
        return None if goes_on else captured

    def find_cut(self, text: NormalisedText) -> int:
        """Characters of its literals at the end of a text that breaks off inside the pattern; else 0."""
        position = text.low.rfind(self.beginning) if self.beginning else -1
        letters = 0
        for piece in self.pieces if position >= 0 else ():
            rest = text.low[position:]
            if piece.literal and piece.literal.startswith(rest):
                return letters + len(rest)
            end = _end_of(piece, text, position)
            if end is None:
                return 0 if piece.literal or "\n" in rest or len(rest) > _ANY else letters
            letters += len(piece.literal)
            position = end
        return 0

    def _read_leading(self, text: NormalisedText, position: int, captured: dict[str, str]) -> bool:
        """Reads the placeholder before the first literal."""
        piece = self.pieces[0]
        before = text.flat[max(0, position - _ANY) : position]
        found = _compile_ending(piece.kind).search(before)
        if found is None:
            return False
        if piece.name:
            captured[piece.name] = found.group().strip()
        return True


@functools.cache
def compile_pattern(source: str) -> CompiledPattern:
    """The template of a source text.

    Raises:
        PatternError: It has no literal, an unknown kind, or two placeholders without a literal in between of which the
            first has no kind.
    """
    parts = _PLACE.split(source.replace("{{", "\x01").replace("}}", "\x02"))
    pieces: list[_Piece] = []
    for text, name, kind in zip(parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True):
        literal = _literal(text, source)
        if literal := literal if pieces else literal.lstrip():
            pieces.append(_Piece(literal))
        if kind and kind not in KINDS:
            raise PatternError("errors.pattern.kind", kind=kind, kinds=list(KINDS))
        if name and pieces and not pieces[-1].literal and not pieces[-1].kind:
            raise PatternError("errors.pattern.follows", placeholder=f"{{{name}{':' + kind if kind else ''}}}")
        if name:
            pieces.append(_Piece("", name.strip("*"), "**" if name == "**" else kind or ""))
    literals = [piece.literal for piece in pieces if piece.literal]
    if not literals:
        raise PatternError("errors.pattern.no_words", template=source)
    if len(pieces) > 1 and not pieces[0].literal and not pieces[1].literal:
        raise PatternError("errors.pattern.two_first", template=source)
    behind = [*(piece.literal for piece in pieces[1:]), ""]
    pieces = [_Piece(one.literal, one.name, one.kind, then) for one, then in zip(pieces, behind, strict=True)]
    return CompiledPattern(source, tuple(pieces), max(literals, key=len), sum(len(one.strip()) for one in literals))


def _literal(text: str, source: str) -> str:
    """A part of a template as it is compared with a text."""
    low = _JOINED.sub(r"\1 ", re.sub(r"\s+", " ", text.translate(_FLAT))).translate(_LOW)
    stray = next((brace for brace in "{}" if brace in low), "")
    if stray:
        raise PatternError("errors.pattern.brace", template=source, brace=stray)
    return low.translate(_BRACES)


def _end_of(piece: _Piece, text: NormalisedText, position: int) -> int | None:
    """The end of a literal or of the value of a placeholder, or `None` when it is not at the position."""
    following = piece.following
    if piece.literal:
        return position + len(piece.literal) if text.low.startswith(piece.literal, position) else None
    if not piece.kind:
        return _end_of_any(following, text, position, _ANY, "\n")
    if piece.kind == "**":
        return _end_of_any(following, text, position, _ANYTHING, "")
    shape = _regex(piece.kind)
    greedy = shape.match(text.flat, position)
    if greedy is None and text.flat.startswith(" ", position) and text.flat[position - 1 : position] in (":", ","):
        # The normalised space between a colon and a word, which the pattern does not have before a value.
        greedy = shape.match(text.flat, position + 1)
    if greedy is None:
        return None
    if not following or text.low.startswith(following, greedy.end()):
        return greedy.end()
    # It matched too much: a word up to a full stop, a path up to a bracket.
    end = text.low.find(following, position, greedy.end() + len(following))
    return end if end > position and shape.fullmatch(text.flat, position, end) else None


def _end_of_any(following: str, text: NormalisedText, position: int, most: int, stop: str) -> int | None:
    limit = min(len(text.flat), position + most)
    line_end = text.flat.find(stop, position, limit) if stop else -1
    if not following:
        return line_end if line_end >= 0 else limit
    # The literal may itself start with the end of the line.
    reach = line_end + len(following) if line_end >= 0 else limit + len(following)
    end = text.low.find(following, position, reach)
    return end if end >= 0 else None


@functools.cache
def _regex(kind: str) -> re.Pattern[str]:
    return re.compile(KINDS[kind], re.IGNORECASE if kind == "num" else 0)


@functools.cache
def _compile_ending(kind: str) -> re.Pattern[str]:
    """The kind at the end of a text of at most 200 characters."""
    return re.compile("(?:" + KINDS.get(kind, r"[^\n]+") + r")\s?\Z")


_NUMBERS = re.compile(r"-?\d+")


def axis(value: str, index: int) -> str | None:
    """One axis of a captured shape, or `None` when it has no such axis."""
    sizes = _NUMBERS.findall(value)
    return sizes[index] if -len(sizes) <= index < len(sizes) else None


QUANTITIES = ("device", "dtype", "shape")
_ON_GPU = re.compile(r"cuda|gpu|npu|xpu|mps|hip", re.IGNORECASE)
_SCALARS = {
    "double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
    "byte": "uint8", "unsigned char": "uint8", "char": "int8", "c10::half": "float16", "c10::bfloat16": "bfloat16",
}  # fmt: skip


def is_different(quantity: str, first: str, second: str) -> bool:
    """Whether two shapes, or names of tensor types or devices, differ in one of `QUANTITIES`.

    "torch.cuda.FloatTensor" and "torch.FloatTensor" differ in the device, "Double" and "torch.float64" in nothing.
    """
    if quantity == "device":
        kinds = [_ON_GPU.search(value) for value in (first, second)]
        return bool(kinds[0]) != bool(kinds[1]) or _number(first) != _number(second)
    if quantity == "shape":
        return _NUMBERS.findall(first) != _NUMBERS.findall(second)
    return scalar_type(first) != scalar_type(second)


def _number(device: str) -> str:
    index = device.rpartition(":")[2]
    return index if index.isdigit() else ""


def scalar_type(value: str) -> str:
    """One name for a type of tensor elements, however it is written: "Float" and "torch.FloatTensor" are "float32"."""
    word = value.strip("'() ").lower()
    if not word.startswith("c10::"):
        word = word.rpartition(".")[2]
    word = word.removesuffix("tensor")
    return _SCALARS.get(word, word)


SLOT = re.compile(r"\{([A-Za-z_]\w*)(?:\.(-?\d+))?(?:\|([^{}]*))?\}")
FRAMEWORKS = ("torch", "paddle")
"""Slots of these names have text for one framework only."""
_PART = re.compile(r"\{(torch|paddle)\|([^{}]*)\}")
_CHINESE_GAP = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef]) +(?=[\u3000-\u9fff\uff00-\uffef])")
_TWINS = re.compile(r"\{torch\|([^{}]*)\}/\{paddle\|([^{}]*)\}")


def fill_slots(text: str, values: Mapping[str, str], framework: str = "") -> str | None:
    """A sentence with its slots filled: `{name}`, `{name.1}` an axis, `{name|words}` with words for the unknown.

    Args:
        text: The sentence. `{torch|one}/{paddle|other}` is the part of the run's framework, "one (paddle other)" where
            that is not known; a part that stands alone is left out for the other framework.
        values: By name.
        framework: "torch", "paddle" or "".

    Returns:
        The sentence, or `None` when a value is missing that has no words in its place.
    """
    missing = False

    def value(slot: re.Match[str]) -> str:
        nonlocal missing
        if slot.group(1) in FRAMEWORKS:
            return slot.group()
        known: str | None = values.get(slot.group(1))
        if known is not None and slot.group(2) is not None:
            known = axis(known, int(slot.group(2)))
        missing = missing or (known is None and slot.group(3) is None)
        return known if known is not None else slot.group(3) or ""

    done = _framework_spelling(SLOT.sub(value, text), framework)
    return None if missing else _CHINESE_GAP.sub("", done)


def _framework_spelling(text: str, framework: str) -> str:
    if not any("{" + name + "|" in text for name in FRAMEWORKS):
        return text
    both = r"\1（paddle 为 \2）" if re.search("[\u4e00-\u9fff]", text) else r"\1 (paddle \2)"
    chosen = _TWINS.sub(r"{torch|\1}{paddle|\2}" if framework else both, text)
    return _PART.sub(lambda part: part[2] if framework in ("", part[1]) else "", chosen)
