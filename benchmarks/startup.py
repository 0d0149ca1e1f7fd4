"""Starting a Python that does nothing, with and without the probe; each installed version that is named.

`LABBOOK_TEST_PYTHONS` may list further interpreters. Budget: the probe adds at most 15 ms.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._interleaved import interleaved, show

ROUNDS = int(os.environ.get("LABBOOK_BENCH_ROUNDS", "40"))
BUDGET_MS = 15.0


def measure(python, journal):
    """Runs `python -c pass` in turn with and without the probe, prints both, and returns what it adds, ms."""
    from labbook.record.child.probe_environment import inject_environment

    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    probed = inject_environment(plain, {"dir": str(journal), "run": "bench", "level": "normal", "budget": 0.01})

    def start(environ):
        return lambda: subprocess.run([python, "-c", "pass"], env=environ, check=True)

    results = interleaved({"python -c pass": start(plain), "the same with the probe": start(probed)}, ROUNDS, warm_up=3)
    show(results)
    (without, _), (with_probe, _) = results.values()
    return (with_probe - without) * 1e3


def main():
    """Prints the added start-up time of this interpreter and of those in `LABBOOK_TEST_PYTHONS`."""
    named = [path for path in re.split(r"[\s:]+", os.environ.get("LABBOOK_TEST_PYTHONS", "")) if path]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "events").mkdir()
        for python in [sys.executable, *named]:
            print(f"   {python}")
            added = measure(python, Path(folder))
            print(f"   the probe adds {added:.1f} ms (budget {BUDGET_MS:.0f} ms)", flush=True)


if __name__ == "__main__":
    main()
