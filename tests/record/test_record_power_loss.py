"""A power loss may empty, cut or remove the file with the start of a run; its entry is finished all the same."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = "import time\nprint('epoch 1 loss: 0.5', flush=True)\ntime.sleep(60)\n"
DAMAGES = {
    "empty": lambda content: b"",
    "missing": lambda content: None,
    "zeros": lambda content: bytes(len(content)),
    "cut in the middle": lambda content: content[: len(content) // 2],
    "cut at the end": lambda content: content[:-2],
    "cut in a name": lambda content: content[: content.index(b"script") + 3],
    "no object": lambda content: b"[]",
}


def kill_a_run(book):
    """Records a program and kills everything once the entry of the running program is written; returns the journal."""
    (book.folder / "slow.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "labbook", "record", "-t", "night", "--", sys.executable, "slow.py"]
    recorder = subprocess.Popen(
        command, cwd=book.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        written = list((book.folder / "notes" / "runs").rglob("*.md"))
        heads = list((book.folder / ".labbook" / "runs").glob("*/console/*"))
        if written and any(b"epoch 1" in path.read_bytes() for path in heads):
            break
        time.sleep(0.02)
    os.killpg(recorder.pid, signal.SIGKILL)
    recorder.communicate()
    return next((book.folder / ".labbook" / "runs").iterdir())


@pytest.mark.parametrize("entry", [True, False], ids=["running entry", "no entry yet"])
def test_a_damaged_start_file_gives_a_partial_entry(book, git, entry):
    journal = kill_a_run(book)
    (written,) = (book.folder / "notes" / "runs").rglob("*.md")
    content = (journal / "run.json").read_bytes()
    old = time.time() - 60
    for name, damage in DAMAGES.items() if entry else [("missing", DAMAGES["missing"])]:
        for path in (*journal.glob("*.json"), written):
            if path.name in ("after.json", "done.json", "run.json") or (path == written and not entry):
                path.unlink(missing_ok=True)
        shutil.rmtree(written.with_suffix(""), ignore_errors=True)
        damaged = damage(content)
        if damaged is not None:
            (journal / "run.json").write_bytes(damaged)
        for path in (journal, *journal.rglob("*")):
            os.utime(path, (old, old))

        done = book("recover")

        assert f"recovered {journal.name}" in done.stdout, (name, done.stdout, done.stderr)
        run = book.run()
        assert run["status"] in ("lost", "killed"), name
        assert run["argv"][-1] == "slow.py" and run["script"] == "slow.py", name
        assert "epoch 1 loss: 0.5" in book.entry(), name
        assert run["entry"] in git(book.folder, "ls-tree", "-r", "--name-only", "HEAD"), name
        assert not entry or ("night" in run["tags"] and run["experiment"]), name


def test_a_journal_in_which_nothing_had_started_makes_no_entry(book):
    journal = book.folder / ".labbook" / "runs" / "20260102-030405-abcd"
    (journal / "events").mkdir(parents=True)
    (journal / "console").mkdir()
    (journal / "run.json").write_bytes(b"")
    for path in (journal, *journal.rglob("*")):
        os.utime(path, (0, 0))

    assert "nothing to recover" in book("recover").stdout
    assert not list((book.folder / "notes" / "runs").rglob("*.md"))


SYNCED = """
import os, sys
real = os.fsync
def fsync(descriptor):
    name = os.readlink("/proc/self/fd/%d" % descriptor)
    with open(sys.argv[1], "a") as log:
        log.write(name + "\\n")
    real(descriptor)
os.fsync = fsync
from labbook.cli import main
main(["record", "--", "true"])
"""


def test_start_and_end_are_on_the_disk_with_their_folders(book, tmp_path):
    log = tmp_path / "synced"
    subprocess.run([sys.executable, "-c", SYNCED, str(log)], cwd=book.folder, check=True, stdin=subprocess.DEVNULL)

    synced = log.read_text().splitlines()
    journal = next((book.folder / ".labbook" / "runs").iterdir())
    files = [line for line in synced if line.startswith(str(journal) + "/")]
    assert any(".run.json." in line for line in files) and any(".end.json." in line for line in files)
    assert str(journal) in synced and str(journal.parent) in synced
