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
from labbook.store.text.templates import Templates, builtin_folder

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
    wanted: dict[str, bytes | Path] = {}
    say = Sentences(notebook.config.language_in_use())
    warnings: list[str] = []
    pages = {page.path: page for page in site_pages(source, templates)}
    notes = {}
    for file in _notes(notebook.paths.notes):
        path = file.relative_to(notebook.paths.notes).as_posix()
        if path in source.withheld:
            continue
        if stays_inside(file, notebook.paths.root):
            notes[path] = file
        else:
            warnings.append(say.line("terminal.site.left_out_link", path=path))
    warnings += [
        say.line("terminal.site.left_out_secret", path=path) for path in sorted(source.withheld) if path.endswith(".md")
    ]
    pages = {path: page for path, page in pages.items() if path not in notes}
    around = PageContext(source, templates, lambda path: _url(path, settings) if path in notes or path in pages else "")
    for path, page in pages.items():
        meta = {"title": inert(page.title), "hide": ["navigation", *(["toc"] if page.wide else [])]}
        wanted[f"{DOCS}/{path}"] = _markdown(meta | {"scripts": list(page.scripts)}, page.text())
    for path, file in notes.items():
        if path.endswith(".md"):
            made = _note(around, path, file, str(templates.words["site"]["broken_note"]), warnings, say)
            wanted[f"{DOCS}/{path}"] = _staged_content(path, made) if path in as_text else made
        elif not (path.startswith("runs/") and path.endswith("/run.json")):
            wanted[f"{DOCS}/{path}"] = file
    words, directories = templates.words, bool(settings["directory_urls"])
    feed = feed_file(source, words, settings["site_name"], settings["site_url"], directory_urls=directories)
    for data in (*site_files(source), feed):
        wanted[f"{DOCS}/{data.path}"] = data.read()
    for own in (builtin_folder() / "site", *([notebook.paths.templates / "site"] if trusted else [])):
        for file in _notes(own):
            path = file.relative_to(own).as_posix()
            # Other files are copied.
            wanted[f"{THEME if path.endswith('.html') else DOCS}/{path}"] = file
    listed = sorted(path for path in wanted if path.endswith(".md"))
    nav = theme.navigation([path.removeprefix(f"{DOCS}/") for path in listed], words["site"])
    wanted["mkdocs.yml"] = json.dumps(_settings(templates, settings, nav), ensure_ascii=False, indent=1).encode()
    _write(folder, wanted)
    return warnings


def _note(around: PageContext, path: str, file: Path, sentence: str, warnings: list[str], say: Sentences) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        content = f"notes/{path}: {error.strerror}".encode()
        warnings.append(say.line("terminal.site.not_readable", path=f"notes/{path}", reason=error.strerror or ""))
    note = site_note(content, f"notes/{path}", sentence, say=say)
    if note.problem:
        warnings.append(say.line("terminal.site.shown_as_text", problem=note.problem))
    text, title = around.markdown_and_title(path, note)
    meta = dict(note.meta)
    if title:
        meta["title"] = title
    bar = around.bar(path)
    if bar is not None:
        meta["labbook"] = bar
    if theme.is_listed(path):
        meta.setdefault("hide", ["navigation"])
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


def _notes(folder: Path) -> list[Path]:
    """Yields all files of a folder except hidden ones."""
    found = []
    for here, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(here) / name for name in sorted(names) if not name.startswith(".")]
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
        for file in _notes(folder / part):
            if file.relative_to(folder).as_posix() not in wanted:
                file.unlink()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
