"""Which words in console text name a metric, and what the metric is called in the entry."""

from __future__ import annotations

import re
from functools import lru_cache

_STRONG = frozenset(["loss", "acc", "accuracy", "ppl", "perplexity", "lr", "learningrate", "损失", "准确率"])
_WEAK = frozenset({
    "top1", "top5", "f1", "auc", "auroc", "map", "ap", "precision", "recall", "iou", "miou", "dice", "bleu", "rouge",
    "psnr", "ssim", "mse", "mae", "rmse", "r2", "wer", "cer", "error", "err", "reward", "return", "score", "hmean",
})  # fmt: skip
"""Words that also name other things ("precision: 16"): they count only before a number with a decimal point."""

_NOT_METRICS = frozenset({
    "weight", "weights", "scale", "scaler", "coef", "coeff", "coefficient", "lambda", "alpha", "beta", "gamma",
    "factor", "threshold", "thr", "patience", "delta", "target", "clip", "max", "min", "eps", "smooth", "smoothing",
    "reduction", "interval", "every", "freq", "frequency", "mode", "type", "fn", "func", "function", "name", "names",
    "steps", "step", "epoch", "epochs", "iter", "batch", "size", "time", "cost", "eta", "seed", "decay", "momentum",
    "warmup", "ratio", "dir", "path", "file", "id", "version", "port", "code", "level", "ref", "index", "limit",
})  # fmt: skip
_PART_OF_DATA = {
    "train": "train", "training": "train", "训练": "train", "val": "val", "valid": "val", "validation": "val",
    "验证": "val", "eval": "val", "evaluation": "val", "dev": "val", "test": "test", "testing": "test", "测试": "test",
}  # fmt: skip
_CHINESE = {
    "损失值": "loss", "损失": "loss", "准确率": "accuracy", "正确率": "accuracy", "精确率": "precision",
    "精度": "accuracy",
    "召回率": "recall", "学习率": "lr", "困惑度": "perplexity", "梯度范数": "grad_norm",
}  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+|[\u4e00-\u9fff]+")

CHINESE_NAMES = "|".join(sorted(_CHINESE, key=len, reverse=True))
QUALIFIERS = "train|training|val|valid|validation|eval|evaluation|dev|test|best|average|avg|mean|total|running"


@lru_cache(maxsize=4096)
def metric_name(text: str) -> tuple[str, bool] | None:
    """The metric's name in the entry and whether any number may follow it; `None` when the text names no metric.

    Args:
        text: As printed: "loss", "train_loss", "Acc@1", "val/loss", "Average loss", "CTCLoss", "训练损失".
    """
    chinese = _chinese(text)
    if chinese is not None:
        return chinese, True
    words = [w.lower() for w in _WORD.findall(text)]
    compact = "".join(words)
    if compact in ("lr", "learningrate"):
        return "lr", True
    if compact.endswith("gradnorm") and "max" not in words:
        return _tidied(text), True
    if words and words[-1] in ("step", "epoch"):
        # Lightning logs `train_loss_step` and `train_loss_epoch`.
        words = words[:-1]
    if not words or any(w in _NOT_METRICS for w in words):
        return None
    strong = any(
        w in _STRONG or (w.startswith(("loss", "acc")) and w.rstrip("0123456789") in ("loss", "acc")) for w in words
    )
    weak = any(w in _WEAK or w.rstrip("0123456789") in ("map", "ap", "top", "rouge", "bleu") for w in words)
    if not strong and not weak:
        return None
    if words in (["error"], ["err"], ["return"], ["score"]):
        return None
    return _tidied(text), strong


def part_of_data(before: str) -> str:
    """Which part of the data a line tells of: "val", "test", "best", or "" when the text before its numbers is silent.

    Args:
        before: That text. A leading `*` is how the examples of PyTorch mark the result of a validation, "cur metric"
            how PaddleOCR does.
    """
    said = before[:200].lower()
    if said.strip() == "*" or "cur metric" in said:
        return "val"
    if "best metric" in said:
        return "best"
    found = _PART.search(said)
    if found is None:
        return ""
    part = _PART_OF_DATA[found.group()]
    return "" if part == "train" else part


_PART = re.compile(
    r"(?<![A-Za-z])(?:" + "|".join(sorted(_PART_OF_DATA, key=len, reverse=True)) + r")(?![A-Za-z])", re.IGNORECASE
)


def names_a_part(name: str) -> bool:
    """Whether the name itself says which part of the data it is of ("val_loss")."""
    return any(w.lower() in _PART_OF_DATA or w.lower() == "best" for w in _WORD.findall(name))


def _chinese(text: str) -> str | None:
    for said, name in _CHINESE.items():
        if text.endswith(said):
            before = text[: -len(said)]
            part = _PART_OF_DATA.get(before, "")
            return f"{part}_{name}" if part else (name if not before or before in ("平均", "总") else None)
    return None


def _tidied(text: str) -> str:
    """The name with `_` for blanks; words that only say how it was averaged are left out."""
    parts = [p for p in re.split(r"[\s]+", text.strip()) if p.lower() not in ("average", "avg", "mean", "running")]
    name = "_".join(parts) or text.strip()
    return name.lower() if name[:1].isupper() and name.isalpha() and not name.isupper() and _is_one_word(name) else name


def _is_one_word(name: str) -> bool:
    return len(_WORD.findall(name)) == 1
