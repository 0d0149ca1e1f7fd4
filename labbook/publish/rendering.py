"""From Markdown to HTML as MkDocs does it, with one parser for all pages. Holds MkDocs' own steps, so it knows MkDocs.

MkDocs makes a new parser for each page and lets it look for links and emphasis in every cell of every table. Here one
parser is used again, and text in which no mark stands is not looked at. The HTML is the same, byte for byte.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown  # type: ignore[import-untyped]
from markdown.treeprocessors import Treeprocessor  # type: ignore[import-untyped]
from markdown.util import AtomicString  # type: ignore[import-untyped]
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure import pages, toc
from mkdocs.structure.files import Files

from labbook.publish.theme import EXTENSIONS

_MARKED = re.compile("[\\\\`*_\\[\\]<>&{}\n\x02\x03]")
"""What has to stand in a text for one of `_INLINE` to see anything in it."""

_INLINE = {
    *("backtick", "escape", "reference", "link", "image_link", "image_reference", "short_reference", "short_image_ref"),
    *("autolink", "automail", "linebreak", "html", "entity", "not_strong", "em_strong", "em_strong2"),
}
"""Inline patterns of Python-Markdown itself. With any other, every text is looked at."""


class PageRenderer:
    """Renders the pages of one build.

    Args:
        config: Of MkDocs, complete.
        anchors: Whether to note the anchors and links of each page, for MkDocs' check of links to anchors.
    """

    def __init__(self, config: MkDocsConfig, *, anchors: bool = True) -> None:
        self._config = config
        self._anchors = anchors
        self._parser: Markdown | None = None
        # Of extensions that a team adds it is not known whether they forget the page before.
        self._again = {str(name) for name in config.markdown_extensions} <= {
            *EXTENSIONS,
            "toc",
            "tables",
            "fenced_code",
        }

    def render(self, page: pages.Page, files: Files) -> None:
        """Sets the page's HTML, table of contents and title from its Markdown, as `Page.render` does."""
        parser = self._parser_for_page()
        links = pages._RelativePathTreeprocessor(page.file, files, self._config)
        title = pages._ExtractTitleTreeprocessor()
        steps: list[Any] = [links, title]
        if self._anchors:
            found, raw = (
                pages._ExtractAnchorsTreeprocessor(page.file, files, self._config),
                pages._RawHTMLPreprocessor(),
            )
            steps[:0] = [raw, found]
        for step in steps:
            step._register(parser)
        page.content = parser.convert(page.markdown or "")
        page.toc = toc.get_toc(getattr(parser, "toc_tokens", []))
        page._title_from_render = title.title
        if self._anchors:
            page.present_anchor_ids = found.present_anchor_ids | raw.present_anchor_ids
            page.links_to_anchors = links.links_to_anchors

    def _parser_for_page(self) -> Markdown:
        if self._parser is None or not self._again:
            self._parser = Markdown(
                extensions=self._config.markdown_extensions, extension_configs=self._config.mdx_configs or {}
            )
            if {pattern.name for pattern in self._parser.inlinePatterns._priority} <= _INLINE:
                # Before 20, the priority of the search for inline marks.
                self._parser.treeprocessors.register(_PlainTexts(self._parser), "labbook_plain_texts", 21)
        self._parser.reset()
        return self._parser


class _PlainTexts(Treeprocessor):  # type: ignore[misc]
    """Tells the parser of texts in which there is nothing to find: most cells of most tables."""

    def run(self, root: Element) -> None:
        """Marks them."""
        for element in root.iter():
            text = element.text
            if text and type(text) is str and not _MARKED.search(text):
                element.text = AtomicString(text)
