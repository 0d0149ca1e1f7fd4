"""Secrets beside their names in text: `password=...`, `"api_key": "..."`, `--token ...`, headers, tables."""

from .line_context import class_in_section
from .rules import has_digit, lower_keeping_length, rules_data
from .secret_names import LOOSE, is_key_of_unknown, looks_random, name_class, value_is_secret

_IDENTIFIER = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
_NAME_LIMIT = 64
_GLANCE = 96
_BARS = ("", "|", "\u2502", "\u2503")
_NEEDS_OWNER = frozenset(["key", "keys", "token", "phrase"])

_compiled = {}
_stems = {}


def _compile():
    import re

    _compiled["right"] = re.compile(r"[A-Za-z0-9_.-]*")
    close = r"(?:\\{0,4}(?:[\"'`\u201d]|&quot;|&#(?:34|39|x27);))?"
    kind = r":\s?(?:Optional\[)?(?:str|bytes|String|string|SecretStr|Any)\]?(?:\s?\|\s?None)?\s?="
    default = r"[^\"'()\n]{0,60}\bdefault\s?=\s{0,4}(?=[\"'])"
    _compiled["after"] = re.compile(
        close
        + r"\s?[\])]?\s{0,8}("
        + kind
        + r"|=>|:=|==|=|:|\uff1a|\uff1d|%3[DdAa]|\u2502|\u2503|\||\u4e3a|\u662f)\s{0,16}(?:\w{1,20}\("
        + default
        + r")?"
    )
    # `Password for wei: `, `api_key (set by user): `, `api_key ....... `, `name="password" value=`,
    # `"--api-key", type=str, default=`, `api_key: str = field(default=`.
    _compiled["far"] = re.compile(
        close
        + r"(?:(\s(?:for|of)\s[\w.@-]{1,40}(?:\s?:|\sis)\s{1,4}|\s?\([^()]{1,40}\)\s?(?:[:=]|is\s)\s{0,4})"
        + r"|\s{0,3}\.{3,}\s{1,4}"
        + r"|(?:\s{1,4}|\s{0,4},\s{0,4}|</\w{1,20}>\s{0,8}<)[\"']?value[\"']?\s?[:=>]\s{0,4}"
        + r"|,"
        + default
        + r")"
    )
    loose = r"(->|\u2192|\((?=[^()\s]{8,256}\))|,(?=[^\s,]{8,256}(?:,|\s|$)))"
    _compiled["loose"] = re.compile(close + r"\s{0,4}" + loose + r"\s{0,4}")
    _compiled["option"] = re.compile(r"(?:\\{0,4}[\"'`])?\s(?![\s-])")
    _compiled["listed"] = re.compile(r"\\{0,4}[\"'`],\s{0,4}(?=\\{0,4}[\"'`])")
    _compiled["column"] = re.compile(r"(?:\s+is|\s+was)?(?:\s+now)?\s{1,64}")
    _compiled["open"] = re.compile(r"[rbfuRBFU]{0,2}(\\{0,4}(?:\"\"\"|'''|[\"'`\u201c])|&quot;|&#(?:34|39|x27);)")
    _compiled["joined"] = re.compile(r"[\"']\s{0,4}\+?\s{0,4}(?=[\"'])")
    _compiled["bare"] = re.compile(r"[^\s\"'`<>\u2502\u2503|]+")
    _compiled["next"] = re.compile(r"[,;&][\w.-]{1,64}[=:]|\\[nrt]|%26")
    _compiled["header_value"] = re.compile(r"[^\"'`\r\n<>\x1f]{1,16384}")
    _compiled["inner"] = re.compile(r"[\"']([^\"']{1,4096})[\"']")


def context_spans(line, stems=None, extra=frozenset(), context=None):
    """Where secret values are beside their names in `line`.

    Args:
        line: The text.
        stems: Which of the usual stems of names stand in it, in lower case; None: look for all of them.
        extra: Further secret names of this notebook, in lower case.
        context: The `LineContext` of the lines before; None: the line stands by itself.

    Returns:
        List of (start, end, rule, text); the text is empty, for the mark of the rule.
    """
    if "right" not in _compiled:
        _compile()
    found = []
    done = 0
    for start, end in _stem_bounds(line, rules_data()["names"]["stems"] if stems is None else stems):
        if start < done:
            continue
        left, right = _whole_name(line, start, end)
        done = right
        if right - left > _NAME_LIMIT * 2:
            continue
        name = line[left:right]
        kind = name_class(name.strip("-."), extra)
        if kind in ("", "weak") and name.lower() in _NEEDS_OWNER:
            kind = name_class(_prepend_word(line, left, name), extra) or kind
            if not kind and context and name in ("key", "KEY", "Key") and _is_random_after(line, right):
                kind = class_in_section(name, context.section(line, left), extra)
        if not kind and is_key_of_unknown(name):
            kind = "key"
        if not kind:
            continue
        span = _value_span(line, left, right, kind)
        if not span and context:
            context.await_value(line, left, right, kind)
        if span:
            found.extend(span)
            done = max(done, span[-1][1])
    return found


def _stem_bounds(line, stems):
    """Bounds of all stems in `line`, in order."""
    low = lower_keeping_length(line)
    found = []
    for stem in stems:
        word, before, after = _stem_parts(stem)
        start = low.find(word)
        while start >= 0:
            end = start + len(word)
            found.append((start + before, end - after))
            start = low.find(word, end)
    found.sort()
    return found


def _stem_parts(stem):
    """A stem in lower case, and how many of its first and last characters are no part of the name."""
    parts = _stems.get(stem)
    if parts is None:
        # The stem ` sk` is the name `sk` alone: too many words contain these letters.
        before = len(stem) - len(stem.lstrip(" \"'"))
        parts = _stems[stem] = (lower_keeping_length(stem), before, len(stem) - len(stem.rstrip("\"'")))
    return parts


def _whole_name(line, start, end):
    """Bounds of the identifier around a stem."""
    segment = line[max(0, start - _NAME_LIMIT) : start]
    left = start - (len(segment) - len(segment.rstrip(_IDENTIFIER)))
    # In escaped text the letter of `\n` is no part of the name.
    if left > 0 and line[left - 1] == "\\" and line[left] in "nrt" and left < start:
        left += 1
    right = _compiled["right"].match(line, end).end()
    while right > end and line[right - 1] in ".-":
        right -= 1
    return left, right


def _is_random_after(line, right):
    match = _compiled["after"].match(line, right)
    if not match or not has_digit(line[match.end() : match.end() + _GLANCE]):
        return False
    opened = _compiled["open"].match(line, match.end())
    value = _compiled["bare"].match(line, opened.end() if opened else match.end(), len(line))
    return bool(value) and looks_random(value.group().rstrip(",;)]}"))


def _prepend_word(line, left, name):
    """`API key` as one name, for prose."""
    if left < 2 or line[left - 1] != " ":
        return ""
    before = line[max(0, left - 25) : left - 1]
    word = before[len(before.rstrip(_IDENTIFIER)) :]
    return word + " " + name if word.isalpha() else ""


def _value_span(line, left, right, kind):
    """Span of the secret value after the name in `line[left:right]`, as a list of one or more, or None."""
    separator, start = _separator(line, left, right)
    if start is None:
        return None
    if kind == "weak" and line[left] == "-" and separator == "=":
        kind = "secret"
    if (kind == "weak" or separator in LOOSE) and not has_digit(line[start : start + _GLANCE]):
        return None
    if kind == "header":
        return _header_span(line, start, separator, "cookie" in line[left:right].lower())
    if kind == "phrase":
        return _phrase_span(line, start)
    opened = _compiled["open"].match(line, start)
    if opened:
        if _ends_around(line, left, right, opened.group(1)):
            return None
        begin, end = _find_quotes(line, opened)
        if end < 0:
            # Not closed, as in a cut line: a password may hold blanks, a key does not.
            end = len(line.rstrip()) if kind == "password" else _bare_end(line, begin, len(line))
        secret = value_is_secret(_without_escapes(line[begin:end]), kind, True, separator)
        if secret and "f" in line[opened.start() : opened.start(1)].lower() and "{" in line[begin:end]:
            return None
        return _joined_spans(line, begin, end, kind) if secret else None
    if line[start : start + 1] in ("(", "["):
        return _listed_spans(line, start, kind)
    end = _bare_end(line, start)
    if separator in (",", "("):
        stop = line.find(")" if separator == "(" else ",", start)
        return _whole_value(line, start, stop if stop >= 0 else _bare_end(line, start, len(line)), kind, separator)
    if line[start:end].lower() in ("bearer", "basic", "token", "digest", "apikey") and line[end : end + 1] == " ":
        start = end + 1
        end = _bare_end(line, start)
        if not has_digit(line[start:end]) and end - start < 16:
            return None
    # `storage_key = storage`: code, by the blanks and for want of digits.
    code = kind == "secret" and line[right:start].endswith(" = ") and line[start:end].replace("_", "a").islower()
    if (code and not has_digit(line[start:end])) or not value_is_secret(line[start:end], kind, False, separator):
        return None
    return [(start, _bare_end(line, start, len(line)), kind, "")]


def _joined_spans(line, begin, end, kind):
    """The secret between two quotes, and what is joined to it: `"first" "second"`, `"first" + "second"`."""
    spans = [(begin, end, kind, "")]
    following = _compiled["joined"].match(line, end)
    while following and len(spans) < 8:
        mark = line[following.end()]
        begin = following.end() + 1
        end = line.find(mark, begin)
        if end < 0:
            break
        if end > begin and not line.startswith("[REDACTED:", begin):
            spans.append((begin, end, kind, ""))
        following = _compiled["joined"].match(line, end)
    return spans


def _whole_value(line, start, end, kind, separator):
    return [(start, end, kind, "")] if value_is_secret(line[start:end].strip(), kind, False, separator) else None


def _phrase_span(line, start):
    match = _compiled["header_value"].match(line, start + (line[start : start + 1] in "\"'"))
    end = match.end() if match else start
    begin = match.start() if match else start
    return _whole_value(line, begin, begin + len(line[begin:end].rstrip()), "phrase", "=")


def _ends_around(line, left, right, mark):
    """Whether `mark` closes quotes that the name is in: `input("Password: ")`."""
    opened = line.startswith(mark, left - len(mark)) if left >= len(mark) else False
    return opened and not line.startswith(mark, right) and line[left - len(mark) - 1 : left - len(mark)] != "\\"


def _bare_end(line, start, limit=_GLANCE):
    """End of the value without quotes that begins at `start`, looking at no more than `limit` characters."""
    match = _compiled["bare"].match(line, start, start + limit)
    if not match:
        return start
    end = match.end()
    following = _compiled["next"].search(line, start, end)
    if following:
        end = following.start()
    # Brackets and marks that close what is around the value.
    floor = max(start, end - 4)
    while end > floor and line[end - 1] in ",;)]}\\":
        end -= 1
    return end


def _separator(line, left, right):
    """What comes between name and value, and where the value starts (None: no value)."""
    match = _compiled["after"].match(line, right)
    if match:
        mark = match.group(1)
        if mark in _BARS and line[max(0, left - 6) : left].strip(" `'\"*")[-1:] not in _BARS:
            # In a table the name fills its cell.
            return "", None
        return mark if len(mark) == 1 else "=", match.end()
    following = line[right : right + _GLANCE]
    distant = any(mark in following for mark in ("(", "...", ": ", " is ", "value", "default"))
    match = _compiled["far"].match(line, right) if distant else None
    if match:
        return "->" if match.group(1) else "=", match.end()
    # One hyphen at the start of a line is that of a difference or of a list.
    option = line.startswith("--", left) or (line[left] == "-" and left > 0 and line[left - 1] in " \t\x1f\"'`")
    if option:
        match = _compiled["option"].match(line, right)
        if match:
            return "=", match.end()
    match = _compiled["listed"].match(line, right)
    if match and line[left - 1 : left] in "\"'`":
        return "=" if line[left] == "-" else ",", match.end()
    match = _compiled["loose"].match(line, right)
    if match:
        return "->" if match.group(1) == "\u2192" else match.group(1), match.end()
    if line[left - 1 : left] == "<" and line[right : right + 1] == ">" and "</" in line[right : right + 4096]:
        return "=", right + 1
    match = _compiled["column"].match(line, right)
    if match:
        assigned = line[left:right].isupper() and line[max(0, left - 4) : left] in ("ENV ", "ARG ", "set ", "etx ")
        return "=" if assigned else " ", match.end()
    return "", None


def _find_quotes(line, opened):
    """Bounds of the text inside quotes; the end is -1 when they are not closed."""
    mark = opened.group(1).replace("\u201c", "\u201d")
    begin = opened.end()
    end = line.find(mark, begin)
    if "\\" not in mark:
        while end > 0 and _is_escaped(line, end, begin):
            end = line.find(mark, end + 1)
    return begin, end


def _without_escapes(value):
    """A quoted value as it is judged where it is alone: without the backslashes before quotes."""
    if "\\" not in value:
        return value
    plain = value.replace("\\\\", "\0").replace('\\"', '"').replace("\\'", "'")
    return plain.replace("\0", "\\")


def _is_escaped(line, position, floor):
    count = 0
    while position - count - 1 >= floor and line[position - count - 1] == "\\":
        count += 1
    return count % 2 == 1


def _header_span(line, start, separator, cookie):
    if separator == " ":
        return None
    opened = _compiled["open"].match(line, start)
    if opened:
        begin, end = _find_quotes(line, opened)
        end = len(line.rstrip()) if end < 0 else end
    else:
        match = _compiled["header_value"].match(line, start)
        if not match:
            return None
        begin, end = match.span()
        end = begin + len(line[begin:end].rstrip())
    value = line[begin:end]
    if cookie and "=" not in value and not has_digit(value):
        return None
    secret = value[value.find(" ") + 1 :] if " " in value[:12] else value
    return [(begin, end, "header", "")] if value_is_secret(secret.replace(" ", ""), "header", bool(opened)) else None


def _listed_spans(line, start, kind):
    """Each quoted text in a list or tuple of secrets; of `auth=("user", "password")` the second."""
    end = line.find("]" if line[start] == "[" else ")", start, start + 16384)
    if end < 0:
        end = min(len(line), start + 16384)
    spans = [match.span(1) for match in _compiled["inner"].finditer(line, start, end)]
    if kind == "weak":
        spans = spans[1:] if line[start] == "(" and len(spans) == 2 else []
        kind = "password"
    return [(begin, stop, kind, "") for begin, stop in spans if value_is_secret(line[begin:stop], kind, True)] or None
