"""Reads metrics from printed text: usual trainers, progress bars, dicts and prints.

Only numbers after the name of a metric count ("loss: 0.12", "acc=0.9", "'eval_loss': 0.5", "损失 0.12"), those under or
beside one in a table, changing ones after any name in a line of a step or an epoch ("epoch 3: kd=0.71"), and those
after the names of two data splits ("Train: 0.16, Val: 0.15", or with blanks in a line of an epoch: "Epoch 3: train 0.16
val 0.15"); not options, versions, times and file names. Time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import NamedTuple

from labbook.capture.metric_lines import plain_line
from labbook.capture.metric_names import GATE, has_split, may_be_goal, metric_name
from labbook.capture.metric_pairs import LineMetrics, read_line
from labbook.capture.metric_tables import TableReader
from labbook.model.downsampling import downsample
from labbook.model.metric_kinds import SPLITS, metric_kind, name_words
from labbook.model.series import Series

_MAX_LINE = 2000
_MAX_SERIES = 48
_MAX_POINTS = 100_000
_SERIES_POINTS = 2000

_GATE = re.compile(
    GATE + r"|\b(?:ep|epoch|step|iter)|^\W{0,3}\d{1,9}\W|lr\b|learning.?rate|top[-_]?[15]"
    r"|f1|\bap\b|r2|\btrain|\bval|\b(?:tr|trn|va|dev)\b|grad.?norm|误差",
    re.IGNORECASE,
)
_EPISODE = re.compile(r"(?<![A-Za-z_])episode['\"]?[\s:=#\[(]{0,6}(\d{1,12})(?![\d.]*[A-Za-z])", re.IGNORECASE)
_BEGINS_EVALUATION = re.compile(
    r"\W*(?:eval\w*|validation|test)\W+(?:begin|start)\w*|.{0,60}\b(?:start\w*|running|begin)\W+(?:to\W+)?"
    r"(?:evaluat\w+|validat\w+|prediction)\b",
    re.IGNORECASE,
)
_ENDS_EVALUATION = re.compile(r"epoch|train|eval\w* samples|fit begin", re.IGNORECASE)
_EPOCH_WORD = re.compile(r"[Ee]poch|EPOCH|\bep\b")
_STEP = re.compile(
    r"(?<![A-Za-z_])(?:global[ _]?step|steps?|iter(?:ation)?s?|it)['\"]?[\s:=#\[(]{0,6}(\d{1,15})(?![\d.]*[A-Za-z])",
    re.IGNORECASE,
)
_EPOCH = re.compile(
    r"(?<![A-Za-z_])ep(?:och)?(?:\((?:train|val|test)\))?['\"]?[\s:=#\[(]{0,6}(\d{1,9}(?:\.\d{1,12})?)",
    re.IGNORECASE,
)
_BATCH = re.compile(
    r"(?<![A-Za-z_/])(?:mini)?batch(?:_?(?:id|idx|index|num|no))?['\"]?[\s:=#\[(]{0,6}(\d{1,12})(?!\d)"
    r"|(?<![\d.])(\d{1,12})[ ]?(?:/[ ]{0,6}\d{1,12})?[ ](?:mini)?batches\b"
    r"|[\[|]\s{0,6}(\d{1,12})\s{0,3}/\s{0,6}\d{1,12}(?=\]|\s{0,6}[(\[])",
    re.IGNORECASE,
)
_LEADING = re.compile(
    r"[ \t]{0,8}[\[(]?(\d{1,9})(?![\d.,])(?:[ ]?/[ ]?\d{1,9}|[ ]\d{1,3}%)?[ \t]{0,3}(?:[\]):|]|[ \t](?=[A-Za-z]))"
)
"""The number that a line of metrics begins with: of an epoch, or of a step where the epochs have lines of their own."""
_COUNTER = re.compile(
    r"^[^\w\n]{0,6}((?:day|week|month|year|hour|round|cycle|generation|sweep|pass)s?)[ #:=\[(]{1,4}(\d{1,9})(?![\w.])",
    re.IGNORECASE | re.MULTILINE,
)
"""What programs count in place of epochs, at the beginning of a line. Source: chosen by us."""
_OF = re.compile(r"[ ]{0,6}/[ ]{0,6}(\d{1,15})(?![\d.])")
_LABEL = re.compile(r"(?<![\w./-])([A-Za-z]\w{0,30})[\s|:\[\]>-]{1,5}ep(?:och)?\b", re.IGNORECASE)
_NAMED_RESULT = re.compile(r"\W{0,6}([A-Za-z][\w-]{0,30})[ ][\w@/-]{1,40}[ ]?[:=][ ]?[-+\d.e]{1,20}%?\s*")
"""A line with a single result and the word before it: "Baseline MAE: 13.9"."""
_RESULT_BEFORE = re.compile(r"\W{0,6}([A-Za-z][\w-]{2,30})(?:[ ][\w@/-]{1,40}){1,2}[ ]?[:= ][ ]?[-+\d.e]{1,20}%?\s*")
"""The same before a training, also without a colon: "teacher test accuracy 0.88"."""
_MOST_LABELS = 3
"""Trainings of a program whose values a word before the epoch separates. Source: chosen by us; folds are more."""
_SOURCE_LINE = re.compile(r'\s*File ".{0,400}", line \d+')
_FLAG = re.compile(r"\w['\"]?[=:][ ]?(?:None|True|False)\b")
_FLAGS = 3
_SHARES = {"overlap", "accuracy", "f1", "area under curve"}
_FEWEST_REPEATED = 3
"""Options with these values from which on a line is that of the options of a program. Source: chosen by us."""
_MESSAGE = re.compile(r"\s*(?:[\w.]{1,80}(?:Error|Exception|Warning)\b|Namespace\(|usage:)")


class _Place(NamedTuple):
    """Where in the training a line is: `None` for a step or epoch that it does not name.

    Args:
        total: Number of steps behind the step, 30 of "[21/30]"; 0 where there is none.
        label: The word before the epoch, "teacher" of "teacher | epoch 3"; "" where there is none.
        is_named: Whether the line itself names its epoch; else the epoch is that of an earlier line.
        is_bare: Whether the epoch is a number without a word, which may be a step; of a step: "[12/20]" without one.
        near: The step of an earlier line, of a line that names neither.
    """

    step: int | None
    epoch: int | None
    total: int = 0
    label: str = ""
    is_named: bool = True
    near: int | None = None
    is_bare: bool = False


@dataclass
class _Points:
    """Points of one metric."""

    values: list[float] = field(default_factory=list)
    places: list[_Place] = field(default_factory=list)
    before: str = ""
    """The first word of the line of the first value, where that is a result alone: "teacher test accuracy 0.88"."""
    running: int | None = None
    """Batch of the last value if that was the mean over an evaluation that may go on."""

    def add(self, value: float, place: _Place, *, is_running: bool) -> None:
        """Adds a value; the mean of an evaluation so far is replaced by the mean after a later batch."""
        if is_running and self.running is not None and place.step is not None and place.step > self.running:
            self.values[-1], self.places[-1] = value, place._replace(epoch=self.places[-1].epoch)
        elif len(self.values) < _MAX_POINTS:
            self.values.append(value)
            self.places.append(place)
        self.running = place.step if is_running else None

    def select(self, indices: Iterable[int]) -> _Points:
        """Returns the points of some indices."""
        chosen = list(indices)
        return _Points([self.values[n] for n in chosen], [self.places[n] for n in chosen])


def metrics_from_console(text: str) -> list[Series]:
    """Returns the metrics in console text, one series per name, with source "text".

    Steps are those of the lines (global step, iteration, batch, epoch), or the number of the point.

    Args:
        text: Output without escapes, progress bars folded.
    """
    metrics: dict[str, _Points] = {}
    spellings: dict[str, str] = {}
    epoch: int | None = None
    near: int | None = None
    before = ""
    evaluating = False
    is_numbered = True
    unsure: set[str] = set()
    table = TableReader()
    text, is_of_counter = _counters_as_epochs(text)
    for line in text.splitlines():
        line = plain_line(line[:_MAX_LINE])
        quoted, before = _SOURCE_LINE.match(before), line
        is_text = quoted or not _GATE.search(line) or _MESSAGE.match(line) or len(_FLAG.findall(line)) >= _FLAGS
        pairs, running, new = LineMetrics([], set(), set()) if is_text else read_line(line)
        unsure |= new.difference(metrics)
        places: dict[str, int] = {}
        if not pairs:
            pairs, places = table.read(line)
            if not pairs and _BEGINS_EVALUATION.match(line):
                evaluating = True
                continue
        if evaluating and _ENDS_EVALUATION.search(line):
            evaluating = False
        if evaluating:
            pairs = [(name if has_split(name) or name == "lr" else f"val/{name}", value) for name, value in pairs]
        if not pairs and not _EPOCH_WORD.search(line):
            continue
        place = _place_of(line)
        line_epoch = places.get("epoch", place.epoch)
        if line_epoch is not None:
            is_numbered = False
        elif pairs and place.step is None and (leading := _LEADING.match(line)):
            line_epoch, place = (
                (int(leading[1]), place._replace(is_bare=True))
                if is_numbered
                else (None, place._replace(step=int(leading[1])))
            )
        epoch = epoch if line_epoch is None else line_epoch
        place = place._replace(step=places.get("step", place.step), epoch=epoch, is_named=line_epoch is not None)
        if place.step is not None:
            near = place.step
        elif line_epoch is None:
            place = place._replace(near=near)
        for printed, value in pairs:
            name = spellings.setdefault(printed.lower(), printed)
            if name not in metrics and len(metrics) >= _MAX_SERIES:
                continue
            if name not in metrics:
                result = _RESULT_BEFORE.fullmatch(line) if place.step is None and len(pairs) == 1 else None
                is_plain = result is None or metric_kind(result[1]).split or metric_name(result[1]) is not None
                metrics[name] = _Points(before="" if result is None or is_plain else result[1])
            metrics[name].add(value, place, is_running=name in running)
    found = [_series(*one) for name, points in metrics.items() for one in _split_by_label(name, points)]
    found = [one for one in found if len(set(one.values)) > 1 or not (may_be_goal(one.name) or one.name in unsure)]
    found = [one for n, one in enumerate(found) if not any(_is_repeated(one, other) for other in found[:n])]
    return [_numbered(one) if is_of_counter and one.axis == "epoch" else one for one in found]


def _numbered(series: Series) -> Series:
    return replace(series, axis="number", steps=tuple(range(1, len(series.values) + 1)))


def _counters_as_epochs(text: str) -> tuple[str, bool]:
    """Returns the text with "epoch" for another word that its lines count by ("day 3: mae"), and whether it has one.

    Only where no line names an epoch, and the numbers rise from line to line.
    """
    numbers: dict[str, list[int]] = {}
    for found in _COUNTER.finditer(text) if not _EPOCH_WORD.search(text) else ():
        numbers.setdefault(found[1], []).append(int(found[2]))
    words = [word for word, seen in numbers.items() if len(seen) > 1 and all(a < b for a, b in pairwise(seen))]
    if len(words) != 1:
        return text, False
    return re.sub(rf"^([^\w\n]{{0,6}}){words[0]}\b", r"\1epoch", text, flags=re.MULTILINE), True


def _is_repeated(one: Series, other: Series) -> bool:
    """Whether a bar and a line have the same values of the same data: `dice_loss` and `train_dice_loss`."""
    if one.values != other.values or len(one.values) < _FEWEST_REPEATED:
        return False
    words = [tuple(word for word in name_words(each.name) if word not in SPLITS) for each in (one, other)]
    splits = [metric_kind(each.name).split or "train" for each in (one, other)]
    return words[0] == words[1] and splits[0] == splits[1]


def _place_of(line: str) -> _Place:
    """Returns where in the training a line is; a fraction of an epoch is ignored."""
    epoch = _EPOCH.search(line)
    found = _STEP.search(line) or _BATCH.search(line) or _EPISODE.search(line)
    group = next((n for n, text in enumerate(found.groups(), 1) if text is not None), 0) if found else 0
    if found and epoch and found.start(group) == epoch.start(1):
        found, group = None, 0  # "Epoch [12/20]"
    total = _OF.match(line, found.end(group)) if found and group else None
    label = _LABEL.search(line) if epoch else None if found else _NAMED_RESULT.fullmatch(line)
    number = next((text for text in epoch.groups() if text is not None), "") if epoch else ""
    return _Place(
        int(found[group]) if found and group else None,
        int(number) if number and "." not in number else None,
        int(total[1]) if total else 0,
        label[1] if label else "",
        is_bare=group == 3 and found is not None and found.re is _BATCH,
    )


def _split_by_label(name: str, points: _Points) -> list[tuple[str, _Points]]:
    """Returns the points of a metric, apart for each of several trainings that the lines name, the last one first.

    "teacher | epoch 0 | acc 0.8", and when that has ended "student | epoch 0 | acc 0.4". So are results with a name of
    their own: "Model MAE: 6.5", "Baseline MAE: 13.9".
    """
    if points.before and any(place.is_named for place in points.places[1:]) and not points.places[0].is_named:
        rest = points.select(range(1, len(points.values)))
        return [*_split_by_label(name, rest), (f"{points.before}_{name}", points.select([0]))]
    words = [place.label for place in points.places]
    if all(words) and len(set(words)) == len(words) > 1 and not any(place.is_named for place in points.places):
        return [(f"{place.label}_{name}", points.select([n])) for n, place in enumerate(points.places)]
    blocks = [list(block) for _, block in groupby(range(len(points.places)), lambda n: points.places[n].label)]
    labels = {points.places[block[0]].label: points.select(block) for block in blocks}
    is_measured = name.lower() in ("loss", "lr")  # the probe records those of each optimizer
    if is_measured or not 2 <= len(blocks) <= _MOST_LABELS or len(labels) < len(blocks) or "" in labels:
        return [(name, points)]
    epochs = [[place.epoch for place in part.places if place.epoch is not None] for part in labels.values()]
    if any(not each or each[0] == each[-1] for each in epochs) or any(a[0] < b[0] for a, b in pairwise(epochs)):
        return [(name, points)]
    return [(f"{label}/{name}", part) for label, part in reversed(labels.items())]


def _drop_batch_points(points: _Points) -> _Points:
    """Returns the points without those of batches if an epoch's last line has the value of the whole epoch.

    "epoch: 0, batch_id: 9, auc: 0.59", then "epoch: 0 done, auc: 0.62": the first value of a running mean is no result.
    """
    whole = [n for n, place in enumerate(points.places) if place.step is None and place.epoch is not None]
    ended = {points.places[n].epoch for n in whole}
    begun = {place.epoch for place in points.places if place.step is not None}
    if not whole or not begun or len(ended) < len(whole) or len(begun - ended) > 1 or begun.isdisjoint(ended):
        return points
    return points.select(whole)


def _drop_repeats(name: str, points: _Points) -> _Points:
    """Returns the points without those that repeat others: "Saved best model, acc 0.91", "Final (epoch 80): acc 0.81".

    Nor do percents after fractions count, as "Done, accuracy: 92.8%" does.
    """
    points = _drop_repeats_between(points)
    *before, last = zip(points.values, points.places, strict=True)
    if len(before) < _FEWEST_REPEATED or last[1].step is not None:
        return points
    is_repeated = last[1].is_named and any((value, one.epoch) == (last[0], last[1].epoch) for value, one in before)
    is_share = metric_kind(name).quantity in _SHARES and all(0 <= value <= 1 for value, _ in before)
    is_other = is_repeated or (is_share and last[0] > 1 and not last[1].is_named)
    return points.select(range(len(before))) if is_other else points


def _drop_repeats_between(points: _Points) -> _Points:
    """Returns the points of lines that name a step or an epoch, where those of all other lines repeat one before.

    So does it the other way round: "[eval] miou 0.71", "[eval] best so far: iter 40, miou 0.71".
    """
    is_placed = [place.is_named or place.step is not None for place in points.places]
    for kept in (True, False):
        chosen = [n for n, placed in enumerate(is_placed) if placed is kept]
        seen: set[float] = set()
        for value, placed in zip(points.values, is_placed, strict=True):
            if placed is kept:
                seen.add(value)
            elif value not in seen:
                break
        else:
            return points.select(chosen) if len(chosen) >= _FEWEST_REPEATED else points
    return points


def _series(name: str, points: _Points) -> Series:
    points = _drop_repeats(name, _drop_batch_points(points))
    steps, axis = _steps(points)
    whole = Series.of_values(name, "text", steps, points.values, starts=_starts(points), axis=axis)
    return downsample(whole, _SERIES_POINTS)


def _starts(points: _Points) -> tuple[int, ...]:
    """Returns the index of each point at which the epochs begin anew, if they do."""
    epochs = [-1 if place.epoch is None else place.epoch for place in points.places]
    anew = [n for n, (before, epoch) in enumerate(pairwise(epochs), 1) if epoch < before]
    return (0, *anew) if anew and -1 not in epochs else ()


def _steps(points: _Points) -> tuple[tuple[int, ...], str]:
    """Returns ascending steps, and what they number, see `Series`.

    They are those printed, in or before the line, joined over epochs, the epochs, or point numbers.
    One value behind the lines of the epochs is a result of the whole training, not of the last epoch that was printed.
    """
    steps = [place.step for place in points.places if place.step is not None]
    if len(steps) == len(points.values):
        if _ascending(steps):
            is_bare = all(place.is_bare and place.epoch is None for place in points.places)
            return tuple(steps), "fraction" if is_bare else ""
        joined = _join_epochs(steps, [place.total for place in points.places])
        if joined is not None:  # without the length of an epoch the joined steps are none of the run
            return joined, "" if all(place.total for place in points.places) else "number"
    is_result = len(points.places) == 1 and not points.places[0].is_named
    near = [place.near for place in points.places if place.near is not None]
    if len(near) == len(points.values) > 1 and _ascending(near):
        return tuple(near), ""
    epochs = [place.epoch for place in points.places if place.epoch is not None and not is_result]
    if len(epochs) == len(points.values) and _ascending(epochs):
        return tuple(epochs), "line" if any(place.is_bare for place in points.places) else "epoch"
    return tuple(range(1, len(points.values) + 1)), "number"


def _ascending(numbers: Sequence[int]) -> bool:
    return all(a < b for a, b in pairwise(numbers))


def _join_epochs(steps: Sequence[int], totals: Sequence[int]) -> tuple[int, ...] | None:
    """Returns steps that restart in each epoch as continuous steps; `None` if they do not restart.

    An epoch has as many steps as its lines say ("[21/30]"), else as its last line counts.
    """
    offset, last, starts = 0, -1, 0
    joined: list[int] = []
    total = 0
    for step, following in zip(steps, totals, strict=True):
        if step == last:
            return None
        if step < last:
            offset += total if total >= last else last + (1 if step == 0 else 0)
            starts += 1
        total = following
        joined.append(offset + step)
        last = step
    return tuple(joined) if _ascending(joined) and starts <= len(steps) / 2 else None
