"""Tables of metrics that a recorded program writes: each metric once, at its steps, without rows of other runs."""

import json
import sys
import time

import pytest

from labbook.capture.tables.written_tables import metrics_from_tables

ROWS = [(0, 0.9, 0.5), (1, 0.6, 0.75), (2, 0.4, 0.875)]
HEAD = "import csv\nROWS = [(0, 0.9, 0.5), (1, 0.6, 0.75), (2, 0.4, 0.875)]\n"
NAMES = "['epoch', 'train_loss', 'val_acc']"
WRITERS = {
    "csv.writer": f"w = csv.writer(open('log.csv', 'w'))\nw.writerow({NAMES})\nw.writerows(ROWS)\n",
    "DictWriter": (
        f"with open('log.csv', 'w', newline='') as f:\n    w = csv.DictWriter(f, {NAMES}, delimiter=';')\n"
        f"    w.writeheader()\n    w.writerows(dict(zip({NAMES}, row)) for row in ROWS)\n"
    ),
    "by hand": (
        "import os\nos.makedirs('out/a')\nf = open('out/a/log.tsv', 'w')\nprint('epoch', 'train_loss', 'val_acc', "
        "sep='\\t', file=f)\nfor row in ROWS:\n    print(*row, sep='\\t', file=f, flush=True)\n"
    ),
    "opened for each row": (
        "for row in ROWS:\n    with open('log.csv', 'a') as f:\n        if not f.tell():\n"
        "            f.write('epoch,train_loss,val_acc\\n')\n        f.write(','.join(map(str, row)) + '\\n')\n"
    ),
    "rows of data splits": (
        "f = open('log.csv', 'w')\nf.write('epoch,split,loss,acc\\n')\nfor epoch, loss, acc in ROWS:\n"
        "    f.write(f'{epoch},train,{loss},\\n{epoch},val,,{acc}\\n')\n"
    ),
    "a file for each data split": (
        "f, g = open('train_log.csv', 'w'), open('val_log.csv', 'w')\nf.write('epoch,train_loss\\n')\n"
        "g.write('epoch,acc\\n')\nfor epoch, loss, acc in ROWS:\n"
        "    f.write(f'{epoch},{loss}\\n')\n    g.write(f'{epoch},{acc}\\n')\n"
    ),
    "a file for each scalar, as TorchRL": (
        "import os\nos.makedirs('csv_logs/a/scalars/val')\n"
        "f, g = open('csv_logs/a/scalars/train_loss.csv', 'a+'), open('csv_logs/a/scalars/val/acc.csv', 'a+')\n"
        "for epoch, loss, acc in ROWS:\n    f.write(f'{epoch},{loss}\\n')\n    g.write(f'{epoch},{acc}\\n')\n"
    ),
    "renamed": (
        "import os\nw = csv.writer(open('log.csv.tmp', 'w'))\n"
        f"w.writerow({NAMES})\nw.writerows(ROWS)\ndel w\nos.replace('log.csv.tmp', 'log.csv')\n"
    ),
    "appended to an earlier run": "csv.writer(open('old.csv', 'a')).writerows(ROWS)\n",
    "rewritten with an earlier run": (
        "old = open('old.csv').read()\nf = open('old.csv', 'w')\nf.write(old)\ncsv.writer(f).writerows(ROWS)\n"
    ),
    "two equal files": (
        "for name in ('last.csv', 'log.csv'):\n    w = csv.writer(open(name, 'w'))\n"
        f"    w.writerow({NAMES})\n    w.writerows(ROWS)\n"
    ),
    "failed": f"w = csv.writer(open('log.csv', 'w'))\nw.writerow({NAMES})\nw.writerows(ROWS)\nraise SystemExit(3)\n",
}


def recorded(book, program: str) -> dict:
    """The facts of a run of this program."""
    (book.folder / "train.py").write_text(program)
    book.record(sys.executable, "train.py", check=False)
    return json.loads((book.folder / book.run()["entry"]).with_suffix("").joinpath("run.json").read_text())


OLD = "epoch,train_loss,val_acc\n0,9.0,0.1\n1,8.0,0.2\n"


@pytest.mark.parametrize("writer", WRITERS)
def test_tables_of_metrics_are_read_as_they_were_written(writer, book):
    (book.folder / "old.csv").write_text(OLD)
    run = recorded(book, HEAD + WRITERS[writer])

    found = {s["name"].replace("/", "_"): s for s in run["series"]}
    expected = {"train_loss": [row[1] for row in ROWS], "val_acc": [row[2] for row in ROWS]}
    assert {name: s["values"] for name, s in found.items()} == expected
    assert all(s["steps"] == [row[0] for row in ROWS] and (book.folder / s["source"]).is_file() for s in found.values())
    assert run["primary"].replace("/", "_") == "val_acc"


NO_METRICS = {
    "predictions": ("id,label,loss", [(n, n % 3, n / 9) for n in range(9)]),
    "predictions by step": ("step,y_true,y_pred,error", [(n, n % 3, n % 2, 0.5) for n in range(9)]),
    "predictions of each epoch": ("epoch,loss", [(n // 3, n / 9) for n in range(9)]),
    "texts": ("step,prompt,score", [(n, "good" * n or "bad", n / 9) for n in range(9)]),
    "moves of an agent": ("episode,step,x,y,action,reward", [(0, n, n, n, 1, 0.5) for n in range(9)]),
    "data set": ("epoch,channel,alpha,beta", [(n, 1, 0.1 * n, 0.2) for n in range(9)]),
    "folds": ("fold,accuracy", [(n, 0.9) for n in range(5)]),
    "several trainings": ("seed,epoch,accuracy", [(n // 3, n % 3, 0.9) for n in range(9)]),
    "profile": ("step,memory_mb,time_ms", [(n, 900, 20) for n in range(9)]),
}


def read(table, text: str, trainings: int = 0) -> list:
    """The metrics in a table that a run wrote just now."""
    table.write_text(text)
    now = time.time()
    return metrics_from_tables([{"path": str(table), "mode": "w"}], table.parent, now, now, trainings)


@pytest.mark.parametrize(("trainings", "count"), [(3, 1), (2, 0), (0, 0)])
def test_a_table_of_as_many_trainings_as_the_run_did_is_read(trainings, count, tmp_path):
    rows = "".join(f"{fold},{epoch},0.{fold}{epoch}\n" for fold in range(3) for epoch in range(1 + fold))
    found = read(tmp_path / "history.csv", f"fold,epoch,val_auc\n{rows}", trainings)
    assert [(s.steps, s.values, s.starts) for s in found] == [
        ((1, 2, 3, 4, 5, 6), (0.0, 0.1, 0.11, 0.2, 0.21, 0.22), (0, 1, 3))
    ][:count]


@pytest.mark.parametrize("begin", [0, 1], ids=["the same first step", "another first step"])
def test_rows_of_a_second_phase_are_not_sorted_into_the_first(begin, tmp_path):
    rows = "".join(f"{step},0.{step}\n" for step in (0, 50, 99)) + f"{begin},0.3\n{begin + 1},0.2\n"
    found = read(tmp_path / "history.csv", f"step,val_loss\n{rows}", 2)
    assert [(s.values, s.starts) for s in found] == [((0.0, 0.5, 0.99, 0.3, 0.2), (0, 3))]
    assert read(tmp_path / "history.csv", f"step,val_loss\n{rows}") == []


def test_lines_of_json_are_a_table(tmp_path):
    lines = [
        {"epoch": 1, "loss": 2.5, "dev": {"wer": 50}},
        {"epoch": 2, "loss": 1.5, "dev": {"wer": 40}, "note": "best"},
    ]
    found = read(tmp_path / "log.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert {s.name: (s.steps, s.values, s.axis) for s in found} == {
        "loss": ((1, 2), (2.5, 1.5), "epoch"),
        "dev/wer": ((1, 2), (50.0, 40.0), "epoch"),
    }
    samples = "".join(json.dumps({"id": n, "text": "a", "score": 0.5}) + "\n" for n in range(3))
    assert read(tmp_path / "answers.jsonl", samples) == []


@pytest.mark.parametrize("kind", NO_METRICS)
def test_other_tables_are_no_metrics(kind, tmp_path):
    header, rows = NO_METRICS[kind]
    text = "".join(f"{line}\n" for line in (header, *(",".join(map(str, row)) for row in rows)))
    assert read(tmp_path / "table.csv", text) == []


def test_table_with_a_name_of_predictions_is_no_table_of_metrics(tmp_path):
    text = "step,mae\n1,0.5\n2,0.6\n"
    assert read(tmp_path / "predictions.csv", text) == []
    assert read(tmp_path / "log.csv", text) != []


def test_words_that_repeat_in_a_column_are_no_texts(tmp_path):
    assert read(tmp_path / "log.csv", "epoch,loss,status\n0,0.5,ok\n1,0.4,ok\n2,0.3,ok\n") != []


@pytest.mark.parametrize(
    ("rows", "axis"),
    [
        ("epoch,loss\n2,0.5\n4,0.4\n", "epoch"),
        ("step,epoch,loss\n20,1,0.5\n40,2,0.4\n", ""),
        ("epoch,loss\n0.5,0.5\n1.5,0.4\n", "number"),
    ],
)
def test_a_column_of_epochs_is_not_one_of_steps(rows, axis, tmp_path):
    assert [series.axis for series in read(tmp_path / "log.csv", rows)] == [axis]


def test_epochs_without_a_validation_have_no_value_and_a_loss_that_is_no_number_has(tmp_path):
    found = read(tmp_path / "log.csv", "epoch,loss,val_loss\n0,nan,nan\n1,0.5,0.6\n2,nan,nan\n3,0.4,0.5\n4,0.3,nan\n")
    assert {s.name: (s.steps, s.nonfinite) for s in found} == {"loss": ((0, 1, 2, 3, 4), 2), "val_loss": ((1, 3), 0)}


@pytest.mark.parametrize(
    "program",
    [
        "open('old.csv').read()",
        "import shutil; shutil.copy('old.csv', 'kept.csv')",
        "text = open('old.csv').read().replace('9.0', '7.0'); open('old.csv', 'w').write(text)",
        "open('old.csv', 'a').write('epoch,val_acc,train_loss\\n0,0.1,9.0\\n')",
        "open('log.csv', 'w').write('epoch,val_acc\\n' + '1,0.5\\n' * 1000000)",
        "[open(f'{n}.csv', 'w').write(f'epoch,val_acc\\n0,0.{n}\\n') for n in (1, 2)]",
    ],
    ids=["only read", "copied", "rewritten otherwise", "other columns below", "too large", "two of one name"],
)
def test_rows_that_may_be_of_another_training_are_left_out(program, book):
    (book.folder / "old.csv").write_text(OLD)
    assert recorded(book, program + "\n")["series"] == []


@pytest.mark.parametrize(("shift", "count"), [(0, 12), (0.05, 4)], ids=["rounded", "other values"])
def test_what_is_printed_now_and_then_is_read_from_the_table(shift, count, book):
    program = f"""
with open('log.csv', 'w') as file:
    file.write('epoch,val_mae\\n')
    for epoch in range(12):
        file.write(f'{{epoch}},{{1 / (epoch + 2)}}\\n')
        if epoch % 3 == 2:
            print(f'epoch {{epoch}} val_mae {{1 / (epoch + 2) + {shift}:.3f}}')
"""
    (series,) = recorded(book, program)["series"]
    assert (series["name"], len(series["values"])) == ("val_mae", count)


@pytest.mark.parametrize("name", ["val_acc", "val_accuracy"])
def test_what_is_printed_too_has_one_source(name, book):
    printed = f"for epoch, _, acc in ROWS:\n    print(f'epoch {{epoch}} {name}: {{acc:.3f}}')\n"
    run = recorded(book, HEAD + WRITERS["csv.writer"] + printed)
    assert [(s["name"], s["source"]) for s in run["series"]] == [(name, "text"), ("train_loss", "log.csv")]


def test_two_metrics_of_equal_values_are_both_listed(book):
    program = (
        "f = open('log.csv', 'w')\nf.write('epoch,val_precision,val_recall\\n')\nfor epoch in range(3):\n"
        "    f.write(f'{epoch},0.5,0.5\\n')\n    print(f'epoch {epoch} val_precision: 0.500')\n"
    )
    assert {s["name"] for s in recorded(book, program)["series"]} == {"val_precision", "val_recall"}


def test_epochs_of_a_table_are_no_steps_in_the_title(book):
    recorded(book, HEAD + WRITERS["csv.writer"])
    assert book.run()["title"].endswith("val_acc 0.5 → 0.875")
