"""Builds one patch of uncommitted changes: sections of files, new files included, secrets masked, bounded in size.

A section is everything of one file, from its line `diff --git` to the next.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from labbook.model.message import Message, message
from labbook.store.fast_import import blob_hash

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor

_HUNK = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)", re.DOTALL)

_KEY_ENDINGS = (
    ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".gpg", ".ovpn", ".ppk", ".keytab", ".der", ".crt",
)  # fmt: skip
_KEY_NAMES = frozenset({
    ".netrc", "_netrc", ".pypirc", ".npmrc", ".yarnrc", ".git-credentials", ".htpasswd", ".pgpass", ".my.cnf",
    ".dockercfg", ".dockerconfigjson", ".s3cfg", ".boto", "kubeconfig", "kaggle.json", "id_rsa", "id_dsa", "id_ecdsa",
    "id_ed25519", "authorized_keys", "known_hosts", ".bash_history", ".python_history", ".zsh_history",
    ".psql_history", "jupyter_cookie_secret", "notebook_cookie_secret",
})  # fmt: skip
_RUNTIME_NAME = re.compile(r"(kernel-[0-9a-f-]{8,}|(jp|nb)server-[0-9]+|ip(controller|engine)[-.\w]*)\.json")
"""Connection files of Jupyter and ipyparallel: they hold the key of a running server."""
_KEY_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".azure", ".gcloud", ".docker"})
_SECRET_WORD = re.compile(r"(^|[-_.])(credentials?|secrets?|passwords?|tokens?|apikeys?|service[-_]?account)([-_.]|$)")
_DATA_ENDINGS = frozenset(
    {"", ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".txt", ".xml", ".properties"}
)


def is_withheld(path: str) -> bool:
    """Whether a file is one of those that hold keys or credentials; nothing of it is ever taken.

    `.env` files of every kind, key files, credential stores of common tools, and settings (not source) whose name says
    secret, credentials, password or token. Source: security, section 5, layer 0.
    """
    pure = PurePosixPath(path.lower())
    name, suffix = pure.name, pure.suffix
    if name.startswith(".env") or name.endswith((".env", *_KEY_ENDINGS)) or name in _KEY_NAMES:
        return True
    if _RUNTIME_NAME.fullmatch(name):
        return True
    if name.startswith(("id_rsa", "id_ed25519", "id_ecdsa")) or _KEY_FOLDERS & set(pure.parts[:-1]):
        return True
    # `tokens.json` may be a vocabulary and is withheld all the same: it is named in the note, so nothing is silent.
    return suffix in _DATA_ENDINGS and _SECRET_WORD.search(name) is not None


@dataclass
class Patch:
    """A patch while it is built.

    Args:
        text: What will be written.
        redacted: Paths in which added lines were masked; these still apply.
        broken: Paths in which other lines were masked; these no longer apply.
        withheld: Paths that are named only: keys and credentials, or secrets that cannot be masked line by line.
        binaries: Paths of binary files; named only.
        too_large: Paths that did not fit.
        blobs: Path -> git's hash of its present content, "" when it is deleted, "masked:..." of a masked section.
    """

    max_bytes: int
    redactor: Redactor
    text: bytearray = field(default_factory=bytearray)
    redacted: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    binaries: list[str] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, section: bytes, also: Iterable[str] = ()) -> None:
        """Adds the section of one file, or notes why not.

        Args:
            path: Its present path.
            section: What git, or `new_file`, says of it.
            also: Other paths in it, such as the one before a rename.
        """
        if any(is_withheld(p) for p in (path, *also)):
            self.withheld.append(path)
            return
        blob = section_blob(section)
        if blob is not None:
            self.blobs[path] = blob
        if b"\nBinary files " in section or b"\nGIT binary patch\n" in section:
            self.binaries.append(path)
            return
        if len(self.text) + len(section) > self.max_bytes:
            self.too_large.append(path)
            return
        masked, how = redact_section(section, self.redactor)
        if how:
            # The hash of what was masked would let a guess be confirmed; that of the masked text tells nothing.
            masked = re.sub(rb"^index [0-9a-f]+\.\.[0-9a-f]+.*\n", b"", masked, count=1, flags=re.MULTILINE)
            self.blobs[path] = f"masked:{hashlib.sha256(masked).hexdigest()}"
            {"broken": self.broken, "redacted": self.redacted, "withheld": self.withheld}[how].append(path)
        if how != "withheld":
            self.text += masked
        else:
            del self.blobs[path]

    def notes(self) -> list[Message]:
        """Returns sentences on what the patch does not hold or why it does not apply; empty for a complete patch."""
        found = []
        if self.broken:
            found.append(message("capture.patch.broken", files=_names(self.broken)))
        if self.redacted:
            found.append(message("capture.patch.redacted", files=_names(self.redacted)))
        if self.withheld:
            found.append(message("capture.patch.withheld", files=_names(self.withheld)))
        if self.binaries:
            found.append(message("capture.patch.binaries", files=_names(self.binaries)))
        if self.too_large:
            files = _names(self.too_large)
            found.append(message("capture.patch.too_large", bytes=self.max_bytes, files=files))
        return found


def _names(paths: list[str]) -> Message | list[str]:
    if len(paths) <= 12:
        return paths
    return message("values.more", names=paths[:12], more=len(paths) - 12)


def split_sections(patch: bytes) -> list[bytes]:
    """The sections of a patch, in order; lines of content never begin with "diff --git" as they carry a sign."""
    starts = [m.start() for m in re.finditer(rb"^diff --git ", patch, re.MULTILINE)]
    return [patch[a:b] for a, b in zip(starts, [*starts[1:], len(patch)], strict=True)]


def first_line(before: str, path: str) -> bytes:
    """The line with which the section of a file begins, without its end."""
    return b"diff --git %s %s" % (_quoted("a/" + before), _quoted("b/" + path))


def section_blob(section: bytes) -> str | None:
    """Git's hash of the present content that a section tells, "" for a deleted file, `None` when it is not told."""
    found = re.search(rb"^index [0-9a-f]+\.\.([0-9a-f]{40,64})", section.partition(b"\n@@ ")[0], re.MULTILINE)
    if found is None:
        return None
    return "" if not found[1].strip(b"0") else found[1].decode()


def new_file(path: str, content: bytes, executable: bool = False, commit: str = "") -> bytes:
    """The section that makes a new file; a binary one only names it."""
    blob = blob_hash(content, commit)
    new = _quoted("b/" + path)
    mode = b"100755" if executable else b"100644"
    head = b"%s\nnew file mode %s\nindex %s..%s\n" % (first_line(path, path), mode, b"0" * len(blob), blob.encode())
    if b"\0" in content[:8000]:
        return head + b"Binary files /dev/null and %s differ\n" % new
    if not content:
        return head
    # A name with a space is followed by a tab, as git writes it, so that the name's end is known.
    end = b"\t" if b" " in new and not new.startswith(b'"') else b""
    lines = content.split(b"\n")
    ended = lines[-1] == b""
    if ended:
        lines.pop()
    body = b"".join(b"+" + line + b"\n" for line in lines)
    if not ended:
        body += b"\\ No newline at end of file\n"
    count = b"+1" if len(lines) == 1 else b"+1,%d" % len(lines)
    return head + b"--- /dev/null\n+++ %s%s\n@@ -0,0 %s @@\n" % (new, end, count) + body


def _quoted(path: str) -> bytes:
    raw = path.encode("utf-8", "surrogateescape")
    if not any(byte < 0x20 or byte in b'"\\\x7f' for byte in raw):
        return raw
    names = {
        0x07: b"a",
        0x08: b"b",
        0x09: b"t",
        0x0A: b"n",
        0x0B: b"v",
        0x0C: b"f",
        0x0D: b"r",
        0x22: b'"',
        0x5C: b"\\",
    }
    quoted = b"".join(
        b"\\" + names[b] if b in names else (b"\\%03o" % b if b < 0x20 or b == 0x7F else bytes([b])) for b in raw
    )
    return b'"' + quoted + b'"'


def redact_section(section: bytes, redactor: Redactor) -> tuple[bytes, str]:
    """A section with its secrets masked, and what that means for it.

    Returns:
        The section, and "" (unchanged), "redacted" (only added lines changed: it still applies), "broken" (context,
        removed lines or names changed: it does not apply) or "withheld" (a secret spans lines of different kinds).
    """
    text = section.decode("utf-8", "surrogateescape")
    if not redactor.needs_scan(text):
        return section, ""
    masked = redactor.text(text)
    if masked == text:
        return section, ""
    before, after = text.split("\n"), masked.split("\n")
    if len(before) == len(after):
        signs = {_kind(a, b) for a, b in zip(before, after, strict=True) if a != b}
        if "?" not in signs:
            return masked.encode("utf-8", "surrogateescape"), "redacted" if signs == {"+"} else "broken"
    return _redact_runs(section, redactor)


def _kind(before: str, after: str) -> str:
    """The sign of a changed line; "?" when masking has taken the sign, or the head of the section, with it."""
    if before[:1] in ("+", "-", " ") and not before.startswith(("+++ ", "--- ")):
        return before[:1] if after[:1] == before[:1] else "?"
    if before.startswith("@@ "):
        return " " if _HUNK.match(after.encode("utf-8", "surrogateescape")) else "?"
    return "head"


def _redact_runs(section: bytes, redactor: Redactor) -> tuple[bytes, str]:
    """Masks runs of lines of one kind without their signs and counts the lines of each hunk again."""
    head, *hunks = re.split(rb"^(?=@@ -)", section, flags=re.MULTILINE)
    kinds: set[bytes] = set()
    out = bytearray(_masked(head, redactor))
    if bytes(out) != head:
        kinds.add(b"head")
    for hunk in hunks:
        first, _, body = hunk.partition(b"\n")
        matched = _HUNK.match(first)
        if matched is None:
            return section, "withheld"
        lines, changed = _masked_lines(body, redactor)
        kinds |= changed
        old = sum(line[:1] in (b" ", b"-", b"") for line in lines)
        new = sum(line[:1] in (b" ", b"+", b"") for line in lines)
        tail = _masked(matched[3], redactor)
        out += b"@@ -%s,%d +%s,%d @@%s\n" % (matched[1], old, matched[2], new, tail)
        out += b"".join(line + b"\n" for line in lines)
    text = out.decode("utf-8", "surrogateescape")
    if redactor.text(text) != text:
        return section, "withheld"
    return bytes(out), "redacted" if kinds <= {b"+"} else "broken"


def _masked_lines(body: bytes, redactor: Redactor) -> tuple[list[bytes], set[bytes]]:
    lines = body.split(b"\n")[:-1] if body.endswith(b"\n") else body.split(b"\n")
    done: list[bytes] = []
    changed: set[bytes] = set()
    at = 0
    while at < len(lines):
        sign = lines[at][:1]
        end = at + 1
        while end < len(lines) and lines[end][:1] == sign:
            end += 1
        run = [line[1:] for line in lines[at:end]]
        masked = _masked(b"\n".join(run), redactor).split(b"\n") if sign != b"\\" else run
        if masked != run:
            changed.add(sign)
        done += [sign + line for line in masked]
        at = end
    return done, changed


def _masked(raw: bytes, redactor: Redactor) -> bytes:
    masked: str = redactor.text(raw.decode("utf-8", "surrogateescape"))
    return masked.encode("utf-8", "surrogateescape")
