"""Committing one entry to a repository of 1,000 and of 20,000 files: labbook, `git add && git commit`, GitPython."""

import itertools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks._interleaved import interleaved, show

SIZES = tuple(int(size) for size in os.environ.get("LABBOOK_BENCH_FILES", "1000,20000").split(","))
ROUNDS = int(os.environ.get("LABBOOK_BENCH_ROUNDS", "7"))
ENTRY = "# An entry\n\n" + "A line of text as it stands in an entry.\n" * 200


def git(folder, *arguments, data=None):
    subprocess.run(["git", *arguments], cwd=folder, input=data, check=True, capture_output=True)


def repository(folder, files):
    """A repository with that many small files, 25 in each of its folders `YYYY/MM/DD`."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "bench")
    git(folder, "config", "user.email", "bench@localhost")
    stream = [b"commit refs/heads/main\ncommitter b <b@localhost> 1700000000 +0000\ndata 1\nx\n"]
    for number in range(files):
        day = number // 25
        path = f"notes/runs/{2020 + day // 336}/{day // 28 % 12 + 1:02d}/{day % 28 + 1:02d}/{number}.md"
        stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(str(number)), str(number).encode()))
    git(folder, "fast-import", "--quiet", data=b"".join(stream))
    git(folder, "reset", "-q", "--hard")
    return folder


def cases(top, files):
    from labbook.store.commit.entry_commit import commit_files
    from labbook.store.notebook_finder import find_notebook

    first = repository(top / f"first-{files}", files)
    count = itertools.count()

    def place(name):
        return Path(shutil.copytree(first, top / f"{name}-{files}", symlinks=True))

    def entry(folder):
        path = folder / "notes/runs/2099/01/01" / f"{next(count)}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ENTRY + path.name)
        return path

    def labbook(mode):
        folder = place(mode)
        (folder / "labbook.toml").write_text(f'commit = "{mode}"\n')
        notebook = find_notebook(folder, environ={})

        def commit():
            outcome = commit_files(notebook, [entry(folder)], "entry")
            assert outcome.status == "committed", outcome

        return commit

    def porcelain():
        git(plain, "add", "--", str(entry(plain)))
        git(plain, "commit", "-qm", "entry")

    def gitpython():
        repo.index.add([str(entry(python))])
        repo.index.commit("entry")

    import git as library

    plain, python = place("porcelain"), place("gitpython")
    repo = library.Repo(python)
    found = {
        "labbook, own branch": labbook("branch"),
        "labbook, checked-out branch": labbook("checkout"),
        "git add && git commit": porcelain,
        "GitPython index.add + commit": gitpython,
    }
    return found, repo


def main():
    for files in SIZES:
        with tempfile.TemporaryDirectory() as top:
            found, repo = cases(Path(top), files)
            print(f"   {files} files")
            show(interleaved(found, ROUNDS))
            repo.close()


if __name__ == "__main__":
    main()
