"""Runs all benchmarks, or those named: `python -m benchmarks noop step_cost`."""

import importlib
import pkgutil
import sys
import time

import benchmarks


def main():
    names = sys.argv[1:] or sorted(
        module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")
    )
    for name in names:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        importlib.import_module(f"benchmarks.{name}").main()
        print(f"   ({time.monotonic() - began:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
