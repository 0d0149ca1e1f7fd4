"""Redaction for the recorder: the redactor of a run with the notebook's rules, and the scan before a commit.

A file of custom rules is TOML:

    allow = ["text that is no secret"]
    names = ["house_code"]              # additional names whose values are secret

    [[rules]]
    id = "intranet_token"
    keywords = ["itk-"]                 # quick test: the line contains one of them, in any case
    pattern = 'itk-[0-9a-f]{32}'
    yes = ["itk-{hex:32}"]              # must be masked
    no = ["itk-short"]                  # must not be masked

The examples are the rule's test: a rule that fails one is rejected. `{hex:32}` is replaced by 32 such characters, so
that the file contains nothing that looks like a secret.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from labbook.errors import NotebookError
from labbook.frozen import dataclass
from labbook.model.message import Message, message
from labbook.probe.redaction.known_secrets import known_values
from labbook.probe.redaction.redactor import PATH_RULES, Redactor
from labbook.probe.redaction.rules import FormatRule
from labbook.store.toml_parser import parse_toml

_MOST_RULES_BYTES = 1024 * 1024
_OF_CREDENTIALS = re.compile(r"(^|\.)env(\.|$)|secret|credential|kaggle\.json$")
READABLE = re.compile("[^\x00-\x08\x0b-\x1a\x1c-\x1f\x7f\ufffd\udc80-\udcff]{8,}")
"""Readable parts of binary content: valid UTF-8 without control characters other than tab and escape. At least eight
characters: random bytes rarely form longer words, and shorter secrets cannot be distinguished from them."""

_wrong_rules = partial(NotebookError, advice="errors.redaction.advice")
"""An error whose advice explains the form of a file of rules."""


@dataclass(frozen=True)
class Hit:
    """A secret in a text.

    Args:
        line: Line number, from 1.
    """

    rule: str
    line: int


def make_redactor(environ: Mapping[str, str], argv: Sequence[str], user_rules: Path | None = None) -> Redactor:
    """Create the redactor of a run: built-in rules, the notebook's rules, secrets of environment and command line.

    Args:
        user_rules: A file of custom rules, or None.

    Raises:
        NotebookError: The rules cannot be read, or one of their examples fails.
    """
    rules = load_rules(user_rules) if user_rules is not None else None
    home = environ.get("HOME")
    return Redactor(known_values(environ, argv), rules, home or None, environ.get("USER") or None)


def secrets_in_file(path: Path) -> list[str]:
    """The secrets in an environment file or a file of credentials that the program opened; of other files none.

    Args:
        path: `.env`, `prod.env`, `.env.local`, `kaggle.json`, `credentials.json`, `secrets.toml` and the like.
    """
    if not _OF_CREDENTIALS.search(path.name.lower()):
        return []
    try:
        text = _read_regular(path).decode("utf-8", "replace")
    except OSError:
        return []
    values = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip().replace("_", "a").isalnum():
            values[name.strip()] = value.strip().strip("\"'")
    if text.lstrip()[:1] == "{":
        values["json"] = text
    return list(known_values(values, ()))


def load_rules(path: Path) -> dict[str, Any]:
    """Read rules from a TOML file as plain data for `Redactor(rules=...)`, checked against their examples.

    Raises:
        NotebookError: The file cannot be read, is not TOML, or contains a rule that fails one of its examples.
    """
    try:
        data = parse_toml(_read_regular(path).decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong_rules("errors.redaction.not_readable", path=path, reason=error) from error
    except ValueError as error:
        raise _wrong_rules("errors.redaction.not_toml", path=path, reason=error) from error
    for key in data:
        if key not in ("allow", "names", "rules"):
            raise NotebookError("errors.redaction.unknown_key", key=key, path=path)
    for key in ("allow", "names"):
        if not _texts(data.get(key, [])):
            raise _wrong_rules("errors.redaction.no_list", key=key, path=path)
    rules = data.get("rules", [])
    if not isinstance(rules, list):
        raise NotebookError("errors.redaction.no_tables", path=path)
    for number, rule in enumerate(rules, 1):
        _check(rule, number, path)
    return data


def _read_regular(path: Path) -> bytes:
    """Read a regular file of moderate size; a pipe or a device in a cloned notebook would block forever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a regular file")
        content = stream.read(_MOST_RULES_BYTES + 1)
    if len(content) > _MOST_RULES_BYTES:
        raise OSError(f"it is larger than {_MOST_RULES_BYTES} bytes")
    return content


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _check(rule: object, number: int, path: Path) -> None:
    if not isinstance(rule, dict) or not isinstance(rule.get("id"), str) or not isinstance(rule.get("pattern"), str):
        raise _wrong_rules("errors.redaction.no_id", rule=str(number), path=path)
    name = repr(rule["id"])
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", rule["id"]):
        raise _wrong_rules("errors.redaction.bad_id", rule=name, path=path)
    if not _texts(rule.get("keywords")) or not rule["keywords"]:
        raise NotebookError("errors.redaction.no_keywords", rule=name, path=path)
    if not _texts(rule.get("yes")) or not rule["yes"] or not _texts(rule.get("no", [])):
        raise NotebookError("errors.redaction.no_examples", rule=name, path=path)
    try:
        wrong = check_rule(rule)
    except (re.error, ValueError) as error:
        raise _wrong_rules("errors.redaction.wrong", rule=name, path=path, problem=error) from error
    if wrong:
        raise _wrong_rules("errors.redaction.wrong", rule=name, path=path, problem=wrong)


def scan_bytes(data: bytes, redactor: Redactor | None = None) -> list[Hit]:
    """Find secrets in exactly these bytes: the scan before they are committed.

    Args:
        data: Content of a file. Of binary content (one with a NUL byte) each readable part is judged separately: random
            bytes around a colon and an at sign are no password.
        redactor: The redactor of the run, which also knows its secrets by value; None: the built-in rules.

    Returns:
        One hit for each secret, in the order of lines. Personal paths are no hits: they are replaced, not refused.
    """
    from html import unescape

    scanner = Redactor(home="", user="") if redactor is None else redactor
    # Entries contain masks as `&#42;&#42;&#42;`: scan the text that a page shows.
    lines = [unescape(line) for line in data.decode("utf-8", "replace").split("\n")]
    binary = b"\0" in data
    parts = [(at, part) for at, line in enumerate(lines, 1) for part in (READABLE.findall(line) if binary else (line,))]
    found = scanner.find("\n".join(part for _, part in parts))
    return [Hit(rule, parts[at - 1][0]) for at, rule in found if rule not in PATH_RULES]


def check_rule(rule: Mapping[str, Any]) -> Message | None:
    """Return the problem of a rule with its examples, or `None` if all pass.

    Raises:
        ValueError: The pattern or the edge is not valid (`re.error` is one).
    """
    compiled = FormatRule(rule)
    masker = Redactor(rules={"rules": [rule]}, home="", user="")
    for example in rule["yes"]:
        text = example_text(example)
        if not any(word in text.lower() for word in compiled.keywords):
            return message("errors.redaction.keyword_not_in_example", example=example)
        if not compiled.spans(text) or masker.text(text) == text:
            if compiled.spans(text):
                return message("errors.redaction.example_not_masked_as_run", example=example)
            return message("errors.redaction.example_not_masked", example=example)
    for example in rule.get("no", []):
        if compiled.spans(example_text(example)):
            return message("errors.redaction.example_masked", example=example)
    return None


_ALPHABETS = {
    "alpha": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "alnum": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "base32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "b64": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "url": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    "hex": "0123456789abcdef",
    "digit": "0123456789",
}


def example_text(example: str, seed: int = 0) -> str:
    """Fill the placeholders of an example: `{hex:32}` with 32 such characters, `{uuid}` with a UUID.

    Args:
        example: The example as written in a rule; known placeholders are alpha, alnum, base32, b64, url, hex and digit.
    """
    from random import Random

    source = Random(f"{seed} {example}")

    def fill(match: re.Match[str]) -> str:
        if match[0] == "{uuid}":
            return "-".join("".join(source.choices(_ALPHABETS["hex"], k=count)) for count in (8, 4, 4, 4, 12))
        text = "".join(source.choices(_ALPHABETS[match[1]], k=int(match[2])))
        # Rules that require a digit must not depend on chance.
        fine = len(text) < 8 or match[1] == "alpha" or any(char.isdigit() for char in text)
        return text if fine else text[:-4] + "7" + text[-3:]

    return re.sub(r"\{(?:(" + "|".join(_ALPHABETS) + r"):(\d{1,4})|uuid)\}", fill, example)
