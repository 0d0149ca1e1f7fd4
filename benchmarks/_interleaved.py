"""Times several things in turn, again and again, so that a noisy machine is noisy for all of them alike."""

import statistics
import time


def interleaved(cases, rounds, warm_up=1):
    """Median seconds of each case, and its ratio to the first.

    Args:
        cases: Name -> callable without arguments; the first is the reference.
        rounds: How often each is timed.
        warm_up: Untimed rounds before.

    Returns:
        Name -> (median seconds, ratio of medians to the reference).
    """
    times = {name: [] for name in cases}
    for round_number in range(warm_up + rounds):
        for name, work in cases.items():
            began = time.perf_counter()
            work()
            if round_number >= warm_up:
                times[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(values) for name, values in times.items()}
    reference = next(iter(medians.values()))
    return {name: (median, median / reference) for name, median in medians.items()}


def show(results, unit="ms", scale=1e3):
    """Prints one line a case."""
    for name, (median, ratio) in results.items():
        print(f"   {name:<44} {median * scale:10.2f} {unit}   x {ratio:.3f}", flush=True)
