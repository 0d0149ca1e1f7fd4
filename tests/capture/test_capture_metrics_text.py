"""Metrics are read from what the usual trainers print, and from nothing that only looks like one."""

import json
import math
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.capture.metrics_text import metrics_from_console

DATA = Path(__file__).parents[1] / "data" / "metrics"


def read(text):
    return {s.name: list(zip(s.steps, s.values, strict=True)) for s in metrics_from_console(text)}


@in_one_test("path", sorted(DATA.glob("*.json")), ids=lambda p: p.stem)
def test_formats(path):
    text = path.with_suffix(".txt").read_text(encoding="utf-8")
    expected = {k: [tuple(p) for p in v] for k, v in json.loads(path.read_text(encoding="utf-8")).items()}
    assert read(text) == expected
    assert all(s.source == "text" for s in metrics_from_console(text))


@in_one_test(
    ("line", "axis", "steps"),
    [
        ("epoch {n}: val_acc 0.{n}", "epoch", (3, 6, 9)),
        ("step {n}: val_acc 0.{n}", "", (3, 6, 9)),
        ("val_acc 0.{n}", "number", (1, 2, 3)),
    ],
)
def test_a_series_knows_what_its_lines_number(line, axis, steps):
    (series,) = metrics_from_console("\n".join(line.format(n=n) for n in (3, 6, 9)))
    assert (series.axis, series.steps, series.last_step) == (axis, steps, None if axis else 9)


def test_numbers_that_are_none():
    series = metrics_from_console("iter 0: loss 4.2, time 3ms\niter 10: loss nan\niter 20: loss: -inf\n")[0]
    assert series.steps == (0, 10, 20) and series.nonfinite == 2
    assert math.isnan(series.values[1]) and series.values[2] == -math.inf


NOTHING = (DATA / "no_metrics.txt").read_text(encoding="utf-8").splitlines()


@in_one_test("line", [*NOTHING, "\n".join(NOTHING)])
def test_words_that_only_look_like_metrics(line):
    assert read(line) == {}


LOSSES_OF_TWO = {"train_loss": 0.5, "val_loss": 0.6}
FOUR = {"train_loss": 0.5, "acc": 0.9, "val_loss": 0.6, "val/acc": 0.8}


@in_one_test(
    ("line", "found"),
    [
        ("第 3 轮 训练损失 0.7 验证 RMSE 1.4", {"train_loss": 0.7, "val_RMSE": 1.4}),
        ("轮次 3/9 训练 loss 0.5 acc 0.9 验证 loss 0.6 acc 0.8", FOUR),
        ("epoch 3: train loss 0.5 acc 0.9 | val loss 0.6 acc 0.8", FOUR),
        ("INFO train: test: loss=0.09 acc=0.98", {"test/loss": 0.09, "test/acc": 0.98}),
        ("Step [10/45], Reconst Loss: 93.2, KL Div: 13.7", {"Reconst_loss": 93.2}),
        ("Train Epoch: 2 [320/1437 (22%)]\tLoss: 0.13 Test: 0.32", {"loss": 0.13, "test": 0.32}),
        ("Epoch 2 Loss: 0.13 Training: 0.75 min Validation: 0.12 s", {"loss": 0.13}),
        ("测试集准确率: 0.93", {"test_accuracy": 0.93}),
        ("Loss: tensor(0.7, grad_fn=<NllLossBackward0>) acc: tensor(0.9, device='cuda:0')", {"loss": 0.7, "acc": 0.9}),
        ("val_loss: 0.3 loss: 0.4 acc: 0.9", {"val_loss": 0.3, "loss": 0.4, "acc": 0.9}),
        ("train_loss=0.5 val_loss=0.6 dice=0.7 grad_norm=1.2", {**LOSSES_OF_TWO, "val/dice": 0.7, "grad_norm": 1.2}),
        ("train_loss 0.5 val_loss 0.6 acc 0.7 val_acc 0.8", {**LOSSES_OF_TWO, "acc": 0.7, "val_acc": 0.8}),
        ("{'epoch': '5', 'eval_loss': '0.6', 'eval_runtime': '0.5444'}", {"eval_loss": 0.6}),
    ],
)
def test_a_word_for_the_data_holds_for_the_metrics_behind_it(line, found):
    assert {series.name: series.last for series in metrics_from_console(line)} == found


@given(st.text())
def test_any_text_is_read(text):
    for series in metrics_from_console(text + "\nstep 3 loss: 0.5"):
        assert list(series.steps) == sorted(set(series.steps)) and len(series.steps) == len(series.values)


@in_one_test(
    "piece",
    ["loss ", "loss_", "acc", ": ", "loss: " + "1" * 50, "epoch [(", "train ", "[1/2", "第1轮", "loss(", "a.b/c-d@"],
)
def test_time_grows_with_the_text_only(piece):
    """Ten times the text may take thirty times as long, not a hundred times."""

    def cost(lines):
        text = "\n".join([piece * (1900 // len(piece))] * lines)
        started = time.process_time()
        metrics_from_console(text)
        return time.process_time() - started

    assert cost(60) <= 30 * max(cost(6), 0.005)


def test_many_values_are_downsampled_without_losing_extremes():
    text = "\n".join(f"step {i} loss: {100 if i == 777 else 1}.0 m{i}_loss: 1.0" for i in range(9000))
    found = metrics_from_console(text)
    loss = next(s for s in found if s.name == "loss")
    assert len(found) <= 48 and len(loss.values) < 2100 and loss.count == 9000 and max(loss.high) == 100.0


FORMS = {
    "colon": "epoch {epoch}: {name}: {value:.4f}",
    "equals": "Epoch {epoch} | {name}={value:.4f}",
    "blank in a line with a place": "epoch {epoch} {name} {value:.4f}",
    "tqdm": "Epoch {epoch}: 100%|██████| 9/9 [00:00<00:00, 45.2it/s, v_num=3, {name}={value:.4f}]",
    "dictionary": "{{'{name}': {value:.4f}, 'epoch': {epoch}}}",
    "list of one": "epoch: {epoch}, batch_id: 9, {name}: [{value:.4f}], batch_cost: 0.2",
    "logger": "2026-11-25 10:00:00 [INFO] epoch: {epoch}, {name}: {value:.4f}, ips: 17.05 samples/sec, eta: 0:00:35",
}
TABLES = {
    "skorch": ("  epoch  {name:>16}     dur", "-------  {rule:->16}  ------", "{epoch:>7}  {value:>16.4f}  0.0226"),
    "pandas": ("   epoch  {name:>16}   note", "", "{row}  {epoch:>5}  {value:>16.4f}  12"),
    "markdown": ("| epoch | {name} | time |", "|---|---|---|", "| {epoch} | {value:.4f} | 3 |"),
}
NAMES = [
    "loss",
    "val_loss",
    "val_acc",
    "test_f1",
    "mIoU",
    "mAP50",
    "bleu",
    "perplexity",
    "val/auc",
    "ep_reward",
    "cost",
    "target_acc",
]
SETTINGS = ["lr_decay", "loss_weight", "batch_cost", "reader_cost", "max_reward", "hp_metric", "end_lr"]
SETTINGS += ["early_stop_loss", "label_smoothing", "min_score", "seed", "dropout", "epoch", "eta", "reward_scale"]


def printed(form, name, values):
    if form in FORMS:
        return "\n".join(FORMS[form].format(name=name, epoch=n, value=v) for n, v in enumerate(values, 1))
    head, rule, row = TABLES[form]
    rows = [row.format(name=name, epoch=n, value=v, row=n - 1) for n, v in enumerate(values, 1)]
    return "\n".join([head.format(name=name), rule.format(rule=""), *rows])


@in_one_test("form", [*FORMS, *TABLES])
@in_one_test("name", NAMES)
def test_a_metric_is_read_in_every_form(name, form):
    found = read(printed(form, name, [0.9125, 0.4375, 12.5]))
    assert list(found.values()) == [[(1, 0.9125), (2, 0.4375), (3, 12.5)]], found
    assert next(iter(found)).lower() == name.lower()


def test_a_goal_that_never_changes_is_no_metric_and_domains_are_told_apart():
    assert read("target_accuracy: 0.95 val acc 0.5\ntarget_accuracy: 0.95 val acc 0.6") == {
        "val_acc": [(1, 0.5), (2, 0.6)]
    }
    domains = read("source acc 0.91 | target acc 0.52\nsource acc 0.93 | target acc 0.58")
    assert domains == {"source_acc": [(1, 0.91), (2, 0.93)], "target_acc": [(1, 0.52), (2, 0.58)]}


@in_one_test("form", [*FORMS, *TABLES])
@in_one_test("name", SETTINGS)
def test_a_setting_or_counter_is_read_in_no_form(name, form):
    assert read(printed(form, name, [0.9125, 0.4375])) == {}


@in_one_test(
    ("form", "found"),
    [
        ("epoch={n} contrastive={v}", {"contrastive": [2, 3]}),
        ("ep{n}: bce={v}", {"bce": [2, 3]}),
        ("[{n}] train_mse {v} val_mse {v}", {"train_mse": [2, 3], "val_mse": [2, 3]}),
        ("epoch {n} huber {v}21 took 0.{n}333", {"huber": [2, 3]}),
        (" {n}/9  train {v}  val acc {v}", {"train": [2, 3], "val_acc": [2, 3]}),
        ("({n}0 5%) 2.5  val {v} token acc {v}", {"val": [20, 30], "val/acc": [20, 30]}),
        (
            "epoch {n}: train_recon {v} | test_recon {v} test_kl {v}",
            {"train_recon": [2, 3], "test_recon": [2, 3], "test_kl": [2, 3]},
        ),
        ("{n}: validation loss {v} extra 0.5", {"validation_loss": [2, 3]}),
        ("[{n}/9] train {v} | valid {v}", {"train": [2, 3], "val": [2, 3]}),
        ("train {v} | valid {v}", {"train": [1, 2], "val": [1, 2]}),
        # Settings do not change, times and amounts are no results, and a place is needed.
        ("epoch {n}: tau=0.07 took={v} gpu_mem={v} wd: 0.01", {}),
        ("contrastive={v}", {}),
        ("split train 0.8 | valid {v}", {}),
        ("{n}: train 0.8 | valid 0.2", {}),
        ("epoch {n}: count={n}", {}),
    ],
)
def test_changing_numbers_of_unknown_names_are_metrics_in_a_line_with_a_place(form, found):
    text = "\n".join(form.format(n=n, v=value) for n, value in ((2, 0.75), (3, 0.25)))
    assert {name: [step for step, _ in points] for name, points in read(text).items()} == found


def test_a_result_before_a_training_is_none_of_its_values():
    lines = "teacher test accuracy 0.88", *(f"student epoch {n}: loss 0.{n} test accuracy 0.{n}" for n in (2, 3))
    assert read("\n".join(lines))["test_accuracy"] == [(2, 0.2), (3, 0.3)]
    assert read("test accuracy 0.1\nepoch 1: test accuracy 0.5") == {"test_accuracy": [(1, 0.1), (2, 0.5)]}


def test_the_row_of_the_best_of_several_is_no_value_of_one_more():
    rows = [f"lr=0.1 val_loss=0.{n}" for n in (3, 2)] + ["best: {'lr': 0.1, 'val_loss': 0.2}"]
    assert read("\n".join(rows))["val_loss"] == [(1, 0.3), (2, 0.2)]


def test_rows_of_single_classes_are_no_series():
    report = "  precision    recall  f1-score   support", "           {}      1.00      0.50      0.66        49"
    table = [
        report[0].rjust(50),
        *(report[1].format(n) for n in (0, 1, 2)),
        "   macro avg      0.94      0.93      0.92       497",
    ]
    assert read("\n".join(table)) == {
        "precision": [(1, 0.94)],
        "recall": [(1, 0.93)],
        "f1-score": [(1, 0.92)],
    }


def test_two_splits_of_a_line_are_metrics_and_one_is_none():
    assert read("Train: 0.16, Val: 0.15\nTrain: 0.26, Val: 0.25") == {
        "train": [(1, 0.16), (2, 0.26)],
        "val": [(1, 0.15), (2, 0.25)],
    }
    assert read("train: 0.8\nsplit = val: 0.1") == {}


def test_an_evaluation_in_batches_is_its_last_mean():
    def lines(*means):
        row = "Test: [{:>4}/1]  Loss:   1.500 ( {:>6.3f})  Acc@1:  70.0 ({:>7.3f})"
        rows = [row.format(i, mean, mean * 10) for i, mean in enumerate(means)]
        return ["Train: 0 [   0/20 (  0%)]  Loss: 2.14 (2.15)  LR: 1.250e-02", *rows]

    found = read("\n".join([*lines(2.0, 1.5), *lines(1.0, 0.5)]))
    assert found["test/Acc@1"] == [(1, 15.0), (2, 5.0)] and found["test/loss"] == [(1, 1.5), (2, 0.5)]
    assert [value for _, value in found["loss"]] == [2.14, 2.14]


def test_splits_with_blanks_are_metrics_only_in_a_line_of_an_epoch():
    found = read("Epoch 1: train 0.42 val 0.39 acc 88.1 %\nEpoch 2: train 0.32 val 0.29 acc 90.1 %")
    assert found["train"] == [(1, 0.42), (2, 0.32)] and found["val"] == [(1, 0.39), (2, 0.29)]
    large = "59480062595797553774592.0000"
    assert read(f"epoch 1 train {large} val {large}")["val"] == [(1, float(large))]
    assert read("splits: train 0.8 val 0.2\nepoch 1: train 960 val 240") == {}


@in_one_test(
    ("text", "expected"),
    [
        ("Episode 5\tLast reward: 9.0\tAverage reward: 8.5", {"Last_reward": [(5, 9.0)], "average_reward": [(5, 8.5)]}),
        ("Episode 5, Reward Sum 9.0.", {"reward": [(5, 9.0)]}),
        ("Episode 5\tReward 21\tAvg(20) 20.8", {"reward": [(5, 21.0)]}),
        ("Episode: 5, score: 200, epsilon: 0.9", {"score": [(5, 200.0)]}),
        ("Reward: 200", {}),
        ("Episode 5 score 3 of 10", {}),
        ("test final score: 32/500 = 6.40% correct", {"test/accuracy": [(1, 6.4)]}),
        ("│ test_acc │ 0.893 │\n│ lr │ 0.1 │", {"test_acc": [(1, 0.893)]}),
        ("epoch: 0, batch_id: 0, auc: 0.55\nepoch: 0, batch_id: 9, auc: 0.6\nepoch: 0 done, auc: 0.62\n"
         "epoch: 1, batch_id: 0, auc: 0.88\nepoch: 1 done, auc: 0.86", {"auc": [(0, 0.62), (1, 0.86)]}),
        ("epoch: 0, batch_id: 0, auc: 0.55\nepoch: 0, batch_id: 9, auc: 0.6\nepoch: 1, batch_id: 0, auc: 0.88",
         {"auc": [(0, 0.55), (9, 0.6), (10, 0.88)]}),
        ("| epoch 1 | 10 batches | ms/batch 5.22 | ppl 9.50\n| epoch 1 | 20 batches | ms/batch 4.11 | ppl 8.25",
         {"ppl": [(10, 9.5), (20, 8.25)]}),
        ("Accuracy of the network on the 297 test images: 83 %", {"test/accuracy": [(1, 83.0)]}),
        ("Accuracy for class: plane is 55.8 %", {}),
        ("validation: mae 0.5 rmse 0.6", {"val/mae": [(1, 0.5)], "val/rmse": [(1, 0.6)]}),
        ("[6] test mse 0.5\n[7] test mse 0.4", {"test_mse": [(6, 0.5), (7, 0.4)]}),
        ("ep   5 | return (mean of 9)   0.58 | eps 0.97 | len 22", {"average_return": [(5, 0.58)]}),
        ("done, val_loss 0.5, auc 0.75", {"val_loss": [(1, 0.5)], "auc": [(1, 0.75)]}),
        ("Final: hits@10 0.9 f1 0.8 mrr 0.4", {"hits@10": [(1, 0.9)], "f1": [(1, 0.8)], "mrr": [(1, 0.4)]}),
        *[(line, {}) for line in ("step 3 return 0.5", "we saw mae 0.5 before", "lr 0.1 mae 0.2")],
        *[
            (start + "".join(f"{form.format(word, epoch)} AUC 0.{n}{epoch}\n"
             for n, word in enumerate(("teacher", "student"), 5) for epoch in range(2)),
             {"student/AUC": [(0, 0.6), (1, 0.61)], "teacher/AUC": [(0, 0.5), (1, 0.51)]})
            for form in ("{} | epoch {} |", "[INFO] {} epoch={}", "{}: Epoch [{}]") for start in ("", "training\n")
        ],
        ("fit epoch 0 AUC 0.5\nfit epoch 1 AUC 0.6\ntune epoch 2 AUC 0.7\ntune epoch 3 AUC 0.8",
         {"AUC": [(0, 0.5), (1, 0.6), (2, 0.7), (3, 0.8)]}),
        ("Epoch: [0][ 1/30] AUC 0.5\nEpoch: [0][21/30] AUC 0.6\nEpoch: [1][ 1/30] AUC 0.7",
         {"AUC": [(1, 0.5), (21, 0.6), (31, 0.7)]}),
        ("Epoch 1/2\nstep 9/9 - loss: 0.3 - 2ms/step\nEval begin...\nstep 2/2 - loss: 0.5\nEpoch 2/2\nloss: 0.2",
         {"loss": [(1, 0.3), (2, 0.2)], "val/loss": [(2, 0.5)]}),
        ("cost: 12.5 sec", {}),
        (
            "epoch 0 Train: loss 0.5 | Val: loss 0.6 acc 0.7",
            {"loss": [(0, 0.5)], "val/loss": [(0, 0.6)], "val/acc": [(0, 0.7)]},
        ),
        ("epoch 0 | loss (train) 0.5 | loss (val) 0.6", {"loss": [(0, 0.5)], "val/loss": [(0, 0.6)]}),
        ("epoch 0: loss[train]=0.5 loss[val]=0.6", {"loss": [(0, 0.5)], "val/loss": [(0, 0.6)]}),
        ("epoch 0 acc[%]=92.5 f1 [macro] 0.5", {"acc": [(0, 92.5)], "f1": [(0, 0.5)]}),
        ("epoch 0 RMSE [kW]=2.5 | MMD(live) 0.5 MMD(ema) 0.6",
         {"RMSE": [(0, 2.5)], "MMD": [(0, 0.5)], "ema_MMD": [(0, 0.6)]}),
        ("epoch 0 Test set accuracy (Precision@1) = 0.9", {"Test_accuracy": [(0, 0.9)]}),
        ("epoch 0 [Train] loss: 0.5, [Test] loss: 0.6", {"loss": [(0, 0.5)], "test/loss": [(0, 0.6)]}),
        ("epoch 0 train(loss=0.5) val(loss=0.6)", {"loss": [(0, 0.5)], "val/loss": [(0, 0.6)]}),
        ("epoch 0 | Train Loss 0.5 | Val. Loss 0.6", {"Train_Loss": [(0, 0.5)], "val/loss": [(0, 0.6)]}),
        ("epoch 0 【训练】损失 0.5；【验证】损失 0.6", {"loss": [(0, 0.5)], "val/loss": [(0, 0.6)]}),
        (
            "epoch 0 loss: train 0.5 val 0.6 acc: train 0.7 val 0.8",
            {"train/loss": [(0, 0.5)], "val/loss": [(0, 0.6)], "train/acc": [(0, 0.7)], "val/acc": [(0, 0.8)]},
        ),
        ("epoch 0 loss 0.5 val_time: 0.3 acc 0.8", {"loss": [(0, 0.5)], "acc": [(0, 0.8)]}),
        ("epoch 0 D loss: 0.5 G loss: 0.6", {"D_loss": [(0, 0.5)], "G_loss": [(0, 0.6)]}),
        (
            "step 1 training's auc: 0.5 valid_1's auc: 0.6",
            {"training_auc": [(1, 0.5)], "valid_1_auc": [(1, 0.6)]},
        ),
        ("epoch 0 accuracy 0.5 ema accuracy 0.6", {"accuracy": [(0, 0.5)], "ema_accuracy": [(0, 0.6)]}),
        ("epoch 1/9 loss: 0.5\nepoch 6/9 loss: 0.4\nTest Accuracy: 0.9",
         {"loss": [(1, 0.5), (6, 0.4)], "Test_Accuracy": [(1, 0.9)]}),
        ("Epoch: 3, Steps: 16 | Train Loss: 0.5 Vali Loss: 0.6", {"Train_Loss": [(16, 0.5)], "Vali_Loss": [(16, 0.6)]}),
        ("Got new best metric of val_dice: 0.9\nEpoch[6] Metrics -- val_dice: 0.9",
         {"best/val_dice": [(1, 0.9)], "val_dice": [(6, 0.9)]}),
        ("epoch 3 val loss 0.5", {"val_loss": [(3, 0.5)]}),
        ("19s - loss:  0.5943 - auc:  0.6481 - val_binary_crossentropy:  0.5921",
         {"loss": [(1, 0.5943)], "auc": [(1, 0.6481)], "val_binary_crossentropy": [(1, 0.5921)]}),
        ("epoch 3 test acc: 0.8\nBest test acc: 0.9", {"test_acc": [(3, 0.8)], "Best_test_acc": [(1, 0.9)]}),
        ("epoch 3 val_acc 0.8\nSWA val_acc: 0.9", {"val_acc": [(3, 0.8)], "SWA_val_acc": [(1, 0.9)]}),
        ("epoch 3 val loss 0.5\nlowest val loss 0.4", {"val_loss": [(3, 0.5)], "lowest_val_loss": [(1, 0.4)]}),
        ("Test: Loss: 0.5\nTest (EMA): Loss: 0.6\nTest (avg): Loss: 0.4",
         {"test/loss": [(1, 0.5), (2, 0.4)], "test/ema_loss": [(1, 0.6)]}),
        ("epoch=0: train_epoch_loss=0.5 eval_epoch_loss=0.6",
         {"train_epoch_loss": [(0, 0.5)], "eval_epoch_loss": [(0, 0.6)]}),
        *[
            (f"[fold 2] epoch 5 f1 0.5\nCV f1: 0.75{spread}", {"f1": [(5, 0.5)], "mean_f1": [(1, 0.75)]})
            for spread in (" +/- 0.01", "±0.01", " (+- 0.01)")
        ],
        ("epoch 5 f1 0.5 ± 0.01", {"f1": [(5, 0.5)]}),
        ("step 0 rec loss: 0.8\nheld-out rec loss: 0.2", {"rec_loss": [(0, 0.8)], "val/rec_loss": [(1, 0.2)]}),
        ("epoch: 1, iter: 10/60, loss: 0.5\n[EVAL] mIoU: 0.8\nepoch: 2, iter: 20/60, loss: 0.4\n[EVAL] mIoU: 0.9",
         {"loss": [(10, 0.5), (20, 0.4)], "val/mIoU": [(10, 0.8), (20, 0.9)]}),
        ("\n".join(f"it, dice_loss=0.{n}\ntrain dice_loss 0.{n} val dice_loss 0.{n}" for n in (1, 2, 3)),
         {name: [(1, 0.1), (2, 0.2), (3, 0.3)] for name in ("dice_loss", "val_dice_loss")}),
        ("mean_reward:474.20 +/- 51.67", {"mean_reward": [(1, 474.2)]}),
        ("trainer: amp=True, box=7.5, cache=False, iou=0.7, cfg=None, weight_decay=0.0005", {}),
        ("Net MAE: 6.525\nTree MAE: 13.895", {"Net_MAE": [(1, 6.525)], "Tree_MAE": [(1, 13.895)]}),
        ("Net MAE: 6.525\nBaseline MAE: 13.895", {"MAE": [(1, 6.525)], "Baseline_MAE": [(1, 13.895)]}),
        ("Net MAE: 6.525\nNet MAE: 6.5", {"MAE": [(1, 6.525), (2, 6.5)]}),
        ("|  ep_rew_mean | 99.5 |\n|  fps | 68 |\n|  ep_rew_mean | 187 |", {"ep_rew_mean": [(1, 99.5), (2, 187.0)]}),
        ("correlation 0.73", {"correlation": [(1, 0.73)]}),
        ("a correlation 0.73 was found", {}),
        ("  Class  Images  mAP50  mAP50-95: 100%|█| 1/1\n    all       4  0.700     0.500\n    cat       2  0.1  0.2",
         {"mAP50": [(1, 0.7)], "mAP50-95": [(1, 0.5)]}),
    ],
)  # fmt: skip
def test_lines_of_other_programs(text, expected):
    assert read(text) == expected


LOSSES = {"loss": 0.5, "val/loss": 0.6}


@in_one_test(
    ("text", "found"),
    [
        ("2026-11-27 10:24:53,123 a INFO loss=0.5\n2026-11-27 10:24:53 a INFO validation: loss=0.6", LOSSES),
        ("INFO:train:loss=0.5\nINFO:train:validation: loss=0.6", LOSSES),
        (
            "2026-11-27 10:00:00.1 | INFO   | train:main:5 - loss=0.5\nI1127 10:00:00.12 1 train.py:57] Eval: loss=0.6",
            LOSSES,
        ),
        ("[2026-11-28 12:59:53,874] [    INFO] train.py:164 - [Eval][Epoch 2][Avg]loss: 0.6", {"val/loss": 0.6}),
        ("epoch: 0, loss is: [0.5]\n[validation] accuracy/loss: 0.9/0.6", {**LOSSES, "val/accuracy": 0.9}),
        ("lr/loss: 0.001/0.5 dir/loss: 0.1/0.2", {"lr": 0.001, "loss": 0.5}),
        (" Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.412", {"AP": 0.412}),
        (" Average Precision  (AP) @[ IoU=0.50      | area= small | maxDets=100 ] = 0.7", {"AP50_small": 0.7}),
        (" Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = -1.000", {}),
        ("Ep 1 tr: 0.5 va: 0.6", {"train": 0.5, "val": 0.6}),
        ("[1/3] loss↓ 0.5 acc↑ 0.9", {"loss": 0.5, "acc": 0.9}),
        ("训练集平均损失:0.5,验证集平均损失:0.6", {"train_loss": 0.5, "val_loss": 0.6}),
        ("Fold 0 Epoch 1 - Score: 0.7", {"score": 0.7}),
        ("PSNR on Set5: 31.2 dB\nAccuracy on the test set: 0.93", {"PSNR": 31.2, "test/accuracy": 0.93}),
        ("epoch 1 {'loss': np.float64(0.5), 'val_loss': np.float32(0.6)}", {"loss": 0.5, "val_loss": 0.6}),
        ("---- mAP 0.45 ----", {"mAP": 0.45}),
        ("epoch 3: 50.0% train accuracy, 45.0% validation accuracy", {"accuracy": 50.0, "val/accuracy": 45.0}),
    ],
)
def test_what_is_around_a_metric_says_of_which_data_it_is(text, found):
    assert {name: points[-1][1] for name, points in read(text).items()} == found
