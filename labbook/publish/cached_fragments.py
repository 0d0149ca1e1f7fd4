"""Parts of the theme's frame that are the same on every page of an entry, rendered once in a build.

The theme renders header, navigation, styles and footer for each page anew: a fifth of a build. On pages that do not
stand in the navigation they tell one page from another by nothing but the title in the header and the addresses of
links, which depend on the folder. Nothing of that is taken on trust: a part is used again once two pages have had the
same, and only where the theme is the one that this was written for, without overrides of its templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from labbook.store.templates import builtin_folder

_BLOCKS = ("styles", "libs", "fonts", "analytics", "header", "tabs", "footer", "config", "scripts")
"""Blocks of the theme's `base.html`."""

_PARTIALS = (
    "partials/nav.html",
    "partials/top.html",
    "partials/javascripts/base.html",
    "partials/javascripts/content.html",
)

_WORDS = "the title stands here"
_TITLE = f"\x02{_WORDS}\x03"
"""In the header, in place of a page's title. No title has these characters: they are control characters."""

Render = Callable[..., Iterator[str]]


class FrameParts:
    """What has been rendered of the frame in one build.

    Args:
        config: Of MkDocs, complete.
        outside: Whether a page of the site stands neither in the navigation nor belongs to a section of it.
        addresses: Of the pages in the navigation.
    """

    def __init__(
        self,
        config: Any,  # noqa: ANN401 - of MkDocs
        outside: Callable[[Any], bool],
        addresses: list[str],
    ) -> None:
        self._outside = outside
        said = (addresses, config.extra, config.extra_css, config.extra_javascript, config.copyright)
        self._addresses = repr((*said, {name: config.theme[name] for name in config.theme}))
        self._known: dict[tuple[str, str], list[str]] = {}
        self._unlike: set[str] = set()
        self._place = cache(self._place_of)

    def install(self, env: Any) -> None:  # noqa: ANN401 - of Jinja2
        """Makes the theme's templates take what is known."""
        base = env.get_template("base.html")
        for name in _BLOCKS:
            if name in base.blocks:
                base.blocks[name] = self._once(name, base.blocks[name])
        for name in _PARTIALS:
            template = env.get_template(name)
            template.root_render_func = self._once(name, template.root_render_func)

    def _once(self, name: str, render: Render) -> Render:
        def part(context: Any, *given: Any, **named: Any) -> Iterator[str]:  # noqa: ANN401 - of Jinja2
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

        return part

    def _place_of(self, url: str) -> str:
        """What links from a page depend on: how deep it lies, and its folder as far as any link leads there."""
        parts = PurePosixPath(url).parts[: None if url.endswith("/") else -1]
        if len(parts) < 2 or f"{parts[0]}/{parts[1]}" in self._addresses:
            return "/".join(parts)
        return f"{parts[0]}:{len(parts)}"


def can_use_parts(config: Any) -> bool:  # noqa: ANN401 - of MkDocs
    """Whether nobody but labbook has overrides of the theme: they may show something else on each page."""
    ours = builtin_folder() / "site"
    brought = [Path(folder) for folder in config.theme.dirs if Path(folder) != ours]
    if config.theme.name != "material" or config.theme.custom_dir:
        return False
    found = [spec for spec in (find_spec("material"), find_spec("mkdocs")) if spec is not None]
    themes = tuple(folder for spec in found for folder in spec.submodule_search_locations or ())
    return all(str(folder).startswith(themes) or not any(folder.rglob("*.html")) for folder in brought)
