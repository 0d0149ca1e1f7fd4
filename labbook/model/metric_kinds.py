"""Reads the name of a metric: quantity, direction, data split; and which metric represents a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from labbook.frozen import dataclass

QUANTITIES: tuple[tuple[str, str, str], ...] = (
    ("average precision", "max", "map ap auprc ndcg mrr 平均精度"),
    ("overlap", "max", "iou miou dice pq 交并比"),
    ("accuracy", "max", "acc accuracy top top1 top5 correct oa 准确率 正确率 准确度"),
    ("f1", "max", "f1 fscore fbeta hmean"),
    ("area under curve", "max", "auc auroc roc cindex concordance"),
    ("precision and recall", "max", "precision recall sensitivity specificity hit hits 精确率 召回率 命中率 精度"),
    ("text overlap", "max", "bleu sacrebleu rouge meteor cider chrf"),
    ("image likeness", "max", "psnr ssim pesq stoi"),
    ("correlation", "max", "r2 pearson pearsonr spearman spearmanr kendall kappa corr correlation mcc"),
    ("agreement of clusters", "max", "ari nmi silhouette"),
    ("reward", "max", "reward rewards rew return returns score success winrate 奖励 回报 得分 胜率 成功率"),
    ("word error", "min", "wer cer eer fid lpips ece brier epe hausdorff chamfer mmd"),
    ("perplexity", "min", "ppl perplexity bpc bpb 困惑度"),
    ("error", "min", "mse mae rmse mape rmsle err error errors 误差 错误率 均方误差"),
    ("scaled error", "min", "smape wape mase nrmse rmsse crps"),
    ("evidence", "max", "elbo"),
    ("loss", "min", "loss losses cost costs nll ce bce xent crossentropy recon reconstruction 损失 损失值 重构 重建"),
    ("objective", "", "objective"),
)
"""Quantity, direction and words of metrics that can represent a run, the most telling first. Source: chosen by us from
the names that trainers of PyTorch and PaddlePaddle print."""

_SUFFIXES = frozenset({"score", "rate"})
_SPEEDS = frozenset(["fps", "sps", "ips", "throughput", "speed", "qps"])
"""More is better, but they do not say how good a model is."""

_NO_BEST = frozenset({
    "lr", "grad", "norm", "kl", "entropy", "epsilon", "temperature", "policy", "actor", "critic", "value", "advantage",
    "pg", "td", "q", "surrogate", "generator", "discriminator", "gen", "disc", "adv", "adversarial", "gan", "g", "d",
    "fake", "real", "clip", "ratio", "time", "memory", "weight", "weights", "scale", "std", "var", "chosen", "rejected",
    "生成器", "判别器", "对抗", "策略", "价值", "权重",
})  # fmt: skip
"""Words of quantities that have no best value: settings, and losses of policies and of adversaries, which may
rise, and what each of the two answers of a preference gets."""

_NEGATED = frozenset({"neg", "negative"})
"""Turn the direction of a bound and of an error: `neg_elbo`, `neg_mean_squared_error` of scikit-learn. A `neg_loss` or
`neg_acc` is that of the negative pairs."""

COMPARISONS = ("naive", "baseline", "majority", "persistence", "climatology", "dummy", "chance")
_COMPARED = frozenset({"teacher", "alone", "untrained", "random", *COMPARISONS})
"""What a program trains or measures to compare its model with."""

_RUNNING_BEST = frozenset({"best", "min", "max", "lowest", "highest", "last", "最佳", "最优", "最高", "最低"})

COUNTERS = frozenset({
    "epoch", "epochs", "step", "steps", "iteration", "iter", "hp_metric", "progress", "eta", "runtime", "total_flos",
    "num_input_tokens_seen", "序号",
})  # fmt: skip
"""What loggers write beside metrics: places in time, and the placeholder of Lightning's hyperparameters."""

SPLITS = {
    "train": "train", "training": "train", "tr": "train", "trn": "train", "训练": "train",
    "val": "val", "vali": "val", "valid": "val", "validation": "val", "验证": "val",
    "eval": "val", "evaluation": "val", "dev": "val", "va": "val",
    "holdout": "val", "heldout": "val", "held-out": "val", "hold-out": "val",
    "test": "test", "testing": "test", "te": "test", "tst": "test", "测试": "test",
}  # fmt: skip
_SPLIT_ORDER = {"val": 0, "test": 1, "": 2, "train": 2}
_RANK = {word: number for number, (_, _, words) in enumerate(QUANTITIES) for word in words.split()}
_KNOWN = (*_RANK, *SPLITS, *_NO_BEST, *_RUNNING_BEST)
_CHINESE = sorted((word for word in _KNOWN if not word.isascii()), key=len, reverse=True)
_WHOLE = re.compile(r"[A-Za-z]+\d*|\d+|[\u4e00-\u9fff]+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*")
_OVER_OVERLAPS = re.compile(r"50\D{1,2}95")
"""In the name of an average precision that is a mean over overlaps, as `mAP50-95`."""
_C_INDEX = re.compile(r"(?<![A-Za-z])c[-_ ]index(?![A-Za-z])", re.IGNORECASE)
_AT = re.compile(r"(?<![A-Za-z])(HR|R|P)@(?=\d)")
_RANKED = {"HR": "hit@", "R": "recall@", "P": "precision@"}
_OPTIMIZER = re.compile(r"\.(?:opt|group)\d+")


@dataclass(frozen=True)
class MetricKind:
    """What a metric is, judged by its name.

    Args:
        quantity: First column of `QUANTITIES`, "speed", or "" for an unknown one.
        direction: "max" or "min"; "" where no value is the best one.
        split: "train", "val", "test" or "".
        rank: Place in `QUANTITIES`; smaller ones say more of a model.
        running_best: Whether it repeats the best or last value of another one ("best_acc", "last_reward").
    """

    quantity: str = ""
    direction: str = ""
    split: str = ""
    rank: int = len(QUANTITIES)
    running_best: bool = False

    @property
    def is_training(self) -> bool:
        """Whether it is measured on training data, as far as the name says."""
        return self.split in ("", "train")


@dataclass(frozen=True)
class MetricGoal:
    """The metric that people chose for an experiment or a notebook.

    Args:
        metric: Its name, or "" to find it.
        direction: "max", "min", or "" to know it by the name.
    """

    metric: str = ""
    direction: str = ""


def name_words(name: str) -> tuple[str, ...]:
    """Returns the words of a metric's name in lower case: "val", "acc" of `val/acc`, `valAcc` and `val_acc`."""
    bare = _C_INDEX.sub("cindex", _OPTIMIZER.sub("", name))
    bare = _AT.sub(lambda found: _RANKED[found[1]], bare)
    head, slash, tail = bare.rpartition("/")
    if slash and head.partition("#")[0].endswith((".py", ".ipynb")):
        bare = tail
    found: list[str] = []
    for part in _WHOLE.findall(bare):
        if not part.isascii():
            found += _chinese_words(part)
        elif part.lower().rstrip("0123456789") in _RANK or part.lower() in (*_RANK, *SPLITS):
            found.append(part.lower())  # `mAP50` and `mIoU` are one word
        else:
            found += [word.lower() for word in _CAMEL.findall(part)]
    return tuple(found)


def _chinese_words(text: str) -> list[str]:
    words = []
    while text:
        known = next((word for word in _CHINESE if text.startswith(word)), text[0])
        words.append(known)
        text = text[len(known) :]
    return words


@lru_cache(maxsize=4096)
def metric_kind(name: str) -> MetricKind:
    """Returns what a metric is by the words of its name; the last known word decides."""
    words = name_words(name)
    split = next((SPLITS[word] for word in words if word in SPLITS), "")
    best = bool(_RUNNING_BEST & set(words))
    if _SPEEDS & set(words) or ({"per", "second"} <= set(words) or {"per", "sec"} <= set(words)):
        return MetricKind("speed", "max", split, running_best=best)
    ranks = [rank for word in words if word not in _SUFFIXES and (rank := _rank(word)) is not None]
    if not ranks and "score" in words:  # `f1_score` is no reward
        ranks = [_RANK["score"]]
    if not ranks:
        return MetricKind(split=split, running_best=best)
    # `error_rate` and `loss_acc` are what their last word says; `perceptual_loss_score` is rare.
    rank = ranks[-1]
    quantity, direction, _ = QUANTITIES[rank]
    if _NEGATED & set(words) and quantity in ("evidence", "error"):
        direction = "min" if direction == "max" else "max"
    if _NO_BEST & set(words):
        direction = ""
    return MetricKind(quantity, direction, split, rank, best)


def _rank(word: str) -> int | None:
    found = _RANK.get(word, _RANK.get(word.rstrip("0123456789")))
    if found is None and word.endswith(("loss", "acc", "reward", "return")):
        found = _RANK["loss" if word.endswith("loss") else "acc" if word.endswith("acc") else "reward"]
    return found


def direction_of(name: str) -> str:
    """Returns "max" where more is better, "min" where less is, and "" where no value is the best one."""
    return metric_kind(name).direction


def is_counter(name: str) -> bool:
    """Whether a logged name only counts epochs or steps, or is a placeholder: "trainer/global_step", "hp_metric"."""
    bare = name.rpartition("/")[2].lower()
    return bare in COUNTERS or bare.removeprefix("global_").removeprefix("current_") in COUNTERS


def choose_metric(names: Mapping[str, bool] | Iterable[str], goal: MetricGoal | None = None) -> str:
    """Returns the metric that represents a run: the chosen one, else validation before training, by known names.

    The one whose best value the program reports, too, comes first: "Best AUC". Of two equal ones, that with a value for
    each epoch comes before that with a value for each batch.

    Args:
        names: Names of the metrics, most reliable first; with a mapping, whether each has one value an epoch.
        goal: What people chose.

    Returns:
        "" if none of them has a best value.
    """
    by_epoch = names if isinstance(names, Mapping) else dict.fromkeys(names, False)
    if goal is not None and goal.metric:
        chosen = named_metric(by_epoch, goal.metric)
        if chosen:
            return chosen
    known = [(name, kind) for name in by_epoch if (kind := metric_kind(name)).direction and kind.quantity != "speed"]
    order = {name: number for number, name in enumerate(by_epoch)}
    selecting = {_plain_words(name) for name, kind in known if kind.running_best and kind.quantity != "loss"}

    has_train = any(kind.split == "train" and kind.quantity != "loss" for _, kind in known)
    is_held_out = any(not (kind.is_training or kind.running_best) for _, kind in known)

    def place(found: tuple[str, MetricKind]) -> tuple[bool, float, bool, bool, int, bool, bool, bool, int]:
        name, kind = found
        # The best value on held-out data, or the reward of the last episode, says more than a training loss.
        is_repeated = kind.running_best and kind.quantity != "reward" and (is_held_out or kind.is_training)
        is_selecting = _plain_words(name) in selecting and not kind.running_best
        # Detectors and searches are never judged on what they train on.
        split = kind.split or ("val" if kind.rank == 0 else "")
        # Where another metric is named as one of the training data, one without a split is usually of held-out data.
        has_no_split = not split and kind.quantity not in ("loss", "reward")
        order_of_split = _SPLIT_ORDER[split] - (0.5 if has_no_split and has_train else 0)
        group = is_repeated, order_of_split, bool(_COMPARED & set(name_words(name))), not is_selecting
        return *group, kind.rank, kind.running_best, not by_epoch[name], not _OVER_OVERLAPS.search(name), order[name]

    return min(known, key=place)[0] if known else ""


def _plain_words(name: str) -> frozenset[str]:
    """Returns the words of a name without data split and "best": "auc" of "val/AUC" and "Best AUC"."""
    return frozenset(name_words(name)).difference(_RUNNING_BEST, SPLITS)


def named_metric(names: Iterable[str], wanted: str) -> str:
    """Returns the metric of this name, else the one of the same words (`val/acc` for `val_acc`), or ""."""
    listed = list(names)
    if wanted in listed:
        return wanted
    words = name_words(wanted)
    return next((name for name in listed if name_words(name) == words), "")
