"""Writes a folder from which a site generator without labbook's plugin builds the same site.

The work of the plugin is done in advance: notes are made safe, their context is in their front matter, generated pages
and data are added, and the settings have no plugin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from labbook.publish.html import theme
from labbook.publish.html.notes import inert, site_note
from labbook.publish.pages.feed import feed_file
from labbook.publish.pages.generated_pages import site_files, site_pages
from labbook.publish.pages.page import SiteSource
from labbook.publish.pages.page_context import PageContext
from labbook.publish.search.search_page import interface
from labbook.store.notebook import Notebook
from labbook.store.paths import stays_inside
from labbook.store.text import escape
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates
from labbook.store.text.words_files import builtin_folder

DOCS = "docs"
THEME = "theme"


def stage(
    notebook: Notebook,
    source: SiteSource,
    templates: Templates,
    folder: Path,
    settings: Mapping[str, Any],
    as_text: Container[str] = (),
    *,
    trusted: bool = False,
) -> list[str]:
    """Writes `docs/`, `theme/` and `mkdocs.yml`; unchanged files are not touched.

    Args:
        folder: Target; other files in it are removed.
        settings: Settings of the site: `site_name`, `site_url`, `repo_url`, `edit_uri`, `language`, `directory_urls`.
        as_text: Notes to show as text.
        trusted: Whether theme templates of the notebook are used.

    Returns:
        Warnings on the notes.

    Raises:
        OSError: It cannot be written.
    """
    say = Sentences(notebook.config.language_in_use())
    warnings: list[str] = []
    notes = _published_notes(notebook, source, warnings, say)
    pages = {page.path: page for page in site_pages(source, templates) if page.path not in notes}
    around = PageContext(source, templates, lambda path: _url(path, settings) if path in notes or path in pages else "")
    docs: dict[str, bytes | Path] = {path: _markdown(page.front_matter(), page.text()) for path, page in pages.items()}
    for path, file in notes.items():
        if path.endswith(".md"):
            made = _note(around, path, file, str(templates.words["site"]["broken_note"]), warnings, say)
            docs[path] = _staged_content(path, made) if path in as_text else made
        elif not (path.startswith("runs/") and path.endswith("/run.json")):
            docs[path] = file
    words, directories = templates.words, bool(settings["directory_urls"])
    feed = feed_file(source, words, settings["site_name"], settings["site_url"], directory_urls=directories)
    docs |= {data.path: data.read() for data in (*site_files(source), feed)}
    layouts: dict[str, Path] = {}
    for own in (builtin_folder() / "site", *([notebook.paths.templates / "site"] if trusted else [])):
        for path, file in _files_below(own).items():
            # Other files are copied.
            (layouts if path.endswith(".html") else docs)[path] = file
    nav = theme.navigation(sorted(path for path in docs if path.endswith(".md")), words["site"])
    _write(
        folder,
        {f"{DOCS}/{path}": content for path, content in docs.items()}
        | {f"{THEME}/{path}": file for path, file in layouts.items()}
        | {"mkdocs.yml": json.dumps(_settings(templates, settings, nav), ensure_ascii=False, indent=1).encode()},
    )
    return warnings


def _published_notes(notebook: Notebook, source: SiteSource, warnings: list[str], say: Sentences) -> dict[str, Path]:
    """Returns path -> file of what is below `notes/`, without secrets and without links that lead out."""
    notes = {}
    for path, file in _files_below(notebook.paths.notes).items():
        if path in source.withheld:
            continue
        if stays_inside(file, notebook.paths.root):
            notes[path] = file
        else:
            warnings.append(say.line("terminal.site.left_out_link", path=path))
    withheld = sorted(path for path in source.withheld if path.endswith(".md"))
    warnings += [say.line("terminal.site.left_out_secret", path=path) for path in withheld]
    return notes


def _note(around: PageContext, path: str, file: Path, sentence: str, warnings: list[str], say: Sentences) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        content = f"notes/{path}: {error.strerror}".encode()
        warnings.append(say.line("terminal.site.not_readable", path=f"notes/{path}", reason=error.strerror or ""))
    note = site_note(content, f"notes/{path}", sentence, say=say)
    if note.problem:
        warnings.append(say.line("terminal.site.shown_as_text", problem=note.problem))
    text, meta = around.text_and_front_matter(path, note)
    return _markdown(meta, text)


def _staged_content(path: str, content: bytes) -> bytes:
    text = content.decode("utf-8").partition("\n---\n")[2]
    return _markdown({"title": inert(path)}, escape.fence(text, "text"))


def _markdown(meta: Mapping[str, Any], text: str) -> bytes:
    """Returns a page with JSON as front matter, which every YAML parser reads alike."""
    return f"---\n{json.dumps(meta, ensure_ascii=True)}\n---\n\n{text}".encode("utf-8", "replace")


def _settings(templates: Templates, settings: Mapping[str, Any], nav: list[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "site_name": settings["site_name"],
        "docs_dir": DOCS,
        "site_dir": "site",
        "use_directory_urls": bool(settings["directory_urls"]),
        "theme": {
            "name": "material",
            "variant": "classic",
            "language": settings["language"],
            "font": False,
            "custom_dir": THEME,
            "features": [name for name in theme.FEATURES if name != "content.action.edit" or settings["repo_url"]],
            "palette": theme.PALETTE,
            "icon": {"logo": "material/notebook-outline"},
        },
        "plugins": [],
        "extra_css": list(theme.STYLES),
        "extra": {"generator": False, "labbook": interface(templates)},
        "markdown_extensions": [{name: options} if options else name for name, options in theme.EXTENSIONS.items()],
        "nav": nav,
    }
    return made | {key: settings[key] for key in ("site_url", "repo_url", "edit_uri") if settings.get(key)}


def _url(path: str, settings: Mapping[str, Any]) -> str:
    stem = path.removesuffix(".md")
    if not settings["directory_urls"]:
        return f"{stem}.html"
    return f"{stem.removesuffix('index')}" if stem.endswith("/index") or stem == "index" else f"{stem}/"


def _files_below(folder: Path) -> dict[str, Path]:
    """Returns path below the folder -> file, except hidden ones."""
    found: dict[str, Path] = {}
    for here, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = [Path(here, name) for name in sorted(names) if not name.startswith(".")]
        found |= {file.relative_to(folder).as_posix(): file for file in files}
    return found


def _write(folder: Path, wanted: Mapping[str, bytes | Path]) -> None:
    for here, folders, names in os.walk(folder):
        # A cloned notebook may have links here; nothing is written or removed through them.
        for link in filter(Path.is_symlink, (Path(here, name) for name in (*folders, *names))):
            link.unlink()
    for path, content in wanted.items():
        target = folder / path
        data = content if isinstance(content, bytes) else _read(content)
        if not target.is_file() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    for part in (DOCS, THEME):
        for path, file in _files_below(folder / part).items():
            if f"{part}/{path}" not in wanted:
                file.unlink()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
