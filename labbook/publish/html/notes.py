"""Prepares notes for the site: safe front matter, Markdown inside of folds, limits for the parser.

Every note gets a page: one that is unreadable, or would make the Markdown parser slow, is shown as text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from labbook.errors import EntryError
from labbook.frozen import dataclass
from labbook.model.message import Message, message
from labbook.store.text import escape, frontmatter
from labbook.store.text.entry_text import split_parts
from labbook.store.text.sentences import Sentences

MAX_CHARACTERS = 600_000
"""Longest note that is rendered. Source: chosen by us; an entry stays under 64 KiB."""

_MAX_DEPTH = 60
"""Deepest nesting of quotes and lists, in columns of marks. Source: Python-Markdown raises RecursionError from about
100 levels."""

_MAX_BRACKETS = 400
"""Most opening brackets in a line. Source: Python-Markdown takes over 15 s for 20,000; security, section 3."""

_NESTED = re.compile(r"^(?:[ \t]{0,3}(?:>|[-*+]|\d{1,9}[.)])[ \t]*)+")
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})(.*)")
_COMMENT = re.compile(r"\s*<!--[^\n]*-->\s*")
_KEPT_META = ("title", "description", "hide")
_FINDING = re.compile(r"### (.+?) ?[(（]`[a-z][a-z0-9_]+`[,，、][^()（）]*[)）]\n")
_ENTRY_LINK = re.compile(
    r"\[((?:\\.|[^\\\[\]\n])+)\]\(((?:[^()\s]*/)?(?:\d{8}-\d{6}-[0-9a-z]{4,}|exp\d{3,6}_[^()\s/]+)\.md)\)"
)
"""A link to an entry or the page of an experiment, as labbook writes it."""


@dataclass(frozen=True)
class SiteNote:
    """A note prepared for the site.

    Args:
        markdown: Text without front matter.
        meta: Front matter for the theme; texts are HTML.
        problem: Why it is shown as text, or "".
    """

    markdown: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


def site_note(
    content: bytes, path: str, note: str, front: Mapping[str, Any] | None = None, say: Sentences | None = None
) -> SiteNote:
    """Returns the note in a file.

    Args:
        path: Path relative to the notebook, for messages.
        note: Sentence above a note that is shown as text.
        front: Its parsed front matter, if available.
        say: Sentences for the problem; default: in English.
    """
    text = content.decode("utf-8", "replace").replace("\x00", "�").removeprefix("\ufeff")
    try:
        meta, body = frontmatter.parse(text, path, front)
    except EntryError as error:
        return _as_text(text, path, error.texts(say.language if say else "en")[0], note)
    problem = _render_problem(body)
    if problem:
        return _as_text(body, path, f"{path}: {(say or Sentences('en'))(problem)}", note, _select_shown(meta))
    return SiteNote(open_folds(_shorten_contents(_without_empty_sections(body))), _select_shown(meta))


def unlink_missing(markdown: str, has_note: Callable[[str], bool]) -> str:
    """Returns Markdown in which links to entries and experiments that were deleted or moved are plain text.

    Args:
        has_note: Whether there is a note at an address, as it is written in the link.
    """
    return _ENTRY_LINK.sub(lambda link: link[0] if has_note(link[2]) else link[1], markdown)


def inert(text: str) -> str:
    """Returns plain text as HTML that is safe in a page, an attribute and a twice-rendered template."""
    return html.escape(" ".join(text.split())).replace("{", "&#123;").replace("}", "&#125;")


def replace_block(markdown: str, name: str, content: str) -> str:
    """Returns the text with the content of one generated block replaced, unchanged without that block."""
    return "".join(f"\n{content}\n" if part.name == name else part.text for part in split_parts(markdown))


def _select_shown(meta: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key in _KEPT_META:
        value = meta.get(key)
        if isinstance(value, (str, int, float)) and str(value).strip():
            shown[key] = inert(str(value))
        elif key == "hide" and isinstance(value, list):
            shown[key] = [str(item) for item in value if item in ("navigation", "toc", "footer", "path")]
    return shown


def _as_text(text: str, path: str, problem: str, note: str, meta: Mapping[str, Any] | None = None) -> SiteNote:
    name = path.rsplit("/", 1)[-1].removesuffix(".md")
    title = {"title": inert(name)}
    body = (
        f'# {escape.inline(name)}\n\n!!! warning "{inert(note)}"\n\n    {escape.inline(" ".join(problem.split()))}\n\n'
    )
    return SiteNote(body + escape.fence(text[:MAX_CHARACTERS], "text") + "\n", {**title, **(meta or {})}, problem)


def _render_problem(body: str) -> Message | None:
    """Returns why a text is not rendered, or `None`."""
    if len(body) > MAX_CHARACTERS:
        return message("terminal.site.too_long", characters=MAX_CHARACTERS)
    for number, (line, place) in enumerate(_lines(body), 1):
        if place:
            continue
        if line.count("[") > _MAX_BRACKETS:
            return message("terminal.site.brackets", line=number, count=line.count("["))
        nested = _NESTED.match(line[: 4 * _MAX_DEPTH])
        indent = len(line) - len(line.lstrip())
        if (nested and sum(c in ">-*+.)" for c in nested.group()) > _MAX_DEPTH) or indent > 4 * _MAX_DEPTH:
            return message("terminal.site.nested", line=number)
    return None


def open_folds(body: str) -> str:
    """Returns text that Python-Markdown renders inside of folds, without fences in `<pre>`."""
    kept = []
    for line, place in _lines(body):
        if place == "pre":
            kept.append(line.replace("`", "&#96;").replace("~", "&#126;"))
        elif not place and line.startswith("<details>"):
            kept.append(line.replace("<details>", '<details markdown="1">', 1))
        else:
            kept.append(line)
    return "".join(kept)


def _shorten_contents(body: str) -> str:
    """Returns text in which the heading of a finding is listed without its id, which the heading itself has."""

    def label(line: str) -> str:
        found = _FINDING.fullmatch(line)
        title = html.unescape(found[1]).replace("`", "").replace("\\", "") if found else ""
        plain = title and not set(title) & set('"{}<>&')
        return f'{line.rstrip()} {{: data-toc-label="{title}" }}\n' if plain else line

    return "".join(line if place else label(line) for line, place in _lines(body))


def _without_empty_sections(body: str) -> str:
    """Returns text without second-level headings with nothing but labbook's prompt below them."""
    kept: list[str] = []
    heading: int | None = None
    prompted = False
    for line, place in [*_lines(body), ("# ", "")]:
        if not place and (line.isspace() or _COMMENT.fullmatch(line)):
            prompted = prompted or not (line.isspace() or "<!-- labbook:" in line)
        else:
            if heading is not None and prompted and not place and line.startswith(("# ", "## ")):
                kept[heading] = ""
            heading = len(kept) if not place and line.startswith("## ") else None
            prompted = False
        kept.append(line)
    return "".join(kept[:-1])


def _lines(body: str) -> Iterator[tuple[str, str]]:
    """Yields lines with their context: "fence", "pre", or "" for Markdown."""
    fence = ""
    preformatted = False
    for line in body.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if fence:
            yield line, "fence"
            if mark and not mark[2].strip() and mark[1][0] == fence[0] and len(mark[1]) >= len(fence):
                fence = ""
        elif preformatted or line.startswith("<pre"):
            yield line, "pre"
            preformatted = "</pre>" not in line
        elif mark:
            fence = mark[1]
            yield line, "fence"
        else:
            yield line, ""
