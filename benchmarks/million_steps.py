"""A recorded run of a million cheap steps: the journal, the memory of program and recorder, and the entry stay bounded.

    python -m benchmarks.million_steps [--steps 1000000] [--level normal] [--epoch 1000]

Trains a model of a few numbers, evaluates it and logs a number once an epoch, under `labbook record`, in a notebook of
its own. Printed are sizes at tenths of the run, and of what is left in the end.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import os, sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
steps, epoch, report = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
x, y = torch.randn(8, 4), torch.randn(8, 1)
for step in range(1, steps + 1):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    if step % epoch == 0:
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                torch.nn.functional.mse_loss(model(x), y)
        model.train()
    if step % (steps // 10) == 0:
        print("step", step, "loss", loss.item(), flush=True)
        with open("/proc/self/statm") as stream:
            resident = int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        with open(report, "a") as stream:
            print(step, resident, file=stream)
"""


def resident_bytes(pid):
    """Resident memory of a process, 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def size_of(folder, pattern="*"):
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file())


def sizes(notebook):
    """`(bytes of the journals, bytes of the notes)`."""
    journals = size_of(notebook / ".labbook") if (notebook / ".labbook").is_dir() else 0
    return journals, size_of(notebook / "notes")


def measure(steps, epoch, level, every_s=0.2):
    """Records the run; rows of (step, program's memory, recorder's memory, journal), the exit code, and the folder."""
    top = Path(tempfile.mkdtemp())
    notebook, report, program = top / "notebook", top / "report", top / "train.py"
    program.write_text(PROGRAM)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("LABBOOK")}
    environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    labbook = [sys.executable, "-m", "labbook"]
    notebook.mkdir()
    subprocess.run([*labbook, "init", str(notebook)], env=environ, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    command = [sys.executable, str(program), str(steps), str(epoch), str(report)]
    recorder = subprocess.Popen(
        [*labbook, "record", "--notebook", str(notebook), "--debug", level, "--", *command],
        env=dict(environ, PYTHONPATH=str(ROOT)),
        cwd=top,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    rows, peak = [], 0
    while recorder.poll() is None:
        time.sleep(every_s)
        mine = resident_bytes(recorder.pid)
        peak = max(peak, mine)
        told = report.read_text().splitlines() if report.exists() else []
        for line in told[len(rows) :]:
            step, resident = map(int, line.split())
            rows.append((step, resident, mine, sizes(notebook)[0]))
    return rows, recorder.returncode, notebook, peak


def main(arguments=()):
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--epoch", type=int, default=1000)
    parser.add_argument("--level", default="normal", choices=["light", "normal", "deep"])
    options = parser.parse_args(arguments)
    began = time.monotonic()
    rows, status, notebook, peak = measure(options.steps, options.epoch, options.level)
    for step, program, recorder, journal in rows:
        print(
            f"   step {step:9,}: program {program / 1e6:6.1f} MB, recorder {recorder / 1e6:6.1f} MB, "
            f"journal {journal / 1e6:6.2f} MB",
            flush=True,
        )
    kinds = {}
    for path in notebook.rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            kind = json.loads(line)["k"] if line.startswith('{"v"') else "other"
            count, total = kinds.get(kind, (0, 0))
            kinds[kind] = (count + 1, total + len(line))
    for kind, (count, total) in sorted(kinds.items(), key=lambda item: -item[1][1])[:6]:
        print(f"   {kind:12} {count:6} events, {total / 1e6:6.2f} MB")
    entry = max((path.stat().st_size for path in (notebook / "notes").rglob("*.md")), default=0)
    print(
        f"   exit status {status}, entry {entry / 1e3:.0f} kB, notes {sizes(notebook)[1] / 1e6:.2f} MB, "
        f"recorder at most {peak / 1e6:.0f} MB, {time.monotonic() - began:.0f} s in all"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
