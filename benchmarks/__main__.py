"""Runs all benchmarks, or those named: `python -m benchmarks noop step_cost`.

Without names `health` is left out: it records three hundred trainings and takes half an hour (`make bench-health`).
"""

import importlib
import pkgutil
import sys
import time

import benchmarks


def main():
    every = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    names = sys.argv[1:] or [name for name in every if not name.startswith("_") and name != "health"]
    del sys.argv[1:]  # the names are no options of a benchmark
    for name in names:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        importlib.import_module(f"benchmarks.{name}").main()
        print(f"   ({time.monotonic() - began:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
