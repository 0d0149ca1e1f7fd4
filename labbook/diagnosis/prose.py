"""What a report says in sentences: what is only supposed, feared or asked for is no failure that happened."""

from __future__ import annotations

import re

_SENTENCES = re.compile(r"(?<=[.!?;])\s+|[。！？；\n]")
_SUPPOSED = re.compile(
    r"\b(?:if|unless)\b(?! (?:I|we|you)\b)|\bwhether\b|\bavoid(?:s|ing|ed)?\b|\bprevent(?:s|ing|ed)?\b|\bin case\b"
    r"|\b(?:errors|failures|crash(?:es)?|exceptions|problems|issues) (?:such as|like)\b"
    r"|\bwithout (?:any |an? )?(?:nans?|errors?|problems?|issues?|crash\w*|exceptions?|failures?|warnings?)\b"
    r"|\b(?:any|some|all) (?:type|kind|sort)s? of\b|\b(?:be|should|must) (?:able|careful)\b"
    r"|\bno longer (?:get|see|have|raise|fail|crash)\w*|\binstead of (?:a|an|the|raising|failing|crashing)\b"
    r"|防止|避免|以免|如果(?!我)|假如|万一|不是|并非|而非|不再(?:报|出现)|比如|例如",
    re.IGNORECASE,
)
_BORNE = re.compile(
    r"^.*(?:\bError caught was\b|\b[Pp]roceeding without\b|\b[Ff]all(?:ing|s|back)? ?back to\b"
    r"|\bwill (?:be (?:disabled|ignored|skipped)|not be (?:enabled|used|available))\b"
    r"|\b(?:is|are) optional\b).*$",
    re.MULTILINE,
)
"""A line of a program that goes on without what it misses."""
_WISHED = re.compile(
    r"Is your feature request related to a problem|Describe the solution you'd like|The feature, motivation and pitch"
    r"|^\W{0,12}feature request\b|Feature Description|Describe alternatives you've considered|功能请求|新功能建议"
    r"|^#+ PR (?:types|Category|changes)\b",
    re.IGNORECASE | re.MULTILINE,
)


def stated(text: str) -> str:
    """A line or block without what its sentences only suppose: "if the disk is full, ...", "to avoid ...".

    The supposition ends with its sentence; what a sentence says before it stays. A line that says how the program goes
    on without what is missing is left out whole.
    """
    text = _BORNE.sub("", text)
    if not _SUPPOSED.search(text):
        return text
    kept = []
    for sentence in _SENTENCES.split(text):
        supposed = _SUPPOSED.search(sentence)
        kept.append(sentence[: supposed.start()] if supposed else sentence)
    return "\n".join(part for part in kept if part.strip())


def wishes(text: str) -> bool:
    """Whether a text says of itself that it asks for a feature, by the headings of common forms."""
    return _WISHED.search(text) is not None
