"""MkDocs hooks of the documentation: adds the pages that are generated from the code, at build time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from catalogue import catalogue_pages
from mkdocs.structure.files import File
from reference import exported_names, reference_pages

from labbook.store.text.words_files import builtin_folder

_STYLES = "assets/labbook.css"
"""The look of a notebook's site, which the documentation shares."""


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401 - collections of MkDocs
    """Adds the symptom catalogue, the reference pages and the style sheet to the files of the site."""
    catalogue = catalogue_pages(str(config.extra["symptoms"]).split())
    for path, text in {**catalogue, **reference_pages()}.items():
        files.append(File.generated(config, path, content=text))
    styles = builtin_folder() / "site" / _STYLES
    files.append(File.generated(config, _STYLES, abs_src_path=str(styles)))
    return files


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:  # noqa: ANN401 - a page of MkDocs
    """Shows signatures under the names by which labbook exports them, not those of their definitions."""
    if page.file.src_uri == "reference/python.md":
        for defined, exported in exported_names().items():
            html = re.sub(rf"\b{defined}\b(?=</span>|\()", exported, html)
    return html


def on_post_page(output: str, page: Any, config: Any) -> str:  # noqa: ANN401 - a page of MkDocs
    """Gives Chinese pages their language, which screen readers, search engines and fonts go by."""
    if page.file.src_uri.startswith("zh/"):
        output = re.sub(r'<html lang="\w+"', '<html lang="zh"', output, count=1)
        return output.replace("Table of contents", "目录")
    return output


def on_post_build(config: Any) -> None:  # noqa: ANN401 - a configuration of MkDocs
    """Separates Chinese characters in the search index, so that words inside a sentence are found.

    The theme would segment them with jieba, which has had no release since 2020; its search splits a question by the
    terms of the index, so single characters do as well.
    """
    index = Path(config.site_dir) / "search" / "search_index.json"
    text = json.dumps(json.loads(index.read_bytes()), ensure_ascii=False, separators=(",", ":"))
    index.write_text(re.sub(r"(?<=[\u3400-\u9fff])(?=[\u3400-\u9fff])", "\u200b", text), encoding="utf-8")
