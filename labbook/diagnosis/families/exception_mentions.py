"""Classes of exceptions that a report names and does not quote: "IndexError with my own data", "训练时报KeyError"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from labbook.diagnosis.text.hedging import SENTENCES, without_speculation
from labbook.diagnosis.text.stack_frames import split_class
from labbook.model.evidence import ObservedException

_CLASS = re.compile(
    r"(?<![\w.'\"`(])[`'\"*]{0,3}(?P<name>(?:[a-z_]\w{0,40}\.){0,6}_?[A-Z]\w{1,60}(?:Error|Exception|NotMet))"
    r"(?![\w.(])",
    re.ASCII,
)
_HAPPENS = re.compile(
    r"\b(?:get|gets|got|getting|see|seeing|saw|have|has|had|having|met|meet|face[sd]?|facing|encounter\w*|raise[sd]"
    r"|throws?"
    r"|thrown|threw|gives?|gave|fails?|failed|failing|crash\w*|stops?|stopped|ends?|ended|shows?|reports?|receiv\w+"
    r"|occur\w*|happen\w*|came|comes|when|while|during|after|in|at|on|with|for|why)\b"
    r"|报|出现|遇到|碰到|提示|抛|显示|发生|错误|异常|失败",
    re.IGNORECASE,
)
_SPOKEN_OF = re.compile(
    r"\b(?:catch\w*|caught|handl\w+|except|should|could|would|may|might|instead|custom|defin\w+|subclass\w*|fixe[sd]"
    r"|solve[sd]|no longer|not an?|without|suppress\w*|ignor\w+|like|e\.g)\b|不再|不会|捕获|避免|防止|解决了|修复",
    re.IGNORECASE,
)
"""Sentences on a class, in which it is not raised."""
_LONGEST = 240


def mentioned_exceptions(lines: Iterable[str]) -> Iterator[ObservedException]:
    """The exceptions of which sentences give no more than the class, in order.

    Args:
        lines: Of a report.
    """
    for line in lines:
        for sentence in SENTENCES.split(without_speculation(line[:2000])):
            found = _CLASS.search(sentence) if len(sentence) <= _LONGEST else None
            if found is None or _SPOKEN_OF.search(sentence):
                continue
            before, rest = sentence[: found.start()], sentence[: found.start()] + sentence[found.end() :]
            if _HAPPENS.search(rest) or not re.search(r"\w", before):
                module, name = split_class(found["name"])
                yield ObservedException(name, "", module)
