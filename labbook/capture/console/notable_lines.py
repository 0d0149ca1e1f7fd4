"""Selects lines from the middle of a long output: errors, warnings, tracebacks, metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_STRONG = (
    "error", "exception", "traceback", "warning", "fatal", "critical", "assertion", "segmentation fault", "core dumped",
    "out of memory", "错误", "警告", "异常", "失败", "内存不足",
)  # fmt: skip
"""A line with one of these is notable."""
_METRICS = (
    "loss", "acc", "lr", "learning_rate", "f1", "map", "auc", "ppl", "perplexity", "bleu", "iou", "reward",
    "psnr", "ssim", "score", "recall", "precision",
)  # fmt: skip
_WEAK = ("nan", "inf", "oom", "warn", "fail", "abort", "killed", "panic", "diverg", "early stopping", *_METRICS)
"""A line with one of these is notable if `_WORD` or `_METRIC` matches too."""
_WORD = re.compile(r"\b(?:nan|inf|oom|warn|fail(?:ed|ure|s)?|abort(?:ed|ing)?|killed|panic|diverg\w+|early stopping)\b")
_METRIC = re.compile(f"(?:{'|'.join(_METRICS)})" r"[\w@/.-]{0,60}['\"]?\s?[:=]\s{0,3}\(?[-+]?(?:\d|\.\d|nan\b|inf\b)")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_RANK = re.compile(r"^(?:\[[^\]\n]{1,40}\]:? ?|\([^)\n]{1,60}\) ?)+")
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?")

_LONGEST_TRACEBACK = 200
_AFTER_TRACEBACK = 4
"""Lines selected after the line that names the exception: its message may have several lines."""
_LINES_OF_A_KIND = 64
"""Lines of one wording that are all selected; of later ones fewer and fewer, about 500 of a million. Source: chosen by
us, a curve needs no more points."""
_KINDS = 2000

_NEEDLES = (
    b"error", b"warn", b"traceback", b"exception", b"fatal", b"fail", b"nan", b"loss", b"killed", "错误".encode(),
    "异常".encode(),
)  # fmt: skip
_FEW_NEEDLES = (b"rror", b"Traceback", b"xception")
_HITS_A_BLOCK = 24
_HITS_A_NEEDLE = 3


@dataclass
class NotableLines:
    """Selects the notable lines of one stream; knows whether a line is inside a traceback."""

    _seen: dict[str, int] = field(default_factory=dict)
    _traceback: int = 0
    _after: int = 0

    def pick(self, first: int, lines: list[str]) -> list[tuple[int, str]]:
        """Returns the notable ones of `lines`, with their numbers.

        Args:
            lines: Redacted lines without newlines.
        """
        low = "\n".join(lines).lower()
        strong = [word for word in _STRONG if word in low]
        weak = [word for word in _WEAK if word in low]
        if not (self._traceback or self._after or strong or weak):
            return []
        lows = low.split("\n")
        return [
            (first + place, line)
            for place, line in enumerate(lines)
            if self._is_notable(line, _is_hit(lows[place], strong, weak))
        ]

    def _is_notable(self, line: str, hit: bool) -> bool:
        if hit and _TRACEBACK.search(line):
            self._traceback, self._after = _LONGEST_TRACEBACK, 0
            return self._is_sampled(line)
        if self._traceback:
            self._traceback -= 1
            inside = _RANK.sub("", line)
            if inside.strip() and not inside.startswith((" ", "\t")):
                self._traceback, self._after = 0, _AFTER_TRACEBACK
            return True
        if self._after:
            self._after = self._after - 1 if line.strip() else 0
            return True
        return hit and self._is_sampled(line)

    def _is_sampled(self, line: str) -> bool:
        kind = _NUMBER.sub("#", line[:400])[:160]
        if kind not in self._seen and len(self._seen) >= _KINDS:
            kind = ""
        count = self._seen[kind] = self._seen.get(kind, 0) + 1
        return count % (1 << (count // _LINES_OF_A_KIND).bit_length()) == 0


def _is_hit(low: str, strong: list[str], weak: list[str]) -> bool:
    if any(word in low for word in strong):
        return True
    return any(word in low for word in weak) and bool(_WORD.search(low) or _METRIC.search(low))


def notable_spans(block: bytes, hurried: bool = False) -> list[tuple[int, int]]:
    """Returns start and end of the lines in a block that may be notable, ordered and disjoint.

    Searches for a few words only and stops after some hits, at about 150 MB/s; `NotableLines` decides.

    Args:
        block: Complete lines of the output.
        hurried: Search for common words of errors only, at about 800 MB/s.
    """
    low = block if hurried else block.lower()
    lines: dict[int, int] = {}
    for needle in _FEW_NEEDLES if hurried else _NEEDLES:
        at = low.find(needle)
        for _ in range(_HITS_A_NEEDLE):
            if at < 0 or len(lines) >= _HITS_A_BLOCK:
                break
            start = low.rfind(b"\n", 0, at) + 1
            end = _line_end(low, at)
            if low.startswith((b"traceback (most recent", b"Traceback (most recent"), at):
                end = _traceback_end(low, end)
            lines[start] = max(end, lines.get(start, 0))
            at = low.find(needle, end)
    spans: list[tuple[int, int]] = []
    for start, end in sorted(lines.items()):
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _line_end(block: bytes, at: int) -> int:
    end = block.find(b"\n", at)
    return len(block) if end < 0 else end + 1


def _traceback_end(block: bytes, at: int) -> int:
    for _ in range(_LONGEST_TRACEBACK):
        if at >= len(block):
            break
        line, at = block[at : at + 200], _line_end(block, at)
        inside = re.sub(rb"^(?:\[[^\]\n]{1,40}\]:? ?)+", b"", line)
        if inside.strip() and not inside.startswith((b" ", b"\t")):
            break
    return at


def open_key_line(block: bytes | bytearray, before: bytes = b"") -> bytes:
    """Returns the first line of a private key that is still open after `block`, or nothing.

    Args:
        before: The result for the output before this block.
    """
    if b"-----" not in block and b"Private-Lines:" not in block:
        return before
    begin = max(block.rfind(b"-----BEGIN "), block.rfind(b"Private-Lines:"))
    end = block.rfind(b"-----END ")
    if begin < 0 and end < 0:
        return before
    return bytes(block[begin : begin + 120].split(b"\n")[0].rstrip(b"\r")) if begin > end else b""
