"""Looking for words in a notebook of 10,000 invented entries, next to `git grep`, ripgrep and `grep -r`.

The peers only find lines; they neither rank, nor know that 显存不足 and "out of memory" mean the same, nor filter.
"""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks._interleaved import interleaved, show
from benchmarks._synthetic_notes import write_notes

ENTRIES = 10_000
ROUNDS = 9
QUESTIONS = (
    "loss nan",
    "损失 变成 NaN",
    "显存不足",
    '"mat1 and mat2 shapes"',
    "symptom:cuda_out_of_memory framework:paddle",
    "diverged",
)


def asked(book, words):
    from labbook.errors import NothingFoundError
    from labbook.index.query import search

    try:
        return search(book, words)
    except NothingFoundError:
        return None


def peers(root):
    commands = {"git grep": ["git", "grep", "-n", "-i", "--untracked", "out of memory", "--", "notes"]}
    if shutil.which("rg"):
        commands["ripgrep"] = ["rg", "-n", "-i", "out of memory", "notes"]
    commands["grep -r"] = ["grep", "-rni", "out of memory", "notes"]
    return {
        name: lambda command=command: subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL, check=True)
        for name, command in commands.items()
    }


def main():
    from labbook.index.build import refresh
    from labbook.index.query import list_notes
    from labbook.store.notebook_finder import find_notebook

    with tempfile.TemporaryDirectory() as top:
        root = Path(top)
        (root / "labbook.toml").write_text('title = "Ten thousand"\ncommit = "off"\n')
        ids = write_notes(root, ENTRIES)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        book = find_notebook(root, chosen=root, environ={})
        began = time.perf_counter()
        refresh(book)
        print(f"   index of {ENTRIES} entries, from nothing: {time.perf_counter() - began:.1f} s")
        print(f"   size: {book.paths.index.stat().st_size / 2**20:.0f} MiB, {ENTRIES / 1000:.0f} thousand entries")
        # Files written in the last two seconds are read twice, which no reader waits for.
        time.sleep(2.1)
        refresh(book)
        newest = book.paths.entry(ids[-1])
        cases = {"labbook search 'out of memory'": lambda: asked(book, "out of memory"), **peers(root)}
        show(interleaved(cases, ROUNDS))
        more = {f"search {words}": lambda words=words: asked(book, words) for words in QUESTIONS}
        more["list, newest 20"] = lambda: list_notes(book, limit=20)
        more["refresh, nothing changed"] = lambda: refresh(book)
        more["refresh of one entry, named"] = lambda: refresh(book, [newest])
        show(interleaved(more, ROUNDS))


if __name__ == "__main__":
    main()
