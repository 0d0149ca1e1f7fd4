"""Writes one note as a document that stands alone: HTML, PDF, Markdown, a notebook, or a Word file.

Figures are inside the file. Nothing in a note runs: raw HTML that could act is shown as text. PDF is printed by
WeasyPrint if it is installed, else by a Chromium or Chrome of this machine; Word files are made by pandoc.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from labbook.errors import NotebookError, UsageError
from labbook.publish.html.notes import open_folds
from labbook.publish.html.page_safety import page_problems
from labbook.store.journal import write_atomically
from labbook.store.paths import stays_inside
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import read_text
from labbook.store.text.words_files import builtin_folder

Fill = Callable[[str], str]
FORMATS = ("html", "pdf", "md", "ipynb", "docx")

_EXTENSIONS = ("tables", "fenced_code", "sane_lists", "md_in_html", "attr_list", "toc", "footnotes", "admonition")
_PICTURES = {".svg": "svg+xml", ".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"}
_IMAGE = re.compile(r"(<img\b[^>]*?\bsrc=\")([^\"]+)(\")", re.IGNORECASE)
_RELATIVE_LINK = re.compile(r"<a\b[^>]*?\bhref=\"(?![a-z]+:|#|//)[^\"]*\"[^>]*>(.*?)</a>", re.IGNORECASE | re.DOTALL)
_MARKDOWN_IMAGE = re.compile(r"(!\[[^\]\n]*\]\()([^)\s]+)(\))")
_MARKDOWN_LINK = re.compile(
    r"(?P<code>^[ \t>*+-]*(?P<fence>`{3,}|~{3,}).*?^[ \t>]*(?P=fence)|`[^`\n]+`)"
    r"|(?<!!)\[(?P<text>(?:\\.|!\[[^\]\n]*\]\([^)\s]*\)|[^\[\]\\\n])*)\]\((?![a-z]+:|#|//)[^)\s]*\)",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
"""Code, or a link to another file of the notebook."""

_UNWRITTEN = re.compile(r"^## [^\n]+\n\s*<!--[^>]*-->\s*(?=^## |\Z)|^## [^\n]+\s*\Z", re.MULTILINE)
"""A section for people that still has only its hint, or the last one if it is empty."""

_SVG = re.compile(r"data:image/svg\+xml;base64,([\w+/=]+)")
_TAG = re.compile(r"<[a-z][^<>]*>", re.IGNORECASE)
_OUTSIDE = re.compile(
    r"""\s(?:src|srcset|data|poster|background)\s*=\s*(?!["']?data:)(?:"[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE
)
"""An address of a picture or a frame that is not inside the page."""

_MARKER = re.compile(r"^<!-- labbook:(?:begin|end) [^>]*-->\n?", re.MULTILINE)
_MAX_PICTURE = 20 * 2**20
_BROWSERS = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome", "microsoft-edge"),
)
_PRINT_S = 120


def write_document(note: Path, root: Path, to: str, target: Path, fill: Fill = str) -> None:
    """Writes a note as a document.

    Args:
        note: A Markdown file of the notebook.
        root: Folder of the notebook; pictures outside of it are left out.
        to: One of `FORMATS`.
        fill: Changes the text of the note before it is written.

    Raises:
        UsageError: The format is unknown.
        NotebookError: The note cannot be read, the file cannot be written, or the program for its format is missing.
    """
    if to not in FORMATS:
        raise UsageError("errors.document.unknown_format", to=to, formats=list(FORMATS))
    if to in ("md", "ipynb"):
        text = markdown_document(note, root, fill)
        _write(target, text if to == "md" else _notebook(text))
        return
    page = html_document(note, root, fill)
    if to == "html":
        _write(target, page)
    else:
        (_write_pdf if to == "pdf" else _write_word)(page, target)


def write_copy(note: Path, root: Path, to: str | None, output: str | None, fill: Fill = str) -> str:
    """Writes a note as a document and returns the path of the file.

    Args:
        to: One of `FORMATS`; `None` for the one that the file's name ends in.
        output: The file; `None` for the name of the note in the current folder.
        fill: Changes the text of the note before it is written.

    Raises:
        UsageError: The format is unknown.
        NotebookError: The document cannot be written.
    """
    kind = to or Path(output or "").suffix.lstrip(".").lower()
    target = Path(output) if output else Path(f"{note.stem}.{kind}")
    write_document(note, root, kind, target, fill)
    return str(target)


def html_document(note: Path, root: Path, fill: Fill = str) -> str:
    """Returns a note as one HTML page with its pictures and without scripts.

    Raises:
        NotebookError: The note cannot be read, or Python-Markdown is missing.
    """
    meta, body = _read(note)
    text = _without_markers(fill(body))
    page = _embed_pictures(_render(open_folds(text), raw=True), note, root)
    if page_problems(page):
        page = _embed_pictures(_render(text, raw=False), note, root)
    # The files that a note links to are not sent along.
    page = _RELATIVE_LINK.sub(r"\1", page)
    # Folded parts cannot be unfolded on paper.
    page = re.sub(r"<details\b(?![^>]*\bopen\b)", "<details open", page)
    title = html.escape(str(meta.get("title") or note.stem))
    style = (builtin_folder() / "document.css").read_text("utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        f'<!doctype html>\n<html><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title><style>{style}</style></head>\n'
        f"<body>\n{page}\n</body></html>\n"
    )


def markdown_document(note: Path, root: Path, fill: Fill = str) -> str:
    """Returns the Markdown of a note without front matter and markers, with its pictures inside.

    Raises:
        NotebookError: The note cannot be read.
    """
    _, body = _read(note)

    def replace_reference(found: re.Match[str]) -> str:
        return f"{found[1]}{_data_address(found[2], note, root) or found[2]}{found[3]}"

    # The files that a note links to are not sent along.
    text = _MARKDOWN_LINK.sub(lambda found: found["text"] or found[0], _without_markers(fill(body)))
    return _MARKDOWN_IMAGE.sub(replace_reference, text).strip() + "\n"


def _without_markers(body: str) -> str:
    """Returns the text of a note without markers and without sections that nobody has written."""
    return _UNWRITTEN.sub("", _MARKER.sub("", body))


def _read(note: Path) -> tuple[dict[str, object], str]:
    try:
        meta, body = frontmatter.parse(read_text(note), str(note))
    except OSError as error:
        raise NotebookError("errors.document.note_not_readable", note=note, reason=error) from error
    return dict(meta), body


def _render(text: str, *, raw: bool) -> str:
    try:
        import markdown
    except ImportError as error:
        raise NotebookError("errors.document.no_markdown") from error
    renderer = markdown.Markdown(extensions=list(_EXTENSIONS))
    if not raw:
        renderer = markdown.Markdown(extensions=[name for name in _EXTENSIONS if name != "md_in_html"])
        renderer.preprocessors.deregister("html_block")
        renderer.inlinePatterns.deregister("html")
    return str(renderer.convert(text))


def _embed_pictures(page: str, note: Path, root: Path) -> str:
    def replace_picture(found: re.Match[str]) -> str:
        address = _data_address(html.unescape(found[2]), note, root)
        return f"{found[1]}{address}{found[3]}"

    return _IMAGE.sub(replace_picture, page)


def _data_address(address: str, note: Path, root: Path) -> str:
    """Returns a picture of the notebook as a `data:` address, "" if it is none."""
    from urllib.parse import unquote

    address = unquote(address) if address.startswith("data%3A") else address  # as templates write addresses
    if address.startswith("data:image/"):
        return address
    kind = _PICTURES.get(Path(address).suffix.lower())
    path = note.parent / unquote(address)
    if kind is None or "://" in address or not stays_inside(path, root):
        return ""
    try:
        content = path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_PICTURE else b""
    except OSError:
        return ""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}" if content else ""


def _notebook(text: str) -> str:
    """Returns a Jupyter notebook with one Markdown cell for each section."""
    parts = [part for part in re.split(r"(?m)^(?=## )", text) if part.strip()]
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "id": f"section-{place}", "metadata": {}, "source": part.strip()}
        for place, part in enumerate(parts)
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, ensure_ascii=False) + "\n"


def _write_pdf(page: str, target: Path) -> None:
    try:
        import weasyprint
    except (ImportError, OSError):  # its libraries may be missing
        _print_in_browser(page, target)
        return
    _write(target, weasyprint.HTML(string=page).write_pdf())


def _print_in_browser(page: str, target: Path) -> None:
    browser = _find_browser()
    if browser is None:
        raise NotebookError("errors.document.no_pdf_program")
    with tempfile.TemporaryDirectory(prefix="labbook-print-") as folder:
        printed = Path(folder, "page.pdf")
        _browse(browser, page, Path(folder), "--no-pdf-header-footer", f"--print-to-pdf={printed}")
        if not printed.is_file():
            raise NotebookError("errors.document.nothing_printed", browser=browser)
        _write(target, printed.read_bytes())


def _find_browser() -> str | None:
    return next((found for name in _BROWSERS if (found := shutil.which(name))), None)


def _browse(browser: str, page: str, folder: Path, *words: str) -> None:
    """Opens a page without scripts in a browser without window, which does what the words say."""
    source = folder / "page.html"
    source.write_text(page, "utf-8")
    command = [browser, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}/profile"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    # Chromium refuses its sandbox to root; the page has no scripts, and its policy loads nothing.
    command += ["--no-sandbox"] if os.geteuid() == 0 else []
    _call([*command, *words, source.as_uri()], "the browser")


def _write_word(page: str, target: Path) -> None:
    pandoc = shutil.which("pandoc")
    if pandoc is None:
        raise NotebookError("errors.document.no_pandoc")
    with tempfile.TemporaryDirectory(prefix="labbook-word-") as folder:
        source, made = Path(folder, "page.html"), Path(folder, "page.docx")
        if shutil.which("rsvg-convert") is None:  # pandoc calls it, and Word shows no SVG without a picture beside it
            page = _SVG.sub(lambda found: _as_png(found[1], Path(folder)), page)
        # Nothing but these pictures is read: `--sandbox` is unknown to pandoc before 2.15, and fails in Debian's.
        page = _TAG.sub(lambda found: _OUTSIDE.sub("", found[0]), page)
        # The title of the page is its first heading, too, and pandoc writes both.
        source.write_text(re.sub(r"<title>[^<]*</title>", "", page, count=1), "utf-8")
        _call([pandoc, "-f", "html", "-o", str(made), str(source)], "pandoc")
        _write(target, made.read_bytes())


def _as_png(encoded: str, folder: Path) -> str:
    """Returns an SVG in base64 as the address of a PNG of twice its size, or as its own without a browser."""
    own = f"data:image/svg+xml;base64,{encoded}"
    size = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', base64.b64decode(encoded)[:2000])
    browser = _find_browser()
    if size is None or browser is None:
        return own
    taken = folder / "picture.png"
    taken.unlink(missing_ok=True)
    page = f'<style>body{{margin:0}}img{{display:block;width:{size[1].decode()}px}}</style><img src="{own}">'
    window = f"--window-size={round(float(size[1]))},{round(float(size[2]))}"
    with suppress(NotebookError):
        _browse(browser, page, folder, window, "--force-device-scale-factor=2", f"--screenshot={taken}")
    return f"data:image/png;base64,{base64.b64encode(taken.read_bytes()).decode()}" if taken.is_file() else own


def _call(command: list[str], who: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PRINT_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotebookError("errors.document.program_unusable", program=who, reason=error) from error
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise NotebookError("errors.document.program_failed", program=who, reason="".join(last)[:200])


def _write(target: Path, content: str | bytes) -> None:
    try:
        write_atomically(target, content.encode("utf-8", "replace") if isinstance(content, str) else content)
    except OSError as error:
        raise NotebookError("errors.document.not_written", target=target, reason=error) from error
