"""Brings Chinese lines of metrics into English: "第 3 轮 验证集损失为 0.5" becomes "epoch 3 val loss is 0.5".

A phrase with an unknown word remains as it is, so that such a metric has the name that the program prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_PUNCTUATION = str.maketrans(
    {
        "：": ": ",
        "，": ", ",
        "；": "; ",
        "、": ", ",
        "｜": " | ",
        "（": " (",
        "）": ") ",
        "【": "[",
        "】": "]",
        "＝": "=",
        "％": "%",
    }
)


def _by_chinese(table: Mapping[str, str]) -> dict[str, str]:
    return {word: english for english, words in table.items() for word in words.split()}


_COUNTERS = _by_chinese(
    {
        "epoch": "轮 轮次 轮训练 个epoch 代 周期",
        "step": "步 次迭代 个迭代 迭代",
        "episode": "回合 局",
        "batch": "批 批次 个批次",
        "fold": "折",
    }
)
"""Behind "第 3"."""
_PLACES = _by_chinese({"epoch": "轮次", "iter": "迭代 迭代次数", "step": "步数", "episode": "回合", "batch": "批次"})
"""Before a number."""
_QUALIFIERS = _by_chinese(
    {
        "train": "训练",
        "val": "验证",
        "test": "测试",
        "best": "最佳 最优 最好",
        "highest": "最高",
        "lowest": "最低",
        "final": "最终",
    }
)
_QUANTITIES = {
    "loss": "损失 损失值", "crossentropy": "交叉熵", "cost": "代价", "accuracy": "准确率 准确度 正确率 精度",
    "precision": "精确率 查准率", "recall": "召回率 查全率", "error": "误差", "mse": "均方误差",
    "rmse": "均方根误差", "mae": "平均绝对误差", "mape": "平均绝对百分比误差", "r2": "决定系数",
    "correlation": "相关系数", "error_rate": "错误率", "wer": "词错误率", "cer": "字错误率", "perplexity": "困惑度",
    "IoU": "交并比", "mIoU": "平均交并比", "hit_rate": "命中率", "AP": "平均精度", "mAP": "平均精度均值",
    "PSNR": "峰值信噪比", "SSIM": "结构相似性 结构相似度", "reward": "奖励 回报", "score": "得分 分数",
    "winrate": "胜率", "success_rate": "成功率", "lr": "学习率", "grad_norm": "梯度范数", "divergence": "散度",
    "entropy": "熵",
}  # fmt: skip
_SETTINGS = {
    "time": "耗时 用时 时间 时长", "remaining": "剩余", "memory": "显存 内存", "speed": "速度",
    "throughput": "吞吐量", "progress": "进度", "temperature": "温度", "epsilon": "探索率", "weight": "权重",
    "coef": "系数", "threshold": "阈值", "ratio": "比例", "batch_size": "批大小", "seed": "种子",
    "samples": "样本 样本数", "max": "最大", "min": "最小", "target": "目标", "patience": "耐心 容忍",
    "decay": "衰减", "momentum": "动量", "epochs": "轮数", "steps": "步数",
}  # fmt: skip
_PARTICLES = {
    "total": "总 累计 累积",
    "epoch": "轮 轮次",
    "episode": "回合",
    "mean": "均值",
    "": "平均 当前 本轮 每批 每步 每轮 集 上 上的 的 值 在 中",
}
_WORDS = _QUALIFIERS | _by_chinese(_QUANTITIES) | _by_chinese(_SETTINGS) | _by_chinese(_PARTICLES)


def _one_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_ORDINAL = re.compile(rf"第\s{{0,3}}(\d{{1,15}})\s{{0,3}}(?:/\s{{0,3}}(\d{{1,15}})\s{{0,3}})?({_one_of(_COUNTERS)})")
_COUNTED = re.compile(rf"(?<![\u4e00-\u9fff])({_one_of(_PLACES)})\s{{0,3}}[:=#\[(]?\s{{0,3}}(?=\d)")
_DIGIT = re.compile(r"\d")
_RUN = re.compile(r"[\u4e00-\u9fff]+")
_WORD = re.compile(_one_of(_WORDS))
_VERB = re.compile("(?:约为|等于|达到|[为是达])$")
_NAME_BEFORE = re.compile(r"[A-Za-z][\w@-]{0,30}\Z")


def translate_line(line: str) -> str:
    """Returns a line with the Chinese words of counters, data splits, quantities and settings in English.

    "验证集 F1值：0.79" becomes "val F1: 0.79", "Top-1准确率" "Top-1_accuracy"; of "重构损失 39.2" nothing changes.
    """
    if line.isascii():
        return line
    line = _ORDINAL.sub(_number, line.translate(_PUNCTUATION))
    return _RUN.sub(_translate, _COUNTED.sub(lambda match: f"{_PLACES[match[1]]} ", line))


def _number(match: re.Match[str]) -> str:
    total = f"/{match[2]}" if match[2] else ""
    return f"{_COUNTERS[match[3]]} {match[1]}{total} "


def _translate(match: re.Match[str]) -> str:
    run = match.group()
    verb = _VERB.search(run)
    bare = run[: verb.start()] if verb is not None else run
    found = _WORD.findall(bare)
    is_known = "".join(found) == bare
    head = [_QUALIFIERS[word] for word in found if word in _QUALIFIERS]
    rest = [english for word in found if word not in _QUALIFIERS and (english := _WORDS[word])]
    line = match.string
    blank = " " if _DIGIT.search(line) else "_"  # a column of a table is one word
    text = blank.join([*head, *(["_".join(rest)] if rest else ())]) if is_known else bare
    if text and is_known and match.start() and line[match.start() - 1].isascii():
        before = line[max(0, match.start() - 32) : match.start()]
        joint = "_" if _NAME_BEFORE.search(before) else " " if before[-1].isalnum() else ""
        text = joint + text
    text += " is" if verb is not None else ""
    follows = match.end() < len(line) and line[match.end()].isascii() and line[match.end()].isalnum()
    return f"{text} " if text and follows else text
