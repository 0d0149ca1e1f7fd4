"""Secrets that are known by value: collected from the environment and the command line, found in every spelling.

This is the only layer that can tell a key of 40 hexadecimal digits from a commit id.
"""

from ..events.jsonl import parse, quote
from .paths_and_urls import url_spans
from .rules import has_digit, lower_keeping_length, rules_data
from .secret_names import looks_random, name_class, value_is_secret

MINIMUM = 6
"""Characters that a value must have to be looked for; shorter ones are found by their names only."""

_LIMIT = 16384
_PUBLIC_VARIABLES = frozenset(
    ["PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "XDG_SESSION_ID", "GPG_AGENT_INFO", "PATH", "PYTHONPATH", "TERM"]
)


def known_values(environ, argv):
    """The secrets of a process that can be known beforehand.

    Args:
        environ: Its environment: values of variables with secret-looking names, and secrets of fixed format,
            passwords of URLs and secrets in JSON inside any variable.
        argv: Its command line: values of secret-looking options.

    Returns:
        The values, longest first, each once; at least 6 characters long, no common words, numbers or paths.
    """
    found = {}
    for name, value in environ.items():
        if name in _PUBLIC_VARIABLES or not value or len(value) > _LIMIT:
            continue
        kind = name_class(name)
        if kind and value[:1] not in "{[" and (kind != "weak" or looks_random(value)):
            found[value] = None
        for part in _secrets_inside(value):
            found[part] = None
    words = [str(word) for word in argv]
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not equals and word[:1] == "-" and index + 1 < len(words):
            value = words[index + 1]
        if value and name_class(name.lstrip("-+")) and value[:1] != "-":
            found[value] = None
        for part in _secrets_inside(word):
            found[part] = None
    for part in _secrets_of_formats(" ".join(words)):
        # Of `user:password` the program may print the password alone.
        found.update({part: None, part.partition(":")[2]: None})
    pieces = {}
    for value in found:
        # A value of several lines (a private key) is met line by line.
        for piece in [value] if "\n" not in value else [value, *value.splitlines()]:
            if is_worth_masking(piece.strip()):
                pieces[piece.strip()] = None
    return sorted(pieces, key=lambda piece: (-len(piece), piece))


def _secrets_inside(value):
    """Secrets of fixed format, passwords in URLs, and values under secret names in JSON."""
    if _has_long_word(value):
        for part in _secrets_of_formats(value):
            yield part
    if "://" in value and "@" in value:
        for start, end, _, _ in url_spans(value):
            login, _, password = value[start:end].partition(":")
            yield password or login
    if value[:1] in ("{", "["):
        try:
            data = parse(value.strip())
        except ValueError:
            return
        for part in _json_secrets(data, ""):
            yield part


def _secrets_of_formats(value):
    low = lower_keeping_length(value)
    for rule in rules_data()["rules"]:
        if any(word in low for word in rule.keywords):
            for start, end in rule.spans(value):
                yield value[start:end]


def _has_long_word(value):
    """Whether a word of 16 characters with a digit is in `value`, as in every fixed format."""
    for mark in "/:;,.=?&@ ":
        value = value.replace(mark, "\n")
    return any(len(word) >= 16 and has_digit(word) for word in value.split("\n"))


def _json_secrets(data, name):
    if isinstance(data, dict):
        for key, value in data.items():
            for part in _json_secrets(value, str(key)):
                yield part
    elif isinstance(data, list):
        for value in data:
            for part in _json_secrets(value, name):
                yield part
    elif isinstance(data, str) and name_class(name) and value_is_secret(data, name_class(name), True):
        yield data


def is_worth_masking(value):
    """Whether `value` may be masked wherever it occurs: long enough, and no common word, number, path or reference."""
    if len(value) < MINIMUM or len(value) > _LIMIT or len(set(value)) < 3:
        return False
    words = rules_data()["values"]
    if value.lower() in words["common"] or value.lower() in words["words"]:
        return False
    if value[0] in "$<" or value.startswith(("-----", "[REDACTED")) or not value.strip("0123456789.,+-eE%:"):
        return False
    if value[0] in "/~." and "/" in value[1:] and not looks_random(value):
        return False
    return not (value.startswith(("http://", "https://", "file://")) and "@" not in value and "?" not in value)


def spellings(value):
    """`value` in every form in which it may be printed, as a set of texts, each too long to occur by chance.

    Exact, percent-encoded, base64 at three offsets, hexadecimal, JSON-escaped, shell-quoted, HTML-encoded.
    """
    from binascii import b2a_base64

    data = value.encode("utf-8", "surrogatepass")
    escaped = value
    for char, form in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        escaped = escaped.replace(char, form)
    forms = {value, escaped, quote(value)[1:-1], quote(quote(value)[1:-1])[1:-1], repr(value)[1:-1]}
    forms.add(escaped.replace("/", "\\/"))
    forms.add(value.replace("'", "'\"'\"'"))
    forms.add(value.replace("'", "'\\''"))
    forms.add("".join(char if char.isalnum() or char in "@%+=:,./-_" else "\\" + char for char in value))
    encoded = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for double, single in (('"', "'"), ("&quot;", "'"), ("&quot;", "&#x27;"), ("&quot;", "&#39;"), ("&#34;", "&#39;")):
        forms.add(encoded.replace('"', double).replace("'", single))
    for safe in ("", "/", "/:@"):
        encoded = _percent(data, safe)
        forms.update((encoded, encoded.replace("%20", "+"), encoded.replace("%", "%25")))
    forms.update([_lower_percent_escapes(form) for form in forms if "%" in form])
    if len(data) >= MINIMUM:
        forms.update((data.hex(), data.hex().upper()))
        for offset in range(3):
            encoded = b2a_base64(b"\0" * offset + data, newline=False).decode("ascii")
            # Without the characters that also depend on what is before and after.
            inner = encoded[(8 * offset + 5) // 6 : (8 * (offset + len(data))) // 6]
            forms.update((inner, inner.replace("+", "-").replace("/", "_")))
    return {form for form in forms if len(form) >= MINIMUM}


def _percent(data, safe):
    plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~" + safe
    return "".join(chr(byte) if chr(byte) in plain else "%%%02X" % byte for byte in data)


def _lower_percent_escapes(text):
    parts = text.split("%")
    return "%".join([parts[0]] + [part[:2].lower() + part[2:] for part in parts[1:]])
