"""Builds one patch of uncommitted changes and new files, bounded and with secrets masked.

A section is the part of one file, from its line `diff --git` to the next.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from labbook.model.message import Message, message
from labbook.store.git.fast_import import blob_hash

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
"""Connection files of Jupyter and ipyparallel, with the key of a running server."""
_KEY_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".azure", ".gcloud", ".docker"})
_SECRET_WORD = re.compile(r"(^|[-_.])(credentials?|secrets?|passwords?|tokens?|apikeys?|service[-_]?account)([-_.]|$)")
_DATA_ENDINGS = frozenset(
    {"", ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".txt", ".xml", ".properties"}
)


def is_withheld(path: str) -> bool:
    """Whether the name of a file suggests keys or credentials; its content is never read.

    These are `.env` files of every kind, key files, credential stores of common tools, and data or settings files with
    secret, credentials, password or token in their name.
    """
    pure = PurePosixPath(path.lower())
    name, suffix = pure.name, pure.suffix
    if name.startswith(".env") or name.endswith((".env", *_KEY_ENDINGS)) or name in _KEY_NAMES:
        return True
    if _RUNTIME_NAME.fullmatch(name):
        return True
    if name.startswith(("id_rsa", "id_ed25519", "id_ecdsa")) or _KEY_FOLDERS & set(pure.parts[:-1]):
        return True
    # `tokens.json` may be a vocabulary; it is withheld as well, and the note of the patch names it.
    return suffix in _DATA_ENDINGS and _SECRET_WORD.search(name) is not None


@dataclass
class Patch:
    """A patch under construction.

    Args:
        redacted: Paths in which added lines were masked; their sections still apply.
        broken: Paths in which other lines were masked; their sections no longer apply.
        withheld: Paths that are only named: keys and credentials, or secrets that cannot be masked line by line.
        binaries: Paths of binary files; only named.
        too_large: Paths that did not fit.
        blobs: Path -> git's hash of its current content, "" if it is deleted, "masked:..." of a masked section.
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
        """Adds the section of one file, or notes why it is left out.

        Args:
            path: Its current path.
            section: The section from git or from `new_file_section`.
            also: Other paths in the section, such as the one before a rename.
        """
        if any(is_withheld(p) for p in (path, *also)):
            self.withheld.append(path)
            return
        blob = _section_blob(section)
        if blob is not None:
            self.blobs[path] = blob
        if b"\nBinary files " in section or b"\nGIT binary patch\n" in section:
            self.binaries.append(path)
            return
        if len(self.text) + len(section) > self.max_bytes:
            self.too_large.append(path)
            return
        masked, effect = redact_section(section, self.redactor)
        if effect:
            # The hash of the original text could confirm a guess of the secret; that of the masked text cannot.
            masked = re.sub(rb"^index [0-9a-f]+\.\.[0-9a-f]+.*\n", b"", masked, count=1, flags=re.MULTILINE)
            self.blobs[path] = f"masked:{hashlib.sha256(masked).hexdigest()}"
            {"broken": self.broken, "redacted": self.redacted, "withheld": self.withheld}[effect].append(path)
        if effect != "withheld":
            self.text += masked
        else:
            del self.blobs[path]

    def notes(self) -> list[Message]:
        """Returns sentences on missing or masked parts of the patch; empty if it is complete."""
        notes = []
        if self.broken:
            notes.append(message("capture.patch.broken", files=_shorten_list(self.broken)))
        if self.redacted:
            notes.append(message("capture.patch.redacted", files=_shorten_list(self.redacted)))
        if self.withheld:
            notes.append(message("capture.patch.withheld", files=_shorten_list(self.withheld)))
        if self.binaries:
            notes.append(message("capture.patch.binaries", files=_shorten_list(self.binaries)))
        if self.too_large:
            files = _shorten_list(self.too_large)
            notes.append(message("capture.patch.too_large", bytes=self.max_bytes, files=files))
        return notes


def _shorten_list(paths: list[str]) -> Message | list[str]:
    if len(paths) <= 12:
        return paths
    return message("values.more", names=paths[:12], more=len(paths) - 12)


def split_sections(patch: bytes) -> list[bytes]:
    """Returns the sections of a patch in order."""
    # Lines of content begin with a sign, hence never with "diff --git".
    starts = [m.start() for m in re.finditer(rb"^diff --git ", patch, re.MULTILINE)]
    return [patch[a:b] for a, b in zip(starts, [*starts[1:], len(patch)], strict=True)]


def section_header(before: str, path: str) -> bytes:
    """Returns the first line of a file's section, without a newline."""
    return b"diff --git %s %s" % (_quote_path("a/" + before), _quote_path("b/" + path))


def _section_blob(section: bytes) -> str | None:
    """Returns git's hash of the current content from a section, "" for a deleted file, `None` if missing."""
    match = re.search(rb"^index [0-9a-f]+\.\.([0-9a-f]{40,64})", section.partition(b"\n@@ ")[0], re.MULTILINE)
    if match is None:
        return None
    return "" if not match[1].strip(b"0") else match[1].decode()


def new_file_section(path: str, content: bytes, executable: bool = False, commit: str = "") -> bytes:
    """Returns the section that creates a new file; a binary file is only named."""
    blob = blob_hash(content, commit)
    new = _quote_path("b/" + path)
    mode = b"100755" if executable else b"100644"
    head = b"%s\nnew file mode %s\nindex %s..%s\n" % (section_header(path, path), mode, b"0" * len(blob), blob.encode())
    if b"\0" in content[:8000]:
        return head + b"Binary files /dev/null and %s differ\n" % new
    if not content:
        return head
    # After a name with a space git writes a tab, which marks the name's end.
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


def _quote_path(path: str) -> bytes:
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
    """Returns a section with its secrets masked, and the effect on it.

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
        signs = {_changed_sign(a, b) for a, b in zip(before, after, strict=True) if a != b}
        if "?" not in signs:
            return masked.encode("utf-8", "surrogateescape"), "redacted" if signs == {"+"} else "broken"
    return _redact_runs(section, redactor)


def _changed_sign(before: str, after: str) -> str:
    """Returns the sign of a changed line; "?" if masking has removed the sign or a hunk header."""
    if before[:1] in ("+", "-", " ") and not before.startswith(("+++ ", "--- ")):
        return before[:1] if after[:1] == before[:1] else "?"
    if before.startswith("@@ "):
        return " " if _HUNK.match(after.encode("utf-8", "surrogateescape")) else "?"
    return "head"


def _redact_runs(section: bytes, redactor: Redactor) -> tuple[bytes, str]:
    """Masks runs of lines with the same sign, without the sign, and updates the hunk headers."""
    head, *hunks = re.split(rb"^(?=@@ -)", section, flags=re.MULTILINE)
    kinds: set[bytes] = set()
    out = bytearray(_mask(head, redactor))
    if bytes(out) != head:
        kinds.add(b"head")
    for hunk in hunks:
        first, _, body = hunk.partition(b"\n")
        matched = _HUNK.match(first)
        if matched is None:
            return section, "withheld"
        lines, changed = _mask_lines(body, redactor)
        kinds |= changed
        old = sum(line[:1] in (b" ", b"-", b"") for line in lines)
        new = sum(line[:1] in (b" ", b"+", b"") for line in lines)
        tail = _mask(matched[3], redactor)
        out += b"@@ -%s,%d +%s,%d @@%s\n" % (matched[1], old, matched[2], new, tail)
        out += b"".join(line + b"\n" for line in lines)
    text = out.decode("utf-8", "surrogateescape")
    if redactor.text(text) != text:
        return section, "withheld"
    return bytes(out), "redacted" if kinds <= {b"+"} else "broken"


def _mask_lines(body: bytes, redactor: Redactor) -> tuple[list[bytes], set[bytes]]:
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
        masked = _mask(b"\n".join(run), redactor).split(b"\n") if sign != b"\\" else run
        if masked != run:
            changed.add(sign)
        done += [sign + line for line in masked]
        at = end
    return done, changed


def _mask(raw: bytes, redactor: Redactor) -> bytes:
    masked: str = redactor.text(raw.decode("utf-8", "surrogateescape"))
    return masked.encode("utf-8", "surrogateescape")
