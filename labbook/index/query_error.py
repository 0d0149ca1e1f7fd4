"""A query that cannot be answered as it is, with the nearest known names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from labbook.errors import UsageError
from labbook.model.message import message
from labbook.model.run_fields import as_number

_SHOWN = 40
_ALIKE = 0.6
_IN_CHINESE = {
    "状态": "status", "结论": "verdict", "项目": "project", "实验": "experiment", "标签": "tag", "作者": "author",
    "框架": "framework", "脚本": "script", "症状": "symptom", "时长": "duration", "学习率": "lr", "优化器": "optimizer",
    "批大小": "batch_size", "失败": "failed", "完成": "finished", "中断": "interrupted", "健康": "healthy",
    "不健康": "unhealthy", "可疑": "suspect",
}  # fmt: skip
"""Chinese names of keys and values, which are English in queries; those of `query.js` are the same."""


class QueryError(UsageError):
    """A query with an unknown name or value."""


def nearest_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Returns the known names that are written like a name or mean the same in Chinese, the nearest first.

    There is none for a number.
    """
    if as_number(name) is not None:
        return []
    by_lower = {one.lower(): one for one in known}
    if _IN_CHINESE.get(name) in by_lower:
        return [by_lower[_IN_CHINESE[name]]]
    return [by_lower[low] for low in get_close_matches(name.lower(), by_lower, n=most, cutoff=_ALIKE)]


def unknown(
    key: str, name: str, known: Iterable[str], write: Callable[[str], str] = str, *, field: str = ""
) -> QueryError:
    """Returns the error for an unknown name or value, with the nearest one and a list of the known ones.

    Args:
        known: What is known, the most important first.
        write: Formats a known name for a query.
        field: The field that has no such value, if it is a value.
    """
    names = list(dict.fromkeys(known))
    listed = names[:_SHOWN] + ["..."] * (len(names) > _SHOWN)
    near = [write(one) for one in nearest_names(name, names)]
    parts = [message("terminal.query.near", names=near)] if near else []
    parts += [message("terminal.query.known", known=listed)] if listed else []
    return QueryError(key, name=name, parts=parts, field=field, advice="terminal.query.advice")
