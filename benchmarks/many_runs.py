"""Index, list, search, export and SQL in notebooks of 1,000, 10,000 and more runs, and how the times grow.

`python -m benchmarks.many_runs [LARGEST]`, or the sizes: `python -m benchmarks.many_runs 10000 100000`; 10,000 by
default. Every run has the data of a real one: its front matter is varied, its `run.json` is that of a real run with its
own id and one of 64 sets of values. Beside each time is the processor time of all processes: on a machine that is
shared, only that says something.
"""

import contextlib
import io
import json
import math
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._synthetic_notes import write_notes

ROOT = Path(__file__).resolve().parents[1]
GAP_S = 900.0
ROUNDS = 3
QUERIES = {
    "query: best by option": "SELECT p.value, max(r.metric_best) FROM runs r JOIN params p USING (run)"
    " WHERE p.name = 'lr' GROUP BY ALL",
    "query: all points of a series": "SELECT step, avg(value) FROM series WHERE name = 'loss' GROUP BY step",
}


def add_data(root, run_ids):
    """Writes the `run.json` of each run, from a real one."""
    run = json.loads(min((ROOT / "notes" / "runs").rglob("run.json")).read_text("utf-8"))
    rng = random.Random(0)
    texts = []
    for _ in range(64):
        series = [
            {**each, "values": [round(value * rng.uniform(0.9, 1.1), 8) for value in each["values"]]}
            for each in run["series"]
        ]
        texts.append(json.dumps({**run, "id": "RUN-ID", "series": series}))
    for number, run_id in enumerate(run_ids):
        folder = root / "notes" / "runs" / run_id[:4] / run_id[4:6] / run_id[6:8] / run_id
        folder.mkdir()
        (folder / "run.json").write_text(texts[number % len(texts)].replace("RUN-ID", run_id), "utf-8")


def processor_s():
    """Processor time of this process and of its children that have ended."""
    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in times)


def measure(count):
    """Returns what was done -> seconds and processor seconds, in a new notebook of some runs."""
    from labbook.dataset.dataset_export import export
    from labbook.dataset.notebook_query import run_query
    from labbook.index.build import refresh
    from labbook.index.query import list_notes, search
    from labbook.store.notebook_finder import find_notebook

    times = {}

    def timed(name, work, rounds=1):
        taken = []
        for _ in range(rounds):
            began, used = time.perf_counter(), processor_s()
            work()
            taken.append((time.perf_counter() - began, processor_s() - used))
        times[name] = sorted(taken)[len(taken) // 2]
        print("   {}: {:.3f} s, processor {:.3f} s".format(name, *times[name]), flush=True)

    with tempfile.TemporaryDirectory() as top:
        root = Path(top) / "notebook"
        root.mkdir()
        (root / "labbook.toml").write_text('title = "Many"\ncommit = "off"\n')
        run_ids = write_notes(root, count, gap_s=GAP_S, now=1_795_000_000)
        add_data(root, run_ids)
        book = find_notebook(root, chosen=root, environ={})
        timed("index, from nothing", lambda: refresh(book))
        time.sleep(2.1)  # files of the last two seconds are read twice
        refresh(book)
        timed("list the newest 20", lambda: list_notes(book, limit=20), ROUNDS)
        timed("list status:failed lr<0.05", lambda: list_notes(book, "status:failed lr<0.05", limit=20), ROUNDS)
        timed("search cuda out of memory", lambda: search(book, "cuda out of memory"), ROUNDS)
        target = str(Path(top) / "dataset")
        timed("export, from nothing", lambda: export(book, target))
        timed("export, nothing changed", lambda: export(book, target), ROUNDS)
        page = next(root.rglob(f"{run_ids[-1]}.md"))

        def edit():
            page.write_text(
                re.sub(r"(?m)^title: .*$", f"title: edited {time.time()}", page.read_text("utf-8")), "utf-8"
            )
            refresh(book, [page])
            export(book, target)

        timed("export, one run edited", edit, ROUNDS)
        run_query(book, "SELECT 1")
        for name, sql in QUERIES.items():
            timed(name, lambda sql=sql: run_query(book, sql), ROUNDS)
        command = [sys.executable, "-m", "labbook", "query", QUERIES["query: best by option"]]
        timed(
            "the same as a command",
            lambda: subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL),
            ROUNDS,
        )
        size = sum(path.stat().st_size for path in Path(target).rglob("*.parquet")) / 2**20
    return times, size


def main(*given):
    largest = given[0] if len(given) == 1 else 10_000
    sizes = list(given[1:] and given) or [size for size in (1_000, 10_000, 100_000) if size <= largest] or [largest]
    found = {}
    for size in sizes:
        print(f"{size} runs", flush=True)
        with contextlib.redirect_stderr(io.StringIO()):
            found[size], mib = measure(size)
        print(f"   Parquet files of {mib:.1f} MiB", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {peak:.0f} MiB; processor time of {', '.join(map(str, sizes))} runs:")
    for name in found[sizes[0]]:
        times = [found[size][name][1] for size in sizes]
        growth = ""
        if len(sizes) > 1:
            # The exponent k of time = c * runs^k between the two largest notebooks: 1 is linear, 0 constant.
            power = math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])
            growth = f"   runs^{power:.2f}, so {times[-1] * (1e6 / sizes[-1]) ** max(0.0, power):.4g} s for 10^6"
        line = "  ".join(f"{seconds:9.3f} s" for seconds in times)
        print(f"   {name:32}{line}{growth}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
