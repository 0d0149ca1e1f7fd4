"""Writes different runs with a real tracking tool, and beside them what it was given, as JSON lines.

    /tmp/mlflow/bin/python benchmarks/write_runs.py mlflow /tmp/runs/mlflow 200

Runs in the interpreter of the tool, without labbook. What a run logs depends on its number alone: nested parameters,
texts that look like numbers, series with gaps, NaN and infinities, names with slashes, spaces and Chinese, texts,
images, tags and notes; some runs fail, some are killed, some are resumed. Each function writes one run and returns what
the tool was given of it, in the form in which the tool can keep it (TensorBoard has no tags, MLflow's parameters are
text).
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ALL = 10**9
RESUMED_AT = 200
NAMES = ("lr0.1_sgd_{}", "学习率 {}", "sweep/a/{}", "same name", "a:b*{}?", "-{}-")
PROJECTS = ("digits", "vision_2", "a-b_c")
SERIES = ("train/loss", "val/acc", "学习率", "lr group 0", "val.top1", "grad_norm", "a/b/c")
ODD = (math.nan, math.inf, -math.inf, 0.0, -1e-30, 1e30)
TEXTS = (
    "3.10",
    "007",
    "1e-4",
    "",
    "none",
    "True story",
    "学习率衰减",
    "two\nlines",
    "a: b # c",
    "12e4567",
    "  x ",
    "1_000",
)
PART = {"data": 1.5, "model": 2.5}


def plan(number: int) -> dict:
    """Returns what run `number` logs, as JSON data."""
    draw = random.Random(number)
    params = {
        "lr": draw.choice((0.1, 1e-05, 3e-4, 1.0, 123456.75)),
        "epochs": draw.randrange(1, 10**6),
        "amp": draw.random() < 0.5,
        "note": draw.choice(TEXTS),
        "模型": draw.choice(TEXTS),
        "resume_from": None,
        "betas": [0.9, 0.999],
        "model": {"width": 8 * number, "layers": {"depth": 3, "act": "relu"}, "empty": {}},
        "seed": number,
        "optimizer/name": "adam",
        "big": 2**53 + 1 if number % 7 == 0 else 7,
        "zero": 0,
        "off": False,
    }
    series = {}
    for each in draw.sample(SERIES, draw.randrange(1, len(SERIES))):
        steps = sorted(draw.sample(range(400), draw.choice((1, 3, 40, 200))))
        odd = {draw.choice(steps): draw.choice(ODD) for _ in range(3)}
        series[each] = [[step, odd.get(step, round(draw.gauss(1, 2), 6))] for step in steps]
    return {
        "number": number,
        "name": draw.choice(NAMES).format(number),
        "project": draw.choice(PROJECTS),
        "params": params,
        "series": series,
        "texts": [["note", 3, draw.choice(("a **run**", "两行\n文字", "<b>html</b> | pipe"))]] * (draw.random() < 0.4),
        "images": [["batch/0", step] for step in range(draw.randrange(3))] * (draw.random() < 0.4),
        "tags": draw.sample(("baseline", "消融", "v1.0", "a b", "x/y"), draw.randrange(3)),
        "notes": draw.choice(("", "a run of **tests**", "多行\n说明", "# Title\n---\nx: y")),
        "status": draw.choice(("finished", "finished", "finished", "failed", "lost")),
        "is_resumed": draw.random() < 0.15,
    }


def image(step: int):
    """Returns an image. Shape: (8, 8, 3), uint8."""
    import numpy as np

    ramp = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    return np.stack([ramp, ramp.T, np.full((8, 8), step, np.uint8)], axis=-1)


def rows(todo: dict, low: int, high: int) -> list:
    """Returns the values from a step to another one, `[(step, {name: value})]`."""
    found: dict = {}
    for name, points in todo["series"].items():
        for step, value in points:
            if low <= step < high:
                found.setdefault(step, {})[name] = value
    return sorted(found.items())


def parts(todo: dict):
    """Yields the ranges of steps that the processes of a run log."""
    if not todo["is_resumed"]:
        yield 0, ALL
        return
    yield 0, RESUMED_AT
    time.sleep(1.1)  # folders and files have the second in their names
    yield RESUMED_AT, ALL


def flat(values: dict, prefix: str = "") -> dict:
    """Returns nested parameters by dotted name."""
    found = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {prefix + name: value}
    return found


def event_files(folder: Path, todo: dict, open_writer, names: tuple) -> dict:
    """Writes a run with a writer of scalars, texts and images; parameters of every second run."""
    place = folder / f"run_{todo['number']:03d}_{re.sub('[^a-z0-9.学习率]', '_', todo['name'])}"
    params = {name: todo["params"][name] for name in names} if todo["number"] % 2 else {}
    series = dict(todo["series"])
    for low, high in parts(todo):
        writer = open_writer(str(place))
        for step, row in rows(todo, low, high):
            for name, value in row.items():
                writer.add_scalar(name, value, step)
        if not low:
            if params:
                writer.add_hparams(params, ["val/acc"] if "visualdl" in sys.argv[1] else {"best": 0.5})
            for tag, step, text in todo["texts"]:
                writer.add_text(tag, text, step)
            for tag, step in todo["images"]:
                form = {} if "visualdl" in sys.argv[1] else {"dataformats": "HWC"}
                writer.add_image(tag, image(step), step, **form)
            if todo["number"] % 3 == 0:
                writer.add_scalars("speed/part", PART, 1)
                series |= {f"speed/part/{name}": [[1, value]] for name, value in PART.items()}
        writer.close()
    return todo | {"name": place.name, "params": params, "series": series, "is_single": True, "status": "finished"}


def tensorboard(folder: Path, todo: dict) -> dict:
    from torch.utils.tensorboard import SummaryWriter

    given = event_files(folder, todo, SummaryWriter, ("lr", "epochs", "amp", "note", "off", "zero", "seed"))
    given["series"] |= {"best": [[None, 0.5]]} if given["params"] else {}
    return given


def tensorboard_x(folder: Path, todo: dict) -> dict:
    from tensorboardX import SummaryWriter

    given = event_files(folder, todo, SummaryWriter, ("lr", "epochs", "amp", "note", "off", "zero", "seed"))
    given["series"] |= {"best": [[None, 0.5]]} if given["params"] else {}
    given["series"] = {name.replace(" ", "_"): points for name, points in given["series"].items()}  # as it writes them
    return given


def visualdl(folder: Path, todo: dict) -> dict:
    from visualdl import LogWriter

    return event_files(folder, todo, lambda place: LogWriter(logdir=place), ("lr", "epochs", "note", "seed"))


def mlflow(folder: Path, todo: dict, uri: str = "") -> dict:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow
    from mlflow.entities import Metric

    mlflow.set_tracking_uri(uri or (folder / "mlruns").as_uri())
    if mlflow.get_experiment_by_name(todo["project"]) is None:
        mlflow.create_experiment(todo["project"], artifact_location=(folder / "artifacts").as_uri() if uri else None)
    mlflow.set_experiment(todo["project"])
    mlflow.set_experiment_tag("team", "vision")
    # The file store refuses these names.
    given = todo
    if not uri:  # the file store refuses these names
        text = json.dumps(todo, ensure_ascii=False)
        given = json.loads(text.replace('"学习率"', '"rate"').replace('"模型"', '"net"'))
    given = given | {
        "params": flat(given["params"]),
        "tags": [f"kind{place}:{tag}" for place, tag in enumerate(todo["tags"])],
    }
    client, run_id = mlflow.MlflowClient(), None
    for low, high in parts(todo):
        tags = {f"kind{place}": tag for place, tag in enumerate(todo["tags"])}
        run = mlflow.start_run(run_id, run_name=todo["name"], description=todo["notes"] or None, tags=tags)
        run_id = run.info.run_id
        if not low:
            mlflow.log_params(given["params"])
            for tag, _, text in todo["texts"]:
                mlflow.log_text(text, f"{tag}.txt")
            for tag, step in todo["images"]:
                mlflow.log_image(image(step), f"{tag}_{step}.png")
            if todo["number"] % 5 == 0:
                mlflow.initialize_logged_model(name="net", params={"p": "1"}, tags={"t": "2"})
        now = int(time.time() * 1000)
        batch = [Metric(name, value, now, step) for step, row in rows(given, low, high) for name, value in row.items()]
        for start in range(0, len(batch), 900):
            client.log_batch(run_id, metrics=batch[start : start + 900])
        if high < ALL:
            mlflow.end_run("KILLED")
        elif todo["status"] != "lost":
            mlflow.end_run(todo["status"].upper())
        else:
            mlflow.tracking.fluent._active_run_stack.set([])
    texts = [[f"{tag}.txt", 0, text] for tag, _, text in todo["texts"]]
    return given | {"texts": texts, "images": [[f"{tag}_{step}.png", 0] for tag, step in todo["images"]]}


def mlflow_sqlite(folder: Path, todo: dict) -> dict:
    return mlflow(folder, todo, f"sqlite:///{folder / 'mlflow.db'}")


def wandb(folder: Path, todo: dict) -> dict:
    os.environ["WANDB_SILENT"] = "true"
    import wandb

    settings = wandb.Settings(x_disable_stats=True, save_code=False, disable_git=True)
    texts, images = [], []
    for low, high in parts(todo):
        run = wandb.init(
            project=todo["project"],
            name=todo["name"],
            id=f"r{todo['number']:05d}",
            resume="allow" if todo["is_resumed"] else None,
            mode="offline",
            dir=str(folder),
            config=todo["params"],
            tags=todo["tags"],
            notes=todo["notes"],
            settings=settings,
        )
        for step, row in rows(todo, low, high):
            run.log(row, step=step)
        if high == ALL:
            texts, images = (
                [[tag, 1000, text] for tag, _, text in todo["texts"]],
                [["batch/0", 1000]] * len(todo["images"]),
            )
            extra = {tag: text for tag, _, text in todo["texts"]}
            pictures = [wandb.Image(image(step)) for _, step in todo["images"]]
            if extra or pictures:
                run.log(
                    extra | ({"batch/0": pictures if len(pictures) > 1 else pictures[0]} if pictures else {}), step=1000
                )
            run.summary["best"] = {"acc": 0.5}
        if todo["status"] != "lost" or high < ALL:
            run.finish(exit_code=3 if todo["status"] == "failed" else 0)
    time.sleep(0.5 if todo["status"] == "lost" else 0)
    series = todo["series"] | {"best.acc": [[None, 0.5]]}
    return todo | {"params": flat(todo["params"]), "series": series, "texts": texts, "images": images}


def swanlab(folder: Path, todo: dict) -> dict:
    import swanlab

    run = swanlab.init(
        project=todo["project"],
        experiment_name=todo["name"],
        mode="local",
        logdir=str(folder),
        config=todo["params"],
        description=todo["notes"] or None,
        tags=todo["tags"] or None,
    )
    for step, row in rows(todo, 0, ALL):
        run.log(row, step=step)
    for tag, step, text in todo["texts"]:
        run.log({tag: swanlab.Text(text)}, step=step)
    for tag, step in todo["images"]:
        run.log({tag: swanlab.Image(image(step))}, step=step)
    if todo["status"] == "lost":
        time.sleep(1)
    else:
        swanlab.finish(**({"state": "crashed", "error": "out of memory"} if todo["status"] == "failed" else {}))
    return todo | {"params": flat(todo["params"]) | {"resume_from": {}}}  # it writes None as {}


def trackio(folder: Path, todo: dict) -> dict:
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio

    name, group = f"{todo['name']} {todo['number']}", "g1" if todo["number"] % 2 else None
    for low, high in parts(todo):
        resume = "allow" if low else "never"
        trackio.init(project=todo["project"], name=name, config=todo["params"], resume=resume, embed=False, group=group)
        for step, row in rows(todo, low, high):
            trackio.log(row, step=step)
        if not low:
            for tag, step, text in todo["texts"]:
                trackio.log({tag: text}, step=step)
            for tag, step in todo["images"]:
                trackio.log({tag: trackio.Image(image(step))}, step=step)
        trackio.finish()
    given = {"name": name, "tags": [f"group:{group}"] if group else [], "notes": "", "status": "finished"}
    return todo | given | {"params": flat(todo["params"])}


def main() -> None:
    """Writes the runs; a run that is killed has a process of its own, which is killed."""
    tool, folder, count = sys.argv[1], Path(sys.argv[2]).resolve(), int(sys.argv[3])
    only = [int(word) for word in sys.argv[4:]]
    folder.mkdir(parents=True, exist_ok=True)
    for number in only or range(count):
        todo = plan(number)
        is_killed = todo["status"] == "lost" and tool in ("wandb", "swanlab")
        if is_killed and not only:
            subprocess.run([sys.executable, __file__, *sys.argv[1:4], str(number)], capture_output=True, check=False)
            continue
        begun = time.time()
        given = globals()[tool](folder, todo) | {"begun": begun, "ended": time.time(), "is_killed": is_killed}
        with folder.with_suffix(".jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(given) + "\n")
        if is_killed:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
