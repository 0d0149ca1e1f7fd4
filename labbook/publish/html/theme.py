"""Sets the defaults of the configuration of a site, and colours entries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from labbook.publish.html.page_safety import POLICY as POLICY
from labbook.store.text.templates import LANGUAGES, words
from labbook.store.text.words_files import builtin_folder

STYLES = (
    "assets/labbook.css",
    "assets/home.css",
    "assets/symptoms.css",
    "assets/runs.css",
    "assets/runs_preview.css",
    "assets/compare.css",
    "assets/search.css",
    "assets/curves.css",
)

EXTENSIONS: dict[str, dict[str, Any]] = {
    "admonition": {},
    "attr_list": {},
    "md_in_html": {},
    "tables": {},
    "toc": {"permalink": True},
    "pymdownx.highlight": {"use_pygments": True, "guess_lang": False},
    "pymdownx.superfences": {"custom_fences": []},
}
"""Markdown extensions of entries. No snippets or macros: captured text must not include files."""

FEATURES = ["navigation.tabs", "navigation.tabs.sticky", "navigation.top", "content.code.copy", "content.action.edit"]

PALETTE = [
    {
        "media": "(prefers-color-scheme: light)",
        "scheme": "default",
        "primary": "custom",
        "accent": "custom",
        "toggle": {"icon": "material/weather-night", "name": "Dark"},
    },
    {
        "media": "(prefers-color-scheme: dark)",
        "scheme": "slate",
        "primary": "custom",
        "accent": "custom",
        "toggle": {"icon": "material/weather-sunny", "name": "Light"},
    },
]

REPLACED = ("search", "material/search")
"""Plugins that labbook replaces; older notebooks still have them."""

_MATERIALS_FONT = {"text": "Roboto", "code": "Roboto Mono"}
"""Defaults of the theme that load files of other hosts."""

_TABS = {
    "runs": "runs",
    "experiments": "experiments",
    "symptoms": "symptoms",
    "fixes": "fixes_all",
    "reports": "reports",
}
"""Sections with a tab, and their words."""

_LISTED = ("runs", "experiments", "symptoms", "reports")
"""Sections whose pages are linked from a list."""
_UNLISTED = ("index.md", "fixes/index.md", "compare/index.md")
"""Pages with a tab, or linked from one."""
_VERDICTS = ("ok", "warn", "fail", "note", "not observed")


def prepare(config: Any, own: Path | None) -> None:  # noqa: ANN401 - a configuration of MkDocs
    """Adds overrides, styles, Markdown extensions and defaults to a configuration; settings of people win.

    Args:
        own: Theme overrides of the notebook, if trusted.
    """
    custom = 1 if config.theme.custom_dir else 0
    folders = [str(folder) for folder in (own, builtin_folder() / "site") if folder and folder.is_dir()]
    config.theme.dirs[custom:custom] = folders
    config.extra_css[:0] = [path for path in STYLES if path not in config.extra_css]
    for name, settings in EXTENSIONS.items():
        if name not in config.markdown_extensions:
            config.markdown_extensions.append(name)
        config.mdx_configs[name] = {**settings, **(config.mdx_configs.get(name) or {})}
    config.mdx_configs["toc"].setdefault("slugify", _slug)
    if config.theme.get("font") in (None, _MATERIALS_FONT):
        config.theme["font"] = False
    for key, value in (("palette", PALETTE), ("features", FEATURES)):
        if not config.theme.get(key):
            config.theme[key] = value
    config.theme["icon"] = {"logo": "material/notebook-outline", **(config.theme.get("icon") or {})}
    config.extra.setdefault("generator", False)
    if config.repo_url and str(config.edit_uri or "").endswith("/master/docs/"):
        # The guess of MkDocs is wrong for notebooks.
        config.edit_uri = config.edit_uri.replace("/master/docs/", f"/main/{Path(config.docs_dir).name}/")


def policy(extra: Mapping[str, Any]) -> str:
    """Returns the content security policy: `extra: content_security_policy` in `mkdocs.yml`, or the default.

    A team adds hosts of analytics scripts or fonts there; `{scripts}` represents the scripts of the theme.
    """
    own = extra.get("content_security_policy")
    return POLICY if own is None else str(own or "")


def without_built_in_search(plugins: Any) -> None:  # noqa: ANN401 - a collection of plugins of MkDocs
    """Removes the search of the theme, which loads an index of all pages."""
    for name in REPLACED:
        plugin = plugins.pop(name, None)
        if plugin is not None:
            for event, methods in plugins.events.items():
                # A new list, because the old one may be iterated right now.
                plugins.events[event] = [each for each in methods if getattr(each, "__self__", None) is not plugin]


def is_listed(source: str) -> bool:
    """Whether a page is linked from a list, and therefore not in the navigation."""
    section, _, rest = source.partition("/")
    return section in _LISTED and rest != "index.md"


def navigation(sources: Sequence[str], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns the tabs of the site: home, runs, experiments, symptoms, fixes, reports, other notes."""
    nav: list[dict[str, Any]] = [{str(labels["home"]): "index.md"}]
    nav += [{str(labels[word]): f"{section}/index.md"} for section, word in _TABS.items()]
    others = sorted(s for s in sources if s.split("/")[0] not in _LISTED and s not in _UNLISTED)
    if others:
        nav.append({str(labels["notes"]): list(others)})
    return nav


def coloured(html: str) -> str:
    """Returns the page of an entry with coloured status and verdicts; tables and folds are not searched.

    A notebook may have entries in both languages.
    """
    for plain, pill in _pills():
        html = html.replace(plain, pill)
    return re.sub(r"<(details|table)\b", r"<\1 data-search-exclude", html)


@cache
def _pills() -> list[tuple[str, str]]:
    """Returns HTML of an entry -> its replacement."""
    found = []
    for labels in map(words, LANGUAGES):
        for status, word in labels["status"].items():
            opening = "<p><strong"
            found.append((f"{opening}>{word}</strong>", f'{opening} class="lb-status lb-{status}">{word}</strong>'))
        for verdict, word in labels["run_verdict"].items():
            pill = f'· <strong class="lb-status lb-{verdict}">{word}</strong>'
            found.append((f"· <strong>{word}</strong>", pill))
        for verdict in _VERDICTS:
            word = str(labels["verdicts"].get(verdict, verdict)).strip("*")
            pill = f'<td><span class="lb-verdict lb-{verdict.replace(" ", "-")}">{word}</span></td>'
            found += [(f"<td>{word}</td>", pill), (f"<td><strong>{word}</strong></td>", pill)]
    return found


def _slug(text: str, separator: str) -> str:
    """Returns the anchor of a heading in any language, as on git hosts."""
    kept = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return re.sub(r"[ ]+", separator, kept)
