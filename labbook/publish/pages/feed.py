"""The feed of new entries as JSON Feed 1.1. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urljoin

from labbook.publish.pages.page import SiteFile, SiteSource
from labbook.report import numbers
from labbook.report.run_row import RunRow

NAME = "feed.json"
_NEWEST = 50


def feed_file(
    source: SiteSource, words: Mapping[str, Any], site_name: str, site_url: str, *, directory_urls: bool = False
) -> SiteFile:
    """Returns the feed of the newest runs.

    Args:
        words: Words in the language of the site.
        site_url: Address of the site; without it the entries have no addresses, which must be absolute.
        directory_urls: Whether pages are `runs/x/` instead of `runs/x.html`.
    """
    base = site_url if not site_url or site_url.endswith("/") else f"{site_url}/"
    feed: dict[str, Any] = {"version": "https://jsonfeed.org/version/1.1", "title": site_name}
    if base:
        feed |= {"home_page_url": base, "feed_url": urljoin(base, NAME)}
    feed["language"] = "zh-CN" if source.language == "zh" else "en"
    feed["items"] = [_item(row, words, base, directory_urls) for row in source.rows[:_NEWEST]]
    return SiteFile(NAME, json.dumps(feed, ensure_ascii=False, indent=1).encode() + b"\n")


def _item(row: RunRow, words: Mapping[str, Any], base: str, directory_urls: bool) -> dict[str, Any]:
    status = str(words["status"].get(row.status, row.status))
    value = row.last if row.last is not None else row.best
    verdict = str(words["run_verdict"].get(row.verdict, row.verdict))
    facts = [*dict.fromkeys((status, verdict)), numbers.duration(row.duration_s), row.script]
    if row.metric and value is not None:
        facts.append(f"{row.metric} {numbers.number(value)}")
    # The id of an entry does not depend on the address of the site.
    item: dict[str, Any] = {"id": f"labbook:{row.id or row.path}", "title": row.subject or row.id}
    if base:
        page = PurePosixPath(row.path.removeprefix("notes/")).with_suffix("")
        item["url"] = urljoin(base, quote(f"{page}/" if directory_urls else f"{page}.html"))
    item["content_text"] = " · ".join(fact for fact in facts if fact)
    if row.started > 0:
        item["date_published"] = datetime.fromtimestamp(row.started, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if row.author:
        item["authors"] = [{"name": row.author}]
    tags = [tag for tag in (row.status, row.verdict, row.experiment, *row.symptoms, *row.tags) if tag]
    return item | {"tags": list(dict.fromkeys(tags))}
