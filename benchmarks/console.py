"""How fast output reaches the screen, and how much memory that takes: `python benchmarks/console.py [--full]`.

Three copy the same output in turn, several times: the program alone (through `cat` where it goes to a pipe), `script`
(a whole terminal, no redaction) and labbook's recorder, into a terminal and into a pipe. Printed are the rates until
the last byte was on the screen, their ratios to the program alone, and the peak memory of recorder and pump. `--full`
takes 1 GiB instead of 64 MiB.
"""

from __future__ import annotations

import argparse
import os
import pty
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tty
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDER = ROOT / "tests" / "programs" / "record_child.py"
PROGRAM = """
import sys
line = b"epoch %05d step %06d  loss 0.%04d  lr 0.001  1234.5 samples/s\\n"
write = sys.stdout.buffer.write
left = int(sys.argv[1])
n = 0
while left > 0:
    block = b"".join(line % (n // 1000, k, k % 9973) for k in range(n, n + 1000)) * 16
    write(block); left -= len(block); n += 1000
sys.stdout.flush()
"""


def copy_time(command: list[str], terminal: bool) -> tuple[float, int, dict[str, float]]:
    """Seconds from the first to the last byte on the screen, their number, and peak memory by process (MiB)."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    if terminal:
        tty.setraw(writing)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing)
    os.close(writing)
    first, last, count, peaks = 0.0, 0.0, 0, {}
    try:
        while data := os.read(reading, 1 << 20):
            last = time.perf_counter()
            first = first or last
            if count >> 26 != (count + len(data)) >> 26:
                peaks = peak_memory(process.pid)
            count += len(data)
    except OSError:
        pass
    os.close(reading)
    process.wait()
    return last - first, count, peaks


def peak_memory(pid: int) -> dict[str, float]:
    """Peak resident memory of a process and of its children of the same name, in MiB."""
    found = {}
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for name, one in [("recorder", pid), *(("child", int(child)) for child in children)]:
            status = Path(f"/proc/{one}/status").read_text()
            if name == "recorder" or str(RECORDER) in Path(f"/proc/{one}/cmdline").read_text():
                found["pump" if name == "child" else name] = int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return {}
    return found


def commands(size: int, folder: Path, terminal: bool) -> dict[str, list[str]]:
    program = [sys.executable, "-c", PROGRAM, str(size)]
    joined = " ".join(map(shlex.quote, program))
    found = {
        "alone": program if terminal else ["sh", "-c", f"{joined} | cat"],
        "labbook": [sys.executable, str(RECORDER), str(folder / "console"), "--", *program],
    }
    if shutil.which("script"):
        found["script"] = ["script", "-qec", joined, str(folder / "typescript")]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="1 GiB")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    size = (1 << 30) if options.full else (64 << 20)
    for terminal in (True, False):
        times: dict[str, list[float]] = {}
        ratios: dict[str, list[float]] = {}
        peaks: dict[str, float] = {}
        for _ in range(1 if options.full else options.rounds):
            for name in commands(size, Path(), terminal):
                with tempfile.TemporaryDirectory() as folder:
                    taken, count, memory = copy_time(commands(size, Path(folder), terminal)[name], terminal)
                assert count >= size, f"{name}: {count} of {size} bytes arrived"
                times.setdefault(name, []).append(taken)
                ratios.setdefault(name, []).append(taken / times["alone"][-1])
                if name == "labbook":
                    peaks = {key: max(value, peaks.get(key, 0.0)) for key, value in memory.items()}
        print(f"{size >> 20} MiB to a {'terminal' if terminal else 'pipe'}")
        for name, taken in times.items():
            rate = size / 1e6 / statistics.median(taken)
            print(f"  {name:8} {rate:7.0f} MB/s   {statistics.median(ratios[name]):5.2f} x alone")
        print("  peak memory of labbook: " + ", ".join(f"{name} {value:.0f} MiB" for name, value in peaks.items()))


if __name__ == "__main__":
    main()
