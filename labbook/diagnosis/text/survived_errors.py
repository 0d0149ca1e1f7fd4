"""What a training outlived: a log that prints steps behind a warning or a handled error tells that it was borne.

Only logs are read so: where somebody asks or tells, what they show is what they ask about.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from labbook.diagnosis.text.exit_lines import prints_nonfinite
from labbook.model.evidence import ObservedException, OutputLine

_STEP = re.compile(
    r"\bloss\w*['\"]?[ :=|]{1,3}\d|\d ?(?:it/s|s/it)\b|\b(?:epoch|step|iter(?:ation)?)s?[ :=\[/]{1,2}\d"
    r"|\b(?:train(?:ing)?|fit|run) (?:is )?(?:finished|completed?|done|ended)\b|\bexits successfully\b"
    r"|\bsuccessfully finished\b"
    r"|训练(?:已?结束|完成)|\b(?:saving|saved|wrote) (?:the )?(?:\w+ )?(?:checkpoint|model|weights)\b",
    re.IGNORECASE,
)
_PEOPLE = re.compile(
    r"[?？]\s*$|\b(?:I|I'm|I've|my|we|please|anyone|anybody|help|why)\b|请问|求助|为什么|为啥|怎么|麻烦|大佬|我|咋"
    r"|各位",
    re.MULTILINE,
)
_ENOUGH = 3
"""Lines of a training behind something that it outlived. Source: chosen by us; one may be another rank's last word."""


def has_training_steps(text: str) -> bool:
    """Whether a text holds lines of a training that goes on."""
    return _STEP.search(text) is not None


def is_training_step(text: str) -> bool:
    """Whether a line is one of a training that goes on, with numbers that are finite."""
    return _STEP.search(text) is not None and not prints_nonfinite(text)


def find_last_steps(lines: Sequence[str], last: int) -> Iterable[int]:
    """Numbers of the lines of a training among the last lines of a log.

    Args:
        lines: Its end.
        last: Number of the last line.
    """
    return (last - len(lines) + place for place, text in enumerate(lines, 1) if is_training_step(text))


def drop_survived(
    raised: list[ObservedException], said: list[OutputLine], steps: Sequence[int]
) -> tuple[list[ObservedException], list[OutputLine]]:
    """Exceptions and lines behind which the training did not go on.

    Args:
        raised: Those with frames of a traceback ended something and stay.
        said: Lines outside of exceptions.
        steps: Numbers of the lines of a training, in order.
    """
    if len(steps) < _ENOUGH or any(one.frames or one.inner for one in raised):
        return raised, said
    if any(_PEOPLE.search(one.text) for one in said if one.kind == "output"):
        return raised, said

    def stays(one: ObservedException | OutputLine) -> bool:
        return len(steps) - bisect_right(steps, one.line) < _ENOUGH

    return [one for one in raised if stays(one)], [one for one in said if stays(one)]
