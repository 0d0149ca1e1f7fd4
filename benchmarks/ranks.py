"""Ten planted faults of a job with three ranks: does the entry name the odd rank and its line?

    python -m benchmarks.ranks [FAULT ...]

Three recorders run `tests/programs/ranks_torch.py` with gloo and the variables of Slurm, as `srun` would start them. A
hang is stopped by SIGTERM, as at a time limit, when the watchdog has seen it. Prints a table as Markdown.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "programs" / "ranks_torch.py"
ODD = 1
WORLD = 3
LONGEST_S = 150.0

FAULTS = {
    "mismatch": "rank 1 calls `broadcast` where the others call `all_reduce`",
    "skips": "rank 1 skips its `all_reduce` calls in one step",
    "endless": "rank 1 is in an endless loop",
    "out_of_data": "rank 1 has fewer batches",
    "killed": "rank 1 is killed (SIGKILL)",
    "before_init": "rank 1 raises before `init_process_group`",
    "loader": "the data set of rank 1 never returns a sample",
    "shapes": "rank 1 reduces a tensor of another shape",
    "slow": "rank 1 is much slower",
    "nan": "the loss of rank 1 is NaN",
}
"""The faults of `ranks_torch.py`; where a fault has a line, its comment there is `LINE <fault>`."""


def line_of(fault: str) -> int | None:
    """Returns the line that a fault stands at, `None` for one without a line."""
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if line.endswith(f"LINE {fault}")), None)


def run_fault(fault: str, folder: Path) -> tuple[dict, str, float]:
    """Runs one fault; returns the facts of its entry, its text and the seconds."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(folder), "RANKS_STORE": str(folder / "store")}
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    labbook = [sys.executable, "-m", "labbook"]
    subprocess.run([*labbook, "init"], cwd=folder, env=environ, check=True, capture_output=True)
    (folder / "train.py").write_bytes(PROGRAM.read_bytes())
    began = time.monotonic()
    tasks = [
        subprocess.Popen(
            [*labbook, "record", "-q", "--", sys.executable, "train.py", fault],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**environ, "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank),
                 "SLURM_STEP_NUM_TASKS": str(WORLD), "SLURM_NTASKS": str(WORLD)},
        )
        for rank in range(WORLD)
    ]  # fmt: skip
    hung = 0.0
    while any(task.poll() is None for task in tasks) and time.monotonic() - began < LONGEST_S:
        time.sleep(0.5)
        ended = [task.poll() is not None for task in tasks]
        seen = sum(
            '"silence"' in path.read_text(errors="replace") for path in folder.glob(".labbook/runs/*/events/*.jsonl")
        )
        # As `srun --kill-on-bad-exit`, or a time limit after a hang.
        if seen + sum(ended) >= WORLD or any(task.poll() not in (None, 0) for task in tasks):
            hung = hung or time.monotonic()
        if hung and time.monotonic() - hung > 6.0:
            break
    for task in tasks:
        if task.poll() is None:
            task.send_signal(signal.SIGTERM)
    for task in tasks:
        task.wait(60)
    subprocess.run([*labbook, "recover"], cwd=folder, env=environ, capture_output=True, check=False)
    entries = sorted(folder.glob("notes/runs/*/*/*/*.md"))
    assert len(entries) == 1, f"{fault}: {len(entries)} entries"
    facts = json.loads((entries[0].with_suffix("") / "run.json").read_text(encoding="utf-8"))
    return facts, entries[0].read_text(encoding="utf-8"), time.monotonic() - began


def judge(fault: str, facts: dict, text: str) -> tuple[bool, bool, str]:
    """Returns whether the entry names the odd rank, and its line, and the sentence that does."""
    odd = (facts["captured"].get("ranks") or {}).get("odd") or {}
    sentence = next(
        (line.strip("*") for line in text.partition("## Ranks")[2].splitlines() if line.startswith("**")), ""
    )
    rank_named = odd.get("ranks") == [ODD]
    line = line_of(fault)
    where = odd.get("where") or {}
    line_named = line is None or where.get("line") == line
    if fault == "nan" and not rank_named:
        named = [
            check
            for check in facts["checks"]
            if check["verdict"] in ("fail", "warn") and check["where"].get("rank") == ODD
        ]
        rank_named, sentence = bool(named), named[0]["title"] if named else sentence
    return rank_named, line_named, sentence


def main(chosen: list[str]) -> None:
    """Prints the table."""
    print("| fault | rank | line | seconds | the entry says |\n|---|---|---|---|---|")
    found = 0
    for fault in chosen or FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            facts, text, seconds = run_fault(fault, Path(folder))
        rank, line, sentence = judge(fault, facts, text)
        found += rank and line
        print(
            f"| {FAULTS[fault]} | {'yes' if rank else 'no'} | {'yes' if line else 'no'} | {seconds:.0f} | {sentence} |",
            flush=True,
        )
    print(f"\n{found} of {len(chosen or FAULTS)} named")


if __name__ == "__main__":
    main(sys.argv[1:])
