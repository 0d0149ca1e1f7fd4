"""Many committers on one notebook at once, and committers that are killed at random moments.

Counted, for a notebook that is its own repository and for one inside a code repository: entries that are not on the
branch, locks that are left, whether `git fsck` is clean and the work tree too.
"""

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

RECORDERS = 32
KILLS = int(os.environ.get("LABBOOK_BENCH_KILLS", "200"))
LONGEST_S = 0.04


def git(folder, *arguments):
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + (done.stderr if done.returncode else "")


def notebook(top, kind):
    from labbook.store.notebook_finder import create_notebook

    folder = top / kind
    folder.mkdir()
    if kind == "inside":
        git(folder, "init", "-q", "-b", "main")
        (folder / "train.py").write_text("pass\n")
    made, _ = create_notebook(folder)
    if kind == "inside":
        git(folder, "add", ".")
        git(folder, "-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "-qm", "code")
    return made


def commit(book, name):
    """Writes and commits one entry; the outcome's status."""
    from labbook.store.commit.entry_commit import commit_files

    path = book.paths.notes / "runs" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"entry {name}\n")
    return commit_files(book, [path], f"entry {name}").status


def fork(work):
    """Runs `work` in a process of its own and returns its id; 0 is the status when it gives "committed"."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        status = 0 if work() == "committed" else 2
    finally:
        os._exit(status)


def at_once(book):
    began = time.perf_counter()
    pids = [fork(lambda n=n: commit(book, f"at-once-{n}")) for n in range(RECORDERS)]
    good = sum(os.waitpid(pid, 0)[1] == 0 for pid in pids)
    took = time.perf_counter() - began
    made = git(book.repository, "log", "--format=%s", branch(book)).count("entry at-once-")
    print(f"   {RECORDERS} at once: {good} say committed, {made} commits, in {took:.2f} s")


def killed(book, chance):
    """Kills a committer, every other time with its git; then a second one finishes what it began."""
    trouble, waits = 0, []
    for number in range(KILLS):
        pid = fork(lambda name=f"killed-{number}": commit(book, name))
        time.sleep(chance.uniform(0.0, LONGEST_S))
        victims = [pid, *(children(pid) if number % 2 else [])]
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        os.waitpid(pid, 0)
        began = time.perf_counter()
        trouble += commit(book, f"killed-{number}") not in ("committed", "unchanged")
        waits.append(time.perf_counter() - began)
    names = git(book.repository, "ls-tree", "-r", "--name-only", branch(book))
    lost = [n for n in range(KILLS) if f"killed-{n}.md" not in names]
    print(f"   {KILLS} kills: {len(lost)} entries lost, {trouble} retries failed, longest retry {max(waits):.2f} s")


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def branch(book):
    return "HEAD" if book.config.commit == "checkout" else "refs/heads/labbook"


def state(book):
    top = book.repository
    fsck = [line for line in git(top, "fsck", "--strict").splitlines() if "dangling" not in line]
    locks = [str(p.relative_to(top)) for p in (top / ".git").rglob("*.lock")]
    dirty = git(top, "status", "--porcelain").strip()
    print(f"   git fsck: {fsck or 'clean'}; work tree: {dirty or 'clean'}; locks left: {locks or 'none'}")


def main():
    chance = random.Random(20261121)
    with tempfile.TemporaryDirectory() as top:
        for kind, told in (("own", "a repository of its own"), ("inside", "inside a code repository")):
            print(f"   -- {told}")
            book = notebook(Path(top), kind)
            at_once(book)
            killed(book, chance)
            state(book)


if __name__ == "__main__":
    main()
