"""What a name says about its value, and whether the value then looks like a secret.

A name is split into words on `_ - .` and on changes of case; its last word, with its owner, decides. `None`,
references, numbers, masks, types and calls are no secrets.
"""

from .rules import has_digit, rules_data

_CACHE_LIMIT = 4096

LOOSE = (" ", "->", "(", ",")
"""What may be between a name and its value, but as often between two words: the value has to look like a secret."""

_classes = {}
_compiled = {}


def name_class(name, extra=frozenset()):
    """What kind of secret a variable, option, key or header of this name holds.

    Args:
        name: The name, in any style: `WANDB_API_KEY`, `accessToken`, `--hub-token`, `密码`.
        extra: Further names, in lower case, that are secret in this notebook.

    Returns:
        "password", "secret", "header" (the rest of the line belongs to it), "phrase" (only twelve words or more are
        secret), "weak" (only a value that looks random is secret) or "" (no secret).
    """
    if extra and name.lower() in extra:
        return "secret"
    known = _classes.get(name)
    if known is None:
        if len(_classes) > _CACHE_LIMIT:
            _classes.clear()
        inside = "secrets." in name.lower()  # `secrets.judge`
        known = _classes[name] = _classify(split_words(name)) or ("weak" if inside else "")
    return known


def _classify(words):
    names = rules_data()["names"]
    while len(words) > 1 and (words[-1] in names["carriers"] or words[-1].isdigit()):
        words = words[:-1]
    if not words:
        return ""
    last, owners = words[-1], words[:-1]
    while len(owners) > 1 and owners[-1] in names["carriers"]:
        owners = owners[:-1]
    owner = owners[-1] if owners else ""
    kind = ""
    if last in names["header"]:
        kind = "header"
    elif _is_password_name(words, owner, names):
        kind = "password"
    elif last in names["secret"]:
        kind = "secret"
    elif last == "mnemonic" or (last == "phrase" and owner in ("seed", "recovery", "backup", "secret", "wallet")):
        kind = "phrase"
    elif last in ("key", "keys"):
        kind = "secret" if owner in names["key_owners"] else ""
    elif last == "token":
        kind = _token_class(owner, names)
    elif last == "tokens":
        kind = "weak" if owner in ("access", "refresh", "api", "auth", "bearer") else ""
    elif last == "pat":
        kind = "secret" if owner in names["pat_owners"] else ""
    elif last in ("ak", "sk") and owner in names["cloud_owners"]:
        kind = "secret"
    elif last == "id":
        kind = _identifier_class(owner, owners[-2:-1])
    elif last in names["weak"]:
        kind = "weak"
    return kind


def _is_password_name(words, owner, names):
    last = words[-1]
    if last in names["password"] or (last in ("pass", "pw") and owner in names["pass_owners"]):
        return True
    # `PGPASSWORD`, `mot de passe`.
    return last.endswith(("password", "passwd", "passphrase")) or "".join(words[-3:]) in names["password"]


def _identifier_class(owner, before):
    """`session_id` and `private_key_id` are secret where they look random; `secret_id` is half of a login."""
    if owner == "secret":
        return "secret"
    return "weak" if owner == "session" or (owner == "key" and before == ["private"]) else ""


def _token_class(owner, names):
    if owner in names["token_harmless"]:
        return ""
    return "secret" if owner in names["token_owners"] else "weak"


def is_key_of_unknown(name):
    """Whether a name may be that of the key of a service that no rule knows: `acme_key`; not `cache_key`."""
    words = split_words(name)
    return len(words) > 1 and words[-1] == "key" and words[-2] not in rules_data()["names"]["key_harmless"]


def _is_generated(value):
    """Whether a value can only be made by a generator of keys: letters in both cases and digits in constant change."""
    plain = value.rstrip("=").replace("-", "").replace("_", "")
    if not 20 <= len(plain) <= 200 or not (plain.isascii() and plain.isalnum()) or len(value) - len(plain) > 5:
        return False
    kinds = ["digit" if char.isdigit() else "upper" if char.isupper() else "lower" for char in plain]
    turns = sum(kinds[at] != kinds[at + 1] for at in range(len(kinds) - 1))
    # `ResNet50BottleneckBlock3` turns at 0.43 of its letters, random ones at 0.62.
    return kinds.count("digit") > 1 and len(set(kinds)) == 3 and len(set(plain)) > 11 and turns * 100 > 48 * len(plain)


def split_words(name):
    """The words of a name in lower case: `WandbAPIKey_2` gives `["wandb", "api", "key", "2"]`."""
    words = []
    word = ""
    previous = ""
    for index, char in enumerate(name):
        if not char.isalnum():
            kind = ""
        elif char.isdigit():
            kind = "digit"
        elif char.isupper():
            kind = "upper"
        else:
            kind = "lower"
        following = name[index + 1 : index + 2]
        starts = kind != previous and not (previous == "upper" and kind == "lower")
        starts = starts or (kind == "upper" and previous == "upper" and following.islower())
        if (starts or not kind) and word:
            words.append(word.lower())
            word = ""
        if kind:
            word += char
        previous = kind
    if word:
        words.append(word.lower())
    return words


def looks_random(value):
    """Whether a value has the shape of a generated secret: long, one word, letters and digits mixed."""
    if len(value) < 16 or len(value) > 4096 or not has_digit(value):
        return False
    if not value.isascii() or any(char in value for char in " \t()[]{}<>\"'*$,;"):
        return False
    value = value[:64]
    letters = sum(char.isalpha() for char in value)
    digits = sum(char.isdigit() for char in value)
    separators = sum(char in "-_./:+" for char in value)
    return letters >= 2 and digits >= 2 and separators * 4 <= len(value) and not _is_path(value)


def _is_path(value):
    if value[:1] not in ("/", "~", ".") and value[1:3] not in (":\\", ":/"):
        return False
    parts = value.replace("\\", "/").strip("/").split("/")
    # A path has short, word-like parts; base64 that happens to begin with a slash has not.
    return all(len(part) <= 40 and not (len(part) >= 16 and _is_mixed(part)) for part in parts)


def _is_mixed(text):
    return has_digit(text) and text.lower() != text and text.upper() != text


def value_is_secret(value, kind, quoted, separator="="):
    """Whether the value found beside a name of class `kind` is a secret.

    Args:
        value: The value without its quotes.
        kind: The result of `name_class`, or "key" for a name of `is_key_of_unknown`.
        quoted: Whether quotes stood around it; without them it may be code.
        separator: What stood between name and value, stripped.
    """
    if not value or len(value) > 65536:
        return False
    if kind == "phrase":
        return _is_phrase(value)
    if kind == "key":
        return _is_generated(value) and not _harmless(value, quoted)
    if kind == "weak" and separator != " " and is_login(value):
        return True
    if kind == "password" and separator in LOOSE:
        return _looks_made_up(value) and not _harmless(value, quoted)
    if kind == "weak" or separator in LOOSE:
        return looks_random(value) and not _harmless(value, quoted)
    if _harmless(value, quoted):
        return False
    if kind == "password":
        if value[0] in "/~" and _is_path(value):
            return False
        return _number(value) is None or (value.isdigit() and len(value) >= 4)
    if _number(value) is not None or (quoted and " " in value) or _is_path(value):
        return False
    if kind == "header":
        return len(value) >= 6
    wordy = value.isalpha() and (value.islower() or value.istitle() or value.isupper())
    if wordy and not quoted and separator in (":", "\uff1a", "|", "\u2502"):
        return len(value) >= 16
    return len(value) >= (4 if quoted else 6)


def is_login(value):
    """Whether a value is `user:password` in base64, as in HTTP basic authentication and in files of Docker."""
    if not 8 <= len(value) <= 512 or len(value) % 4 or not value.isascii() or not value.rstrip("=")[-8:].isalnum():
        return False
    from binascii import Error, a2b_base64

    try:
        plain = a2b_base64(value).decode("ascii")
    except (Error, ValueError):
        return False
    login, _, password = plain.partition(":")
    return bool(login) and bool(password) and plain.isprintable()


def _is_phrase(value):
    words = value.replace(",", " ").split()
    return 12 <= len(words) <= 24 and all(word.isalpha() and 3 <= len(word) <= 8 for word in words)


def _looks_made_up(value):
    """Whether a word looks like a password that somebody chose: letters in both cases and a digit."""
    if looks_random(value):
        return True
    return 8 <= len(value) <= 128 and " " not in value and _is_mixed(value) and not _is_path(value)


def _number(value):
    try:
        return float(value.replace(",", "").rstrip("%"))
    except ValueError:
        return None


def _harmless(value, quoted):
    """None, references, masks, placeholders, types and calls."""
    if len(value) < 24 and value.lower().rstrip(".,:;!?)]}") in rules_data()["values"]["words"]:
        return True
    if "***" in value[:96] or "..." in value[:16] or "\u2026" in value[:16]:
        return True
    if "harmless" not in _compiled:
        _compile()
    if _compiled["harmless"].match(value):
        return True
    if quoted:
        return bool(name_class(value)) and value.replace("_", "").replace("-", "").isalpha()
    return bool(_compiled["code"].match(value)) or (_compiled["plain"].match(value) and bool(name_class(value)))


def _compile():
    import re

    # Masks, markers and placeholders; shell, template and percent references; truncated values; an option whose own
    # value is masked, as the value of the option before it.
    _compiled["harmless"] = re.compile(
        r"[*\u2022xX.\u2026\u00b7#_-]+$|<|\\u003c|\[REDACTED|\[(?:hidden|filtered|masked|secret|redacted)"
        r"|--?[A-Za-z][\w.-]{0,79}=[\"'\\]{0,8}\[REDACTED:\w{1,40}\][\"'\\]{0,8}$"
        r"|\$[A-Za-z_{(]|%[A-Za-z_]+%$|\{|(?:your|my)[-_ ].{0,40}$|env:|ENV\[|\(?(?:hidden|not set|none)\)?$",
        re.IGNORECASE,
    )
    # Calls, indexing, attributes of names, types: what is there in source lines of tracebacks and diffs.
    _compiled["code"] = re.compile(
        r"[A-Za-z_][\w.]{0,120}[(\[]"
        r"|(?:os|self|cls|args|arg|cfg|config|conf|settings|opt|opts|options|params|hparams|ctx|env|environ|request|req"
        r"|kwargs|FLAGS|process|tokenizer|model|trainer|accelerator)\.[A-Za-z_]"
        r"|[a-z_]{1,24}(?:\.[a-z_]{1,24}){1,6}(?:[)\](\[]|$)|lambda\b|not\b|[fF][\"']"
    )
    _compiled["plain"] = re.compile(r"[A-Za-z_][A-Za-z_.-]*$")
