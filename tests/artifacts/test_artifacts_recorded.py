"""Recorded runs: which files are kept, which run wrote what another one read, and what the commands say."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys

import pytest

TRAIN = """
import os, sys, time
import labbook

if len(sys.argv) > 1:
    start = open(sys.argv[1], "rb").read()
else:
    start = b""
    open("middle.bin", "w").write("the version at the call")
    labbook.keep("middle.bin", "middle")
    time.sleep(2)
    open("middle.bin", "w").write("later")
open("last.pt", "wb").write(start + b"weights " * 200)
os.makedirs("best", exist_ok=True)
open("best/result.txt", "w").write("accuracy %d" % len(sys.argv))
open("notes.txt", "w").write("not kept")
open(b"caf\\xe9.pt", "w").write("x")
open("with\\nnewline.pt", "w").close()
labbook.keep("gone.pt")
print("done")
"""
RESUMED = """
import sys
import torch

torch.manual_seed(0)
x, y = torch.randn(64, 10), torch.randint(0, 4, (64,))
model = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
if len(sys.argv) > 1:
    state = torch.load(sys.argv[1])
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
for step in range(40):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
"""
ANALYSE = "open('table.csv', 'wb').write(open('last.pt', 'rb').read()[:100])\n"


@pytest.fixture(scope="module")
def three_runs(make_book, tmp_path_factory):
    """A training, one that goes on from its checkpoint and overwrites it, and a program that reads the result."""
    book = make_book(tmp_path_factory.mktemp("kept") / "book")
    settings = book.folder / "labbook.toml"
    text = settings.read_text().replace("artifacts = []", 'artifacts = ["*.pt", "best/*"]')
    settings.write_text(text)
    (book.folder / "train.py").write_text(TRAIN)
    (book.folder / "analyse.py").write_text(ANALYSE)
    for command in (["train.py"], ["train.py", "last.pt"], ["analyse.py"]):
        book.record(sys.executable, *command)
    ids = sorted(path.stem for path in (book.folder / "notes" / "runs").rglob("*.md"))
    return book, [book.run(run) for run in ids]


pytestmark = pytest.mark.process


def by_path(run: dict) -> dict:
    return {artifact["path"]: artifact for artifact in run["artifacts"]}


def test_matching_outputs_and_calls_of_keep_are_kept(three_runs):
    _, (first, second, third) = three_runs
    kept = by_path(first)
    assert set(kept) == {"last.pt", "best/result.txt", "middle.bin", "caf\\xe9.pt", "with\nnewline.pt", "gone.pt"}
    assert kept["gone.pt"]["reason"] == "gone"
    assert kept["gone.pt"]["digest"] == ""
    assert (kept["middle.bin"]["name"], kept["middle.bin"]["via"]) == ("middle", "keep")
    assert kept["middle.bin"]["size_bytes"] == len("the version at the call")
    assert by_path(second)["last.pt"]["digest"] != kept["last.pt"]["digest"]
    assert third["artifacts"] == []


def test_a_kept_file_comes_back_by_name_and_by_digest(three_runs, tmp_path):
    book, (first, second, _) = three_runs
    digest = by_path(first)["last.pt"]["digest"].removeprefix("sha256:")
    book("artifact", "get", first["id"], "last.pt", "--to", str(tmp_path / "first.pt"))
    assert hashlib.sha256((tmp_path / "first.pt").read_bytes()).hexdigest() == digest
    book("artifact", "get", digest[:10], "--to", str(tmp_path))
    assert (tmp_path / "last.pt").read_bytes() == (tmp_path / "first.pt").read_bytes()
    again = book("artifact", "get", digest[:10], "--to", str(tmp_path), check=False)
    assert again.returncode == 2
    assert "exists" in again.stderr
    assert "has several such files" in book("artifact", "get", first["id"], check=False).stderr
    assert book("artifact", "get", second["id"], "nope", check=False).returncode == 1
    assert book("artifact", "get", "zzzz", check=False).returncode == 1


def test_runs_are_linked_by_what_they_wrote_and_read(three_runs):
    book, (first, second, third) = three_runs
    assert first["parents"] == []
    assert [(p["run"], p["path"]) for p in second["parents"]] == [(first["id"], "last.pt")]
    assert [(p["run"], p["path"]) for p in third["parents"]] == [(second["id"], "last.pt")]
    entry = book.entry(second["id"])
    assert f"`last.pt` was written by [{first['id']}]" in entry
    figure = (book.folder / second["entry"]).with_suffix("") / "lineage.svg"
    assert first["id"] in figure.read_text()
    listed = json.loads(book("list", f"parents:{first['id']}", "--json").stdout)
    assert [run["id"] for run in listed] == [second["id"]]


@pytest.mark.torch
@pytest.mark.long
def test_a_resumed_training_points_at_its_parent_and_is_judged_by_it(book):
    (book.folder / "train.py").write_text(RESUMED)
    book.record(sys.executable, "train.py")
    first = book.run()
    book.record(sys.executable, "train.py", "last.pt")
    second = book.run()
    assert (first["parents"], first["resumed_from"]) == ([], "")
    assert second["resumed_from"] == first["id"]
    assert "this training goes on from it" in book.entry()
    assert f"resumed_from: {first['id']}" in book.entry()
    checks = {run["id"]: {check["id"]: check for check in run["checks"]} for run in (first, second)}
    assert "ln(4)" in checks[first["id"]]["init_loss_off"]["expected"]
    resumed = checks[second["id"]]["init_loss_off"]
    assert resumed["verdict"] == "ok"
    assert first["id"] in resumed["expected"]


def test_entry_list_and_verify_name_the_files(three_runs):
    book, (first, _, _) = three_runs
    entry = book.entry(first["id"])
    assert "### Kept files" in entry
    assert "| `middle` | `middle.bin` |" in entry
    listed = json.loads(book("artifact", "list", first["id"], "--json").stdout)
    assert {file["place"] for file in listed["files"] if file["digest"]} == {"local"}
    assert "last.pt" in book("artifact", "list").stdout
    assert book("artifact", "verify").returncode == 0


def test_a_damaged_and_a_missing_file_are_named_with_their_run(three_runs, tmp_path):
    book, (first, second, _) = three_runs
    shutil.copytree(book.folder, tmp_path / "copy", symlinks=True)
    copy = type(book)(tmp_path / "copy")
    objects = copy.folder / ".labbook" / "artifacts" / "sha256"
    for run, fault in ((first, "damaged"), (second, "missing")):
        digest = by_path(run)["last.pt"]["digest"].removeprefix("sha256:")
        path = objects / digest[:2] / digest
        path.chmod(0o600)
        path.write_bytes(b"other") if fault == "damaged" else path.unlink()
    done = copy("artifact", "verify", check=False)
    assert done.returncode == 1
    assert f"{first['id']}  last.pt: damaged in " in done.stdout
    assert f"{second['id']}  last.pt: missing on this machine and in the store" in done.stdout
    taken = copy("artifact", "get", first["id"], "last.pt", "--to", "x.pt", check=False)
    assert taken.returncode == 3
    assert "is damaged" in taken.stderr
    assert not (copy.folder / "x.pt").exists()


def test_prune_removes_only_what_no_entry_names_and_says_so(three_runs, tmp_path, git):
    book, (first, second, _) = three_runs
    shutil.copytree(book.folder, tmp_path / "copy", symlinks=True)
    copy = type(book)(tmp_path / "copy")
    objects = copy.folder / ".labbook" / "artifacts" / "sha256"
    (copy.folder / first["entry"]).unlink()
    assert "0 files removed" in copy("artifact", "prune").stdout, "nothing of the last hour"
    program = (
        "from labbook.artifacts import inventory; inventory._YOUNG_S = -1.0\n"
        "from labbook.cli import main; import sys; sys.exit(main(['artifact', 'prune', *sys.argv[1:]]))"
    )
    digest = by_path(first)["last.pt"]["digest"].removeprefix("sha256:")
    kept = by_path(second)["last.pt"]["digest"].removeprefix("sha256:")
    entry, remote = copy.folder / first["entry"], "refs/remotes/origin/main"
    for options, is_there, prepare in (
        ([], True, lambda: git(copy.folder, "update-ref", remote, "HEAD")),  # two branches have the entry still
        ([], True, lambda: (shutil.rmtree(entry.with_suffix("")), copy("commit", first["entry"]))),
        (["--dry-run"], True, lambda: git(copy.folder, "update-ref", "-d", remote)),
        ([], False, lambda: None),
    ):
        prepare()
        command = [sys.executable, "-c", program, *options]
        done = subprocess.run(command, cwd=copy.folder, capture_output=True, text=True, check=True).stdout
        assert (digest[:12] in done) is (not is_there or bool(options))
        assert kept[:12] not in done
        assert (objects / digest[:2] / digest).exists() is is_there
    assert (objects / kept[:2] / kept).exists()
    (copy.folder / second["entry"]).with_suffix("").joinpath("run.json").write_text("{")
    refused = copy("artifact", "prune", check=False)
    assert refused.returncode == 3
    assert "are unknown" in refused.stderr


def test_without_kept_files_the_commands_say_so(book):
    done = book("artifact", "list", check=False)
    assert done.returncode == 1
    assert "no kept files yet" in done.stderr
    assert book("artifact", "push", check=False).returncode == 2
    assert "0 of 0 kept files match their digests" in book("artifact", "verify").stderr
