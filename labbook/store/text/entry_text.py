"""The text of an entry: generated blocks between markers, and hand-written text.

A block is `<!-- labbook:begin NAME -->` ... `<!-- labbook:end NAME -->`, each marker alone on its line. Merging a newly
generated entry into the one on disk replaces blocks and front matter keys, and preserves every other byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from labbook.errors import EntryError, NotebookError
from labbook.frozen import dataclass
from labbook.store.journal import write_atomically
from labbook.store.paths import NotebookPaths, check_stays_inside
from labbook.store.text import frontmatter

_MARKER = re.compile(r"^<!-- labbook:(begin|end) ([a-z][a-z0-9_]*) -->[ \t]*\r?$")
_MARKER_START = re.compile(r"<!-- labbook:(?=begin |end )")


@dataclass(frozen=True)
class Part:
    """A part of an entry's body: a generated block with its markers (`name`), or hand-written text (`name` empty)."""

    name: str
    text: str


def block(name: str, content: str) -> str:
    """Return `content` between the markers of a block; markers in the content are escaped."""
    inside = _MARKER_START.sub("<!--labbook:", content).strip("\n")
    return f"<!-- labbook:begin {name} -->\n\n{inside}\n\n<!-- labbook:end {name} -->\n"


def split_parts(body: str) -> list[Part]:
    """Split the body into generated blocks and hand-written text; concatenated, the parts equal `body`.

    A block is a begin marker and the next marker, if that is its end. Of several blocks of one name the first counts;
    unpaired markers are hand-written text.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", body)
    pairs = dict(_pairs(lines))
    parts: list[Part] = []
    own: list[str] = []
    at = 0
    while at < len(lines):
        if at not in pairs:
            own.append(lines[at])
            at += 1
            continue
        stop, name = pairs[at]
        if own:
            parts.append(Part("", "".join(own)))
            own = []
        parts.append(Part(name, "".join(lines[at : stop + 1])))
        at = stop + 1
    return [*parts, Part("", "".join(own))] if own else parts


def _pairs(lines: list[str]) -> Iterator[tuple[int, tuple[int, str]]]:
    """Return the line of each block's begin marker, with the line of its end marker and its name."""
    seen: set[str] = set()
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        marker = _MARKER.match(line.rstrip("\n"))
        if marker is None:
            continue
        kind, name = marker.groups()
        if kind == "begin":
            opened = (number, name)
        else:
            if opened is not None and opened[1] == name and name not in seen:
                seen.add(name)
                yield opened[0], (number, name)
            opened = None


def merge(existing: str, generated: str, *, known: Collection[str] = (), left_out: Collection[str] = ()) -> str:
    """Return the entry on disk with updated blocks and front matter keys of labbook.

    Text outside the blocks is preserved byte for byte, including line ends. A removed block is inserted at its position
    in the template. Unreadable front matter is moved into the text, where it can be repaired.

    Args:
        existing: The file on disk, read without translating line ends (`read_text`).
        generated: A complete generated entry.
        known: Names of all blocks that labbook can generate: one that is not in `generated` is emptied. Other blocks
            (of a newer labbook) are not changed.
        left_out: Names of blocks that the user excluded from this entry.
    """
    if not existing.strip("\ufeff \t\r\n"):
        return generated
    meta, generated_body = frontmatter.parse(generated, "generated entry")
    newline = common_line_end(existing)
    try:
        text = frontmatter.update(existing, meta, "entry")
        _, body = frontmatter.parse(text, "entry")
        head = text[: len(text) - len(body)]
    except EntryError as error:
        head = frontmatter.emit(meta).replace("\n", newline)
        body = _readable_rest(existing, error.message, newline)
    template = [Part(p.name, p.text.replace("\n", newline)) for p in split_parts(generated_body)]
    template = [p for p in template if p.name not in left_out]
    emptied = (set(known) | set(left_out)) - {p.name for p in template}
    return head + _join_parts(split_parts(body), template, emptied, newline)


def set_block(page: str, name: str, content: str, behind: Collection[str] = ()) -> str:
    """Return a page with one block set to `content`, or removed if that is empty; all other bytes are preserved.

    Args:
        page: The file on disk, read without translating line ends (`read_text`).
        content: Markdown.
        behind: A new block is inserted after the last of these blocks, else at the end of the page.

    Raises:
        EntryError: The front matter cannot be read.
    """
    _, body = frontmatter.parse(page, "entry")
    newline = common_line_end(page)
    parts = split_parts(body)
    at = next((number for number, part in enumerate(parts) if part.name == name), None)
    if not content.strip():
        if at is not None:
            del parts[at]
            # The blank line before the removed block.
            if at < len(parts) and at and not parts[at].name:
                parts[at] = Part("", parts[at].text.removeprefix(newline))
        return page[: len(page) - len(body)] + _as_text(parts, newline)
    made = Part(name, block(name, content).replace("\n", newline))
    if at is not None:
        parts[at] = Part(name, _same_end(made.text, parts[at].text))
    else:
        places = [number for number, part in enumerate(parts) if part.name in behind]
        place = places[-1] + 1 if places else len(parts)
        parts.insert(place, made)
        if place + 1 < len(parts) and not parts[place + 1].text.startswith(("\n", "\r\n")):
            parts.insert(place + 1, Part("", newline))
        before = parts[place - 1] if place else made
        if not before.name and before.text.strip() and not before.text.endswith(2 * newline):
            parts.insert(place, Part("", newline))
    return page[: len(page) - len(body)] + _as_text(parts, newline)


def _join_parts(parts: list[Part], template: list[Part], emptied: Collection[str], newline: str) -> str:
    """Return the body with blocks replaced, missing ones inserted, and the `emptied` ones emptied.

    Args:
        parts: The body on disk.
        template: The generated body: blocks, and headings of hand-written sections between them.
        emptied: Names of blocks without content.
    """
    blocks = {p.name: p.text for p in template if p.name}
    have = {p.name for p in parts if p.name}
    new: list[Part] = []
    for part in parts:
        if part.name in blocks:
            new.append(Part(part.name, _same_end(blocks[part.name], part.text)))
        elif part.name and part.name in emptied:
            bare = f"<!-- labbook:begin {part.name} -->{newline}<!-- labbook:end {part.name} -->{newline}"
            new.append(Part(part.name, _same_end(bare, part.text)))
        else:
            new.append(part)
    for number, part in enumerate(template):
        if part.name and part.name not in have:
            _insert(new, part, template, number)
    return _as_text(new, newline)


def _same_end(text: str, old: str) -> str:
    """Remove the line end of a last block if the file ends without one."""
    return text if old.endswith("\n") else text.rstrip("\r\n")


def _as_text(parts: list[Part], newline: str) -> str:
    """Join parts; a block begins on its own line, after a blank line if another block precedes it."""
    text = ""
    before = Part("", "")
    for part in parts:
        if text and not text.endswith("\n"):
            text += newline
        if part.name and before.name:
            text += newline
        text += part.text
        before = part
    return text


def _insert(parts: list[Part], block: Part, template: list[Part], number: int) -> None:
    """Insert a missing block at its position in the template: after its predecessor, else before its successor.

    If the predecessor is a heading, the block is inserted after the text below that heading.
    """
    for earlier in reversed(template[:number]):
        at = _index_after(parts, earlier, template)
        if at is not None:
            parts.insert(at, block)
            return
    names = [part.name for part in parts]
    following = next(
        (names.index(later.name) for later in template[number + 1 :] if later.name in names and later.name), 0
    )
    parts.insert(following, block)


def _index_after(parts: list[Part], wanted: Part, template: list[Part]) -> int | None:
    """Return the index after a block, or after the text below a heading; `None` if it is absent."""
    if wanted.name:
        return next((i + 1 for i, part in enumerate(parts) if part.name == wanted.name), None)
    headings = [line for part in template if not part.name for line in _headings(part.text)]
    for heading in reversed(_headings(wanted.text)):
        for index, part in enumerate(parts):
            if part.name or heading not in _headings(part.text):
                continue
            later = headings[headings.index(heading) + 1 :]
            cut = _line_start(part.text, later, behind=heading)
            if cut is not None:
                parts[index : index + 1] = [Part("", part.text[:cut]), Part("", part.text[cut:])]
            return index + 1
    return None


def _headings(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.startswith("#")]


def _line_start(text: str, headings: Collection[str], *, behind: str) -> int | None:
    """Return the position of the first of some heading lines after the line `behind`, or `None`."""
    position, seen = 0, False
    for line in text.split("\n"):
        if seen and line.rstrip() in headings:
            return position
        seen = seen or line.rstrip() == behind
        position += len(line) + 1
    return None


def _readable_rest(existing: str, reason: str, newline: str) -> str:
    """Return the file as body: its unreadable front matter in a code block, with the reason."""
    text = existing.removeprefix("\ufeff")
    end = re.search(r"^(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)", text[3:], re.MULTILINE)
    if end is None:
        return newline + text
    broken, rest = text[: 3 + end.end()], text[3 + end.end() :]
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", broken)), default=0))
    inline_reason = reason.replace("`", "'").replace("<", "(").replace("\n", " ")
    return (
        f"{newline}labbook could not read this front matter ({inline_reason}):{newline}{newline}{fence}yaml{newline}"
        f"{broken}{'' if broken.endswith(chr(10)) else newline}{fence}{newline}{rest}"
    )


def tidy(text: str) -> str:
    """Returns the text without repeated blank lines, except in code blocks."""
    lines: list[str] = []
    end = ""
    for line in text.split("\n"):
        inside = bool(end)
        if inside:
            end = "" if (line.rstrip() == end or (end == "</pre>" and end in line)) else end
        elif mark := re.match(r"`{3,}|~{3,}", line):
            end = mark.group()
        elif line.startswith("<pre") and "</pre>" not in line:
            end = "</pre>"
        if inside or line.strip() or (lines and lines[-1]):
            lines.append(line if inside else line.rstrip())
    return "\n".join(lines).strip("\n") + "\n"


def change_entry(paths: NotebookPaths, run_id: str, change: Callable[[str], str]) -> Path:
    """Changes the text of an entry and returns its path.

    Raises:
        NotebookError: The entry cannot be read or written, or a link leads out of the notebook.
    """
    path = paths.entry(run_id)
    check_stays_inside(path, paths.root)
    try:
        write_atomically(path, to_bytes(change(read_text(path))))
    except OSError as error:
        raise NotebookError("errors.file.not_written", path=path, reason=error) from error
    return path


def read_text(path: Path) -> str:
    """Read a Markdown file without translating line ends; invalid UTF-8 is preserved by `write_text`.

    Raises:
        OSError: It cannot be read.
    """
    return path.read_bytes().decode("utf-8", "surrogateescape")


def read_head(path: Path, most_bytes: int = 8192) -> str:
    """Read the front matter of a Markdown file as text, without its last line; at most so many bytes.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as stream:
        return stream.read(most_bytes).decode("utf-8", "replace").split("\n---", 1)[0]


def common_line_end(text: str) -> str:
    """Return the line end of most lines."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def to_bytes(text: str) -> bytes:
    """Encode a text from `read_text` or generated by labbook."""
    return text.encode("utf-8", "surrogateescape")
