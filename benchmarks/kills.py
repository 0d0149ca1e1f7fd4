"""Kills the recorder 200 times at random moments, then counts entries that are lost or broken."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KILLS = int(os.environ.get("LABBOOK_BENCH_KILLS", "200"))
LABBOOK = [sys.executable, "-m", "labbook"]


def main():
    chance = random.Random(20261121)
    with tempfile.TemporaryDirectory() as top:
        book = Path(top) / "book"
        book.mkdir()
        subprocess.run([*LABBOOK, "init"], cwd=book, check=True, capture_output=True)
        for _ in range(KILLS):
            recorder = subprocess.Popen(
                [*LABBOOK, "record", "--", "sh", "-c", "echo begun; sleep 0.1; echo ended"],
                cwd=book,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(chance.uniform(0.02, 0.7))
            os.killpg(recorder.pid, signal.SIGKILL)
            recorder.wait()
        time.sleep(1)
        subprocess.run([*LABBOOK, "recover"], cwd=book, check=True, capture_output=True)
        report(book)


def report(book):
    journals = [p for p in (book / ".labbook" / "runs").iterdir() if (p / "run.json").exists()]
    listed = subprocess.run([*LABBOOK, "list", "--json", "-n", "1000"], cwd=book, capture_output=True, text=True)
    rows = json.loads(listed.stdout)
    lost = {p.name for p in journals} - {row["id"] for row in rows}
    open_runs = [row for row in rows if row["status"] == "running"]
    tracked = subprocess.run(["git", "ls-files", "notes/runs"], cwd=book, capture_output=True, text=True).stdout
    uncommitted = [row["id"] for row in rows if row["id"] + ".md" not in tracked]
    fsck = subprocess.run(["git", "fsck", "--strict"], cwd=book, capture_output=True, text=True)
    locks = list((book / ".git").rglob("*.lock"))
    state = "BROKEN" if fsck.returncode else "clean"
    print(f"   {KILLS} kills, {len(journals)} runs had begun: {len(lost)} entries lost, {len(open_runs)} left open,")
    print(f"   {len(uncommitted)} not committed, {len(locks)} locks left, git fsck {state}")


if __name__ == "__main__":
    main()
