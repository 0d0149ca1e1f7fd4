"""Renders header, navigation, styles and footer once for all pages outside of the navigation.

The theme renders them for each page, a fifth of a build. On pages outside of the navigation they differ only in the
title and in the addresses of links, which depend on the folder. A part is reused only after two pages had the same one,
and only with the unmodified theme for which this was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from labbook.store.text.words_files import builtin_folder

_BLOCKS = ("styles", "libs", "fonts", "analytics", "header", "tabs", "footer", "config", "scripts")
"""Blocks of `base.html` of the theme."""

_PARTIALS = (
    "partials/nav.html",
    "partials/top.html",
    "partials/javascripts/base.html",
    "partials/javascripts/content.html",
)

_WORDS = "the title stands here"
_TITLE = f"\x02{_WORDS}\x03"
"""Placeholder of the title in the header: control characters, which no title has."""

Render = Callable[..., Iterator[str]]


class FrameParts:
    """The rendered parts of one build.

    Args:
        outside: Whether a page is neither in the navigation nor in one of its sections.
        addresses: Addresses of the pages in the navigation.
    """

    def __init__(
        self,
        config: Any,  # noqa: ANN401 - of MkDocs
        outside: Callable[[Any], bool],
        addresses: list[str],
    ) -> None:
        self._outside = outside
        settings = (addresses, config.extra, config.extra_css, config.extra_javascript, config.copyright)
        self._addresses = repr((*settings, {name: config.theme[name] for name in config.theme}))
        self._known: dict[tuple[str, str], list[str]] = {}
        self._unlike: set[str] = set()
        self._place = cache(self._place_of)

    def install(self, env: Any) -> None:  # noqa: ANN401 - of Jinja2
        """Makes the templates of the theme use the rendered parts."""
        base = env.get_template("base.html")
        for name in _BLOCKS:
            if name in base.blocks:
                base.blocks[name] = self._render_once(name, base.blocks[name])
        for name in _PARTIALS:
            template = env.get_template(name)
            template.root_render_func = self._render_once(name, template.root_render_func)

    def _render_once(self, name: str, render: Render) -> Render:
        def render_part(context: Any, *given: Any, **named: Any) -> Iterator[str]:  # noqa: ANN401 - of Jinja2
            page = context.get("page")
            if name in self._unlike or page is None or not self._outside(page):
                yield from render(context, *given, **named)
                return
            key = (name, self._place(page.url))
            title = str(page.meta.get("title") or page.title)
            known = self._known.setdefault(key, [])
            if len(known) == 2:
                yield known[0].replace(_TITLE, title)
                return
            meta = page.meta
            page.meta = {**meta, "title": _TITLE}
            try:
                made = "".join(render(context, *given, **named))
            finally:
                page.meta = meta
            known.append(made)
            if known[0] != made or _WORDS in made.replace(_TITLE, ""):
                self._unlike.add(name)
                yield from render(context, *given, **named)
            else:
                yield made.replace(_TITLE, title)

        return render_part

    def _place_of(self, url: str) -> str:
        """Returns what the links of a page depend on: its depth, and its folder if a link leads there."""
        parts = PurePosixPath(url).parts[: None if url.endswith("/") else -1]
        if len(parts) < 2 or f"{parts[0]}/{parts[1]}" in self._addresses:
            return "/".join(parts)
        return f"{parts[0]}:{len(parts)}"


def can_use_parts(config: Any) -> bool:  # noqa: ANN401 - of MkDocs
    """Whether only labbook overrides templates of the theme; other overrides may differ on each page."""
    ours = builtin_folder() / "site"
    brought = [Path(folder) for folder in config.theme.dirs if Path(folder) != ours]
    if config.theme.name != "material" or config.theme.custom_dir:
        return False
    found = [spec for spec in (find_spec("material"), find_spec("mkdocs")) if spec is not None]
    themes = tuple(folder for spec in found for folder in spec.submodule_search_locations or ())
    return all(str(folder).startswith(themes) or not any(folder.rglob("*.html")) for folder in brought)
