"""Escapes untrusted text for pages: one function for each position in a page.

Untrusted is all text that labbook did not write: output, messages, paths, names, values, titles. The pages are read
by git hosts, by Python-Markdown with whatever extensions a team turns on, by editors such as Obsidian, and as raw text.
So characters with a meaning in any of them are encoded as numeric character references: these work in Markdown and
HTML, inside and outside tables, while backslashes do not. No text is turned into a link.

Encode last: do not cut or extend the results afterwards.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from labbook.model.run_fields import is_number

_LONGEST_FENCE = 32
_LONGEST_NAME = 100
_RESERVED = frozenset(["", "con", "prn", "aux", "nul", "index", "readme", "404"])

# Always encoded. `_` and `:` are too common in names and times; see `_BY_POSITION`.
_ELEMENTS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_ALWAYS = str.maketrans({char: f"&#{ord(char)};" for char in "\\`{}[]|~^$"})

# Active only next to certain characters. Each alternative begins with the character to encode.
_BY_POSITION = re.compile(
    # Masks of the redaction stay readable; they are links only with the excluded next characters.
    # So do signs of products and powers, with blanks around them.
    r"(?P<kept>\[(?:REDACTED:[a-z0-9_]{1,40}|USER)\](?![\[(:])|(?<=\s)[*]{1,3}(?=\s))|"
    r"(?<!\w)_+"  # what begins emphasis; a `_` behind a letter or a digit only ends it
    r"|[*]"  # emphasis, but not the signs of products and powers
    r"|<(?=[A-Za-z/!?]|--)|(?<=8)<|<\Z|\A>|(?<=--)>|&(?=[#\w])|&\Z"  # tags, quotes, character references
    r"|[#](?=\w)|[#]\Z|\A[#]"  # headings, numbers of issues
    r"|:(?=//)|:(?!\d+:)(?=[+\w-]+:)|:(?=100:|1234:)|(?<=www)\.|(?<=WWW)\."  # addresses that become links, emoji
    r"|@(?! )(?!(?<=[^\W_]@)\d{1,4}(?:\.\d{1,4})?(?![\w.@-]))"  # mentions and addresses; `Acc@1`, `AP@0.5` are neither
    r"|=(?==)(?!(?<=\s=)=\s)"  # marked text, but not `a == b`
    r"|\+(?=\+)|%(?=%)|!(?=!!|\d)|\?(?=\?\?|\d)|/(?=//)"  # keys, comments, blocks of extensions
    r"|\((?=(?:c|r|tm)\))|(?<=\+)/(?=-)|(?<==)/(?==)|(?<=\bc)/(?=o\b)|(?<![\d/])[1-7](?=/[2-8](?![\d/]))",  # symbols
    re.IGNORECASE,
)

# A list of values or several words in brackets, which is no link, note, task or image in any reader; what is in it is
# escaped as usual.
_LIST = re.compile(r"(?<![\[\]!])\[(?P<values>[^\[\]<>&`*|~^$#\\!{}\r\n]{0,2200})\](?![\[({:\]])")
_VALUES = re.compile(r"\Z|[\d.+-]+\Z|[\w\"'(.+-][^, ]*[, ]")

# Active only at the start of a line.
_AT_START = re.compile(r"^(?:[-+](?=\s|$)|-(?=[- ]*$)|=(?==*$)|:(?=\s))|(?:(?<=^\d)|(?<=^\d\d)|(?<=^\d{3}))[.)](?!\d)")

_CLOSING = re.compile(r"_(?![^\W_])")

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_LINE_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")

# Escape sequences of terminals: CSI, strings that end in BEL or ST, two-character ones, and their 8-bit forms.
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)

_COLOURS = re.compile(r"\x1b\[[\d;:]*m")

# Marks that tools process even inside code: macros, critic markup, includes.
_ACTIVE_IN_CODE = re.compile(r"\{[{%#+=~>:-]|^[ \t]*;*-+8<-+", re.MULTILINE)


def inline(text: str) -> str:
    """Escape text for a paragraph, a heading, a list item, a link label or an HTML element, as one line."""
    encoded = _encode_line(" ".join(_LINE_ENDS.sub(" ", text).split()))
    return _AT_START.sub(_reference, encoded, count=1) if encoded[:1] in "-+=:0123456789" else encoded


def table_cell(text: str) -> str:
    """Escape text for one table cell."""
    line = " ".join(_LINE_ENDS.sub(" ", text).split())
    encoded = _encode_line(line)
    if "&#95;" in encoded and not _CLOSING.search(
        line
    ):  # no emphasis in a cell, which is read alone, without a `_` that ends it
        encoded = encoded.replace("&#95;", "_")
    return encoded.replace("-", "&#45;") if encoded and not encoded.strip("-: ") else encoded


def code_span(text: str, *, in_table: bool = True) -> str:
    """Format text as inline code: backticks if that is safe for all readers, else an element.

    Args:
        in_table: Whether it may be in a table cell, which a `|` would end.
    """
    line = _LINE_ENDS.sub(" ", text)
    if not line.strip():
        return "<code></code>" if not line else "<code> </code>"
    plain = visible(line)
    active = any(char in plain for char in ("`|<&" if in_table else "`<&"))
    if active or plain.startswith(("#!", ":::", " ")) or plain.endswith((" ", "\\")) or _ACTIVE_IN_CODE.search(plain):
        return f"<code>{_encode_line(line)}</code>"
    return f"`{plain}`"


def prose(text: str) -> str:
    """Escape a sentence of the catalogue, except code between single backticks.

    An unpaired backtick is escaped.
    """
    parts = _CODE.split(text)
    return "".join(
        code_span(part[1:-1], in_table=False) if number % 2 else _escape_around(part, first=number == 0)
        for number, part in enumerate(parts)
    )


_CODE = re.compile(r"(`[^`\n]+`)")


def _escape_around(text: str, *, first: bool) -> str:
    """Escape text between code spans, with its leading and trailing spaces; only the first part begins a line."""
    if not text.strip():
        return " " if text else ""
    line = _LINE_ENDS.sub(" ", text)
    lead = " " if line[0].isspace() and not first else ""
    words = " ".join(line.split())
    return lead + (inline(words) if first else _encode_line(words)) + (" " if line[-1].isspace() else "")


def fence(text: str, info: str = "") -> str:
    """Format text as a code block that ends with a line feed.

    Args:
        info: Language of the block, chosen by labbook.

    Returns:
        A fence longer than any in the text. Text with marks that tools process even there (`{{`, includes) becomes a
        `<pre>` element, because a fence cannot hide them.
    """
    plain = "\n".join(visible(line) for line in _LINE_ENDS.split(text)).rstrip("\n")
    info = re.sub(r"[^A-Za-z0-9_+-]", "", info)
    runs = {mark: max((len(run) for run in re.findall(re.escape(mark) + "+", plain)), default=0) for mark in "`~"}
    mark = "~" if runs["`"] >= 3 and runs["~"] < runs["`"] else "`"
    length = max(3, runs[mark] + 1)
    if length > _LONGEST_FENCE or _ACTIVE_IN_CODE.search(plain):
        kind = f' class="language-{info}"' if info else ""
        return f"<pre><code{kind}>{plain.translate(_PRE)}\n</code></pre>\n"
    return f"{mark * length}{info}\n{plain}\n{mark * length}\n"


def url_path(text: str) -> str:
    """Encode text as a link target in the notebook: percent-encoded, never the address of another host."""
    path = quote(text.encode("utf-8", "replace"), safe="/").replace("~", "%7E")
    return re.sub(r"^/{2,}", "/", path)


def file_name(text: str) -> str:
    """Make a safe file name from text: no folder, not hidden, not reserved.

    A changed name gets a short digest of `text`, so that different texts have different names.
    """
    name = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))
    name = re.sub(r"[^\w.+=,@-]+", "_", name, flags=re.UNICODE).strip("._- ")
    while len(name.encode("utf-8")) > _LONGEST_NAME:
        name = name[:-1]
    stem = name.split(".", 1)[0].lower()
    reserved = stem in _RESERVED or re.fullmatch(r"(?:com|lpt)\d", stem)
    if name == text and not reserved:
        return name
    import hashlib  # loads OpenSSL, a tenth of the start of a command; few names are changed

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}-{digest}{dot}{suffix}" if stem and suffix.isalnum() else f"{name or 'file'}-{digest}"


def csv_cell(text: str) -> str:
    """Format text as a CSV cell that no spreadsheet evaluates as a formula."""
    cell = "".join(char for char in visible(text) if char not in _BIDI)
    if cell[:1] in ("=", "+", "-", "@", "\t", "\uff1d", "\uff0b", "\uff0d", "\uff20") and not is_number(cell):
        cell = "'" + cell
    return '"' + cell.replace('"', '""') + '"' if any(char in cell for char in ',;"\n\r') else cell


def terminal(text: str) -> str:
    """Clean text for a terminal: no escape sequences and control characters except line feeds and tabs."""
    plain = _SEQUENCES.sub("", text)
    return "".join(char for char in plain if char in "\n\t" or not _acts(char))


def _acts(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs") or char in _BIDI


def visible(text: str) -> str:
    """Make control characters, direction marks and broken characters visible, except tabs; colours are left out."""
    if text.isprintable():
        return text
    return "".join(_make_visible(char) for char in _COLOURS.sub("", text))


def _make_visible(char: str) -> str:
    code = ord(char)
    if char == "\t" or char.isprintable():
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    if char in _BIDI or code < 0xA0 or code in (0x2028, 0x2029) or 0xE0000 <= code <= 0xE007F:
        return f"\\u{code:04x}"
    return char


def _encode_line(line: str) -> str:
    """Encode all active characters of one line, for any position in a line, except brackets around a list of values."""
    parts: list[str] = []
    done = 0
    plain = visible(line)
    for match in _LIST.finditer(plain):
        if not _VALUES.match(match["values"]):
            continue
        parts += (_encoded_text(plain[done : match.start()]), "[", _encoded_text(match["values"]), "]")
        done = match.end()
    return "".join((*parts, _encoded_text(plain[done:])))


def _encoded_text(plain: str) -> str:
    # First by position, on the original text: references would hide or imitate neighbouring characters.
    parts: list[str] = []
    done = 0
    for match in _BY_POSITION.finditer(plain):
        parts += (plain[done : match.start()].translate(_ALWAYS), match["kept"] or _reference(match))
        done = match.end()
    parts.append(plain[done:].translate(_ALWAYS))
    return "".join(parts)


def _reference(match: re.Match[str]) -> str:
    return "".join(_ELEMENTS.get(char, f"&#{ord(char)};") for char in match[0])


_PRE = str.maketrans({char: f"&#{ord(char)};" for char in "{}`~"} | _ELEMENTS)
"""Encodes text for a `<pre>` element, where only tools that read raw lines find a meaning."""
