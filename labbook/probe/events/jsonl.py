"""Plain data as one line of strict JSON, without importing `json`.

The `json` package costs a short program several milliseconds, mostly for compiling regular expressions; its C encoder
for strings is all that is needed here. What is not plain is described, never called: a `repr` is program code.
"""

import sys

try:
    from _json import encode_basestring_ascii as _quote
    from _json import make_encoder as _make_encoder
    from _json import make_scanner as _make_scanner
except ImportError:  # an interpreter without the C module
    from json.encoder import py_encode_basestring_ascii as _quote

    _make_encoder = _make_scanner = None

MAX_DEPTH = 8
MAX_ITEMS = 1000
MAX_TEXT = 80 * 1024
"""Longest string, in characters. Source: chosen by us; a configuration file of 64 KiB fits."""

CUT = " [cut]"


class MaskedString(str):
    """A string that has been masked already."""

    __slots__ = ()


def encode(value, text, depth=0):
    """JSON text of `value`; each string in it has passed through `text` first.

    Numbers that are not finite become the strings "nan", "inf" and "-inf". What lies beyond `MAX_DEPTH` and `MAX_ITEMS`
    is left out.
    """
    kind = type(value)
    if kind is str:
        return quote(text(value))
    if kind is int:
        return (
            int.__repr__(value)
            if -(2**63) <= value < 2**64
            else quote("a whole number of %d bits" % value.bit_length())
        )
    if kind is float:
        return number(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if depth >= MAX_DEPTH:
        return quote(CUT.strip())
    if isinstance(value, dict):
        return _encode_object(value, text, depth)
    if isinstance(value, (list, tuple)):
        return _encode_list(value, text, depth)
    if isinstance(value, (set, frozenset)):
        return _encode_list(sorted(value, key=str), text, depth)
    return _encode_other(value, text)


class Encoder:
    """Encodes what the probe has put together itself, of numbers, strings, lists and dictionaries of few items.

    The interpreter's own encoder does it, five times faster than `encode`. What it does not know, or would not write as
    strict JSON, is left to `encode`.

    Args:
        text: As for `encode`.
        names: Strings that are no secrets, whatever the program holds: they do not pass through `text`.
    """

    def __init__(self, text, names=()):
        known = {name: quote(name) for name in names}

        def quote_string(string):
            if string in known:
                return known[string]
            return quote(string if type(string) is MaskedString else text(string))

        self._text = text
        self._encode = None
        if _make_encoder is not None:
            self._encode = _make_encoder(None, _refuse, quote_string, None, ":", ",", False, False, False)

    def encode(self, value):
        """JSON text of `value`, the same as that of the function `encode`."""
        if self._encode is not None:
            try:
                return "".join(self._encode(value, 0))
            except (ValueError, TypeError, RecursionError):  # not finite, of no plain type, or too deep
                pass
        return encode(value, self._text)


def _refuse(value):
    raise TypeError


def number(value):
    """JSON text of a float."""
    if value != value:
        return '"nan"'
    if value in (float("inf"), float("-inf")):
        return '"inf"' if value > 0 else '"-inf"'
    return float.__repr__(value)


def quote(string):
    """A string in quotes, cut at `MAX_TEXT`; bytes of file names that are no text become replacement marks."""
    if len(string) > MAX_TEXT:
        string = string[:MAX_TEXT] + CUT
    if not string.isascii():
        try:
            string.encode("utf-8")
        except UnicodeEncodeError:
            string = string.encode("utf-8", "replace").decode("utf-8")
    return _quote(string)


def _encode_object(value, text, depth):
    parts = []
    for name, item in value.items():
        if len(parts) >= MAX_ITEMS:
            break
        key = name if type(name) is str else describe(name)
        parts.append(quote(text(key)) + ":" + encode(item, text, depth + 1))
    return "{" + ",".join(parts) + "}"


def _encode_list(value, text, depth):
    return "[" + ",".join([encode(item, text, depth + 1) for item in value[:MAX_ITEMS]]) + "]"


def _encode_other(value, text):
    if type(value) is MaskedString:
        # The recorder opens some of these paths: bytes that are no text stay, as lone surrogates.
        return _quote(value) if len(value) <= MAX_TEXT else quote(value)
    if isinstance(value, str):
        return quote(text(str.__str__(value)))
    if isinstance(value, float):
        return number(float(float.__repr__(value)))
    if isinstance(value, int):
        return encode(int(value), text)
    if isinstance(value, bytes):
        return quote(text(value[:1024].decode("utf-8", "replace")))
    return quote(text(describe(value)))


_HARMLESS = frozenset(
    ["builtins", "pathlib", "datetime", "decimal", "fractions", "uuid", "ipaddress", "enum", "argparse", "collections"]
)
_NAMED = frozenset(["device", "dtype", "Size", "TorchVersion", "CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "XPUPlace"])


def describe(value, limit=200):
    """A short text for a value that JSON does not know: its `repr` where that is harmless, else the name of its type.

    A tensor's `repr` may wait for a device and a large array's takes long, so only simple types are asked.
    """
    kind = type(value)
    family = (kind.__module__ or "").partition(".")[0]
    if isinstance(value, type) or callable(value):
        name = getattr(value, "__qualname__", None) or kind.__qualname__
        return ("%s.%s" % (getattr(value, "__module__", ""), name))[:limit]
    if kind.__name__ == "module":
        return "<module %s>" % value.__name__
    if family == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return repr(value.item())[:limit]
    if family in ("torch", "paddle") and kind.__name__ in _NAMED:
        return str(value)[:limit]
    if hasattr(value, "__fspath__") or family in _HARMLESS:
        return str(value)[:limit] if hasattr(value, "__fspath__") else repr(value)[:limit]
    if isinstance(value, _enum_type()):
        return "%s.%s" % (kind.__name__, value.name)
    return "<%s.%s>" % (kind.__module__, kind.__qualname__)


def _enum_type():
    enum = sys.modules.get("enum")
    return getattr(enum, "Enum", ())


class _ScannerContext:
    """What the C scanner of `json` wants to know."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo = {}  # noqa: RUF012 - the interpreter's scanner asks for this attribute


def parse(text):
    """The value in a JSON text without blanks around it.

    Raises:
        ValueError: It is not JSON.
    """
    if _make_scanner is None:
        import json

        return json.loads(text)
    try:
        value, end = _make_scanner(_ScannerContext)(text, 0)
    except (StopIteration, SystemError):  # the latter where `json.decoder`, which holds its error, is not imported
        raise ValueError("not JSON") from None
    if text[end:].strip():
        raise ValueError("more than one JSON value")
    return value
