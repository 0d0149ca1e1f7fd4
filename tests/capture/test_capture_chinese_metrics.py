"""Metrics that programs print in Chinese: counters, data splits and quantities are read as those in English."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.capture.chinese_metrics import translate_line
from labbook.capture.metrics_text import metrics_from_console


def read(text):
    found = metrics_from_console(text)
    return {one.name: list(zip(one.steps, (round(v, 3) for v in one.values), strict=True)) for one in found}


@pytest.mark.parametrize(
    ("line", "english"),
    [
        ("第 3/12 轮 验证集损失为 0.5", "epoch 3/12  val loss is 0.5"),
        ("Top-1准确率0.8，F1值：0.79", "Top-1_accuracy 0.8, F1: 0.79"),
        ("第5步｜平均交并比＝50％", "step 5  | mIoU=50%"),
        ("重构损失 39.2", "重构损失 39.2"),
        ("损失0.5准确率0.9", "loss 0.5 accuracy 0.9"),
        ("loss 0.5", "loss 0.5"),
    ],
)
def test_known_words_are_in_english_and_phrases_with_others_stay(line, english):
    assert translate_line(line) == english


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("第 {n}/9 轮 重构损失 2.{n} 验证重构 3.{n} 学习率 1.0e-03", {"重构损失": 2, "验证重构": 3, "lr": 0.001}),
        ("[轮次 {n}] 训练准确率: 5.{n}%, 耗时: 1.{n}秒", {"train_accuracy": 5}),
        ("epoch {n}：平均绝对误差=2.{n}，均方误差=3.{n}，决定系数=4.{n}", {"mae": 2, "mse": 3, "r2": 4}),
        ("迭代 {n}: 生成器损失 2.{n} 判别器损失 3.{n}", {"生成器损失": 2, "判别器损失": 3}),
        ("第{n}回合 总奖励 2.{n} 平均奖励 3.{n} 探索率 0.{n}", {"total_reward": 2, "reward": 3}),
        (
            "第 {n} 轮｜训练集损失 2.{n}｜测试集准确率 3.{n}｜AUC 4.{n}",
            {"train_loss": 2, "test_accuracy": 3, "test/AUC": 4},
        ),
        ("epoch {n} 验证集 命中率@10: 2.{n} NDCG@10: 3.{n}", {"val_hit_rate@10": 2, "val/NDCG@10": 3}),
        ("轮次 {n} - 验证: 损失=2.{n} - 每轮耗时 3.{n}s - 剩余时间 1.{n}min", {"val/loss": 2}),
        ("epoch {n} dice_coef: 2.{n} 损失权重: 0.{n}", {"dice_coef": 2}),
        ("[训练] epoch {n}, 损失: 2.{n}, 每批耗时: 0.1{n} 秒", {"loss": 2}),
    ],
)
def test_a_line_of_an_epoch_in_chinese(template, found):
    lines = "\n".join(template.format(n=n) for n in (1, 2))
    assert read(lines) == {name: [(n, v if v < 1 else v + n / 10) for n in (1, 2)] for name, v in found.items()}


@pytest.mark.parametrize("head", ["轮次 训练损失 验证准确率", "| 轮次 | 训练损失 | 验证准确率 |\n|---|---|---|"])
def test_a_table_with_chinese_columns(head):
    bar = "|" if "|" in head else " "
    rows = "\n".join(f"{bar} {n} {bar} 0.{n} {bar} 0.9{n} {bar}" for n in (1, 2))
    assert read(f"{head}\n{rows}") == {"train_loss": [(1, 0.1), (2, 0.2)], "val_accuracy": [(1, 0.91), (2, 0.92)]}


@pytest.mark.parametrize(
    "line",
    [
        "学习率: 0.001  批大小: 64  轮数: 20",
        "损失函数权重：0.5，误差阈值 0.01",
        "准确率提升 0.02，损失下降 0.5",
        "加载数据用时 1.25 秒，共 1.2 万个样本",
        "加载模型 resnet_v1.5 完成，参数量 1.25M",
    ],
)
def test_settings_times_and_changes_are_no_metrics(line):
    assert read(line) == {}


def test_the_best_value_and_its_epoch():
    assert read("训练完成！最佳验证准确率：93.2%（第 8 轮），总耗时 12.5 秒") == {"best_val_accuracy": [(8, 93.2)]}


@given(st.text("第轮步损失准确率训练验证集为0123456789.:：，（） ab"))
def test_any_text_is_translated_once(text):
    assert len(translate_line(text)) <= 8 * len(text) + 8
    assert all(name for name in read(text))
