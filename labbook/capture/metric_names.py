"""Recognizes names of metrics in console text, and gives them the name that the entry shows."""

from __future__ import annotations

import re
from functools import lru_cache

_STRONG = frozenset(["loss", "acc", "accuracy", "ppl", "perplexity", "lr", "learningrate", "损失", "准确率"])
_WEAK = frozenset({
    "top1", "top5", "f1", "auc", "auroc", "map", "ap", "precision", "recall", "iou", "miou", "dice", "bleu", "rouge",
    "psnr", "ssim", "mse", "mae", "rmse", "r2", "wer", "cer", "error", "err", "reward", "return", "score", "hmean",
})  # fmt: skip
"""Words that also have other meanings ("precision: 16"): they count only before a number with a decimal point."""

_NOT_METRICS = frozenset({
    "weight", "weights", "scale", "scaler", "coef", "coeff", "coefficient", "lambda", "alpha", "beta", "gamma",
    "factor", "threshold", "thr", "patience", "delta", "target", "clip", "max", "min", "eps", "smooth", "smoothing",
    "reduction", "interval", "every", "freq", "frequency", "mode", "type", "fn", "func", "function", "name", "names",
    "steps", "step", "epoch", "epochs", "iter", "batch", "size", "time", "cost", "eta", "seed", "decay", "momentum",
    "warmup", "ratio", "dir", "path", "file", "id", "version", "port", "code", "level", "ref", "index", "limit",
})  # fmt: skip
_SPLITS = {
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
    """Returns a metric's name in the entry and whether any number may follow it; else `None`.

    Args:
        text: The name as printed: "loss", "train_loss", "Acc@1", "val/loss", "Average loss", "CTCLoss", "训练损失".
    """
    chinese = _chinese_metric(text)
    if chinese is not None:
        return chinese, True
    words = [w.lower() for w in _WORD.findall(text)]
    compact = "".join(words)
    if compact in ("lr", "learningrate"):
        return "lr", True
    if compact.endswith("gradnorm") and "max" not in words:
        return _clean_name(text), True
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
    return _clean_name(text), strong


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
    split = _SPLITS[match.group()]
    return "" if split == "train" else split


_SPLIT = re.compile(
    r"(?<![A-Za-z])(?:" + "|".join(sorted(_SPLITS, key=len, reverse=True)) + r")(?![A-Za-z])", re.IGNORECASE
)


def has_split(name: str) -> bool:
    """Whether the name includes a data split ("val_loss")."""
    return any(w.lower() in _SPLITS or w.lower() == "best" for w in _WORD.findall(name))


def _chinese_metric(text: str) -> str | None:
    for chinese, name in _CHINESE.items():
        if text.endswith(chinese):
            before = text[: -len(chinese)]
            part = _SPLITS.get(before, "")
            return f"{part}_{name}" if part else (name if not before or before in ("平均", "总") else None)
    return None


def _clean_name(text: str) -> str:
    """Returns the name with `_` for blanks and without words for averages."""
    parts = [p for p in re.split(r"[\s]+", text.strip()) if p.lower() not in ("average", "avg", "mean", "running")]
    name = "_".join(parts) or text.strip()
    return name.lower() if name[:1].isupper() and name.isalpha() and not name.isupper() and _is_one_word(name) else name


def _is_one_word(name: str) -> bool:
    return len(_WORD.findall(name)) == 1
