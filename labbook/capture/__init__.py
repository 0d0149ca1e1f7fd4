"""Reads the facts of a run: code, command, machine, packages, console, files, resources.

Start with `sources.py`: it calls the capture sources and collects their results. A source is a module with one
function, `capture(context) -> dict`. It receives a `context.CaptureContext` (command, working folder, environment,
notebook, redactor), returns plain JSON data, and raises `Unavailable(reason)` when it has no answer; the entry shows
the reason. A source that fails does not affect the others.

- `code/` reads the user's repository (without one, the script and its modules): commit, branch, uncommitted patch.
- `console/` stores the command's output, bounded and redacted, and reads it back for the entry.
- `command`, `launchers`, `processes`, `exit_cause`: the program, its launchers, its processes and how it ended.
- `python_env`, `conda_env`, `lockfiles`, `requirements`, `reproducibility`: packages, and whether they can be rebuilt.
- `hardware`, `gpus`, `container`, `resources`: the machine, and its use by the run over time.
- `used_files`, `fingerprints`, `metrics_text`, `metric_names`: files read and written, metrics printed.
- `tables/`: metrics in tables that the run wrote, and the tables that `labbook import` reads.

To add a source, write one module here and list it in `sources.py`. Comparing two runs belongs to `compare/`, judging a
training to `health/`, reading the events of the probe to `record/run_from_journal/`. This package imports only
`model/` and `store/`, and starts no program to read the machine.
"""
