"""Recognizes names of metrics in console text, and gives them the name that the entry shows."""

from __future__ import annotations

import re
from functools import lru_cache

from labbook.model.metric_kinds import COUNTERS, QUANTITIES, SPLITS, is_counter, metric_kind, name_words

_STRONG = ("accuracy", "loss", "perplexity")
"""Quantities whose words have no other meaning; a number may follow without a decimal point ("precision: 16")."""

_NOT_METRICS = frozenset({
    "weight", "weights", "scale", "scaler", "coef", "coeff", "coefficient", "lambda", "alpha", "beta", "gamma",
    "factor", "threshold", "thr", "patience", "delta", "clip", "max", "min", "eps", "smooth", "smoothing",
    "reduction", "interval", "every", "freq", "frequency", "mode", "type", "fn", "func", "function", "name", "names",
    "steps", "step", "epoch", "epochs", "iter", "batch", "size", "time", "eta", "seed", "decay", "momentum",
    "warmup", "ratio", "dir", "path", "file", "id", "version", "port", "code", "level", "ref", "index", "limit",
    "early", "stop", "stopping", "goal", "required", "reader", "data", "io", "remaining", "elapsed", "discount",
})  # fmt: skip
_NO_QUANTITY = frozenset({
    "lr", "took", "mem", "memory", "gpu", "cpu", "ram", "mb", "gb", "sec", "secs", "ms", "min", "mins", "minutes",
    "hours", "dropout", "wall", "clock", "duration", "throughput", "speed", "it", "percent", "pct", "params", "samples",
    "tokens", "lasted", "spent", "used", "is", "was", "and", "in", "at", "of", "to", "with", "after", "from",
})  # fmt: skip
"""Words that make a number of an unknown name no result."""
_ALONE_NO_METRIC = frozenset(
    {"error", "err", "errors", "return", "returns", "score", "top", "map", "success", "correct"}
)
_LISTED_METRICS = frozenset({"return", "returns", "score"})
_OF_COST = frozenset({"cost", "costs", "avg", "average", "mean", "total", "train", "val", "valid", "test", "eval"})
_OF_RATE = frozenset({"lr", "learning", "rate", "group", "pg", "param", "current"})
AVERAGES = ("average", "avg", "mean", "running", "sum")

QUALIFIERS = (
    "train|training|val|vali|valid|validation|eval|evaluation|dev|test|best|average|avg|mean|total|running|last|episode"
    "|final|source|target|teacher|student|lowest|highest|ema|swa|macro|micro|weighted|balanced"
)
VARIANTS = "best|lowest|highest|ema|swa"
"""What comes before another value of a metric: "Best val Acc", "lowest val loss", "SWA val_acc" of averaged weights."""
_LONG_WORDS = {word for _, _, words in QUANTITIES for word in words.split() if len(word) > 2 or not word.isascii()}
GATE = "|".join(sorted(_LONG_WORDS))
"""Alternatives of which a line with a metric has one; in lower case."""


@lru_cache(maxsize=4096)
def metric_name(text: str, listed: bool = False) -> tuple[str, bool] | None:
    """Returns a metric's name in the entry and whether any number may follow it; else `None`.

    Args:
        text: The name as printed: "loss", "train_loss", "Acc@1", "val/loss", "Average loss", "CTCLoss", "重构损失".
        listed: Whether it is in a list after an epoch or a step, as in "ep 5 | return 0.70 | eps 0.83".
    """
    words = name_words(text)
    if "lr" in words or {"learning", "rate"} <= set(words):
        plain = all(word in _OF_RATE or word.isdigit() for word in words)
        return ("lr" if words in (("lr",), ("learning", "rate")) else _clean_name(text), True) if plain else None
    if "".join(words).endswith("gradnorm") and "max" not in words:
        return _clean_name(text), True
    if len(words) > 1:
        # Lightning logs `train_loss_step` and `train_loss_epoch`, other examples print `epoch_loss`.
        words = tuple(word for word in words if word not in ("step", "epoch"))
    if words and not words[-1].isascii() and not metric_kind(words[-1]).quantity:
        return None  # 损失 decides in 重构损失, not in 损失提升
    kind = metric_kind(text)
    if kind.quantity in ("overlap", "correlation"):
        words = tuple(word for word in words if word not in ("coef", "coeff", "coefficient"))
    if not kind.quantity or kind.quantity == "speed" or any(word in _NOT_METRICS for word in words):
        return None
    if any(word in ("cost", "costs") for word in words) and not all(word in _OF_COST for word in words):
        return None  # Paddle's suites print `batch_cost` and `reader_cost`, which are times
    alone = _ALONE_NO_METRIC - _LISTED_METRICS if listed else _ALONE_NO_METRIC
    if len(words) == 1 and words[0] in alone and not any(c.isdigit() or c.isupper() for c in text[1:]):
        return None
    return _clean_name(text), kind.quantity in _STRONG


def is_setting(name: str) -> bool:
    """Whether an unknown name is that of a setting, a counter, a time or an amount, not of a result."""
    words = name_words(name)
    is_known = any(word in _NOT_METRICS or word in _NO_QUANTITY or word in COUNTERS for word in words)
    return is_known or is_counter(name) or all(len(word) == 1 and word.isascii() for word in words)


def data_split(before: str) -> str:
    """Returns the data split of a line, "val", "test" or "best"; "" for training or unknown.

    Args:
        before: The text before the line's numbers. The examples of PyTorch mark results of a validation with a leading
            `*`, PaddleOCR with "cur metric".
    """
    start = before[:200].lower()
    if start.strip() == "*" or "cur metric" in start:
        return "val"
    if "best metric" in start:
        return "best"
    match = _SPLIT.search(start)
    if match is None:
        return ""
    split = SPLITS[match.group()]
    return "" if split == "train" else split


_SPLIT = re.compile(
    r"(?<![A-Za-z])(?:" + "|".join(sorted(SPLITS, key=len, reverse=True)) + r")(?![A-Za-z])", re.IGNORECASE
)


def may_be_goal(name: str) -> bool:
    """Whether a name may be that of a goal (`target_acc: 0.9`), which never changes, or of a target domain."""
    return "target" in name_words(name)


def has_split(name: str) -> bool:
    """Whether the name includes a data split ("val_loss")."""
    return any(word in SPLITS or word == "best" for word in name_words(name))


def _clean_name(text: str) -> str:
    """Returns the name with `_` for blanks and without words for averages, but those of rewards."""
    words = re.split(r"[\s]+", text.strip())
    parts = [word for word in words if word.lower() not in AVERAGES]
    if 0 < len(parts) < len(words) and metric_kind(text).quantity == "reward":
        return "_".join(["average", *parts]).lower()
    name = "_".join(parts) or text.strip()
    return name.lower() if name[:1].isupper() and name.isalpha() and not name.isupper() and _is_one_word(name) else name


def _is_one_word(name: str) -> bool:
    return len(name_words(name)) == 1 and name[1:] == name[1:].lower()
