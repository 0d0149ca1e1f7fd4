"""Runs all benchmarks, or those named: `python -m benchmarks noop step_cost`.

Without names these are left out: `health`, which records three hundred trainings and takes half an hour
(`make bench-health`), `diagnosis` (`make bench-diagnosis`), `site` (`make bench-site`), `many_runs`
(`make bench-team`), and `search_many`, which indexes 100,000 entries first.
"""

import importlib
import pkgutil
import sys
import time

import benchmarks

LONG = ("diagnosis", "health", "many_runs", "search_many", "site")


def main():
    every = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    names = sys.argv[1:] or [name for name in every if not name.startswith("_") and name not in LONG]
    del sys.argv[1:]  # the names are no options of a benchmark
    for name in names:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        importlib.import_module(f"benchmarks.{name}").main()
        print(f"   ({time.monotonic() - began:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
