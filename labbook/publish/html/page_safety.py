"""Content security policy of the pages, and a check of each finished page. Pure.

A page must only run and load files of the site, whatever its note contains. The policy makes browsers enforce that;
the check makes sure that nothing else is in the page.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' {scripts}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src 'self'; media-src 'self'; "
    "manifest-src 'self'; base-uri 'self'; form-action 'none'; object-src 'none'"
)
"""`wasm-unsafe-eval` permits the WebAssembly of the search, but no text as script."""

_TAG = re.compile(
    r"<(?:"
    r"(?P<comment>!--(?!-?>)(?:(?!--!>).)*?-->)"
    r"|(?P<other>!doctype\b[^>\"']*>|/[a-zA-Z][^\s/>\"'<]*\s*>)"
    r"|(?P<name>[a-zA-Z][^\s/>\"'=<]*)"
    r"(?P<attributes>(?:\s+[^\s\"'<>/=]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+))?)*)\s*/?>"
    r"|(?P<odd>[a-zA-Z!?/]))",
    re.DOTALL | re.IGNORECASE,
)
"""Well-formed tags; anything else is `odd`."""

_BARE = re.compile(
    r"[^<]*(?:</?(?:t[dhr]|tbody|thead|table|p|ul|ol|li|code|strong|em|span|h[1-6]|div|a|pre|summary|details)>[^<]*)*"
)
"""Text with harmless tags: most of a table."""

_ATTRIBUTE = re.compile(r"([^\s=\"'<>/]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+)))?")
_SCRIPT_END = re.compile(r"</script(?=[\s/>])", re.IGNORECASE)
_ADDRESSES = {"href", "src", "action", "formaction", "xlink:href", "srcset", "poster", "data", "background", "ping"}
_FORBIDDEN = {
    *("?", "iframe", "frame", "frameset", "object", "embed", "applet", "base", "portal", "plaintext"),
    *("animate", "set", "foreignobject"),
}
_NOT_LOADED = {"canonical", "alternate", "prev", "next", "author", "license", "me", "help", "edit"}
_LOADING = {"img", "audio", "video", "source", "track", "image", "use", "input", "feimage"}
_SCRIPT = re.compile(r"<script(?=[\s>])([^>]*)>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_DATA_TYPE = re.compile(r"type\s*=\s*[\"']?application/(?:ld\+)?json\b", re.IGNORECASE)
_HEAD = re.compile(r"<meta charset=[^>]*>|<head[^>]*>", re.IGNORECASE)
_FOREIGN = re.compile(r"(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
_INDENT = re.compile(r"\n\s+")
_CODE = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)
_MOST_KEPT = 300
"""Longest attributes of a tag whose check is cached."""

_SPACE = re.compile(r"[\x00-\x20]+")


def script_hashes(page: str) -> tuple[str, ...]:
    """Returns the distinct hashes of the scripts in a page, as in a policy."""
    found = (_hash(text) for kind, text in _SCRIPT.findall(page) if text.strip() and not _DATA_TYPE.search(kind))
    return tuple(dict.fromkeys(found))


def add_policy(page: str, scripts: Collection[str], policy: str = POLICY) -> str:
    """Returns the page with its policy in front of everything that the policy governs.

    Args:
        scripts: Hashes of the scripts of the theme; no other script runs.
        policy: The policy with `{scripts}` in place of the hashes; "" for none.
    """
    if not policy:
        return page
    content = html.escape(policy.replace("{scripts}", " ".join(scripts)).replace(" ;", ";"))
    meta = f'<meta http-equiv="Content-Security-Policy" content="{content}">'.replace("&#x27;", "'")
    return _HEAD.sub(lambda found: f"{found[0]}\n      {meta}", page, count=1)


def without_indents(frame: str) -> str:
    """Returns the frame of the theme without the white space of its templates, a quarter of it; code stays as it is.

    On the page of a run, links are between the title and the rest: its content is not in the page as one part.
    """
    parts = _CODE.split(frame)
    parts[::2] = [_INDENT.sub("\n", part) for part in parts[::2]]
    return "".join(parts)


def page_problems(page: str, scripts: Collection[str] = ()) -> list[str]:
    """Returns descriptions of active or loading content in a page; empty for a safe page.

    Cost: 1 ms for a page of 30 kB.
    """
    found: list[str] = []
    for name, written, raw in _elements(page):
        if len(written) <= _MOST_KEPT:
            found += _known_problems(name, written)
        else:
            found += _element_problems(name, written)
        if name == "script" and raw.strip():
            attributes = _attributes(written)
            if "src" not in attributes and not _is_data(attributes) and _hash(raw) not in scripts:
                found.append("a script of its own")
    return found


def foreign_pictures(content: str) -> list[str]:
    """Returns addresses of pictures on other hosts, which the policy blocks."""
    if "//" not in content:
        return []
    sources = [_attributes(written).get("src", "") for name, written, _ in _elements(content) if name in _LOADING]
    return [source for source in sources if _FOREIGN.match(source) and not source.startswith("data:image/")]


def _element_problems(name: str, written: str) -> tuple[str, ...]:
    """Returns descriptions of active or loading content of an opening tag; `written` are its attributes."""
    found = []
    if name in _FORBIDDEN:
        found.append(f"<{name}>" if name != "?" else "a tag that browsers have to guess at")
    attributes = _attributes(written)
    refreshed = name == "meta" and attributes.get("http-equiv", "").lower() == "refresh"
    if refreshed and ":" in attributes.get("content", ""):
        found.append("<meta> that leaves the site")
    for key, value in attributes.items():
        if key.startswith("on") and len(key) > 2:
            found.append(f"{key} of <{name}>")
        elif key in _ADDRESSES:
            found += _address_problem(name, key, value, attributes)
    return tuple(found)


_known_problems = lru_cache(maxsize=4096)(_element_problems)
"""Cached, because most tags of a site occur a thousand times."""


def _attributes(written: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for key, double, single, bare in _ATTRIBUTE.findall(written):
        attributes.setdefault(key.lower(), double or single or bare)
    return attributes


def _is_data(attributes: dict[str, str]) -> bool:
    return attributes.get("type", "").lower() in ("application/json", "application/ld+json")


def _address_problem(name: str, key: str, value: str, attributes: dict[str, str]) -> list[str]:
    address = _SPACE.sub("", html.unescape(value)).lower()
    scheme = address.partition(":")[0]
    if scheme in ("javascript", "vbscript"):
        return [f"{scheme}: in {key} of <{name}>"]
    if scheme == "data" and not (name in _LOADING and address.startswith("data:image/")):
        return [f"data: in {key} of <{name}>"]
    foreign = bool(_FOREIGN.match(address))
    if name == "script" and foreign:
        return [f"<script> from {value[:80]}"]
    if name == "link" and foreign and not {*attributes.get("rel", "").lower().split()} <= _NOT_LOADED:
        return [f"<link> to {value[:80]}"]
    if key in ("action", "formaction") and foreign:
        return [f"{key} of <{name}> to {value[:80]}"]
    return []


def _elements(page: str) -> Iterator[tuple[str, str, str]]:
    """Yields opening tags: name, raw attributes, text of a script; a malformed tag has the name "?".

    Only the content of scripts is skipped: in SVG, browsers find elements in styles, too.
    """
    place = 0
    while True:
        bare = _BARE.match(page, place)
        tag = _TAG.search(page, bare.end() if bare else place)
        if tag is None:
            return
        place = tag.end()
        if tag["odd"]:
            yield "?", "", ""
        if not tag["name"]:
            continue
        name = tag["name"].lower()
        raw = ""
        if name == "script":
            end = _SCRIPT_END.search(page, place)
            place, start = (end.start() if end else len(page)), place
            raw = page[start:place]
        yield name, tag["attributes"], raw


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
