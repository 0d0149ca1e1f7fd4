"""Symptom questions in a notebook of 100,000 invented entries, next to `grep -r` over the same notes.

`python -m benchmarks search_many` takes some minutes: it writes half a gigabyte of entries and indexes them.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._interleaved import interleaved, show
from benchmarks._synthetic_notes import write_notes

ENTRIES = 100_000
ROUNDS = 7
GAP_S = 900.0
PASTED = """Traceback (most recent call last):
  File "/home/wei/project/train.py", line 88, in <module>
    loss = criterion(model(x), y)
  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x48 and 32x10)
"""
QUESTIONS = (
    "显存不足",
    "loss 变成 NaN",
    "cuda out of memory",
    "mat1 and mat2 shapes",
    "symptom:cuda_out_of_memory has:fix",
    "family:shape_mismatch",
    "diverged warm-up",
    "数据增强 准确率",
    "the gradient exploded after the warm-up framework:paddle",
)


def main(entries=ENTRIES):
    from labbook.errors import NothingFoundError
    from labbook.findings.search_question import interpret_search
    from labbook.fixes.fix_history import count_symptoms, find_earlier_runs
    from labbook.index.build import refresh
    from labbook.index.query import search
    from labbook.model.finding import Finding
    from labbook.store.notebook_finder import find_notebook

    def asked(words):
        text, subject = interpret_search(book, words)
        try:
            return search(book, text, subject=subject)
        except NothingFoundError:
            return None

    with tempfile.TemporaryDirectory() as top:
        root = Path(top)
        (root / "labbook.toml").write_text('title = "Many"\ncommit = "off"\n')
        write_notes(root, entries, gap_s=GAP_S)
        book = find_notebook(root, chosen=root, environ={})
        began = time.perf_counter()
        refresh(book)
        print(f"   index of {entries} entries, from nothing: {time.perf_counter() - began:.0f} s")
        print(f"   size: {book.paths.index.stat().st_size / 2**20:.0f} MiB")
        # Files written in the last two seconds are read twice, which no reader waits for.
        time.sleep(2.1)
        refresh(book)
        grep = ["grep", "-rni", "out of memory", "notes"]
        cases = {
            "search 'cuda out of memory'": lambda: asked("cuda out of memory"),
            "grep -r": lambda: subprocess.run(grep, cwd=root, stdout=subprocess.DEVNULL, check=True),
        }
        show(interleaved(cases, 3))
        more = {f"search {words}": lambda words=words: asked(words) for words in QUESTIONS}
        more["search a pasted traceback"] = lambda: asked(PASTED)
        findings = [
            Finding("cuda_out_of_memory", "cuda_oom", "memory", 1, "error", "", fingerprint=f"v1:{7:016x}"),
            Finding("loss_printed_nan", "nan_or_inf", "numeric", 1, "error", "", fingerprint=f"v1:{9:016x}"),
        ]
        more["seen before, at the end of a run"] = lambda: find_earlier_runs(book, findings)
        more["counts of all symptoms"] = lambda: count_symptoms(book)
        show(interleaved(more, ROUNDS))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
