"""Reads the metrics in one line of printed text: numbers behind the names of metrics and of data splits."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import NamedTuple

from labbook.capture.metric_names import (
    AVERAGES,
    QUALIFIERS,
    VARIANTS,
    data_split,
    has_split,
    is_setting,
    metric_name,
)
from labbook.model.metric_kinds import COMPARISONS, COUNTERS, SPLITS, metric_kind, name_words

_NUMBER = (
    r"[-+]?(?:\d{16,40}\.\d{1,20}|\d{1,15}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?"
    r"|[-+]?(?:nan|inf(?:inity)?)(?![A-Za-z])"
)
"""A number; one of more than 15 digits is a diverged value with decimals, and no date or identifier."""
_PAIR = re.compile(
    rf"(?<![\w./\\-])(?P<name>(?:(?:(?:{VARIANTS})[ ])?(?:{QUALIFIERS})[ ])?"
    r"(?:\d{1,3}-?(?=nn))?[A-Za-z_][\w./@-]{0,60}"
    r"|[\u4e00-\u9fff]{1,16})"
    rf"(?:[ ](?:sum|mean|avg|average|value|(?P<score>score)))?"
    rf"(?:[ ]?(?:\(|\[(?![\d\s.+-]))(?P<note>[^()\[\]\n]{{0,40}})[)\]])?['\"]?[↑↓]?"
    rf"(?:[ ](?:on|for|over)[ ](?:the[ ])?(?P<data>[A-Za-z][\w-]{{0,30}})(?:[ ](?:set|data|dataset|split))?)?"
    r"(?:[ ]is\b)?"
    rf"(?P<separator>[ \t]*[:=][ \t]*|[ \t]+)['\"]?(?:(?:tensor|array|(?:np|numpy)\.float\d{{2}})\()?"
    rf"(?P<open>\[[ \t]?)?(?P<number>{_NUMBER})(?(open)[ \t]?\])"
    r"(?:/(?P<of>\d{1,12}))?(?!\s{0,3}[*+/]\s{0,3}[A-Za-z_(])(?=['\"%,;|)\]}\s。±]|\+/-|:(?!\d)|\.?(?:\s|$)|-{1,2}\s)"
    r"(?P<time>[ \t]?(?:s|secs?|seconds|ms|min|hours?)\b)?",
    re.IGNORECASE,
)
_ANY_SPLIT = "|".join(sorted(SPLITS, key=len, reverse=True))
_SPLIT_PAIR = re.compile(
    rf"(?<![\w./\\-])(?P<name>{_ANY_SPLIT})['\"]?"
    rf"(?P<separator>[ \t]*[:=][ \t]*|[ \t]+)"
    rf"(?P<number>\d{{1,40}}\.\d{{1,20}}(?:[eE][-+]?\d{{1,3}})?|nan)(?=%?(?:[,;|}}\s]|$))"
    r"(?![ \t]?(?:s|secs?|seconds|ms|min|hours?)\b)",
    re.IGNORECASE,
)
_SPLIT_FIRST = re.compile(rf"\W*(?:\d{{1,9}}\W{{1,4}})?(?:{_ANY_SPLIT})\b", re.IGNORECASE)
"""A line of the metrics of a data split: "validation: mae 0.57 rmse 0.66", "[6] test mse 0.02"."""
_LISTED = re.compile(r"[ \t]{0,8}[,;|][ \t]{0,8}\Z|[ ]-[ ]\Z")
_COLUMN = re.compile(rf"{_LISTED.pattern}|[ ]{{2}}\Z")
_BLANKS = re.compile(r"[ \t]{1,8}")
_COMPARISON = re.compile(
    r"(?<![\w.])((?:(?!(?:the|our|than|over|vs|of)[ ])[a-z][a-z-]{1,20}[ ])?"
    rf"(?:{'|'.join(COMPARISONS)}))"
    r"(?:[ ]?\([^()\n]{0,40}\))?(?:[ ]?:[^\n]*|[ ][^,;|:=\n]{0,40})\Z",
    re.IGNORECASE,
)
"""What results are of that the model is compared with: "majority baseline accuracy", "Baseline: acc 0.2, f1 0.1"."""
_SECTION = re.compile(rf"(?<![\w/.-])(?<!at best )({_ANY_SPLIT})\W{{1,5}}\Z", re.IGNORECASE)
"""What begins the metrics of a data split within a line: "[Valid] loss"; not "Test at best val: ..."."""
_VARIANT = re.compile(rf"\W*(?:{_ANY_SPLIT})[ ]?\(([A-Za-z]\w{{0,15}})\)[ ]?:", re.IGNORECASE)
"""The weights that a line of a data split is of: "Test (EMA): Loss: 0.6"."""
_HEADING = re.compile(
    rf"(?<![\w/.-])([A-Za-z][\w@]{{0,30}}|[\u4e00-\u9fff]{{2,6}})\s{{0,3}}[:=({{\[]\s{{0,3}}"
    rf"(?:(?:{_ANY_SPLIT})[\s:=]{{1,4}}\d[\d.]{{0,20}}%?[,;|\s/]{{1,4}}){{0,3}}\Z",
    re.IGNORECASE,
)
"""A metric before its values of several data splits: "loss: train 0.51 val 0.61"."""
_BEST_ROW = re.compile(r"\W*best(?:[ _][a-z]{1,20}){0,2}[ ]{0,3}[:=]{0,2}[ ]{0,3}[{(\[]", re.IGNORECASE)
"""The row of the best one of several: "best: {'lr': 0.1, 'val_loss': 0.07}"."""
_NEAR = 200
"""Characters before a number that may say what it is of."""
_WORD = re.compile(r"[^\W_]")
_LINE_HEADING = re.compile(r"[^\w]{0,20}[A-Za-z]\w{0,20}(?:[ ][A-Za-z]\w{0,20}){0,2}[ ]?:[ ]{1,4}")
"""Words before the metrics of a line: "Final: acc 0.9 f1 0.8"."""
_WORD_BEFORE = re.compile(r"(?<![\w.'])([A-Za-z]\w{0,30}?)(?:'s)?[ ]\Z")
_PART_OF_LOSS = re.compile(
    r"rec|recon\w*|kld?|adv\w*|aux\w*|commit\w*|content|style|percept\w*|physics|pde|policy|value|actor|critic|box|obj|mask",
    re.IGNORECASE,
)
"""The word before the name of a loss that is one of several terms. Source: chosen by us."""
_ERRORS = ("error", "err", "errors")
_PERCENT = re.compile(
    rf"(?P<number>\d{{1,3}}(?:\.\d{{1,20}})?)[ ]?%[ ](?:(?P<split>{_ANY_SPLIT})[ ])?(?P<name>correct|accuracy|acc)\b",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    r"\baccuracy(?P<of>[ ](?:of|on|for|over)[ ](?=[^:=\n]{0,60}\b(?:network|model|net|images|samples|data|set)\b)"
    r"[^:=\n]{1,80}?)(?:[ ]is)?[ ]?[:=]?[ ](?P<number>\d{1,3}(?:\.\d{1,20})?)[ ]?%",
    re.IGNORECASE,
)
"""A percentage behind what it is of: "Accuracy of the network on the 10000 test images: 54 %"."""
_PLACED = re.compile(
    r"(?:episode|epoch|step|iter|update|round)\w{0,9}\W|\bep(?:\W|\d)"
    r"|\A\s{0,8}\[(?!rank|worker|gpu|node|pid)[a-z]{2,20}[ ]\d{1,9}(?:/\d{1,9})?\]",  # "[probe 5] ..."
    re.IGNORECASE,
)
_AVERAGE = re.compile(rf"[ \t]{{0,3}}\([ \t]{{0,12}}(?P<number>{_NUMBER})\)")
"""The running mean behind a value of one batch: "Acc@1 70.3 (68.8)" of the examples of PyTorch and of timm."""
_SPREAD = re.compile(r"%?[ \t]{0,3}\(?[ \t]?(?:\+/-|±|\+-)")
"""Behind the mean over folds or seeds: "CV accuracy: 0.93 +/- 0.02"."""


_NUMBERED = re.compile(r"[ \t]{0,8}[\[(]?\d{1,9}(?:[ ]?/[ ]?\d{1,9}(?=[ ])|(?:[ ]?/[ ]?\d{1,9}|[ ]\d{1,3}%)?[\]):|])")
"""A line that begins with the number of a step or an epoch: "19: ...", "[3/10] ...", "(40 20%) ..."."""
_FEWEST_DIGITS = 3
"""Decimals of a number behind an unknown name and a blank, as "huber 0.152". Source: chosen by us."""
_ONLY_SPLITS = re.compile(
    rf"\W{{0,4}}(?:\d{{1,9}}(?:/\d{{1,9}})?\W{{1,4}})?"
    rf"(?:(?:{_ANY_SPLIT})[ \t:=]{{1,3}}\d{{1,15}}\.\d{{1,20}}%?[ \t]{{0,3}}[,;|/]?[ \t]{{0,3}}){{2,3}}",
    re.IGNORECASE,
)
"""A line with a number for each data split and nothing else: "train 0.51 | valid 0.60"."""


class LineMetrics(NamedTuple):
    """What one line says of metrics.

    Attributes:
        pairs: Name and number of each metric, each name once.
        running: Names of running means.
        unsure: Names that are no known quantity, or are of one only by their place: metrics if their numbers change.
    """

    pairs: list[tuple[str, float]]
    running: set[str]
    unsure: set[str]


def read_line(line: str) -> LineMetrics:
    """Returns the metrics in one line."""
    pairs = _NamedValues(line)
    values = pairs.values
    for match in _PERCENT.finditer(line) if not values or pairs.is_placed else ():
        before = match["split"] or line[: match.start()]
        values.setdefault(_accuracy(before), float(match["number"]))
    for match in _PHRASE.finditer(line) if not values else ():
        values.setdefault(_accuracy(line[: match.end("of")]), float(match["number"]))
    # A learning rate alone is a printed option, not a measurement.
    if [*values] == ["lr"]:
        values.clear()
    is_only = bool(_ONLY_SPLITS.fullmatch(line))
    splits = _values_of_splits(line, with_blanks=pairs.is_counted or is_only)
    # "Loss: 0.42 Test: 0.47", " 1/5 train 2.35 val acc 0.10"
    is_beside = pairs.is_counted and bool(values)
    is_sure = pairs.is_placed and (len(splits) > 1 or ("loss" in values and "train" not in splits))
    unsure = pairs.unsure.union(() if is_sure else splits)
    # "{'epoch': 3, 'val': 0.71}"
    is_read = len(splits) > 1 or is_beside or (pairs.is_placed and "train" not in splits)
    return LineMetrics([*values.items(), *(splits.items() if is_read else ())], pairs.running, unsure)


class _NamedValues:
    """The numbers behind the names of metrics, read from left to right.

    Attributes:
        values: Name of the metric, with its data split -> number.
        running: Names of running means. Behind a value of a batch of an evaluation the mean so far counts, in training
            the value, as the probe measures it.
        unsure: Names of quantities that are not known.
        is_placed: Whether the line names a step or an epoch.
        is_counted: Whether it does, or begins with a number of one.
    """

    def __init__(self, line: str) -> None:
        self.values: dict[str, float] = {}
        self.running: set[str] = set()
        self.unsure: set[str] = set()
        self.is_placed = bool(_PLACED.search(line))
        self.is_counted = self.is_placed or bool(_NUMBERED.match(line))
        self._line = line
        self._is_headed = self.is_counted or bool(_SPLIT_FIRST.match(line))
        self._end = 0
        """Where the number of the metric before ends."""
        self._section: str | None = "best" if _BEST_ROW.match(line) else None
        """Data split of the metrics up to the next word for one; `None` before the first metric."""
        self._split_of_word = self._split_of_unknown = ""
        self._words_before: dict[str, str] = {}
        variant = _VARIANT.match(line)
        named = variant[1].lower() if variant is not None else ""
        self._variant = f"{named}_" if named and named not in AVERAGES else ""
        matches = list(_PAIR.finditer(line))
        self._is_whole = _has_only_metrics(line, matches)
        for match in matches:
            self._read(match)

    def _read(self, match: re.Match[str]) -> None:
        line, start = self._line, match.start()
        is_listed = self.is_placed and bool(_COLUMN.search(line, max(0, start - _NEAR), start))
        named = metric_name(match["name"], is_listed)
        if named is None and match["score"]:  # "game score: 12.5", but F1 in "F1 score: 0.8"
            named = metric_name(f"{match['name']}_score", is_listed)
        is_of_other = bool(match["data"]) and match["separator"].isspace() and _split_of(match) is None
        if match["time"] or is_of_other:
            return
        if named is None:
            self._read_unknown(match)
            return
        name, is_strong = named
        is_precise = len(match["number"].partition(".")[2]) >= _FEWEST_DIGITS  # "accuracy 0.23 macro F1 0.168"
        is_apart = is_precise and _BLANKS.fullmatch(line, self._end, start)
        follows = bool(self.values) and bool(is_apart or _LISTED.fullmatch(line, self._end, start))
        is_reward = self.is_placed and metric_kind(name).quantity == "reward"  # those of CartPole are whole numbers
        value = _value(match, strong=is_strong, placed=self._is_headed or self._is_whole or follows, whole=is_reward)
        if value is None:
            return
        if is_reward and not set(AVERAGES).isdisjoint((match["note"] or "").lower().split()):
            name = f"average_{name}"  # "return (mean of 15) 0.7"
        if not self.is_placed and "mean" not in name_words(name) and _SPREAD.match(line, match.end()):
            name = f"mean_{name}"
        name = self._distinguish(self._with_split(name, match), start)
        mean = _AVERAGE.match(line, match.end()) if has_split(name) and not match["of"] else None
        if mean is not None and name not in self.values:
            self.running.add(name)
            value = float(mean["number"])
        self.values.setdefault(self._with_note(name, match), value)
        self._end = match.end()

    def _read_unknown(self, match: re.Match[str]) -> None:
        """Reads a number behind a name that is no known quantity: "Epoch 3: contrastive=4.6, test_recon 31.2"."""
        words = name_words(match["name"])
        is_of_split = len(words) > 1 and words[0] in SPLITS
        if not self.is_counted or is_setting(match["name"]) or (words[-1:] and words[-1] in SPLITS):
            return
        is_precise = self.is_placed and len(match["number"].partition(".")[2]) >= _FEWEST_DIGITS
        if match["separator"].isspace() and not is_of_split and not is_precise:
            return
        value, name = _value(match, strong=False, placed=True, whole=False), match["name"]
        word = _WORD_BEFORE.search(self._line[: match.start()]) if name.lower() in _ERRORS else None
        if word is not None and not is_setting(word[1]):
            name = f"{word[1]}_{name}"  # "Recon Error: 0.12"
        if is_of_split:
            self._split_of_unknown = SPLITS[words[0]]
        elif name in self.values and self._split_of_unknown:  # "train rec 23.6 kl 2.1 | test rec 23.3 kl 2.2"
            name = f"{self._split_of_unknown}/{name}"
        name = self._with_note(name, match)
        if value is not None and name not in self.values:
            self.values[name] = value
            self.unsure.add(name)

    def _with_note(self, name: str, match: re.Match[str]) -> str:
        """Returns a name that came before with the word in brackets behind it: "mmd(live) 0.12 mmd(ema) 0.11"."""
        note = (match["note"] or "").lower()
        split, slash, bare = name.rpartition("/")
        return f"{split}{slash}{note}_{bare}" if name in self.values and note.isalpha() else name

    def _with_split(self, name: str, match: re.Match[str]) -> str:
        """Returns a name with the data split that the line names for it."""
        line, start = self._line, match.start()
        if section := _SECTION.search(line[max(self._end, start - _NEAR) : start]):
            self._section, self._split_of_word = SPLITS[section[1].lower()].removeprefix("train"), ""
        elif self._section is None:
            self._section = data_split(line[:start])
        if has_split(name):
            # "val loss 0.6 acc 0.7": the second one is of the same data.
            has_train = any(metric_kind(known).split == "train" for known in self.values)
            self._split_of_word = _split_before(match["name"], is_second=has_train)
            return f"best/{name}" if self._section == "best" else name
        own = _split_of(match)
        if own is None and line[:start].lower().endswith("batch "):
            return name  # "test error 15.7 % (last batch loss 0.47)"
        split = self._section or self._split_of_word if own is None else own.removeprefix("train")
        if own is None and not self._section and line.find(match["name"], match.end()) >= 0:
            split = ""  # "train_loss=0.5 val_loss=0.6 acc=0.7 val_acc=0.8"
        return f"{split}/{self._variant}{name}" if split and metric_kind(name).quantity else name

    def _distinguish(self, name: str, start: int) -> str:
        """Returns a name with the word before it, if it came before: "accuracy 0.71 ema accuracy 0.74".

        So does a part of a loss that comes alone: "Reconst Loss: 80.1, KL Div: 3.2".
        """
        word = _WORD_BEFORE.search(self._line[:start])
        full = name
        if name in self._words_before and word is not None:
            first = self._words_before[name]  # "D loss: 0.6 G loss: 0.9"
            if first and first not in COUNTERS:
                self.values = {f"{first}_{n}" if n == name else n: number for n, number in self.values.items()}
            full = f"{word[1]}_{name}"
        elif compared := _COMPARISON.search(self._line[max(0, start - _NEAR) : start]):
            split, slash, bare = name.rpartition("/")
            full = f"{split}{slash}{compared[1].replace(' ', '_')}_{bare}"
        elif name.rpartition("/")[2] == "loss" and word is not None and _PART_OF_LOSS.fullmatch(word[1]):
            full = f"{name.removesuffix('loss')}{word[1]}_loss"
        self._words_before.setdefault(full, word[1] if word is not None else "")
        return full


def _has_only_metrics(line: str, matches: list[re.Match[str]]) -> bool:
    """Whether a line has numbers behind names of metrics and nothing else; several may have a heading: "Final:"."""
    begin, end = (matches[0].start(), matches[-1].end()) if matches else (0, 0)
    gaps = [line[one.end() : other.start()] for one, other in pairwise(matches)]
    before = line[:begin]
    is_headed = len(matches) > 1 and bool(_LINE_HEADING.fullmatch(before))
    has_words = any(_WORD.search(text) for text in (*gaps, line[end:], "" if is_headed else before))
    is_named = all(metric_kind(match["name"]).quantity for match in matches)
    return not has_words and (is_named or len(matches) == 1)


def _split_of(match: re.Match[str]) -> str | None:
    """Returns the data split behind the name of a metric: of "loss (val) 0.6" and "loss on val: 0.6"."""
    return SPLITS.get((match["data"] or match["note"] or "").strip().lower())


def _accuracy(before: str) -> str:
    split = data_split(before)
    return f"{split}/accuracy" if split else "accuracy"


def _values_of_splits(line: str, *, with_blanks: bool) -> dict[str, float]:
    """Returns the numbers behind the names of data splits.

    Args:
        with_blanks: Whether a blank between name and number is enough.
    """
    values: dict[str, float] = {}
    for match in _SPLIT_PAIR.finditer(line):
        if with_blanks or not match["separator"].isspace():
            split = SPLITS[match["name"].lower()]
            heading = _HEADING.search(line[max(0, match.start() - _NEAR) : match.start()])
            metric = metric_name(heading[1]) if heading is not None else None
            values.setdefault(f"{split}/{metric[0]}" if metric is not None else split, float(match["number"]))
    return values


def _split_before(name: str, *, is_second: bool) -> str:
    """Returns the held-out data that hold for the metrics behind one: "val" of "val loss".

    Args:
        is_second: Whether those of the training are named before: "train_loss=0.5 val_loss=0.6 dice=0.7".
    """
    split = data_split(name.replace("_", " ") if is_second else name) if is_second or " " in name else ""
    return "" if split == "best" else split


def _value(match: re.Match[str], *, strong: bool, placed: bool, whole: bool) -> float | None:
    """Returns the number after a name, or `None` if it is not written like a metric.

    Args:
        whole: Whether the metric may be a whole number, whatever is between the name and the number.
    """
    number = match["number"]
    if match["of"]:
        total = int(match["of"])
        return int(number) / total if number.isdigit() and total and "acc" in match["name"].lower() else None
    plain = number.lstrip("+-").isdigit()
    blank = match["separator"].isspace()
    if plain and not whole and (blank or not strong):
        return None
    if blank and not strong and not placed:
        return None
    value = float(number)
    return None if blank and not strong and not math.isfinite(value) else value
