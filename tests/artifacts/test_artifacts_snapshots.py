"""Snapshots: which checkpoint is chosen, what belongs to it, and that the saved state of a training brings it back."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from order_of_tests import in_one_test

from labbook.artifacts.snapshots import Checkpoint, choose_checkpoint, files_of_checkpoint, find_checkpoints
from labbook.probe.inspection.final_state import BoundedFile
from tests.conftest import forked_labbook

TRAIN = {
    "torch": """
import hashlib, os, sys
import torch
def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    loader = torch.utils.data.DataLoader(torch.randn(128, 4), batch_size=16)
    for step, x in enumerate(x for _ in range(2) for x in loader):
        if step == 12:
            break
        loss = torch.nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        optimizer.zero_grad(); loss.backward(); optimizer.step(); scheduler.step()
        if step == 6 and "save" in sys.argv:
            torch.save(model.state_dict(), "best.pt")
    names = sorted(model.state_dict().items())
    print(hashlib.sha256(b"".join(t.numpy().tobytes() for _, t in names)).hexdigest(), flush=True)
    if "fail" in sys.argv:
        raise RuntimeError("broken")
main()
""",
    "paddle": """
import hashlib, os, sys
import paddle
def main():
    paddle.seed(0)
    model = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.BatchNorm1D(8), paddle.nn.Linear(8, 2))
    scheduler = paddle.optimizer.lr.StepDecay(0.01, 5)
    optimizer = paddle.optimizer.Adam(scheduler, parameters=model.parameters())
    loader = paddle.io.DataLoader(paddle.io.TensorDataset([paddle.randn([128, 4])]), batch_size=16)
    for step, (x,) in enumerate(x for _ in range(2) for x in loader):
        if step == 12:
            break
        loss = paddle.nn.functional.cross_entropy(model(x), (x.sum(1) > 0).astype("int64"))
        loss.backward(); optimizer.step(); optimizer.clear_grad(); scheduler.step()
        if step == 6 and "save" in sys.argv:
            paddle.save(model.state_dict(), "best.pdparams")
    names = sorted(model.state_dict().items())
    print(hashlib.sha256(b"".join(t.numpy().tobytes() for _, t in names)).hexdigest(), flush=True)
    if "fail" in sys.argv:
        raise RuntimeError("broken")
main()
""",
}
ENDING = {"torch": ".pt", "paddle": ".pdparams"}


def at(name: str, written: float) -> Checkpoint:
    return Checkpoint(Path("/run") / name, written)


@in_one_test(
    ("which", "direction", "values", "chosen", "reason"),
    [
        ("last", "max", {1: 0.9, 2: 0.5, 3: 0.7}, "c.pt", "last"),
        ("best", "max", {1: 0.9, 2: 0.5, 3: 0.7}, "a.pt", "metric"),
        ("best", "min", {1: 0.9, 2: 0.5, 3: 0.7}, "b.pt", "metric"),
        ("best", "max", {1: 0.9, 2: 0.5, 3: 0.9}, "c.pt", "metric"),
        ("best", "max", {1: float("nan"), 3: 0.1}, "c.pt", "metric"),
        ("best", "", {1: 0.9, 2: 0.5, 3: 0.7}, "c.pt", "last"),
        ("best", "max", {}, "c.pt", "last"),
        ("failed", "max", {1: 0.9}, "c.pt", "last"),
    ],
)
def test_the_best_is_the_one_written_when_the_metric_was_best(which, direction, values, chosen, reason):
    choice = choose_checkpoint([at("a.pt", 1), at("b.pt", 2), at("c.pt", 3)], which, values.get, direction)

    assert (choice.checkpoint.path.name, choice.reason) == (chosen, reason)


def test_the_word_of_the_program_counts_more_than_the_metric():
    found = [at("model_best.pt", 1), at("epoch3.pt", 2), at("bestiary.pt", 3)]

    assert choose_checkpoint(found, "best", {1: 0.1, 2: 0.9, 3: 0.2}.get, "max").reason == "named"
    assert choose_checkpoint(found, "best").checkpoint.path.name == "model_best.pt"
    assert choose_checkpoint([], "best") is None


@in_one_test(
    ("written", "chosen"),
    [
        (["epoch_2.pdparams", "epoch_2.pdopt"], "epoch_2.pdparams"),
        (
            ["checkpoint-5/model.safetensors", "checkpoint-5/optimizer.pt", "checkpoint-5/rng_state_0.pth"],
            "model.safetensors",
        ),
        (["model_3.pt", "optimizer_3.pt", "lr_scheduler_3.pt"], "model_3.pt"),
        (["adopted.pt", "net_lr0.1.pt"], "net_lr0.1.pt"),
        (["optimizer.pt"], "optimizer.pt"),
    ],
)
def test_the_checkpoint_is_the_file_with_the_weights(written, chosen):
    found = [at(name, number) for number, name in enumerate(written)]

    assert {choose_checkpoint(found, which).checkpoint.path.name for which in ("best", "last")} == {chosen}


@in_one_test(
    ("chosen", "others", "alone"),
    [
        ("best.pdparams", ["best.pdopt"], ["last.pdparams", "log.txt"]),
        ("checkpoint-500/model.safetensors", ["checkpoint-500/optimizer.pt"], ["checkpoint-400/optimizer.pt"]),
        ("checkpoints/a.pt", ["checkpoints/a.json"], ["checkpoints/b.pt"]),
        ("best/model.pt", ["best/config.json"], ["model.pt"]),
        ("out/model_3.pt", ["out/optimizer_3.pt"], ["out/model_2.pt", "out/optimizer_2.pt", "out/head_3.pt"]),
    ],
)
def test_files_that_belong_together_are_kept_together(chosen, others, alone):
    paths = [at(name, 1).path for name in [chosen, *others, *alone]]

    assert files_of_checkpoint(at(chosen, 1), paths) == sorted(paths[: 1 + len(others)])


def test_a_checkpoint_that_was_changed_after_the_run_is_none_of_it(tmp_path):
    for name, time in (("a.pt", 100.0), ("later.pt", 500.0), ("older.pt", 10.0), ("notes.txt", 100.0)):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (time, time))
    items = [{"path": str(path), "mode": "w"} for path in tmp_path.iterdir()]

    assert [one.path.name for one in find_checkpoints(items, tmp_path, 90.0, 120.0)] == ["a.pt"]


def test_a_slow_disk_ends_the_writing_but_not_the_program(tmp_path):
    with BoundedFile(str(tmp_path / "a"), deadline=0.0) as file:
        assert isinstance(file, io.BytesIO) and file.write(b"x" * 100) == 100
        assert file.problem
    assert (tmp_path / "a").read_bytes() == b""


@pytest.fixture(scope="module")
def recorded(make_book, tmp_path_factory):
    """Records a training with a snapshot once for each question; returns the notebook and what the program printed."""
    made = {}

    def record(framework: str, *options: str, snapshot: str, state: int = 10**8):
        key = (framework, options, snapshot, state)
        if key not in made:
            book = make_book(tmp_path_factory.mktemp("snapshot") / "book")
            settings = book.folder / "labbook.toml"
            text = settings.read_text().replace('snapshot = ""', f'snapshot = "{snapshot}"')
            settings.write_text(text.replace("snapshot_state = 0", f"snapshot_state = {state}"))
            (book.folder / "train.py").write_text(TRAIN[framework])
            done = book("record", "--", sys.executable, "train.py", *options, check=False)
            made[key] = book, done
        return made[key]

    return record


def digest_of(book, framework: str) -> str:
    """Loads the saved state as the entry says, in a process of its own, and returns the digest of the weights."""
    book("artifact", "get", "last", "snapshot", "--to", "restored")
    (book.folder / "restored.py").write_text(
        f"import hashlib, {framework} as f; s = f.load('restored/state{ENDING[framework]}')\n"
        "assert s['step'] == 12 and s['scheduler']['last_epoch'] == 12 and s['optimizer'] and s['random']\n"
        "assert [(one['epoch'], one['batch']) for one in s['data']] == [(1, 5)], s['data']\n"
        "print(hashlib.sha256(b''.join(t.numpy().tobytes() for _, t in sorted(s['model'].items()))).hexdigest())\n"
    )
    imported = "labbook and torch" if framework == "torch" else "labbook"
    done = forked_labbook(imported).run(["restored.py"], dict(os.environ), book.folder, 100)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("framework", "snapshot", "options"),
    [
        pytest.param("torch", "failed", ("fail", "save"), marks=pytest.mark.torch),
        pytest.param("paddle", "last", ("save",), marks=[pytest.mark.paddle, pytest.mark.long]),
        pytest.param("torch", "last", ("save",), marks=[pytest.mark.torch, pytest.mark.long]),
        pytest.param("paddle", "failed", ("fail",), marks=[pytest.mark.paddle, pytest.mark.long]),
    ],
)
def test_the_saved_state_brings_the_weights_back(recorded, framework, snapshot, options):
    book, done = recorded(framework, *options, snapshot=snapshot)

    assert done.returncode == (1 if "fail" in options else 0)
    printed = next(line for line in done.stdout.splitlines() if len(line) == 64)
    entry = book.entry()
    assert digest_of(book, framework) == printed
    assert "## Snapshot" in entry and f'state = {framework}.load("restored/state' in entry
    names = {one["name"] for one in book.run()["artifacts"]} if "artifacts" in book.run() else set()
    assert {"snapshot/requirements.txt", f"snapshot/state{ENDING[framework]}"} <= names
    assert (f"snapshot/best{ENDING[framework]}" in names) == ("save" in options)
    assert not list(book.folder.glob(".labbook/runs/*/state/*"))

    # What goes on from the state is linked to the run that left it.
    (book.folder / "read.py").write_text(f"open('restored/state{ENDING[framework]}', 'rb').read()")
    first = book.run()["id"]
    book("record", "-q", "--", sys.executable, "read.py")
    assert [parent["run"] for parent in book.run()["parents"]] == [first]
    book("rm", "last", "--yes")  # other tests ask the same notebook for its last run


@pytest.mark.long
@pytest.mark.parametrize(
    ("framework", "snapshot", "options"),
    [
        pytest.param("torch", "last", ("save",), marks=pytest.mark.torch),
        pytest.param("paddle", "failed", ("fail",), marks=pytest.mark.paddle),
    ],
)
def test_saving_the_state_changes_nothing(recorded, framework, snapshot, options):
    book, done = recorded(framework, *options, snapshot=snapshot)
    plain = subprocess.run([sys.executable, "train.py", *options], cwd=book.folder, capture_output=True, text=True)

    assert (plain.returncode, plain.stdout) == (done.returncode, done.stdout)


@pytest.mark.torch
@pytest.mark.long
def test_a_state_over_the_limit_is_not_saved_and_the_entry_says_so(recorded):
    book, done = recorded("torch", "fail", snapshot="failed", state=100)

    assert done.returncode == 1 and "it is larger than the setting" in book.entry()
    assert all(one["name"] != "snapshot/state.pt" for one in book.run()["artifacts"])


@pytest.mark.torch
def test_a_snapshot_can_be_taken_later_and_only_of_what_is_still_there(recorded):
    book, _ = recorded("torch", "fail", "save", snapshot="failed")

    done = book("snapshot", "last", "--note", "for the paper")
    assert "snapshot/best.pt" in done.stdout and "for the paper" in book.entry()
    facts = next(iter(sorted((book.folder / "notes").rglob("run.json"))))
    data = json.loads(facts.read_text())
    assert data["captured"]["snapshot"]["reason"] == "named" and data["series"]
    assert book("artifact", "verify").returncode == 0
    page = book.entry()
    book("snapshot", "last", "--note", "for the paper")
    assert book.entry() == page, "a second snapshot of the same files changes nothing"
    kept = {one["name"] for one in json.loads(facts.read_text())["artifacts"]}
    assert {"snapshot/best.pt", "snapshot/state.pt", "snapshot/requirements.txt", "snapshot/code.patch"} == kept
