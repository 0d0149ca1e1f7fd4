"""The files of a site as MkDocs finds them, quickly, and what all of its pages have in common."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel, get_files
from mkdocs.utils import markdown_extensions

from labbook import __version__
from labbook.publish.build_record import key_of, state_of, state_of_folders
from labbook.store.templates import builtin_folder

if TYPE_CHECKING:
    from labbook.publish.plugin import LabbookPlugin

_VERSIONS = ("mkdocs", "mkdocs-material", "Markdown", "pymdown-extensions", "Pygments", "Jinja2")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class SiteFiles(Files):
    """Files that note which of them were asked for."""

    asked: set[str] | None = None
    in_nav_only = False

    def get_file_from_path(self, path: str) -> File | None:
        """The file with this path."""
        name = PurePath(path).as_posix()
        if self.asked is not None:
            self.asked.add(name)
        return self._src_uris.get(name)

    def documentation_pages(
        self, *, inclusion: Callable[[InclusionLevel], bool] = InclusionLevel.is_included
    ) -> Sequence[File]:
        """All pages, or those that may be in the navigation."""
        pages = super().documentation_pages(inclusion=inclusion)
        return [page for page in pages if page.inclusion.value >= 0] if self.in_nav_only else pages


def site_files(config: MkDocsConfig) -> SiteFiles:
    """All files of the notes and of the theme."""
    files = SiteFiles(get_files(config))
    _add_theme(files, config)
    return files


def states_of_notes(folder: Path) -> dict[str, str]:
    """Path of each file below `notes/` -> its state; none for one whose content may change without being seen."""
    now_ns = time.time_ns()
    found = {}
    for here, _, names in os.walk(folder, followlinks=True):
        below = os.path.relpath(here, folder)
        prefix = "" if below == "." else f"{PurePath(below).as_posix()}/"
        for name in names:
            state = state_of(f"{here}/{name}", now_ns, gone="")
            if state:
                found[prefix + name] = state
    return found


def _add_theme(files: SiteFiles, config: MkDocsConfig) -> None:
    """Adds the theme's files, without looking through its ten thousand icons, which no site holds."""
    kept_out = (".py", ".pyc", ".html", *markdown_extensions)
    for folder in config.theme.dirs:
        for here, folders, names in os.walk(folder, followlinks=True):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            below = PurePath(os.path.relpath(here, folder)).as_posix()
            for name in sorted(names):
                path = name if below == "." else f"{below}/{name}"
                low = path.lower()
                if name.startswith(".") or low.endswith(kept_out) or "readme" in low or low == "mkdocs_theme.yml":
                    continue
                if low.startswith("locales/") or path in config.theme.static_templates or path in files.src_uris:
                    continue
                files.append(File(path, folder, config.site_dir, config.use_directory_urls))


def key_of_settings(config: MkDocsConfig) -> str:
    """Key of what all pages share: settings, overrides of the theme, templates, words, versions, this program."""
    left_out = {"plugins", "hooks", "theme", "dev_addr", "watch"}
    told = {name: repr(value) for name, value in config.items() if name not in left_out}
    theme = {name: config.theme[name] for name in config.theme}
    plugin: LabbookPlugin = config.plugins["labbook"]  # type: ignore[assignment]
    # What pages are made from by all other code is part of their own keys.
    here = Path(__file__).parent
    spec = find_spec("material")
    brought = tuple(spec.submodule_search_locations or ()) if spec else ()
    own = [Path(folder) for folder in config.theme.dirs if not folder.startswith(brought)]
    return key_of(
        __version__,
        [_version(name) for name in _VERSIONS],
        _ADDRESS.sub("", repr(sorted(told.items()))),
        _ADDRESS.sub("", repr(sorted(theme.items(), key=lambda item: str(item[0])))),
        state_of_folders([*own, builtin_folder(), here, here.parent / "store", plugin.notebook.paths.templates]),
        repr(plugin.templates.words["site"]),
        [os.environ.get("SOURCE_DATE_EPOCH", ""), time.tzname],
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
