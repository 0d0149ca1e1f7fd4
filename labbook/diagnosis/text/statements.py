"""Sentences of people in which nothing failed: questions how something is done, advice, thanks, what never happened."""

from __future__ import annotations

import re

from labbook.diagnosis.text.hedging import SENTENCES

_ASKED = re.compile(
    r"^\W{0,6}(?:(?:how|what|where|when|which|is|are|does|do|can|could|should|would|may)\b(?! my\b)"
    r"(?!.{0,80}\b(?:but|however)\b)|请问(?:如何|怎样|是否|能否|可以)|如何|怎样|是否|能否|可否|有没有)",
    re.IGNORECASE,
)
"""A sentence that asks how something is done, or whether it is so."""
_HARMLESS = re.compile(
    r"没有?关系|正常(?:训练|运行|吗|现象)|想(?:知道|了解|问)|怎[么样](?!办|回事|解决|了|会|处理|破|改|调|弄|搞)|区别"
    r"|的话|偶尔会|可以(?:用|通过|使用|尝试)|建议|教程|原理|论文|优化了?(?=[^器]|$)|支持检测"
    r"|\b(?:is|are) (?:normal|expected|fine|ok)\b(?![^.]{0,8}\b(?:but|then|until|however)\b)|\bno problem\b"
    r"|\b(?:should|would|could) (?:be|raise|have|show"
    r"|print|support|allow|return|help)\b|\bmessages?\b"
    r"|\b(?:detect|check|test|watch|look)s? (?:if|whether|when|for|that)\b"
    r"|\b(?:ways?|how|tips|tricks?) to\b|\bharmless\b|无害|什么意思|\bthank you\b|\bheard that\b|听说|据说"
    r"|\bwill (?:jump|become|turn|overflow)\b|否则[^，。]{0,20}会|(?:还会|是否会|会不会|能不能)[^，。]{0,40}(?:吗"
    r"|[?？]|，有没有|$)"
    r"|\bhow (?:do|can|much|many)\b|\b(?:do not|don't) want\b|不想|怎么(?:估算|计算|避免|预防)|(?:没有?|从未"
    r"|从来没)(?:再)?(?:遇到|出现|碰到"
    r"|发生)过|\bsemantics\b"
    r"|\b(?:never|haven't|have not|didn't|did not) (?:\w+ ){0,2}(?:see|seen|hit|get|got|had|saw)\b",
    re.IGNORECASE,
)


def is_statement(sentence: str) -> bool:
    """Whether a sentence says that something is so, and is no question or advice."""
    return not _ASKED.match(sentence.strip()) and not _HARMLESS.search(sentence)


def drop_questions(text: str) -> str:
    """A line or block without the sentences in which people ask, suppose or say that nothing happened.

    Args:
        text: It, as it stands.
    """
    sentences = SENTENCES.split(text)
    kept = [one for one in sentences if is_statement(one)]
    return text if len(kept) == len(sentences) else "\n".join(kept)
