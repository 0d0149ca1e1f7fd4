"""Takes the facts of a run that nobody has to type: code, command, machine, packages, console, files, resources.

Start with `sources.py`: it calls the capture sources in turn and collects what they return. A source is a module with
one function, `capture(context) -> dict`. It receives a `context.CaptureContext` (command, working folder, environment,
notebook, redactor), returns plain JSON data, and raises `Unavailable(reason)` when it cannot answer; the reason
then stands in the entry. A source that fails harms no other source.

- `code/` reads the user's repository (or the script beside it where there is none): commit, branch, uncommitted patch.
- `console/` stores what the command prints, bounded and redacted, and reads it back for the entry.
- `command`, `launchers`, `processes`, `exit_cause`: which program ran behind which launcher, and how it ended.
- `python_env`, `conda_env`, `lockfiles`, `requirements`, `reproducibility`: packages, and whether they can be rebuilt.
- `hardware`, `gpus`, `container`, `resources`: the machine, and what the run used of it over time.
- `artifacts`, `fingerprints`, `metrics_text`, `metric_names`: files read and written, metrics printed.

To add a source, write one module here and list it in `sources.py`. What compares two runs belongs to `compare/`, what
judges a training to `health/`, what reads the events of the probe to `record/run_from_journal/`. This room imports
only `model/` and `store/`, and no program is started to read the machine.
"""
