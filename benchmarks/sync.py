"""`labbook sync` of one new entry on a large notebook, against bare git that moves the same objects.

`python -m benchmarks.sync [ENTRIES] [ssh | http | MILLISECONDS]`; 2,000 by default. Clones of the same state share with
remotes of their own on this disk, by OpenSSH or smart HTTP on this machine, or by a git daemon behind a network with a
round trip of some milliseconds (30: another city). In turn, an entry is committed in each, then one runs
`labbook sync` and another `git fetch` and `git push`. Processes are timed whole, the start of Python included; the same
work inside a process is that of `labbook sync --watch`. Times on the clock and of the processor are shown, the latter
with child processes; those of a server are not in it. At the end a fresh clone lists its entries.
"""

import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._git_servers import http_git_server, ssh_server
from benchmarks._slow_network import slow_git_daemon
from benchmarks._synthetic_notes import write_notes

ROUNDS = 7
SETTINGS = 'title = "Many"\nlanguage = "en"\n'


def call_git(folder, *arguments):
    """Runs git as a user would."""
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def make_clone(top, count):
    """A clone with a notebook of some entries that its remote has too."""
    call_git(top, "init", "-q", "--bare", "-b", "main", "remote.git")
    call_git(top, "init", "-q", "-b", "main", "clone")
    clone = top / "clone"
    (clone / "labbook.toml").write_text(SETTINGS)
    (clone / ".gitignore").write_text(".labbook/\n")
    for name, value in (("user.name", "B"), ("user.email", "b@example.com"), ("gc.auto", "0")):
        call_git(clone, "config", name, value)
    call_git(top / "remote.git", "config", "receive.autogc", "false")  # a collection in the background removes files
    call_git(clone, "remote", "add", "origin", "../remote.git")
    call_git(clone, "add", ".")
    call_git(clone, "commit", "-qm", "first")
    write_notes(clone, count, gap_s=900.0, now=1_795_000_000)
    call_git(clone, "checkout", "-q", "-b", "labbook")
    call_git(clone, "add", "-f", "notes")
    call_git(clone, "commit", "-qm", "entries")
    # The notes stay on disk, as in every notebook, without being part of the code's branch.
    call_git(clone, "symbolic-ref", "HEAD", "refs/heads/main")
    call_git(clone, "reset", "-q")
    call_git(clone, "push", "-q", "origin", "main", "labbook")
    call_git(clone, "fetch", "-q", "origin")
    return clone


def new_entry(notebook, number):
    """Commits one more entry, as the recorder does."""
    from labbook.store.commit.entry_commit import commit_files
    from labbook.store.paths import new_run_id

    run_id = new_run_id(1_796_000_000 + number)
    entry = notebook.paths.entry(run_id)
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text(f"---\nschema: 1\nid: {run_id}\ntitle: run {number}\nstatus: finished\n---\n\nText {number}.\n")
    outcome = commit_files(notebook, [entry], f"run {run_id}\n")
    if outcome.status != "committed":
        raise SystemExit(f"not committed: {outcome}")


def processor_s():
    """Seconds of the processor that this process and its children have used."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(count, address):
    """Returns name -> seconds and processor seconds of each round, and the seconds of a clone and its first list."""
    from labbook.sharing.remote_git import choose_remote
    from labbook.sharing.synchronize import synchronize
    from labbook.store.notebook_finder import find_notebook

    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder) / "git"
        top.mkdir()
        make_clone(top, count)
        tops = [top, Path(folder) / "command", Path(folder) / "inside"]
        for other in tops[1:]:
            shutil.copytree(top, other, symlinks=True)
        notebooks = [find_notebook(each / "clone", chosen=each / "clone", environ={}) for each in tops]
        for each in tops:
            call_git(each / "clone", "config", "remote.origin.url", f"{address}{each.resolve()}/remote.git")
        roots = [notebook.paths.root for notebook in notebooks]

        def bare():
            call_git(roots[0], "fetch", "origin", "+refs/heads/labbook:refs/remotes/origin/labbook")
            call_git(roots[0], "push", "origin", "labbook")

        def command():
            subprocess.run([sys.executable, "-m", "labbook", "sync", "--quiet"], cwd=roots[1], check=True)

        def inside():
            synchronize(choose_remote(notebooks[2]))

        cases = {"git fetch + git push": bare, "labbook sync": command, "the same inside a process": inside}
        times = {name: [] for name in cases}
        for number in range(ROUNDS + 1):
            for notebook, (name, work) in zip(notebooks, cases.items(), strict=True):
                new_entry(notebook, number)
                began, used = time.perf_counter(), processor_s()
                work()
                # The first sync looks at every note once.
                if number:
                    times[name].append((time.perf_counter() - began, processor_s() - used))
        # The entries of the last notebook, as somebody who joins gets them.
        fresh = Path(folder) / "fresh"
        first = []
        for work in (
            ["git", "clone", "-q", f"{address}{tops[2].resolve()}/remote.git", str(fresh)],
            [sys.executable, "-m", "labbook", "list", "--notebook", str(fresh)],
        ):
            began = time.perf_counter()
            subprocess.run(work, check=True, stdout=subprocess.DEVNULL, cwd=folder)
            first.append(time.perf_counter() - began)
        return times, first


@contextlib.contextmanager
def remote_server(place):
    """Yields the address before the absolute path of a repository; empty for a folder on this disk."""
    if place == "http":
        with http_git_server("/") as port:
            yield f"http://127.0.0.1:{port}"
    elif place == "ssh":
        with tempfile.TemporaryDirectory() as folder, ssh_server(Path(folder) / "ssh") as (port, client):
            os.environ["GIT_SSH_COMMAND"] = client
            yield f"ssh://127.0.0.1:{port}"
    elif place:
        with slow_git_daemon(float(place) / 1e3) as address:
            yield address
    else:
        yield ""


def main():
    """Prints medians and ratios."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    place = sys.argv[2] if len(sys.argv) > 2 else ""
    with remote_server(place) as address:
        times, (clone, listed) = measure(count, address)
    medians = {name: [statistics.median(each) for each in zip(*pairs, strict=True)] for name, pairs in times.items()}
    wall, used = next(iter(medians.values()))
    print(f"one new entry on {count:,} entries, median of {ROUNDS}:{'clock':>36}{'processor':>24}")
    for name, (clock, processor) in medians.items():
        print(
            f"   {name:<44} {clock * 1e3:10.1f} ms   x {clock / wall:.2f} "
            f"{processor * 1e3:10.1f} ms   x {processor / used:.2f}"
        )
    print(f"first clone: git clone {clone:.1f} s, then `labbook list`, which writes and indexes all, {listed:.1f} s")


if __name__ == "__main__":
    main()
