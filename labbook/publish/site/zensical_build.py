"""Builds the site with Zensical, the successor of Material for MkDocs, which has no plugins: see `staging`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labbook.errors import NotebookError, UsageError
from labbook.publish.html import theme
from labbook.publish.html.page_safety import add_policy, page_problems, script_hashes, without_indents
from labbook.publish.pages.build_record import files_below
from labbook.publish.pages.site_data import site_source
from labbook.publish.site.mkdocs_settings import SafeSettings, read_settings
from labbook.publish.site.post_build import finish_site
from labbook.publish.site.site_folder import check_site_folder, note_written, replace_site
from labbook.publish.site.staging import DOCS, stage
from labbook.store.notebook import Notebook
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates

_LONGEST_S = 3600.0
_BASE = re.compile(r'new URL\("[./]*",location\)')
_CONTENT = re.compile(r"<article\b.*</article>", re.DOTALL)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def build_with_zensical(
    notebook: Notebook, chosen: Path | None = None, *, trusted: bool = False
) -> tuple[Path, int, list[str]]:
    """Builds the whole site into the folder of `mkdocs.yml`, or into the chosen one.

    Returns:
        Folder of the site, number of pages, warnings on the notes.

    Raises:
        UsageError: Zensical is not installed.
        NotebookError: `mkdocs.yml` is unusable, or the folder of the site is refused.
    """
    if find_spec("zensical") is None:
        raise UsageError("errors.site.no_zensical")
    safe = read_settings(notebook.paths.root)
    settings, site = _settings(safe, notebook)
    site = chosen.absolute() if chosen is not None else site
    check_site_folder(notebook.paths.root, site, chosen)
    language = "zh" if settings["language"].startswith("zh") else "en"
    templates = Templates(notebook.paths.templates, language)
    say = Sentences(notebook.config.language_in_use())
    source = site_source(notebook, time.time(), language)
    folder = notebook.paths.private / "zensical"
    if folder.is_symlink():
        folder.unlink()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    warnings = [] if trusted or not safe.left_out else [safe.warning(say)]
    warnings += stage(notebook, source, templates, folder, settings, trusted=trusted)
    _run(folder)
    acting = _finish_pages(folder / "site")
    if acting:
        # Active content is known once a page is built: its note is shown as text in a second build.
        for page, what in acting.items():
            problem = f"notes/{page}: {say.line('terminal.site.has', names=[what])}"
            warnings.append(say.line("terminal.site.shown_as_text", problem=problem))
        stage(notebook, source, templates, folder, settings, as_text=frozenset(acting), trusted=trusted)
        _run(folder)
        left = _finish_pages(folder / "site")
        if left:
            raise NotebookError("errors.site.unsafe_page", page=next(iter(left)), what=next(iter(left.values())))
    pages = replace_site(site, folder / "site", notebook.paths.private / "site.json")
    problem = finish_site(notebook, source, site, directory_urls=settings["directory_urls"])
    note_written(site, files_below(folder / "site"))
    return site, pages, [*warnings, *([problem] if problem else [])]


def _settings(safe: SafeSettings, notebook: Notebook) -> tuple[dict[str, Any], Path]:
    """Returns the used settings of `mkdocs.yml`, and the folder of the site."""
    values = safe.values
    look = values.get("theme")
    settings = {
        "site_name": notebook.config.name_of_site(str(values.get("site_name") or "")),
        "language": str((look.get("language") if isinstance(look, Mapping) else "") or "en"),
        "directory_urls": values.get("use_directory_urls", True) is not False,
        **{key: str(values.get(key) or "") for key in ("site_url", "repo_url", "edit_uri")},
    }
    return settings, notebook.paths.root / str(values.get("site_dir") or "site")


def _run(folder: Path) -> None:
    # Pages of an earlier build are modified already, so none is reused.
    shutil.rmtree(folder / "site", ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "-f", "mkdocs.yml"]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_LONGEST_S, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotebookError("errors.site.zensical_not_run", reason=error) from error
    if done.returncode:
        lines = _ESCAPES.sub("", done.stderr + done.stdout).strip().splitlines() or ["it says nothing"]
        raise NotebookError("errors.site.zensical_failed", reason=lines[-1], folder=folder)


def _finish_pages(made: Path) -> dict[str, str]:
    """Colours, checks and protects all pages; returns the notes with active content, and its description."""
    known = _scripts(without_indents((made / "404.html").read_text("utf-8")))
    acting = {}
    for file in made.rglob("*.html"):
        page = file.read_text("utf-8")
        content = found[0] if (found := _CONTENT.search(page)) else ""
        before, _, after = page.partition(content) if content else (page, "", "")
        done = without_indents(before) + theme.coloured(content) + without_indents(after)
        scripts = [one for one, text in _scripts(done).items() if text in known.values()]
        problems = page_problems(done, scripts)
        if problems:
            name = file.relative_to(made).as_posix()
            note = name.removesuffix(".html") + ".md"
            if not (made.parent / DOCS / note).is_file():
                note = name.removesuffix("/index.html") + ".md"
            acting[note] = ", ".join(dict.fromkeys(problems))
        file.write_text(add_policy(done, scripts), "utf-8")
    return acting


def _scripts(page: str) -> dict[str, str]:
    """Returns hash -> text of the scripts in a page, without the path from the page to the site root."""
    found = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    return {script_hashes(f"<script>{text}</script>")[0]: _BASE.sub("", text) for text in found if text.strip()}
