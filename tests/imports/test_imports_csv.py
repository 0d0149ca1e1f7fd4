"""Tables of trainings as people, spreadsheets and other tools write them: each value at its step, in its run."""

import math

import pytest

from labbook.imports.csv_logs import CSV

LOSS = {"loss": [(0, 4.0), (1, 3.0)]}
TWICE = [LOSS, {"loss": [(0, 5.0), (1, 2.0)]}]
SPLIT = [{"train/loss": [(0, 4.0), (1, 3.0)], "val/loss": [(0, 5.0), (1, 2.0)]}]
BATCHES = [{"loss": [(0, 4.0), (1, 3.0), (2, 2.0), (3, 1.0)]}]
LONG = [{"loss": [(0, 4.0), (1, 3.0)], "acc": [(0, 0.5)]}]


def csv(text, encoding="utf-8"):
    return text.replace("|", "\r\n").encode(encoding)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(csv("epoch;loss|0;4,0|1;3,0|"), [LOSS], id="decimal comma"),
        pytest.param(csv("sep=;|epoch;loss|0;4.0|1;3.0|"), [LOSS], id="line with the separator"),
        pytest.param(csv("# lr=0.1|# epoch,loss|0,4|1,3|"), [LOSS], id="names in a comment"),
        pytest.param(csv("epoch loss|0   4|1   3|"), [LOSS], id="spaces"),
        pytest.param(csv("轮次,loss|0,4|1,3|", "gb18030"), [LOSS], id="GB 18030"),
        pytest.param(csv("步数\tloss|0\t4|1\t3|", "utf-16"), [LOSS], id="UTF-16"),
        pytest.param(csv("epoch,loss|0,400%|1,tensor(300.)|"), [{"loss": [(0, 400.0), (1, 300.0)]}], id="units"),
        pytest.param(csv('step,loss|"1,000",4|2000,3|'), [{"loss": [(1000, 4.0), (2000, 3.0)]}], id="thousands"),
        pytest.param(csv("Unnamed: 0,n_iter,loss|7,0,4|8,1,3|"), [LOSS], id="index of pandas"),
        pytest.param(csv("epoch,loss|0,4|1,3|best,3|"), [LOSS], id="line of totals"),
        pytest.param(csv("epoch,batch,loss|0,0,4|0,1,3|1,0,2|1,1,1|"), BATCHES, id="steps begin with each epoch"),
        pytest.param(csv("epoch,loss|0.25,4|0.5,3|0.75,2|1,1|"), BATCHES, id="parts of epochs"),
        pytest.param(csv("epoch,loss|0,4|1,3|epoch,loss|0,5|1,2|"), TWICE, id="appended with its names"),
        pytest.param(csv("epoch,loss|0,4|1,3|0,5|1,2|"), TWICE, id="appended"),
        pytest.param(csv("fold,epoch,loss|1,0,4|2,0,5|1,1,3|2,1,2|"), TWICE, id="runs by a column"),
        pytest.param(csv("epoch,loss|0,4|1,9|2,9|1,3|"), [LOSS], id="resumed"),
        pytest.param(csv("epoch,loss|1,3|0,4|"), [LOSS], id="descending"),
        pytest.param(csv("epoch,loss|99999999999999999999,4|1,3|"), [LOSS], id="no step"),
        pytest.param(csv("epoch,phase,loss|0,train,4|0,val,5|1,train,3|1,val,2|"), SPLIT, id="data splits"),
        pytest.param(csv("step,train/loss,val/loss|0,4,|1,3,|0,,5|1,,2|"), SPLIT, id="data splits one after the other"),
        pytest.param(csv("run_id,key,value,step|a,loss,4,0|a,acc,0.5,0|a,loss,3,1|"), LONG, id="MLflow's table"),
        pytest.param(csv("Step,a - loss,a - loss__MIN,b - loss|0,4,4,5|1,3,3,2|"), TWICE, id="chart of W&B"),
    ],
)
def test_tables_of_trainings(content, expected, tmp_path):
    (tmp_path / "log.csv").write_bytes(content)
    runs = list(CSV.runs(tmp_path))
    assert [{s.name: list(zip(s.steps, s.values, strict=True)) for s in run.series} for run in runs] == expected
    assert len({run.identity for run in runs}) == len({run.name for run in runs}) == len(runs)


def test_table_that_tensorboard_offers_for_download_has_its_tag_and_times(tmp_path):
    (tmp_path / "run-sgd-tag-loss.csv").write_text("Wall time,Step,Value\n1763000000.5,0,4\n1763000001.5,1,3\n")
    (run,) = CSV.runs(tmp_path)
    assert (run.name, [s.name for s in run.series], run.started, run.ended) == (
        "sgd",
        ["loss"],
        1763000000.5,
        1763000001.5,
    )


def test_table_without_names_of_columns_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("0,4\n1,3\n")
    with pytest.raises(ValueError, match="no row with the names"):
        list(CSV.runs(tmp_path / "log.csv"))


CSV_LAYOUTS = {
    "lightning": "epoch,step,train_loss,val_acc\n0,9,2.5,\n0,9,,0.4\n1,19,1.5,\n1,19,,0.6\n",
    "keras": "epoch,accuracy,loss,val_acc,val_loss\n0,0.3,2.5,0.4,2.4\n1,0.5,1.5,0.6,1.6\n",
    "semicolon": "Iteration;train_loss;val_acc\n9;2.5;0.4\n19;1.5;0.6\n",
    "ultralytics": "                  epoch,         train_loss,    metrics/val_acc\n  0,  2.5,  0.4\n  1, 1.5, 0.6\n",
    "long": "series,source,rank,step,value,low,high,axis\nloss,probe,,0,2.5,,,step\nval_acc,text,,0,0.4,,,epoch\n"
    "loss,probe,,1,1.5,,,step\n",
    "bom": "\ufeffstep,loss,val_acc\n0,2.5,0.4\n1,nan,inf\n",
}


@pytest.mark.parametrize("layout", CSV_LAYOUTS)
def test_layouts_of_csv_logs(layout, tmp_path):
    (tmp_path / "version_0").mkdir()
    file = tmp_path / "version_0" / "metrics.csv"
    file.write_text(CSV_LAYOUTS[layout], encoding="utf-8")
    (tmp_path / "version_0" / "hparams.yaml").write_text("lr: 0.1\nmodel:\n  width: 8\n")

    (run,) = CSV.runs(tmp_path)

    values = {series.name: series.values for series in run.series}
    loss = next(values[name] for name in values if name in ("loss", "train_loss"))
    accuracy = next(values[name] for name in values if name.endswith("val_acc"))
    assert loss[0] == 2.5 and accuracy[0] == 0.4
    assert layout != "bom" or (math.isnan(loss[1]) and accuracy[1] == math.inf)
    assert not {"epoch", "step"} & set(values)
    assert (run.name, run.params) == ("version_0", {"lr": 0.1, "model": {"width": 8}})


def test_a_column_of_runs_separates_them_and_a_table_of_data_is_no_log(tmp_path):
    (tmp_path / "all.csv").write_text("run,step,loss\na,0,1\nb,0,2\na,1,0.5\n")
    (tmp_path / "data.csv").write_text("name,age\nx,3\n")

    assert {
        run.name: list(zip(run.series[0].steps, run.series[0].values, strict=True)) for run in CSV.runs(tmp_path)
    } == {
        "a": [(0, 1.0), (1, 0.5)],
        "b": [(0, 2.0)],
    }
    (tmp_path / "words.csv").write_text("step,word\nx,y\n")
    with pytest.raises(ValueError, match="no column of numbers"):
        list(CSV.runs(tmp_path / "words.csv"))
