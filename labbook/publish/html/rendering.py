"""Renders Markdown as MkDocs does, with one parser for all pages.

MkDocs creates a parser for each page, which searches every table cell for links and emphasis. Here one parser is
reused, text without markup characters is skipped, and tables of simple cells are written directly. The HTML is equal,
byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions.tables import TableProcessor
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure import pages, toc
from mkdocs.structure.files import Files

from labbook.publish.html.code_blocks import PlainBlocks
from labbook.publish.html.theme import EXTENSIONS

_MARKED = re.compile("[\\\\`*\\[\\]<>&{}\x02\x03]|(?<![^\\W_])_|__|  \n")
"""Characters without which no pattern of `_INLINE` matches."""

_INLINE = {
    *("backtick", "escape", "reference", "link", "image_link", "image_reference", "short_reference", "short_image_ref"),
    *("autolink", "automail", "linebreak", "html", "entity", "not_strong", "em_strong", "em_strong2"),
}
"""Inline patterns of Python-Markdown. With any other pattern, no text is skipped."""


Resolve = Callable[[str], "str | None"]
"""Address of a note in Markdown -> its address in the site; `None` if Markdown must process it."""

_INERT = "(?:[^\\\\`*_\\[\\]<>&{}|\n\x02\x03]|(?<=[^\\W_])_(?!_))"
"""A character without markup, or an underscore inside a word."""

_PART = (
    f"(?:{_INERT}"
    "|&(?:#[0-9]+|#x[0-9a-fA-F]+|[0-9a-zA-Z]+);"
    r'|<span class="[A-Za-z0-9_ -]+">|</span>)'
)
_CELL = re.compile(
    rf"(?P<same>{_PART}+)"
    rf"|(?<!\*)\*\*(?P<strong>(?!\s){_PART}+(?<!\s))\*\*(?!\*)"
    rf"|(?<!!)\[(?P<label>{_INERT}+)\]\((?P<to>[A-Za-z0-9_./-]+\.md)\)(?:\{{\.(?P<style>[A-Za-z0-9_-]+)\}})?(?!\{{)"
    r"|(?P<after>>)"
    rf"|(?P<bracket>\[{_INERT}*\](?!\())"
    r"|(?<!`)`(?P<code>[^`\\<>&{}|\n\x02\x03]+)`(?!`)",
)
_PLAIN = re.compile(f"{_INERT}*")
_ACTIVE = re.compile('[&<>"\x02\x03]')
_MOST_KEPT = 100
"""Longest cell that is cached: many rows have the same ones."""


class PageRenderer:
    """Renders the pages of one build.

    Args:
        anchors: Whether to collect anchors and links of each page, for the link check of MkDocs.
    """

    def __init__(self, config: MkDocsConfig, *, anchors: bool = True) -> None:
        self._config = config
        self._anchors = anchors
        self._parser: Markdown | None = None
        self._links: Any = None
        self._tables: _QuickTables | None = None
        # Other extensions may keep state of the previous page.
        self._again = {str(name) for name in config.markdown_extensions} <= {
            *EXTENSIONS,
            "toc",
            "tables",
            "fenced_code",
        }

    def render(self, page: pages.Page, files: Files) -> None:
        """Sets HTML, table of contents and title of a page from its Markdown, as `Page.render` does."""
        parser = self._parser_for_page()
        links = self._links = pages._RelativePathTreeprocessor(page.file, files, self._config)
        title = pages._ExtractTitleTreeprocessor()
        anchors: list[Any] = []
        if self._anchors:
            anchors = [
                pages._RawHTMLPreprocessor(),
                pages._ExtractAnchorsTreeprocessor(page.file, files, self._config),
            ]
        for step in (*anchors, links, title):
            step._register(parser)
        text = page.markdown or ""
        if self._tables is not None:
            self._tables.definitions = "]:" in text
        page.content = parser.convert(text)
        page.toc = toc.get_toc(getattr(parser, "toc_tokens", []))
        page._title_from_render = title.title
        if self._anchors:
            page.present_anchor_ids = set().union(*(step.present_anchor_ids for step in anchors))
            page.links_to_anchors = links.links_to_anchors

    def _parser_for_page(self) -> Markdown:
        if self._parser is None or not self._again:
            self._parser = Markdown(
                extensions=self._config.markdown_extensions, extension_configs=self._config.mdx_configs or {}
            )
            if {pattern.name for pattern in self._parser.inlinePatterns._priority} <= _INLINE:
                # Before 20, the priority of the inline processor.
                self._parser.treeprocessors.register(_PlainTexts(self._parser), "labbook_plain_texts", 21)
                if self._again:
                    self._install_quick_tables(self._parser)
            for extension in self._parser.registeredExtensions if self._again else ():
                if hasattr(extension, "get_pymdownx_highlighter"):
                    extension.get_pymdownx_highlighter = _plain_blocks
        self._parser.reset()
        return self._parser

    def _install_quick_tables(self, parser: Markdown) -> None:
        processors = parser.parser.blockprocessors
        priority = processors._priority[processors.get_index_for_name("table")].priority
        self._tables = _QuickTables(processors["table"], self._address)
        processors.register(self._tables, "table", priority)

    def _address(self, written: str) -> str | None:
        """Returns the address in the site of the target of a link; `None` if MkDocs must process the link."""
        links = self._links
        target = links.files.get_file_from_path(links._target_uri(links.file.src_uri, unquote(written)))
        if target is None or target.inclusion.is_excluded():
            return None
        address: str = links.path_to_url(written)
        return None if _ACTIVE.search(address) else address


def _plain_blocks() -> type:
    return PlainBlocks


class _PlainTexts(Treeprocessor):  # type: ignore[misc]
    """Marks texts without inline markup, such as most table cells, so that the parser skips them."""

    def run(self, root: Element) -> None:
        """Marks the texts."""
        for element in root.iter():
            text = element.text
            if text and type(text) is str and not _MARKED.search(text):
                element.text = AtomicString(text)


class _QuickTables(TableProcessor):  # type: ignore[misc]
    """Writes tables of simple cells directly, equal to Python-Markdown byte for byte.

    Python-Markdown applies sixteen patterns to each cell: a list of two thousand runs takes a second. A table with any
    other cell is left to it.
    """

    def __init__(self, before: TableProcessor, resolve: Resolve) -> None:
        super().__init__(before.parser, before.config)
        self._resolve = resolve
        self._known: dict[str, str] = {}
        self.definitions = True
        """Whether the page may define reference links."""

    def run(self, parent: Element, blocks: list[str]) -> None:
        """Adds the table to `parent`."""
        made = self._render_table(blocks[0])
        if made is None:
            super().run(parent, blocks)
            return
        blocks.pop(0)
        # For other processors it is a table with a text that is not Markdown.
        SubElement(parent, "table").text = AtomicString(self.parser.md.htmlStash.store(made))

    def _render_table(self, block: str) -> str | None:
        """Returns the HTML inside `<table>`; `None` if a cell is not simple."""
        lines = block.split("\n")
        if len(lines) < 3 or self.config["use_align_attribute"]:
            return None
        columns = [_alignment(text) for text in self.separator]
        rows = []
        for number, line in enumerate((lines[0], *lines[2:])):
            cells = self._cells(line.strip(" "))
            cells += [""] * (len(columns) - len(cells))
            tag = "td" if number else "th"
            row = []
            for align, text in zip(columns, cells, strict=False):
                inner = self._known.get(text)
                if inner is None:
                    inner = self._cell(text.strip(" "))
                    if inner is None:
                        return None
                    if "[" not in text and len(text) <= _MOST_KEPT:
                        self._known[text] = inner
                row.append(f"<{tag}{align}>{inner}</{tag}>\n")
            rows.append(f"<tr>\n{''.join(row)}</tr>\n")
        return f"\n<thead>\n{rows[0]}</thead>\n<tbody>\n{''.join(rows[1:])}</tbody>\n"

    def _cells(self, line: str) -> list[str]:
        if "`" in line or "\\" in line:
            found: list[str] = self._split_row(line)
            return found
        if self.border:
            line = line.removeprefix("|").removesuffix("|")
        return line.split("|")

    def _cell(self, text: str) -> str | None:
        if _PLAIN.fullmatch(text):
            return text
        parts = []
        place = 0
        while place < len(text):
            found = _CELL.match(text, place)
            if found is None:
                return None
            place = found.end()
            kind = found.lastgroup
            if kind == "same" or (kind == "bracket" and not self.definitions):
                parts.append(found[0])
            elif kind == "bracket":
                # It could be the name of a reference link.
                return None
            elif kind == "after":
                parts.append("&gt;")
            elif kind == "strong":
                parts.append(f"<strong>{found['strong']}</strong>")
            elif kind == "code":
                parts.append(f"<code>{found['code'].strip()}</code>")
            else:
                address = self._resolve(found["to"])
                if address is None:
                    return None
                style = f' class="{found["style"]}"' if found["style"] else ""
                parts.append(f'<a{style} href="{address}">{found["label"]}</a>')
        return "".join(parts)


def _alignment(mark: str) -> str:
    mark = mark.strip(" ")
    left, right = mark.startswith(":"), mark.endswith(":")
    side = "center" if left and right else "left" if left else "right" if right else ""
    return f' style="text-align: {side};"' if side else ""
