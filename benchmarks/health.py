"""The health checklist over the programs of `tests/programs/health`: what it finds, and what it wrongly says.

Records every program without any change to it, two at a time (LABBOOK_BENCH_AT_ONCE), and prints recall by
check, alarms on healthy programs, names that are wrong, and the step at which a fault was seen.

    python -m benchmarks.health              the few that the tests use
    python -m benchmarks.health all          everything (about half an hour on two cores)
    python -m benchmarks.health faulty       the planted faults without their twins; also: twins
    python -m benchmarks.health odd          all whose id contains "odd"; several words are alternatives
    python -m benchmarks.health all --json results.jsonl     also writes a line a case, as they end

LABBOOK_BENCH_PYTHON=/other/bin/python runs the programs with another Python and its version of a framework.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "programs" / "health"
AT_ONCE = int(os.environ.get("LABBOOK_BENCH_AT_ONCE", "2"))
TIMEOUT_S = 240
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GIT_CONFIG_NOSYSTEM": "1"}


def load_cases():
    """The module `cases` beside the programs."""
    spec = importlib.util.spec_from_file_location("health_cases", PROGRAMS / "cases.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Result:
    """What labbook said of one case; `rows` are those of the checklist."""

    case: object
    seconds: float = 0.0
    exit_code: int | None = None
    rows: list[dict] = field(default_factory=list)
    trouble: str = ""

    def said(self, verdicts=("fail", "warn")):
        return [row for row in self.rows if row["verdict"] in verdicts]

    def ids(self):
        """Ids that were named; a note counts only where the catalogue allows no more than a note."""
        return {row["id"] for row in self.said()} | {row["id"] for row in self.said(("note",)) if row["tier"] == 3}

    def named(self):
        return bool(self.ids() & {*self.case.expected, *self.case.instead})

    def wrong(self):
        """Rows that are neither the fault, nor a known consequence, nor told as an effect of something."""
        right = {*self.case.expected, *self.case.instead, *self.case.allowed}
        return [row for row in self.said() if row["id"] not in right and not row.get("explained_by")]

    def step(self):
        """The first step at which the fault was seen, where the row tells one."""
        names = {*self.case.expected, *self.case.instead}
        steps = [row["where"].get("step") for row in self.said() if row["id"] in names and row.get("where")]
        return min((step for step in steps if isinstance(step, int)), default=None)


def record(case, folder):
    """Runs a case under labbook in the notebook `folder`."""
    environment = {**os.environ, **ONE_THREAD, "HOME": str(folder), "GIT_CONFIG_GLOBAL": str(folder / ".gitconfig")}
    labbook = [sys.executable, "-m", "labbook"]
    began = time.monotonic()
    result = Result(case)
    try:
        done = subprocess.run(
            [*labbook, "record", "--quiet", "--no-commit", "--", *case.command],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        result.exit_code = done.returncode
        shown = subprocess.run(
            [*labbook, "show", "last", "--json"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        facts = json.loads(shown.stdout)
        result.rows = facts["checks"]
        if done.returncode:
            result.trouble = f"exit status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
        elif list(facts["argv"][-2:]) != case.command[-2:]:
            result.trouble = "its run is not the last one of the notebook"
    except (subprocess.TimeoutExpired, ValueError, KeyError) as error:
        result.trouble = f"{type(error).__name__}: {str(error)[:200]}"
    result.seconds = time.monotonic() - began
    return result


def record_all(cases, top, told):
    """Results in the order of `cases`; prints a character a case and gives each result to `told`."""
    notebooks = SimpleQueue()
    for number in range(AT_ONCE):
        folder = top / f"notebook{number}"
        folder.mkdir()
        subprocess.run([sys.executable, "-m", "labbook", "init"], cwd=folder, check=True, capture_output=True)
        notebooks.put(folder)

    def work(case):
        folder = notebooks.get()
        try:
            result = record(case, folder)
        finally:
            notebooks.put(folder)
        print(mark(result), end="", flush=True)
        told(result)
        return result

    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(work, cases))
    print()
    return results


def mark(result):
    """One character: `.` as it should be, `-` fault not named, `w` something wrong said, `!` trouble."""
    if result.trouble:
        return "!"
    if not result.case.healthy and not result.named():
        return "-"
    return "w" if result.wrong() else "."


def show_recall(results):
    table = defaultdict(lambda: defaultdict(list))
    for result in results:
        for name in result.case.expected:
            table[name][result.case.framework].append(name in result.ids())
    print("\nrecall by check (named by exactly this id / planted)")
    for name in sorted(table):
        parts = [f"{kind} {sum(hits)}/{len(hits)}" for kind, hits in sorted(table[name].items())]
        missed = "" if all(all(hits) for hits in table[name].values()) else "   <-"
        print(f"   {name:<36} {'   '.join(parts)}{missed}")
    planted = sum(len(hits) for kinds in table.values() for hits in kinds.values())
    exact = sum(sum(hits) for kinds in table.values() for hits in kinds.values())
    named = sum(result.named() for result in results)
    print(f"   exactly: {exact}/{planted}; named by it or by an equal name: {named}/{len(results)} programs")
    for result in results:
        if not result.named():
            said = " ".join(sorted(row["id"] for row in result.said())) or "nothing"
            print(f"   not named: {result.case.id} ({' '.join(result.case.expected)}); said: {said}")


def show_false_alarms(title, results):
    rows = [(result, row) for result in results for row in result.said()]
    fails = sum(row["verdict"] == "fail" for _, row in rows)
    if results:
        rate = len(rows) / len(results)
        print(f"\n{title}: {fails} fail, {len(rows) - fails} warn in {len(results)} runs ({rate:.3f} a run)")
    for result, row in rows:
        cause = f" (explained by {row['explained_by']})" if row.get("explained_by") else ""
        print(f"   {row['verdict']} {row['id']}{cause}: {result.case.id}: {row['observed'][:90]}")


def show_wrong(results):
    wrong = [(result, row) for result in results for row in result.wrong()]
    print(f"\nwrong names in faulty programs: {len(wrong)} in {len(results)} runs")
    for result, row in wrong:
        print(f"   {row['verdict']} {row['id']}: {result.case.id}: {row['observed'][:90]}")


def show_steps(results):
    steps = {result.case.id: result.step() for result in results if result.named()}
    known = sorted(step for step in steps.values() if step is not None)
    if known:
        print(f"\nstep of detection: known for {len(known)} of {len(steps)}; ", end="")
        print(f"median {statistics.median(known):.0f}, last {known[-1]}")


def chosen(module, words):
    if not words:
        return [case for case in module.CASES if case.id in module.FAST]
    return [case for case in module.CASES if any(word in case.id or word in kinds(case) for word in words)]


def kinds(case):
    """The words that stand for many cases."""
    return ("all", "twins" if case.twin else "odd" if case.healthy else "faulty")


def main(arguments=()):
    words = list(arguments)
    target = None
    if "--json" in words:
        place = words.index("--json")
        target = Path(words[place + 1])
        del words[place : place + 2]
    cases = chosen(load_cases(), words)
    if not cases:
        sys.exit(f"no case is named by {' '.join(words)}; words are parts of a case's name, all, faulty, twins, odd")

    def told(result):
        if target:
            line = {"id": result.case.id, "seconds": result.seconds, "trouble": result.trouble, "checks": result.rows}
            with target.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    with tempfile.TemporaryDirectory() as top:
        results = record_all(cases, Path(top), told)
    faulty = [result for result in results if not result.case.healthy]
    show_recall(faulty)
    show_false_alarms("alarms on healthy but odd programs", [r for r in results if r.case.healthy and not r.case.twin])
    show_false_alarms("alarms on corrected twins", [r for r in results if r.case.twin])
    show_wrong(faulty)
    show_steps(faulty)
    for result in results:
        if result.trouble:
            print(f"   trouble: {result.case.id}: {result.trouble}")
    print(f"   slowest: {max(results, key=lambda r: r.seconds).case.id} {max(r.seconds for r in results):.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
