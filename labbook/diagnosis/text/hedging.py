"""What a report says in sentences: what is only supposed, feared or asked for is no failure that happened."""

from __future__ import annotations

import re

SENTENCES = re.compile(r"(?<=[.!?;])\s+|[。！？；\n]")
_SUPPOSED = re.compile(
    r"\b(?:if|unless)\b(?! (?:I|we)\b)(?! you\b(?! (?:see|get|encounter|face|meet|run into)\b))|\bwhether\b"
    r"|\bavoid(?:s|ing|ed)?\b|\bprevent(?:s|ing|ed)?\b|\bin case\b"
    r"|\b(?:errors|failures|crash(?:es)?|exceptions|problems|issues) (?:such as|like)\b"
    r"|\bwithout (?:any |an? )?(?:nans?|errors?|problems?|issues?|crash\w*|exceptions?|failures?|warnings?)\b"
    r"|\b(?:any|some|all) (?:type|kind|sort)s? of\b|\b(?:be|should|must) (?:able|careful)\b"
    r"|\bno longer (?:get|see|have|raise|fail|crash)\w*|\binstead of (?:a|an|the|raising|failing|crashing)\b"
    r"|\bif you\b(?=[^.!?]{1,200}\b(?:will|would|may|might|could|can)\b)"
    r"|\b(?:may|might|could|would|can) (?:also )?(?:lead|cause|result|produce|diverge|raise|trigger)\b"
    r"|\b(?:calling|passing|using|applying|forgetting|mixing|setting|feeding) [^!?\n]{3,120}? will "
    r"(?:raise|throw|give|produce|cause|fail|crash|lead|result|trigger|diverge|silently)\b"
    r"|\bwants? to (?:raise|throw)\b|(?:失败|出错|报错)时会?自动|(?:被?占用|不足|不够|溢出)时(?:请|可以|应)"
    r"|\bis now (?:handled|caught|reported|shown|ignored)\b"
    r"|(?:过大|过小|过高|过低|太大|太小|太高|太低|不当)时?(?:就|可能|容易|往往)*会(?=[^\n]{0,200}(?:建议"
    r"|需要?适当|应该|应当|调小|减小))"
    r"|\bcase [A-Z\d]\b|防止|避免|以免|如果(?!我)|假如|万一|不是(?!内部或外部命令)|并非|而非|不再(?:报|出现)|(?:比如"
    r"|例如)(?!.{0,40}(?:Error|Exception))",
    re.IGNORECASE,
)
_BORNE = re.compile(
    r"^.*(?:\bError caught was\b|\b[Pp]roceeding without\b|\b[Ff]all(?:ing|s|back)? ?back to\b"
    r"|\bwill (?:be (?:disabled|ignored|skipped)|not be (?:enabled|used|available))\b"
    r"|\b(?:is|are) optional\b|\bnewly initiali[sz]ed\b|\b(?:is|are|may be|can be) expected (?:if|when|since|as)\b"
    r"|\bwhich is (?:expected|normal|fine|intended)\b).*$",
    re.MULTILINE,
)
"""A line of a program that goes on without what it misses."""
_WISHED = re.compile(
    r"Is your feature request related to a problem|Describe the solution you'd like|The feature, motivation and pitch"
    r"|^\W{0,12}feature request\b|Feature Description|Describe alternatives you've considered|功能请求|新功能建议"
    r"|(?:预期|期望)的功能|^\W{0,12}(?:建议|希望|请求)(?:可以|能够?|官方)?(?:增加|添加|支持|新增|提供)"
    r"|\bExpected Feature\b"
    r"|^#+ PR (?:types|Category|changes)\b",
    re.IGNORECASE | re.MULTILINE,
)


_PROPOSED = re.compile(
    r"^\W{0,4}(?:[\[(（][^\])）\n]{1,30}[\])）]\s?:?\s?|(?:fix|[Ff]eat(?:ure)?|chore|docs|refactor|perf|test|build"
    r"|style|bug)(?:\([\w./, -]{1,40}\))?!?:\s)?"
    r"(?:[Ff]ix(?:es|ed|ing)?|[Pp]revent(?:s|ed|ing)?|[Aa]void(?:s|ed|ing)?|[Hh]andl(?:e|es|ing)|[Ss]upport(?:s|ing)?"
    r"|[Aa]dd(?:s|ed|ing)?|[Rr]emov(?:e|es|ed|ing)|[Uu]pdat(?:e|es|ed|ing)|[Bb]ump|[Ii]mprov(?:e|es|ing)"
    r"|[Rr]efactor\w*"
    r"|[Ee]nabl(?:e|es|ing)|[Aa]llow(?:s|ing)?|[Rr]ais(?:e|es|ing)(?! [\w.]+(?:\(|$))|[Cc]orrect(?:s|ed)?"
    r"|[Rr]enam(?:e|es)"
    r"|[Rr]esolv(?:e|es|ed)"
    r"|[Mm]ake sure|[Ee]nsure|[Cc]hang(?:e|es|ed)|[Mm]ov(?:e|es|ed)"
    r"|[Cc]atch(?:es)?|[Ii]gnore[sd]?|[Ss]kip(?:s|ped|ping)?|[Rr]eplace[sd]?|[Ii]mplement(?:s|ed)?"
    r"|[Ss]implif(?:y|ies|ied)"
    r"|[Dd]isable[sd]?|[Mm]inor fix|[Ss]mall fix"
    r"|[Rr]epair|[Cc]lean|[Ee]nhance[sd]?|[Oo]ptimi[sz]e[sd]?|[Ii]ntroduce[sd]?|[Rr]evert|修复|修正|解决"
    r"|增加|新增|支持|优化)"
    r"(?:\s|了|\b)(?!.{0,120}[?？])"
)
_HEAD_OF_CHANGE = re.compile(
    r"^(?:Summary:|Release v?\d+\.\d[\w.]*\s*$|#{1,4} (?:Changes|Changelog|What's Changed)\b"
    r"|(?:#{1,4} )?Release notes\b)"
    r"|^Stack from \[?ghstack|^\W{0,4}docs?/[\w/.-]+\.(?:md|rst)\W*$"
    r"|\b[Tt]his (?:PR|patch|commit|change) (?:makes|adds|fixes|lets|allows|removes|introduces|enables|handles)\b"
    r"|^\W{0,6}(?:What does this PR do|This (?:PR|diff"
    r"|patch|commit|change)\b"
    r"|PR (?:types|[Dd]escri\w+)|Describe your changes|Test [Pp]lan|Differential Revision|Motivation and Context"
    r"|Types? of changes?|Signed-off-by|本\s?PR|更新日志|更新内容)",
    re.MULTILINE,
)


_TAUGHT = re.compile(
    r"你是否(?:也)?(?:经历|遇到)过|用户.{0,60}(?:常常|经常|往往)会?(?:出现|遇到|碰到)|^\W{0,6}常见问题|^\W{0,6}FAQ\b"
    r"|以下(?:几|多|[二两三四五六\d])种(?:错误|报错|情况)|本文(?:将|主要)?(?:介绍|总结|汇总)"
    r"|\bfrequently asked questions\b"
    r"|^\W{0,6}(?:Q|问|Question|问题)\s?\d{0,2}\s?[:：]|^#{2,4} [^\n]{3,100}[?？]\s*$|(?:分享一?[点些下个]"
    r"|总结一?下)(?:训练|调参|使用)?的?经验"
    r"|^#{1,4} [^\n]{0,30}(?:更新日志|Changelog|Bug fixes|New features|Release notes|What's new|版本说明)"
    r"|\b[Yy]ou(?:'ll| will| should) (?:then )?(?:see|get|notice) |你(?:将|就)?会(?:先)?(?:看到|发现)"
    r"|(?:这篇|本篇|本文)(?:文章|博客|教程)?(?:讲|总结|整理|介绍|分享|汇总|说明|带)|新手(?:容易|常"
    r"|经常)(?:会)?(?:碰到|遇到|犯)|入门[:：]"
    r"|常见的?(?:报错|错误|问题|原因)(?:及|和|与)?(?:解决|有|包括|如下|是|汇总)|\bdocs?/[\w/]+\.(?:md"
    r"|rst)\b[^\n]{0,20}\badd"
    r"|\bcommon (?:errors|problems|pitfalls|causes) (?:include|are|and)\b|\badd an entry for\b"
    r"|\bin this (?:tutorial|guide|article),? (?:we|I|you)\b"
    r"|\b[Tt]his (?:post|article|tutorial|guide|chapter|section) (?:goes|shows|explains|describes|walks|covers|lists)\b"
    r"|^\W{0,6}(?:文档|教程|README)[^，。\n]{0,6}(?:补充|说明|更新)[:：]",
    re.IGNORECASE | re.MULTILINE,
)
"""What lessons and collections of questions say of themselves: the errors in them are examples."""


def is_change_description(text: str) -> bool:
    """Whether a text describes a change of code, or teaches: the errors in it are of before, or examples.

    Args:
        text: A whole report. One whose first line asks something is none.
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    return bool(_PROPOSED.match(first) or _HEAD_OF_CHANGE.search(text) or _TAUGHT.search(text))


def without_speculation(text: str) -> str:
    """A line or block without what its sentences only suppose: "if the disk is full, ...", "to avoid ...".

    The supposition ends with its sentence; what a sentence says before it stays. A line that says how the program goes
    on without what is missing is left out whole.
    """
    text = _BORNE.sub("", text)
    if not _SUPPOSED.search(text):
        return text
    kept = []
    for sentence in SENTENCES.split(text):
        supposed = _SUPPOSED.search(sentence)
        kept.append(sentence[: supposed.start()] if supposed else sentence)
    return "\n".join(part for part in kept if part.strip())


def is_feature_request(text: str) -> bool:
    """Whether a text says of itself that it asks for a feature, by the headings of common forms."""
    return _WISHED.search(text) is not None


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
