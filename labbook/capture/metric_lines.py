"""Brings printed lines of metrics into the form that their reader knows: in English, without a logger's prefix."""

from __future__ import annotations

import re

from labbook.capture.chinese_metrics import translate_line
from labbook.capture.metric_names import metric_name

_LEVEL = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)"
_LOG_PREFIX = re.compile(
    rf"\W{{0,4}}\d{{2,4}}[-/]\d{{2}}[-/]\d{{2,4}}[T ]\d{{2}}:\d{{2}}:\d{{2}}.{{0,80}}?\b{_LEVEL}\b[\s\]:|-]{{0,8}}"
    r"(?:[\w.]{1,80}:(?:[\w<>]{1,80}:)?\d{1,6}[\s-]{1,3})?"  # loguru; PaddlePaddle: "train.py:12 - "
    rf"|{_LEVEL}:[\w.]{{1,80}}:"  # logging.basicConfig
    r"|[DIWEF]\d{4}\s[\d:.]{8,15}\s{1,8}\d{1,8}\s[\w./-]{1,80}:\d{1,6}\]"  # absl and glog
)
_NUMBER = r"\d{1,9}\.\d{1,20}"
_TWO_NAMES = re.compile(rf"\b([A-Za-z]\w{{0,30}})/([A-Za-z]\w{{0,30}})([ ]?[:=][ ]?)({_NUMBER})[ ]?/[ ]?({_NUMBER})")
_NEGATIVE = re.compile(r"(?<![\w.)\]-])-(?=ELBO\b|elbo\b)")
"""What turns a bound: "-ELBO 25.1"."""
_SET = re.compile(
    r"\b(train|training|val|valid|validation|dev|eval|test)[ -](?:data)?set[ ](?=[A-Za-z])", re.IGNORECASE
)
"""A data split before a metric: "Test set loss: 24.0"."""
_COCO = re.compile(
    r"\((AP|AR)\)\s{0,3}@\[\s{0,3}IoU=([\d.:]{3,12})\s{0,10}\|\s{0,3}area=\s{0,8}(\w{1,10})\s{0,3}"
    rf"\|\s{{0,3}}maxDets=\s{{0,4}}(\d{{1,4}})\s{{0,3}}\]\s{{0,3}}=\s{{0,3}}(-?{_NUMBER})"
)


def plain_line(line: str) -> str:
    """Returns a printed line in English, without the prefix of a logger, and with each value behind its name.

    "accuracy/loss: 0.9/0.3" becomes "accuracy: 0.9, loss: 0.3". The summary of pycocotools,
    "(AP) @[ IoU=0.50 | area=   all | maxDets=100 ] = 0.694", becomes "AP50: 0.694".
    """
    line = line[prefix.end() :] if (prefix := _LOG_PREFIX.match(line)) else line
    line = _NEGATIVE.sub("neg_", line)
    return _TWO_NAMES.sub(_separate, _COCO.sub(_coco_name, _SET.sub(r"\1 ", translate_line(line))))


def _separate(match: re.Match[str]) -> str:
    first, second, between, *values = match.groups()
    if metric_name(first) is None or metric_name(second) is None:
        return match.group()
    return f"{first}{between}{values[0]}, {second}{between}{values[1]}"


def _coco_name(match: re.Match[str]) -> str:
    kind, overlap, area, most, value = match.groups()
    if value.startswith("-"):  # no object of this area
        return ""
    overlap = "" if ":" in overlap else overlap.partition(".")[2]
    area = "" if area == "all" else f"_{area}"
    return f"{kind}{overlap}{area}{'' if most == '100' else f'@{most}'}: {value}"
