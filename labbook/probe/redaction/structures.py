"""Redaction of plain data: dictionaries, lists and command lines, where the name is apart from its value."""

from .line_context import class_in_section
from .secret_names import looks_random, name_class, value_is_secret

_SHOWN = 200
_READ = 4096
_DEPTH = 24
# How often each rule masked something: rules are called `password`, and their numbers are no passwords.
_COUNTS = "redactions"
_LABELS = ("name", "key", "what")
_LABELLED = ("value", "before", "now")


def redact_data(value, redactor, name="", depth=0, section=""):
    """JSON-like `value` with all strings redacted and values under secret-looking keys masked.

    Args:
        value: Anything.
        name: Secret-looking key that `value` is under; empty: none.
        depth: How deep `value` lies.
        section: Key that `value` is under, whether or not it looks secret.

    Returns:
        Dictionaries with text keys, lists, text, numbers, booleans and None; anything else as its `repr`, cut.
    """
    kind = name_class(name, redactor.names) if name else ""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        secret = kind in ("password", "secret") and isinstance(value, int)
        return redactor.mark(kind) if secret else _is_plain_number(value)
    if isinstance(value, str):
        return _string(str(value), kind, redactor)
    if depth > _DEPTH:
        return "..."
    if isinstance(value, dict):
        return _mapping(value, name if kind else "", redactor, depth, section)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = list(value)
        if not kind and all(isinstance(item, str) for item in items) and any(item[:1] == "-" for item in items):
            return redact_argv(items, redactor)
        return [redact_data(item, redactor, name if kind else "", depth + 1) for item in items]
    if kind:
        return redactor.mark(kind)
    shown = redactor.text(_repr(value))
    return shown[:_SHOWN] + ("..." if len(shown) > _SHOWN else "")


def _mapping(value, name, redactor, depth, section):
    # `{"name": "password", "value": "..."}` says its key in a value, and so does a row of what changed.
    label = next((value[key] for key in _LABELS if isinstance(value.get(key), str)), "")
    out = {}
    for key, item in value.items():
        text = key if isinstance(key, str) else _repr(key)
        if text == _COUNTS and _are_counts(item):
            out[text] = {redactor.text(str(rule)): number for rule, number in item.items()}
            continue
        inner = label if label and text in _LABELLED else name or text
        if text == "key" and not name:
            # `{"wandb": {"key": ...}}`, and a dictionary as in `kaggle.json`.
            inner = _section_key([section] + ["kaggle"] * ("username" in value), item)
        out[redactor.text(text)] = redact_data(item, redactor, inner, depth + 1, text)
    return out


def _section_key(sections, item):
    """`key` with the section in front that makes a random value of it a secret."""
    if isinstance(item, str) and looks_random(item):
        for section in sections:
            if class_in_section("key", section, frozenset()):
                return section + "_key"
    return "key"


def _are_counts(value):
    return isinstance(value, dict) and all(type(number) is int for number in value.values())


def _string(text, kind, redactor):
    if not kind or redactor.is_allowed(text):
        return redactor.text(text)
    kind = "password" if kind == "header" else kind
    # In a table the name and the first word of its value stand side by side, without quotes.
    first = text.split(None, 1)[0] if " " in text.strip() else ""
    if value_is_secret(text, kind, True) or (first and value_is_secret(first, kind, False, "|")):
        return redactor.mark(kind)
    return redactor.text(text)


def redact_argv(argv, redactor):
    """The words of a command line, with the values of secret-looking options masked."""
    words = [str(word) for word in argv]
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        before = words[index - 1] if index else ""
        if equals and _is_value_with_equals(before, word, redactor):
            words[index] = redactor.mark("option")
        elif equals:
            # The whole of the value, blanks and all.
            if _is_option_value(name, value, redactor):
                words[index] = name + "=" + redactor.mark("option")
        elif before[:1] == "-" and "=" not in before and word[:1] != "-" and _is_option_value(before, word, redactor):
            words[index] = redactor.mark("option")
    return _redact_words(words, redactor)


def _is_value_with_equals(option, word, redactor):
    """Whether `word` is the secret of the option before it although it looks like `name=value`: base64, a password."""
    if option[:1] != "-" or "=" in option or word[:1] == "-" or not _is_option_value(option, word, redactor):
        return False
    return name_class(option.lstrip("-"), redactor.names) != "weak" or word.endswith("=")


def _is_option_value(name, value, redactor):
    # A mark in a word, as in `-p[REDACTED:password]`, names no option.
    named = len(name) < 80 and "[REDACTED:" not in name
    kind = name_class(name.lstrip("-+"), redactor.names) if named else ""
    secret = bool(kind) and value_is_secret(value, "weak" if name[:1] != "-" and kind == "weak" else "password", True)
    return secret and not redactor.is_allowed(value)


def _redact_words(words, redactor):
    """Each word redacted, with the words before it in view: `wandb login KEY`."""
    joined = "\x1f".join(words)
    whole = joined.count("\x1f") == len(words) - 1 and "\n" not in joined and "\r" not in joined
    if whole and not redactor.needs_scan(joined) and not redactor.needs_scan(" ".join(words)):
        return words
    if whole:
        out = redactor.text(joined).split("\x1f")
        if len(out) == len(words):
            # A word with blanks may be a command, too, and of two commands in one line only one is seen.
            out = [redactor.text(word) if " " in word else word for word in out]
            return _as_command_line(out, redactor)
    return _as_command_line([redactor.text(word) for word in words], redactor)


def _as_command_line(words, redactor):
    """The words with what is secret in the line that a shell would show: `curl -u USER:PASSWORD`, `docker login -p X`.

    A pattern for text expects blanks between words, and a header in a text runs to the end of its line: so this comes
    after the look at the single words, which has masked headers.
    """
    line = " ".join(words).replace("\n", " ").replace("\r", " ")
    spans = redactor.line_spans(line)
    if not spans:
        return words
    out = []
    start = 0
    for word in words:
        end = start + len(word)
        inside = [
            (max(left, start) - start, min(right, end) - start, rule, mark)
            for left, right, rule, mark in spans
            if left < end and right > start
        ]
        out.append(redactor.replace(word, inside) if inside else word)
        start = end + 1
    return out


def _is_plain_number(value):
    if type(value) in (int, float):
        return value
    return int(value) if isinstance(value, int) else float(value)


def _repr(value):
    try:
        return repr(value)[:_READ]
    except Exception:
        return "<%s that cannot be shown>" % type(value).__name__
