"""How fast a long log is read for a diagnosis: a healthy one of 100 MB with three tracebacks in it.

    python -m benchmarks.reading_logs [megabytes]

Prints MB/s of the reader beside a plain loop over lines that looks for five words, in one interleaved run, and how much
memory the reader needed.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Iterator

from labbook.diagnosis.text.log_reader import read_stream

_HEALTHY = (
    "2026-03-04 10:{m:02d}:{s:02d},123 - trainer - INFO - epoch {e} step {n} "
    "loss: {l:.4f} error_rate: 0.{s:02d} lr 0.001\n"
    "Epoch {e}:  {p}%|#####     | {n}/90000 [00:41<00:50, 10.87it/s, loss={l:.3f}, nan_count=0]\r"
    "validation finished with 0 errors, information gain 0.31, saved to runs/model_{n}.pt\n"
    '{{"step": {n}, "loss": {l:.5f}, "grad_norm": 1.{s:02d}, "time": 0.031}}\n'
)
_TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line {line}, in main\n'
    "    loss = step(batch)\n"
    '  File "model.py", line 12, in forward\n'
    "    return self.head(x)\n"
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x{line} and 10x2)\n"
)
_WORDS = ("error", "exception", "traceback", "killed", "nan")


def log(megabytes: int) -> Iterator[bytes]:
    """Blocks of about a megabyte; never twice the same line."""
    failing = {megabytes // 4, megabytes // 2, megabytes - 1}
    number = 0
    for block in range(megabytes):
        lines, size = [], 0
        while size < 1 << 20:
            number += 1
            at = {"m": number % 60, "s": number % 60, "e": number // 9000, "n": number, "p": number % 100}
            text = _HEALTHY.format(**at, l=2 / (1 + number))
            lines.append(text)
            size += len(text)
        if block in failing:
            lines.insert(len(lines) // 2, _TRACEBACK.format(line=block + 1))
        yield "".join(lines).encode()


def plain_loop(blocks: list[bytes]) -> int:
    """What a short script does: each line, five words."""
    return sum(any(word in line.lower() for word in _WORDS) for block in blocks for line in block.decode().split("\n"))


def main(megabytes: int = 100) -> None:
    """Prints the figures."""
    blocks = list(log(megabytes))
    size = sum(map(len, blocks)) / 1e6
    times: dict[str, list[float]] = {"reader": [], "plain loop": []}
    raised = hits = 0
    for _ in range(3):
        start = time.perf_counter()
        raised = len(read_stream(blocks).exceptions)
        times["reader"].append(time.perf_counter() - start)
        start = time.perf_counter()
        hits = plain_loop(blocks)
        times["plain loop"].append(time.perf_counter() - start)
    for name, seconds in times.items():
        print(f"{name:12} {size / min(seconds):7.1f} MB/s  {min(seconds):6.2f} s for {size:.0f} MB")
    print(f"reader / plain loop: {min(times['reader']) / min(times['plain loop']):.2f}")
    print(f"exceptions found: {raised} of {min(megabytes, 3)}; lines the plain loop took: {hits}")
    del blocks
    tracemalloc.start()
    read_stream(log(min(megabytes, 20)))
    print(f"peak memory of the reader: {tracemalloc.get_traced_memory()[1] / 1e6:.0f} MB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
