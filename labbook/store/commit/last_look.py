"""The secret scan before a commit: finds and masks secrets in exactly the bytes that are committed.

Text is scanned line by line, as a page shows it. Of a JSON file only the strings are scanned, each with its key: in the
raw JSON the key of one value is next to another value, and a line feed is two characters.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

from labbook.errors import EntryError
from labbook.frozen import dataclass
from labbook.model.message import message
from labbook.model.run_json import line_by_line
from labbook.probe.redaction.redactor import PATH_RULES, Redactor
from labbook.probe.redaction.stream import KeyState
from labbook.store.git.fast_import import FileChange
from labbook.store.journal import write_atomically
from labbook.store.recorder_redaction import READABLE, Hit, scan_bytes

_MOST_NAMED = 3
_CHARACTER = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")


@dataclass(frozen=True)
class FoundSecret:
    """A possible secret in a file or message to commit.

    Args:
        place: Path of the file, relative to the notebook, or "the commit message".
    """

    place: str
    hit: Hit


def secrets_in(changes: Sequence[FileChange], message: str, redactor: Redactor) -> list[FoundSecret]:
    """Find possible secrets in the files and in the message of a commit."""
    looked_at = [(os.fsdecode(change.path), change.data) for change in changes if change.data is not None]
    found = [FoundSecret(name, hit) for name, data in looked_at for hit in find_secrets(name, data, redactor)]
    in_message = scan_bytes(message.encode("utf-8", "replace"), redactor)
    return found + [FoundSecret("the commit message", hit) for hit in in_message]


def secret_error(found: Sequence[FoundSecret]) -> EntryError:
    """Return an error that says where the secrets are and which rules matched, without their text."""
    places = [
        message("errors.commit.place", path=each.place, line=each.hit.line, rule=each.hit.rule)
        for each in found[:_MOST_NAMED]
    ]
    if len(found) > _MOST_NAMED:
        return EntryError("errors.commit.secrets", places=places, more=len(found) - _MOST_NAMED)
    return EntryError("errors.commit.secret", places=places)


def find_secrets(name: str, data: bytes, redactor: Redactor) -> list[Hit]:
    """Find possible secrets in a file of this name, in the order of lines. Does not change counts of the redactor."""
    fields = _json_object(name, data)
    if fields is None:
        return scan_bytes(data, redactor)
    lines = data.decode("utf-8", "replace").split("\n")
    return [
        Hit(rule, _line_of(key, lines))
        for key, value in fields.items()
        for rule, times in _mask_field(key, value, redactor)[1].items()
        if rule not in PATH_RULES
        for _ in range(times)
    ]


def mask_secrets(name: str, data: bytes, redactor: Redactor) -> bytes:
    """Mask all possible secrets in the content of a file of this name."""
    fields = _json_object(name, data)
    if fields is not None:
        masked: dict[str, Any] = {}
        for key, value in fields.items():
            masked.update(_mask_field(key, value, redactor)[0])
        return line_by_line(masked).encode("utf-8", "surrogatepass")
    state = KeyState()
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    if b"\0" in data:
        shown = [READABLE.sub(lambda part: _masked_line(part[0], state, redactor), line) for line in lines]
    else:
        shown = [_masked_line(line, state, redactor) for line in lines]
    return "\n".join(shown).encode("utf-8", "surrogateescape")


def mask_files(root: Path, files: Sequence[Path], redactor: Redactor) -> list[FoundSecret]:
    """Mask all possible secrets in the files, in place, and return them.

    Raises:
        OSError: A file cannot be written.
    """
    found = []
    for path in files:
        if not path.is_file() or path.is_symlink():
            continue
        data = path.read_bytes()
        hits = find_secrets(path.name, data, redactor)
        if hits:
            write_atomically(path, mask_secrets(path.name, data, redactor))
            found += [FoundSecret(path.relative_to(root).as_posix(), hit) for hit in hits]
    return found


def _json_object(name: str, data: bytes) -> dict[str, Any] | None:
    if not name.endswith(".json"):
        return None
    try:
        loaded = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _mask_field(key: str, value: object, redactor: Redactor) -> tuple[dict[str, Any], dict[str, int]]:
    """Mask one field; returns it with the number of masked secrets by rule."""
    judge = copy(redactor)
    judge.counts = {}
    return judge.data({key: value}), judge.counts


def _line_of(key: str, lines: Sequence[str]) -> int:
    start = json.dumps(key) + ":"
    return next((number for number, line in enumerate(lines, 1) if line.startswith(start)), 1)


def _masked_line(line: str, state: KeyState, redactor: Redactor) -> str:
    """Mask the secrets in one line, with character references like `&#42;` decoded, as `scan_bytes` does."""
    plain, bounds = _decode_references(line)
    spans = [span for span in redactor.spans(plain, state) if span[2] not in PATH_RULES]
    inside = [(bounds[start][0], bounds[end - 1][1], rule, mark) for start, end, rule, mark in spans if end > start]
    return redactor.replace(line, inside) if inside else line


def _decode_references(line: str) -> tuple[str, list[tuple[int, int]]]:
    """Decode the character references of a line; returns the text and the source range of each character."""
    shown: list[str] = []
    bounds: list[tuple[int, int]] = []
    done = 0
    for match in _CHARACTER.finditer(line) if "&" in line else ():
        shown.append(line[done : match.start()])
        bounds += [(at, at + 1) for at in range(done, match.start())]
        text = html.unescape(match[0])
        shown.append(text)
        bounds += [match.span()] * len(text)
        done = match.end()
    shown.append(line[done:])
    bounds += [(at, at + 1) for at in range(done, len(line))]
    return "".join(shown), bounds
